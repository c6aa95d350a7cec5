// Draws a thread. Events change the view seldom and redraw only the parts that
// differ; deltas come often and cost what they are long: they are joined once per
// frame and appended as text to the end of their turn.
import { copyText, h, reconcile } from './dom.js';
import { explain, explainReason } from './errors.js';
import { flash, linked, prose } from './prose.js';
import { exact, relative } from './time.js';

/**
 * @typedef {import('./fold.js').Fold} Fold
 * @typedef {import('./fold.js').TurnItem} TurnItem
 * @typedef {import('./view.js').RefusedItem} RefusedItem
 * @typedef {import('./view.js').NoticeItem} NoticeItem
 * @typedef {import('./view.js').AskPart} AskPart
 * @typedef {import('./view.js').OutputPart} OutputPart
 * @typedef {import('./view.js').DeadlinePart} DeadlinePart
 * @typedef {OutputPart | DeadlinePart | {kind: 'stream'}} AnswerPart
 * @typedef {object} Actions
 * @property {(turnId: string) => void} onDetails
 * @property {(text: string) => void} onReuse
 * @property {(text: string) => void} onAgain sends a refused message again
 * @property {(model: string) => string} modelName
 */

/** A paragraph of plain text is closed at the next line end beyond this length. */
const CHUNK = 2000;

export class Transcript {
  /**
   * @param {HTMLElement} root
   * @param {import('./scroll.js').Follow} follow
   * @param {Actions} actions
   */
  constructor(root, follow, actions) {
    this.root = root;
    this.follow = follow;
    this.actions = actions;
    /** @type {Fold | null} */
    this.fold = null;
    /** @type {Map<string, string>} text that came since the last frame, by turn */
    this.fresh = new Map();
    /** @type {Set<string>} turns whose streamed part is drawn anew */
    this.dirty = new Set();
    this.scheduled = false;
  }

  /** Shows another thread. @param {Fold} fold */
  show(fold) {
    this.fold = fold;
    this.fresh.clear();
    this.dirty.clear();
    this.root.replaceChildren();
    this.draw();
    this.follow.toEnd();
  }

  /** Draws what the log changed. */
  draw() {
    if (!this.fold) return;
    const { items } = this.fold.view();
    reconcile(this.root, items.map((item) => ({
      key: item.key,
      make: () => h('div', { class: 'group', 'data-testid': `${item.kind}-group` }),
      update: (element) => this.drawItem(element, item),
    })));
    this.follow.settle();
  }

  /** @param {HTMLElement} element @param {import('./view.js').Item} item */
  drawItem(element, item) {
    if (item.kind === 'turn') this.drawTurn(element, item);
    else reconcile(element, [{ key: 'one', sig: item.guidance?.content ?? '', make: () => drawRefusal(item, this.actions) }]);
  }

  /** @param {HTMLElement} element @param {TurnItem} item */
  drawTurn(element, item) {
    element.dataset.turn = item.turnId;
    const segments = segmentsOf(item);
    reconcile(element, segments.map((segment, i) => (segment.ask
      ? { key: `ask:${segment.ask.id}`, make: () => drawAsk(/** @type {AskPart} */ (segment.ask)) }
      : {
        key: `answer:${segment.n}`,
        make: () => h('article', { class: 'turn', 'aria-label': 'Answer', 'data-testid': 'answer' }),
        update: (article) => this.drawAnswer(article, item, segment.parts, i === segments.length - 1),
      })));
    if (!item.ended) this.drawStream(item.turnId);
  }

  /**
   * @param {HTMLElement} article
   * @param {TurnItem} item
   * @param {AnswerPart[]} parts
   * @param {boolean} last
   */
  drawAnswer(article, item, parts, last) {
    const look = last ? lookOf(item) : parts.some((part) => part.kind === 'output' && part.partial) ? 'stopped' : 'done';
    article.className = `turn ${look}`;
    article.dataset.status = last ? item.status : 'completed';
    article.setAttribute('aria-busy', String(last && !item.ended));
    /** @type {Parameters<typeof reconcile>[1]} */
    const list = parts.map((part) => (part.kind === 'stream'
      ? { key: 'stream', make: drawStreamBox }
      : { key: `${part.kind}:${part.id}`, make: () => (part.kind === 'output' ? drawOutput(part) : drawDeadline(part)) }));
    if (last) {
      const why = whyOf(item);
      if (why) list.push({ key: 'why', sig: why.title + why.text, make: () => h('p', { class: 'why', 'data-testid': 'why' }, h('b', {}, why.title), why.text) });
      const model = this.actions.modelName(item.model);
      list.push({ key: 'meta', sig: [item.status, item.reason, item.retryAt, model].join('|'), make: () => this.drawMeta(item, model) });
    }
    reconcile(article, list);
  }

  /** @param {TurnItem} item @param {string} model */
  drawMeta(item, model) {
    const meta = h('div', { class: 'meta' });
    const named = model && h('span', { 'data-testid': 'turn-model' }, model);
    if (!item.ended) {
      meta.append(h('span', { class: `chip ${item.status === 'running' ? 'running' : 'queued'}`, 'data-testid': 'turn-chip' }, wordOf(item)), named);
      return meta;
    }
    meta.append(named);
    if (item.status === 'cancelled') meta.append(h('span', { class: 'chip stopped', 'data-testid': 'turn-chip' }, item.reason === 'ended_by_admin' ? 'stopped by an admin' : 'stopped'));
    if (item.status === 'failed' || item.status === 'timeout') meta.append(h('span', { class: 'chip failed', 'data-testid': 'turn-chip' }, item.status));
    if (item.finish === 'tool_call_ignored') meta.append(h('span', {}, 'A tool call was left out'));
    if (item.finish === 'refused_in_part') meta.append(h('span', {}, 'The model declined a part'));
    const at = item.ended.createdAt ? new Date(item.ended.createdAt) : null;
    if (at) meta.append(h('time', { datetime: at.toISOString(), title: exact(at), 'data-relative': true }, relative(at)));
    const text = item.parts.map((part) => (part.kind === 'output' ? part.content : '')).join('');
    if (text) {
      const copy = h('button', { type: 'button', 'data-testid': 'copy-answer' }, 'Copy');
      copy.addEventListener('click', () => copyText(text).then(() => flash(copy, 'Copied'), () => flash(copy, 'Refused')));
      meta.append(copy);
    }
    const ask = item.parts.find((part) => part.kind === 'ask');
    if (ask && item.status !== 'completed') {
      meta.append(h('button', { type: 'button', onclick: () => this.actions.onReuse(ask.text) }, 'Edit and resend'));
    }
    meta.append(h('button', { type: 'button', 'data-testid': 'what-happened', onclick: () => this.actions.onDetails(item.turnId) }, 'What happened?'));
    return meta;
  }

  /** Takes text that was appended to a running turn. @param {string} turnId @param {string} text */
  append(turnId, text) {
    this.fresh.set(turnId, (this.fresh.get(turnId) ?? '') + text);
    this.schedule();
  }

  /** The streamed part of a turn is drawn anew: a block is finished, or text fell away. @param {string} turnId */
  redraw(turnId) {
    this.dirty.add(turnId);
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    const run = () => {
      this.scheduled = false;
      this.flush();
    };
    if (document.hidden) setTimeout(run, 250);
    else requestAnimationFrame(run);
  }

  flush() {
    for (const turnId of this.dirty) this.drawStream(turnId);
    for (const [turnId, text] of this.fresh) {
      const box = this.streamBox(turnId);
      if (box) appendTail(box, text);
    }
    this.dirty.clear();
    this.fresh.clear();
    this.follow.settle();
  }

  /** @param {string} turnId */
  streamBox(turnId) {
    return this.root.querySelector(`[data-turn="${CSS.escape(turnId)}"] .stream`);
  }

  /** @param {string} turnId */
  drawStream(turnId) {
    const box = this.streamBox(turnId);
    if (!box || !this.fold) return;
    this.fresh.delete(turnId);
    const { blocks, tail } = this.fold.streamed(turnId);
    const before = blocks.map((block) => ({
      key: `${block.from}-${block.to}`,
      make: () => {
        const element = h('div', { class: 'block prose' });
        element.append(prose(block.html));
        return element;
      },
    }));
    const text = blocks.length ? tail.replace(/^\n+/, '') : tail;
    const first = box.querySelector('.tail');
    if (first && first.textContent === text && !first.nextElementSibling && box.childElementCount === before.length + 1) return;
    for (const old of [...box.querySelectorAll('.tail')]) old.remove();
    reconcile(box, before);
    box.append(h('div', { class: 'tail' }));
    appendTail(box, text);
  }
}

/**
 * Appends plain text to the end of a streamed part. Long text is cut into
 * paragraphs at line ends, so that the browser lays out only the last one.
 * @param {Element} box
 * @param {string} text
 */
function appendTail(box, text) {
  let tail = box.lastElementChild;
  if (!tail || !tail.classList.contains('tail')) {
    tail = h('div', { class: 'tail' });
    box.append(tail);
  }
  while (text) {
    const length = tail.textContent?.length ?? 0;
    const cut = length + text.length > CHUNK ? text.indexOf('\n', Math.max(0, CHUNK - length)) : -1;
    const part = cut < 0 ? text : text.slice(0, cut);
    const node = tail.firstChild;
    if (node instanceof Text) node.appendData(part);
    else tail.append(part);
    if (cut < 0) return;
    text = text.slice(cut + 1);
    tail = h('div', { class: 'tail' });
    box.append(tail);
  }
}

/** @param {AskPart} part */
function drawAsk(part) {
  return h('div', { class: part.steer ? 'ask steer' : 'ask', 'data-testid': part.steer ? 'steered' : 'ask' },
    h('div', { class: 'bubble' }, part.text), part.steer && h('small', {}, 'joined the answer'));
}

/** What the model was told when its time ran out. @param {DeadlinePart} part */
function drawDeadline(part) {
  return h('details', { class: 'system', 'data-testid': 'deadline' },
    h('summary', {}, 'The model was told that its time is nearly up.'), h('p', {}, part.text));
}

/** @param {RefusedItem | NoticeItem} item @param {Actions} actions */
function drawRefusal(item, actions) {
  const { cause, cure } = explain(item.error);
  const box = h('div', { class: 'ask refused', 'data-testid': 'refusal' });
  if (item.kind === 'refused') box.append(h('div', { class: 'bubble' }, item.text));
  const guidance = h('div', { class: 'guidance', 'data-testid': 'guidance' }, h('b', {}, item.guidance ? 'Not answered.' : cause), ' ');
  if (item.guidance?.html) guidance.append(prose(item.guidance.html));
  else guidance.append(item.guidance ? linked(item.guidance.content) : cure);
  box.append(guidance);
  if (item.kind === 'refused') {
    const { text } = item;
    box.append(h('div', { class: 'meta' },
      h('button', { type: 'button', 'data-testid': 'try-again', onclick: () => actions.onAgain(text) }, 'Try again'),
      h('button', { type: 'button', onclick: () => actions.onReuse(text) }, 'Edit and resend')));
  }
  return box;
}

function drawStreamBox() {
  return h('div', { class: 'stream prose', 'data-testid': 'stream' }, h('div', { class: 'tail' }));
}

/** @param {OutputPart} part */
function drawOutput(part) {
  const box = h('div', { class: 'prose', 'data-testid': part.partial ? 'output-partial' : 'output' });
  if (part.html !== undefined && part.html !== '') box.append(prose(part.html));
  else box.append(h('div', { class: 'plain-text' }, part.content));
  return box;
}

/**
 * A turn as messages and the answers between them. The last is always an answer:
 * there stands the turn's state.
 * @param {TurnItem} item
 */
function segmentsOf(item) {
  /** @type {{ask: AskPart | null, n: number, parts: AnswerPart[]}[]} */
  const segments = [];
  let answers = 0;
  for (const part of item.parts) {
    if (part.kind === 'ask') {
      segments.push({ ask: part, n: 0, parts: [] });
      continue;
    }
    const last = segments.at(-1);
    if (last && !last.ask) last.parts.push(part);
    else segments.push({ ask: null, n: answers++, parts: [part] });
  }
  if (segments.at(-1)?.ask !== null || segments.length === 0) segments.push({ ask: null, n: answers, parts: [] });
  return segments;
}

/** @param {TurnItem} item */
function lookOf(item) {
  switch (item.status) {
    case 'running': return 'running';
    case 'completed': return 'done';
    case 'cancelled': return 'stopped';
    case 'failed': case 'timeout': return 'failed';
  }
  return 'pending';
}

/** @param {TurnItem} item */
function wordOf(item) {
  if (item.reason) return explainReason(item.reason);
  if (item.status === 'running') return 'answering';
  return item.status === 'queued' ? 'waiting for a free place' : 'starting';
}

/** @param {TurnItem} item */
function whyOf(item) {
  if (item.status !== 'failed' && item.status !== 'timeout') return null;
  const { cause, cure } = explain(item.error || item.reason || (item.status === 'timeout' ? 'host_lost' : 'internal'));
  const again = item.retryAt ? ` It expects you back ${relative(new Date(item.retryAt))}.` : '';
  return { title: cause, text: cure + again };
}
