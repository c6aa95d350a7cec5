import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { whole } from '../../static/js/turn-dialog.js';

/**
 * A line that answers turn.get from pages, by where they begin; it notes what was asked.
 * @param {Record<string, any>} pages
 */
function lineOf(pages) {
  /** @type {any[]} */
  const asked = [];
  return {
    asked,
    /** @param {string} type @param {Record<string, any>} fields */
    async request(type, fields) {
      asked.push([type, fields]);
      return structuredClone(pages[fields.partialFrom ?? 'first']);
    },
  };
}

describe('a turn is read whole', () => {
  test('unfinished text comes in pages, which are joined', async () => {
    const line = lineOf({
      first: { turn: { turnId: 't', prompt: 'p' }, partialNext: 0 }, // there was no room for text
      0: { turn: { turnId: 't', partial: 'ab' }, partialNext: 2 },
      2: { turn: { turnId: 't', partial: 'c' } },
    });
    assert.deepEqual(await whole(line, 't'), { turnId: 't', prompt: 'p', partial: 'abc' });
    assert.deepEqual(line.asked, [
      ['turn.get', { turnId: 't' }],
      ['turn.get', { turnId: 't', partialFrom: 0 }],
      ['turn.get', { turnId: 't', partialFrom: 2 }],
    ]);
  });

  test('one that fits is asked for once', async () => {
    const line = lineOf({ first: { turn: { turnId: 't', partial: 'all' } } });
    assert.deepEqual(await whole(line, 't'), { turnId: 't', partial: 'all' });
    assert.equal(line.asked.length, 1);
  });
});
