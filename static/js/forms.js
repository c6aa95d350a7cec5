// Pages of forms. They work without this script; with it, a button that takes
// something away asks first, and a secret is selected whole.
import { h } from './dom.js';

/**
 * Asks in a dialog that Escape, and the button in focus, close without harm.
 * @param {string} question
 * @param {string} label
 * @returns {Promise<boolean>}
 */
function ask(question, label) {
  const dialog = h('dialog', { class: 'dialog confirm', 'aria-labelledby': 'confirm-question', 'data-testid': 'confirm' },
    h('p', { id: 'confirm-question' }, question),
    h('form', { method: 'dialog', class: 'actions' },
      h('button', { class: 'btn', value: 'no', autofocus: true }, 'Cancel'),
      h('button', { class: 'btn danger', value: 'yes' }, label)));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener('close', () => {
    dialog.remove();
    resolve(dialog.returnValue === 'yes');
  }, { once: true }));
}

/** @type {WeakSet<Element>} */
const agreed = new WeakSet();

// Before page.js counts the form as sent: capture comes first.
document.addEventListener('submit', (event) => {
  const button = /** @type {SubmitEvent} */ (event).submitter;
  const question = button?.getAttribute('data-confirm');
  if (!(button instanceof HTMLButtonElement) || !question || agreed.delete(button)) return;
  event.preventDefault();
  event.stopPropagation();
  const label = button.firstChild?.textContent?.trim() || 'Yes';
  void ask(question, label).then((yes) => {
    if (!yes) {
      button.focus();
      return;
    }
    agreed.add(button);
    button.form?.requestSubmit(button);
  });
}, { capture: true });

for (const input of document.querySelectorAll('.secret input')) {
  input.addEventListener('focus', () => /** @type {HTMLInputElement} */ (input).select());
}
