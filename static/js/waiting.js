// The messages that wait, above the composer: in the order in which they will be
// taken, each with where it goes and what can be done about it. A row keeps its
// elements for as long as its message waits, so focus and a half-written edit stay
// through every redraw.
import { byId, h, reconcile } from './dom.js';

/**
 * @typedef {import('./fold.js').Waiting} Waiting
 * @typedef {object} Actions
 * @property {(message: Waiting) => void} onRecall
 * @property {(message: Waiting, now: boolean) => void} onSteer
 * @property {(message: Waiting, text: string) => void} onEdit
 * @property {(message: Waiting, text: string | null) => void} onTyped an edit as it stands, null when it is over
 * @typedef {object} State
 * @property {boolean} active a turn runs that a message could join
 * @property {Set<string>} busy origin ids of messages with a command under way
 * @property {(message: Waiting) => string} note what is to be said of a message
 * @property {(message: Waiting) => string | null} draft an edit that an earlier page began
 */

/** Why a message waits in another way than it was sent (input.prompt.reason). @type {Record<string, string>} */
const REASONS = {
  turn_ended: 'The answer had ended; this message goes next.',
  payload_too_large: 'Too long to join the answer; it goes next.',
};

/** @param {Waiting} message */
export function reasonNote(message) {
  return REASONS[message.reason] ?? '';
}

/**
 * Where a message goes, as a tone and a word; null for the plain place in line.
 * @param {Waiting} message
 * @param {boolean} active
 * @returns {[string, string] | null}
 */
export function placeOf(message, active) {
  if (joins(message)) return active ? ['running', 'joins this answer'] : ['queued', 'offered to the answer'];
  return message.rank < 0 || message.mode === 'interrupt' ? ['queued', 'next'] : null;
}

/** @param {Waiting} message */
function joins(message) {
  return message.mode === 'steer' && message.reason !== 'payload_too_large';
}

export class WaitingList {
  /** @param {Actions} actions @param {HTMLElement} refuge where the focus goes when the last row leaves */
  constructor(actions, refuge) {
    this.root = byId('waiting');
    this.actions = actions;
    this.refuge = refuge;
    /** @type {Map<string, Row>} by origin id */
    this.rows = new Map();
  }

  /** @param {Waiting[]} waiting @param {State} state */
  draw(waiting, state) {
    const focus = this.focus();
    this.root.hidden = waiting.length === 0;
    const keys = new Set(waiting.map((message) => message.originId));
    for (const key of this.rows.keys()) if (!keys.has(key)) this.rows.delete(key);
    reconcile(this.root, waiting.map((message, i) => ({
      key: message.originId,
      make: () => {
        const row = new Row(message, this.actions, state.draft(message));
        this.rows.set(message.originId, row);
        return row.element;
      },
      update: () => this.rows.get(message.originId)?.draw(message, i + 1, state),
    })));
    this.refocus(focus);
  }

  /** Begins to edit the message that was written last. @returns {boolean} whether one waits */
  editLast() {
    const row = [...this.rows.values()].filter((one) => one.element.isConnected)
      .sort((a, b) => b.message.seq - a.message.seq)[0];
    row?.edit(row.message.text);
    return row !== undefined;
  }

  focus() {
    const focused = document.activeElement;
    if (!(focused instanceof HTMLElement) || !this.root.contains(focused)) return null;
    const index = [...this.root.children].findIndex((child) => child.contains(focused));
    return { index, action: focused.dataset.action ?? '' };
  }

  /** @param {{index: number, action: string} | null} was */
  refocus(was) {
    if (!was) return;
    const focused = document.activeElement;
    if (focused instanceof HTMLElement && this.root.contains(focused) && !focused.hidden) return;
    const row = this.root.children[Math.min(was.index, this.root.children.length - 1)];
    const same = row?.querySelector(`[data-action="${was.action}"]:not([hidden])`);
    const next = same ?? row?.querySelector('[data-action]:not([hidden])') ?? this.refuge;
    if (next instanceof HTMLElement) next.focus();
  }
}

class Row {
  /** @param {Waiting} message @param {Actions} actions @param {string | null} draft */
  constructor(message, actions, draft) {
    this.message = message;
    this.actions = actions;
    this.busy = false;
    this.number = h('span', { class: 'n' });
    this.text = h('span', { class: 't', dir: 'auto' });
    this.chip = h('span', { hidden: true, 'data-testid': 'waiting-place' });
    this.note = h('small', { class: 'waiting-note', hidden: true, 'data-testid': 'waiting-note' });
    this.buttons = {
      steer: this.button('steer', 'Steer', 'Let it join the answer that runs, after the part being written', () => actions.onSteer(this.message, false)),
      now: this.button('steer-now', 'Steer now', 'Cut the answer here and let it join at once', () => actions.onSteer(this.message, true)),
      edit: this.button('edit', 'Edit', 'Change it in its place', () => this.edit(this.message.text)),
      recall: this.button('recall', 'Recall', 'Take it back into the message box', () => actions.onRecall(this.message)),
    };
    this.acts = h('span', { class: 'acts' }, ...Object.values(this.buttons));
    this.box = h('textarea', { rows: '1', dir: 'auto', 'aria-label': 'The waiting message', 'data-testid': 'edit-box' });
    this.form = this.editor();
    this.element = h('li', { 'data-testid': 'waiting-item' },
      this.number, this.text, this.chip, this.acts, this.form, this.note);
    if (draft !== null) this.edit(draft, false);
  }

  /** @param {string} name @param {string} word @param {string} title @param {() => void} act */
  button(name, word, title, act) {
    const button = h('button', { type: 'button', class: 'btn quiet', 'data-testid': name, 'data-action': name, title }, word);
    button.addEventListener('click', () => { if (!this.busy) act(); });
    return button;
  }

  editor() {
    const form = h('form', { class: 'edit', hidden: true }, this.box,
      h('button', { type: 'submit', class: 'btn', 'data-testid': 'edit-save' }, 'Save'),
      h('button', { type: 'button', class: 'btn quiet', 'data-testid': 'edit-cancel', onclick: () => this.endEdit() }, 'Cancel'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.save();
    });
    this.box.addEventListener('input', () => this.actions.onTyped(this.message, this.box.value));
    this.box.addEventListener('keydown', (event) => {
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        this.endEdit();
      } else if (event.key === 'Enter' && !event.shiftKey) {
        event.preventDefault();
        this.save();
      }
    });
    return form;
  }

  /** @param {string} text @param {boolean} [focus] */
  edit(text, focus = true) {
    if (this.form.hidden) this.box.value = text;
    this.show(true);
    if (!focus) return;
    this.box.focus();
    this.box.setSelectionRange(this.box.value.length, this.box.value.length);
  }

  save() {
    const text = this.box.value;
    if (!text.trim()) return;
    if (text !== this.message.text) this.actions.onEdit(this.message, text);
    this.endEdit();
  }

  endEdit() {
    this.actions.onTyped(this.message, null);
    this.show(false);
    this.buttons.edit.focus();
  }

  /** @param {boolean} editing */
  show(editing) {
    this.form.hidden = !editing;
    this.text.hidden = editing;
    this.acts.hidden = editing;
  }

  /** @param {Waiting} message @param {number} number @param {State} state */
  draw(message, number, state) {
    this.message = message;
    this.busy = state.busy.has(message.originId);
    const line = message.text.trim().replaceAll(/\s+/g, ' ');
    setText(this.number, String(number));
    setText(this.text, line);
    this.text.title = message.text;
    this.element.dataset.mode = joins(message) ? 'steer' : 'queue';
    this.element.setAttribute('aria-busy', String(this.busy));
    const place = placeOf(message, state.active);
    this.chip.hidden = !place;
    if (place) {
      this.chip.className = `chip ${place[0]}`;
      setText(this.chip, place[1]);
    }
    const note = state.note(message) || reasonNote(message);
    this.note.hidden = !note;
    setText(this.note, note);
    const mayJoin = state.active && message.reason !== 'payload_too_large';
    this.buttons.steer.hidden = !mayJoin || joins(message);
    this.buttons.now.hidden = !mayJoin;
    for (const button of Object.values(this.buttons)) {
      button.setAttribute('aria-label', `${button.textContent} “${line.slice(0, 60)}”`);
      if (this.busy) button.setAttribute('aria-disabled', 'true');
      else button.removeAttribute('aria-disabled');
    }
  }
}

/** @param {HTMLElement} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
