// One open thread: opens it, goes on after a reconnect exactly where it was, pages
// backwards, and feeds the fold. Knows the line and the fold, not the page: what
// changed is told to its listener.
import { Fold } from './fold.js';

/**
 * @typedef {import('./wire.js').Thread} Thread
 * @typedef {import('./wire.js').OpenReply} OpenReply
 * @typedef {import('./wire.js').Push} Push
 * @typedef {{request: (type: string, fields: Record<string, unknown>) => Promise<any>}} Asker
 * @typedef {object} Listener
 * @property {() => void} onLog the view changed
 * @property {(thread: Thread) => void} onThread what is known of the thread changed
 * @property {(turnId: string, text: string) => void} onText text was appended
 * @property {(turnId: string) => void} onStream the streamed part changed otherwise
 * @property {(error: any) => void} onError opening failed; what is retryable is tried again
 */

const WINDOW = 100;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30_000;

export class OpenThread {
  /**
   * @param {string} threadId
   * @param {Asker} line
   * @param {Listener} listener
   * @param {{pause?: (ms: number) => Promise<void>}} [options]
   */
  constructor(threadId, line, listener, options = {}) {
    this.threadId = threadId;
    this.line = line;
    this.listener = listener;
    this.pause = options.pause ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms)));
    /** How often opening was refused in a row. */
    this.refusals = 0;
    this.fold = new Fold();
    /** @type {Thread | null} */
    this.thread = null;
    this.opened = false;
    this.closed = false;
    this.hasOlder = false;
    /** @type {Promise<void> | null} a resume under way */
    this.resuming = null;
    this.again = false;
    this.loadingOlder = false;
  }

  /**
   * Asks for what is missing: the newest window at first, later everything after
   * the last known event and byte. One at a time; asked meanwhile, it runs once
   * more. Never rejects.
   * @returns {Promise<void>}
   */
  resume() {
    if (this.resuming) {
      this.again = true;
      return this.resuming;
    }
    this.resuming = this.catchUp().catch((error) => this.failed(error)).finally(() => {
      this.resuming = null;
      if (!this.again || this.closed) return;
      this.again = false;
      void this.resume();
    });
    return this.resuming;
  }

  async catchUp() {
    for (let fromStart = false; !this.closed;) {
      const known = this.opened ? this.fold.latestSeq : 0;
      const active = this.fold.view().active;
      /** @type {Record<string, unknown>} */
      const ask = { threadId: this.threadId, html: true };
      if (this.opened) ask.sinceSeq = known;
      else ask.window = WINDOW;
      if (active && this.opened) {
        ask.turn = { turnId: active.turnId, offset: fromStart ? 0 : this.fold.stream(active.turnId).next };
      }
      /** @type {OpenReply} */
      const reply = await this.line.request('thread.open', ask);
      if (this.closed) return;
      const gap = this.applyReply(reply);
      if (this.opened && reply.more && ask.sinceSeq !== undefined) {
        if (this.fold.latestSeq > known) continue;
      }
      if (!this.opened) this.hasOlder = reply.more;
      this.opened = true;
      this.refusals = 0;
      if (!gap || fromStart) break;
      fromStart = true;
    }
    await this.findWaiting();
  }

  /** @param {OpenReply} reply */
  applyReply(reply) {
    this.thread = reply.thread;
    this.fold.apply(reply.events);
    let gap = false;
    if (reply.turn) {
      ({ gap } = this.fold.snapshot(reply.turn));
      this.listener.onStream(reply.turn.turnId);
    }
    this.listener.onThread(reply.thread);
    this.listener.onLog();
    return gap;
  }

  /** Messages may wait for so long that they, or what orders them, stand before the window. */
  async findWaiting() {
    for (let page = 0; page < 5; page++) {
      const { waiting } = this.fold.view();
      const whole = waiting.length >= (this.thread?.waiting ?? 0) && waiting.every((message) => message.rooted);
      if (whole || !this.hasOlder) return;
      await this.older();
    }
  }

  /** Loads the page before the first known event. */
  async older() {
    if (this.loadingOlder || !this.hasOlder) return;
    this.loadingOlder = true;
    try {
      const reply = await this.line.request('thread.open', {
        threadId: this.threadId, before: this.fold.firstSeq, window: WINDOW, html: true,
      });
      if (this.closed) return;
      this.hasOlder = reply.more && reply.events.length > 0;
      if (this.fold.apply(reply.events)) this.listener.onLog();
    } finally {
      this.loadingOlder = false;
    }
  }

  /** @param {any} error */
  failed(error) {
    if (this.closed || error?.code === 'disconnected') return;
    // What is tried again is told once.
    if (this.refusals === 0 || !error?.retryable) this.listener.onError(error);
    if (!error?.retryable) return;
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** this.refusals);
    this.refusals++;
    void this.pause(Math.max(error.retryAfterMs ?? 0, pause)).then(() => {
      if (!this.closed) void this.resume();
    });
  }

  /** The server's log may have lost something: nothing known counts. */
  forget() {
    this.fold = new Fold();
    this.opened = false;
  }

  close() {
    this.closed = true;
    this.line.request('thread.close', { threadId: this.threadId }).catch(() => {});
  }

  /** @param {Push} push of this thread */
  push(push) {
    switch (push.type) {
      case 'thread.events':
        if (this.fold.apply(push.events ?? [])) this.listener.onLog();
        return;
      case 'turn.delta': {
        const known = this.fold.streams.has(push.turnId);
        const { text, gap } = this.fold.delta(/** @type {any} */ (push));
        if (gap) void this.resume();
        else if (!known) this.listener.onLog();
        else if (text) this.listener.onText(push.turnId, text);
        return;
      }
      case 'turn.block':
        if (this.fold.block(/** @type {any} */ (push))) this.listener.onStream(push.turnId);
        return;
      case 'turn.state':
        if (this.fold.state(/** @type {any} */ (push))) this.listener.onLog();
        return;
      case 'turn.retract':
        this.fold.retract(push.turnId);
        this.listener.onStream(push.turnId);
        this.listener.onLog();
    }
  }
}
