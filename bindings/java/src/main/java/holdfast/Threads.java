// SPDX-License-Identifier: MIT
package holdfast;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** What newer Java versions know of threads, found at run time: this compiles for Java 17. */
final class Threads {
    private static final MethodHandle IS_VIRTUAL = find("isVirtual", boolean.class);
    private static final MethodHandle ID = find("threadId", long.class);

    /** Scopes with this bit are threads; those that a program chooses are positive. */
    private static final long THREAD = Long.MIN_VALUE;

    /** Scopes with this bit too are of no thread. */
    private static final long NOBODY = THREAD | 1L << 62;
    private static final AtomicLong NOBODIES = new AtomicLong();

    /** Where futures are completed and listeners are called, if the program names no executor. A thread that blocks in it is
     * replaced, so a continuation may wait. */
    static final ForkJoinPool CALLBACKS = new ForkJoinPool(Math.max(2, Runtime.getRuntime().availableProcessors()),
            Threads::worker, null, true, 0, 256, 1, null, 10, TimeUnit.SECONDS);

    private Threads() {
    }

    private static MethodHandle find(String method, Class<?> type) {
        try {
            return MethodHandles.publicLookup().findVirtual(Thread.class, method, MethodType.methodType(type));
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    private static ForkJoinWorkerThread worker(ForkJoinPool pool) {
        ForkJoinWorkerThread thread = ForkJoinPool.defaultForkJoinWorkerThreadFactory.newThread(pool);
        thread.setName("holdfast-callback-" + thread.getPoolIndex());
        return thread;
    }

    static boolean isVirtual() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Throwable e) {
            throw new LinkageError("Thread.isVirtual", e);
        }
    }

    /** An identity that nothing else has. */
    static long nobody() {
        return NOBODY | NOBODIES.incrementAndGet();
    }

    /** The calling thread as an identity for reentrancy and deadlock detection. */
    static long scope() {
        try {
            Thread thread = Thread.currentThread();
            return THREAD | (ID == null ? thread.getId() : (long) ID.invokeExact(thread));
        } catch (Throwable e) {
            throw new LinkageError("Thread.threadId", e);
        }
    }
}
