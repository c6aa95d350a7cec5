// The frames of fairlead.client.v1 as the browser sees them: their types, ids,
// and reading one. Knows nothing of sockets or pages.

export const PROTOCOL = 'fairlead.client.v1';

/**
 * @typedef {{code: string, message?: string, retryable?: boolean, retryAfterMs?: number,
 *   limit?: number, fields?: {path: string, rule: string}[]}} ErrorBody
 * @typedef {{type: string, text?: string, selectedModel?: string}} Part
 * @typedef {{version: 1, parts: Part[]}} UserMessage
 * @typedef {{id: string, threadId: string, seqId: number, eventType: string, createdAt?: string,
 *   turnId?: string, revokesEventId?: string, interruptsTurnId?: string, originId?: string,
 *   userMessage?: UserMessage, content?: string | null, mode?: string, rank?: number,
 *   from?: number, to?: number, error?: string, reason?: string, finish?: string,
 *   retryAt?: string, marker?: string, html?: string}} ThreadEvent
 * @typedef {{from: number, to: number, html: string}} Block
 * @typedef {{turnId: string, status: string, reason?: string, offset: number, next: number,
 *   text: string, resync?: boolean, blocks?: Block[]}} LiveTurn
 * @typedef {{id: string, title: string | null, agentId?: string, model: string | null, createdAt: string,
 *   updatedAt: string, latestSeq: number, lastReadSeq: number, waiting: number,
 *   turn?: {turnId: string, status: string}, cancellationRecoveryPending?: boolean}} Thread
 * @typedef {{seqId?: number, kind: string, threadId: string, createdAt: string,
 *   title?: string | null, model?: string | null, thread?: Thread}} FeedEvent
 * @typedef {{id: string, name: string, provider: string, ready: boolean, reason?: string,
 *   availableAt?: string, default: boolean}} Model
 * @typedef {{id: string, displayName: string, description: string, model?: string,
 *   visibility: string, default: boolean, mine: boolean}} Agent
 * @typedef {{at: string, stage: string, detail?: string}} Moment
 * @typedef {{responseId: string, category: string, quantity: number, cost?: number}} UsageRow
 * @typedef {{turnId: string, threadId: string, status: string, reason?: string, error?: string,
 *   model: string, route: string, createdAt: string, startedAt?: string, endedAt?: string,
 *   usage?: UsageRow[], usageEstimate?: {input: number, output: number}, prompt?: string, context?: string,
 *   partial?: string | null, timeline?: Moment[]}} Turn
 * @typedef {{threadId: string, eventId?: string, turnId: string | null, status?: string,
 *   disposition: string, replayed?: boolean, differs?: boolean}} SendReply
 * @typedef {{thread: Thread, events: ThreadEvent[], latestSeq: number, more: boolean,
 *   turn?: LiveTurn}} OpenReply
 * @typedef {{type: string} & Record<string, any>} Push
 * @typedef {{re?: string, ok: boolean, error?: ErrorBody} & Record<string, any>} Reply
 */

/** What a command was refused with; `code` is of the table in protocol.md §1. */
export class CommandError extends Error {
  /** @param {ErrorBody} body */
  constructor(body) {
    super(body.message || body.code);
    this.name = 'CommandError';
    this.code = body.code;
    this.retryable = body.retryable === true;
    this.retryAfterMs = body.retryAfterMs ?? 0;
    this.fields = body.fields ?? [];
    this.limit = body.limit;
  }
}

/**
 * Reads a frame. Anything that is no frame of the protocol gives null: a client
 * ignores what it does not know.
 * @param {unknown} data
 * @returns {{reply: Reply} | {push: Push} | null}
 */
export function readFrame(data) {
  if (typeof data !== 'string') return null;
  let frame;
  try {
    frame = JSON.parse(data);
  } catch {
    return null;
  }
  if (frame === null || typeof frame !== 'object' || Array.isArray(frame)) return null;
  if (typeof frame.ok === 'boolean') return { reply: frame };
  if (typeof frame.type === 'string') return { push: frame };
  return null;
}

/**
 * A random UUID (version 4). crypto.randomUUID exists only in secure contexts,
 * and Fairlead also runs on a LAN over plain http.
 * @param {(bytes: Uint8Array<ArrayBuffer>) => void} [fill]
 */
export function uuid(fill = (bytes) => crypto.getRandomValues(bytes)) {
  const bytes = new Uint8Array(16);
  fill(bytes);
  bytes[6] = (/** @type {number} */ (bytes[6]) & 0x0f) | 0x40;
  bytes[8] = (/** @type {number} */ (bytes[8]) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

const encoder = new TextEncoder();

/** How many bytes a text takes on the wire. @param {string} text */
export function utf8Length(text) {
  return encoder.encode(text).length;
}

/**
 * The part of a text from one byte position to another. A position inside a
 * character goes to the character's end, so nothing is shown twice or broken.
 * @param {string} text
 * @param {number} from
 * @param {number} [to]
 */
export function sliceBytes(text, from, to = Infinity) {
  let at = 0;
  let start = from <= 0 ? 0 : -1;
  let i = 0;
  while (i < text.length && at < to) {
    const code = /** @type {number} */ (text.codePointAt(i));
    at += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    i += code < 0x10000 ? 1 : 2;
    if (start < 0 && at >= from) start = i;
  }
  return start < 0 ? '' : text.slice(start, i);
}

/** A plain prompt as a message document. @param {string} text @returns {UserMessage} */
export function textMessage(text) {
  return { version: 1, parts: [{ type: 'text', text }] };
}

/** The text of a message document; the part that names its model is none. @param {UserMessage | undefined} message */
export function messageText(message) {
  if (!message) return '';
  return message.parts.filter((part) => part.type !== 'model')
    .map((part) => (part.type === 'text' ? part.text ?? '' : `[${part.type}]`)).join('\n\n');
}

/** The model that a message ran on; the server's part stands last. @param {UserMessage | undefined} message */
export function modelOf(message) {
  return message?.parts.findLast((part) => part.type === 'model')?.selectedModel ?? '';
}
