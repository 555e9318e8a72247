// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import * as holdfast from '../index.mjs';
import { failure, test, waiters, withStore } from './lib.mjs';

async function collect(iterable) {
  const all = [];
  for await (const item of iterable) all.push(item);
  return all;
}

async function lose(store, lease) {
  const listened = new Promise((resolve) => lease.once('lost', resolve));
  const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve, { once: true }));
  const events = collect(lease.events());
  await store.breakLease(lease.name, lease.token);
  const event = await listened;
  assert.equal(event.type, 'lost');
  assert.ok(event.text.length > 0);
  await aborted;
  assert.ok(lease.signal.reason instanceof holdfast.LostError);
  assert.deepEqual((await events).at(-1), event);
  assert.deepEqual(await collect(lease.events()), [event]); // also if one comes late
  assert.equal(lease.state, 'lost');
  assert.equal(lease.remaining, 0);
  assert.throws(() => lease.fence(), holdfast.LostError);
  assert.ok((await failure(lease.release())) instanceof holdfast.LostError);
}

test('a broken lease is lost: event, signal, error', () =>
  withStore(async (store) => lose(store, await store.lock('broken'))));

test('so is one that had to wait', () =>
  withStore(async (store) => {
    const first = await store.lock('broken');
    const second = store.lock('broken', { strict: true });
    await waiters(store, 'broken', 1);
    await first.release();
    await lose(store, await second);
  }));

test('so are those of several names', () =>
  withStore(async (store) => {
    const [a, b] = await store.acquireAll(['broken-a', 'broken-b']);
    await lose(store, b);
    await a.release();
    await lose(store, (await store.acquireAny(['broken-a', 'broken-b'])).lease);
  }));

test('so are those without a callback in C', () =>
  withStore(async (store) => {
    const lease = await store.lock('adopted', { detached: true, ttl: 60_000 });
    const adopted = await store.adopt('adopted', lease.export());
    await lose(store, adopted);
    await lease.release().catch(() => {});
  }));

test('a lease that is not renewed ends by itself', () =>
  withStore(async (store) => {
    const lease = await store.lock('short', { ttl: 1000, noRenew: true });
    const types = (await collect(lease.events())).map((event) => event.type);
    assert.equal(types.at(-1), 'lost');
    assert.equal((await failure(lease.release())).status, 'LOST');
  }));

test('a release that finds it lost reports that', () =>
  withStore(async (store) => {
    const lease = await store.lock('late');
    const token = lease.token;
    const seen = [];
    lease.on('lost', (event) => seen.push(event));
    const broken = store.breakLease('late', token);
    await broken;
    await lease.release().catch((error) => assert.equal(error.status, 'LOST'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(seen.length, 1);
  }));

test('a loop over events ends with the release, a signal, or break', () =>
  withStore(async (store) => {
    const lease = await store.lock('loop', { watch: true });
    const controller = new AbortController();
    const stopped = collect(lease.events({ signal: controller.signal }));
    const loop = (async () => {
      for await (const event of lease.events()) if (event.type === 'wanted') break;
    })();
    const all = collect(lease.events());
    controller.abort();
    assert.deepEqual(await stopped, []);
    const other = store.lock('loop');
    await loop;
    await lease.release();
    await (await other).release();
    assert.equal((await all)[0].type, 'wanted');
  }));
