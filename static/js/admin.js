// Live tables: rows come as fragments of the same components as the page's and
// are morphed into place, so that a selection or a hover survives a change. A
// patch may come twice or late: replacing a row that is not there adds it.
import { Idiomorph } from '../vendor/idiomorph.esm.js';
import { followed, freshPage, openLine } from './admin-line.js';
import { byId } from './dom.js';
import { refreshTimes } from './time.js';

/** @typedef {import('./admin-line.js').Patch} Patch */

const VIEWS = followed.map((each) => each.view);

/** What no patch told, such as a row that is gone, is on the page that the server renders now. */
async function reload() {
  const page = await freshPage();
  if (!page) return; // the next patches bring the rows
  for (const view of VIEWS) {
    const fresh = page.getElementById(`${view}-rows`);
    if (fresh) Idiomorph.morph(byId(`${view}-rows`), fresh.innerHTML, { morphStyle: 'innerHTML' });
    settle(view);
  }
}

/** @param {Patch} patch */
function apply(patch) {
  const rows = document.getElementById(`${patch.view}-rows`);
  if (!rows) return;
  if (patch.op === 'remove') document.getElementById(patch.target)?.remove();
  else if (patch.target === rows.id && patch.op === 'replace') Idiomorph.morph(rows, patch.html ?? '', { morphStyle: 'innerHTML' });
  else for (const row of parseRows(patch.html ?? '')) put(rows, row);
  settle(patch.view);
}

/** @param {string} html rows as the server rendered them */
function parseRows(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  return [...template.content.querySelectorAll('tr')];
}

/** @param {HTMLElement} rows @param {HTMLTableRowElement} row */
function put(rows, row) {
  const known = document.getElementById(row.id);
  if (known && rows.contains(known)) {
    if (known.dataset.order !== row.dataset.order) known.dataset.order = row.dataset.order;
    Idiomorph.morph(known, row.outerHTML, { morphStyle: 'outerHTML' });
  } else {
    row.classList.add('fresh');
    rows.append(row);
  }
  const placed = document.getElementById(row.id);
  if (placed?.dataset.order !== undefined) order(rows, placed);
}

/** Keeps the newest first. @param {HTMLElement} rows @param {HTMLElement} row */
function order(rows, row) {
  const key = Number(row.dataset.order);
  const before = [...rows.children].find((other) => other !== row && Number(/** @type {HTMLElement} */ (other).dataset.order) < key);
  if (before) {
    if (row.nextElementSibling !== before) rows.insertBefore(row, before);
  } else if (row !== rows.lastElementChild) rows.append(row);
}

/** Counts, filter and times of a view after its rows changed. @param {string} view */
function settle(view) {
  const rows = byId(`${view}-rows`);
  const input = /** @type {HTMLInputElement | null} */ (document.querySelector(`[data-filter="${view}"]`));
  const words = (input?.value ?? '').trim().toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of /** @type {Iterable<HTMLElement>} */ (rows.children)) {
    const ids = [...row.querySelectorAll('[data-copy]')].map((id) => id.getAttribute('data-copy')).join(' ');
    const text = `${row.textContent} ${ids}`.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) shown++;
  }
  const set = (/** @type {string} */ selector, /** @type {boolean} */ hidden) => {
    const element = /** @type {HTMLElement | null} */ (document.querySelector(selector));
    if (element) element.hidden = hidden;
  };
  set(`[data-empty="${view}"]`, rows.children.length > 0);
  set(`[data-no-match="${view}"]`, rows.children.length === 0 || shown > 0);
  const count = document.querySelector(`[data-count="${view}"]`);
  if (count) count.textContent = String(rows.children.length);
  refreshTimes(rows);
}

/** Marks the section that is being looked at. */
function bindSections() {
  const links = [...document.querySelectorAll('[data-section]')];
  const seen = new Map();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) seen.set(entry.target.id, entry.isIntersecting);
    const first = VIEWS.find((view) => seen.get(view));
    for (const link of links) {
      if (link.getAttribute('data-section') === first) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  }, { root: document.querySelector('.tables'), rootMargin: '0px 0px -60% 0px' });
  for (const view of VIEWS) watcher.observe(byId(view));
}

for (const view of VIEWS) {
  settle(view);
  document.querySelector(`[data-filter="${view}"]`)?.addEventListener('input', () => settle(view));
}
if (document.querySelector('[data-section]')) bindSections();
openLine(apply, () => void reload());
