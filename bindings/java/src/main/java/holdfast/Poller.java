// SPDX-License-Identifier: MIT
package holdfast;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The one thread that drives a store while asynchronous calls are under way. It is made by the first of them. While there are
 * none it sleeps on its bell alone: answers that a direct call waits for do not wake it.
 */
final class Poller implements Runnable {
    /** It looks at the store for this long after the last call: the next one often follows at once. */
    private static final long WARM_NANOS = 1_000_000;
    private static final long NEVER = Long.MAX_VALUE;

    private final long store;
    /** Calls under way, and leases whose events come through the poller. */
    private final AtomicInteger users = new AtomicInteger();
    /** For the fields below it. Never held while anything waits. */
    private final ReentrantLock lock = new ReentrantLock();
    private Thread thread;
    private CountDownLatch ended;
    private int bell = -1;
    private int fd = -1;
    private boolean closing;

    private volatile boolean started;
    private volatile boolean stop;
    private volatile boolean idle;
    /** When the thread looks again, of System.nanoTime(); NEVER: when something happens. */
    private volatile long deadline;

    Poller(long store) {
        this.store = store;
    }

    void enter() {
        users.incrementAndGet();
        if (!started) {
            try {
                start();
            } catch (HoldfastException e) {
                users.decrementAndGet();
                throw e;
            }
        }
    }

    void leave() {
        users.decrementAndGet();
    }

    /** Something has begun: the thread may have to look earlier than it meant to. */
    void look() {
        if (idle || isEarlier(Native.timeout(store))) {
            ring();
        }
    }

    private boolean isEarlier(int timeout) {
        long until = deadline;
        return timeout >= 0 && (until == NEVER || System.nanoTime() + timeout * 1_000_000L - until < 0);
    }

    boolean isCurrent() {
        return Thread.currentThread() == thread;
    }

    private void ring() {
        lock.lock();
        try {
            if (bell >= 0) {
                Native.ringBell(bell);
            }
        } finally {
            lock.unlock();
        }
    }

    private void start() {
        lock.lock();
        try {
            if (started || closing) {
                return; /* closing: the calls end with the store, or go on when it stays open */
            }
            fd = Native.storeFd(store);
            if (fd < 0) {
                throw HoldfastException.of(Status.UNAVAILABLE, 0, "the store is closed, or no descriptor is left for it");
            }
            if (bell < 0) {
                bell = Native.makeBell();
            }
            stop = false;
            ended = new CountDownLatch(1);
            thread = new Thread(null, this, "holdfast-poller", 0, false);
            thread.setDaemon(true);
            thread.start();
            started = true;
        } finally {
            lock.unlock();
        }
    }

    /** Before the store is closed: its descriptor must not be polled then. */
    void stop() {
        CountDownLatch over;
        lock.lock();
        try {
            closing = true;
            over = ended;
            stop = true;
        } finally {
            lock.unlock();
        }
        if (over == null) {
            return;
        }
        ring();
        boolean interrupted = false;
        for (;;) {
            try {
                over.await();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The store stays open after all. */
    void resume() {
        lock.lock();
        try {
            closing = started = false;
        } finally {
            lock.unlock();
        }
        if (users.get() > 0) {
            start();
        }
    }

    void close() {
        lock.lock();
        try {
            if (bell >= 0) {
                Native.closeBell(bell);
            }
            bell = -1;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void run() {
        long warmUntil = System.nanoTime();
        while (!stop) {
            try {
                if (users.get() > 0) {
                    poll(NEVER);
                    warmUntil = System.nanoTime() + WARM_NANOS;
                } else if (System.nanoTime() - warmUntil < 0) {
                    poll(warmUntil);
                } else {
                    rest();
                }
            } catch (Throwable failure) {
                Log.failed("the poller", failure);
            }
        }
        ended.countDown();
    }

    /** A call that begins after `deadline` is set rings if it needs to; one that began before is in the second answer. */
    private void poll(long until) {
        deadline = until;
        int timeout = Native.timeout(store);
        long now = System.nanoTime();
        if (timeout >= 0 && (until == NEVER || now + timeout * 1_000_000L - until < 0)) {
            deadline = now + timeout * 1_000_000L;
        } else if (until != NEVER) {
            timeout = 1;
        }
        Native.poll(store, fd, bell, timeout);
    }

    private void rest() {
        idle = true;
        if (users.get() == 0 && !stop) {
            Native.poll(store, -1, bell, -1);
        }
        idle = false;
    }
}
