// SPDX-License-Identifier: MIT
// What programs do wrong, or at a bad moment.
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import assert from 'node:assert/strict';
import { Lease, open, Store } from '../index.mjs';
import { test, withStore, url, start, failure, waiters, isFree, eventually } from './lib.mjs';

const require = createRequire(import.meta.url);

test('names of any bytes, and names that are none', () =>
  withStore(async (store) => {
    const names = ['\0', 'a\0b', 'a\0c', Buffer.from([0xff, 0xfe]), Buffer.from([0xc3]), '%s{}*?[', Buffer.alloc(255, 0xff)];
    const leases = [];
    for (const name of names) {
      leases.push(await store.lock(name));
      assert.equal(await store.tryLock(name), null);
      const { entries } = await store.inspect(name);
      assert.deepEqual([...entries[0].nameBytes], [...Buffer.from(name)]);
      assert.deepEqual([...leases.at(-1).info().nameBytes], [...Buffer.from(name)]);
    }
    await store.releaseAll(leases);
    for (const name of ['', new Uint8Array(0), 'x'.repeat(1000), undefined, null, 7, Symbol.iterator, {}]) {
      for (const call of [() => store.lock(name), () => store.counter(name).add(1n), () => store.acquireAll([{ name }])]) {
        const error = await failure(call());
        assert.equal(error.status, 'INVALID', String(error));
        assert.match(error.text, /name/);
      }
    }
  }));

test('durations that are none', () =>
  withStore(async (store) => {
    for (const value of [NaN, -1, -Infinity, '5', {}, 1n]) {
      for (const key of ['wait', 'ttl', 'maxHold', 'minValid', 'minHold', 'lockDelay', 'linger']) {
        const error = await failure(store.lock('x', { [key]: value }));
        assert.equal(error.status, 'INVALID', `${key} ${String(value)}`);
        assert.match(error.text, new RegExp(key));
      }
    }
    for (const wait of [Infinity, Number.MIN_VALUE, 2 ** 60, 0]) await (await store.lock('x', { wait })).release();
    for (const options of [null, undefined, {}]) await (await store.lock('x', options)).release();
    for (const options of [5, 'x', () => {}]) assert.equal((await failure(store.lock('x', options))).status, 'INVALID');
    for (const options of [5, { existng: true }]) assert.equal((await failure(open(url, options))).status, 'INVALID');
    await (await open(url, null)).close();
  }));

test('objects that only calls make, and versions that are none', () =>
  withStore(async (store) => {
    for (const [Kind, thing] of [[Store, {}], [Store], [Lease, {}], [Lease]]) assert.throws(() => new Kind(thing), TypeError);
    const held = await store.lock('x'); // it would wait for ever before it looks at the function
    assert.equal((await failure(store.withLock('x', { wait: 60_000 }))).status, 'INVALID');
    await held.release();
    const version = await store.cell('versions').set('1');
    for (const call of [
      () => store.commit([{ name: 'versions', version: -1n, bytes: '2' }]), () => store.cell('versions').swap(-1n, '2'), () => store.cell('versions').delete(-1n),
      () => store.cell('versions').wait(-1n), () => store.wait(-1n),
    ]) {
      assert.equal((await failure(call())).status, 'INVALID');
    }
    assert.equal((await store.cell('versions').get()).version, version);
  }));

test('a signal that was aborted before: nothing is asked for', () =>
  withStore(async (store) => {
    const signal = AbortSignal.abort('no');
    const calls = [
      () => store.lock('x', { signal }), () => store.tryLock('x', { signal }), () => store.acquireAll(['x'], { signal }),
      () => store.acquireAny(['x'], { signal }), () => store.election('e').campaign('v', { signal }),
      () => store.cell('c').update(() => 'b', { signal }), () => store.cell('c').wait(0n, { signal }), () => store.wait(0n, { signal }),
    ];
    for (const call of calls) {
      const error = await failure(call());
      assert.equal(error.name, 'AbortError');
      assert.equal(error.cause, 'no');
    }
    assert.deepEqual((await store.inspect()).entries, []);
    assert.equal(await store.cell('c').get(), null);
  }));

test('two loops of one stream: each next() has its answer', () =>
  withStore(async (store) => {
    const lease = await store.lock('x');
    const events = lease.events();
    const answers = [events.next(), events.next(), events.next()];
    await store.breakLease('x', lease.token);
    assert.deepEqual((await Promise.all(answers)).map((answer) => answer.done), [false, true, true]);
    assert.equal((await failure(lease.release())).status, 'LOST');
  }));

test('each of two closes hears the truth', async () => {
  const store = await open(url);
  const lease = await store.lock('x');
  assert.deepEqual((await Promise.all([failure(store.close()), failure(store.close())])).map((error) => error.status), ['IN_USE', 'IN_USE']);
  assert.equal(store.closed, false);
  await lease.release();
  const other = await store.lock('x');
  const ends = [failure(store.close()), store.close({ release: true })]; // the second one does what the first could not
  assert.equal((await ends[0]).status, 'IN_USE');
  await ends[1];
  assert.equal(other.state, 'lost');
  await Promise.all([store.close(), store.close({ release: true })]);
  await store.close();
});

test('an event that comes before its grant survives the failure of another call', async () => {
  const { Core } = require('../lib/call.js');
  const core = new Core();
  core.event(1, 3, 'broken'); // LOST, of a lease whose grant is on its way
  const failed = core.begun(2, require('../lib/store.js')._settleGrant, undefined, { orNull: false });
  core.deliver(2, 2, undefined, 0, 'too late');
  assert.equal((await failure(failed)).status, 'TIMEOUT');
  assert.equal(core.granted(1, 7, 'x').lost, 'broken');
});

test('a store that is closed while calls of all kinds are under way', async () => {
  for (let i = 0; i < 20; i++) {
    const store = await open(url);
    const lease = await store.lock('x', { watch: true });
    const controller = new AbortController();
    const calls = [];
    for (let k = 0; k < 20; k++) {
      calls.push(store.lock('x', { signal: controller.signal }), store.counter('n').add(1n), store.inspect(), lease.events().next());
      calls.push(store.cell('c').update(() => 'b'), store.lock(`y${k}`).then((own) => own.release()));
    }
    const ends = Promise.allSettled(calls);
    if (i % 2) setImmediate(() => controller.abort());
    await new Promise((resolve) => setTimeout(resolve, i % 5));
    await store.close({ release: true });
    globalThis.gc?.();
    for (const { status, reason } of await ends) {
      if (status === 'rejected') assert.ok(['CANCELLED', 'INVALID', 'LOST', 'UNKNOWN'].includes(reason.status), String(reason));
    }
    assert.equal(lease.state, 'lost');
  }
});

test('process.exit() in the middle of things', () =>
  withStore(async (store) => {
    const held = await store.lock('held');
    for (const how of ['waiting', 'update', 'event']) {
      const run = start('child.mjs', ['exit', url, how]);
      const { code, signal, stderr } = await run.ended;
      assert.deepEqual([code, signal, stderr], [3, null, ''], how);
    }
    await held.release();
  }));

test('a worker that is terminated in a callback', () =>
  withStore(async (store) => {
    for (let i = 0; i < 3; i++) {
      const worker = new Worker(new URL('child.mjs', import.meta.url), { workerData: ['busy', url] });
      await once(worker, 'message');
      await worker.terminate();
      await eventually('its lease is released', () => isFree(store, 'busy'));
    }
  }));

test('a rejection that a program handles late is not the addon\'s', () =>
  withStore(async (store) => {
    const seen = [];
    const note = (reason) => seen.push(reason);
    process.on('unhandledRejection', note);
    const held = await store.lock('x');
    const controller = new AbortController();
    const wait = failure(store.lock('x', { strict: true, signal: controller.signal }));
    await waiters(store, 'x', 1);
    controller.abort();
    await held.release();
    assert.equal((await wait).name, 'AbortError');
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.off('unhandledRejection', note);
    assert.deepEqual(seen, []);
  }));
