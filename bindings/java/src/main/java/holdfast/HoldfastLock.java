// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock between processes with the interface of the locks of one process. The thread that locks it unlocks it.
 *
 * <p>No monitor is held while a thread waits, and a virtual thread that waits is not pinned. A virtual thread is an owner like
 * any other: locks are reentrant by the thread's id.
 *
 * <p>Keep the object: only the object that was locked can be unlocked. Another one of the same name, of the same store, excludes
 * other threads and is reentrant, but does not know what this one holds.
 *
 * <p>A lock of a thread that has ended stays locked, as with ReentrantLock. It is reported as a forgotten lease when a thread
 * has tried to lock it.
 */
public final class HoldfastLock implements Lock {
    private final Store store;
    private final Request request;
    /** What each thread holds; the latest first. Only the thread itself uses its deque. */
    private final Map<Thread, Deque<Lease>> held = new ConcurrentHashMap<>();

    HoldfastLock(Store store, Request request) {
        this.store = store;
        this.request = request;
    }

    private boolean keep(Lease lease) {
        if (lease != null) {
            held.computeIfAbsent(Thread.currentThread(), thread -> new ArrayDeque<>(2)).push(lease);
        }
        return lease != null;
    }

    /** A thread that has ended cannot unlock it. Without this the lock would keep its lease, and no collector could report it. */
    private void dropTheDead() {
        held.keySet().removeIf(thread -> !thread.isAlive());
    }

    /**
     * Lock it; wait for as long as it takes, or as the request says. An interrupt stays pending.
     *
     * @throws HoldfastException.Deadlock if to wait would be a deadlock
     */
    @Override
    public void lock() {
        dropTheDead();
        keep(store.holds().acquireUninterruptibly(request));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        dropTheDead();
        keep(store.acquire(request));
    }

    @Override
    public boolean tryLock() {
        return keep(store.holds().tryNow(request));
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        dropTheDead();
        Duration wait = time <= 0 ? Duration.ZERO : Duration.ofNanos(unit.toNanos(time));
        return keep(store.tryAcquire(request, wait).orElse(null));
    }

    /**
     * Unlock it. A thread that has lost its lease and has locked again needs an unlock for each of them: the first one tells of
     * the loss, and the new lease stays until the second.
     *
     * @throws IllegalMonitorStateException if the calling thread does not hold it
     * @throws HoldfastException.Lost if the lease was lost meanwhile: what it protected was not protected to the end
     */
    @Override
    public void unlock() {
        Thread thread = Thread.currentThread();
        Deque<Lease> mine = held.get(thread);
        if (mine == null) {
            throw new IllegalMonitorStateException("'" + request.name() + "' is not held by this thread");
        }
        Lease lease = nextOf(mine);
        if (mine.isEmpty()) {
            held.remove(thread);
        }
        lease.close();
    }

    /**
     * All holds of one lease have its handle, and the order does not matter. Another handle below is that of an earlier lease:
     * it was lost, or this thread could not have locked anew. That one goes first.
     */
    private static Lease nextOf(Deque<Lease> mine) {
        long newest = mine.peekFirst().handle();
        Iterator<Lease> oldestFirst = mine.descendingIterator();
        while (newest != 0 && oldestFirst.hasNext()) {
            Lease lease = oldestFirst.next();
            if (lease.handle() != 0 && lease.handle() != newest) {
                oldestFirst.remove();
                return lease;
            }
        }
        return mine.pop();
    }

    /**
     * Not offered: a condition between processes would need its own queue in the store. Use a {@link Cell}, a {@link Latch} or
     * {@link Store#awaitChange(long, Duration)}.
     *
     * @return never
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("conditions are not offered");
    }

    /**
     * The lease of the calling thread: its token, its validity.
     *
     * @return the lease
     * @throws IllegalMonitorStateException if the calling thread does not hold it
     */
    public Lease lease() {
        Deque<Lease> mine = held.get(Thread.currentThread());
        if (mine == null) {
            throw new IllegalMonitorStateException("'" + request.name() + "' is not held by this thread");
        }
        return mine.peek();
    }

    /**
     * How often the calling thread has locked it.
     *
     * @return the hold count
     */
    public int holdCount() {
        Deque<Lease> mine = held.get(Thread.currentThread());
        return mine == null ? 0 : mine.size();
    }

    /**
     * A lease of it for whoever wants it, apart from the thread-bound methods: not reentrant by thread.
     *
     * @return the lease; {@link Lease#close()} unlocks
     */
    public CompletableFuture<Lease> lockAsync() {
        return store.acquireAsync(request);
    }

    @Override
    public String toString() {
        return request.kind() + " '" + request.name() + "'";
    }
}
