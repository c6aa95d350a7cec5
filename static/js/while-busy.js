// What Enter does while an answer runs: put the message in line, let it join the
// answer, or stop the answer and go first. Chosen above the box, remembered by
// this browser.
import { byId } from './dom.js';

/** @typedef {'queue' | 'steer' | 'interrupt'} Way */

/** @type {Record<Way, {send: string, hint: string, does: string}>} */
export const WORDS = {
  queue: { send: 'Queue', hint: 'queue', does: 'puts it in line behind the answer' },
  steer: { send: 'Steer', hint: 'steer', does: 'lets it join the answer' },
  interrupt: { send: 'Stop and send', hint: 'stop and send', does: 'stops the answer and sends it' },
};

export class WhileBusy {
  /** @param {import('./store.js').Store} store @param {() => void} onChange */
  constructor(store, onChange) {
    this.root = /** @type {HTMLFieldSetElement} */ (byId('while-busy'));
    /** @type {HTMLInputElement[]} */
    this.radios = [...this.root.querySelectorAll('input')];
    const kept = store.whileBusy();
    this.chosen = kept in WORDS ? /** @type {Way} */ (kept) : null;
    this.busy = false;
    this.running = false;
    this.root.addEventListener('change', (event) => {
      this.chosen = /** @type {Way} */ (/** @type {HTMLInputElement} */ (event.target).value);
      store.keepWhileBusy(this.chosen);
      onChange();
    });
  }

  /** @param {boolean} busy @param {boolean} running a turn runs that can be joined or stopped */
  draw(busy, running) {
    this.busy = busy;
    this.running = running;
    this.root.hidden = !busy;
    for (const radio of this.radios) {
      radio.disabled = radio.value !== 'queue' && !running;
      radio.checked = radio.value === this.effective;
    }
  }

  /** What Enter does now. @returns {Way} */
  get effective() {
    return this.running && this.chosen ? this.chosen : 'queue';
  }

  /** What Ctrl or ⌘ Enter does now. @returns {Way} */
  get other() {
    return this.running && this.effective !== 'steer' ? 'steer' : 'queue';
  }

  /** The mode of a message that Enter sends; auto where nobody has chosen. */
  get mode() {
    return this.busy && this.chosen ? this.effective : 'auto';
  }
}
