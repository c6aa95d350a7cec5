// Rename and delete, in the header of an open thread.
import { byId } from './dom.js';
import { toastError } from './toasts.js';

/**
 * @param {{command: (type: string, fields: Record<string, unknown>) => Promise<any>}} line
 * @param {() => import('./wire.js').Thread | null} current
 * @param {(threadId: string) => void} onDeleted
 */
export function bindThreadTools(line, current, onDeleted) {
  const form = /** @type {HTMLFormElement} */ (byId('rename'));
  const input = /** @type {HTMLInputElement} */ (byId('rename-title'));
  const heading = byId('thread-title');
  const dialog = /** @type {HTMLDialogElement} */ (byId('delete-dialog'));
  const editing = (/** @type {boolean} */ on) => {
    form.hidden = !on;
    heading.hidden = on;
    byId('thread-tools').hidden = on || !current();
  };

  byId('rename-open').addEventListener('click', () => {
    input.value = current()?.title ?? '';
    editing(true);
    input.focus();
    input.select();
  });
  const cancel = () => {
    editing(false);
    byId('rename-open').focus();
  };
  form.querySelector('[data-rename-cancel]')?.addEventListener('click', cancel);
  form.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    cancel();
  });
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const thread = current();
    const title = input.value.trim();
    editing(false);
    if (!thread || !title || title === thread.title) return;
    heading.textContent = title;
    line.command('thread.rename', { threadId: thread.id, title }).catch((error) => {
      if (current()?.id === thread.id) heading.textContent = thread.title ?? 'New thread';
      toastError(error);
    });
  });

  byId('delete-open').addEventListener('click', () => {
    dialog.returnValue = 'keep';
    dialog.showModal();
  });
  dialog.addEventListener('close', () => {
    const thread = current();
    if (dialog.returnValue !== 'delete' || !thread) return;
    line.command('thread.delete', { threadId: thread.id }).then(() => onDeleted(thread.id), toastError);
  });

  return { reset: () => editing(false) };
}
