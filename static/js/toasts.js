// Short notices: what failed, why, and what to do.
import { byId, h, icon } from './dom.js';
import { explainError } from './errors.js';

const SHOWN_FOR = 8_000;

/** @param {string} title @param {string} text @param {{bad?: boolean}} [options] */
export function toast(title, text, { bad = false } = {}) {
  const close = h('button', { type: 'button', class: 'btn quiet icon-btn', 'aria-label': 'Close this notice' }, icon('M5 5l10 10M15 5L5 15'));
  const body = h('div', {}, h('b', {}, title), h('span', {}, text));
  const box = h('div', { class: bad ? 'toast bad' : 'toast', role: bad ? 'alert' : 'status', 'data-testid': 'toast' }, body, close);
  let timer = setTimeout(() => box.remove(), SHOWN_FOR);
  close.addEventListener('click', () => box.remove());
  box.addEventListener('pointerenter', () => clearTimeout(timer));
  box.addEventListener('pointerleave', () => { timer = setTimeout(() => box.remove(), SHOWN_FOR / 2); });
  const stack = byId('toasts');
  stack.append(box);
  while (stack.children.length > 4) stack.firstElementChild?.remove();
}

/** @param {unknown} error a CommandError, or anything thrown */
export function toastError(error) {
  const code = /** @type {any} */ (error)?.code;
  if (typeof code !== 'string') {
    toast('It did not work.', String(error), { bad: true });
    return;
  }
  const { cause, cure } = explainError(/** @type {any} */ (error));
  toast(cause, cure, { bad: true });
}
