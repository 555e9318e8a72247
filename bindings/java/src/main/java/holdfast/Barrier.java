// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A barrier: each participant waits until all have come, and all go on together.
 */
public final class Barrier {
    private final Store store;
    private final Name name;
    private final int parties;
    private final String who;

    Barrier(Store store, Name name, int parties, String who) {
        this.store = store;
        this.name = name;
        this.parties = parties;
        this.who = who;
    }

    /**
     * The same barrier, for a participant with a name.
     *
     * @param participant a text of 1 to 64 bytes; null: a random id
     * @return the barrier
     */
    public Barrier as(String participant) {
        return new Barrier(store, name, parties, participant);
    }

    private Args party(Duration wait) {
        return new Args().name(name).text(who).number(parties).number(Args.waitMillis(wait));
    }

    private Plan<Void> awaitPlan(Duration wait) {
        return Plan.of(Op.BARRIER_WAIT, store.handle(), party(wait));
    }

    /**
     * Wait until all have come. Unlike with {@code CyclicBarrier}, a participant that gives up (interrupted, or its time is over)
     * does not break the barrier: the others go on waiting for another one in its place, until their own time is over.
     *
     * @param wait how long to wait; null: for ever
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.Broken if a participant died
     * @throws HoldfastException.TimedOut if the time is over: this participant has not come
     */
    public void await(Duration wait) throws InterruptedException {
        store.await(awaitPlan(wait));
    }

    /**
     * As {@link #await(Duration)}.
     *
     * @param wait how long to wait; null: for ever
     * @return completed when all have come
     */
    public CompletableFuture<Void> awaitAsync(Duration wait) {
        return store.async(awaitPlan(wait));
    }

    private Plan<Lease> enterPlan(Duration wait) {
        return new Plan<>(Op.BARRIER_ENTER, store.handle(), party(wait),
                result -> new Lease(store, name, result.check().lease, null)).undo(Lease::close);
    }

    /**
     * A double barrier: enter together, work, leave together.
     *
     * @param wait how long to wait; null: for ever
     * @return the lease that {@link #leave(Lease, Duration)} ends
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.Broken if a participant died
     */
    public Lease enter(Duration wait) throws InterruptedException {
        return store.await(enterPlan(wait));
    }

    /**
     * As {@link #enter(Duration)}.
     *
     * @param wait how long to wait; null: for ever
     * @return the lease that {@link #leave(Lease, Duration)} ends
     */
    public CompletableFuture<Lease> enterAsync(Duration wait) {
        return store.async(enterPlan(wait));
    }

    /**
     * Leave, and wait until all have left. The lease has ended, whatever happens.
     *
     * @param party of {@link #enter(Duration)}
     * @param wait how long to wait; null: for ever
     * @throws InterruptedException if the thread was interrupted; we have left all the same
     * @throws HoldfastException.Broken if a participant died before it left, or our own lease was lost
     * @throws HoldfastException.TimedOut if the others have not left in time; we have
     */
    public void leave(Lease party, Duration wait) throws InterruptedException {
        store.calls().endAndAwait(party, Op.BARRIER_LEAVE, new Args().number(Args.waitMillis(wait)));
    }

    /**
     * As {@link #leave(Lease, Duration)}.
     *
     * @param party of {@link #enter(Duration)}
     * @param wait how long to wait; null: for ever
     * @return completed when all have left
     */
    public CompletableFuture<Void> leaveAsync(Lease party, Duration wait) {
        return store.calls().end(party, Op.BARRIER_LEAVE, new Args().number(Args.waitMillis(wait)));
    }
}
