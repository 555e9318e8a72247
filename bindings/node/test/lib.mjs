// SPDX-License-Identifier: MIT
// What the tests share. HOLDFAST_TEST_URL is the store; without it each test file has an embedded one of its own.
import { mkdtempSync, rmSync } from 'node:fs';
import { fork } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { once } from 'node:events';
import { after, test as plainTest } from 'node:test';
import assert from 'node:assert/strict';
import { open } from '../index.mjs';

export const LIMIT = Number(process.env.HOLDFAST_TEST_LIMIT ?? 60_000); // no test depends on a time being short

// A test that hangs fails, instead of the whole run.
export const test = (name, options, body = options) => plainTest(name, { timeout: 3 * LIMIT, skip: options.skip }, body);

const folder = process.env.HOLDFAST_TEST_URL ? undefined : mkdtempSync(path.join(tmpdir(), 'holdfast-node-'));
if (folder) after(() => rmSync(folder, { recursive: true, force: true }));

export const url = folder
  ? `file:${folder}`
  : process.env.HOLDFAST_TEST_URL.replace('{id}', `node-${process.pid}-${Date.now()}`);
export const redis = !folder;

/** A store for one test, closed at its end. */
export async function withStore(work, options) {
  const store = await open(url, options);
  try {
    const result = await work(store);
    assert.equal(store._used(), 0, 'calls or leases are left');
    return result;
  } finally {
    await store.close({ release: true });
  }
}

/** Ask again and again until it holds. */
export async function eventually(what, question) {
  const limit = Date.now() + LIMIT;
  for (;;) {
    const answer = await question();
    if (answer) return answer;
    if (Date.now() > limit) assert.fail(`${what}: did not come true`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The store knows of waiters of other processes, and of those that ask for strict order. */
export async function waiters(store, name, count) {
  return eventually(`${count} waiters of ${name}`, async () => (await store.inspect(name)).entries[0]?.waiters.length === count);
}

export async function isFree(store, name) {
  return (await store.inspect(name)).entries.length === 0;
}

/** The status that a promise is rejected with. */
export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('it did not fail');
}

/** Another process: a module of this folder. Its messages, and its end. */
export function start(file, args = [], execArgv = []) {
  const child = fork(new URL(file, import.meta.url), args, { execArgv, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (text) => (output.stdout += text));
  child.stderr.on('data', (text) => (output.stderr += text));
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, ...output }));
  return { child, ended };
}
