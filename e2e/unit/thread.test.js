import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Line } from '../../static/js/socket.js';
import { OpenThread } from '../../static/js/thread.js';
import { textMessage } from '../../static/js/wire.js';
import { FakeClock, FakeSocket, settle } from './fake-server.js';

const thread = { id: 'th', title: 'T', model: null, createdAt: '', updatedAt: '', latestSeq: 0, lastReadSeq: 0, waiting: 0 };

/** @param {number} seqId @param {string} eventType @param {any} [rest] */
const event = (seqId, eventType, rest = {}) => ({ id: `e${seqId}`, threadId: 'th', seqId, eventType, content: null, ...rest });

/** @param {{pause?: (ms: number) => Promise<void>}} [options] */
function opened(options) {
  const clock = new FakeClock();
  /** @type {FakeSocket[]} */
  const sockets = [];
  /** @type {any[]} */
  const errors = [];
  /** @type {string[]} */
  const texts = [];
  /** @type {OpenThread} */
  let open;
  const line = new Line({
    url: 'ws://g/ws', clock, random: () => 0,
    dial: (url, protocol) => { const socket = new FakeSocket(url, protocol); sockets.push(socket); return socket; },
    onPush: (push) => open.push(push),
    onLive: () => void open.resume(),
  });
  open = new OpenThread('th', line, {
    onLog() {}, onThread() {}, onStream() {}, onText: (_turn, text) => texts.push(text), onError: (error) => errors.push(error),
  }, options);
  line.open();
  const now = () => /** @type {FakeSocket} */ (sockets.at(-1));
  return { open, line, clock, now, errors, texts };
}

const answer = (/** @type {OpenThread} */ open) => open.fold.streamed('t1').tail;

describe('an open thread', () => {
  test('opens the newest window, then goes on from its last seq and byte', async () => {
    const { open, now, clock } = opened();
    now().welcome();
    const { id: _id, ...first } = now().command('thread.open');
    assert.deepEqual(first, { type: 'thread.open', threadId: 'th', html: true, window: 100 });
    now().answer('thread.open', { thread, latestSeq: 4, more: false, events: [event(4, 'input.prompt', { turnId: 't1', userMessage: textMessage('q') })], turn: { turnId: 't1', status: 'running', offset: 0, next: 3, text: 'abc' } });
    await settle();
    now().push({ type: 'turn.delta', threadId: 'th', turnId: 't1', offset: 3, next: 5, text: 'de' });
    now().cut(1006);
    clock.turn(30_000);
    now().welcome();
    const { id: _again, ...second } = now().command('thread.open');
    assert.deepEqual(second, { type: 'thread.open', threadId: 'th', html: true, sinceSeq: 4, turn: { turnId: 't1', offset: 5 } });
    now().answer('thread.open', { thread, latestSeq: 4, more: false, events: [], turn: { turnId: 't1', status: 'running', offset: 5, next: 8, text: 'fgh' } });
    await settle();
    assert.equal(answer(open), 'abcdefgh');
  });

  test('F02 three resumes and repeated pushes leave one answer', async () => {
    const { open, now } = opened();
    now().welcome();
    const reply = { thread, latestSeq: 1, more: false, events: [event(1, 'input.prompt', { turnId: 't1', userMessage: textMessage('q') })], turn: { turnId: 't1', status: 'running', offset: 0, next: 3, text: 'abc' } };
    now().answer('thread.open', reply);
    await settle();
    for (let i = 0; i < 3; i++) {
      void open.resume();
      now().push({ type: 'turn.delta', threadId: 'th', turnId: 't1', offset: 3, next: 4, text: 'd' });
      now().answer('thread.open', reply);
      await settle();
    }
    assert.equal(answer(open), 'abcd');
    assert.equal(open.fold.view().items.length, 1);
  });

  test('asks again while the reply says more', async () => {
    const { open, now, clock } = opened();
    now().welcome();
    now().answer('thread.open', { thread, latestSeq: 1, more: false, events: [event(1, 'control.revoke')] });
    await settle();
    now().cut(1006);
    clock.turn(30_000);
    now().welcome();
    now().answer('thread.open', { thread, latestSeq: 9, more: true, events: [event(5, 'control.revoke')] });
    await settle();
    assert.equal(now().command('thread.open').sinceSeq, 5);
    now().answer('thread.open', { thread, latestSeq: 9, more: false, events: [event(9, 'control.revoke')] });
    await settle();
    assert.equal(open.fold.latestSeq, 9);
    assert.equal(now().said.filter((one) => one.type === 'thread.open').length, 2);
  });

  test('a gap in the stream is filled by asking from the last known byte', async () => {
    const { open, now } = opened();
    now().welcome();
    now().answer('thread.open', { thread, latestSeq: 1, more: false, events: [event(1, 'input.prompt', { turnId: 't1', userMessage: textMessage('q') })], turn: { turnId: 't1', status: 'running', offset: 0, next: 2, text: 'ab' } });
    await settle();
    now().push({ type: 'turn.delta', threadId: 'th', turnId: 't1', offset: 4, next: 5, text: 'e' });
    await settle();
    assert.deepEqual(now().command('thread.open').turn, { turnId: 't1', offset: 2 });
    now().answer('thread.open', { thread, latestSeq: 1, more: false, events: [], turn: { turnId: 't1', status: 'running', offset: 2, next: 5, text: 'cde' } });
    await settle();
    assert.equal(answer(open), 'abcde');
  });

  test('pages backwards without a second subscription', async () => {
    const { open, now } = opened();
    now().welcome();
    now().answer('thread.open', { thread, latestSeq: 9, more: true, events: [event(8, 'control.revoke'), event(9, 'control.revoke')] });
    await settle();
    assert.equal(open.hasOlder, true);
    const older = open.older();
    const { id: _id, ...asked } = now().command('thread.open');
    assert.deepEqual(asked, { type: 'thread.open', threadId: 'th', before: 8, window: 100, html: true });
    now().answer('thread.open', { thread, latestSeq: 9, more: false, events: [event(2, 'control.revoke')] });
    await older;
    assert.equal(open.hasOlder, false);
    assert.equal(open.fold.firstSeq, 2);
  });

  test('waiting messages that stand before the window are fetched', async () => {
    const { open, now } = opened();
    now().welcome();
    now().answer('thread.open', { thread: { ...thread, waiting: 1 }, latestSeq: 9, more: true, events: [event(9, 'control.revoke')] });
    await settle();
    now().answer('thread.open', { thread, latestSeq: 9, more: true, events: [event(3, 'input.prompt', { userMessage: textMessage('old') })] });
    await settle();
    assert.deepEqual(open.fold.view().waiting.map((message) => message.text), ['old']);
  });

  test('what is refused for good is told, a lost line is not', async () => {
    const { now, errors, clock } = opened();
    now().welcome();
    now().cut(1006);
    await settle();
    assert.deepEqual(errors, []);
    clock.turn(30_000);
    now().welcome();
    now().refuse('thread.open', { code: 'not_found' });
    await settle();
    assert.deepEqual(errors.map((/** @type {any} */ error) => error.code), ['not_found']);
  });

  test('what is refused for a while is asked again until it opens, and told once', async () => {
    /** @type {number[]} */
    const pauses = [];
    const { open, now, errors } = opened({ pause: (ms) => { pauses.push(ms); return Promise.resolve(); } });
    now().welcome();
    for (const retryAfterMs of [0, 5000, 0]) {
      now().refuse('thread.open', { code: 'rate_limited', retryable: true, retryAfterMs });
      await settle();
    }
    assert.deepEqual(pauses, [1000, 5000, 4000]);
    assert.equal(errors.length, 1);
    now().answer('thread.open', { thread, latestSeq: 1, more: false, events: [event(1, 'control.revoke')] });
    await settle();
    assert.equal(open.opened, true);
    assert.equal(now().said.filter((/** @type {any} */ frame) => frame.type === 'thread.open').length, 4);
  });
});
