// "What happened?": the timeline of a turn, told to its owner.
import { byId, h } from './dom.js';
import { explain, explainError } from './errors.js';
import { exact, span } from './time.js';

/** @typedef {import('./wire.js').Turn} Turn */

/** @type {Record<string, string>} */
const CATEGORY = {
  'tokens.input': 'Tokens read',
  'tokens.output': 'Tokens written',
  'tokens.cache_read': 'Tokens from the cache',
  'tokens.cache_creation': 'Tokens put into the cache',
  'tokens.reasoning': 'Tokens of reasoning',
};

/**
 * @param {{request: (type: string, fields: Record<string, unknown>) => Promise<any>}} line
 * @param {string} turnId
 */
export async function showTurn(line, turnId) {
  const dialog = /** @type {HTMLDialogElement} */ (byId('turn-dialog'));
  const body = byId('turn-dialog-body');
  body.replaceChildren(h('p', { class: 'fine' }, 'Asking…'));
  dialog.showModal();
  try {
    const reply = await line.request('turn.get', { turnId });
    body.replaceChildren(...describe(reply.turn));
  } catch (error) {
    const { cause, cure } = explainError(/** @type {any} */ (error));
    body.replaceChildren(h('p', { class: 'alert' }, `${cause} ${cure}`));
  }
}

/** @param {Turn} turn */
function describe(turn) {
  const start = new Date(turn.createdAt).getTime();
  const facts = h('dl', { class: 'facts' });
  const fact = (/** @type {string} */ name, /** @type {string | undefined} */ value) => {
    if (value) facts.append(h('dt', {}, name), h('dd', {}, value));
  };
  fact('State', turn.error ? `${turn.status}: ${explain(turn.error).cause} (${turn.error})` : turn.status);
  fact('Model', turn.model);
  fact('Route', turn.route);
  fact('Sent', exact(new Date(turn.createdAt)));
  if (turn.startedAt) fact('Waited', span(new Date(turn.startedAt).getTime() - start));
  if (turn.endedAt) fact('Took', span(new Date(turn.endedAt).getTime() - start));
  for (const row of turn.usage ?? []) fact(CATEGORY[row.category] ?? row.category, row.quantity.toLocaleString());
  const list = h('ol', { class: 'timeline' });
  for (const moment of turn.timeline ?? []) {
    const ms = new Date(moment.at).getTime() - start;
    list.append(h('li', {}, h('span', { class: 'at' }, ms <= 0 ? '0 ms' : `+${span(ms)}`), h('i', {}),
      h('div', {}, stageOf(moment.stage), moment.detail ? h('small', {}, moment.detail) : null)));
  }
  /** @type {Node[]} */
  const parts = [facts, list];
  if (turn.partial) parts.push(h('h3', {}, 'Unfinished text'), h('pre', { class: 'partial', tabindex: '0' }, turn.partial));
  return parts;
}

/** @param {string} stage */
function stageOf(stage) {
  const words = stage.replaceAll(/[._]/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
