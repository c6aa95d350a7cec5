// What a person does to messages that wait: recall, edit, steer. Each is a command
// of its own; what became of it is read from the log, which every tab has.
import { byId } from './dom.js';
import { explainError } from './errors.js';
import { Shelf } from './shelf.js';
import { toastError } from './toasts.js';
import { WaitingList } from './waiting.js';
import { uuid } from './wire.js';

/**
 * @typedef {import('./fold.js').Waiting} Waiting
 * @typedef {import('./thread.js').OpenThread} OpenThread
 * @typedef {object} Parts
 * @property {{command: (type: string, fields: Record<string, unknown>) => Promise<any>}} line
 * @property {import('./outbox.js').Outbox} outbox
 * @property {import('./composer.js').Composer} composer
 * @property {import('./store.js').Store} store
 * @property {import('./store.js').Store} tab
 * @property {() => OpenThread | null} current
 */

const TAKEN = 'It is being taken into the answer and can no longer be changed.';

export class Queue {
  /** @param {Parts} parts */
  constructor({ line, outbox, composer, store, tab, current }) {
    this.line = line;
    this.outbox = outbox;
    this.composer = composer;
    this.current = current;
    this.shelf = new Shelf(store, tab, composer);
    this.said = byId('waiting-status');
    /** @type {Set<string>} origin ids of messages with a command under way */
    this.busy = new Set();
    /** @type {Map<string, {id: string, text: string}>} what is to be said of a message, by origin id */
    this.notes = new Map();
    /** @type {Map<string, string>} the origin ids of edited messages, by the edit's client id */
    this.edits = new Map();
    this.list = new WaitingList({
      onRecall: (message) => this.recall(message),
      onSteer: (message, now) => this.steer(message, now),
      onEdit: (message, text) => this.edit(message, text),
      onTyped: (message, text) => this.shelf.typed(this.threadId, message.originId, text),
    }, composer.box);
  }

  get threadId() {
    return this.current()?.threadId ?? '';
  }

  draw() {
    const opened = this.current();
    const view = opened?.fold.view();
    if (opened && this.shelf.settle(opened.threadId, (id) => opened.fold.fate(id))) {
      this.composer.say('That message had already started.', 'Your new wording is kept here.');
    }
    this.list.draw(view?.waiting ?? [], {
      active: !!view?.active,
      busy: this.busy,
      note: (message) => {
        const note = this.notes.get(message.originId);
        return note?.id === message.id ? note.text : '';
      },
      draft: (message) => this.shelf.edit(this.threadId, message.originId),
    });
    this.shelf.draw(this.threadId);
  }

  /** @param {Waiting} message */
  recall(message) {
    const { threadId } = this;
    this.shelf.ask(threadId, message.originId, message.text);
    this.during(message, this.line.command('message.recall', { threadId, revokesEventId: message.id, clientEventId: uuid() }).then(
      () => {
        this.shelf.back(threadId, message.originId, message.text);
        this.tell('Recalled');
      },
      (error) => {
        this.shelf.stays(threadId, message.originId);
        this.refused(threadId, message, error);
      },
    ));
  }

  /** @param {Waiting} message @param {boolean} now */
  steer(message, now) {
    const { threadId } = this;
    /** @type {Record<string, unknown>} */
    const ask = { threadId, eventId: message.id };
    if (now) ask.now = true;
    this.during(message, this.line.command('message.steer', ask).then(
      (reply) => this.tell(reply.disposition === 'steering' ? 'Joins this answer' : 'Stays in line'),
      (error) => this.refused(threadId, message, error),
    ));
  }

  /** @param {Waiting} message @param {string} text */
  edit(message, text) {
    this.busy.add(message.originId);
    const sent = this.outbox.send({
      threadId: this.threadId, text, mode: message.mode === 'steer' ? 'steer' : 'queue',
      revokesEventId: message.id, from: 'edit',
    });
    this.edits.set(sent.clientEventId, message.originId);
    this.draw();
  }

  /** An edit is stored, or refused for good. @param {import('./store.js').Unsent} sent @param {any} [error] */
  edited(sent, error) {
    this.busy.delete(this.edits.get(sent.clientEventId) ?? '');
    this.edits.delete(sent.clientEventId);
    if (error) {
      this.shelf.back(sent.threadId, sent.clientEventId, sent.text);
      if (this.threadId === sent.threadId) this.keepWording(error);
    }
    this.draw();
  }

  /** @param {any} error why an edit was refused */
  keepWording(error) {
    const { cause } = explainError(error);
    this.composer.say(error.code === 'not_recallable' ? 'That message has already started.' : cause, 'Your new wording is kept here.');
  }

  /** @param {Waiting} message @param {Promise<void>} work */
  during(message, work) {
    this.busy.add(message.originId);
    this.notes.delete(message.originId);
    this.draw();
    void work.finally(() => {
      this.busy.delete(message.originId);
      this.draw();
    });
  }

  /**
   * A message that the answer is taking looks in the log like one that waits; only
   * the refusal tells. It stays where it is.
   * @param {string} threadId
   * @param {Waiting} message
   * @param {any} error
   */
  refused(threadId, message, error) {
    if (threadId !== this.threadId || (error.code !== 'not_recallable' && error.code !== 'turn_not_active')) {
      toastError(error);
      return;
    }
    if (this.current()?.fold.fate(message.originId) !== 'waiting') {
      const { cause, cure } = explainError(error);
      this.composer.say(cause, cure);
      return;
    }
    const text = error.code === 'not_recallable' ? TAKEN : 'The answer had just ended; this message goes next.';
    this.notes.set(message.originId, { id: message.id, text });
    this.tell(text);
  }

  /** For screen readers. @param {string} text */
  tell(text) {
    this.said.textContent = text;
  }
}
