// The reading of a thread's log (protocol.md §2.1 and §2.2): which messages stand
// where, which wait and in what order, what belongs to which turn. A function of
// the set of events alone; the streamed text is laid over it by fold.js.
//
// No clock, no DOM, no I/O.
import { messageText, modelOf } from './wire.js';

/**
 * @typedef {import('./wire.js').ThreadEvent} ThreadEvent
 * @typedef {{kind: 'ask', id: string, text: string, at?: string, steer: boolean}} AskPart
 * @typedef {{kind: 'output', id: string, from: number, to: number, content: string, html?: string, partial: boolean}} OutputPart
 * @typedef {{kind: 'stream'}} StreamPart
 * @typedef {{kind: 'deadline', id: string, text: string}} DeadlinePart what the model was told when its time ran out
 * @typedef {{kind: 'turn', key: string, turnId: string, seq: number, parts: (AskPart | OutputPart | StreamPart | DeadlinePart)[],
 *   ended: ThreadEvent | null, status: string, reason: string, retryAt: string, error: string, finish: string,
 *   model: string, orgQueue: '' | 'in' | 'left'}} TurnItem
 * @typedef {{content: string, html?: string}} Guidance
 * @typedef {{kind: 'refused', key: string, seq: number, text: string, error: string, guidance: Guidance | null}} RefusedItem
 * @typedef {{kind: 'notice', key: string, seq: number, error: string, guidance: Guidance}} NoticeItem
 * @typedef {TurnItem | RefusedItem | NoticeItem} Item
 * @typedef {{id: string, originId: string, text: string, mode: string, rank: number, seq: number,
 *   rooted: boolean, reason: string}} Waiting
 * rooted: the origin of the chain is known; of one that is not it is older than all that is
 * @typedef {{items: Item[], waiting: Waiting[], active: TurnItem | null}} View
 */

/** @type {Record<string, string>} */
export const TERMINAL = {
  'turn.completed': 'completed',
  'turn.failed': 'failed',
  'turn.cancelled': 'cancelled',
  'turn.timeout': 'timeout',
};

/**
 * @param {ThreadEvent[]} log in order of seqId
 * @param {Map<string, ThreadEvent>} byId
 */
export function readLog(log, byId) {
  const reader = new Reader(byId);
  for (const event of log) if (event.revokesEventId) reader.revokers.set(event.revokesEventId, event);
  for (const event of log) reader.read(event);
  reader.waiting.sort(inLine);
  /** @type {View} */
  const view = { items: reader.items, waiting: reader.waiting, active: null };
  return { view, turns: reader.turns, revokers: reader.revokers };
}

/** Waiting messages stand by rank, then by their origin. @param {Waiting} a @param {Waiting} b */
function inLine(a, b) {
  return a.rank - b.rank || Number(a.rooted) - Number(b.rooted) || a.seq - b.seq;
}

class Reader {
  /** @param {Map<string, ThreadEvent>} byId */
  constructor(byId) {
    this.byId = byId;
    /** @type {Map<string, ThreadEvent>} by the id of the event that is revoked */
    this.revokers = new Map();
    /** @type {Map<string, TurnItem>} */
    this.turns = new Map();
    /** @type {Item[]} */
    this.items = [];
    /** @type {Waiting[]} */
    this.waiting = [];
  }

  /** @param {ThreadEvent} event */
  read(event) {
    switch (event.eventType) {
      case 'input.prompt':
        if (this.revokers.has(event.id)) return;
        if (event.turnId) addAsk(this.turn(event.turnId, event), event);
        else this.waiting.push(this.waits(event));
        return;
      case 'input.rejected':
        this.items.push(this.refused(event));
        return;
      case 'output.error':
        this.guide(event);
        return;
    }
    if (event.turnId) this.ofTurn(event, event.turnId);
  }

  /** @param {ThreadEvent} event @param {string} turnId */
  ofTurn(event, turnId) {
    switch (event.eventType) {
      case 'output.message': case 'output.partial':
        addOutput(this.turn(turnId, event), event);
        return;
      case 'input.deadline':
        this.turn(turnId, event).parts.push({ kind: 'deadline', id: event.id, text: messageText(event.userMessage) });
        return;
      case 'turn.queued': case 'turn.dequeued':
        this.turn(turnId, event).orgQueue = event.eventType === 'turn.queued' ? 'in' : 'left';
        return;
    }
    if (TERMINAL[event.eventType]) endTurn(this.turn(turnId, event), event);
  }

  /** @param {string} turnId @param {ThreadEvent} event the first that names it */
  turn(turnId, event) {
    let item = this.turns.get(turnId);
    if (!item) {
      item = newTurn(turnId, event.seqId);
      this.turns.set(turnId, item);
      this.items.push(item);
    }
    return item;
  }

  /**
   * A waiting message stands where the first event of its chain stands, however
   * often it was re-issued.
   * @param {ThreadEvent} event
   * @returns {Waiting}
   */
  waits(event) {
    const originId = event.originId || event.id;
    const origin = this.byId.get(originId);
    return {
      id: event.id, originId, text: messageText(event.userMessage), mode: event.mode ?? 'queue',
      rank: event.rank ?? 0, seq: (origin ?? event).seqId, rooted: origin !== undefined, reason: event.reason ?? '',
    };
  }

  /** @param {ThreadEvent} event @returns {RefusedItem} */
  refused(event) {
    const of = event.revokesEventId ? this.byId.get(event.revokesEventId) : undefined;
    return {
      kind: 'refused', key: `refused:${event.id}`, seq: event.seqId, error: event.error ?? 'internal',
      text: messageText(event.userMessage ?? of?.userMessage), guidance: null,
    };
  }

  /**
   * Guidance belongs to the refusal before it. One whose refusal is not known
   * stands by itself; that of a turn is told by the turn's end.
   * @param {ThreadEvent} event
   */
  guide(event) {
    if (event.turnId) return;
    const guidance = { content: event.content ?? '', html: event.html };
    const last = this.items.findLast((item) => item.kind === 'refused');
    if (last && last.kind === 'refused' && !last.guidance && last.error === event.error) last.guidance = guidance;
    else this.items.push({ kind: 'notice', key: `notice:${event.id}`, seq: event.seqId, error: event.error ?? 'internal', guidance });
  }
}

/** @param {ThreadEvent} event */
export function isOutput(event) {
  return event.eventType === 'output.message' || event.eventType === 'output.partial';
}

/** @param {string} turnId @param {number} seq @returns {TurnItem} */
export function newTurn(turnId, seq) {
  return {
    kind: 'turn', key: `turn:${turnId}`, turnId, seq, parts: [], ended: null,
    status: 'pending', reason: '', retryAt: '', error: '', finish: '', model: '', orgQueue: '',
  };
}

/** A later message of the same turn is a steer. @param {TurnItem} item @param {ThreadEvent} event */
function addAsk(item, event) {
  const steer = item.parts.some((part) => part.kind === 'ask' || part.kind === 'output');
  item.parts.push({ kind: 'ask', id: event.id, text: messageText(event.userMessage), at: event.createdAt, steer });
  item.model ||= modelOf(event.userMessage);
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

/**
 * The markers of the org queue are stored, hints of a turn's state are not: where
 * they differ the markers count.
 * @param {TurnItem} item one without an end
 */
export function placeInOrg(item) {
  if (item.orgQueue === 'in' && item.status !== 'running') {
    item.status = 'queued';
    item.reason = 'org_queue';
  } else if (item.orgQueue === 'left' && item.status === 'queued') {
    item.status = 'pending';
    item.reason = '';
  }
}

/** The turn without an end, the newest if there were two. @param {Item[]} items */
export function activeTurn(items) {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i];
    if (item && item.kind === 'turn' && !item.ended) return item;
  }
  return null;
}
