// Texts that came back and found no room in the message box: recalled while
// something else was typed, or an edit whose message had started. They stay, also
// over a reload, until they are used or put away. Nothing typed is lost.
import { byId, copyText, h, reconcile } from './dom.js';
import { flash } from './prose.js';

/**
 * @typedef {import('./store.js').Store} Store
 * @typedef {import('./store.js').Kept} Kept
 * @typedef {{box: HTMLTextAreaElement, threadId: string, putBack: (text: string) => void}} Composer
 */

export class Shelf {
  /**
   * @param {Store} store what every tab sees: texts that came back
   * @param {Store} tab what this tab alone sees: recalls and edits under way
   * @param {Composer} composer
   */
  constructor(store, tab, composer) {
    this.store = store;
    this.tab = tab;
    this.composer = composer;
    this.root = byId('shelf');
    /** @type {Set<string>} recalls that this page waits for */
    this.asked = new Set();
  }

  /** A recall is asked for. @param {string} threadId @param {string} id @param {string} text */
  ask(threadId, id, text) {
    this.asked.add(id);
    this.put(this.tab, threadId, { id, text, state: 'asked' });
  }

  /** It was refused. @param {string} threadId @param {string} id */
  stays(threadId, id) {
    this.asked.delete(id);
    this.drop(this.tab, threadId, id);
  }

  /** A text came back: into the box if that is free. @param {string} threadId @param {string} id @param {string} text */
  back(threadId, id, text) {
    this.asked.delete(id);
    this.drop(this.tab, threadId, id);
    if (this.composer.threadId === threadId && !this.composer.box.value.trim()) {
      this.composer.putBack(text);
      return;
    }
    this.put(this.store, threadId, { id, text, state: 'back' });
    if (this.composer.threadId === threadId) this.draw(threadId);
  }

  /** An edit as far as it is typed, null when it is over. @param {string} threadId @param {string} id @param {string | null} text */
  typed(threadId, id, text) {
    if (text === null) this.drop(this.tab, threadId, id);
    else this.put(this.tab, threadId, { id, text, state: 'edit' });
  }

  /** @param {string} threadId @param {string} id */
  edit(threadId, id) {
    return this.tab.kept(threadId).find((one) => one.id === id && one.state === 'edit')?.text ?? null;
  }

  /**
   * Looks after what the log has decided meanwhile: recalls whose answer an earlier
   * page did not hear, and edits whose message waits no more.
   * @param {string} threadId
   * @param {(id: string) => string} fate
   * @returns {boolean} whether an edit came too late
   */
  settle(threadId, fate) {
    let late = false;
    for (const { id, text, state } of this.tab.kept(threadId)) {
      const end = fate(id);
      if (end === 'unknown' || end === 'waiting' || this.asked.has(id)) continue;
      if (state === 'edit' || end === 'recalled') this.back(threadId, id, text);
      else this.drop(this.tab, threadId, id);
      late ||= state === 'edit';
    }
    return late;
  }

  /** @param {string} threadId */
  draw(threadId) {
    const list = this.store.kept(threadId).filter((one) => one.state === 'back');
    this.root.hidden = list.length === 0;
    reconcile(this.root, list.map((one) => ({ key: one.id, sig: one.text, make: () => this.row(threadId, one) })));
  }

  /** @param {string} threadId @param {Kept} kept */
  row(threadId, { id, text }) {
    const line = text.trim().replaceAll(/\s+/g, ' ');
    const away = () => {
      this.drop(this.store, threadId, id);
      this.draw(threadId);
      this.composer.box.focus();
    };
    const button = (/** @type {string} */ name, /** @type {string} */ word, /** @type {(event: any) => void} */ act) => h('button', {
      type: 'button', class: 'btn quiet', 'data-testid': name, 'aria-label': `${word} “${line.slice(0, 60)}”`, onclick: act,
    }, word);
    return h('li', { 'data-testid': 'shelf-item' },
      h('span', { class: 'n' }, 'Taken back'),
      h('span', { class: 't', dir: 'auto', title: text }, line),
      h('span', { class: 'acts' },
        button('shelf-copy', 'Copy', ({ currentTarget }) => copyText(text).then(() => flash(currentTarget, 'Copied'), () => flash(currentTarget, 'Refused'))),
        button('shelf-insert', 'Insert', () => {
          this.composer.putBack(text);
          away();
        }),
        button('shelf-away', 'Put away', away)));
  }

  /** @param {Store} store @param {string} threadId @param {Kept} kept */
  put(store, threadId, kept) {
    store.keepKept(threadId, [...store.kept(threadId).filter((one) => one.id !== kept.id), kept]);
  }

  /** @param {Store} store @param {string} threadId @param {string} id */
  drop(store, threadId, id) {
    store.keepKept(threadId, store.kept(threadId).filter((one) => one.id !== id));
  }
}
