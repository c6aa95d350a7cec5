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
    body.replaceChildren(...describe(await whole(line, turnId)));
  } catch (error) {
    const { cause, cure } = explainError(/** @type {any} */ (error));
    body.replaceChildren(h('p', { class: 'alert' }, `${cause} ${cure}`));
  }
}

/**
 * Reads a turn with all of its unfinished text, which comes in pages.
 * @param {{request: (type: string, fields: Record<string, unknown>) => Promise<any>}} line
 * @param {string} turnId
 * @returns {Promise<Turn>}
 */
export async function whole(line, turnId) {
  const { turn, partialNext } = await line.request('turn.get', { turnId });
  for (let from = partialNext; from !== undefined;) {
    const page = await line.request('turn.get', { turnId, partialFrom: from });
    turn.partial = (turn.partial ?? '') + (page.turn.partial ?? '');
    from = page.partialNext;
  }
  return turn;
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
  const list = h('ol', { class: 'timeline' });
  for (const moment of turn.timeline ?? []) {
    const ms = new Date(moment.at).getTime() - start;
    list.append(h('li', {}, h('span', { class: 'at' }, ms <= 0 ? '0 ms' : `+${span(ms)}`), h('i', {}),
      h('div', {}, stageOf(moment), moment.detail && moment.stage !== 'steered' ? h('small', {}, moment.detail) : null)));
  }
  /** @type {Node[]} */
  const parts = [facts, list, ...usage(turn)];
  if (turn.partial) parts.push(h('h3', {}, 'Unfinished text'), text(turn.partial));
  if (turn.context) parts.push(h('details', {}, h('summary', {}, 'What the model was told besides'), text(turn.context)));
  return parts;
}

/** @param {string} content */
function text(content) {
  return h('pre', { class: 'partial', tabindex: '0' }, content);
}

/**
 * What the turn used: each response of the provider by itself, where there were
 * several, and what they cost where the org pays. @param {Turn} turn
 * @returns {Node[]}
 */
function usage(turn) {
  const rows = turn.usage ?? [];
  const estimate = turn.usageEstimate;
  if (rows.length === 0 && !estimate) return [];
  const responses = [...new Set(rows.map((row) => row.responseId))];
  const paid = rows.some((row) => row.cost !== undefined);
  const body = h('tbody', {});
  const line = (/** @type {string} */ name, /** @type {string} */ quantity, /** @type {number | undefined} */ cost) => body.append(h('tr', {},
    h('th', { scope: 'row' }, name), h('td', {}, quantity), paid && h('td', {}, cost === undefined ? '–' : cost.toLocaleString())));
  for (const row of rows) {
    const name = CATEGORY[row.category] ?? row.category;
    const of = responses.length > 1 ? `, response ${responses.indexOf(row.responseId) + 1}` : '';
    line(name + of, row.quantity.toLocaleString(), row.cost);
  }
  if (paid) line('In all', '', rows.reduce((sum, row) => sum + (row.cost ?? 0), 0));
  if (estimate) {
    line('Tokens read (estimated)', `≈ ${estimate.input.toLocaleString()}`, undefined);
    line('Tokens written (estimated)', `≈ ${estimate.output.toLocaleString()}`, undefined);
  }
  return [h('h3', {}, 'Usage'), h('table', { class: 'usage', 'data-testid': 'usage' },
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'What'), h('th', { scope: 'col' }, 'Quantity'), paid && h('th', { scope: 'col' }, 'Credits'))), body)];
}

/** The moments of a turn in plain words. @type {Record<string, string>} */
const STAGES = {
  queued: 'Put in line',
  org_queued: 'Waits for a free place in your organisation',
  dequeued: 'A place became free',
  claimed: 'Taken from the line',
  sent: 'Sent to the host',
  running: 'The host works on it',
  first_text: 'First words',
  'steered:message': 'A message joined the answer',
  'steered:deadline': 'The model was told that its time is nearly up',
  released: 'The host is done with it',
};

/** @param {import('./wire.js').Moment} moment */
function stageOf({ stage, detail }) {
  const known = STAGES[stage] ?? STAGES[`${stage}:${detail}`];
  if (known) return known;
  const words = stage.replaceAll(/[._]/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
