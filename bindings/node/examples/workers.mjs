// SPDX-License-Identifier: MIT
// workers [URL]: two workers, a token, and a loss. Without a URL: an embedded store in a temporary directory.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { FencedError, LostError, open } from '../index.mjs';

/** Takes the lock and writes. Returns its token when it has learned that the lease is lost. */
async function first(store, started) {
  const lease = await store.lock('report');
  console.log(`first: holds report, token ${lease.token}`);
  await store.guard('page').claim(lease);
  await store.guard('page').set(lease, 'by first');
  console.log('first: wrote page');
  started(lease.token);
  for await (const event of lease.events()) { // nobody polls
    if (event.type === 'lost') console.log('first: lost report');
  }
  await lease.release().catch((error) => {
    if (!(error instanceof LostError)) throw error;
  });
  return lease.token;
}

/** Waits for the lock, claims the page and writes it. `go` says that `first` has spoken. */
async function second(store, go) {
  const lease = await store.lock('report');
  await go;
  console.log(`second: holds report, token ${lease.token}`);
  await store.guard('page').claim(lease);
  await store.guard('page').set(lease, 'by second');
  console.log('second: wrote page');
  return lease;
}

/** As an operator would: when somebody waits for it, break the lease with this token. */
async function breakWhenWanted(store, token) {
  while ((await store.inspect('report')).entries[0].waiters.length === 0) await sleep(5);
  await store.breakLease('report', token);
}

async function main(url) {
  // Each worker has a store of its own, so that the store knows of both.
  const [store, other] = [await open(url), await open(url)];
  let ended;
  const token = await new Promise((resolve, reject) => {
    ended = first(store, resolve);
    ended.catch(reject);
  });
  const next = second(other, ended);
  await breakWhenWanted(store, token);
  const old = await ended;
  const lease = await next;
  try {
    await store.guard('page').set(old, 'by first, too late');
    console.log('first: wrote page again');
  } catch (error) {
    if (!(error instanceof FencedError)) throw error;
    console.log('first: refused, a newer token was used');
  }
  await lease.release();
  console.log('second: released');
  const reader = await store.lock('report');
  console.log(`page: ${await store.guard('page').claim(reader)}`);
  await reader.release();
  await other.close();
  await store.close();
}

let folder;
try {
  if (!process.argv[2]) folder = await mkdtemp(path.join(tmpdir(), 'workers-'));
  await main(process.argv[2] ?? `file:${folder}`);
} finally {
  if (folder) await rm(folder, { recursive: true });
}
