// The frame around a live page: what the line's state looks like, the drawer on
// narrow screens, and announcements for screen readers, which hear states and
// never tokens (F40).
import { byId, h } from './dom.js';

/** @typedef {import('./socket.js').LineState} LineState */

/** @type {Record<LineState, string>} */
const WORDS = {
  connecting: 'Connecting',
  live: 'Live',
  waiting: 'Reconnecting',
  ended: 'Logged out',
  stopped: 'Disconnected',
};

/** @type {Record<number, string>} */
const STOPPED = {
  4400: 'The server did not understand this page. It may be older than the server.',
  4403: 'The server refused this page’s address. An admin can allow it in the public URL setting.',
  4409: 'This page was replaced by another connection.',
};

/**
 * Shows the state of the line; a banner says what to do where something is to be
 * done.
 * @param {LineState} state
 * @param {{code?: number}} detail
 * @param {string} base
 */
export function showLine(state, detail, base) {
  const live = byId('live');
  const word = state === 'waiting' && !navigator.onLine ? 'Offline' : WORDS[state];
  if (live.textContent !== word) live.textContent = word;
  live.dataset.state = state;
  const banner = byId('banner');
  banner.hidden = state !== 'ended' && state !== 'stopped';
  if (state === 'ended') {
    const here = location.pathname.slice(base.length) || '/';
    banner.className = 'banner bad';
    banner.setAttribute('role', 'alert');
    banner.replaceChildren(
      h('span', {}, 'Your session ended. What you typed is kept in this browser.'),
      h('a', { class: 'btn', href: `${base}/login?next=${encodeURIComponent(here)}`, 'data-testid': 'login-again' }, 'Log in'));
  } else if (state === 'stopped') {
    banner.className = 'banner bad';
    banner.setAttribute('role', 'alert');
    banner.replaceChildren(
      h('span', {}, STOPPED[detail.code ?? 0] ?? 'The connection was refused. What you typed is kept in this browser.'),
      h('button', { type: 'button', class: 'btn', onclick: () => location.reload() }, 'Reload'));
  }
}

/** @param {string} text a state, never a token */
export function announce(text) {
  const status = byId('status');
  if (status.textContent !== text) status.textContent = text;
}

/** The side as a drawer on narrow screens. */
export function bindDrawer() {
  const side = byId('side');
  const scrim = /** @type {HTMLElement} */ (document.querySelector('.scrim'));
  const opener = /** @type {HTMLElement} */ (document.querySelector('[data-open-side]'));
  const main = /** @type {HTMLElement} */ (document.querySelector('.main'));
  const set = (/** @type {boolean} */ open) => {
    if (side.classList.contains('open') === open) return;
    side.classList.toggle('open', open);
    scrim.hidden = !open;
    main.inert = open;
    opener.setAttribute('aria-expanded', String(open));
    if (open) side.querySelector('a')?.focus();
    else opener.focus();
  };
  opener.addEventListener('click', () => set(true));
  for (const closer of document.querySelectorAll('[data-close-side]')) closer.addEventListener('click', () => set(false));
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !side.classList.contains('open')) return;
    event.stopImmediatePropagation();
    set(false);
  });
  matchMedia('(max-width: 760px)').addEventListener('change', (query) => { if (!query.matches) set(false); });
  return { close: () => set(false) };
}

/**
 * @param {{onNew: () => void, onStop: () => boolean, onSearch: () => void}} actions
 */
export function bindShortcuts({ onNew, onStop, onSearch }) {
  const keys = /** @type {HTMLDialogElement} */ (byId('keys-dialog'));
  byId('keys-open').addEventListener('click', () => keys.showModal());
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    const typing = event.target instanceof HTMLElement && (event.target.matches('input, textarea, select') || event.target.isContentEditable);
    const mod = event.ctrlKey || event.metaKey;
    if (event.key === 'Escape' && onStop()) event.preventDefault();
    else if (event.altKey && !mod && event.code === 'KeyN') act(event, onNew);
    else if (mod && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k') act(event, onSearch);
    else if (!typing && !mod && !event.altKey && event.key === '/') act(event, () => byId('message').focus());
    else if (!typing && !mod && !event.altKey && event.key === '?') act(event, () => keys.showModal());
  });
}

/** @param {KeyboardEvent} event @param {() => void} fn */
function act(event, fn) {
  event.preventDefault();
  fn();
}
