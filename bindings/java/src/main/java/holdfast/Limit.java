// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A rate limit. It exists by being used: all that share it have the same rule. Only the clock of the store counts.
 */
public final class Limit {
    /** How permits come back. */
    public enum Algorithm {
        /** A window begins with its first call; then comes the next one. */
        FIXED,
        /** Never more than the rate in any interval. */
        SLIDING,
        /** A bucket that is refilled at the rate. */
        BUCKET;

        static Algorithm of(int number) {
            return values()[number];
        }
    }

    private final Store store;
    private final Name name;
    private final Algorithm algorithm;
    private final int rate;
    private final Duration per;
    private final int burst;

    Limit(Store store, Name name, Algorithm algorithm, int rate, Duration per, int burst) {
        this.store = store;
        this.name = name;
        this.algorithm = algorithm;
        this.rate = rate;
        this.per = per;
        this.burst = burst;
    }

    /**
     * The same limit as a bucket that lets more pass at once.
     *
     * @param most the most at once
     * @return the limit
     */
    public Limit burst(int most) {
        return new Limit(store, name, algorithm, rate, per, most);
    }

    private Plan<LimitState> plan(Op op, int rule, int permits, long wait) {
        Args args = new Args().name(name).number(algorithm.ordinal()).number(rule).duration(per).number(burst)
                .number(permits).number(wait);
        return new Plan<>(op, store.handle(), args, result -> {
            if (result.status != Status.BUSY && result.status != Status.TIMEOUT || result.more == null || result.part == 0) {
                result.check();
            }
            return result.part == 0 ? null : LimitState.read(result.status == Status.OK, result.more);
        });
    }

    private Plan<LimitState> takePlan(int permits, Duration wait) {
        return plan(Op.LIMIT_TAKE, rate, permits, Args.waitMillis(wait));
    }

    /**
     * Take permits. A call that waits has its place at once, and sleeps until then.
     *
     * @param permits how many, all or none
     * @param wait how long to wait at most; zero: not at all; null: for ever
     * @return with {@link LimitState#granted()} false if they would not come in time; that is said at once
     * @throws InterruptedException if the thread was interrupted
     */
    public LimitState take(int permits, Duration wait) throws InterruptedException {
        return store.await(takePlan(permits, wait));
    }

    /**
     * As {@link #take(int, Duration)}.
     *
     * @param permits how many, all or none
     * @param wait how long to wait at most; zero: not at all; null: for ever
     * @return with {@link LimitState#granted()} false if they would not come in time; that is said at once
     */
    public CompletableFuture<LimitState> takeAsync(int permits, Duration wait) {
        return store.async(takePlan(permits, wait));
    }

    private Plan<LimitState> getPlan() {
        return plan(Op.LIMIT_GET, rate, 0, 0);
    }

    /**
     * What is left of it, and its rule. Takes nothing.
     *
     * @return the state
     */
    public LimitState get() {
        return store.join(getPlan());
    }

    /**
     * As {@link #get()}.
     *
     * @return the state
     */
    public CompletableFuture<LimitState> getAsync() {
        return store.async(getPlan());
    }

    private Plan<LimitState> setRulePlan() {
        return plan(Op.LIMIT_SET, rate, 0, 0);
    }

    /**
     * Set the rule to that of this object, also while the limit is in use. From then on it counts, whatever requests say.
     *
     * @return the state
     */
    public LimitState setRule() {
        return store.join(setRulePlan());
    }

    /**
     * As {@link #setRule()}.
     *
     * @return the state
     */
    public CompletableFuture<LimitState> setRuleAsync() {
        return store.async(setRulePlan());
    }

    private Plan<Void> unsetRulePlan() {
        return new Plan<>(Op.LIMIT_SET, store.handle(), new Args().name(name).number(algorithm.ordinal()).number(0)
                .duration(per).number(burst).number(0).number(0), result -> {
                    result.check();
                    return null;
                });
    }

    /**
     * No rule is set any more: that of the next request counts.
     */
    public void unsetRule() {
        store.join(unsetRulePlan());
    }

    /**
     * As {@link #unsetRule()}.
     *
     * @return completed when it is done
     */
    public CompletableFuture<Void> unsetRuleAsync() {
        return store.async(unsetRulePlan());
    }
}
