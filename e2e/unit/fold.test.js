import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fold } from '../../static/js/fold.js';
import { sliceBytes, textMessage, utf8Length } from '../../static/js/wire.js';
import { random } from './random.js';

/** @typedef {import('../../static/js/wire.js').ThreadEvent} ThreadEvent */

let seq = 0;

/** @param {string} eventType @param {Partial<ThreadEvent> & {text?: string}} [rest] @returns {ThreadEvent} */
function event(eventType, { text, ...rest } = {}) {
  seq += 1;
  return {
    id: `event-${seq}`, threadId: 'thread', seqId: seq, eventType, content: null,
    ...(text === undefined ? {} : { userMessage: textMessage(text) }), ...rest,
  };
}

/** @param {...ThreadEvent} events */
function folded(...events) {
  const fold = new Fold();
  fold.apply(events);
  return fold;
}

/** What a reader sees of a fold, in one comparable value. @param {Fold} fold */
function seen(fold) {
  const view = fold.view();
  return {
    items: view.items.map((item) => (item.kind !== 'turn'
      ? [item.kind, item.kind === 'refused' ? item.text : '', item.error, ...(item.guidance ? [item.guidance.content] : [])]
      : [item.turnId, item.ended ? item.status : 'open', item.error, ...item.parts.map((part) =>
        (part.kind === 'ask' ? `${part.steer ? 'steer' : 'ask'} ${part.text}` : part.kind === 'output' ? `out ${part.content}`
          : part.kind === 'deadline' ? `deadline ${part.text}` : `stream ${shown(fold, item.turnId)}`))])),
    waiting: view.waiting.map((message) => message.text),
  };
}

/** @param {Fold} fold @param {string} turnId */
function shown(fold, turnId) {
  const { blocks, tail } = fold.streamed(turnId);
  return blocks.map((block) => block.html).join('') + tail;
}

describe('reading a thread', () => {
  test('a replacement takes the place of its message', () => {
    const first = event('input.prompt', { text: 'one' });
    const second = event('input.prompt', { text: 'two' });
    const claim2 = event('input.prompt', { text: 'two', turnId: 't2', revokesEventId: second.id });
    const end2 = event('turn.completed', { turnId: 't2' });
    const claim1 = event('input.prompt', { text: 'one', turnId: 't1', revokesEventId: first.id });
    assert.deepEqual(seen(folded(first, second, claim2, end2, claim1)), {
      items: [['t2', 'completed', '', 'ask two'], ['t1', 'open', '', 'ask one', 'stream ']], waiting: [],
    });
  });

  test('waiting messages stand by rank, then by the origin of their chain', () => {
    const a = event('input.prompt', { text: 'a' });
    const b = event('input.prompt', { text: 'b' });
    const c = event('input.prompt', { text: 'c' });
    const again = event('input.prompt', { text: 'a2', revokesEventId: a.id, originId: a.id });
    const first = event('input.prompt', { text: 'c first', revokesEventId: c.id, originId: c.id, rank: -1 });
    assert.deepEqual(seen(folded(a, b, c, again, first)).waiting, ['c first', 'a2', 'b']);
  });

  test('a revoked or refused message waits no more', () => {
    const a = event('input.prompt', { text: 'a' });
    const b = event('input.prompt', { text: 'b' });
    const fold = folded(a, b, event('control.revoke', { revokesEventId: a.id }),
      event('input.rejected', { revokesEventId: b.id, error: 'model_unknown' }));
    assert.deepEqual(seen(fold), { items: [['refused', 'b', 'model_unknown']], waiting: [] });
  });

  test('controls and unknown types are kept and not shown', () => {
    const fold = folded(event('control.interrupt', { interruptsTurnId: 't' }), event('control.revoke', { turnId: 't' }),
      event('output.hologram', { turnId: 't' }), event('output.thinking', { turnId: 't', content: 'hm' }));
    assert.deepEqual(seen(fold), { items: [], waiting: [] });
    assert.equal(fold.events.size, 4);
    assert.equal(fold.latestSeq, seq);
  });

  test('a turn ends by its terminal event alone', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }));
    fold.delta({ turnId: 't', offset: 0, next: 2, text: 'ab' });
    assert.equal(fold.state({ turnId: 't', status: 'completed' }), false);
    assert.equal(fold.view().active?.turnId, 't');
    fold.apply([event('output.message', { turnId: 't', content: 'ab', from: 0, to: 2 }), event('turn.completed', { turnId: 't' })]);
    assert.equal(fold.view().active, null);
    assert.deepEqual(seen(fold).items, [['t', 'completed', '', 'ask q', 'out ab']]);
  });

  test('no delta counts after the end', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }), event('turn.failed', { turnId: 't', error: 'model_failed' }));
    assert.deepEqual(fold.delta({ turnId: 't', offset: 0, next: 2, text: 'ab' }), { text: '', gap: false });
    assert.deepEqual(seen(fold).items, [['t', 'failed', 'model_failed', 'ask q']]);
  });

  test('a steer stands where its replacement stands, the answer going on below', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }));
    fold.delta({ turnId: 't', offset: 0, next: 4, text: 'abcd' });
    fold.apply([event('output.partial', { turnId: 't', content: 'abc', from: 0, to: 3 }), event('input.prompt', { text: 'steer', turnId: 't' })]);
    fold.delta({ turnId: 't', offset: 4, next: 6, text: 'ef' });
    assert.deepEqual(seen(fold).items, [['t', 'open', '', 'ask q', 'out abc', 'steer steer', 'stream def']]);
  });

  test('retracted text does not stand, what follows does', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }));
    fold.delta({ turnId: 't', offset: 0, next: 3, text: 'abc' });
    fold.retract('t');
    fold.delta({ turnId: 't', offset: 0, next: 3, text: 'abc' });
    assert.equal(shown(fold, 't'), '');
    fold.delta({ turnId: 't', offset: 3, next: 4, text: 'd' });
    assert.equal(shown(fold, 't'), 'd');
  });
});

describe('the stream', () => {
  test('F01 a reload in mid-answer shows the whole answer, from its first byte', () => {
    const asked = event('input.prompt', { text: 'letters', turnId: 't' });
    const before = folded(asked);
    before.delta({ turnId: 't', offset: 0, next: 10, text: 'ABCDEFGHIJ' });
    const reloaded = folded(asked);
    reloaded.snapshot({ turnId: 't', status: 'running', offset: 0, next: 10, text: 'ABCDEFGHIJ' });
    for (const fold of [before, reloaded]) fold.delta({ turnId: 't', offset: 10, next: 20, text: 'KLMNOPQRST' });
    assert.equal(shown(reloaded, 't'), 'ABCDEFGHIJKLMNOPQRST');
    assert.deepEqual(seen(reloaded), seen(before));
  });

  test('F02 a replay changes nothing, and a delta goes to the turn that it names', () => {
    const done = event('input.prompt', { text: 'first', turnId: 't1' });
    const out = event('output.message', { turnId: 't1', content: 'old answer', from: 0, to: 10 });
    const end = event('turn.completed', { turnId: 't1' });
    const asked = event('input.prompt', { text: 'second', turnId: 't2' });
    const fold = folded(done, out, end, asked);
    const reply = { turnId: 't2', status: 'running', offset: 0, next: 3, text: 'abc' };
    for (let i = 0; i < 3; i++) {
      fold.snapshot(reply);
      fold.apply([done, out, end, asked]);
      fold.delta({ turnId: 't2', offset: 3, next: 5, text: 'de' });
      fold.delta({ turnId: 't1', offset: 0, next: 3, text: 'abc' });
    }
    assert.deepEqual(seen(fold).items, [['t1', 'completed', '', 'ask first', 'out old answer'], ['t2', 'open', '', 'ask second', 'stream abcde']]);
  });

  test('of a frame that straddles the known end only the part beyond it counts', () => {
    const fold = new Fold();
    fold.delta({ turnId: 't', offset: 0, next: 4, text: 'a你' });
    assert.deepEqual(fold.delta({ turnId: 't', offset: 1, next: 8, text: '你🌍' }), { text: '🌍', gap: false });
    assert.equal(shown(fold, 't'), 'a你🌍');
  });

  test('missing bytes are noticed and nothing is taken', () => {
    const fold = new Fold();
    fold.delta({ turnId: 't', offset: 0, next: 2, text: 'ab' });
    assert.deepEqual(fold.delta({ turnId: 't', offset: 3, next: 4, text: 'd' }), { text: '', gap: true });
    assert.equal(shown(fold, 't'), 'ab');
  });

  test('resync: the server knows less, its text alone counts', () => {
    const fold = new Fold();
    fold.delta({ turnId: 't', offset: 0, next: 5, text: 'abcde' });
    fold.snapshot({ turnId: 't', status: 'running', offset: 0, next: 3, text: 'abc', resync: true });
    fold.delta({ turnId: 't', offset: 3, next: 5, text: 'DE' });
    assert.equal(shown(fold, 't'), 'abcDE');
  });

  test('finished blocks take the place of their text', () => {
    const fold = new Fold();
    fold.block({ turnId: 't', from: 0, to: 4, html: '<p>ab</p>' });
    fold.delta({ turnId: 't', offset: 0, next: 3, text: 'ab\n' });
    assert.equal(shown(fold, 't'), 'ab\n', 'a block ahead of its text waits');
    fold.delta({ turnId: 't', offset: 3, next: 6, text: '\ncd' });
    assert.equal(fold.block({ turnId: 't', from: 0, to: 4, html: '<p>ab</p>' }), false);
    assert.equal(shown(fold, 't'), '<p>ab</p>cd');
  });

  test('a block that an output event cuts gives way to it and to the text behind', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }));
    fold.delta({ turnId: 't', offset: 0, next: 6, text: 'abcdef' });
    fold.block({ turnId: 't', from: 0, to: 6, html: '<p>abcdef</p>' });
    fold.apply([event('output.partial', { turnId: 't', content: 'abc', from: 0, to: 3 })]);
    assert.deepEqual(seen(fold).items, [['t', 'open', '', 'ask q', 'out abc', 'stream def']]);
  });
});

/**
 * A thread as a server could have made it: queued and re-issued messages, turns
 * with several outputs, steers, stops and failures, and the frames of their
 * streams.
 * @param {ReturnType<typeof random>} rng
 */
function story(rng) {
  seq = 0;
  /** @type {ThreadEvent[]} */
  const log = [];
  /** @type {{turnId: string, offset: number, next: number, text: string}[]} */
  const frames = [];
  const add = (/** @type {string} */ type, /** @type {any} */ rest) => {
    if (rng.int(4) === 0) seq += 1;
    const made = event(type, rest);
    log.push(made);
    return made;
  };
  const turns = 1 + rng.int(4);
  for (let i = 0; i < turns; i++) {
    const turnId = `turn-${i}`;
    let waiting = add('input.prompt', { text: `prompt ${i}`, mode: 'queue' });
    const origin = waiting.id;
    while (rng.int(3) === 0) waiting = add('input.prompt', { text: `prompt ${i}`, revokesEventId: waiting.id, originId: origin, rank: rng.int(2) - 1 });
    if (rng.int(6) === 0) {
      add('control.revoke', { revokesEventId: waiting.id });
      continue;
    }
    add('input.prompt', { text: `prompt ${i}`, turnId, revokesEventId: waiting.id });
    if (rng.int(5) === 0) {
      const marker = add('turn.queued', { turnId, marker: 'queue:queued' });
      add('turn.dequeued', { turnId, marker: 'queue:dequeued', revokesEventId: marker.id });
    }
    const text = Array.from({ length: rng.int(30) }, () => rng.pick(['a', 'é', '你', '🌍', '\n', ' b'])).join('');
    const bytes = utf8Length(text);
    let at = 0;
    for (const rune of text.match(/[\s\S]{1,3}/gu) ?? []) {
      frames.push({ turnId, offset: at, next: at + utf8Length(rune), text: rune });
      at += utf8Length(rune);
    }
    const last = i === turns - 1 && rng.int(2) === 0;
    const cut = frames.filter((frame) => frame.turnId === turnId && rng.int(4) === 0).map((frame) => frame.next);
    let from = 0;
    for (const to of [...cut, ...(last ? [] : [bytes])]) {
      if (to <= from) continue;
      add(to === bytes ? 'output.message' : 'output.partial', { turnId, content: sliceBytes(text, from, to), from, to });
      if (to !== bytes && rng.int(2) === 0) {
        const offered = add('input.prompt', { text: 'steer', mode: 'steer' });
        add('input.prompt', { text: 'steer', turnId, mode: 'steer', revokesEventId: offered.id, originId: offered.id });
      }
      from = to;
    }
    if (rng.int(5) === 0) add('input.deadline', { turnId, text: 'five minutes left', revokesEventId: `delivery-${i}` });
    if (!last) add(rng.pick(['turn.completed', 'turn.failed', 'turn.cancelled']), { turnId });
    if (rng.int(4) === 0) {
      const late = add('input.prompt', { text: `late ${i}`, mode: 'steer' });
      add('input.prompt', { text: `late ${i}`, mode: 'queue', rank: -1, reason: 'turn_ended', revokesEventId: late.id, originId: late.id });
    }
    if (rng.int(6) === 0) {
      const refused = add('input.prompt', { text: `refused ${i}` });
      add('input.rejected', { text: `refused ${i}`, revokesEventId: refused.id, error: 'quota_exhausted' });
      add('output.error', { content: 'Enough for today.', error: 'quota_exhausted' });
    }
  }
  return { log, frames };
}

describe('properties', () => {
  test('the view depends on what is known, not on when or how often it came', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const rng = random(seed);
      const { log, frames } = story(rng);
      const plain = new Fold();
      plain.apply(log);
      for (const frame of frames) plain.delta(frame);

      const other = new Fold();
      let events = rng.shuffle([...log, ...log.filter(() => rng.int(3) === 0)]);
      let stream = [...frames];
      while (events.length + stream.length > 0) {
        if (stream.length === 0 || (events.length > 0 && rng.int(2) === 0)) {
          const n = 1 + rng.int(3);
          other.apply(events.slice(0, n));
          events = events.slice(n);
        } else {
          const frame = /** @type {(typeof frames)[0]} */ (stream.shift());
          other.delta(frame);
          if (rng.int(3) === 0) other.delta(rng.pick(frames.slice(0, frames.indexOf(frame) + 1)));
        }
        other.view();
      }
      assert.deepEqual(seen(other), seen(plain), `seed ${seed}`);
      assert.equal(other.latestSeq, plain.latestSeq, `seed ${seed}`);
    }
  });

  test('F01 F02 a reader who comes at any moment, and again, sees what a reader from the start sees', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const rng = random(seed);
      const { log, frames } = story(rng);
      const start = new Fold();
      const late = new Fold();
      start.apply(log);
      late.apply(log.slice(-rng.int(log.length + 1)));
      for (const frame of frames) {
        start.delta(frame);
        if (rng.int(4) === 0) {
          const known = late.streams.get(frame.turnId)?.next ?? 0;
          if (frame.next >= known) {
            const text = frames.filter((f) => f.turnId === frame.turnId && f.next <= frame.next).map((f) => f.text).join('');
            late.snapshot({ turnId: frame.turnId, status: 'running', offset: known, next: frame.next, text: sliceBytes(text, known) });
          }
        }
      }
      for (const frame of frames) late.delta(frame);
      late.apply(log);
      const strip = (/** @type {any} */ value) => JSON.stringify(value.items.filter((/** @type {any[]} */ item) => item.length > 3)) + value.waiting;
      assert.equal(strip(seen(late)), strip(seen(start)), `seed ${seed}`);
    }
  });

  test('each byte of an answer is shown once', () => {
    for (let seed = 1; seed <= 400; seed++) {
      const rng = random(seed);
      const { log, frames } = story(rng);
      const fold = new Fold();
      fold.apply(log.slice(0, rng.int(log.length + 1)));
      for (const frame of frames) fold.delta(frame);
      for (const item of fold.view().items) {
        if (item.kind !== 'turn' || item.ended) continue;
        const whole = frames.filter((frame) => frame.turnId === item.turnId).map((frame) => frame.text).join('');
        const text = item.parts.map((part) => (part.kind === 'output' ? part.content : part.kind === 'stream' ? shown(fold, item.turnId) : '')).join('');
        assert.equal(text, whole, `seed ${seed}`);
      }
    }
  });
});
