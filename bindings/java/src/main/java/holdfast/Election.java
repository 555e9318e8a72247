// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * An election: the holder of the lock leads, and publishes a value in the cell of the same name.
 */
public final class Election {
    private final Store store;
    private final Name name;

    Election(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    /**
     * A request to lead, which {@link #campaign(Request, byte[])} takes.
     *
     * @return a mutex with the name of the election
     */
    public Request request() {
        return Request.mutex(name);
    }

    private Plan<Lease> campaignPlan(Request request, byte[] value, boolean waits) {
        return store.acquirePlan(Op.CAMPAIGN, new Args().bytes(value), request, waits);
    }

    /**
     * Wait to lead, then publish a value.
     *
     * @param request of {@link #request()}, with options
     * @param value what to publish, at most 32768 bytes
     * @return the lease of the leader; {@link #resign(Lease)} ends it
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Lease campaign(Request request, byte[] value) throws InterruptedException {
        return store.await(campaignPlan(request, value, true));
    }

    /**
     * As {@link #campaign(Request, byte[])}.
     *
     * @param request of {@link #request()}, with options
     * @param value what to publish, at most 32768 bytes
     * @return the lease of the leader; {@link #resign(Lease)} ends it
     */
    public CompletableFuture<Lease> campaignAsync(Request request, byte[] value) {
        return store.async(campaignPlan(request, value, false));
    }

    private Plan<Void> publishPlan(Lease leader, byte[] value) {
        return Plan.of(Op.ELECTION_SET, leader.handle(), new Args().bytes(value));
    }

    /**
     * Publish another value.
     *
     * @param leader the lease of the leader
     * @param value what to publish
     * @throws HoldfastException.Lost if we do not lead any more
     * @throws HoldfastException.Fenced if a later leader has published
     */
    public void publish(Lease leader, byte[] value) {
        store.join(publishPlan(leader, value));
    }

    /**
     * As {@link #publish(Lease, byte[])}.
     *
     * @param leader the lease of the leader
     * @param value what to publish
     * @return completed when it is published
     */
    public CompletableFuture<Void> publishAsync(Lease leader, byte[] value) {
        return store.async(publishPlan(leader, value));
    }

    /**
     * Publish that nobody leads, and release. The lease has ended, whatever happens.
     *
     * @param leader the lease of the leader
     */
    public void resign(Lease leader) {
        store.calls().endAndJoin(leader, Op.RESIGN, new Args());
    }

    /**
     * As {@link #resign(Lease)}.
     *
     * @param leader the lease of the leader
     * @return completed when it has ended
     */
    public CompletableFuture<Void> resignAsync(Lease leader) {
        return store.calls().end(leader, Op.RESIGN, new Args());
    }

    private Plan<Leader> awaitPlan(Leader last, Duration wait) {
        Args args = new Args().name(name).number(Args.waitMillis(wait)).flag(last != null);
        if (last != null) {
            last.write(args);
        }
        return new Plan<>(Op.ELECTION_WAIT, store.handle(), args, result -> Leader.read(result.check().more));
    }

    /**
     * Wait until there is something else to see: another leader, another value, nobody.
     *
     * @param last what was seen last; null: return at once
     * @param wait how long to wait; null: for ever
     * @return what there is to see
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.TimedOut if there is nothing new
     */
    public Leader await(Leader last, Duration wait) throws InterruptedException {
        return store.await(awaitPlan(last, wait));
    }

    /**
     * As {@link #await(Leader, Duration)}.
     *
     * @param last what was seen last; null: return at once
     * @param wait how long to wait; null: for ever
     * @return what there is to see
     */
    public CompletableFuture<Leader> awaitAsync(Leader last, Duration wait) {
        return store.async(awaitPlan(last, wait));
    }
}
