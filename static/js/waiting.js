// The messages that wait for their turn, above the composer, each with what can be
// done about it.
import { byId, h, reconcile } from './dom.js';

/**
 * @param {import('./fold.js').Waiting[]} waiting
 * @param {{onRecall: (message: import('./fold.js').Waiting) => void, recalling: Set<string>}} actions
 */
export function drawWaiting(waiting, { onRecall, recalling }) {
  const root = byId('waiting');
  root.hidden = waiting.length === 0;
  reconcile(root, waiting.map((message, i) => ({
    key: message.originId,
    sig: [message.id, message.mode, i, recalling.has(message.originId)].join('|'),
    make: () => {
      const busy = recalling.has(message.originId);
      const first = message.text.trim().replaceAll(/\s+/g, ' ');
      const item = h('li', { 'data-testid': 'waiting-item' },
        h('span', { class: 'n' }, String(i + 1)),
        h('span', { class: 't', title: message.text }, first));
      if (message.mode === 'steer') item.append(h('span', { class: 'chip running' }, 'steering'));
      if (message.mode === 'interrupt') item.append(h('span', { class: 'chip queued' }, 'next'));
      item.append(h('button', {
        type: 'button', class: 'btn quiet', disabled: busy, 'data-testid': 'recall',
        'aria-label': `Recall “${first.slice(0, 60)}”`, title: 'Take it back into the message box',
        onclick: () => onRecall(message),
      }, busy ? 'Recalling…' : 'Recall'));
      return item;
    },
  })));
}
