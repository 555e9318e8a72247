// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** What is built on leases and cells. On every store. */
abstract class PrimitiveSuite extends Bed {
    @Test
    void cells() throws Exception {
        Cell cell = store.cell(name("cell"));
        assertEquals(Optional.empty(), cell.get());
        long first = cell.set(bytes("one"));
        assertEquals("one", cell.get().orElseThrow().text());
        assertEquals(first, cell.get().orElseThrow().version());
        assertThrows(HoldfastException.Changed.class, () -> cell.swap(bytes("no"), first + 1));
        long second = cell.swap(new byte[0], first);
        assertNotEquals(first, second);
        assertArrayEquals(new byte[0], get(cell.getAsync()).orElseThrow().bytes());
        CompletableFuture<Long> changed = cell.awaitAsync(second, LONG);
        long third = get(cell.setForAsync(bytes("short"), Duration.ofMinutes(5)));
        assertEquals(third, get(changed));
        assertTrue(cell.get().orElseThrow().ttl().compareTo(Duration.ZERO) > 0);
        assertThrows(HoldfastException.TimedOut.class, () -> cell.await(third, Duration.ofMillis(5)));
        CompletableFuture<Long> gone = cell.awaitAsync(third, null);
        gone.cancel(true);
        cell.delete(third);
        assertEquals(Optional.empty(), get(cell.getAsync()));
    }

    @Test
    void cellUpdates() throws Exception {
        Cell cell = store.cell(name("update"));
        for (int i = 0; i < 3; i++) {
            cell.update(old -> Cell.Change.write(bytes(old.map(CellValue::text).orElse("") + "x")), LONG);
        }
        assertEquals("xxx", cell.get().orElseThrow().text());
        assertEquals(cell.get().orElseThrow().version(), cell.update(old -> Cell.Change.leave(), LONG));
        IllegalStateException mine = new IllegalStateException("mine");
        assertEquals(mine, assertThrows(IllegalStateException.class, () -> cell.update(old -> {
            throw mine;
        }, LONG)));
        assertThrows(IllegalStateException.class, () -> cell.update(old -> {
            cell.get(); /* the poller cannot wait for itself */
            return Cell.Change.leave();
        }, LONG));
        assertEquals(0, get(cell.updateAsync(old -> Cell.Change.delete(), LONG)));
        assertEquals(Optional.empty(), cell.get());
        List<CompletableFuture<Long>> all = new java.util.ArrayList<>();
        for (int i = 0; i < 10; i++) {
            all.add(cell.updateAsync(old -> Cell.Change.write(bytes(old.map(CellValue::text).orElse("") + "y")), LONG));
        }
        for (CompletableFuture<Long> one : all) {
            get(one);
        }
        assertEquals("yyyyyyyyyy", cell.get().orElseThrow().text());
    }

    @Test
    void commits() throws Exception {
        Name a = Name.of(name("a"));
        Name b = Name.of(name("b"));
        CommitResult made = store.commit(List.of(CellItem.write(a, 0, bytes("1")), CellItem.write(b, 0, bytes("2"))));
        assertTrue(made.done());
        assertEquals(2, made.versions().size());
        CommitResult refused = store.commit(List.of(CellItem.write(a, CellItem.ANY, bytes("3")), CellItem.check(b, 0)));
        assertFalse(refused.done());
        assertEquals(1, refused.changed());
        assertEquals(made.versions().get(1), refused.version());
        assertEquals("1", store.cell(a).get().orElseThrow().text());
        assertTrue(get(store.commitAsync(List.of(CellItem.delete(a, made.versions().get(0)),
                CellItem.write(b, CellItem.ANY, bytes("4"), Duration.ofMinutes(5))))).done());
        assertTrue(store.cell(a).get().isEmpty());
    }

    @Test
    void counters() throws Exception {
        Counter counter = store.counter(name("counter"));
        assertEquals(0, counter.get());
        assertEquals(-5, counter.add(-5));
        counter.set(Long.MAX_VALUE);
        assertEquals(Status.OVERFLOW, assertThrows(HoldfastException.class, () -> counter.add(1)).status());
        counter.set(10);
        assertEquals(new Swapped(false, 10), counter.swap(11, 12));
        assertEquals(new Swapped(true, 12), get(counter.swapAsync(10, 12)));
        get(counter.deleteAsync());
        assertEquals(0, get(counter.getAsync()));
    }

    @Test
    void guards() throws Exception {
        Guard guard = store.guard(name("guard"));
        String name = name("guarded");
        Lease first = store.acquire(Request.mutex(name));
        long old = first.fence();
        assertEquals(Optional.empty(), guard.claim(old));
        guard.set(old, bytes("by first"));
        store.breakLease(Name.of(name), old);
        until("lost", () -> first.state() == LeaseState.LOST);
        Lease second = store.acquire(Request.mutex(name));
        assertArrayEquals(bytes("by first"), get(guard.claimAsync(second.fence())).orElseThrow());
        assertThrows(HoldfastException.Fenced.class, () -> guard.set(old, bytes("late")));
        get(guard.setAsync(second.fence(), bytes("by second")));
        assertArrayEquals(bytes("by second"), guard.claim(second.fence()).orElseThrow());
        second.close();
        assertEquals(Status.LOST, first.release());
    }

    @Test
    void limits() throws Exception {
        Limit limit = store.limit(name("limit"), Limit.Algorithm.FIXED, 2, Duration.ofHours(1));
        assertTrue(limit.take(2, Duration.ZERO).granted());
        LimitState refused = limit.take(1, Duration.ZERO);
        assertFalse(refused.granted());
        assertTrue(refused.retry().compareTo(Duration.ZERO) > 0);
        assertFalse(get(limit.takeAsync(1, Duration.ofMillis(1))).granted());
        CompletableFuture<LimitState> waiting = limit.takeAsync(1, null);
        assertFalse(waiting.isDone());
        waiting.cancel(true);
        assertEquals(0, limit.get().left());
        Limit bucket = store.limit(name("bucket"), Limit.Algorithm.BUCKET, 1, Duration.ofHours(1)).burst(5);
        assertTrue(bucket.take(5, Duration.ZERO).granted());
        Limit sliding = store.limit(name("sliding"), Limit.Algorithm.SLIDING, 3, Duration.ofHours(1));
        assertEquals(3, sliding.setRule().rate());
        assertTrue(sliding.take(3, null).isSet());
        sliding.unsetRule();
    }

    @Test
    void latches() throws Exception {
        Latch latch = store.latch(name("latch"));
        assertThrows(HoldfastException.NotFound.class, latch::get);
        latch.create(2);
        CompletableFuture<Void> open = latch.awaitAsync(LONG);
        try (Lease joined = latch.join("a", LONG)) {
            assertTrue(joined.isValid());
            assertEquals(1, latch.countDown("a"));
        }
        assertEquals(1, latch.countDown("a"));
        assertEquals(new Latch.State(2, 1), latch.get());
        assertThrows(HoldfastException.TimedOut.class, () -> latch.await(Duration.ofMillis(5)));
        assertEquals(0, latch.countDown("b"));
        get(open);
        latch.await(null);
        latch.delete();
        latch.create(1);
        latch.join("c", LONG).close(); /* without counting down */
        assertThrows(HoldfastException.Broken.class, () -> latch.await(LONG));
    }

    @Test
    void barriers() throws Exception {
        Barrier barrier = store.barrier(name("barrier"), 2);
        CompletableFuture<Void> first = barrier.as("first").awaitAsync(LONG);
        assertFalse(first.isDone());
        barrier.await(LONG);
        get(first);
        assertThrows(HoldfastException.TimedOut.class, () -> barrier.await(Duration.ofMillis(5)));
        CompletableFuture<Lease> entering = barrier.enterAsync(LONG);
        Lease inside = barrier.enter(LONG);
        CompletableFuture<Void> leaving = barrier.leaveAsync(get(entering), LONG);
        barrier.leave(inside, LONG);
        get(leaving);
        assertThrows(HoldfastException.Invalid.class, () -> barrier.leave(inside, LONG));
        CompletableFuture<Lease> again = barrier.enterAsync(LONG);
        Lease mine = barrier.enter(LONG);
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> barrier.leave(mine, LONG));
        assertFalse(mine.isValid());
        barrier.leave(get(again), LONG);
    }

    @Test
    void elections() throws Exception {
        Election election = store.election(name("election"));
        Leader nobody = election.await(null, LONG);
        assertFalse(nobody.leads());
        CompletableFuture<Leader> seen = election.awaitAsync(nobody, LONG);
        Lease leader = election.campaign(election.request(), bytes("here"));
        Leader first = get(seen);
        assertEquals("here", first.text());
        assertEquals(leader.token(), first.token());
        CompletableFuture<Lease> other = election.campaignAsync(election.request(), bytes("there"));
        election.publish(leader, bytes("moved"));
        assertEquals("moved", election.await(first, LONG).text());
        election.resign(leader);
        Lease next = get(other);
        until("the other leads", () -> "there".equals(election.await(null, LONG).text()));
        get(election.resignAsync(next));
        assertInstanceOf(HoldfastException.Invalid.class, failure(election.resignAsync(next)));
    }

    @Test
    void groups() throws Exception {
        Group group = store.group(name("group"));
        Members none = group.await(null, LONG);
        assertEquals(List.of(), none.list());
        CompletableFuture<Members> seen = group.awaitAsync(none, LONG);
        Lease member = group.join(group.request(), "10.0.0.1");
        Members one = get(seen);
        assertEquals("10.0.0.1", one.list().get(0).value());
        assertEquals(member.token(), one.list().get(0).token());
        Lease other = get(group.joinAsync(group.request(), "10.0.0.2"));
        assertEquals(2, group.await(one, LONG).list().size());
        group.leave(member);
        get(group.leaveAsync(other));
        until("it is empty", () -> group.await(null, LONG).list().isEmpty());
    }

    @Test
    void once() throws Exception {
        Once once = store.once(name("once"));
        OnceAttempt mine = once.begin(once.request(), null);
        assertFalse(mine.isDone());
        assertTrue(once.get().isEmpty());
        CompletableFuture<OnceAttempt> other = once.beginAsync(once.request(), null);
        once.finish(mine.lease());
        long token = mine.lease().token();
        mine.lease().close();
        assertTrue(get(other).isDone());
        assertEquals(token, get(other).mark().token());
        assertEquals(token, once.get().orElseThrow().token());
        once.delete();
        assertThrows(HoldfastException.NotFound.class, once::delete);
        try (Lease lease = store.acquire(once.request())) {
            assertTrue(once.claim(lease, Duration.ofMinutes(5)).isEmpty());
            once.finish(lease);
        }
        try (Lease lease = store.acquire(once.request())) {
            assertTrue(once.claim(lease, null).isPresent());
        }
    }

    @Test
    void changesOfTheStore() throws Exception {
        CompletableFuture<Long> change = store.awaitChangeAsync(0, LONG);
        AtomicReference<Throwable> unsupported = new AtomicReference<>();
        until("a change is seen", () -> {
            store.acquire(Request.mutex(name("change"))).close();
            if (change.isCompletedExceptionally()) {
                unsupported.set(failure(change));
            }
            return change.isDone();
        });
        boolean watches = store.info().capabilities().contains(Capability.WATCH);
        if (watches) {
            assertTrue(get(change) > 0);
        } else {
            assertInstanceOf(HoldfastException.Unsupported.class, unsupported.get());
        }
    }
}
