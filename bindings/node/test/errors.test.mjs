// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import * as holdfast from '../index.mjs';
import { failure, test, url, withStore } from './lib.mjs';

test('a bad URL', async () => {
  const error = await failure(holdfast.open('nonsense:/x'));
  assert.ok(error instanceof holdfast.ConfigError && error instanceof holdfast.HoldfastError && error instanceof Error);
  assert.equal(error.status, 'CONFIG');
  assert.equal(error.statusNumber, 8);
  assert.equal(error.code, 'HF_CONFIG');
  assert.equal(error.native, 0);
  assert.equal(error.text, error.message);
  assert.equal((await failure(holdfast.open(7))).status, 'INVALID');
  assert.equal((await failure(holdfast.open('file:/x\0y'))).status, 'INVALID');
});

test('without a URL it is the store of the environment or of the configuration', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'holdfast-which-'));
  const config = path.join(folder, 'config');
  writeFileSync(config, `default = a\n[profile a]\nurl = file:${folder}/a\n`);
  const is = async (given, location, source) => {
    const store = await holdfast.open(given);
    assert.deepEqual([store.info().location, store.info().source], [location, source]);
    await store.close();
  };
  const before = process.env.HOLDFAST_STORE;
  try {
    process.env.HOLDFAST_CONFIG = config;
    process.env.HOLDFAST_STORE = `file:${folder}/env`;
    await is(undefined, `file:${folder}/env`, 'HOLDFAST_STORE');
    await is(null, `file:${folder}/env`, 'HOLDFAST_STORE');
    await is('a', `file:${folder}/a`, `profile a in ${config}`);
    delete process.env.HOLDFAST_STORE;
    await is(undefined, `file:${folder}/a`, `profile a in ${config}`);
    await is(`file:${folder}/given`, `file:${folder}/given`, 'the caller');
    assert.match((await failure(holdfast.open(''))).message, /is empty/);
  } finally {
    delete process.env.HOLDFAST_CONFIG;
    if (before !== undefined) process.env.HOLDFAST_STORE = before;
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a server that is not there, and a password that is not told', async () => {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  const error = await failure(holdfast.open(`redis://user:hushhush@127.0.0.1:${port}`, { once: true }));
  assert.ok(error instanceof holdfast.UnavailableError);
  assert.ok(!`${error.stack} ${JSON.stringify(error)}`.includes('hushhush'));
  const bad = await failure(holdfast.open('redis://user:hushhush@127.0.0.1:1/?nonsense=1'));
  assert.ok(!`${bad.stack} ${JSON.stringify(bad)}`.includes('hushhush'));
});

test('an aborted open', async () => {
  const error = await failure(holdfast.open(url, { signal: AbortSignal.abort() }));
  assert.ok(error instanceof holdfast.CancelledError);
  const controller = new AbortController();
  const opening = holdfast.open(url, { signal: controller.signal });
  controller.abort();
  assert.equal((await failure(opening)).status, 'CANCELLED');
});

test('a store that must exist', async () => {
  if (!url.startsWith('file:')) return;
  assert.ok((await failure(holdfast.open(`${url}/none`, { existing: true }))) instanceof holdfast.NotFoundError);
});

test('bad names, kinds and options', () =>
  withStore(async (store) => {
    for (const name of ['', 'x'.repeat(513), undefined, 7, {}, new Float64Array(2)]) {
      assert.ok((await failure(store.lock(name))) instanceof holdfast.InvalidError, String(name));
      assert.ok((await failure(store.cell(name).get())) instanceof holdfast.InvalidError, String(name));
    }
    assert.match((await failure(store.lock('x', { tll: 5 }))).message, /tll/);
    assert.equal((await failure(store.lock('x', { ttl: -1 }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { wait: '5' }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { wait: NaN }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { label: 'a\0b' }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { label: 5 }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { signal: {} }))).status, 'INVALID');
    assert.equal((await failure(store.lock('x', { scope: 'x' }))).status, 'INVALID');
    assert.equal((await failure(store.semaphore('x', 2 ** 40))).status, 'INVALID');
    assert.equal((await failure(store.semaphore('x', 0))).status, 'INVALID');
    assert.equal((await failure(store.acquireAll('x'))).status, 'INVALID');
    assert.equal((await failure(store.acquireAll([{ name: 'x', kind: 'odd' }]))).status, 'INVALID');
    assert.equal((await failure(store.breakLease('x', 1.5))).status, 'INVALID');
    assert.equal((await failure(store.breakLease('x', 12345))).status, 'NOT_FOUND');
    assert.equal((await failure(store.adopt('x', 'nonsense'))).status, 'INVALID');
    const lease = await store.lock('kind');
    assert.ok((await failure(store.shared('kind', { wait: 0 }))) instanceof holdfast.MismatchError);
    await lease.release();
    assert.equal((await store.inspect()).entries.length, 0);
  }));

test('long arguments', () =>
  withStore(async (store) => {
    const names = Array.from({ length: 64 }, (_, i) => `${String(i).padStart(3, '0')}${'é'.repeat(250)}`);
    const leases = await store.acquireAll(names);
    assert.deepEqual((await store.inspect()).entries.map((entry) => entry.name), names);
    await store.releaseAll(leases);
    const text = 'ü'.repeat(30_000);
    await store.cell('long').set(text);
    assert.equal((await store.cell('long').get()).bytes.toString(), text);
  }));

test('both kinds of modules are the same', () => {
  const required = createRequire(import.meta.url)('../index.js');
  assert.equal(required.open, holdfast.open);
  assert.deepEqual(Object.keys(required).sort(), Object.keys(holdfast).filter((name) => name !== 'default').sort());
});
