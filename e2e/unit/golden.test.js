// The frames that the gateway's own tests hold it to (gateway/socket/testdata):
// what it says is what the page reads, and what the page says is known there.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Fold } from '../../static/js/fold.js';
import { Line } from '../../static/js/socket.js';
import { readFrame } from '../../static/js/wire.js';
import { FakeClock, FakeSocket } from './fake-server.js';

const root = new URL('../../', import.meta.url);

/** @type {{name: string, send: any, reply: any}[]} */
const frames = JSON.parse(readFileSync(new URL('gateway/socket/testdata/frames.json', root), 'utf8'));

describe('golden frames', () => {
  for (const { name, send, reply } of frames) {
    test(name, async () => {
      assert.deepEqual(readFrame(JSON.stringify(reply)), { reply });
      if (!reply.re || typeof send !== 'object') return;
      const socket = new FakeSocket('', '');
      const line = new Line({ url: '', dial: () => socket, clock: new FakeClock(), onPush() {} });
      line.open();
      socket.welcome({ limits: { frameBytes: 1 << 20 } });
      const { id: _id, type, ...fields } = send;
      const answer = line.command(type, fields);
      socket.push({ ...reply, re: socket.command(type).id });
      if (reply.ok) assert.deepEqual({ ...(await answer), re: reply.re }, reply);
      else await assert.rejects(answer, { code: reply.error.code, retryable: reply.error.retryable, fields: reply.error.fields ?? [] });
    });
  }

  test('an opened thread folds', () => {
    const open = frames.find((frame) => frame.send.type === 'thread.open' && frame.reply.ok && frame.reply.events.length > 1);
    assert.ok(open);
    const fold = new Fold();
    fold.apply(open.reply.events);
    assert.equal(fold.latestSeq, open.reply.latestSeq);
    assert.equal(fold.view().items.length, 1);
  });

  test('each command of the page is one that the gateway’s tests know', () => {
    const known = new Set(frames.filter((frame) => frame.reply.ok).map((frame) => frame.send.type));
    const folder = new URL('static/js/', root);
    const said = new Set();
    for (const file of readdirSync(folder)) {
      const text = readFileSync(new URL(file, folder), 'utf8');
      for (const [, type] of text.matchAll(/\.(?:command|request)\('([a-z.]+)'/g)) said.add(type);
    }
    assert.ok(said.size >= 12, [...said].join(' '));
    assert.deepEqual([...said].filter((type) => !known.has(type)), []);
  });
});
