// What must outlive the page: drafts and messages on their way, in localStorage,
// apart for each account. A browser that refuses storage gets a page that works
// and forgets.

/**
 * @typedef {{clientEventId: string, threadId: string, clientThreadId?: string, text: string,
 *   mode: string, model?: string}} Unsent
 */

export class Store {
  /** @param {string} accountId @param {Storage | null} [storage] */
  constructor(accountId, storage = safeStorage()) {
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

  /** Messages without a receipt, oldest first. @returns {Unsent[]} */
  unsent() {
    try {
      const list = JSON.parse(this.read('outbox') ?? '[]');
      return Array.isArray(list) ? list.filter((one) => typeof one?.clientEventId === 'string') : [];
    } catch {
      return [];
    }
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

function safeStorage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}
