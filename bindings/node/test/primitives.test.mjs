// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import * as holdfast from '../index.mjs';
import { eventually, failure, test, withStore } from './lib.mjs';

test('cells', () =>
  withStore(async (store) => {
    const cell = store.cell('cell');
    assert.equal(await cell.get(), null);
    const first = await cell.set('one');
    assert.equal(typeof first, 'bigint');
    assert.equal((await cell.get()).bytes.toString(), 'one');
    assert.equal(await cell.swap(first + 1n, 'no'), null);
    const second = await cell.swap(first, Buffer.of(0, 255));
    assert.deepEqual([...(await cell.get()).bytes], [0, 255]);
    assert.equal(await cell.delete(first), false);
    assert.equal(await cell.delete(second), true);
    await cell.set('', { ttl: 60_000 });
    const { bytes, ttl } = await cell.get();
    assert.equal(bytes.length, 0);
    assert.ok(ttl > 0); // some engines give a little more
    assert.equal((await failure(cell.set('x'.repeat(70_000)))).status, 'INVALID');
  }));

test('updates of a cell are never lost', () =>
  withStore(async (store) => {
    const cell = store.cell('sum');
    const add = () => cell.update((bytes) => String(Number(bytes ?? 0) + 1));
    await Promise.all(Array.from({ length: 20 }, add));
    assert.equal((await cell.get()).bytes.toString(), '20');
    const version = await cell.update(() => undefined);
    assert.equal(version, (await cell.get()).version);
    await assert.rejects(cell.update(() => { throw new Error('mine'); }), /mine/);
    await assert.rejects(cell.update(() => 7), holdfast.InvalidError);
    await cell.update((bytes, seen) => (assert.equal(seen, version), { bytes, ttl: 60_000 }));
    assert.ok((await cell.get()).ttl > 0);
    assert.equal(await cell.update(() => null), 0n);
    assert.equal(await cell.get(), null);
  }));

test('changes of a cell', () =>
  withStore(async (store) => {
    const cell = store.cell('changing');
    const seen = [];
    const loop = (async () => {
      for await (const state of cell.changes()) {
        seen.push(state?.bytes.toString() ?? null);
        if (seen.at(-1) === 'end') break;
      }
    })();
    await eventually('the first', () => seen.length === 1);
    const version = await cell.set('a');
    await eventually('a', () => seen.at(-1) === 'a');
    await cell.delete(version);
    await eventually('none', () => seen.at(-1) === null && seen.length === 3);
    await cell.set('end');
    await loop;
    assert.deepEqual(seen, [null, 'a', null, 'end']);
    assert.equal((await failure(cell.wait((await cell.get()).version, { wait: 10 }))).status, 'TIMEOUT');
  }));

test('several cells in one step', () =>
  withStore(async (store) => {
    const [a, b] = await store.commit([{ name: 'ca', bytes: '1', version: 0n }, { name: 'cb', bytes: '2' }]);
    await store.commit([{ name: 'ca', version: a }, { name: 'cb', action: 'delete', version: b }]);
    assert.equal(await store.cell('cb').get(), null);
    const error = await failure(store.commit([{ name: 'ca', version: a }, { name: 'cb', bytes: 'x', version: b }]));
    assert.ok(error instanceof holdfast.ChangedError);
    assert.equal(error.index, 1);
    assert.equal(error.version, 0n);
  }));

test('a cell that ends with a lease', () =>
  withStore(async (store) => {
    const lease = await store.lock('owner');
    await lease.setCell('address', 'here');
    assert.equal((await store.leaseCell('address')).bytes.toString(), 'here');
    await lease.release();
    assert.equal(await store.leaseCell('address'), null);
  }));

test('counters have 64 bits', () =>
  withStore(async (store) => {
    const counter = store.counter('counter');
    assert.equal(await counter.get(), 0n);
    assert.equal(await counter.add(), 1n);
    assert.equal(await counter.add(-3), -2n);
    await counter.set(2n ** 63n - 1n);
    assert.equal((await failure(counter.add(1))).status, 'OVERFLOW');
    assert.deepEqual(await counter.swap(1, 2), { swapped: false, value: 2n ** 63n - 1n });
    assert.deepEqual(await counter.swap(2n ** 63n - 1n, -(2n ** 63n)), { swapped: true, value: -(2n ** 63n) });
    await counter.delete();
    assert.equal(await counter.get(), 0n);
    assert.equal((await failure(counter.add(2n ** 64n))).status, 'INVALID');
    assert.equal((await failure(counter.add(1.5))).status, 'INVALID');
  }));

test('a guard refuses an older token', () =>
  withStore(async (store) => {
    const guard = store.guard('page');
    const first = await store.lock('guarded');
    assert.equal(await guard.claim(first), null);
    await guard.set(first, 'by first');
    await first.release();
    const second = await store.lock('guarded');
    assert.equal((await guard.claim(second)).toString(), 'by first');
    assert.ok((await failure(guard.set(first.token, 'late'))) instanceof holdfast.FencedError);
    await guard.set(second, 'by second');
    assert.equal((await guard.claim(second.token)).toString(), 'by second');
    await second.release();
  }));

test('limits', () =>
  withStore(async (store) => {
    const limit = store.limit('limit', { algorithm: 'fixed', rate: 2, per: 3_600_000 });
    assert.equal((await limit.take({ wait: 0 })).left, 1);
    assert.ok(await limit.tryTake());
    assert.equal(await limit.tryTake(), null);
    const error = await failure(limit.take({ wait: 5 }));
    assert.equal(error.status, 'TIMEOUT');
    assert.ok(error.limit.retry > 0);
    assert.equal((await limit.get()).left, 0);
    const other = store.limit('limit', { algorithm: 'fixed', rate: 4, per: 3_600_000 });
    assert.equal((await other.set()).left, 2);
    assert.ok((await limit.tryTake()).isSet);
    assert.equal(await store.limit('unused', {}).get(), null);
    assert.throws(() => store.limit('limit', { algorithm: 'none' }), holdfast.InvalidError);
  }));

test('latches', () =>
  withStore(async (store) => {
    const latch = store.latch('latch');
    await latch.create(2);
    const lease = await latch.join('a');
    assert.equal(await latch.countDown('a'), 1);
    await lease.release();
    assert.equal((await failure(latch.wait({ wait: 10 }))).status, 'TIMEOUT');
    assert.deepEqual(await latch.get(), { count: 2, left: 1 });
    const waiting = latch.wait();
    assert.equal(await latch.countDown('b'), 0);
    await waiting;
    await latch.delete();
    assert.equal((await failure(latch.get())).status, 'NOT_FOUND');
    await latch.create(1);
    await (await latch.join('dies')).release();
    assert.ok((await failure(latch.wait())) instanceof holdfast.BrokenError);
  }));

test('barriers', () =>
  withStore(async (store) => {
    const barrier = store.barrier('barrier', 3);
    await Promise.all(['a', 'b', 'c'].map((who) => barrier.wait({ who })));
    assert.equal((await failure(barrier.wait({ wait: 10 }))).status, 'TIMEOUT');
    assert.equal((await failure(barrier.wait({ ttl: 1 }))).status, 'INVALID');
    const only = await store.barrier('alone', 1).enter({ ttl: 6000 });
    assert.ok(only.remaining <= 6000);
    await only.leave();
    const double = store.barrier('double', 2);
    const parties = await Promise.all([double.enter(), double.enter()]);
    assert.ok(parties[0] instanceof holdfast.Party && parties[0] instanceof holdfast.Lease);
    await Promise.all(parties.map((party) => party.leave()));
    assert.ok(parties[0].released);
  }));

test('elections', () =>
  withStore(async (store) => {
    const election = store.election('leader');
    const seen = [];
    const observer = (async () => {
      for await (const leader of election.leaders()) {
        seen.push(leader.leads ? leader.value.toString() : null);
        if (seen.at(-1) === 'end') break;
      }
    })();
    await eventually('nobody leads', () => seen.length === 1);
    const leader = await election.campaign('first');
    await eventually('first leads', () => seen.at(-1) === 'first');
    await leader.publish('moved');
    await eventually('it has moved', () => seen.at(-1) === 'moved');
    const next = election.campaign('end');
    await leader.resign();
    await observer;
    assert.equal((await election.wait()).token, (await next).token);
    await (await next).resign();
    assert.equal((await election.wait()).leads, false);
    assert.deepEqual([seen[0], seen[1], seen[2], seen.at(-1)], [null, 'first', 'moved', 'end']);
  }));

test('what one observer has seen is nothing for another', () =>
  withStore(async (store) => {
    const [election, group] = [store.election('leader'), store.group('group')];
    const [leader, members] = [await election.wait(), await group.members()];
    for (const last of [members, { ...leader }, {}, 7]) {
      const error = await failure(election.wait(last, { wait: 0 }));
      assert.equal(error.status, 'INVALID');
      assert.match(error.message, /last: /);
    }
    for (const last of [leader, [...members], [], 'x']) {
      const error = await failure(group.members(last, { wait: 0 }));
      assert.equal(error.status, 'INVALID');
      assert.match(error.message, /last: /);
    }
    // The memory of one under the name of the other: the addon looks for itself.
    const disguised = [];
    const hidden = (value) => Object.getOwnPropertySymbols(value).find((symbol) => typeof value[symbol] === 'object');
    Object.defineProperty(disguised, hidden(members), { value: leader[hidden(leader)] });
    assert.equal((await failure(group.members(disguised, { wait: 0 }))).status, 'INVALID');
    assert.ok(['BUSY', 'TIMEOUT'].includes((await failure(election.wait(leader, { wait: 0 }))).status));
    assert.ok(['BUSY', 'TIMEOUT'].includes((await failure(group.members(members, { wait: 0 }))).status));
  }));

test('members of a group', () =>
  withStore(async (store) => {
    const group = store.group('group');
    const a = await group.join('10.0.0.1');
    const seen = [];
    const observer = (async () => {
      for await (const members of group.changes()) {
        seen.push(members.map((member) => member.value));
        if (members.length === 0) break;
      }
    })();
    await eventually('one member', () => seen.length === 1);
    const b = await group.join('10.0.0.2');
    await eventually('two members', () => seen.at(-1).length === 2);
    assert.deepEqual((await group.members()).map((member) => member.token), [a.token, b.token]);
    await a.leave();
    await b.leave();
    await observer;
  }));

test('once only', () =>
  withStore(async (store) => {
    const once = store.once('job');
    assert.equal(await once.get(), null);
    await assert.rejects(once.run(() => Promise.reject(new Error('mine'))), /mine/);
    let runs = 0;
    assert.equal(await once.run(() => runs++), true);
    assert.equal(await once.run(() => runs++), false);
    assert.equal(runs, 1);
    const { mark } = await once.begin();
    assert.ok(mark.at instanceof Date && mark.token > 0);
    assert.equal((await once.get()).token, mark.token);
    assert.equal(await once.delete(), true);
    assert.equal(await once.delete(), false);
    const lease = await store.lock('job');
    assert.equal(await once.claim(lease, { keep: 60_000 }), null);
    await once.finish(lease);
    await lease.release();
    const later = await store.lock('job');
    assert.equal((await once.claim(later)).token, lease.token);
    await later.release();
  }));
