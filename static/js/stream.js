// The text of one running turn: pieces with the bytes that they stand for, and
// the finished blocks that the server has rendered of them. An offset always
// stands for the same byte, so nothing is applied twice.
import { sliceBytes } from './wire.js';

/**
 * @typedef {import('./wire.js').Block} Block
 * @typedef {{from: number, to: number, text: string}} Piece
 */

/** Pieces are joined up to this length, so that their number stays small. */
const PIECE = 4096;

export class Stream {
  constructor() {
    /** @type {Piece[]} in order, without overlap */
    this.pieces = [];
    /** @type {Block[]} in order of from */
    this.blocks = [];
    /** The byte after the last known one. */
    this.next = 0;
    /** Text before this byte was retracted. */
    this.retracted = 0;
    this.status = '';
    this.reason = '';
    this.retryAt = '';
  }

  /** @param {string} status @param {string} reason @param {string} retryAt */
  hint(status, reason, retryAt) {
    this.status = status;
    this.reason = reason;
    this.retryAt = retryAt;
  }

  /** The server knows less than this client: its text alone counts. */
  reset() {
    this.clear();
    this.next = 0;
    this.retracted = 0;
  }

  clear() {
    this.pieces = [];
    this.blocks = [];
  }

  retract() {
    this.clear();
    this.retracted = this.next;
  }

  /**
   * @param {number} offset
   * @param {number} next
   * @param {string} text
   * @returns {{text: string, gap: boolean}}
   */
  append(offset, next, text) {
    if (next <= this.next) return { text: '', gap: false };
    if (offset > this.next) return { text: '', gap: true };
    const fresh = offset < this.next ? sliceBytes(text, this.next - offset) : text;
    const last = this.pieces.at(-1);
    if (last && last.to === this.next && last.text.length < PIECE) {
      last.text += fresh;
      last.to = next;
    } else {
      this.pieces.push({ from: this.next, to: next, text: fresh });
    }
    this.next = next;
    return { text: fresh, gap: false };
  }

  /**
   * An output event stands for these bytes: they are known, whether they were
   * streamed to here or not.
   * @param {number} from
   * @param {number} to
   */
  settle(from, to) {
    if (from <= this.next && this.next < to) this.next = to;
  }

  /** @param {Block} block @returns {boolean} whether it was new */
  block(block) {
    if (block.to <= this.retracted || this.blocks.some((b) => b.from === block.from && b.to === block.to)) return false;
    this.blocks.push({ from: block.from, to: block.to, html: block.html });
    this.blocks.sort((a, b) => a.from - b.from);
    return true;
  }

  /**
   * What is shown of the text outside the covered ranges: blocks as far as their
   * bytes are here, and what follows them as plain text.
   * @param {[number, number][]} covered in order
   */
  shown(covered) {
    const free = (/** @type {Block} */ block) =>
      block.to <= this.next && !covered.some(([from, to]) => from < block.to && block.from < to);
    const blocks = this.blocks.filter(free);
    const end = blocks.at(-1)?.to ?? 0;
    const hidden = /** @type {[number, number][]} */ ([...covered, ...(end > 0 ? [[0, end]] : [])]);
    return { blocks, tail: this.text(hidden) };
  }

  /** The text outside some ranges. @param {[number, number][]} hidden */
  text(hidden) {
    const skip = hidden.reduce((least, [from, to]) => (from <= least ? Math.max(least, to) : least), 0);
    let text = '';
    for (let i = this.pieces.length - 1; i >= 0; i--) {
      const piece = /** @type {Piece} */ (this.pieces[i]);
      if (piece.to <= skip) break;
      text = outside(piece, hidden) + text;
    }
    return text;
  }
}

/** @param {Piece} piece @param {[number, number][]} hidden */
function outside(piece, hidden) {
  let parts = [piece];
  for (const [from, to] of hidden) parts = parts.flatMap((part) => cut(part, from, to));
  return parts.map((part) => part.text).join('');
}

/** A piece without the bytes of a range. @param {Piece} piece @param {number} from @param {number} to */
function cut(piece, from, to) {
  if (to <= piece.from || piece.to <= from) return [piece];
  /** @type {Piece[]} */
  const left = [];
  if (piece.from < from) {
    left.push({ from: piece.from, to: from, text: sliceBytes(piece.text, 0, from - piece.from) });
  }
  if (to < piece.to) left.push({ from: to, to: piece.to, text: sliceBytes(piece.text, to - piece.from) });
  return left;
}
