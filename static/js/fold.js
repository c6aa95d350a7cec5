// A thread as the fold of its log (protocol.md §2.1 and §2.2). Events and pieces
// of the running answer go in, in any order and as often as the line repeats
// them; what is shown comes out. The view depends on the set of events and on the
// known bytes alone, so every tab, reload and reconnect shows the same.
//
// No clock, no DOM, no I/O.
import { Stream } from './stream.js';
import { TERMINAL, activeTurn, isOutput, newTurn, placeInOrg, readLog } from './view.js';

/**
 * @typedef {import('./wire.js').ThreadEvent} ThreadEvent
 * @typedef {import('./wire.js').LiveTurn} LiveTurn
 * @typedef {import('./view.js').TurnItem} TurnItem
 * @typedef {import('./view.js').Item} Item
 * @typedef {import('./view.js').View} View
 * @typedef {import('./view.js').Waiting} Waiting
 */

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
    /** @type {Map<string, ThreadEvent>} the event that revokes another, by the other's id; as of the view */
    this.revokers = new Map();
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

  /** The bytes that output events stand for are known from the start. @param {string} turnId */
  stream(turnId) {
    let stream = this.streams.get(turnId);
    if (!stream) {
      stream = new Stream();
      this.streams.set(turnId, stream);
      for (const [from, to] of this.covered(turnId)) stream.settle(from, to);
      this.cached = null;
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
    const { view, turns, revokers } = readLog(log, this.byId);
    this.revokers = revokers;
    this.addStreams(turns, view.items);
    view.active = activeTurn(view.items);
    return view;
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
      if (item.ended) continue;
      placeInOrg(item);
      item.parts.push({ kind: 'stream' });
    }
  }

  /**
   * What became of a message, by any event of its chain.
   * @param {string} id
   * @returns {'waiting' | 'started' | 'recalled' | 'refused' | 'unknown'}
   */
  fate(id) {
    this.view();
    let event = this.byId.get(id);
    const seen = new Set();
    while (event && !seen.has(event.id)) {
      seen.add(event.id);
      if (event.eventType === 'input.rejected') return 'refused';
      if (event.eventType === 'control.revoke') return 'recalled';
      if (event.eventType !== 'input.prompt') return 'unknown';
      if (event.turnId) return 'started';
      const next = this.revokers.get(event.id);
      if (!next) return 'waiting';
      event = next;
    }
    return 'unknown';
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
