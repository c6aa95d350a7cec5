// A scripted gateway for the modules that speak to one: sockets that the test
// opens, answers and cuts by hand, and a clock that it turns.

export class FakeSocket {
  /** @param {string} url @param {string} protocol */
  constructor(url, protocol) {
    this.url = url;
    this.protocol = protocol;
    this.readyState = 0;
    /** @type {any[]} the commands said on this socket, in order */
    this.said = [];
    /** @type {any} */ this.onopen = null;
    /** @type {any} */ this.onmessage = null;
    /** @type {any} */ this.onclose = null;
    /** @type {any} */ this.onerror = null;
  }

  /** @param {string} data */
  send(data) {
    this.said.push(JSON.parse(data));
  }

  close(code = 1000) {
    this.cut(code);
  }

  /** The server's side. @param {any} frame */
  push(frame) {
    this.onmessage?.({ data: typeof frame === 'string' ? frame : JSON.stringify(frame) });
  }

  welcome(extra = {}) {
    this.readyState = 1;
    this.onopen?.({});
    this.push({ type: 'welcome', protocol: 'fairlead.client.v1', epoch: 'e1', limits: { frameBytes: 2000 }, pingMs: 25_000, ...extra });
  }

  /** Answers the newest command of a type. @param {string} type @param {any} reply */
  answer(type, reply) {
    const command = this.command(type);
    this.push({ re: command.id, ok: true, ...reply });
  }

  /** @param {string} type @param {any} error */
  refuse(type, error) {
    this.push({ re: this.command(type).id, ok: false, error });
  }

  /** @param {string} type */
  command(type) {
    const command = this.said.findLast((one) => one.type === type);
    if (!command) throw new Error(`no ${type} was said`);
    return command;
  }

  /** @param {number} code */
  cut(code) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

export class FakeClock {
  constructor() {
    this.now = 0;
    /** @type {{at: number, fn: () => void}[]} */
    this.timers = [];
  }

  /** @param {() => void} fn @param {number} ms */
  set(fn, ms) {
    const timer = { at: this.now + ms, fn };
    this.timers.push(timer);
    return timer;
  }

  /** @param {any} timer */
  clear(timer) {
    this.timers = this.timers.filter((one) => one !== timer);
  }

  /** @param {number} ms */
  turn(ms) {
    const end = this.now + ms;
    for (;;) {
      const due = this.timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.now = due.at;
      this.clear(due);
      due.fn();
    }
    this.now = end;
  }
}

/** Lets promises settle. */
export async function settle() {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

/** localStorage for a test. @returns {Storage} */
export function memoryStorage() {
  const map = new Map();
  return /** @type {any} */ ({
    getItem: (/** @type {string} */ key) => map.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => map.set(key, value),
    removeItem: (/** @type {string} */ key) => map.delete(key),
  });
}
