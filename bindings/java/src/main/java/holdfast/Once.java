// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * Work that is to be done once: a lock, and a mark under its name that it has been done.
 */
public final class Once {
    private final Store store;
    private final Name name;

    Once(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    /**
     * A request to do it, which {@link #begin(Request, Duration)} takes.
     *
     * @return a mutex with the name of the work
     */
    public Request request() {
        return Request.mutex(name);
    }

    private static void giveBack(OnceAttempt attempt) {
        if (!attempt.isDone()) {
            attempt.lease().close();
        }
    }

    private Plan<OnceAttempt> beginPlan(Request request, Duration keep, boolean waits) {
        Args args = new Args().duration(keep);
        return store.acquirePlan(Op.ONCE_BEGIN, args, request, waits).mapOr(lease -> new OnceAttempt(lease, null), Status.DONE,
                result -> new OnceAttempt(null, OnceMark.read(result.more)), Once::giveBack);
    }

    /**
     * Begin. While somebody else is at work the call waits as the request says.
     *
     * @param request of {@link #request()}, with options
     * @param keep how long the mark stays; null: for ever
     * @return a lease: it is ours to do, then {@link #finish(Lease)} and {@link Lease#close()}; or the mark: it has been done
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public OnceAttempt begin(Request request, Duration keep) throws InterruptedException {
        return store.await(beginPlan(request, keep, true));
    }

    /**
     * As {@link #begin(Request, Duration)}.
     *
     * @param request of {@link #request()}, with options
     * @param keep how long the mark stays; null: for ever
     * @return a lease: it is ours to do, then {@link #finish(Lease)} and {@link Lease#close()}; or the mark: it has been done
     */
    public CompletableFuture<OnceAttempt> beginAsync(Request request, Duration keep) {
        return store.async(beginPlan(request, keep, false));
    }

    private Plan<Optional<OnceMark>> claimPlan(Lease lease, Duration keep) {
        return new Plan<>(Op.ONCE_CLAIM, lease.handle(), new Args().duration(keep), result -> {
            if (result.status == Status.DONE) {
                return Optional.of(OnceMark.read(result.more));
            }
            result.check();
            return Optional.empty();
        });
    }

    /**
     * Begin under a lease that is held already.
     *
     * @param lease the lease, of a mutex or a writer with the name of the work
     * @param keep how long the mark stays; null: for ever
     * @return empty: it is ours to do; or the mark: it has been done
     * @throws HoldfastException.Lost if it is too late
     * @throws HoldfastException.Fenced if a later lease is at work
     */
    public Optional<OnceMark> claim(Lease lease, Duration keep) {
        return store.join(claimPlan(lease, keep));
    }

    /**
     * As {@link #claim(Lease, Duration)}.
     *
     * @param lease the lease, of a mutex or a writer with the name of the work
     * @param keep how long the mark stays; null: for ever
     * @return empty: it is ours to do; or the mark: it has been done
     */
    public CompletableFuture<Optional<OnceMark>> claimAsync(Lease lease, Duration keep) {
        return store.async(claimPlan(lease, keep));
    }

    private Plan<Void> finishPlan(Lease lease) {
        return Plan.of(Op.ONCE_FINISH, lease.handle(), new Args());
    }

    /**
     * It is done: set the mark.
     *
     * @param lease of {@link #begin(Request, Duration)}
     * @throws HoldfastException.Fenced if somebody has begun after us: it is done once more
     */
    public void finish(Lease lease) {
        store.join(finishPlan(lease));
    }

    /**
     * As {@link #finish(Lease)}.
     *
     * @param lease of {@link #begin(Request, Duration)}
     * @return completed when the mark is set
     */
    public CompletableFuture<Void> finishAsync(Lease lease) {
        return store.async(finishPlan(lease));
    }

    private Plan<Optional<OnceMark>> getPlan() {
        return new Plan<>(Op.ONCE_GET, store.handle(), new Args().name(name), result -> {
            if (result.status == Status.NOT_FOUND) {
                return Optional.empty();
            }
            return Optional.of(OnceMark.read(result.check().more));
        });
    }

    /**
     * Has it been done?
     *
     * @return the mark; empty: it has not
     */
    public Optional<OnceMark> get() {
        return store.join(getPlan());
    }

    /**
     * As {@link #get()}.
     *
     * @return the mark; empty: it has not
     */
    public CompletableFuture<Optional<OnceMark>> getAsync() {
        return store.async(getPlan());
    }

    private Plan<Void> deletePlan() {
        return Plan.of(Op.ONCE_DELETE, store.handle(), new Args().name(name));
    }

    /**
     * Delete the mark: the next worker does it again.
     *
     * @throws HoldfastException.NotFound if there is none
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
