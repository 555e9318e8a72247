// SPDX-License-Identifier: MIT
// Other processes and threads of the tests: child.mjs WHAT URL ARGUMENT...
import { readFileSync, writeFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { open } from '../index.mjs';

const [what, url, ...args] = workerData ?? process.argv.slice(2);
const say = (message) => (parentPort ? parentPort.postMessage(message) : process.send?.(message));

const parts = {
  /** Add to the number in a file, in two steps with a pause between them. */
  async add() {
    const [file, count] = [args[0], Number(args[1])];
    const store = await open(url);
    for (let i = 0; i < count; i++) {
      await store.withLock('file', async () => {
        const number = Number(readFileSync(file, 'utf8'));
        await new Promise((resolve) => setImmediate(resolve));
        writeFileSync(file, String(number + 1));
      });
    }
    await store.close();
  },

  /** Hold a lock, have waiters and listeners, and go on until somebody ends us. */
  async hold() {
    const store = await open(url);
    const lease = await store.lock(args[0], { watch: true });
    lease.on('lost', () => say('lost'));
    const waits = [store.lock(args[0]), store.cell('never').wait(0n), lease.events().next(), store.latch('never').wait()];
    for (const wait of waits) wait.catch(() => {});
    say({ token: lease.token });
    setInterval(() => {}, 1000);
  },

  /** The program ends although a store is open and a lease is held. */
  async end() {
    const store = await open(url);
    const lease = await store.lock(args[0], { ttl: 30_000 });
    lease.on('lost', () => {});
  },

  /** A wait keeps the program running. */
  async wait() {
    const store = await open(url);
    say('waiting');
    const lease = await store.lock(args[0]);
    await lease.release();
    process.stdout.write('got it\n');
    await store.close();
  },

  /** process.exit() while calls wait, in a callback below the library, and in an event. */
  async exit() {
    const store = await open(url);
    const lease = await store.lock(args[0]); // on Redis it outlives us
    store.lock('held').catch(() => {});
    if (args[0] === 'update') await store.cell('c').update(() => process.exit(3));
    lease.on('lost', () => process.exit(3));
    if (args[0] === 'event') await store.breakLease(args[0], lease.token);
    else process.exit(3);
  },

  /** A callback below the library that never returns. */
  async busy() {
    const store = await open(url);
    await store.lock('busy');
    await store.cell('c').update(() => {
      say('busy');
      for (;;);
    });
  },

  async forget() {
    const store = await open(url);
    await (async () => {
      await store.lock(args[0]);
      await (await store.lock('released')).release();
    })();
    let warned = 0;
    process.on('warning', (warning) => {
      warned++;
      console.log(warning.name, warning.code, warning.message);
    });
    for (let i = 0; i < 1000 && warned === 0; i++) {
      globalThis.gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    console.log('held:', (await store.tryLock(args[0])) === null);
    await store.close({ release: true });
  },
};

await parts[what]();
