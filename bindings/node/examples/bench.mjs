// SPDX-License-Identifier: MIT
// bench URL SECONDS: an uncontended pair of acquire and release in a loop.
import { open } from '../index.mjs';

const [url, seconds] = [process.argv[2], Number(process.argv[3] ?? 2)];
const store = await open(url);

async function pairs(duration) {
  const begin = process.hrtime.bigint();
  let count = 0;
  let took;
  do {
    for (let i = 0; i < 16; i++) {
      const lease = await store.lock('bench');
      await lease.release();
    }
    count += 16;
    took = Number(process.hrtime.bigint() - begin) / 1e9;
  } while (took < duration);
  return count / took;
}

await pairs(Math.min(0.3, seconds)); // warm up
console.log(`pairs_per_second ${Math.round(await pairs(seconds))}`);
await store.close();
