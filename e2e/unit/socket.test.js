import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Line } from '../../static/js/socket.js';
import { FakeClock, FakeSocket, settle } from './fake-server.js';

/** @param {Partial<import('../../static/js/socket.js').LineOptions>} [options] */
function dialled(options = {}) {
  const clock = new FakeClock();
  /** @type {FakeSocket[]} */
  const sockets = [];
  /** @type {string[]} */
  const states = [];
  /** @type {any[]} */
  const pushes = [];
  const line = new Line({
    url: 'ws://gateway/ws', clock, random: () => 0.5,
    dial: (url, protocol) => {
      const socket = new FakeSocket(url, protocol);
      sockets.push(socket);
      return socket;
    },
    onPush: (push) => pushes.push(push),
    onState: (state) => states.push(state),
    ...options,
  });
  line.open();
  const now = () => /** @type {FakeSocket} */ (sockets.at(-1));
  return { line, clock, sockets, states, pushes, now };
}

describe('the line', () => {
  test('dials the subprotocol and is live on welcome', () => {
    const { line, now, states, pushes } = dialled();
    assert.equal(now().protocol, 'fairlead.client.v1');
    assert.equal(line.state, 'connecting');
    now().welcome();
    now().push({ type: 'thread.events', threadId: 't' });
    now().push('no frame');
    assert.deepEqual(states, ['connecting', 'live']);
    assert.deepEqual(pushes, [{ type: 'thread.events', threadId: 't' }]);
  });

  test('a command waits for the line and is answered', async () => {
    const { line, now } = dialled();
    const answer = line.command('message.send', { clientEventId: 'c1' });
    assert.equal(now().said.length, 0);
    now().welcome();
    now().answer('message.send', { disposition: 'started' });
    assert.equal((await answer).disposition, 'started');
  });

  test('F05 an unanswered command is said again, under the same ids, until its answer', async () => {
    const { line, now, clock, sockets } = dialled();
    now().welcome();
    const answer = line.command('message.send', { clientEventId: 'c1', text: 'once' });
    for (const code of [1006, 4408, 1012]) {
      now().cut(code);
      clock.turn(60_000);
      now().welcome();
    }
    assert.equal(sockets.length, 4);
    const said = sockets.map((socket) => socket.command('message.send'));
    assert.deepEqual(said[3], said[0]);
    assert.equal(sockets.every((socket) => socket.said.filter((one) => one.type === 'message.send').length === 1), true);
    now().answer('message.send', { replayed: true });
    assert.equal((await answer).replayed, true);
    now().cut(1006);
    clock.turn(60_000);
    now().welcome();
    assert.deepEqual(now().said, []);
  });

  test('commands keep their order over a reconnect, new ones come after them', () => {
    const { line, now, clock } = dialled();
    now().welcome();
    void line.command('a', {});
    void line.command('b', {});
    now().cut(1006);
    void line.command('c', {});
    clock.turn(60_000);
    now().welcome();
    assert.deepEqual(now().said.map((one) => one.type), ['a', 'b', 'c']);
  });

  test('a question does not outlive its connection', async () => {
    const { line, now } = dialled();
    await assert.rejects(line.request('threads.list', {}), { code: 'disconnected' });
    now().welcome();
    const lost = line.request('threads.list', {});
    now().cut(1006);
    await assert.rejects(lost, { code: 'disconnected' });
  });

  test('a refusal carries its code', async () => {
    const { line, now } = dialled();
    now().welcome();
    const answer = line.command('message.recall', {});
    now().refuse('message.recall', { code: 'not_recallable', retryable: false });
    await assert.rejects(answer, { code: 'not_recallable', retryable: false });
  });
});

describe('after a loss', () => {
  test('the wait grows, is bounded, and begins anew after a welcome', () => {
    const { now, clock } = dialled();
    const waits = [];
    for (let i = 0; i < 9; i++) {
      now().cut(1006);
      const before = clock.now;
      waits.push(Math.min(...clock.timers.map((timer) => timer.at)) - before);
      clock.turn(30_000);
    }
    assert.deepEqual(waits.slice(0, 4), [300, 600, 1200, 2400]);
    assert.equal(Math.max(...waits), 15_000);
    now().welcome();
    now().cut(1006);
    assert.equal(Math.min(...clock.timers.map((timer) => timer.at)) - clock.now, 300);
  });

  test('F12 a goaway names the time to come back, and clients spread over it', () => {
    const times = [0, 0.5, 0.999].map((share) => {
      const { now, clock, sockets } = dialled({ random: () => share });
      now().welcome();
      now().push({ type: 'goaway', reason: 'shutting_down', retryAfterMs: 2000 });
      now().cut(1012);
      while (sockets.length === 1) clock.turn(10);
      return clock.now;
    });
    assert.equal(times.every((time) => time >= 2000 && time <= 3010), true, String(times));
    assert.ok(/** @type {number} */ (times[2]) - /** @type {number} */ (times[0]) > 900, String(times));
  });

  test('close codes: what ends the page, what asks for a login, what comes back', () => {
    /** @type {[number, string][]} */
    const table = [[4400, 'stopped'], [4403, 'stopped'], [4409, 'stopped'], [4401, 'ended'], [1001, 'waiting'], [1012, 'waiting'], [4408, 'waiting'], [4413, 'waiting'], [4429, 'waiting'], [1006, 'waiting'], [1011, 'waiting']];
    for (const [code, state] of table) {
      const { line, now, clock, sockets } = dialled();
      now().welcome();
      now().cut(code);
      assert.equal(line.state, state, String(code));
      line.wake();
      clock.turn(code === 4429 ? 40_000 : 21_000);
      assert.equal(sockets.length > 1, state === 'waiting', String(code));
    }
  });

  test('too many commands: it stays away for a while', () => {
    const { now, clock, sockets } = dialled();
    now().welcome();
    now().cut(4429);
    clock.turn(20_000);
    assert.equal(sockets.length, 1);
  });

  test('a frame that was too large is not said again, the others are', async () => {
    const { line, now, clock } = dialled();
    now().welcome({ limits: { frameBytes: 1 << 20 } });
    const large = line.command('message.send', { text: 'x'.repeat(5000) });
    void line.command('thread.read', { seq: 1 });
    now().cut(4413);
    await assert.rejects(large, { code: 'frame_too_large' });
    clock.turn(60_000);
    now().welcome();
    assert.deepEqual(now().said.map((one) => one.type), ['thread.read']);
  });

  test('the limit that the server named is kept before anything is sent', async () => {
    const { line, now } = dialled();
    now().welcome();
    await assert.rejects(line.command('message.send', { text: '你'.repeat(700) }), { code: 'frame_too_large', limit: 2000 });
    assert.deepEqual(now().said, []);
  });

  test('a door that stays shut is asked why: an ended session ends the retries', async () => {
    const { line, now, clock, sockets } = dialled({ probe: async () => 'ended' });
    now().cut(1006);
    await settle();
    assert.equal(line.state, 'ended');
    clock.turn(120_000);
    assert.equal(sockets.length, 1);
  });

  test('F08 a silent connection is noticed, and a living one is left alone', () => {
    const { now, clock, sockets, line } = dialled();
    now().welcome();
    clock.turn(25_000);
    now().answer('ping', {});
    clock.turn(10_000);
    assert.equal(line.state, 'live');
    clock.turn(15_000);
    clock.turn(10_000);
    assert.equal(line.state, 'waiting');
    clock.turn(20_000);
    assert.equal(sockets.length, 2);
  });

  test('F08 a line that died while the machine slept is noticed when somebody looks, however often', () => {
    const { line, clock, now, sockets } = dialled();
    now().welcome();
    line.wake();
    clock.turn(6_000);
    line.wake();
    clock.turn(4_000);
    assert.equal(line.state, 'waiting');
    line.wake();
    assert.equal(sockets.length, 2);
    now().welcome();
    line.wake();
    now().answer('ping', {});
    clock.turn(10_000);
    assert.equal(line.state, 'live');
  });
});
