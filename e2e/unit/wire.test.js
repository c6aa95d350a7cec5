import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError, messageText, readFrame, sliceBytes, textMessage, utf8Length, uuid } from '../../static/js/wire.js';

test('frames are told apart; what is none is ignored', () => {
  assert.deepEqual(readFrame('{"re":"1","ok":true,"threadId":"x"}'), { reply: { re: '1', ok: true, threadId: 'x' } });
  assert.deepEqual(readFrame('{"ok":false,"error":{"code":"bad_request"}}'), { reply: { ok: false, error: { code: 'bad_request' } } });
  assert.deepEqual(readFrame('{"type":"turn.delta","text":"a"}'), { push: { type: 'turn.delta', text: 'a' } });
  for (const bad of ['', 'x', '[]', 'null', '1', '{}', '{"type":1}', new ArrayBuffer(1)]) assert.equal(readFrame(bad), null);
});

test('ids are version 4 UUIDs', () => {
  assert.equal(uuid((bytes) => bytes.fill(0xff)), 'ffffffff-ffff-4fff-bfff-ffffffffffff');
  assert.equal(uuid((bytes) => bytes.fill(0)), '00000000-0000-4000-8000-000000000000');
  assert.notEqual(uuid(), uuid());
});

test('F28 text is cut at characters, by bytes', () => {
  const text = 'aé你🌍z';
  assert.equal(utf8Length(text), 11);
  const starts = new Map([[0, 'aé你🌍z'], [1, 'é你🌍z'], [3, '你🌍z'], [6, '🌍z'], [10, 'z'], [11, '']]);
  for (const [from, want] of starts) assert.equal(sliceBytes(text, from), want);
  assert.equal(sliceBytes(text, 1, 6), 'é你');
  assert.equal(sliceBytes(text, 0, 0), '');
});

test('a message document and its text', () => {
  assert.equal(messageText(textMessage('hello')), 'hello');
  assert.equal(messageText(undefined), '');
  assert.equal(messageText({ version: 1, parts: [{ type: 'file' }, { type: 'text', text: 'x' }] }), '[file]\n\nx');
});

test('an error keeps what a caller acts on', () => {
  const error = new CommandError({ code: 'rate_limited', retryable: true, retryAfterMs: 50 });
  assert.deepEqual([error.code, error.retryable, error.retryAfterMs, error.fields], ['rate_limited', true, 50, []]);
});
