// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A latch: it is made for a count, and opens for ever when that many participants have counted down. Each counts once, however
 * often it counts down.
 */
public final class Latch {
    private final Store store;
    private final Name name;

    Latch(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    /**
     * How a latch stands.
     *
     * @param count for how many it was made
     * @param left how many are missing; 0: it is open
     */
    public record State(int count, int left) {
    }

    private Args named() {
        return new Args().name(name);
    }

    private Plan<Void> createPlan(int count) {
        return Plan.of(Op.LATCH_CREATE, store.handle(), named().number(count));
    }

    /**
     * Make it. It is no error if it exists with the same count.
     *
     * @param count how many, at most 256
     */
    public void create(int count) {
        store.join(createPlan(count));
    }

    /**
     * As {@link #create(int)}.
     *
     * @param count how many, at most 256
     * @return completed when it exists
     */
    public CompletableFuture<Void> createAsync(int count) {
        return store.async(createPlan(count));
    }

    private Plan<Integer> countDownPlan(String who) {
        return new Plan<>(Op.LATCH_COUNT_DOWN, store.handle(), named().text(who), result -> (int) result.check().number);
    }

    /**
     * Count down.
     *
     * @param who the participant, a text of 1 to 64 bytes
     * @return how many are missing; 0: it is open
     */
    public int countDown(String who) {
        return store.join(countDownPlan(who));
    }

    /**
     * As {@link #countDown(String)}.
     *
     * @param who the participant, a text of 1 to 64 bytes
     * @return how many are missing; 0: it is open
     */
    public CompletableFuture<Integer> countDownAsync(String who) {
        return store.async(countDownPlan(who));
    }

    private Plan<Lease> joinPlan(String who, Duration wait) {
        return new Plan<>(Op.LATCH_JOIN, store.handle(), named().text(who).number(0).number(Args.waitMillis(wait)),
                result -> new Lease(store, name, result.check().lease, null)).undo(Lease::close);
    }

    /**
     * Join before the work begins. If the lease ends before the participant has counted down, the latch is broken.
     *
     * @param who the participant, a text of 1 to 64 bytes
     * @param wait how long to wait; null: for ever
     * @return the lease; {@link Lease#close()} after counting down
     * @throws InterruptedException if the thread was interrupted
     */
    public Lease join(String who, Duration wait) throws InterruptedException {
        return store.await(joinPlan(who, wait));
    }

    /**
     * As {@link #join(String, Duration)}.
     *
     * @param who the participant, a text of 1 to 64 bytes
     * @param wait how long to wait; null: for ever
     * @return the lease; {@link Lease#close()} after counting down
     */
    public CompletableFuture<Lease> joinAsync(String who, Duration wait) {
        return store.async(joinPlan(who, wait));
    }

    private Plan<Void> awaitPlan(Duration wait) {
        return Plan.of(Op.LATCH_WAIT, store.handle(), named().text(null).number(0).number(Args.waitMillis(wait)));
    }

    /**
     * Wait until it is open.
     *
     * @param wait how long to wait; null: for ever
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.Broken if a participant died
     * @throws HoldfastException.TimedOut if the time is over
     */
    public void await(Duration wait) throws InterruptedException {
        store.await(awaitPlan(wait));
    }

    /**
     * As {@link #await(Duration)}.
     *
     * @param wait how long to wait; null: for ever
     * @return completed when it is open
     */
    public CompletableFuture<Void> awaitAsync(Duration wait) {
        return store.async(awaitPlan(wait));
    }

    private Plan<State> getPlan() {
        return new Plan<>(Op.LATCH_GET, store.handle(), named(),
                result -> new State((int) result.check().count, (int) result.number));
    }

    /**
     * Its count, and how many are missing.
     *
     * @return the state
     * @throws HoldfastException.Broken if it is broken
     */
    public State get() {
        return store.join(getPlan());
    }

    /**
     * As {@link #get()}.
     *
     * @return the state
     */
    public CompletableFuture<State> getAsync() {
        return store.async(getPlan());
    }

    private Plan<Void> deletePlan() {
        return Plan.of(Op.LATCH_DELETE, store.handle(), named());
    }

    /**
     * Delete it; its waiters get {@link Status#NOT_FOUND}.
     */
    public void delete() {
        store.join(deletePlan());
    }

    /**
     * As {@link #delete()}.
     *
     * @return completed when it is deleted
     */
    public CompletableFuture<Void> deleteAsync() {
        return store.async(deletePlan());
    }
}
