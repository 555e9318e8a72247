// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A semaphore between processes. Each acquire gives a lease, and any thread may close it. */
public final class HoldfastSemaphore {
    private final Store store;
    private final Request request;

    HoldfastSemaphore(Store store, Request request) {
        this.store = store;
        this.request = request.noDeadlockCheck();
    }

    /**
     * Take one permit, or as many as the request of this semaphore says.
     *
     * @return the lease
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Lease acquire() throws InterruptedException {
        return store.acquire(request);
    }

    /**
     * Take several permits, all or none.
     *
     * @param permits how many
     * @return the lease
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Lease acquire(int permits) throws InterruptedException {
        return store.acquire(request.permits(permits));
    }

    /**
     * Take permits if they are free.
     *
     * @param permits how many
     * @return the lease; empty: they are not
     */
    public Optional<Lease> tryAcquire(int permits) {
        return store.tryAcquire(request.permits(permits));
    }

    /**
     * Take permits if they come free in time.
     *
     * @param permits how many
     * @param wait how long to wait
     * @return the lease; empty: the time is over
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Optional<Lease> tryAcquire(int permits, Duration wait) throws InterruptedException {
        return store.tryAcquire(request.permits(permits), wait);
    }

    /**
     * As {@link #acquire(int)}.
     *
     * @param permits how many
     * @return the lease
     */
    public CompletableFuture<Lease> acquireAsync(int permits) {
        return store.acquireAsync(request.permits(permits));
    }

    private Plan<Void> resizePlan(int capacity) {
        return Plan.of(Op.RESIZE, store.handle(), new Args().name(request.name()).number(capacity));
    }

    /**
     * Set the number of permits, also while it is in use. From then on it counts, whatever requests say. Nobody loses anything.
     *
     * @param capacity how many; 0: as requests say
     */
    public void resize(int capacity) {
        store.join(resizePlan(capacity));
    }

    /**
     * As {@link #resize(int)}.
     *
     * @param capacity how many; 0: as requests say
     * @return completed when it is set
     */
    public CompletableFuture<Void> resizeAsync(int capacity) {
        return store.async(resizePlan(capacity));
    }
}
