// SPDX-License-Identifier: MIT
// Checked by tsc --strict and never run: that the types say what the README shows.
import {
  asyncDispose, BusyError, CancelledError, ChangedError, engines, FencedError, HoldfastError, InvalidError, Lease, Leader, LostError,
  Member, newScope, open, Party, Store, Task, version,
} from 'holdfast';
import type { LeaseEvent, LeaderState, View } from 'holdfast';

export async function locks(url: string, signal: AbortSignal): Promise<number> {
  const store: Store = await open(url, { label: 'me', wait: 100, existing: true, signal });
  const lease: Lease = await store.lock('x', { wait: 5000, ttl: 10_000, signal, scope: newScope(), reentrant: true });
  const tried: Lease | null = await store.tryLock(new Uint8Array([1]), { barge: true });
  // @ts-expect-error: a try may give null
  await tried.release();
  // @ts-expect-error: there is no such option
  await store.lock('x', { tll: 5 });
  const token: number = lease.token;
  lease.on('lost', (event: LeaseEvent) => event.text?.length).off('lost', () => {});
  // @ts-expect-error: there is no such event
  lease.on('gone', () => {});
  for await (const { type } of lease.events({ signal })) if (type === 'wanted') await lease.yield({ wait: 10 });
  await lease.convert('shared', { signal });
  await store.semaphore('s', 3, { permits: 2, numbered: true });
  const { index, lease: any } = await store.acquireAny(['a', { name: 'b', kind: 'exclusive' }], { wait: 5 });
  await store.releaseAll([any, ...(await store.acquireAll(['c']))]);
  const result: string = await store.withLock('x', { wait: 1 }, async (held) => held.name);
  const plain: number = await store.withLock('x', () => 5);
  const median: number = store.stats().waits.quantile(0.5) + store.stats().losses.expired;
  const view: View = await store.inspect({ pattern: 'a*' });
  const waiting: string | undefined = view.entries[0]?.waiters[0]?.kind;
  await fetch('http://localhost', { signal: lease.signal });
  await lease[asyncDispose]();
  await store.close({ release: true });
  return token + index + median + result.length + plain + (waiting?.length ?? 0) + engines().length + version.length;
}

export async function primitives(store: Store): Promise<void> {
  const state = await store.cell('c').get();
  const seen: bigint = state?.version ?? 0n;
  const swapped: bigint | null = await store.cell('c').swap(seen, 'x', { ttl: 1000 });
  await store.cell('c').update((bytes) => (bytes ? Buffer.concat([bytes]) : undefined), { wait: 5 });
  for await (const cell of store.cell('c').changes()) if (cell === null) break;
  await store.commit([{ name: 'c', bytes: 'x', version: swapped ?? undefined }, { name: 'd', action: 'delete' }]);
  const sum: bigint = (await store.counter('n').add(2)) + (await store.counter('n').swap(1n, 2n)).value;
  const lease = await store.lock('x');
  const page: Buffer | null = await store.guard('page').claim(lease);
  await store.guard('page').set(lease.token, page ?? String(sum));
  await store.limit('l', { algorithm: 'sliding', rate: 5, per: 1000 }).take({ permits: 2, wait: 10 });
  await store.latch('latch').countDown('me');
  const party: Party = await store.barrier('b', 2).enter({ who: 'me' });
  await party.leave({ wait: 5 });
  const leader: Leader = await store.election('e').campaign('address', { ttl: 5000 });
  await leader.publish('other');
  let last: LeaderState | undefined;
  for await (last of store.election('e').leaders()) if (last.leads) last.value.toString();
  const member: Member = await store.group('g').join('address');
  await member.leave();
  const begun = await store.once('o').begin({ keep: 5000 });
  const task: Task | undefined = begun.task;
  if (!begun.task) begun.mark.at.getTime();
  await task?.finish();
}

export function explain(error: unknown): string {
  if (error instanceof CancelledError || error instanceof BusyError) return error.status;
  if (error instanceof ChangedError) return String(error.index);
  if (error instanceof FencedError || error instanceof LostError || error instanceof InvalidError) return error.text;
  return error instanceof HoldfastError ? `${error.code} ${error.native} ${error.statusNumber}` : 'other';
}
