// What must outlive the page: drafts, messages on their way, what was taken back,
// apart for each account. A browser that refuses storage gets a page that works
// and forgets.

/**
 * @typedef {{clientEventId: string, threadId: string, clientThreadId?: string, text: string,
 *   mode: string, model?: string, agentId?: string, revokesEventId?: string, from?: 'edit' | 'again'}} Unsent
 * from: what it was sent from, if not from the message box
 * @typedef {{id: string, text: string, state: 'edit' | 'asked' | 'back'}} Kept
 * a text of a waiting message: being edited, being recalled, or taken back
 */

export class Store {
  /** @param {string} accountId @param {Storage | null} [storage] */
  constructor(accountId, storage = safeStorage('localStorage')) {
    this.prefix = `fairlead:${accountId}:`;
    this.storage = storage;
  }

  /** @param {string} threadId "" is the new thread */
  draft(threadId) {
    return this.read(`draft:${threadId}`) ?? '';
  }

  /** @param {string} threadId @param {string} text */
  keepDraft(threadId, text) {
    this.write(`draft:${threadId}`, text || null);
  }

  /** What Enter does while an answer runs, "" for what the account prefers. */
  whileBusy() {
    return this.read('while-busy') ?? '';
  }

  /** @param {string} mode */
  keepWhileBusy(mode) {
    this.write('while-busy', mode || null);
  }

  /** @param {string} threadId @returns {Kept[]} */
  kept(threadId) {
    return this.list(`kept:${threadId}`).filter((one) => typeof one?.id === 'string' && typeof one.text === 'string');
  }

  /** @param {string} threadId @param {Kept[]} list */
  keepKept(threadId, list) {
    this.write(`kept:${threadId}`, list.length ? JSON.stringify(list) : null);
  }

  /** Messages without a receipt, oldest first. @returns {Unsent[]} */
  unsent() {
    return this.list('outbox').filter((one) => typeof one?.clientEventId === 'string');
  }

  /** @param {Unsent} message */
  keepUnsent(message) {
    const others = this.unsent().filter((one) => one.clientEventId !== message.clientEventId);
    this.write('outbox', JSON.stringify([...others, message]));
  }

  /** @param {string} clientEventId */
  dropUnsent(clientEventId) {
    const left = this.unsent().filter((one) => one.clientEventId !== clientEventId);
    this.write('outbox', left.length ? JSON.stringify(left) : null);
  }

  /** @param {string} key @returns {any[]} */
  list(key) {
    try {
      const list = JSON.parse(this.read(key) ?? '[]');
      return Array.isArray(list) ? list : [];
    } catch {
      return [];
    }
  }

  /** @param {string} key */
  read(key) {
    try {
      return this.storage?.getItem(this.prefix + key) ?? null;
    } catch {
      return null;
    }
  }

  /** @param {string} key @param {string | null} value */
  write(key, value) {
    try {
      if (value === null) this.storage?.removeItem(this.prefix + key);
      else this.storage?.setItem(this.prefix + key, value);
    } catch {
      // Full or forbidden: the page goes on without.
    }
  }
}

/** @param {'localStorage' | 'sessionStorage'} name that of this tab survives a reload and is seen by no other */
export function safeStorage(name) {
  try {
    return globalThis[name] ?? null;
  } catch {
    return null;
  }
}
