import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fold } from '../../static/js/fold.js';
import { placeOf, reasonNote } from '../../static/js/waiting.js';
import { messageText, modelOf, textMessage } from '../../static/js/wire.js';

/** @typedef {import('../../static/js/wire.js').ThreadEvent} ThreadEvent */

let seq = 0;

/** @param {string} eventType @param {Partial<ThreadEvent> & {text?: string, model?: string}} [rest] @returns {ThreadEvent} */
function event(eventType, { text, model, ...rest } = {}) {
  seq += 1;
  /** @type {ThreadEvent} */
  const made = { id: `event-${seq}`, threadId: 'thread', seqId: seq, eventType, content: null, ...rest };
  if (text !== undefined) made.userMessage = textMessage(text);
  if (model) made.userMessage?.parts.push({ type: 'model', selectedModel: model });
  return made;
}

/** @param {...ThreadEvent} events */
function folded(...events) {
  const fold = new Fold();
  fold.apply(events);
  return fold;
}

/** @param {ThreadEvent} first @param {Partial<ThreadEvent> & {text?: string}} change */
function again(first, change) {
  return event('input.prompt', { ...(first.userMessage && { userMessage: first.userMessage }), revokesEventId: first.id, originId: first.originId ?? first.id, ...change });
}

/** @param {Fold} fold */
function line(fold) {
  return fold.view().waiting.map(({ text, mode }) => `${text} ${mode}`);
}

/** @param {Fold} fold */
function turn(fold) {
  const item = fold.view().items.find((one) => one.kind === 'turn');
  assert.ok(item?.kind === 'turn');
  return item;
}

describe('the line of waiting messages', () => {
  test('SQ47 a message that is steered and edited keeps its place', () => {
    const a = event('input.prompt', { text: 'a', mode: 'queue' });
    const b = event('input.prompt', { text: 'b', mode: 'queue' });
    const c = event('input.prompt', { text: 'c', mode: 'queue' });
    const steered = again(b, { mode: 'steer' });
    const edited = again(steered, { text: 'b, better', mode: 'steer' });
    const fold = folded(a, b, c, steered, edited);
    assert.deepEqual(line(fold), ['a queue', 'b, better steer', 'c queue']);
    assert.deepEqual(fold.view().waiting.map((message) => message.originId), [a.id, b.id, c.id]);
  });

  test('F24 a steer that came too late stands first, says why, and is there once', () => {
    const queued = event('input.prompt', { text: 'queued', mode: 'queue' });
    const steer = event('input.prompt', { text: 'steer', mode: 'steer' });
    const fold = folded(queued, steer, event('turn.completed', { turnId: 't' }), again(steer, { mode: 'queue', rank: -1, reason: 'turn_ended' }));
    assert.deepEqual(line(fold), ['steer queue', 'queued queue']);
    const [first] = fold.view().waiting;
    assert.ok(first);
    assert.equal(reasonNote(first), 'The answer had ended; this message goes next.');
    assert.deepEqual(placeOf(first, false), ['queued', 'next']);
  });

  test('a steer that is too long is shown as one that waits', () => {
    const [message] = folded(event('input.prompt', { text: 'long', mode: 'steer', reason: 'payload_too_large' })).view().waiting;
    assert.ok(message);
    assert.match(reasonNote(message), /Too long to join/);
    assert.equal(placeOf(message, true), null);
  });

  test('a message whose origin is not known stands before all that are', () => {
    const known = event('input.prompt', { text: 'known', mode: 'queue' });
    const old = event('input.prompt', { text: 'old', mode: 'queue', revokesEventId: 'before', originId: 'before' });
    const fold = folded(known, old);
    assert.deepEqual(line(fold), ['old queue', 'known queue']);
    assert.deepEqual(fold.view().waiting.map((message) => message.rooted), [false, true]);
  });

  test('what became of a message is told by any event of its chain', () => {
    const a = event('input.prompt', { text: 'a' });
    const b = event('input.prompt', { text: 'b' });
    const c = event('input.prompt', { text: 'c' });
    const d = event('input.prompt', { text: 'd' });
    const again1 = again(b, { mode: 'steer' });
    const fold = folded(a, b, c, d, again1, again(a, { mode: 'steer' }), again(again1, { turnId: 't' }),
      event('control.revoke', { revokesEventId: c.id }), event('input.rejected', { revokesEventId: d.id }));
    assert.deepEqual([a, b, again1, c, d].map(({ id }) => fold.fate(id)), ['waiting', 'started', 'started', 'recalled', 'refused']);
    assert.equal(fold.fate('elsewhere'), 'unknown');
  });
});

describe('a turn', () => {
  test('a steer stands between the output before it and the output after it', () => {
    const offered = event('input.prompt', { text: 'in feet, please', mode: 'steer' });
    const fold = folded(
      event('input.prompt', { text: 'depth?', turnId: 't', model: 'demo' }), offered,
      event('output.message', { turnId: 't', content: 'Six metres', from: 0, to: 10 }),
      again(offered, { turnId: 't', mode: 'steer' }));
    fold.delta({ turnId: 't', offset: 10, next: 16, text: 'Twenty' });
    assert.deepEqual(turn(fold).parts.map((part) => part.kind), ['ask', 'output', 'ask', 'stream']);
    assert.equal(fold.streamed('t').tail, 'Twenty');
    assert.deepEqual(line(fold), []);
    fold.apply([event('output.message', { turnId: 't', content: 'Twenty feet', from: 10, to: 21 }), event('turn.completed', { turnId: 't' })]);
    assert.deepEqual(turn(fold).parts.map((part) => (part.kind === 'ask' ? [part.text, part.steer] : part.kind === 'output' && part.content)),
      [['depth?', false], 'Six metres', ['in feet, please', true], 'Twenty feet']);
  });

  test('text that came over the boundary before its events is shown once', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }));
    fold.delta({ turnId: 't', offset: 0, next: 6, text: 'abcdef' });
    fold.delta({ turnId: 't', offset: 6, next: 8, text: 'gh' });
    fold.apply([event('output.partial', { turnId: 't', content: 'abcde', from: 0, to: 5 })]);
    assert.equal(fold.streamed('t').tail, 'fgh');
    fold.delta({ turnId: 't', offset: 8, next: 9, text: 'i' });
    assert.equal(fold.streamed('t').tail, 'fghi');
  });

  test('SQ36 a steer that a stopped turn took is its message, and waits no more', () => {
    const offered = event('input.prompt', { text: 'held', mode: 'steer' });
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }), offered,
      event('turn.cancelled', { turnId: 't', reason: 'interrupted' }), again(offered, { turnId: 't', mode: 'steer' }));
    assert.deepEqual(line(fold), []);
    assert.equal(turn(fold).status, 'cancelled');
    assert.deepEqual(turn(fold).parts.map((part) => part.kind === 'ask' && part.text), ['q', 'held']);
  });

  test('the model that answered is named by the replacement, and is no text', () => {
    const asked = event('input.prompt', { text: 'q', turnId: 't', model: 'claude-sonnet' });
    assert.equal(turn(folded(asked)).model, 'claude-sonnet');
    assert.equal(messageText(asked.userMessage), 'q');
    assert.equal(modelOf(textMessage('q')), '');
  });

  test('SQ44 SQ45 the deadline is a line of the answer, without a message', () => {
    const fold = folded(event('input.prompt', { text: 'q', turnId: 't' }),
      event('input.deadline', { turnId: 't', revokesEventId: 'delivery', text: 'five minutes left' }));
    assert.deepEqual(turn(fold).parts.map((part) => part.kind), ['ask', 'deadline', 'stream']);
    assert.equal(fold.view().waiting.length, 0);
  });

  test('SQ59 the markers say whether it waits for its organisation, whatever was hinted', () => {
    const asked = event('input.prompt', { text: 'q', turnId: 't' });
    const marker = event('turn.queued', { turnId: 't', marker: 'queue:queued' });
    const fold = folded(asked, marker);
    fold.state({ turnId: 't', status: 'pending' });
    assert.deepEqual([turn(fold).status, turn(fold).reason], ['queued', 'org_queue']);
    assert.equal(fold.view().active?.turnId, 't');
    fold.state({ turnId: 't', status: 'queued', reason: 'org_queue' });
    fold.apply([event('turn.dequeued', { turnId: 't', marker: 'queue:dequeued', revokesEventId: marker.id })]);
    assert.deepEqual([turn(fold).status, turn(fold).reason], ['pending', '']);
    fold.state({ turnId: 't', status: 'running' });
    assert.equal(turn(fold).status, 'running');
  });
});

describe('refusals', () => {
  test('AD2 AD3 the message is kept, the guidance belongs to it', () => {
    const asked = event('input.prompt', { text: 'q' });
    const fold = folded(asked, event('input.rejected', { text: 'q', revokesEventId: asked.id, error: 'insufficient_credits' }),
      event('output.error', { error: 'insufficient_credits', content: 'See http://fairlead.example/settings?tab=usage' }));
    assert.deepEqual(fold.view().items.map((item) => item.kind === 'refused' && [item.text, item.error, item.guidance?.content]),
      [['q', 'insufficient_credits', 'See http://fairlead.example/settings?tab=usage']]);
    assert.deepEqual(line(fold), []);
  });

  test('AD8 two refusals have each its own; one without its refusal stands alone', () => {
    const of = (/** @type {string} */ text) => [event('input.rejected', { text, error: 'quota_exhausted' }), event('output.error', { error: 'quota_exhausted', content: `not ${text}` })];
    const fold = folded(event('output.error', { error: 'quota_exhausted', content: 'older' }), ...of('a'), ...of('b'));
    assert.deepEqual(fold.view().items.map((item) => item.kind !== 'turn' && [item.kind, item.guidance?.content]),
      [['notice', 'older'], ['refused', 'not a'], ['refused', 'not b']]);
  });
});
