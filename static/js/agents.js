// The assistant that a new thread talks to, and the name of the one that an open
// thread talks to. A thread keeps its assistant; where there is only one there is
// nothing to choose and nothing to name.
import { byId, h } from './dom.js';

/** @typedef {import('./wire.js').Agent} Agent */

export class Agents {
  /** @param {(agent: Agent | null) => void} onChoose */
  constructor(onChoose) {
    this.root = byId('assistant');
    this.select = /** @type {HTMLSelectElement} */ (byId('agent'));
    this.about = byId('agent-about');
    this.name = byId('thread-agent');
    /** @type {Agent[]} */
    this.agents = [];
    /** The assistant asked for, "" for the default one. */
    this.chosen = new URLSearchParams(location.search).get('agent') ?? '';
    this.threadAgent = '';
    this.select.addEventListener('change', () => {
      this.chosen = this.select.value;
      this.draw();
      onChoose(this.current);
    });
  }

  /** @param {Agent[]} agents */
  offer(agents) {
    this.agents = agents;
    this.draw();
  }

  /** @param {string} agentId the open thread's, "" for a new thread */
  show(agentId) {
    this.threadAgent = agentId;
    this.draw();
  }

  /** The assistant of a new thread. @returns {Agent | null} */
  get current() {
    return this.agents.find((agent) => agent.id === this.chosen)
      ?? this.agents.find((agent) => agent.default) ?? this.agents[0] ?? null;
  }

  /** What message.send names: nothing where there is no choice. */
  get sent() {
    return this.agents.length > 1 ? this.current?.id : undefined;
  }

  draw() {
    const many = this.agents.length > 1;
    this.root.hidden = !many;
    const of = many ? this.agents.find((agent) => agent.id === this.threadAgent) : undefined;
    this.name.hidden = !of;
    if (of && this.name.textContent !== of.displayName) this.name.textContent = of.displayName;
    if (!many) return;
    this.select.replaceChildren(...this.agents.map((agent) => h('option', { value: agent.id }, agent.displayName)));
    this.select.value = this.current?.id ?? '';
    this.about.textContent = this.current?.description ?? '';
    this.about.hidden = !this.about.textContent;
  }
}
