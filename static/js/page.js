// What every page does: theme, copying, relative times, forms that are sent once.
import { copyText } from './dom.js';
import { bindTheme } from './theme.js';
import { refreshTimes } from './time.js';
import { toast } from './toasts.js';

bindTheme();
refreshTimes(document);
setInterval(() => refreshTimes(document), 10_000);

document.addEventListener('click', (event) => {
  const button = event.target instanceof Element ? event.target.closest('[data-copy]') : null;
  if (!button) return;
  copyText(button.getAttribute('data-copy') ?? '').then(() => {
    button.classList.add('copied');
    toast('Copied', button.getAttribute('data-copy') ?? '');
    setTimeout(() => button.classList.remove('copied'), 1500);
  }, () => toast('The browser refused to copy.', 'Select the text and copy it by hand.', { bad: true }));
});

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.hasAttribute('data-once')) return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = 'yes';
});
addEventListener('pageshow', () => {
  for (const form of document.querySelectorAll('form[data-once]')) delete /** @type {HTMLElement} */ (form).dataset.sent;
});

if (/Mac|iP(hone|ad)/.test(navigator.platform)) {
  for (const key of document.querySelectorAll('kbd[data-mod]')) key.textContent = '⌘';
}
