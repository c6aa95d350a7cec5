import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Shelf } from '../../static/js/shelf.js';
import { Store } from '../../static/js/store.js';
import { memoryStorage } from './fake-server.js';

/** A page over storages that outlive it; its box shows another thread or "th". */
function page({ shared = memoryStorage(), tab = memoryStorage(), shows = 'th', typed = '' } = {}) {
  const box = { value: typed, focus() {} };
  const composer = { threadId: shows, box, putBack: (/** @type {string} */ text) => { box.value = text; } };
  const root = { children: [], firstElementChild: null, hidden: true };
  Object.assign(globalThis, { document: { getElementById: () => root } });
  const store = new Store('a', shared);
  const shelf = new Shelf(store, new Store('a', tab), /** @type {any} */ (composer));
  return { shelf, box, store, tab, shared, kept: () => store.kept('th').map((one) => one.text) };
}

describe('texts that come back', () => {
  test('F06 into the box if it is free, else beside it', () => {
    const free = page();
    free.shelf.ask('th', 'm', 'text');
    free.shelf.back('th', 'm', 'text');
    assert.deepEqual([free.box.value, free.kept()], ['text', []]);
    const elsewhere = page({ shows: 'other' });
    elsewhere.shelf.ask('th', 'm', 'text');
    elsewhere.shelf.back('th', 'm', 'text');
    assert.deepEqual([elsewhere.box.value, elsewhere.kept()], ['', ['text']]);
  });

  test('a recall that this page waits for is not settled by the log', () => {
    const { shelf, box } = page();
    shelf.ask('th', 'm', 'text');
    assert.equal(shelf.settle('th', () => 'recalled'), false);
    assert.equal(box.value, '');
    shelf.stays('th', 'm');
    shelf.settle('th', () => 'recalled');
    assert.equal(box.value, '', 'a refused one does not come back');
  });

  test('F05 F06 a recall whose answer an earlier page did not hear comes back once, and in its own tab', () => {
    const before = page();
    before.shelf.ask('th', 'm', 'text');
    const { shared, tab } = before;
    const other = page({ shared });
    other.shelf.settle('th', () => 'recalled');
    assert.equal(other.box.value, '');
    const after = page({ shared, tab });
    after.shelf.settle('th', () => 'unknown');
    after.shelf.settle('th', () => 'waiting');
    assert.equal(after.box.value, '');
    after.shelf.settle('th', () => 'recalled');
    assert.equal(after.box.value, 'text');
    after.box.value = '';
    after.shelf.settle('th', () => 'recalled');
    assert.equal(after.box.value, '');
  });

  test('an edit is there after a reload, and comes back if its message has started', () => {
    const before = page();
    before.shelf.typed('th', 'm', 'better');
    const after = page({ tab: before.tab });
    assert.equal(after.shelf.edit('th', 'm'), 'better');
    assert.equal(after.shelf.settle('th', () => 'waiting'), false);
    assert.equal(after.shelf.settle('th', () => 'started'), true);
    assert.equal(after.box.value, 'better');
    assert.equal(after.shelf.edit('th', 'm'), null);
    before.shelf.typed('th', 'm', 'again');
    before.shelf.typed('th', 'm', null);
    assert.equal(before.shelf.edit('th', 'm'), null);
  });
});
