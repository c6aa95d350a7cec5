import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { KNOWN_CODES, explain } from '../../static/js/errors.js';
import { Outbox } from '../../static/js/outbox.js';
import { Store } from '../../static/js/store.js';
import { CommandError } from '../../static/js/wire.js';
import { memoryStorage, settle } from './fake-server.js';

function tab(storage = memoryStorage()) {
  const store = new Store('account', storage);
  /** @type {{fields: any, resolve: (reply: any) => void, reject: (error: any) => void}[]} */
  const said = [];
  /** @type {any[]} */
  const receipts = [];
  /** @type {any[]} */
  const troubles = [];
  /** @type {number[]} */
  const pauses = [];
  const outbox = new Outbox(store, {
    command: (_type, fields) => new Promise((resolve, reject) => said.push({ fields, resolve, reject })),
  }, {
    onReceipt: (message, reply) => receipts.push([message.text, reply.disposition]),
    onTrouble: (_message, error, final) => troubles.push([error.code, final]),
  }, { pause: async (ms) => { pauses.push(ms); } });
  return { storage, store, outbox, said, receipts, troubles, pauses };
}

describe('the outbox', () => {
  test('F06 a message is kept until the server has it', async () => {
    const { store, outbox, said, receipts } = tab();
    outbox.send({ threadId: 'th', text: 'hello', mode: 'auto' });
    assert.equal(store.unsent().length, 1);
    assert.equal(outbox.pendingIn('th')?.text, 'hello');
    said[0]?.resolve({ disposition: 'started' });
    await settle();
    assert.deepEqual(receipts, [['hello', 'started']]);
    assert.deepEqual(store.unsent(), []);
    assert.equal(outbox.pendingIn('th'), null);
  });

  test('F05 a crashed tab says the same message under the same ids', async () => {
    const first = tab();
    first.outbox.send({ threadId: '', text: 'hello', mode: 'auto', model: 'demo' });
    const second = tab(first.storage);
    second.outbox.resume();
    second.outbox.resume();
    assert.equal(second.said.length, 1);
    assert.deepEqual(second.said[0]?.fields, first.said[0]?.fields);
    second.said[0]?.resolve({ disposition: 'started', replayed: true });
    await settle();
    const third = tab(first.storage);
    third.outbox.resume();
    assert.equal(third.said.length, 0);
  });

  test('a new thread is named by the client, a known one by its id, never both', () => {
    const { outbox, said } = tab();
    outbox.send({ threadId: '', text: 'a', mode: 'auto' });
    outbox.send({ threadId: 'th', text: 'b', mode: 'interrupt' });
    assert.equal('threadId' in (said[0]?.fields ?? {}), false);
    assert.match(said[0]?.fields.clientThreadId, /^[0-9a-f-]{36}$/);
    assert.deepEqual([said[1]?.fields.threadId, said[1]?.fields.clientThreadId, said[1]?.fields.mode], ['th', undefined, 'interrupt']);
  });

  test('an edit names what it replaces, also after a crash, and does not hold up the box', () => {
    const first = tab();
    first.outbox.send({ threadId: 'th', text: 'better', mode: 'queue', revokesEventId: 'waiting', from: 'edit' });
    assert.equal(first.said[0]?.fields.revokesEventId, 'waiting');
    assert.equal('from' in (first.said[0]?.fields ?? {}), false);
    assert.equal(first.outbox.pendingIn('th'), null);
    const second = tab(first.storage);
    second.outbox.resume();
    assert.deepEqual(second.said[0]?.fields, first.said[0]?.fields);
  });

  test('an assistant is named for a new thread alone', () => {
    const { outbox, said } = tab();
    outbox.send({ threadId: '', text: 'a', mode: 'auto', agentId: 'pilot' });
    outbox.send({ threadId: 'th', text: 'b', mode: 'auto', agentId: 'pilot' });
    assert.deepEqual(said.map(({ fields }) => fields.agentId), ['pilot', undefined]);
  });

  test('what may pass is tried again under the same id, what is refused is told', async () => {
    const { outbox, said, troubles, store, pauses } = tab();
    outbox.send({ threadId: 'th', text: 'a', mode: 'auto' });
    said[0]?.reject(new CommandError({ code: 'rate_limited', retryable: true, retryAfterMs: 5000 }));
    await settle();
    assert.deepEqual(pauses, [5000]);
    assert.equal(said[1]?.fields.clientEventId, said[0]?.fields.clientEventId);
    said[1]?.reject(new CommandError({ code: 'prompt_too_large' }));
    await settle();
    assert.deepEqual(troubles, [['rate_limited', false], ['prompt_too_large', true]]);
    assert.deepEqual(store.unsent(), []);
  });

  test('it does not try for ever', async () => {
    const { outbox, said, troubles } = tab();
    outbox.send({ threadId: 'th', text: 'a', mode: 'auto' });
    for (let i = 0; i < 10; i++) {
      said[i]?.reject(new CommandError({ code: 'storage_unavailable', retryable: true }));
      await settle();
    }
    assert.equal(said.length, 6);
    assert.deepEqual(troubles.at(-1), ['storage_unavailable', true]);
  });

  test('drafts are apart by thread and account, and broken storage is no crash', () => {
    const storage = memoryStorage();
    const store = new Store('a', storage);
    store.keepDraft('t1', 'one');
    store.keepDraft('', 'new');
    assert.deepEqual([store.draft('t1'), store.draft('t2'), store.draft('')], ['one', '', 'new']);
    assert.equal(new Store('b', storage).draft('t1'), '');
    store.keepDraft('t1', '');
    assert.equal(store.draft('t1'), '');
    storage.setItem('fairlead:a:outbox', '{broken');
    assert.deepEqual(store.unsent(), []);
    const none = new Store('a', null);
    none.keepDraft('t', 'x');
    assert.equal(none.draft('t'), '');
  });
});

test('each error names a cause and a cure; unknown codes keep their name', () => {
  for (const code of KNOWN_CODES) {
    const { cause, cure } = explain(code);
    assert.ok(cause.endsWith('.') && cure.endsWith('.'), code);
  }
  assert.match(explain('brand_new').cause, /brand_new/);
});
