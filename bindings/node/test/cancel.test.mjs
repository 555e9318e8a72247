// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import * as holdfast from '../index.mjs';
import { failure, isFree, test, waiters, withStore } from './lib.mjs';

async function cancelled(promise) {
  const error = await failure(promise);
  assert.ok(error instanceof holdfast.CancelledError, String(error));
  assert.equal(error.name, 'AbortError');
  assert.equal(error.code, 'ABORT_ERR');
  return error;
}

test('a signal ends a wait', () =>
  withStore(async (store) => {
    const lease = await store.lock('held');
    const controller = new AbortController();
    const waiting = store.lock('held', { signal: controller.signal, strict: true });
    await waiters(store, 'held', 1);
    controller.abort(new Error('enough'));
    assert.match((await cancelled(waiting)).cause.message, /enough/);
    await waiters(store, 'held', 0);
    await cancelled(store.lock('other', { signal: controller.signal })); // aborted before
    assert.ok(await isFree(store, 'other'));
    await lease.release();
  }));

test('a grant at the moment of the cancellation is given back', () =>
  withStore(async (store) => {
    let cancels = 0;
    for (let i = 0; i < 300; i++) {
      const lease = await store.lock('moment');
      const controller = new AbortController();
      const strict = i % 3 === 0; // else the wait is in this process alone
      const waiting = store.lock('moment', { signal: controller.signal, strict }).then(
        (got) => got.release(),
        (error) => {
          assert.equal(error.status, 'CANCELLED');
          cancels++;
        },
      );
      if (strict) await waiters(store, 'moment', 1);
      const released = lease.release();
      if (i % 2 === 0) await Promise.resolve();
      controller.abort();
      await Promise.all([waiting, released]);
      assert.ok(await store.tryLock('moment').then((got) => got?.release().then(() => true)), `round ${i}: it is still held`);
    }
    assert.ok(cancels > 0);
  }));

test('a grant that comes although the signal was aborted is given back', () =>
  withStore(async (store) => {
    // Aborted in the same turn in which the answer is delivered: the addon finds nothing to cancel any more.
    for (let i = 0; i < 100; i++) {
      const controller = new AbortController();
      const all = store.acquireAll(['x', 'y'], { signal: controller.signal });
      const any = store.acquireAny(['v', 'w'], { signal: controller.signal });
      setImmediate(() => controller.abort());
      for (const [promise, give] of [[all, (leases) => store.releaseAll(leases)], [any, (got) => got.lease.release()]]) {
        await promise.then(give, (error) => assert.equal(error.status, 'CANCELLED'));
      }
      assert.equal((await store.inspect()).entries.length, 0);
    }
  }));

test('other waits can be cancelled too', () =>
  withStore(async (store) => {
    const version = await store.cell('cell').set('1');
    await store.latch('latch').create(1);
    const reader = await store.shared('rw');
    const upgradeable = await store.upgradeable('rw');
    const waits = [
      (signal) => store.cell('cell').wait(version, { signal }),
      (signal) => store.latch('latch').wait({ signal }),
      (signal) => store.barrier('barrier', 2).wait({ signal }),
      (signal) => store.barrier('double', 2).enter({ signal }),
      (signal) => store.election('election').wait().then((last) => store.election('election').wait(last, { signal })),
      (signal) => store.group('group').members().then((last) => store.group('group').members(last, { signal })),
      (signal) => upgradeable.convert('exclusive', { signal }),
      async (signal) => {
        for await (const cell of store.cell('cell').changes({ signal })) assert.equal(cell.bytes.toString(), '1');
      },
    ];
    for (const wait of waits) {
      const controller = new AbortController();
      const promise = wait(controller.signal);
      setTimeout(() => controller.abort(), 20);
      await cancelled(promise);
    }
    await store.releaseAll([reader, upgradeable]);
  }));

test('1,000 waiters with one thread', () =>
  withStore(async (store) => {
    const lease = await store.lock('many');
    let holders = 0;
    const waiting = Array.from({ length: 1000 }, async () => {
      const got = await store.lock('many');
      assert.equal(++holders, 1);
      await Promise.resolve();
      holders--;
      await got.release();
    });
    const controller = new AbortController();
    const others = Array.from({ length: 100 }, () => cancelled(store.lock('many', { signal: controller.signal })));
    controller.abort();
    await Promise.all(others);
    await lease.release();
    await Promise.all(waiting);
    assert.ok(await isFree(store, 'many'));
  }));
