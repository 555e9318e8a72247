// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A group: a list of those that are alive. A member is one for exactly as long as its lease is in the store.
 */
public final class Group {
    private final Store store;
    private final Name name;

    Group(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    /**
     * A request to join, which {@link #join(Request, String)} takes.
     *
     * @return a reader with the name of the group
     */
    public Request request() {
        return Request.shared(name);
    }

    private Plan<Lease> joinPlan(Request request, String value, boolean waits) {
        return store.acquirePlan(Op.MEMBER_JOIN, new Args().text(value), request, waits);
    }

    /**
     * Join.
     *
     * @param request of {@link #request()}, with options
     * @param value what to say of ourselves, at most 127 bytes; null: the label of the store
     * @return the lease of the member; {@link #leave(Lease)} ends it
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Lease join(Request request, String value) throws InterruptedException {
        return store.await(joinPlan(request, value, true));
    }

    /**
     * As {@link #join(Request, String)}.
     *
     * @param request of {@link #request()}, with options
     * @param value what to say of ourselves, at most 127 bytes; null: the label of the store
     * @return the lease of the member; {@link #leave(Lease)} ends it
     */
    public CompletableFuture<Lease> joinAsync(Request request, String value) {
        return store.async(joinPlan(request, value, false));
    }

    /**
     * Leave, and tell those that watch. The lease has ended, whatever happens.
     *
     * @param member the lease of the member
     */
    public void leave(Lease member) {
        store.calls().endAndJoin(member, Op.MEMBER_LEAVE, new Args());
    }

    /**
     * As {@link #leave(Lease)}.
     *
     * @param member the lease of the member
     * @return completed when it has left
     */
    public CompletableFuture<Void> leaveAsync(Lease member) {
        return store.calls().end(member, Op.MEMBER_LEAVE, new Args());
    }

    private Plan<Members> awaitPlan(Members last, Duration wait) {
        Args args = new Args().name(name).number(Args.waitMillis(wait)).number(last == null ? 0 : last.handle());
        return new Plan<>(Op.MEMBERS_WAIT, store.handle(), args, result -> Members.read(result.check().more)).keep(last);
    }

    /**
     * List the members, as of one moment; wait until they are others than those that were seen last.
     *
     * @param last what was seen last; null: return at once
     * @param wait how long to wait; null: for ever
     * @return the members
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.TimedOut if nobody has joined or left
     */
    public Members await(Members last, Duration wait) throws InterruptedException {
        return store.await(awaitPlan(last, wait));
    }

    /**
     * As {@link #await(Members, Duration)}.
     *
     * @param last what was seen last; null: return at once
     * @param wait how long to wait; null: for ever
     * @return the members
     */
    public CompletableFuture<Members> awaitAsync(Members last, Duration wait) {
        return store.async(awaitPlan(last, wait));
    }
}
