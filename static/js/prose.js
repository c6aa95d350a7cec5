// Finishes HTML that the server rendered: links open in new tabs, code can be
// copied, wide tables scroll by themselves, each block runs as its script does.
import { copyText, h, parseHTML, whenIdle } from './dom.js';

/** @param {string} html rendered and sanitised by the server */
export function prose(html) {
  const content = parseHTML(html);
  for (const block of content.children) block.setAttribute('dir', 'auto');
  for (const link of content.querySelectorAll('a[href]')) {
    link.setAttribute('target', '_blank');
    link.setAttribute('rel', 'noopener noreferrer nofollow');
  }
  for (const pre of [...content.querySelectorAll('pre')]) frameCode(pre);
  for (const table of [...content.querySelectorAll('table')]) {
    const frame = h('div', { class: 'scroll-x' });
    table.replaceWith(frame);
    frame.append(table);
    focusIfWide(frame, 'Table');
  }
  return content;
}

const LINK = /\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)|https?:\/\/[^\s)]+/g;

/** A plain text whose web addresses can be followed. @param {string} text */
export function linked(text) {
  const out = document.createDocumentFragment();
  let at = 0;
  for (const found of text.matchAll(LINK)) {
    const [whole, label, address = whole] = found;
    out.append(text.slice(at, found.index), h('a', { href: address, target: '_blank', rel: 'noopener noreferrer nofollow' }, label ?? address));
    at = found.index + whole.length;
  }
  out.append(text.slice(at));
  return out;
}

/** @param {HTMLPreElement} pre */
function frameCode(pre) {
  pre.dir = 'ltr';
  const copy = h('button', { type: 'button', class: 'btn quiet', 'data-testid': 'copy-code' }, 'Copy');
  copy.addEventListener('click', () => copyText(pre.textContent ?? '').then(
    () => flash(copy, 'Copied'), () => flash(copy, 'Refused')));
  const frame = h('div', { class: 'code' }, h('div', { class: 'code-top' }, h('span', {}, language(pre)), copy));
  const outer = pre.closest('.highlight, .chroma');
  const whole = outer && outer !== pre && outer.contains(pre) ? outer : pre;
  whole.replaceWith(frame);
  frame.append(whole);
  focusIfWide(pre, 'Code');
}

/** @param {HTMLElement} button @param {string} word */
export function flash(button, word) {
  const before = button.dataset.word ?? button.textContent ?? '';
  button.dataset.word = before;
  button.textContent = word;
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** @param {HTMLElement} pre */
function language(pre) {
  const marked = [pre, pre.querySelector('code')].map((element) =>
    element?.getAttribute('data-lang') ?? /(?:^|\s)language-(\S+)/.exec(element?.className ?? '')?.[1]);
  return marked.find(Boolean) ?? 'text';
}

/** A region that scrolls sideways can be reached by keyboard. @param {HTMLElement} element @param {string} label */
function focusIfWide(element, label) {
  whenIdle(() => {
    if (!element.isConnected || element.scrollWidth <= element.clientWidth) return;
    element.tabIndex = 0;
    element.setAttribute('role', 'region');
    element.setAttribute('aria-label', label);
  });
}
