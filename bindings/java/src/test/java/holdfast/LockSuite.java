// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** The interfaces of java.util.concurrent.locks, threads of both kinds, many waiters, closing. On every store. */
abstract class LockSuite extends Bed {
    private static final int MANY = 1000;

    @Test
    void locksAsTheInterfaceSays() throws Exception {
        Lock lock = store.lock(name("lock"));
        lock.lock();
        assertTrue(lock.tryLock());
        lock.lockInterruptibly();
        assertEquals(3, ((HoldfastLock) lock).holdCount());
        assertEquals(3, ((HoldfastLock) lock).lease().info().holds());
        assertFalse(get(inThread(() -> lock.tryLock())));
        assertFalse(get(inThread(() -> lock.tryLock(10, TimeUnit.MILLISECONDS))));
        assertFalse(get(inThread(() -> lock.tryLock(-1, TimeUnit.MILLISECONDS))));
        assertInstanceOf(IllegalMonitorStateException.class, failure(inThread(() -> {
            lock.unlock();
            return null;
        })));
        lock.unlock();
        lock.unlock();
        assertFalse(get(inThread(() -> lock.tryLock())));
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, () -> ((HoldfastLock) lock).lease());
        assertTrue(get(inThread(() -> {
            boolean locked = lock.tryLock(Long.MAX_VALUE, TimeUnit.DAYS);
            lock.unlock();
            return locked;
        })));
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void lockIsNotInterruptible() throws Exception {
        HoldfastLock lock = store.lock(Request.mutex(name("deaf")).strict());
        lock.lock();
        CompletableFuture<Thread> thread = new CompletableFuture<>();
        CompletableFuture<Boolean> waiting = inThread(() -> {
            thread.complete(Thread.currentThread());
            lock.lock();
            lock.unlock();
            return Thread.interrupted();
        });
        untilWaiters(name("deaf"), 1);
        get(thread).interrupt();
        CompletableFuture<Void> interrupted = inThread(() -> {
            lock.lockInterruptibly();
            return null;
        });
        untilWaiters(name("deaf"), 2);
        assertFalse(waiting.isDone());
        lock.unlock();
        assertTrue(get(waiting));
        get(interrupted);
    }

    @Test
    void aThreadThatLocksTwiceWithoutReentrancyIsADeadlock() {
        HoldfastLock lock = store.lock(Request.mutex(name("self")));
        lock.lock();
        assertThrows(HoldfastException.Deadlock.class, lock::lock);
        lock.unlock();
    }

    @Test
    void threadsExclude() throws Exception {
        Lock lock = store.lock(name("threads"));
        int[] count = { 0 };
        List<CompletableFuture<Void>> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            threads.add(inThread(() -> {
                for (int j = 0; j < 50; j++) {
                    lock.lock();
                    int seen = count[0];
                    Thread.yield();
                    count[0] = seen + 1;
                    lock.unlock();
                }
                return null;
            }));
        }
        for (CompletableFuture<Void> thread : threads) {
            get(thread);
        }
        assertEquals(400, count[0]);
    }

    @Test
    void unlockOfALostLeaseThrows() throws Exception {
        HoldfastLock lock = store.lock(name("lost"));
        lock.lock();
        store.breakLease(Name.of(name("lost")), lock.lease().token());
        until("lost", () -> lock.lease().state() == LeaseState.LOST);
        assertTrue(get(inThread(() -> {
            lock.lock(); /* by another thread of the same object, meanwhile */
            return true;
        })));
        assertThrows(HoldfastException.Lost.class, lock::unlock);
        assertEquals(0, lock.holdCount());
        assertFalse(lock.tryLock());
    }

    private long holder(String name) {
        List<Holder> holders = store.inspect(Name.of(name)).map(Entry::holders).orElse(List.of());
        assertEquals(1, holders.size());
        return holders.get(0).token();
    }

    /** A has lost its lease, and B has locked through the same object. */
    @Test
    void twoHoldersThroughOneObject() throws Exception {
        String name = name("two");
        HoldfastReadWriteLock rw = store.readWriteLock(name("two-rw"));
        for (HoldfastLock lock : List.of(store.lock(name), rw.readLock(), rw.writeLock(), rw.upgradeableLock())) {
            String of = lock == rw.readLock() || lock == rw.writeLock() || lock == rw.upgradeableLock() ? name("two-rw") : name;
            CountDownLatch free = new CountDownLatch(1);
            lock.lock();
            store.breakLease(Name.of(of), holder(of));
            CompletableFuture<Void> locked = new CompletableFuture<>();
            CompletableFuture<Void> b = inThread(() -> {
                lock.lock();
                locked.complete(null);
                free.await();
                lock.unlock();
                return null;
            });
            get(locked);
            long held = holder(of);
            assertThrows(HoldfastException.Lost.class, lock::unlock);
            assertEquals(held, holder(of));
            free.countDown();
            get(b);
            assertThrows(IllegalMonitorStateException.class, lock::unlock);

            /* One thread that locks again after the loss: the lost one goes first. */
            lock.lock();
            store.breakLease(Name.of(of), holder(of));
            until("lost", () -> lock.lease().state() == LeaseState.LOST);
            lock.lock();
            long again = holder(of);
            assertThrows(HoldfastException.Lost.class, lock::unlock);
            assertEquals(again, holder(of));
            lock.unlock();
            assertTrue(store.inspect(Name.of(of)).isEmpty());
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
        }
    }

    /** Any thread may end a lease of a semaphore: each ends its own. */
    @Test
    void twoHoldersOfOneSemaphore() throws Exception {
        String name = name("two-permits");
        HoldfastSemaphore semaphore = store.semaphore(name, 1);
        Lease a = semaphore.acquire();
        store.breakLease(Name.of(name), a.token());
        Lease b = semaphore.acquire();
        assertThrows(HoldfastException.Lost.class, a::close);
        assertEquals(b.token(), holder(name));
        b.close();
        assertTrue(store.inspect(Name.of(name)).isEmpty());
    }

    @Test
    void readWriteLocks() throws Exception {
        ReadWriteLock lock = store.readWriteLock(name("rw"));
        assertSame(lock.readLock(), lock.readLock());
        lock.readLock().lock();
        lock.readLock().lock();
        assertTrue(get(inThread(() -> {
            boolean locked = lock.readLock().tryLock();
            lock.readLock().unlock();
            return locked && !lock.writeLock().tryLock();
        })));
        lock.readLock().unlock();
        lock.readLock().unlock();
        lock.writeLock().lock();
        assertFalse(get(inThread(() -> lock.readLock().tryLock())));
        lock.writeLock().unlock();
        HoldfastLock upgradeable = ((HoldfastReadWriteLock) lock).upgradeableLock();
        upgradeable.lock();
        upgradeable.lease().convert(Kind.EXCLUSIVE, LONG);
        assertFalse(get(inThread(() -> lock.readLock().tryLock())));
        upgradeable.unlock();
    }

    @Test
    void reentrantLeasesHaveOneListener() throws Exception {
        LinkedBlockingQueue<LeaseEvent> events = new LinkedBlockingQueue<>();
        HoldfastLock lock = store.lock(Request.mutex(name("reentrant")).reentrant().onEvent(events::add));
        lock.lock();
        Lease outer = lock.lease();
        lock.lock();
        outer.close(); /* in any order: it is a count */
        store.breakLease(Name.of(name("reentrant")), lock.lease().token());
        assertEquals(LeaseEvent.Type.LOST, events.poll(60, TimeUnit.SECONDS).type());
        assertThrows(HoldfastException.Lost.class, lock::unlock);
        lock.unlock(); /* it was closed */
        assertEquals(0, Native.registered());
    }

    // ---- many

    @Test
    void aThousandWaitersNeedOneThread() throws Exception {
        Request request = Request.mutex(name("many"));
        Lease lease = store.acquire(request);
        int before = Thread.activeCount();
        AtomicInteger inside = new AtomicInteger();
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < MANY; i++) {
            all.add(store.acquireAsync(request).thenCompose(got -> {
                assertEquals(1, inside.incrementAndGet());
                inside.decrementAndGet();
                return got.closeAsync();
            }));
        }
        assertEquals(MANY, Native.registered());
        assertTrue(Thread.activeCount() - before < 10, "threads for waiters");
        lease.close();
        get(CompletableFuture.allOf(all.toArray(CompletableFuture[]::new)));
        until("all calls have ended", () -> Native.registered() == 0);
    }

    private static Thread virtual(Runnable work) throws Exception {
        Method start;
        try {
            start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        } catch (NoSuchMethodException e) {
            Assumptions.abort("this Java has no virtual threads");
            return null;
        }
        return (Thread) start.invoke(null, work);
    }

    /** More virtual threads wait than there are carriers: if they were pinned, no other virtual thread would run. */
    @Test
    void virtualThreadsWaitWithoutTheirCarriers() throws Exception {
        HoldfastLock lock = store.lock(Request.mutex(name("virtual")).reentrant().strict());
        int threads = 100;
        int[] count = { 0 };
        lock.lock();
        List<Thread> started = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            started.add(virtual(() -> {
                lock.lock();
                lock.lock();
                count[0]++;
                lock.unlock();
                lock.unlock();
            }));
        }
        untilWaiters(name("virtual"), threads);
        CountDownLatch ran = new CountDownLatch(1);
        virtual(ran::countDown);
        assertTrue(ran.await(60, TimeUnit.SECONDS), "the carriers are pinned");
        Thread interrupted = virtual(() -> {
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException e) {
                count[0] += 1000;
            }
        });
        untilWaiters(name("virtual"), threads + 1);
        interrupted.interrupt();
        interrupted.join();
        lock.unlock();
        for (Thread thread : started) {
            thread.join();
        }
        assertEquals(1000 + threads, count[0]);
    }

    // ---- closing

    @Test
    void closingEndsWhatWaits() throws Exception {
        Request request = Request.mutex(name("close"));
        Lease lease = store.acquire(request);
        CompletableFuture<Lease> future = store.acquireAsync(request);
        CompletableFuture<Lease> thread = inThread(() -> store.acquire(Request.mutex(name("close")).strict()));
        untilWaiters(name("close"), 1);
        assertThrows(HoldfastException.InUse.class, store::closeIfUnused);
        assertEquals(7, store.counter(name("still")).add(7));
        store.close();
        assertInstanceOf(HoldfastException.Cancelled.class, failure(future));
        assertInstanceOf(HoldfastException.Cancelled.class, failure(thread));
        assertEquals(Status.LOST, lease.release());
        store.close();
        assertThrows(HoldfastException.Invalid.class, () -> store.acquire(request));
        assertInstanceOf(HoldfastException.class, failure(store.acquireAsync(request)));
        try (Store other = Holdfast.open(url)) {
            other.acquire(request).close();
        }
        assertEquals(0, Native.registered());
    }

    /** All of them end within one call of C: references that C leaves behind would pile up there. */
    @Test
    void closingEndsAThousandWaiters() throws Exception {
        Request request = Request.mutex(name("crowd"));
        assertTrue(store.acquire(request).isValid());
        List<CompletableFuture<Lease>> all = new ArrayList<>();
        for (int i = 0; i < MANY; i++) {
            all.add(store.acquireAsync(request));
        }
        store.close();
        for (CompletableFuture<Lease> one : all) {
            assertInstanceOf(HoldfastException.Cancelled.class, failure(one));
        }
        assertEquals(0, Native.registered());
    }

    @Test
    void unusedStoresCloseQuietly() {
        Store other = Holdfast.open(url);
        other.counter(name("one")).add(1);
        other.closeIfUnused();
        assertThrows(HoldfastException.Invalid.class, other::info);
    }
}
