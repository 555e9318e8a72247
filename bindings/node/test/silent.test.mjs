// SPDX-License-Identifier: MIT
// A server that accepts everything and says nothing: only the clock can end a call then.
import net from 'node:net';
import { once } from 'node:events';
import assert from 'node:assert/strict';
import { open } from '../index.mjs';
import { test, redis, url, failure } from './lib.mjs';

/** Stands between us and Redis, and can stop to forward. */
async function proxy(target) {
  const state = { frozen: false, sockets: new Set() };
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port), target.hostname);
    for (const [from, to] of [[near, far], [far, near]]) {
      state.sockets.add(from);
      from.on('data', (bytes) => state.frozen || to.write(bytes));
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = new URL(target);
  address.host = `127.0.0.1:${server.address().port}`;
  state.url = address.href;
  state.end = () => {
    for (const socket of state.sockets) socket.destroy();
    server.close();
  };
  return state;
}

test('calls to a silent server end with their time, and with a signal', { skip: !redis }, async () => {
  const between = await proxy(new URL(url));
  const store = await open(`${between.url}&op_timeout=500ms`);
  await (await store.lock('x')).release();
  between.frozen = true;
  const controller = new AbortController();
  const calls = [store.lock('x', { wait: 200 }), store.counter('n').get(), store.inspect(), store.lock('y', { signal: controller.signal })];
  const ends = calls.map(failure);
  setTimeout(() => controller.abort(), 100);
  const statuses = (await Promise.all(ends)).map((error) => error.status);
  for (const status of statuses.slice(0, 3)) assert.ok(['TIMEOUT', 'UNAVAILABLE', 'UNKNOWN'].includes(status), status);
  assert.ok(['CANCELLED', 'UNKNOWN'].includes(statuses[3]), statuses[3]); // the store may have granted it, and did not say
  await store.close({ release: true });
  between.end();
});
