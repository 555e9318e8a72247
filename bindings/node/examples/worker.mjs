// SPDX-License-Identifier: MIT
// worker URL SEED SECONDS: the worker of the test in which several languages share a store. It writes one line for each event, each with
// one write, so that a kill leaves no half lines.
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { FencedError, HoldfastError, open } from '../index.mjs';

const EXPECTED = ['BUSY', 'TIMEOUT', 'CANCELLED', 'LOST', 'UNAVAILABLE', 'UNKNOWN', 'DEADLOCK', 'FENCED', 'TOO_SHORT'];

const now = () => process.hrtime.bigint(); // CLOCK_MONOTONIC, which all processes of a machine share
const say = (at, text) => writeSync(1, `${at} ${text}\n`);

/** The name of a status that may come; any other error ends the program. */
function expected(error) {
  if (error instanceof HoldfastError && EXPECTED.includes(error.status)) return error.status;
  throw error;
}

/** Numbers from 0 to n - 1, the same for the same seed. */
function makeRandom(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
  };
}

class Worker {
  constructor(store, random) {
    this.store = store;
    this.random = random;
    this.ttl = store.info().caps.includes('process') ? undefined : 1000;
    this.n = 0;
  }

  /** Acquire one of the three, work, and release. */
  async round() {
    const what = ['mutex', 'semaphore', 'counter'][this.random(3)];
    const permits = what === 'semaphore' ? 1 + this.random(2) : 1;
    this.n++;
    say(now(), `ask ${this.n} ${what} ${permits}`);
    let lease;
    try {
      lease = await this.acquire(what, permits);
    } catch (error) {
      say(now(), `not ${this.n} ${expected(error)}`);
      return;
    }
    if (!(await this.valid(lease, `got ${this.n} ${lease.token}`))) return;
    if (what === 'counter') await this.count(lease.token);
    await sleep(this.random(4));
    if (this.ttl && !(await this.valid(lease, `still ${this.n}`))) return;
    say(now(), `letting ${this.n}`);
    const status = await lease.release().then(() => 'OK', expected);
    say(now(), `let ${this.n} ${status}`);
  }

  acquire(what, permits) {
    const wait = [0, 1 + this.random(50)][this.random(5)] ?? 2000;
    const options = { wait, ttl: this.ttl };
    if (what === 'semaphore') return this.store.semaphore('shared-semaphore', 3, { ...options, permits });
    return this.store.lock(what === 'mutex' ? 'shared-mutex' : 'shared-counter-lock', options);
  }

  /** Say the line if the lease is valid after the time was taken. */
  async valid(lease, line) {
    const at = now();
    if (lease.valid) {
      say(at, line);
      return true;
    }
    say(now(), `lost ${this.n}`);
    await lease.release().catch(expected);
    return false;
  }

  /** Add one to the guarded counter. */
  async count(token) {
    const guard = this.store.guard('shared-counter');
    let bytes;
    try {
      bytes = await guard.claim(token);
    } catch (error) {
      expected(error);
      return;
    }
    const value = Number(bytes ?? 0) + 1;
    say(now(), `adding ${value} ${token}`);
    try {
      await guard.set(token, String(value));
      say(now(), `added ${value} ${token}`);
    } catch (error) {
      say(now(), `${error instanceof FencedError ? 'fenced' : 'unsure'} ${value} ${token}`);
      expected(error);
    }
  }
}

if (process.argv.length !== 5) throw new Error('usage: worker URL SEED SECONDS');
const [url, seed, seconds] = process.argv.slice(2);
const store = await open(url, { wait: 30_000 });
const worker = new Worker(store, makeRandom(Number(seed)));
const end = Date.now() + Number(seconds) * 1000;
while (Date.now() < end) await worker.round();
await store.close({ release: true });
