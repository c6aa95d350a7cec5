// The page of one host or binding: whenever something of it changed, its parts are
// fetched again and morphed into place. Forms with fields are no such parts: nobody
// loses what they typed.
import { Idiomorph } from '../vendor/idiomorph.esm.js';
import { freshPage, openLine } from './admin-line.js';
import { refreshTimes } from './time.js';

/** The least time between two fetches, in ms. */
const REST = 700;
/** What becomes due by time alone (a state, the end of a wait) shows within this. */
const IDLE = 20_000;

const PARTS = '[data-live], [data-rows]';

let resting = false;
let due = false;

async function refresh() {
  // What somebody is asked about, or has sent, is not changed under their hands.
  if (resting || document.querySelector('dialog[open], form[data-sent]')) {
    due = true;
    return;
  }
  resting = true;
  due = false;
  const page = await freshPage();
  if (page && !document.querySelector('dialog[open]')) morph(page);
  setTimeout(() => {
    resting = false;
    if (due) void refresh();
  }, REST);
}

/** @param {Document} page */
function morph(page) {
  for (const part of document.querySelectorAll(PARTS)) {
    const name = part.getAttribute('data-live') ? `[data-live="${part.getAttribute('data-live')}"]` : `[data-rows="${part.getAttribute('data-rows')}"]`;
    const fresh = page.querySelector(name);
    if (!fresh) continue;
    refreshTimes(fresh);
    const config = { morphStyle: /** @type {const} */ ('innerHTML'), callbacks: { beforeNodeRemoved: mayGo } };
    Idiomorph.morph(part, fresh.innerHTML, config);
  }
  for (const rows of document.querySelectorAll('[data-rows]')) {
    const empty = /** @type {HTMLElement | null} */ (document.querySelector(`[data-empty="${rows.getAttribute('data-rows')}"]`));
    if (empty) empty.hidden = rows.children.length > 0;
  }
}

/** Why something was refused stays until the next try. @param {Node} node */
function mayGo(node) {
  return !(node instanceof Element && node.matches('.alert'));
}

openLine(() => void refresh(), () => void refresh());
setInterval(() => { if (!document.hidden) void refresh(); }, IDLE);
