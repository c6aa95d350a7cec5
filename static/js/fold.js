// A thread as the fold of its log (protocol.md §2.1 and §2.2). Events and pieces
// of the running answer go in, in any order and as often as the line repeats
// them; what is shown comes out. The view depends on the set of events and on the
// known bytes alone, so every tab, reload and reconnect shows the same.
//
// No clock, no DOM, no I/O.
import { messageText } from './wire.js';
import { Stream } from './stream.js';

/**
 * @typedef {import('./wire.js').ThreadEvent} ThreadEvent
 * @typedef {import('./wire.js').LiveTurn} LiveTurn
 * @typedef {{kind: 'ask', id: string, text: string, at?: string, steer: boolean}} AskPart
 * @typedef {{kind: 'output', id: string, from: number, to: number, content: string, html?: string, partial: boolean}} OutputPart
 * @typedef {{kind: 'stream'}} StreamPart
 * @typedef {{kind: 'turn', key: string, turnId: string, seq: number, parts: (AskPart | OutputPart | StreamPart)[],
 *   ended: ThreadEvent | null, status: string, reason: string, retryAt: string, error: string, finish: string}} TurnItem
 * @typedef {{kind: 'refused', key: string, seq: number, text: string, error: string}} RefusedItem
 * @typedef {TurnItem | RefusedItem} Item
 * @typedef {{id: string, originId: string, text: string, mode: string, rank: number, seq: number}} Waiting
 * @typedef {{items: Item[], waiting: Waiting[], active: TurnItem | null}} View
 */

/** @type {Record<string, string>} */
const TERMINAL = {
  'turn.completed': 'completed',
  'turn.failed': 'failed',
  'turn.cancelled': 'cancelled',
  'turn.timeout': 'timeout',
};

const FINAL = new Set(Object.values(TERMINAL));

export class Fold {
  constructor() {
    /** @type {Map<number, ThreadEvent>} by seqId */
    this.events = new Map();
    /** @type {Map<string, ThreadEvent>} by event id */
    this.byId = new Map();
    /** The greatest seqId applied: where a resume goes on. */
    this.latestSeq = 0;
    /** @type {Map<string, Stream>} by turn id */
    this.streams = new Map();
    /** @type {Map<string, string>} what the streams and the log call terminal */
    this.ended = new Map();
    /** @type {View | null} */
    this.cached = null;
  }

  /**
   * Takes events of the log. Those known by their seqId change nothing (F02).
   * @param {ThreadEvent[]} events
   * @returns {boolean} whether anything was new
   */
  apply(events) {
    let fresh = false;
    for (const event of events) {
      if (this.events.has(event.seqId)) continue;
      this.events.set(event.seqId, event);
      this.byId.set(event.id, event);
      this.latestSeq = Math.max(this.latestSeq, event.seqId);
      if (event.turnId && TERMINAL[event.eventType]) {
        this.ended.set(event.turnId, event.eventType);
        this.streams.get(event.turnId)?.clear();
      } else if (event.turnId && isOutput(event)) {
        this.streams.get(event.turnId)?.settle(event.from ?? 0, event.to ?? 0);
      }
      fresh = true;
    }
    if (fresh) this.cached = null;
    return fresh;
  }

  /**
   * Takes a piece of a running answer. A delta names its turn, never "the last
   * one"; what is known is dropped, and of a frame that straddles the known end
   * only the part beyond it is taken.
   * @param {{turnId: string, offset: number, next: number, text: string, kind?: string}} delta
   * @returns {{text: string, gap: boolean}} the text that is new; gap: bytes before it are missing, nothing was taken
   */
  delta(delta) {
    if (delta.kind === 'thinking' || this.ended.has(delta.turnId)) return { text: '', gap: false };
    const known = this.streams.get(delta.turnId);
    const stream = this.stream(delta.turnId);
    if (!known) this.cached = null;
    return stream.append(delta.offset, delta.next, delta.text);
  }

  /**
   * Takes the running turn as thread.open gave it.
   * @param {LiveTurn} turn
   * @returns {{gap: boolean}}
   */
  snapshot(turn) {
    this.cached = null;
    if (this.ended.has(turn.turnId)) return { gap: false };
    const stream = this.stream(turn.turnId);
    stream.hint(turn.status, turn.reason ?? '', '');
    if (turn.resync) stream.reset();
    const { gap } = stream.append(turn.offset, turn.next, turn.text);
    for (const block of turn.blocks ?? []) stream.block(block);
    return { gap };
  }

  /**
   * Takes a finished block of a running answer.
   * @param {{turnId: string, from: number, to: number, html: string}} block
   */
  block(block) {
    if (this.ended.has(block.turnId)) return false;
    if (!this.streams.has(block.turnId)) this.cached = null;
    return this.stream(block.turnId).block(block);
  }

  /**
   * Takes a hint about a turn's state. It never ends a turn: only its terminal
   * event does.
   * @param {{turnId: string, status: string, reason?: string, retryAt?: string}} hint
   */
  state(hint) {
    if (this.ended.has(hint.turnId) || FINAL.has(hint.status)) return false;
    this.cached = null;
    this.stream(hint.turnId).hint(hint.status, hint.reason ?? '', hint.retryAt ?? '');
    return true;
  }

  /** The streamed text of a turn does not stand. @param {string} turnId */
  retract(turnId) {
    if (this.ended.has(turnId)) return;
    this.cached = null;
    this.stream(turnId).retract();
  }

  /** The lowest seqId known, 0 for none: where paging backwards goes on. */
  get firstSeq() {
    let first = 0;
    for (const seq of this.events.keys()) first = first === 0 ? seq : Math.min(first, seq);
    return first;
  }

  /** @param {string} turnId */
  stream(turnId) {
    let stream = this.streams.get(turnId);
    if (!stream) {
      stream = new Stream();
      this.streams.set(turnId, stream);
    }
    return stream;
  }

  /** What is shown now. @returns {View} */
  view() {
    this.cached ??= this.build();
    return this.cached;
  }

  build() {
    const log = [...this.events.values()].sort((a, b) => a.seqId - b.seqId);
    const gone = revoked(log);
    /** @type {Map<string, TurnItem>} */
    const turns = new Map();
    /** @type {Item[]} */
    const items = [];
    /** @type {Waiting[]} */
    const waiting = [];
    const turn = (/** @type {string} */ turnId, /** @type {number} */ seq) => {
      let item = turns.get(turnId);
      if (!item) {
        item = newTurn(turnId, seq);
        turns.set(turnId, item);
        items.push(item);
      }
      return item;
    };
    for (const event of log) {
      if (event.eventType === 'input.prompt') {
        if (gone.has(event.id)) continue;
        if (event.turnId) addAsk(turn(event.turnId, event.seqId), event);
        else waiting.push(this.waiting(event));
      } else if (event.eventType === 'input.rejected') {
        items.push(this.refused(event));
      } else if (event.turnId && isOutput(event)) {
        addOutput(turn(event.turnId, event.seqId), event);
      } else if (event.turnId && TERMINAL[event.eventType]) {
        endTurn(turn(event.turnId, event.seqId), event);
      }
    }
    this.addStreams(turns, items);
    waiting.sort((a, b) => a.rank - b.rank || a.seq - b.seq);
    return { items, waiting, active: activeTurn(items) };
  }

  /**
   * Gives each turn without an end its streamed text and its state.
   * @param {Map<string, TurnItem>} turns
   * @param {Item[]} items
   */
  addStreams(turns, items) {
    for (const [turnId, stream] of this.streams) {
      if (this.ended.has(turnId)) continue;
      let item = turns.get(turnId);
      if (!item) {
        item = newTurn(turnId, Infinity);
        turns.set(turnId, item);
        items.push(item);
      }
      item.status = stream.status || item.status;
      item.reason = stream.reason;
      item.retryAt = stream.retryAt;
    }
    for (const item of turns.values()) {
      if (!item.ended) item.parts.push({ kind: 'stream' });
    }
  }

  /**
   * A waiting message stands where the first event of its chain stands.
   * @param {ThreadEvent} event
   * @returns {Waiting}
   */
  waiting(event) {
    const originId = event.originId || event.id;
    let first = event;
    const seen = new Set([event.id]);
    while (first.revokesEventId && !seen.has(first.revokesEventId)) {
      const before = this.byId.get(first.revokesEventId);
      if (!before) break;
      seen.add(before.id);
      first = before;
    }
    const origin = this.byId.get(originId) ?? first;
    return {
      id: event.id, originId, text: messageText(event.userMessage),
      mode: event.mode ?? 'queue', rank: event.rank ?? 0, seq: origin.seqId,
    };
  }

  /** @param {ThreadEvent} event @returns {RefusedItem} */
  refused(event) {
    const of = event.revokesEventId ? this.byId.get(event.revokesEventId) : undefined;
    return {
      kind: 'refused', key: `refused:${event.id}`, seq: event.seqId, error: event.error ?? 'internal',
      text: messageText(event.userMessage ?? of?.userMessage),
    };
  }

  /**
   * The ranges of a turn's text that output events stand for, in order.
   * @param {string} turnId
   * @returns {[number, number][]}
   */
  covered(turnId) {
    const item = this.view().items.find((it) => it.kind === 'turn' && it.turnId === turnId);
    if (!item || item.kind !== 'turn') return [];
    /** @type {[number, number][]} */
    const ranges = [];
    for (const part of item.parts) if (part.kind === 'output') ranges.push([part.from, part.to]);
    return ranges.sort((a, b) => a[0] - b[0]);
  }

  /** What of a running turn is shown as streamed: finished blocks, then plain text. @param {string} turnId */
  streamed(turnId) {
    const stream = this.streams.get(turnId);
    if (!stream || this.ended.has(turnId)) return { blocks: [], tail: '' };
    return stream.shown(this.covered(turnId));
  }
}

/** @param {ThreadEvent[]} log in order of seqId */
function revoked(log) {
  const gone = new Set();
  for (const event of log) if (event.revokesEventId) gone.add(event.revokesEventId);
  return gone;
}

/** @param {ThreadEvent} event */
function isOutput(event) {
  return event.eventType === 'output.message' || event.eventType === 'output.partial';
}

/** @param {string} turnId @param {number} seq @returns {TurnItem} */
function newTurn(turnId, seq) {
  return {
    kind: 'turn', key: `turn:${turnId}`, turnId, seq, parts: [], ended: null,
    status: 'pending', reason: '', retryAt: '', error: '', finish: '',
  };
}

/** @param {TurnItem} item @param {ThreadEvent} event */
function addAsk(item, event) {
  const steer = item.parts.some((part) => part.kind === 'ask');
  item.parts.push({ kind: 'ask', id: event.id, text: messageText(event.userMessage), at: event.createdAt, steer });
}

/** @param {TurnItem} item @param {ThreadEvent} event */
function addOutput(item, event) {
  item.parts.push({
    kind: 'output', id: event.id, from: event.from ?? 0, to: event.to ?? Infinity,
    content: event.content ?? '', html: event.html, partial: event.eventType === 'output.partial',
  });
}

/** @param {TurnItem} item @param {ThreadEvent} event */
function endTurn(item, event) {
  if (item.ended) return;
  item.ended = event;
  item.status = TERMINAL[event.eventType] ?? 'failed';
  item.reason = event.reason ?? '';
  item.error = event.error ?? '';
  item.finish = event.finish ?? '';
  item.retryAt = event.retryAt ?? '';
}

/** The turn without an end, the newest if there were two. @param {Item[]} items */
function activeTurn(items) {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    if (item && item.kind === 'turn' && !item.ended) return item;
  }
  return null;
}
