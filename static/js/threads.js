// The list of threads: grouped by day, with the state of each; searched on the
// server; kept current by the account's feed.
import { byId, h, reconcile } from './dom.js';
import { dayGroup, exact, listTime } from './time.js';

/**
 * @typedef {import('./wire.js').Thread} Thread
 * @typedef {import('./wire.js').FeedEvent} FeedEvent
 * @typedef {{request: (type: string, fields: Record<string, unknown>) => Promise<any>}} Asker
 * @typedef {object} Listener
 * @property {(threadId: string) => string} href
 * @property {(threadId: string) => void} onOpen
 * @property {(threadId: string) => void} onDeleted
 * @property {(thread: Thread) => void} onThread
 */

const PAGE = 50;

export class Threads {
  /** @param {Asker} line @param {Listener} listener */
  constructor(line, listener) {
    this.line = line;
    this.listener = listener;
    this.root = byId('threads');
    this.search = /** @type {HTMLInputElement} */ (byId('thread-search'));
    /** @type {Map<string, Thread>} */
    this.known = new Map();
    /** @type {Thread[] | null} */
    this.found = null;
    this.next = '';
    this.feedSeq = -1;
    this.openId = '';
    this.loaded = false;
    /** @type {any} */ this.searchTimer = null;
    this.search.addEventListener('input', () => {
      clearTimeout(this.searchTimer);
      this.searchTimer = setTimeout(() => void this.find(), 180);
    });
    this.search.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.search.value) {
        event.stopPropagation();
        this.search.value = '';
        void this.find();
      }
    });
    this.root.addEventListener('click', (event) => this.clicked(event));
    this.root.addEventListener('scroll', () => this.scrolled(), { passive: true });
  }

  /** @param {{threads?: Thread[], next?: string} | undefined} reply */
  start(reply) {
    if (reply?.threads) this.take({ threads: reply.threads, next: reply.next }, true);
    this.draw();
  }

  /** After each connect: follows the feed, then lists anew. */
  async live() {
    try {
      const follow = await this.line.request('threads.follow', this.feedSeq >= 0 ? { sinceSeq: this.feedSeq } : {});
      // The first time the list that follows says it all.
      if (this.feedSeq >= 0) for (const event of follow.events ?? []) this.feed(event, false);
      this.feedSeq = Math.max(this.feedSeq, follow.latestSeq ?? 0);
      const reply = await this.line.request('threads.list', { limit: PAGE });
      this.take(reply, this.known.size <= PAGE);
      this.draw();
    } catch {
      // The line went away; live() runs again when it is back.
    }
  }

  /** @param {{threads: Thread[], next?: string}} reply @param {boolean} whole */
  take(reply, whole) {
    if (whole) {
      this.known.clear();
      this.next = reply.next ?? '';
    }
    for (const thread of reply.threads) this.known.set(thread.id, thread);
    this.loaded = true;
  }

  /** @param {import('./wire.js').Push} push */
  push(push) {
    for (const event of push.events ?? []) this.feed(event, true);
    if (push.latestSeq) this.feedSeq = Math.max(this.feedSeq, push.latestSeq);
    this.draw();
  }

  /** @param {FeedEvent} event @param {boolean} live */
  feed(event, live) {
    if (event.kind === 'deleted') {
      const was = this.known.delete(event.threadId);
      this.found = this.found?.filter((thread) => thread.id !== event.threadId) ?? null;
      if (was || live) this.listener.onDeleted(event.threadId);
      return;
    }
    const before = this.known.get(event.threadId);
    if (event.thread) this.set(event.thread);
    else if (before && event.kind === 'renamed') this.set({ ...before, title: event.title ?? null });
    else if (before && event.kind === 'model_selection_updated') this.set({ ...before, model: event.model ?? null });
    else if (!before && event.kind === 'created') {
      this.set({
        id: event.threadId, title: event.title ?? null, model: event.model ?? null, createdAt: event.createdAt,
        updatedAt: event.createdAt, latestSeq: 0, lastReadSeq: 0, waiting: 0,
      });
    }
  }

  /** @param {Thread} thread */
  set(thread) {
    this.known.set(thread.id, thread);
    if (this.found) this.found = this.found.map((one) => (one.id === thread.id ? thread : one));
    this.listener.onThread(thread);
  }

  /** @param {Thread} thread what an open thread tells of itself */
  note(thread) {
    this.known.set(thread.id, thread);
    this.draw();
  }

  /** @param {string} threadId */
  select(threadId) {
    this.openId = threadId;
    this.draw();
  }

  async find() {
    const query = this.search.value.trim();
    if (!query) {
      this.found = null;
      this.draw();
      return;
    }
    try {
      const reply = await this.line.request('threads.list', { query, limit: PAGE });
      if (this.search.value.trim() === query) this.found = reply.threads;
    } catch {
      const lower = query.toLowerCase();
      this.found = [...this.known.values()].filter((thread) => titleOf(thread).toLowerCase().includes(lower));
    }
    this.draw();
  }

  scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.root;
    if (!this.next || this.found || scrollTop + clientHeight < scrollHeight - 200) return;
    const cursor = this.next;
    this.next = '';
    this.line.request('threads.list', { cursor, limit: PAGE }).then((reply) => {
      this.take(reply, false);
      this.next = reply.next ?? '';
      this.draw();
    }, () => { this.next = cursor; });
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const link = event.target instanceof Element ? event.target.closest('a[data-thread]') : null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.listener.onOpen(link.getAttribute('data-thread') ?? '');
  }

  /** A redraw does not take the focus from the thread that has it. */
  draw() {
    const focused = this.root.contains(document.activeElement) ? document.activeElement?.getAttribute('data-thread') : null;
    this.drawList();
    if (focused && !this.root.contains(document.activeElement)) {
      /** @type {HTMLElement | null} */ (this.root.querySelector(`[data-thread="${CSS.escape(focused)}"]`))?.focus();
    }
  }

  drawList() {
    const list = this.found ?? [...this.known.values()].sort((a, b) => b.updatedAt.localeCompare(a.updatedAt));
    if (list.length === 0) {
      this.root.replaceChildren(h('p', { class: 'threads-note', 'data-testid': 'threads-empty' }, this.emptyText()));
      return;
    }
    const now = new Date();
    /** @type {Map<string, Thread[]>} */
    const groups = new Map();
    for (const thread of list) {
      const name = this.found ? 'Found' : dayGroup(new Date(thread.updatedAt), now);
      groups.set(name, [...(groups.get(name) ?? []), thread]);
    }
    this.root.querySelector('.threads-note')?.remove();
    reconcile(this.root, [...groups].map(([name, threads]) => ({
      key: name,
      make: () => h('section', {}, h('h2', {}, name), h('ul', {})),
      update: (section) => reconcile(/** @type {Element} */ (section.querySelector('ul')), threads.map((thread) => ({
        key: thread.id, sig: this.signature(thread, now), make: () => this.row(thread, now),
      }))),
    })));
  }

  emptyText() {
    if (this.found) return 'No thread matches this search.';
    return this.loaded ? 'No threads yet. Write a message to start the first one.' : 'Loading your threads…';
  }

  /** @param {Thread} thread @param {Date} now */
  signature(thread, now) {
    return [thread.title, thread.updatedAt, thread.waiting, thread.turn?.status, this.unread(thread), thread.id === this.openId, now.toDateString()].join('|');
  }

  /** @param {Thread} thread */
  unread(thread) {
    return thread.id !== this.openId && thread.latestSeq > thread.lastReadSeq && !activeState(thread);
  }

  /** @param {Thread} thread @param {Date} now */
  row(thread, now) {
    const unread = this.unread(thread);
    const at = new Date(thread.updatedAt);
    const state = activeState(thread);
    const link = h('a', {
      href: this.listener.href(thread.id), 'data-thread': thread.id, 'data-testid': 'thread-link',
      'aria-current': thread.id === this.openId ? 'page' : undefined,
    }, h('span', { class: 'title', dir: 'auto' }, titleOf(thread)));
    if (unread) link.append(h('span', { class: 'dot' }), h('span', { class: 'vh' }, 'unread'));
    if (state) link.append(h('span', { class: `chip ${state[0]}` }, state[1]));
    else link.append(h('time', { datetime: thread.updatedAt, title: exact(at) }, listTime(at, now)));
    return h('li', { class: unread ? 'unread' : undefined }, link);
  }
}

/** @param {Thread} thread @returns {[string, string] | null} tone and word */
function activeState(thread) {
  const status = thread.turn?.status;
  if (thread.waiting > 0) return ['queued', `${thread.waiting} waiting`];
  if (status === 'running') return ['running', 'running'];
  if (status === 'pending' || status === 'queued') return ['queued', status];
  return null;
}

/** @param {Thread} thread */
export function titleOf(thread) {
  return thread.title || 'New thread';
}
