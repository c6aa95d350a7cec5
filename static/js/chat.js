// The chat page. Joins the line, the list of threads, the open thread, the
// transcript and the composer; keeps none of their state itself but which thread
// is open and what was asked of it.
import { Agents } from './agents.js';
import { Composer } from './composer.js';
import { byId } from './dom.js';
import { explain, explainReason } from './errors.js';
import { ModelPicker } from './models.js';
import { Outbox } from './outbox.js';
import { Queue } from './queue.js';
import { Follow } from './scroll.js';
import { announce, bindDrawer, bindShortcuts, showLine } from './shell.js';
import { Line, probe, socketURL } from './socket.js';
import { Store, safeStorage } from './store.js';
import { OpenThread } from './thread.js';
import { Threads, titleOf } from './threads.js';
import { bindThreadTools } from './thread-tools.js';
import { setServerTime } from './time.js';
import { toast, toastError } from './toasts.js';
import { Transcript } from './transcript.js';
import { showTurn } from './turn-dialog.js';
import { uuid } from './wire.js';

/**
 * @typedef {import('./wire.js').Thread} Thread
 * @typedef {{base: string, socket: string, accountId: string, threadId?: string, threads?: any}} Boot
 */

const SILENCE = { turnId: '', text: '' };

class ChatPage {
  /** @param {Boot} boot */
  constructor(boot) {
    this.boot = boot;
    /** @type {OpenThread | null} */
    this.open = null;
    this.epoch = '';
    /** @type {Set<string>} turns that were asked to stop */
    this.stopping = new Set();
    /** The turn of which was told last, and what; so that each state is said once. */
    this.said = SILENCE;
    /** @type {any} */ this.readTimer = null;

    this.store = new Store(boot.accountId);
    this.line = new Line({
      url: socketURL(boot.socket),
      probe: () => probe(boot.socket),
      onPush: (push) => this.push(push),
      onState: (state, detail) => {
        showLine(state, detail, boot.base);
        this.composer?.update({ live: state === 'live' });
      },
      onLive: (welcome, again) => this.live(welcome, again),
    });
    this.composer = new Composer(this.store, {
      onSend: (text, mode) => this.send(text, mode),
      onStop: () => this.stop(),
      onEditLast: () => this.queue.list.editLast(),
    });
    this.outbox = new Outbox(this.store, this.line, {
      onReceipt: (message, reply) => this.composer.whenComposed(() => this.receipt(message, reply)),
      onTrouble: (message, error, final) => this.trouble(message, error, final),
    });
    this.queue = new Queue({
      line: this.line, outbox: this.outbox, composer: this.composer, store: this.store,
      tab: new Store(boot.accountId, safeStorage('sessionStorage')), current: () => this.open,
    });
    this.models = new ModelPicker((model) => this.chooseModel(model));
    this.agents = new Agents((agent) => this.models.show(null, agent?.model));
    this.threads = new Threads(this.line, {
      href: (id) => this.path(id),
      onOpen: (id) => this.go(id),
      onDeleted: (id) => this.deleted(id),
      onThread: (thread) => this.threadChanged(thread),
    });
    const log = byId('log');
    this.follow = new Follow(log, byId('items'), byId('to-latest'));
    this.transcript = new Transcript(byId('items'), this.follow, {
      onDetails: (turnId) => void showTurn(this.line, turnId),
      onReuse: (text) => this.composer.putBack(text),
      onAgain: (text) => this.again(text),
      modelName: (model) => this.models.nameOf(model),
    });
    this.drawer = bindDrawer();
    this.tools = bindThreadTools(this.line, () => this.open?.thread ?? null, (id) => { if (id === this.threadId) this.go(''); });
    this.bind(log);
  }

  get threadId() {
    return this.open?.threadId ?? '';
  }

  /** @param {string} threadId */
  path(threadId) {
    return threadId ? `${this.boot.base}/chats/${threadId}` : `${this.boot.base}/`;
  }

  /** @param {HTMLElement} log */
  bind(log) {
    document.addEventListener('click', (event) => {
      const target = event.target instanceof Element ? event.target : null;
      const fresh = target?.closest('[data-new-thread]');
      if (fresh && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
        event.preventDefault();
        this.go('');
      }
      const starter = target?.closest('[data-starter]');
      if (starter) this.composer.putBack(starter.getAttribute('data-starter') ?? '');
    });
    bindShortcuts({ onNew: () => this.go(''), onStop: () => this.stop(), onSearch: () => byId('thread-search').focus() });
    addEventListener('popstate', () => this.show(threadOf(location.pathname)));
    addEventListener('online', () => this.line.wake());
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) return;
      this.line.wake();
      this.markRead();
      this.askAgents();
    });
    byId('load-older').addEventListener('click', () => this.loadOlder());
    log.addEventListener('scroll', () => { if (log.scrollTop < 300) this.loadOlder(); }, { passive: true });
  }

  start() {
    this.threads.start(this.boot.threads);
    this.show(this.boot.threadId ?? '');
    this.line.open();
    this.outbox.resume();
    this.drawState();
    focusMessage();
  }

  /** Opens a thread as the reader's next step. @param {string} threadId "" is a new one */
  go(threadId) {
    if (threadId !== this.threadId || !threadId) {
      if (location.pathname !== this.path(threadId)) history.pushState(null, '', this.path(threadId));
      this.show(threadId);
    }
    this.drawer.close();
    focusMessage();
  }

  /** @param {string} threadId */
  show(threadId) {
    this.open?.close();
    this.open = threadId ? this.openThread(threadId) : null;
    this.said = SILENCE;
    announce('');
    this.tools.reset();
    this.threads.select(threadId);
    this.composer.show(threadId);
    this.transcript.show(this.open?.fold ?? emptyFold());
    this.showChoices(this.threads.known.get(threadId) ?? null);
    this.drawTitle(this.threads.known.get(threadId) ?? null);
    this.drawState();
    if (this.open && this.line.state === 'live') void this.open.resume();
  }

  /** Model and assistant: the thread's, or those that a new one would get. @param {Thread | null} thread */
  showChoices(thread) {
    this.agents.show(thread?.agentId ?? '');
    this.models.show(thread?.model, this.threadId ? '' : this.agents.current?.model);
  }

  askAgents() {
    this.line.request('agents.list', {}).then((reply) => {
      this.agents.offer(reply.agents ?? []);
      if (!this.threadId && !this.models.chosen) this.showChoices(null);
    }, () => {});
  }

  /** @param {string} threadId */
  openThread(threadId) {
    /** @type {OpenThread} */
    const opened = new OpenThread(threadId, this.line, {
      onLog: () => { if (this.open === opened) this.logChanged(); },
      onThread: (thread) => { if (this.open === opened) this.threads.set(thread); },
      onText: (turnId, text) => { if (this.open === opened) this.transcript.append(turnId, text); },
      onStream: (turnId) => { if (this.open === opened) this.transcript.redraw(turnId); },
      onError: (error) => { if (this.open === opened) this.cannotOpen(error); },
    });
    return opened;
  }

  /** @param {any} welcome @param {boolean} again */
  live(welcome, again) {
    setServerTime(welcome.serverTime);
    if (this.epoch && welcome.epoch !== this.epoch) {
      this.open?.forget();
      if (this.open) this.transcript.show(this.open.fold);
      if (again) toast('The server was restored from a backup.', 'The threads are loaded anew.');
    }
    this.epoch = welcome.epoch ?? '';
    if (this.open) void this.open.resume();
    void this.threads.live();
    this.line.request('models.list', {}).then((reply) => {
      this.models.offer(reply.models ?? []);
      this.transcript.draw();
    }, () => {});
    this.askAgents();
  }

  /** @param {import('./wire.js').Push} push */
  push(push) {
    if (push.type === 'threads.events') this.threads.push(push);
    else if (push.threadId === this.threadId && this.open) this.open.push(push);
  }

  logChanged() {
    this.transcript.draw();
    this.drawState();
    this.markRead();
  }

  /** Everything around the transcript that depends on the thread's view. */
  drawState() {
    const view = this.open?.fold.view() ?? { items: [], waiting: [], active: null };
    const active = view.active;
    const pending = this.outbox?.pendingIn(this.threadId) ?? null;
    const closing = this.open?.thread?.cancellationRecoveryPending === true;
    this.composer.update({
      busy: active !== null || view.waiting.length > 0 || closing,
      running: active !== null, sending: pending !== null,
      stopping: active !== null && this.stopping.has(active.turnId),
    });
    this.queue?.draw();
    byId('older').hidden = !this.open?.hasOlder;
    byId('loading').hidden = !this.open || this.open.opened;
    byId('empty').hidden = this.threadId !== '';
    this.announceTurn(view.items, active);
  }

  /**
   * The end of the answer that was told of, and how the one stands that is due now.
   * @param {import('./view.js').Item[]} items
   * @param {import('./view.js').TurnItem | null} active
   */
  announceTurn(items, active) {
    const was = this.said;
    const before = items.find((item) => item.kind === 'turn' && item.turnId === was.turnId);
    const now = active ? { turnId: active.turnId, text: progressOf(active) } : SILENCE;
    const words = [];
    if (was.turnId !== now.turnId && before?.kind === 'turn' && before.ended) words.push(endOf(before));
    if (active && (was.turnId !== now.turnId || was.text !== now.text)) words.push(now.text);
    this.said = now;
    if (words.length) announce(words.join('. '));
  }

  /** @param {Thread} thread */
  threadChanged(thread) {
    if (thread.id !== this.threadId || !this.open) return;
    this.open.thread = thread;
    this.drawTitle(thread);
    this.showChoices(thread);
    this.threads.draw();
    this.drawState();
  }

  /** @param {Thread | null} thread */
  drawTitle(thread) {
    const title = thread ? titleOf(thread) : this.threadId ? 'Thread' : 'New thread';
    const heading = byId('thread-title');
    if (heading.textContent !== title) heading.textContent = title;
    document.title = this.threadId ? `${title} · Fairlead` : 'Fairlead';
    byId('thread-tools').hidden = !this.threadId || !byId('rename').hidden;
  }

  /** @param {string} text @param {string} mode */
  send(text, mode) {
    const { threadId } = this;
    const chosen = threadId ? {} : { model: this.models.chosen || undefined, agentId: this.agents.sent };
    this.outbox.send({ threadId, text, mode, ...chosen });
    this.follow.toEnd();
    this.drawState();
    if (this.line.state !== 'live' && this.line.state !== 'connecting') {
      this.composer.say('Not connected.', 'Your message is kept and goes out when the line is back.');
    }
  }

  /** @param {import('./store.js').Unsent} message @param {import('./wire.js').SendReply} reply */
  receipt(message, reply) {
    if (message.from) {
      if (message.from === 'edit') this.queue.edited(message);
      return;
    }
    const rest = this.composer.received(message.threadId, message.text);
    this.composer.hideNote();
    if (reply.disposition === 'refused') announce('The message was refused');
    if (!message.threadId && !this.threadId) {
      // What was typed behind the first message belongs to the thread that it made.
      this.store.keepDraft('', '');
      if (rest) this.store.keepDraft(reply.threadId, rest);
      history.replaceState(null, '', this.path(reply.threadId));
      this.show(reply.threadId);
      focusMessage();
    }
    this.drawState();
  }

  /** @param {import('./store.js').Unsent} message @param {any} error @param {boolean} final */
  trouble(message, error, final) {
    if (message.from === 'edit' && final) this.queue.edited(message, error);
    if (message.from === 'edit') return;
    this.drawState();
    if (message.threadId !== this.threadId) {
      if (final) toastError(error);
      return;
    }
    if (final) this.composer.refused(error);
    else this.composer.say(explain(error.code).cause, 'Trying again…');
  }

  /** Sends a refused message once more, as a message of its own. @param {string} text */
  again(text) {
    this.outbox.send({ threadId: this.threadId, text, mode: 'auto', from: 'again' });
    this.follow.toEnd();
  }

  /** Stops the running answer. @returns {boolean} whether there was one */
  stop() {
    const active = this.open?.fold.view().active;
    if (!this.open || !active) return false;
    if (this.stopping.has(active.turnId)) return true;
    this.stopping.add(active.turnId);
    this.drawState();
    const ask = { threadId: this.open.threadId, turnId: active.turnId, clientEventId: uuid() };
    this.line.command('turn.interrupt', ask).catch((error) => {
      if (error.code !== 'turn_not_active') toastError(error);
      this.stopping.delete(active.turnId);
      this.drawState();
    });
    return true;
  }

  /** @param {string} model */
  chooseModel(model) {
    if (!this.threadId) return;
    this.line.command('thread.model', { threadId: this.threadId, model }).catch((error) => {
      toastError(error);
      this.models.show(this.open?.thread?.model);
    });
  }

  loadOlder() {
    const opened = this.open;
    if (!opened?.hasOlder || opened.loadingOlder || !opened.opened) return;
    const { onLog } = opened.listener;
    opened.listener.onLog = () => this.follow.keep(onLog);
    opened.older().catch(() => {}).finally(() => {
      opened.listener.onLog = onLog;
      if (this.open === opened) this.drawState();
    });
  }

  markRead() {
    clearTimeout(this.readTimer);
    this.readTimer = setTimeout(() => {
      const opened = this.open;
      if (!opened?.thread || document.hidden || opened.fold.latestSeq <= opened.thread.lastReadSeq) return;
      const seq = opened.fold.latestSeq;
      this.line.request('thread.read', { threadId: opened.threadId, seq }).then(() => {
        if (opened.thread) this.threads.set({ ...opened.thread, lastReadSeq: Math.max(seq, opened.thread.lastReadSeq) });
      }, () => {});
    }, 400);
  }

  /** @param {any} error */
  cannotOpen(error) {
    if (error?.code === 'not_found') {
      toast('This thread does not exist.', 'It may have been deleted, or belongs to another account.', { bad: true });
      history.replaceState(null, '', this.path(''));
      this.show('');
      return;
    }
    toastError(error);
  }

  /** @param {string} threadId */
  deleted(threadId) {
    if (threadId !== this.threadId) return;
    history.replaceState(null, '', this.path(''));
    this.show('');
    toast('This thread was deleted.', 'Start a new one or choose another.');
  }
}

/** Why an answer may not start for long; what passes by itself is not told. */
const LONG = new Set(['host_offline', 'host_draining', 'host_outdated', 'route_cooling', 'org_queue']);

/** @param {import('./view.js').TurnItem} item */
function progressOf(item) {
  return item.status !== 'running' && LONG.has(item.reason) ? `Not started yet: ${explainReason(item.reason)}` : 'Generating the answer';
}

/** @param {import('./view.js').TurnItem} item */
function endOf(item) {
  if (item.status === 'completed') return 'Answer done';
  return item.status === 'cancelled' ? 'Answer stopped' : `Answer failed. ${explain(item.error).cause}`;
}

/** @param {string} path */
function threadOf(path) {
  return /\/chats\/([^/]+)\/?$/.exec(path)?.[1] ?? '';
}

/** Ready to type, but without opening a touch keyboard over the thread. */
function focusMessage() {
  if (matchMedia('(pointer: fine)').matches) byId('message').focus();
}

function emptyFold() {
  return new OpenThread('', { request: () => Promise.reject(new Error('no thread')) }, {
    onLog() {}, onThread() {}, onText() {}, onStream() {}, onError() {},
  }).fold;
}

const boot = JSON.parse(byId('boot').textContent ?? '{}');
new ChatPage(boot).start();
