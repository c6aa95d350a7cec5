// Small helpers around the DOM. Text goes in as text: nothing here parses HTML
// except parseHTML, whose input the server has rendered and sanitised.

/**
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/**
 * Makes an element. Keys of attrs are attribute names, but for "class", which may
 * be a list, and on…, which are listeners. false and undefined leave one out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attrs]
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attrs = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

const SVG = 'http://www.w3.org/2000/svg';

/** A plain line icon from path data. @param {string} path */
export function icon(path) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [name, value] of Object.entries({
    class: 'icon', viewBox: '0 0 20 20', fill: 'none', stroke: 'currentColor', 'stroke-width': '1.6',
    'stroke-linecap': 'round', 'stroke-linejoin': 'round', 'aria-hidden': 'true',
  })) svg.setAttribute(name, value);
  const line = document.createElementNS(SVG, 'path');
  line.setAttribute('d', path);
  svg.append(line);
  return svg;
}

/** @param {string} html rendered and sanitised by the server */
export function parseHTML(html) {
  const template = document.createElement('template');
  template.innerHTML = html;
  return template.content;
}

/** @type {WeakMap<Element, string>} */
const keys = new WeakMap();
/** @type {WeakMap<Element, string>} */
const signatures = new WeakMap();

/**
 * Makes the children of a parent those of a list. A child with the same key and
 * signature stays the same element, so focus, selection and scroll stay too.
 * @param {Element} parent
 * @param {{key: string, sig?: string, make: () => HTMLElement, update?: (element: HTMLElement) => void}[]} list
 */
export function reconcile(parent, list) {
  /** @type {Map<string, Element>} */
  const old = new Map();
  for (const child of parent.children) {
    const key = keys.get(child);
    if (key !== undefined) old.set(key, child);
  }
  let at = parent.firstElementChild;
  for (const { key, sig = '', make, update } of list) {
    let child = /** @type {HTMLElement | undefined} */ (old.get(key));
    old.delete(key);
    if (child && signatures.get(child) !== sig) {
      const fresh = make();
      if (child === at) at = fresh;
      child.replaceWith(fresh);
      child = fresh;
    }
    child ??= make();
    keys.set(child, key);
    signatures.set(child, sig);
    update?.(child);
    if (child === at) at = child.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of old.values()) child.remove();
}

/** @param {() => void} fn */
export function whenIdle(fn) {
  if ('requestIdleCallback' in globalThis) requestIdleCallback(fn, { timeout: 1000 });
  else setTimeout(fn, 100);
}

/**
 * Puts a text on the clipboard; also on plain http, where there is no clipboard
 * API.
 * @param {string} text
 */
export async function copyText(text) {
  if (navigator.clipboard && globalThis.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = h('textarea', { class: 'vh', 'aria-hidden': 'true', tabindex: '-1' });
  area.value = text;
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!done) throw new Error('the browser refused to copy');
}
