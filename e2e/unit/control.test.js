import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { ContractError, RunState } from '../control-client.mjs';

/** @type {{from: string, frame: object}[]} */
const golden = JSON.parse(readFileSync(new URL('../../relay/wire/testdata/control.json', import.meta.url), 'utf8'));
const pushes = golden.filter((g) => g.from === 'gateway').map((g) => JSON.stringify(g.frame));
/** @param {number} seq */
const event = (seq, rest = {}) => JSON.stringify({
  type: 'event', runId: 'run_fixture',
  envelope: { schema_version: 2, seq, event: 'item.delta', kind: 'item.delta', turn_id: 't', source_event_id: `s${seq}`, payload: { kind: 'agent_message', delta: `${seq} ` }, ...rest },
});

test('the client of the contract takes every golden push', () => {
  const run = new RunState('run_fixture');
  run.cursor = 41;
  for (const push of pushes) {
    if (JSON.parse(push).envelope?.seq === 44) run.cursor = 43;
    run.take(push);
  }
  assert.equal(run.cursor, 44);
  assert.equal(run.turn('local_turn_bbbbbbbbbbbbbbbbbbbbbbbb').text, '<b>1</b> & 2\u2028');
  assert.equal(run.acks.get(2).error.code, 'relay_inference_busy');
  assert.equal(Object(run.goaway).retryAfterMs, 1500);
});

test('RH48, RH49: a gap and a repetition with other bytes are found', () => {
  const run = new RunState('run_fixture');
  run.take(event(1));
  run.take(event(1));
  assert.throws(() => run.take(event(1, { payload: { kind: 'agent_message', delta: 'x' } })), ContractError);
  assert.throws(() => run.take(event(3)), ContractError);
});

test('RH42: the same native event under a new seq counts once', () => {
  const run = new RunState('run_fixture');
  run.take(event(1));
  run.take(event(2, { source_event_id: 's1' }));
  assert.equal(run.turn('t').text, '1 ');
  assert.equal(run.cursor, 2);
});
