// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import * as holdfast from '../index.mjs';
import { eventually, failure, isFree, test, url, waiters, withStore } from './lib.mjs';

test('a lock is held by one, and goes to the next', () =>
  withStore(async (store) => {
    const first = await store.lock('mutex');
    assert.ok(first.token > 0 && first.token < 2 ** 53);
    assert.equal(first.state, 'held');
    assert.equal(first.name, 'mutex');
    assert.ok(first.valid);
    assert.equal(await store.tryLock('mutex'), null);
    const waiting = store.lock('mutex', { strict: true });
    await waiters(store, 'mutex', 1);
    await first.release();
    assert.equal(first.state, 'lost');
    assert.equal(first.remaining, 0);
    const second = await waiting;
    assert.ok(second.token > first.token);
    await second.release();
    assert.ok(await isFree(store, 'mutex'));
    assert.equal((await failure(second.release())).status, 'INVALID');
  }));

test('a wait ends with its time', () =>
  withStore(async (store) => {
    const lease = await store.lock('timeout');
    assert.ok((await failure(store.lock('timeout', { wait: 30 }))) instanceof holdfast.TimeoutError);
    assert.ok((await failure(store.lock('timeout', { wait: 0.01 }))) instanceof holdfast.TimeoutError); // rounded up
    assert.ok((await failure(store.lock('timeout', { wait: 0 }))) instanceof holdfast.BusyError);
    await lease.release();
  }));

test('names are text or bytes', () =>
  withStore(async (store) => {
    const lease = await store.lock('naïve ☂');
    assert.equal(await store.tryLock(Buffer.from('naïve ☂')), null);
    const bytes = await store.lock(Uint8Array.of(0xff, 0x00, 0x80));
    const view = await store.inspect(Uint8Array.of(0xff, 0x00, 0x80));
    assert.deepEqual([...view.entries[0].nameBytes], [0xff, 0x00, 0x80]);
    await store.releaseAll([lease, bytes]);
  }));

test('readers share, a writer does not', () =>
  withStore(async (store) => {
    const readers = await Promise.all([store.shared('rw'), store.shared('rw')]);
    assert.equal(await store.tryExclusive('rw'), null);
    const upgradeable = await store.upgradeable('rw');
    assert.equal(await store.tryUpgradeable('rw'), null);
    assert.equal((await failure(upgradeable.convert('exclusive', { wait: 20 }))).status, 'TIMEOUT');
    const before = upgradeable.token;
    await store.releaseAll(readers);
    await upgradeable.convert('exclusive');
    assert.notEqual(upgradeable.token, before);
    assert.equal(upgradeable.info().kind, 'exclusive');
    assert.equal(await store.tryShared('rw'), null);
    await upgradeable.convert('shared');
    await (await store.tryShared('rw')).release();
    await upgradeable.release();
    await (await store.exclusive('rw')).release();
  }));

test('a semaphore has permits, numbers and a size', () =>
  withStore(async (store) => {
    const two = await store.semaphore('sem', 3, { permits: 2, numbered: true });
    assert.deepEqual(two.info().slots, [0, 1]);
    const one = await store.trySemaphore('sem', 3);
    assert.equal(await store.trySemaphore('sem', 3), null);
    assert.equal((await failure(store.semaphore('sem', 4, { wait: 0 }))).status, 'MISMATCH');
    assert.equal((await failure(Promise.resolve().then(() => two.fence()))).status, 'UNSUPPORTED');
    await store.resize('sem', 4);
    const more = await store.trySemaphore('sem', 3);
    assert.ok(more);
    await store.releaseAll([two, one, more]);
    await store.resize('sem', 0);
  }));

test('several names: all or one', () =>
  withStore(async (store) => {
    const all = await store.acquireAll(['b', { name: 'a', kind: 'exclusive' }], { wait: 1000 });
    assert.deepEqual(all.map((lease) => lease.name), ['b', 'a']);
    assert.notEqual(all[0].token, all[1].token);
    assert.equal(await store.tryAcquireAll(['a0', 'b']), null);
    assert.ok(await isFree(store, 'a0'));
    const any = await store.acquireAny(['b', 'c'], { wait: 1000 });
    assert.equal(any.index, 1);
    assert.equal(any.lease.name, 'c');
    assert.equal(await store.tryAcquireAny(['b', 'c']), null);
    const waiting = store.acquireAny(['b', 'c'], { strict: true });
    await waiters(store, 'b', 1);
    await all[0].release();
    const got = await waiting;
    assert.equal(got.lease.name, 'b');
    await store.releaseAll([got.lease, any.lease, all[1]]);
    assert.equal((await store.inspect()).entries.length, 0);
    assert.equal((await failure(store.acquireAll(['a', 'a']))).status, 'INVALID');
  }));

test('a scope may take a lock again', () =>
  withStore(async (store) => {
    const scope = holdfast.newScope();
    const outer = await store.lock('again', { reentrant: true, scope });
    const inner = await store.lock('again', { reentrant: true, scope });
    assert.equal(inner, outer);
    assert.equal(outer.info().holds, 2);
    assert.equal(await store.tryLock('again', { reentrant: true, scope: holdfast.newScope() }), null);
    await inner.release();
    assert.equal(outer.state, 'held');
    await outer.release();
    assert.ok(await isFree(store, 'again'));
    assert.match((await failure(store.lock('again', { reentrant: true }))).message, /scope/);
  }));

test('two holders through one object: a lost lease does not touch the next one', () =>
  withStore(async (store) => {
    const scope = holdfast.newScope();
    for (const again of [
      () => store.lock('two'),
      () => store.lock('two', { reentrant: true, scope }),
      () => store.exclusive('two-rw'),
      () => store.shared('two-rw'),
      () => store.semaphore('two-permits', 1),
    ]) {
      const a = await again();
      await store.breakLease(a.name, a.token);
      const b = await again();
      const holders = async () => (await store.inspect(a.name)).entries.flatMap((entry) => entry.holders.map((holder) => holder.token));
      assert.deepEqual(await holders(), [b.token]);
      assert.equal((await failure(a.release())).status, 'LOST');
      assert.deepEqual(await holders(), [b.token]);
      await b.release();
      assert.deepEqual(await holders(), []);
    }
  }));

test('withLock and asyncDispose release', () =>
  withStore(async (store) => {
    assert.equal(await store.withLock('with', async (lease) => lease.name), 'with');
    await assert.rejects(store.withLock('with', { ttl: 5000 }, () => Promise.reject(new Error('mine'))), /mine/);
    assert.ok(await isFree(store, 'with'));
    const lease = await store.lock('with');
    await lease[holdfast.asyncDispose]();
    await lease[holdfast.asyncDispose](); // the second time it does nothing
    assert.ok(await isFree(store, 'with'));
    if (Symbol.asyncDispose) assert.equal(holdfast.asyncDispose, Symbol.asyncDispose);
  }));

test('renewal, fence, information', () =>
  withStore(async (store) => {
    const lease = await store.lock('info', { ttl: 20_000, label: 'test \u{1f512}' });
    await lease.renew(40_000);
    assert.ok(lease.remaining > 20_000);
    assert.equal(lease.fence(), lease.token);
    const { holders } = (await store.inspect('info')).entries[0];
    assert.equal(holders[0].token, lease.token);
    assert.equal(holders[0].label, 'test \u{1f512}');
    assert.ok(lease.session().length > 0);
    await lease.release();
    assert.equal((await failure(lease.renew())).status, 'INVALID');
  }));

test('a detached lease is handed to another store', () =>
  withStore(async (store) => {
    const lease = await store.lock('detached', { detached: true, ttl: 60_000 });
    const text = lease.export();
    const other = await holdfast.open(url);
    const adopted = await other.adopt('detached', text);
    assert.equal(adopted.token, lease.token);
    await adopted.release();
    assert.ok(await isFree(store, 'detached'));
    assert.equal((await failure(lease.release())).status, 'LOST');
    await other.close();
    const plain = await store.lock('plain');
    assert.throws(() => plain.export(), holdfast.UnsupportedError);
    await plain.release();
  }));

test('a holder that is asked yields', () =>
  withStore(async (store) => {
    const lease = await store.lock('yield', { watch: true });
    assert.equal(await lease.yield(), false);
    const other = store.lock('yield');
    await eventually('it is wanted', () => lease.wanted);
    const asked = new Promise((resolve) => lease.once('asked', resolve));
    await store.ask('yield', 'please');
    assert.equal((await asked).text, 'please');
    const before = lease.token;
    const back = lease.yield();
    await (await other).release();
    assert.equal(await back, true);
    assert.ok(lease.token > before);
    assert.equal(lease.state, 'held');
    await lease.release();
    assert.equal((await failure(store.ask('yield'))).status, 'NOT_FOUND');
  }));

const holders = async (store, name) => (await store.inspect(name)).entries.flatMap((entry) => entry.holders.map((holder) => holder.token));

test('a release beside a waiting yield: what comes back has no owner, and is given back', () =>
  withStore(async (store) => {
    await withStore(async (other) => {
      const lease = await store.lock('yielded', { watch: true });
      const taken = other.lock('yielded');
      await eventually('it is wanted', () => lease.wanted);
      const back = failure(lease.yield());
      const theirs = await taken;
      assert.equal((await failure(lease.release())).status, 'INVALID');
      assert.ok(lease.released);
      const next = await store.lock('next'); // it must not get the place of the other one
      const { token } = next;
      await theirs.release();
      const error = await back;
      assert.equal(error.status, 'INVALID');
      assert.match(error.message, /released meanwhile/);
      await eventually('nobody has it', async () => (await holders(other, 'yielded')).length === 0);
      assert.equal((await failure(lease.release())).status, 'INVALID');
      assert.deepEqual([next.state, next.name, next.token, next.info().token], ['held', 'next', token, token]);
      assert.deepEqual(await holders(other, 'next'), [token]);
      await next.release();
      assert.deepEqual(await holders(other, 'next'), []);
    });
  }));

test('a release beside a yield that ends without the lease', () =>
  withStore(async (store) => {
    await withStore(async (other) => {
      const lease = await store.lock('yielded', { watch: true });
      const taken = other.lock('yielded');
      await eventually('it is wanted', () => lease.wanted);
      const leaving = new AbortController();
      const back = failure(lease.yield({ signal: leaving.signal }));
      const theirs = await taken;
      assert.equal((await failure(lease.release())).status, 'INVALID');
      const next = await store.lock('next');
      leaving.abort();
      assert.equal((await back).name, 'AbortError');
      assert.equal(next.state, 'held');
      await next.release();
      await theirs.release();
      assert.deepEqual(await holders(store, 'yielded'), []);
    });
  }));

test('a release beside a waiting conversion gives the lease back', () =>
  withStore(async (store) => {
    await withStore(async (other) => {
      const reader = await other.shared('converted');
      const lease = await store.upgradeable('converted');
      const conversion = failure(lease.convert('exclusive'));
      await waiters(other, 'converted', 1);
      await lease.release();
      const next = await store.lock('next');
      const { token } = next;
      await reader.release();
      assert.ok(['INVALID', 'LOST'].includes((await conversion).status));
      await eventually('nobody has it', async () => (await holders(other, 'converted')).length === 0);
      assert.deepEqual([next.state, next.name, next.info().token], ['held', 'next', token]);
      await next.release();
      assert.deepEqual(await holders(other, 'next'), []);
      await (await other.exclusive('converted')).release();
    });
  }));

test('a release in the moment in which a yield or a conversion ends', () =>
  withStore(async (store) => {
    await withStore(async (other) => {
      for (let i = 0; i < 50; i++) {
        const lease = await store.lock('racing', { watch: true });
        const taken = other.lock('racing');
        await eventually('it is wanted', () => lease.wanted);
        const back = lease.yield().catch((error) => error);
        await (await taken).release();
        for (let n = 0; n < i % 5; n++) await new Promise((resolve) => setImmediate(resolve));
        const ended = await lease.release().catch((error) => error.status);
        const next = await store.lock('next');
        const got = await back;
        assert.ok(got === true ? ended === undefined : ended === 'INVALID' && got.status === 'INVALID', `${got} ${ended}`);
        await eventually('nobody has it', async () => (await holders(other, 'racing')).length === 0);
        assert.equal(next.info().token, next.token);
        await next.release();

        const reader = await other.shared('converting');
        const upgradeable = await store.upgradeable('converting');
        const converted = upgradeable.convert('exclusive').catch((error) => error);
        await waiters(other, 'converting', 1);
        await reader.release();
        for (let n = 0; n < i % 5; n++) await new Promise((resolve) => setImmediate(resolve));
        const over = await upgradeable.release().catch((error) => error.status);
        const another = await store.lock('next');
        await converted;
        assert.ok([undefined, 'INVALID', 'LOST'].includes(over), over); // LOST: the store has converted it already
        await eventually('nobody has it', async () => (await holders(other, 'converting')).length === 0);
        assert.equal(another.info().token, another.token);
        await another.release();
      }
    });
  }));

test('a change of the store ends a wait', () =>
  withStore(async (store) => {
    if (!store.info().caps.includes('watch')) {
      assert.ok((await failure(store.wait())) instanceof holdfast.UnsupportedError);
      return;
    }
    const waiting = store.wait(undefined, { wait: 60_000 });
    let seen = false;
    waiting.then(() => (seen = true));
    await eventually('the change is seen', async () => {
      await (await store.lock('changing')).release();
      return seen;
    });
    assert.equal(typeof (await waiting), 'bigint');
    assert.equal((await failure(store.wait(await waiting, { wait: 1 }).then(() => store.wait(undefined, { wait: 1 })))).status, 'TIMEOUT');
  }));

test('deadlocks are found', () =>
  withStore(async (store) => {
    const [one, two] = [holdfast.newScope(), holdfast.newScope()];
    const a = await store.lock('dead-a', { scope: one });
    const b = await store.lock('dead-b', { scope: two });
    const first = store.lock('dead-b', { scope: one, strict: true });
    await waiters(store, 'dead-b', 1);
    const second = store.lock('dead-a', { scope: two, strict: true });
    // One of the two is told, and gives way to the other.
    const [error, mine, other] = await Promise.any([
      failure(first).then((told) => [told, a, second]),
      failure(second).then((told) => [told, b, first]),
    ]);
    assert.ok(error instanceof holdfast.DeadlockError);
    assert.deepEqual(await store.deadlocks(), []);
    await mine.release();
    await store.releaseAll([mine === a ? b : a, await other]);
  }));

test('a store tells what it is', () =>
  withStore(async (store) => {
    const info = store.info();
    assert.ok(['lmdb', 'redis'].includes(info.engine));
    assert.ok(info.caps.includes('token') && info.caps.includes('cells'));
    assert.ok(['whileDurable', 'strict'].includes(info.tokens));
    const findings = await store.check();
    assert.ok(findings.length > 0 && findings.every((finding) => ['ok', 'warning', 'bad'].includes(finding.level)));
    const engines = holdfast.engines();
    assert.ok(engines.some((engine) => engine.schemes.includes('file') && engine.available));
    assert.ok(engines.every((engine) => engine.modes.length > 0));
    assert.match(holdfast.version, /^\d+\.\d+\.\d+$/);
  }));

test('a store counts', () =>
  withStore(async (store) => {
    assert.equal(store.stats().granted, 0);
    assert.equal(store.stats().waits.quantile(0.5), 0);
    const lease = await store.lock('counted');
    assert.equal(await store.tryLock('counted'), null);
    const now = store.stats();
    assert.deepEqual([now.granted, now.busy, now.held, now.waits.count, now.holds.count], [1, 1, 1, 1, 0]);
    assert.ok(now.waits.quantile(0.5) >= 1);
    assert.throws(() => now.waits.quantile('0.5'), holdfast.InvalidError);
    await store.breakLease('counted', lease.token);
    assert.ok((await failure(lease.release())) instanceof holdfast.LostError);
    const { held, holds, losses } = store.stats();
    assert.deepEqual([held, holds.count, holds.buckets.reduce((sum, one) => sum + one), losses.expired], [0, 1, 1, 0]);
    assert.equal(Object.values(losses).reduce((sum, one) => sum + one), 1);
    assert.deepEqual([holdfast.Histogram.bounds[0], holdfast.Histogram.bounds[3]], [1, 8]);
    assert.equal(holdfast.Histogram.bounds.length, holds.buckets.length);
    assert.equal(holdfast.Histogram.bounds.at(-1), Infinity);
  }));

test('a store in use is not closed, unless it releases', async () => {
  const store = await holdfast.open(url);
  const lease = await store.lock('closing');
  const waiting = failure(store.lock('closing', { strict: true }));
  await waiters(store, 'closing', 1);
  assert.ok((await failure(store.close())) instanceof holdfast.InUseError);
  assert.equal(lease.state, 'held');
  assert.equal((await store.inspect('closing')).entries.length, 1); // it goes on
  const lost = new Promise((resolve) => lease.once('lost', resolve));
  await store.close({ release: true });
  await lost;
  assert.equal((await waiting).status, 'CANCELLED');
  assert.equal(lease.state, 'lost');
  assert.ok((await failure(lease.release())) instanceof holdfast.LostError);
  assert.equal((await failure(store.lock('closing'))).status, 'INVALID');
  await store.close();
  await withStore(async (again) => assert.ok(await isFree(again, 'closing')));
});
