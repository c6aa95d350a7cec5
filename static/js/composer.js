// The message box. Its text is a draft of its thread until the server's receipt
// (F06); the button says what Enter will do now.
import { byId, h } from './dom.js';
import { explainError } from './errors.js';
import { WORDS, WhileBusy } from './while-busy.js';

/**
 * @typedef {object} Actions
 * @property {(text: string, mode: string) => void} onSend
 * @property {() => void} onStop
 * @property {() => boolean} onEditLast whether a message waits
 */

const MOD = /Mac|iP(hone|ad)/.test(navigator.platform) ? '⌘' : 'Ctrl';

export class Composer {
  /** @param {import('./store.js').Store} store @param {Actions} actions */
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.form = /** @type {HTMLFormElement} */ (byId('composer'));
    this.box = /** @type {HTMLTextAreaElement} */ (byId('message'));
    this.button = /** @type {HTMLButtonElement} */ (byId('send'));
    this.stop = /** @type {HTMLButtonElement} */ (byId('stop'));
    this.note = byId('compose-note');
    this.hints = byId('hints');
    this.threadId = '';
    this.state = { busy: false, running: false, stopping: false, sending: false, live: false };
    this.composing = false;
    this.whileBusy = new WhileBusy(store, () => {
      this.draw();
      this.box.focus();
    });
    this.bind();
  }

  bind() {
    this.box.addEventListener('input', () => this.typed());
    this.box.addEventListener('compositionstart', () => { this.composing = true; });
    this.box.addEventListener('compositionend', () => { this.composing = false; });
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit(this.whileBusy.mode);
    });
    this.stop.addEventListener('click', () => this.actions.onStop());
    this.form.addEventListener('pointerdown', (event) => {
      if (event.target !== this.form) return;
      event.preventDefault();
      this.box.focus();
    });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    // keyCode 229 and isComposing: the key belongs to the input method.
    if (this.composing || event.isComposing || event.keyCode === 229) return;
    const mod = event.ctrlKey || event.metaKey;
    if (event.key === 'ArrowUp' && !mod && !event.shiftKey && !event.altKey && !this.box.value) {
      if (this.actions.onEditLast()) event.preventDefault();
      return;
    }
    if (event.key !== 'Enter' || (event.shiftKey && !mod)) return;
    event.preventDefault();
    this.submit(event.shiftKey ? 'interrupt' : mod ? this.whileBusy.other : this.whileBusy.mode);
  }

  typed() {
    this.store.keepDraft(this.threadId, this.box.value);
    this.grow();
    this.draw();
  }

  /** @param {string} mode */
  submit(mode) {
    const text = this.box.value;
    if (!text.trim() || this.state.sending) return;
    this.hideNote();
    this.actions.onSend(text, this.state.busy ? mode : 'auto');
  }

  /** Shows the draft of a thread. @param {string} threadId */
  show(threadId) {
    this.threadId = threadId;
    this.hideNote();
    this.set(this.store.draft(threadId));
  }

  /** @param {string} text */
  set(text) {
    this.box.value = text;
    this.store.keepDraft(this.threadId, text);
    this.grow();
    this.draw();
  }

  /** Puts a text in front of what is typed: nothing typed is lost. @param {string} text */
  putBack(text) {
    const typed = this.box.value;
    this.set(typed.trim() ? `${text}\n\n${typed}` : text);
    this.box.focus();
    this.box.setSelectionRange(text.length, text.length);
  }

  /**
   * The server has the message: it leaves the box, but what was typed behind it
   * meanwhile stays.
   * @param {string} sentFrom the thread, "" for a new one
   * @param {string} text
   * @returns {string} what stays
   */
  received(sentFrom, text) {
    const draft = this.threadId === sentFrom ? this.box.value : this.store.draft(sentFrom);
    const rest = draft.startsWith(text) ? draft.slice(text.length).replace(/^\n+/, '') : draft;
    if (this.threadId === sentFrom) this.set(rest);
    else this.store.keepDraft(sentFrom, rest);
    return rest;
  }

  /** Waits for the end of what an input method composes: changing the box would break it off. @param {() => void} fn */
  whenComposed(fn) {
    if (!this.composing) fn();
    else this.box.addEventListener('compositionend', () => setTimeout(() => this.whenComposed(fn)), { once: true });
  }

  /** @param {Partial<Composer['state']>} change */
  update(change) {
    Object.assign(this.state, change);
    this.draw();
  }

  draw() {
    const { busy, running, stopping, sending, live } = this.state;
    const empty = !this.box.value.trim();
    this.whileBusy.draw(busy, running);
    const now = WORDS[this.whileBusy.effective];
    let label = busy ? now.send : 'Send';
    if (sending) label = live ? 'Sending…' : 'Waiting…';
    setText(this.button, label);
    this.button.disabled = empty || sending;
    if (!running && document.activeElement === this.stop) this.box.focus();
    this.stop.hidden = !running;
    this.stop.disabled = stopping;
    setText(/** @type {HTMLElement} */ (this.stop.querySelector('span')), stopping ? 'Stopping…' : 'Stop');
    const placeholder = busy ? `Message. Enter ${now.does}` : 'Message';
    if (this.box.placeholder !== placeholder) this.box.placeholder = placeholder;
    const hints = busy && !empty ? [['Enter', now.hint], [`${MOD} Enter`, WORDS[this.whileBusy.other].hint]] : [];
    const text = hints.flat().join(' ');
    if (this.hints.dataset.text !== text) {
      this.hints.dataset.text = text;
      this.hints.replaceChildren(...hints.map(([key, word]) => h('span', {}, h('kbd', {}, key ?? ''), ` ${word}`)));
    }
  }

  /** For browsers without field-sizing. */
  grow() {
    if (CSS.supports('field-sizing', 'content')) return;
    this.box.style.height = 'auto';
    this.box.style.height = `${this.box.scrollHeight}px`;
  }

  /** @param {string} title @param {string} text @param {{bad?: boolean, action?: [string, () => void]}} [options] */
  say(title, text, { bad = false, action } = {}) {
    this.note.className = bad ? 'compose-note bad' : 'compose-note';
    this.note.replaceChildren(h('b', {}, title), h('span', {}, text));
    if (action) {
      this.note.append(h('button', { type: 'button', class: 'btn', onclick: action[1] }, action[0]));
    }
    this.note.hidden = false;
  }

  /** @param {any} error */
  refused(error) {
    const { cause, cure } = explainError(error);
    this.say(cause, cure, { bad: true });
  }

  hideNote() {
    this.note.hidden = true;
  }
}

/** @param {HTMLElement} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
