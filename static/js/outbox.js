// Messages on their way. A message is written down before it is said and struck
// out on the server's answer; a reload, a crash of the tab or a lost reply says it
// again under the same client id, which the server takes once (F05, F06). No DOM.
import { textMessage, uuid } from './wire.js';

/**
 * @typedef {import('./store.js').Unsent} Unsent
 * @typedef {import('./wire.js').SendReply} SendReply
 * @typedef {import('./wire.js').CommandError} CommandError
 * @typedef {object} Listener
 * @property {(message: Unsent, reply: SendReply) => void} onReceipt
 * @property {(message: Unsent, error: CommandError, final: boolean) => void} onTrouble final: it is not tried again
 */

const TRIES = 6;
const FIRST_PAUSE = 1000;

export class Outbox {
  /**
   * @param {import('./store.js').Store} store
   * @param {{command: (type: string, fields: Record<string, unknown>) => Promise<any>}} line
   * @param {Listener} listener
   * @param {{pause?: (ms: number) => Promise<void>}} [options]
   */
  constructor(store, line, listener, options = {}) {
    this.store = store;
    this.line = line;
    this.listener = listener;
    this.pause = options.pause ?? ((ms) => new Promise((resolve) => setTimeout(resolve, ms)));
    /** @type {Map<string, Unsent>} being said now, by client id */
    this.going = new Map();
  }

  /** Says again what an earlier page left without an answer. */
  resume() {
    for (const message of this.store.unsent()) void this.deliver(message);
  }

  /**
   * @param {Omit<Unsent, 'clientEventId' | 'clientThreadId'>} fields threadId "" makes a thread
   * @returns {Unsent}
   */
  send(fields) {
    /** @type {Unsent} */
    const message = { clientEventId: uuid(), ...fields };
    if (!message.threadId) message.clientThreadId = uuid();
    this.store.keepUnsent(message);
    void this.deliver(message);
    return message;
  }

  /** The message from a thread's box that has no receipt yet. @param {string} threadId */
  pendingIn(threadId) {
    return [...this.going.values()].find((message) => message.threadId === threadId && !message.from) ?? null;
  }

  /** @param {Unsent} message */
  async deliver(message) {
    if (this.going.has(message.clientEventId)) return;
    this.going.set(message.clientEventId, message);
    try {
      for (let tries = 1; ; tries++) {
        const { reply, error } = await this.say(message);
        if (reply) return this.settle(message, () => this.listener.onReceipt(message, reply));
        const final = !error.retryable || tries >= TRIES;
        if (final) return this.settle(message, () => this.listener.onTrouble(message, error, true));
        this.listener.onTrouble(message, error, false);
        await this.pause(Math.max(error.retryAfterMs, FIRST_PAUSE * 2 ** (tries - 1)));
      }
    } finally {
      this.going.delete(message.clientEventId);
    }
  }

  /** @param {Unsent} message @returns {Promise<{reply: SendReply, error: null} | {reply: null, error: CommandError}>} */
  async say(message) {
    /** @type {Record<string, unknown>} */
    const fields = { clientEventId: message.clientEventId, userMessage: textMessage(message.text), mode: message.mode };
    if (message.threadId) fields.threadId = message.threadId;
    else fields.clientThreadId = message.clientThreadId;
    if (message.model) fields.model = message.model;
    if (message.agentId && !message.threadId) fields.agentId = message.agentId;
    if (message.revokesEventId) fields.revokesEventId = message.revokesEventId;
    try {
      return { reply: await this.line.command('message.send', fields), error: null };
    } catch (error) {
      return { reply: null, error: /** @type {CommandError} */ (error) };
    }
  }

  /** @param {Unsent} message @param {() => void} tell */
  settle(message, tell) {
    this.store.dropUnsent(message.clientEventId);
    this.going.delete(message.clientEventId);
    tell();
  }
}
