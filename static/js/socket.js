// The line to the gateway: dials, speaks frames, comes back after a loss and
// says again what was not answered, under the same ids. What a page must do
// itself after a reconnect (open its thread from the last known position) it
// does in onLive; what a command needs to happen once is its clientEventId.
import { CommandError, PROTOCOL, readFrame, uuid } from './wire.js';

/**
 * What a close code asks of the client (protocol.md §1).
 * @typedef {'back' | 'later' | 'at once' | 'login' | 'stay'} After
 * @type {Record<number, After>}
 */
export const CLOSE_CODES = {
  1001: 'back', // restarting or shutting down
  1012: 'back',
  4400: 'stay', // misuse
  4401: 'login',
  4403: 'stay', // origin or scope refused
  4408: 'at once', // read too slowly; nothing is lost
  4409: 'stay', // superseded
  4413: 'back', // frame too large
  4429: 'later', // too many commands
};

const FIRST_DELAY = 400;
const LONGEST_DELAY = 20_000;
const LATER_DELAY = 20_000;
const DEFAULT_PING = 25_000;
const PONG_WITHIN = 10_000;

/**
 * @typedef {'connecting' | 'live' | 'waiting' | 'ended' | 'stopped'} LineState
 * @typedef {{frame: string, id: string, keep: boolean, sent: boolean, resolve: (reply: any) => void,
 *   reject: (error: CommandError) => void}} Pending
 * @typedef {{send(data: string): void, close(code?: number, reason?: string): void, readyState: number,
 *   onopen: any, onmessage: any, onclose: any, onerror: any}} SocketLike
 * @typedef {object} LineOptions
 * @property {string} url
 * @property {(url: string, protocol: string) => SocketLike} [dial]
 * @property {(push: import('./wire.js').Push) => void} onPush
 * @property {(state: LineState, detail: {code?: number, retryInMs?: number}) => void} [onState]
 * @property {(welcome: import('./wire.js').Push, again: boolean) => void} [onLive]
 * @property {() => Promise<'ended' | 'refused' | 'unknown'>} [probe] asks why the door is shut
 * @property {() => number} [random]
 * @property {{set(fn: () => void, ms: number): any, clear(timer: any): void}} [clock]
 */

export class Line {
  /** @param {LineOptions} options */
  constructor(options) {
    this.options = options;
    this.dial = options.dial ?? ((url, protocol) => new WebSocket(url, protocol));
    this.random = options.random ?? Math.random;
    this.clock = options.clock ?? { set: (fn, ms) => setTimeout(fn, ms), clear: (t) => clearTimeout(t) };
    /** @type {Map<string, Pending>} in the order in which they were said */
    this.pending = new Map();
    /** @type {LineState} */
    this.state = 'connecting';
    /** @type {SocketLike | null} */
    this.socket = null;
    this.welcomed = false;
    this.everLive = false;
    this.tries = 0;
    this.goawayMs = -1;
    this.epoch = '';
    this.frameBytes = 1 << 20;
    /** @type {any} */ this.retryTimer = null;
    /** @type {any} */ this.pingTimer = null;
    /** @type {any} */ this.pongTimer = null;
    this.pingMs = DEFAULT_PING;
  }

  /** Dials, unless a socket is open or being opened. */
  open() {
    if (this.socket || this.state === 'ended' || this.state === 'stopped') return;
    this.clock.clear(this.retryTimer);
    this.welcomed = false;
    this.setState('connecting', {});
    const socket = this.dial(this.options.url, PROTOCOL);
    this.socket = socket;
    socket.onmessage = (/** @type {{data: unknown}} */ message) => {
      if (this.socket === socket) this.receive(message.data);
    };
    socket.onclose = (/** @type {{code: number}} */ close) => {
      if (this.socket === socket) this.lost(close.code);
    };
    socket.onerror = () => {};
  }

  /**
   * Tries now instead of later: the network is back, the tab is looked at. A line
   * that seems to live is asked: it may have died while the machine slept.
   */
  wake() {
    if (this.state === 'waiting') this.open();
    else if (this.welcomed) this.ping();
  }

  /** Ends the line for good; nothing is sent again from this page. */
  end() {
    this.setState('stopped', {});
    this.stopTimers();
    this.socket?.close(1000);
    this.socket = null;
  }

  /**
   * Says a command until it is answered, over as many connections as it takes.
   * Only for commands that may be said twice: those with an id of the client's, and
   * those that set a state.
   * @param {string} type
   * @param {Record<string, unknown>} fields
   * @returns {Promise<any>}
   */
  command(type, fields) {
    return this.say(type, fields, true);
  }

  /**
   * Asks once. If the connection is lost or absent the answer is a CommandError
   * with code "disconnected"; who asks asks again when the line is live.
   * @param {string} type
   * @param {Record<string, unknown>} fields
   * @returns {Promise<any>}
   */
  request(type, fields) {
    if (!this.welcomed) return Promise.reject(new CommandError({ code: 'disconnected', retryable: true }));
    return this.say(type, fields, false);
  }

  /** @param {string} type @param {Record<string, unknown>} fields @param {boolean} keep */
  say(type, fields, keep) {
    const id = uuid();
    const frame = JSON.stringify({ id, type, ...fields });
    if (frame.length > this.frameBytes || (frame.length * 3 > this.frameBytes && new TextEncoder().encode(frame).length > this.frameBytes)) {
      return Promise.reject(new CommandError({ code: 'frame_too_large', limit: this.frameBytes }));
    }
    return new Promise((resolve, reject) => {
      this.pending.set(id, { frame, id, keep, sent: false, resolve, reject });
      if (this.welcomed) this.transmit(id);
    });
  }

  /** @param {string} id */
  transmit(id) {
    const pending = this.pending.get(id);
    if (!pending || !this.socket) return;
    pending.sent = true;
    this.socket.send(pending.frame);
  }

  /** @param {unknown} data */
  receive(data) {
    this.clock.clear(this.pongTimer);
    this.pongTimer = null;
    const frame = readFrame(data);
    if (!frame) return;
    if ('reply' in frame) this.answered(frame.reply);
    else if (frame.push.type === 'welcome') this.welcome(frame.push);
    else if (frame.push.type === 'goaway') this.goawayMs = Number(frame.push.retryAfterMs) || 0;
    else this.options.onPush(frame.push);
  }

  /** @param {import('./wire.js').Push} push */
  welcome(push) {
    const again = this.everLive;
    this.welcomed = true;
    this.everLive = true;
    this.tries = 0;
    this.goawayMs = -1;
    this.frameBytes = push.limits?.frameBytes ?? this.frameBytes;
    this.pingMs = push.pingMs > 0 ? push.pingMs : DEFAULT_PING;
    this.setState('live', {});
    this.options.onLive?.(push, again);
    for (const [id, pending] of this.pending) if (!pending.sent) this.transmit(id);
    this.schedulePing();
  }

  /** @param {import('./wire.js').Reply} reply */
  answered(reply) {
    const pending = reply.re ? this.pending.get(reply.re) : undefined;
    if (!pending) return;
    this.pending.delete(pending.id);
    if (reply.ok) pending.resolve(reply);
    else pending.reject(new CommandError(reply.error ?? { code: 'internal' }));
  }

  /** @param {number} code */
  lost(code) {
    this.socket = null;
    const wasWelcomed = this.welcomed;
    this.welcomed = false;
    this.stopTimers();
    if (code === 4413) this.dropLargest();
    for (const [id, pending] of this.pending) {
      pending.sent = false;
      if (pending.keep) continue;
      this.pending.delete(id);
      pending.reject(new CommandError({ code: 'disconnected', retryable: true }));
    }
    const after = CLOSE_CODES[code] ?? 'back';
    if (after === 'login') return this.setState('ended', { code });
    if (after === 'stay') return this.setState('stopped', { code });
    if (!wasWelcomed && this.options.probe) this.askWhy(code);
    this.retry(after);
  }

  /**
   * A door that does not open may be shut for good: a WebSocket does not tell a
   * refusal from a dead network, so a plain request asks.
   * @param {number} code
   */
  askWhy(code) {
    this.options.probe?.().then((why) => {
      if (this.welcomed || why === 'unknown') return;
      this.clock.clear(this.retryTimer);
      const socket = this.socket;
      this.socket = null;
      socket?.close();
      this.setState(why === 'ended' ? 'ended' : 'stopped', { code });
    });
  }

  /** The frame that was too large is not said again. */
  dropLargest() {
    let largest = null;
    for (const pending of this.pending.values()) {
      if (pending.sent && (!largest || pending.frame.length > largest.frame.length)) largest = pending;
    }
    if (!largest) return;
    this.pending.delete(largest.id);
    largest.reject(new CommandError({ code: 'frame_too_large', limit: this.frameBytes }));
  }

  /** @param {After} after */
  retry(after) {
    const grown = Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(this.tries, 10));
    let delay = grown / 2 + this.random() * grown / 2;
    if (after === 'at once' && this.tries === 0) delay = this.random() * 200;
    if (after === 'later') delay = LATER_DELAY * (1 + this.random() / 2);
    // All clients of a restarting server were told the same delay: spread them.
    if (this.goawayMs >= 0 && this.tries === 0) delay = this.goawayMs + this.random() * Math.max(500, this.goawayMs / 2);
    this.tries++;
    this.setState('waiting', { retryInMs: delay });
    this.retryTimer = this.clock.set(() => this.open(), delay);
  }

  schedulePing() {
    this.clock.clear(this.pingTimer);
    this.pingTimer = this.clock.set(() => this.ping(), this.pingMs);
  }

  /** Notices a half-open connection: an answer is due within PONG_WITHIN. */
  ping() {
    if (!this.socket || !this.welcomed) return;
    this.socket.send(JSON.stringify({ id: uuid(), type: 'ping' }));
    this.pongTimer ??= this.clock.set(() => {
      const socket = this.socket;
      if (!socket) return;
      socket.close(4000, 'no answer');
      if (this.socket === socket) this.lost(1006);
    }, PONG_WITHIN);
    this.schedulePing();
  }

  stopTimers() {
    this.clock.clear(this.retryTimer);
    this.clock.clear(this.pingTimer);
    this.clock.clear(this.pongTimer);
    this.pongTimer = null;
  }

  /** @param {LineState} state @param {{code?: number, retryInMs?: number}} detail */
  setState(state, detail) {
    this.state = state;
    this.options.onState?.(state, detail);
  }
}

/**
 * Why the socket did not open, by what a plain request to the same address is
 * answered (protocol.md §2.2, "Refusals").
 * @param {string} path
 * @returns {Promise<'ended' | 'refused' | 'unknown'>}
 */
export async function probe(path) {
  try {
    const response = await fetch(path, { cache: 'no-store', redirect: 'manual' });
    if (response.status === 401) return 'ended';
    return response.status === 403 ? 'refused' : 'unknown';
  } catch {
    return 'unknown';
  }
}

/** The address of a socket on this site. @param {string} path */
export function socketURL(path) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}
