// SPDX-License-Identifier: MIT
package holdfast;

import java.util.concurrent.CompletableFuture;

/**
 * A counter: a 64-bit number under a name. One that does not exist is 0.
 *
 * <p>{@link Status#UNKNOWN} of a call that changes it: it may have been done, once. It is never sent twice.
 */
public final class Counter {
    private final Store store;
    private final Name name;

    Counter(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    private Args named() {
        return new Args().name(name);
    }

    private Plan<Long> getPlan() {
        return new Plan<>(Op.COUNTER_GET, store.handle(), named(), result -> result.check().number);
    }

    /**
     * Read it.
     *
     * @return the number
     */
    public long get() {
        return store.join(getPlan());
    }

    /**
     * As {@link #get()}.
     *
     * @return the number
     */
    public CompletableFuture<Long> getAsync() {
        return store.async(getPlan());
    }

    private Plan<Long> addPlan(long delta) {
        return new Plan<>(Op.COUNTER_ADD, store.handle(), named().number(delta), result -> result.check().number);
    }

    /**
     * Add to it.
     *
     * @param delta any number
     * @return the new number
     */
    public long add(long delta) {
        return store.join(addPlan(delta));
    }

    /**
     * As {@link #add(long)}.
     *
     * @param delta any number
     * @return the new number
     */
    public CompletableFuture<Long> addAsync(long delta) {
        return store.async(addPlan(delta));
    }

    private Plan<Void> setPlan(long value) {
        return Plan.of(Op.COUNTER_SET, store.handle(), named().number(value));
    }

    /**
     * Set it.
     *
     * @param value the new number
     */
    public void set(long value) {
        store.join(setPlan(value));
    }

    /**
     * As {@link #set(long)}.
     *
     * @param value the new number
     * @return completed when it is set
     */
    public CompletableFuture<Void> setAsync(long value) {
        return store.async(setPlan(value));
    }

    private Plan<Swapped> swapPlan(long expected, long value) {
        return new Plan<>(Op.COUNTER_SWAP, store.handle(), named().number(expected).number(value), result -> {
            if (result.status != Status.CHANGED) {
                result.check();
            }
            return new Swapped(result.status == Status.OK, result.number);
        });
    }

    /**
     * Set it if it is what is expected, atomically.
     *
     * @param expected what it must be
     * @param value the new number
     * @return whether it was set, and the present number
     */
    public Swapped swap(long expected, long value) {
        return store.join(swapPlan(expected, value));
    }

    /**
     * As {@link #swap(long, long)}.
     *
     * @param expected what it must be
     * @param value the new number
     * @return whether it was set, and the present number
     */
    public CompletableFuture<Swapped> swapAsync(long expected, long value) {
        return store.async(swapPlan(expected, value));
    }

    private Plan<Void> deletePlan() {
        return Plan.of(Op.COUNTER_DELETE, store.handle(), named());
    }

    /**
     * Delete it. It is no error if it did not exist.
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
