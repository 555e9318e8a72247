// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;

/** Leases: exclusion, waiting, cancelling, losing. On every store. */
abstract class LeaseSuite extends Bed {
    private static final int RACES = 150;

    @Test
    void excludesAndCounts() throws Exception {
        String name = name("mutex");
        long first;
        try (Lease lease = store.acquire(Request.mutex(name))) {
            first = lease.token();
            assertTrue(first > 0);
            assertEquals(first, lease.fence());
            assertEquals(LeaseState.HELD, lease.state());
            assertTrue(lease.isValid());
            assertTrue(lease.remaining().compareTo(Duration.ZERO) > 0);
            assertEquals(name, lease.info().name().toString());
            assertTrue(store.tryAcquire(Request.mutex(name)).isEmpty());
            assertThrows(HoldfastException.Busy.class, () -> store.acquire(Request.mutex(name).tryOnce()));
        }
        Lease second = store.tryAcquire(Request.mutex(name)).orElseThrow();
        assertTrue(second.token() > first);
        second.close();
        second.close();
        assertEquals(LeaseState.LOST, second.state());
        assertFalse(second.isValid());
    }

    @Test
    void aStoreCounts() throws Exception {
        String name = name("counted");
        Store closed;
        try (Store mine = Holdfast.open(url)) {
            closed = mine;
            assertEquals(0, mine.stats().granted());
            assertEquals(Duration.ZERO, mine.stats().waits().quantile(0.5));
            Lease lease = mine.acquire(Request.mutex(name));
            assertTrue(mine.tryAcquire(Request.mutex(name)).isEmpty());
            StoreStats now = mine.stats();
            assertEquals(List.of(1L, 1L, 1L, 1L, 0L),
                    List.of(now.granted(), now.busy(), now.held(), now.waits().count(), now.holds().count()));
            assertTrue(now.waits().quantile(0.5).compareTo(Duration.ofMillis(1)) >= 0);
            mine.breakLease(Name.of(name), lease.token());
            assertThrows(HoldfastException.Lost.class, lease::close);
            now = mine.stats();
            assertEquals(0, now.held());
            assertEquals(1, now.holds().buckets().stream().mapToLong(Long::longValue).sum());
            assertEquals(1, now.losses().values().stream().mapToLong(Long::longValue).sum());
            assertEquals(0, now.losses().get("expired"));
            assertEquals(Duration.ofMillis(8), Histogram.bound(3));
            assertEquals(null, Histogram.bound(now.holds().buckets().size() - 1));
        }
        assertThrows(HoldfastException.Invalid.class, closed::stats);
    }

    @Test
    void processesExclude() throws Exception {
        String name = name("processes");
        Path file = Files.createTempFile("holdfast", "count");
        Files.writeString(file, "0");
        List<Process> children = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            children.add(new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xshare:auto",
                    "-XX:TieredStopAtLevel=1", "-Dholdfast.library=" + System.getProperty("holdfast.library"), "-cp",
                    System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")), "holdfast.Child",
                    url, name, file.toString(), "150").inheritIO().start());
        }
        for (Process child : children) {
            assertEquals(0, child.waitFor());
        }
        assertEquals("450", Files.readString(file));
        Files.delete(file);
    }

    @Test
    void waitsAndTimesOut() throws Exception {
        String name = name("timeout");
        Lease lease = store.acquire(Request.mutex(name).strict());
        assertEquals(Optional.empty(), get(inThread(() -> store.tryAcquire(Request.mutex(name).strict(), Duration.ofMillis(20)))));
        Throwable failure = failure(inThread(() -> store.acquire(Request.mutex(name).strict().waitAtMost(Duration.ofNanos(1)))));
        assertInstanceOf(HoldfastException.TimedOut.class, failure);
        assertInstanceOf(HoldfastException.TimedOut.class,
                failure(store.acquireAsync(Request.mutex(name).strict().waitAtMost(Duration.ofMillis(20)))));
        CompletableFuture<Lease> waiting = inThread(() -> store.acquire(Request.mutex(name).strict()));
        untilWaiters(name, 1);
        lease.close();
        get(waiting).close();
    }

    // ---- interrupts and cancellation

    private static final class Interruptible {
        volatile Lease lease;
        volatile Throwable failure;
        final Thread thread;

        Interruptible(Store store, Request request) {
            thread = new Thread(() -> {
                try {
                    lease = store.acquire(request);
                } catch (Throwable e) {
                    failure = e;
                }
            });
            thread.start();
        }
    }

    @Test
    void interruptEndsAWait() throws Exception {
        String name = name("interrupt");
        Lease lease = store.acquire(Request.mutex(name).strict());
        Interruptible waiter = new Interruptible(store, Request.mutex(name).strict());
        untilWaiters(name, 1);
        waiter.thread.interrupt();
        waiter.thread.join();
        assertInstanceOf(InterruptedException.class, waiter.failure);
        untilWaiters(name, 0);
        lease.close();
        store.tryAcquire(Request.mutex(name).strict()).orElseThrow().close();
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> store.acquire(Request.mutex(name).strict()));
        store.tryAcquire(Request.mutex(name).strict()).orElseThrow().close();
    }

    /** Whichever comes first, the grant or the interrupt: after an InterruptedException nothing is held. */
    @Test
    void interruptAtTheMomentOfTheGrant() throws Exception {
        String name = name("interrupted-grant");
        for (int i = 0; i < RACES; i++) {
            Request request = i % 4 == 1 ? Request.mutex(name) : Request.mutex(name).strict();
            Lease lease = store.acquire(request);
            Interruptible waiter = new Interruptible(store, request);
            if (i % 2 == 0) {
                untilWaiters(name, 1);
            }
            CompletableFuture<Void> released = lease.closeAsync();
            if (i % 3 == 0) {
                Thread.yield();
            }
            waiter.thread.interrupt();
            waiter.thread.join();
            get(released);
            if (waiter.lease != null) {
                waiter.lease.close();
            } else {
                assertInstanceOf(InterruptedException.class, waiter.failure);
            }
            store.tryAcquire(request).orElseThrow(() -> new AssertionError("it stayed held")).close();
        }
    }

    @Test
    void cancelEndsAFuture() throws Exception {
        String name = name("cancel");
        Lease lease = store.acquire(Request.mutex(name).strict());
        CompletableFuture<Lease> future = store.acquireAsync(Request.mutex(name).strict());
        CompletableFuture<Lease> late = store.acquireAsync(Request.mutex(name).strict()).orTimeout(10, TimeUnit.MILLISECONDS);
        untilWaiters(name, 1);
        assertInstanceOf(TimeoutException.class, failure(late));
        assertTrue(future.cancel(true));
        assertInstanceOf(CancellationException.class, failure(future));
        untilWaiters(name, 0);
        lease.close();
        store.acquire(Request.mutex(name).strict().waitAtMost(LONG)).close();
    }

    @Test
    void cancelAtTheMomentOfTheGrant() throws Exception {
        String name = name("cancelled-grant");
        int cancelled = 0;
        for (int i = 0; i < RACES; i++) {
            Request request = i % 4 == 1 ? Request.mutex(name) : Request.mutex(name).strict();
            Lease lease = store.acquire(request.waitAtMost(LONG));
            CompletableFuture<Lease> future = store.acquireAsync(request);
            if (i % 2 == 0) {
                untilWaiters(name, 1);
            }
            lease.closeAsync();
            if (i % 3 == 0) {
                Thread.yield();
            }
            if (future.cancel(true)) {
                cancelled++;
            } else {
                get(future).close();
            }
        }
        assertTrue(cancelled > 0);
        store.acquire(Request.mutex(name).waitAtMost(LONG)).close();
        until("all calls have ended", () -> Native.registered() == 0);
    }

    // ---- loss and events

    @Test
    void lossIsToldAndThrown() throws Exception {
        String name = name("loss");
        for (boolean async : new boolean[] { false, true }) {
            LinkedBlockingQueue<LeaseEvent> events = new LinkedBlockingQueue<>();
            Request request = Request.mutex(name).onEvent(events::add);
            Lease lease = async ? get(store.acquireAsync(request)) : store.acquire(request);
            long token = lease.token();
            assertThrows(HoldfastException.NotFound.class, () -> store.breakLease(Name.of(name), token + 1000));
            store.breakLease(Name.of(name), token);
            LeaseEvent event = events.poll(60, TimeUnit.SECONDS);
            assertEquals(LeaseEvent.Type.LOST, event.type());
            assertEquals(name, event.name().toString());
            assertEquals(LeaseState.LOST, lease.state());
            assertEquals(Duration.ZERO, lease.remaining());
            assertThrows(HoldfastException.Lost.class, lease::fence);
            assertThrows(HoldfastException.Lost.class, lease::close);
            assertEquals(Status.OK, lease.release());
            assertTrue(events.isEmpty());
        }
        assertEquals(0, Native.registered());
    }

    @Test
    void listenersMayThrowAndMayClose() throws Exception {
        String name = name("listener");
        CompletableFuture<Status> ended = new CompletableFuture<>();
        CompletableFuture<Lease> got = new CompletableFuture<>();
        got.complete(get(store.acquireAsync(Request.mutex(name).onEvent(event -> {
            ended.complete(got.join().release());
            throw new IllegalStateException("of the listener");
        }))));
        store.breakLease(Name.of(name), got.join().token());
        assertEquals(Status.LOST, get(ended));
        store.acquire(Request.mutex(name)).close();
    }

    @Test
    void waitersAreToldToTheHolder() throws Exception {
        String name = name("wanted");
        LinkedBlockingQueue<LeaseEvent> events = new LinkedBlockingQueue<>();
        Lease lease = store.acquire(Request.mutex(name).watch().onEvent(events::add));
        assertFalse(lease.yield(LONG));
        store.ask(Name.of(name), "please");
        LeaseEvent asked = events.poll(60, TimeUnit.SECONDS);
        assertEquals(LeaseEvent.Type.ASKED, asked.type());
        assertEquals("please", asked.text());
        long token = lease.token();
        CompletableFuture<Lease> other = store.acquireAsync(Request.mutex(name));
        assertEquals(LeaseEvent.Type.WANTED, events.poll(60, TimeUnit.SECONDS).type());
        until("wanted", lease::isWanted);
        CompletableFuture<Void> passed = other.thenAccept(Lease::close);
        assertTrue(lease.yield(LONG));
        get(passed);
        assertNotEquals(token, lease.token());
        assertTrue(lease.isValid());
        lease.close();
    }

    @Test
    void interruptedYieldHoldsNothing() throws Exception {
        String name = name("yield");
        Lease lease = store.acquire(Request.mutex(name).strict().watch());
        CompletableFuture<Lease> other = store.acquireAsync(Request.mutex(name).strict());
        until("wanted", lease::isWanted);
        CompletableFuture<Thread> thread = new CompletableFuture<>();
        CompletableFuture<Boolean> yielding = inThread(() -> {
            thread.complete(Thread.currentThread());
            return lease.yield(null);
        });
        Lease taken = get(other);
        untilWaiters(name, 1);
        get(thread).interrupt();
        assertInstanceOf(InterruptedException.class, failure(yielding));
        assertFalse(lease.isValid());
        taken.close();
        store.tryAcquire(Request.mutex(name).strict()).orElseThrow().close();
    }

    /** As the README shows it: null is a resource that is not there. */
    @Test
    void aTryWithResources() {
        String name = name("resource");
        Lease outer;
        try (Lease lease = store.tryAcquire(Request.mutex(name)).orElse(null)) {
            outer = lease;
            assertTrue(lease.isValid());
            try (Lease second = store.tryAcquire(Request.mutex(name)).orElse(null)) {
                assertEquals(null, second);
            }
            assertTrue(lease.isValid());
        }
        assertFalse(outer.isValid());
        assertEquals(0, holders(name));
    }

    private long holders(String name) {
        return store.inspect(Name.of(name)).map(entry -> entry.holders().size()).orElse(0);
    }

    /** A close beside a yield that waits: what comes back has no owner, and is given back. */
    @Test
    void closeBesideYield() throws Exception {
        String name = name("beside");
        for (boolean async : new boolean[] { false, true }) {
            Lease lease = store.acquire(Request.mutex(name).strict().watch());
            CompletableFuture<Lease> other = store.acquireAsync(Request.mutex(name).strict());
            until("wanted", lease::isWanted);
            CompletableFuture<Boolean> yielding = async ? lease.yieldAsync(null) : inThread(() -> lease.yield(null));
            Lease theirs = get(other);
            if (async) {
                assertEquals(Status.INVALID, ((HoldfastException) failure(lease.closeAsync())).status());
            } else {
                assertEquals(Status.INVALID, assertThrows(HoldfastException.class, lease::close).status());
            }
            lease.close(); /* it has ended */
            Lease next = store.acquire(Request.mutex(name("next")));
            theirs.close();
            HoldfastException failure = (HoldfastException) failure(yielding);
            assertEquals(Status.INVALID, failure.status());
            until("what came back is given back", () -> holders(name) == 0);
            assertTrue(next.isValid());
            assertEquals(1, holders(name("next")));
            next.close();
        }
        assertEquals(0, Native.registered());
    }

    /** A close beside a conversion that waits, and in the moment in which it ends. */
    @Test
    void closeBesideConversion() throws Exception {
        String name = name("beside-rw");
        for (int i = 0; i < 20; i++) {
            Lease reader = get(store.acquireAsync(Request.shared(name).strict()));
            Lease lease = store.acquire(Request.upgradeable(name).strict());
            CompletableFuture<Void> converting = lease.convertAsync(Kind.EXCLUSIVE, null);
            untilWaiters(name, 1);
            if (i % 2 == 0) {
                lease.close();
                reader.close();
            } else {
                reader.close();
                lease.release();
            }
            converting.exceptionally(failure -> null).get(60, TimeUnit.SECONDS);
            until("nothing is held", () -> holders(name) == 0);
        }
    }

    // ---- other kinds

    @Test
    void readersShareAndConvert() throws Exception {
        String name = name("rw");
        Lease reader = get(store.acquireAsync(Request.shared(name))); /* of nobody: else it is a deadlock */
        Lease upgradeable = store.acquire(Request.upgradeable(name));
        assertTrue(store.tryAcquire(Request.exclusive(name)).isEmpty());
        assertThrows(HoldfastException.Unsupported.class, reader::fence);
        CompletableFuture<Void> upgrading = upgradeable.convertAsync(Kind.EXCLUSIVE, LONG);
        assertFalse(upgrading.isDone());
        reader.close();
        get(upgrading);
        assertEquals(Kind.EXCLUSIVE, upgradeable.info().kind());
        assertTrue(upgradeable.fence() > 0);
        upgradeable.convert(Kind.SHARED, LONG);
        store.acquire(Request.shared(name)).close();
        upgradeable.close();
        store.tryAcquire(Request.exclusive(name)).orElseThrow().close();
    }

    @Test
    void cancelledConversionKeepsTheLease() throws Exception {
        String name = name("convert");
        Lease reader = get(store.acquireAsync(Request.shared(name)));
        Lease upgradeable = store.acquire(Request.upgradeable(name));
        CompletableFuture<Void> upgrading = upgradeable.convertAsync(Kind.EXCLUSIVE, null);
        upgrading.cancel(true);
        until("the call has ended", () -> Native.registered() == 0);
        assertTrue(upgradeable.isValid());
        reader.close();
        upgradeable.close();
        store.tryAcquire(Request.exclusive(name)).orElseThrow().close();
    }

    @Test
    void semaphores() throws Exception {
        HoldfastSemaphore semaphore = store.semaphore(name("semaphore"), 3);
        Lease two = semaphore.acquire(2);
        assertTrue(semaphore.tryAcquire(2).isEmpty());
        assertTrue(semaphore.tryAcquire(2, Duration.ofMillis(5)).isEmpty());
        Lease one = semaphore.acquire();
        semaphore.resize(4);
        get(semaphore.acquireAsync(1)).close();
        get(semaphore.resizeAsync(0));
        two.close();
        one.close();
        Lease numbered = store.acquire(Request.semaphore(name("numbered"), 3).permits(2).numbered());
        assertEquals(List.of(0, 1), numbered.info().slots());
        numbered.close();
    }

    @Test
    void severalNames() throws Exception {
        List<Request> both = List.of(Request.mutex(name("b")), Request.mutex(name("a")));
        List<Lease> leases = store.acquireAll(both);
        assertEquals(name("b"), leases.get(0).name().toString());
        assertEquals(name("a"), leases.get(1).info().name().toString());
        assertThrows(HoldfastException.Busy.class, () -> store.acquireAll(both.stream().map(Request::tryOnce).toList()));
        CompletableFuture<List<Lease>> waiting = store.acquireAllAsync(both);
        store.releaseAll(leases);
        leases = get(waiting);
        leases.get(0).close();
        AnyLease any = store.acquireAny(both);
        assertEquals(0, any.index());
        CompletableFuture<AnyLease> other = store.acquireAnyAsync(both);
        leases.get(1).close();
        assertEquals(1, get(other).index());
        get(other).lease().close();
        any.lease().close();
        CompletableFuture<List<Lease>> gone = store.acquireAllAsync(both);
        if (!gone.cancel(true)) {
            store.releaseAll(get(gone));
        }
        get(store.acquireAllAsync(both)).forEach(Lease::close);
    }

    @Test
    void detachedLeasesAreAdopted() throws Exception {
        String name = name("detached");
        Lease lease = store.acquire(Request.mutex(name).detached().ttl(Duration.ofMinutes(5)));
        String text = lease.export();
        try (Store other = Holdfast.open(url)) {
            assertThrows(HoldfastException.Invalid.class,
                    () -> other.adopt(Name.of(name), "nonsense", Duration.ZERO, true));
            Lease adopted = other.adopt(Name.of(name), text, Duration.ZERO, true);
            assertEquals(lease.token(), adopted.token());
            adopted.renew(Duration.ofMinutes(6));
            adopted.close();
        }
        assertEquals(Status.LOST, lease.release());
    }

    @Test
    void leasesLinger() throws Exception {
        Request request = Request.mutex(name("linger")).linger(Duration.ofSeconds(10));
        if (!store.info().capabilities().contains(Capability.LINGER)) {
            assertThrows(HoldfastException.Unsupported.class, () -> store.acquire(request));
            return;
        }
        store.acquire(request).close();
        assertTrue(store.inspect(request.name()).orElseThrow().holders().get(0).lingers());
        store.releaseIdle();
        assertTrue(store.inspect(request.name()).isEmpty());
    }

    @Test
    void cellsOfALeaseEndWithIt() throws Exception {
        Cell cell = store.cell(name("cell"));
        Lease lease = store.acquire(Request.mutex(name("owner")));
        lease.setCell(Name.of(name("cell")), bytes("here"));
        assertEquals("here", cell.getOfLease().orElseThrow().text());
        lease.close();
        assertTrue(cell.getOfLease().isEmpty());
    }

    // ---- looking

    @Test
    void inspection() throws Exception {
        String name = name("inspect");
        try (Lease lease = store.acquire(Request.mutex(name).strict().label("it is \u00fcs"))) {
            CompletableFuture<Lease> waiting = store.acquireAsync(Request.mutex(name).strict().label("next"));
            untilWaiters(name, 1);
            Entry entry = store.inspect(Name.of(name)).orElseThrow();
            assertEquals(Kind.MUTEX, entry.kind());
            assertEquals(lease.token(), entry.holders().get(0).token());
            assertEquals("it is \u00fcs", entry.holders().get(0).label());
            assertEquals("next", entry.waiters().get(0).label());
            assertEquals(1, entry.waiters().get(0).position());
            assertTrue(store.inspectAll(name.substring(0, name.length() - 1) + "?").entries().contains(entry)
                    || !store.inspectAll(null).entries().isEmpty());
            assertTrue(get(store.inspectAllAsync(null)).waitersTracked());
            assertEquals(List.of(), store.deadlocks());
            assertFalse(store.check().isEmpty());
            waiting.cancel(true);
        }
        assertTrue(store.inspect(Name.of(name("nobody"))).isEmpty());
    }

    @Test
    void deadlocksAreFound() throws Exception {
        String a = name("dead-a");
        String b = name("dead-b");
        Lease first = store.acquire(Request.mutex(a).strict());
        CompletableFuture<Status> other = inThread(() -> {
            try (Lease second = store.acquire(Request.mutex(b))) {
                try (Lease third = store.acquire(Request.mutex(a).strict())) {
                    return third.isValid() && second.isValid() ? Status.OK : Status.LOST;
                } catch (HoldfastException.Deadlock e) {
                    return e.status();
                }
            }
        });
        untilWaiters(a, 1);
        Status mine;
        try (Lease fourth = store.acquire(Request.mutex(b))) {
            mine = fourth.isValid() ? Status.OK : Status.LOST;
        } catch (HoldfastException.Deadlock e) {
            mine = e.status();
        }
        first.close();
        assertEquals(List.of(Status.DEADLOCK, Status.OK), List.of(mine, get(other)).stream().sorted(
                (x, y) -> y.compareTo(x)).toList());
    }
}
