// The model of the thread. The choice is the thread's and lives on the server
// (F01); for a thread that does not exist yet it is kept until the first message.
import { byId, h } from './dom.js';

/** @typedef {import('./wire.js').Model} Model */

export class ModelPicker {
  /** @param {(model: string) => void} onChoose */
  constructor(onChoose) {
    this.select = /** @type {HTMLSelectElement} */ (byId('model'));
    /** @type {Model[]} */
    this.models = [];
    this.chosen = '';
    this.usual = '';
    this.select.addEventListener('change', () => {
      this.chosen = this.select.value;
      onChoose(this.chosen);
    });
  }

  /** @param {Model[]} models */
  offer(models) {
    this.models = models;
    this.draw();
  }

  /**
   * @param {string | null | undefined} model the thread's, null for the default
   * @param {string} [usual] what the assistant runs on if nothing is chosen
   */
  show(model, usual = '') {
    this.chosen = model ?? '';
    this.usual = usual;
    this.draw();
  }

  /** @param {string} id */
  nameOf(id) {
    return this.models.find((model) => model.id === id)?.name || id;
  }

  draw() {
    if (this.models.length === 0) {
      this.select.replaceChildren(h('option', {}, 'No model is offered'));
      this.select.disabled = true;
      return;
    }
    const fallback = this.models.find((model) => model.default) ?? this.models.find((model) => model.ready);
    const value = this.chosen || this.usual || fallback?.id || '';
    /** @type {Map<string, HTMLElement[]>} */
    const groups = new Map();
    const seen = new Set();
    for (const model of this.models) {
      if (seen.has(model.id)) continue;
      seen.add(model.id);
      const option = h('option', { value: model.id, disabled: !model.ready && model.id !== value }, labelOf(model));
      groups.set(model.provider, [...(groups.get(model.provider) ?? []), option]);
    }
    if (value && !seen.has(value)) {
      groups.set('', [h('option', { value }, `${value} (no longer offered)`)]);
    }
    const nodes = [...groups].flatMap(([provider, options]) =>
      (groups.size > 1 && provider ? [h('optgroup', { label: provider }, ...options)] : options));
    this.select.replaceChildren(...nodes);
    this.select.value = value;
    this.select.disabled = false;
  }
}

/** @param {Model} model */
function labelOf(model) {
  const name = model.name || model.id;
  if (model.ready) return name;
  const reason = model.reason?.replaceAll('_', ' ') || 'not ready';
  return `${name} (${reason})`;
}
