// SPDX-License-Identifier: MIT
package holdfast;

import java.lang.ref.Cleaner;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Something that is held, until it is closed or lost.
 *
 * <p>A lease that is forgotten is reported through {@code System.Logger} "holdfast" when the garbage collector finds it. It is
 * not released then, because what it protects may still be at work: it stays held until its store is closed or the process
 * ends.
 *
 * <p>Any thread may use a lease.
 */
public final class Lease implements AutoCloseable {
    /** The validity of a lease that does not end by itself. */
    public static final Duration NO_LIMIT = Duration.ofMillis(Long.MAX_VALUE);

    private final Store store;
    private final Name name;
    private final Sink sink;
    private final Track track;
    private final Cleaner.Cleanable cleanable;

    /** The handle in C; 0: it has ended. What the garbage collector leaves of a forgotten lease. */
    private static final class Track extends AtomicLong implements Runnable {
        private static final long serialVersionUID = 1;
        private final transient Store store;
        private final transient Name name;

        Track(Store store, Name name, long handle) {
            super(handle);
            this.store = store;
            this.name = name;
        }

        @Override
        public void run() {
            long handle = get();
            if (handle != 0 && !store.isClosed()) {
                Log.warn("a lease was forgotten: '" + name + "', token " + Native.token(handle)
                        + "; it stays held until its store is closed or the process ends");
            }
        }
    }

    Lease(Store store, Name name, long handle, Sink sink) {
        this.store = store;
        this.name = name;
        this.sink = sink;
        track = new Track(store, name, handle);
        cleanable = Log.CLEANER.register(this, track);
    }

    /** The handle for a call; one that has ended is refused by C. */
    long handle() {
        return track.get();
    }

    Store store() {
        return store;
    }

    /** The caller ends the lease now, and is the only one that does. 0: it has ended. */
    long take() {
        return track.getAndSet(0);
    }

    /** It was not ended after all. */
    void untake(long handle) {
        track.set(handle);
    }

    /** After C has ended the handle. */
    void ended() {
        cleanable.clean();
        if (sink != null && sink.end()) {
            store.holds().forget(sink);
        }
    }

    /**
     * The name.
     *
     * @return the name
     */
    public Name name() {
        return name;
    }

    /**
     * The token: larger than that of every earlier conflicting lease of the name. Of a reader or of some permits of a
     * semaphore it is an id and not a fence; see {@link #fence()}.
     *
     * @return the token, 0 if the engine has none or the lease has ended
     */
    public long token() {
        return Native.token(handle());
    }

    /**
     * The token as a fence for a {@link Guard}.
     *
     * @return the token
     * @throws HoldfastException.Unsupported if it is no fence: other leases of the name may overlap with this one
     * @throws HoldfastException.Lost if it is too late to begin
     */
    public long fence() {
        return Native.fence(handle());
    }

    /**
     * How it stands.
     *
     * @return the state; {@link LeaseState#LOST} if it has ended
     */
    public LeaseState state() {
        return LeaseState.of(Native.state(handle()));
    }

    /**
     * Is it still ours, by our own clock?
     *
     * @return false if it is lost or has ended
     */
    public boolean isValid() {
        return Native.remaining(handle()) > 0;
    }

    /**
     * The validity left.
     *
     * @return zero if it is lost or has ended; {@link #NO_LIMIT} if it does not end by itself
     */
    public Duration remaining() {
        return Duration.ofMillis(Native.remaining(handle()));
    }

    /**
     * All of it in one step.
     *
     * @return the information
     */
    public LeaseInfo info() {
        return LeaseInfo.read(new Reader(Native.leaseInfo(handle())));
    }

    /**
     * Do others wait for it? For leases with {@link Request#watch()}.
     *
     * @return whether others wait
     */
    public boolean isWanted() {
        return Native.wanted(handle());
    }

    // ---- its end

    /**
     * Give it back. Nothing happens if it has ended before.
     *
     * @throws HoldfastException.Lost if it was lost before: what it protected was not protected to the end
     * @throws HoldfastException if the store could not be told; the library goes on trying
     */
    @Override
    public void close() {
        long handle = take();
        if (handle == 0) {
            return;
        }
        try {
            store.holds().release(handle);
        } catch (HoldfastException e) {
            if (e.status() == Status.FORKED) {
                untake(handle);
            }
            throw e;
        } finally {
            if (handle() == 0) {
                ended();
            }
        }
    }

    /**
     * Give it back, and say how that went instead of throwing.
     *
     * @return {@link Status#OK}, {@link Status#LOST}, {@link Status#UNKNOWN} ...; {@link Status#OK} if it has ended before
     */
    public Status release() {
        try {
            close();
            return Status.OK;
        } catch (HoldfastException e) {
            return e.status();
        }
    }

    /**
     * Give it back, without waiting. It cannot be cancelled.
     *
     * @return completed when the store has confirmed it; exceptionally as {@link #close()}
     */
    public CompletableFuture<Void> closeAsync() {
        return store.calls().end(this, Op.RELEASE, new Args());
    }

    // ---- its time

    /** Renew now, for as long as before. See {@link #renew(Duration)}. */
    public void renew() {
        renew(Duration.ZERO);
    }

    /**
     * Renew now.
     *
     * @param ttl for how long from now; zero: as before
     * @throws HoldfastException.Lost if it is too late
     */
    public void renew(Duration ttl) {
        store.join(renewPlan(ttl));
    }

    /**
     * Renew now, without waiting.
     *
     * @param ttl for how long from now; zero: as before
     * @return completed when it is confirmed
     */
    public CompletableFuture<Void> renewAsync(Duration ttl) {
        return store.async(renewPlan(ttl));
    }

    private Plan<Void> renewPlan(Duration ttl) {
        return Plan.of(Op.RENEW, handle(), new Args().duration(ttl));
    }

    // ---- others that wait

    /**
     * If others wait for it, give it to them and queue for it again behind them. For leases with {@link Request#watch()}.
     *
     * @param wait how long to wait for its return; null: for ever
     * @return true: it was given away and is ours again, with a new token: what it protects may have changed. False: nobody
     *         waits, and it stays
     * @throws InterruptedException if the thread was interrupted; the lease has ended then
     * @throws HoldfastException if it did not come back; the lease has ended then. {@link Status#INVALID}: it was closed
     *         meanwhile, and what came back was given back
     */
    public boolean yield(Duration wait) throws InterruptedException {
        try {
            return store.await(yieldPlan(wait));
        } catch (InterruptedException e) {
            release(); /* if it was interrupted before it began */
            throw e;
        }
    }

    /**
     * As {@link #yield(Duration)}. To cancel the future ends the lease.
     *
     * @param wait how long to wait for its return; null: for ever
     * @return whether it was given away
     */
    public CompletableFuture<Boolean> yieldAsync(Duration wait) {
        return store.async(yieldPlan(wait));
    }

    private Plan<Boolean> yieldPlan(Duration wait) {
        long old = handle();
        return new Plan<>(Op.YIELD, old, new Args().number(Args.waitMillis(wait)), result -> {
            if (result.status != Status.OK && result.status != Status.YIELDED) {
                lose(old, result.status);
                throw result.error();
            }
            replace(old, result.lease);
            return result.status == Status.YIELDED;
        }).undo(given -> close());
    }

    /** C says that nothing is held any more, except with these statuses, which change nothing. */
    private void lose(long old, Status status) {
        if (status != Status.INVALID && status != Status.LOST && status != Status.FORKED && status != Status.IN_USE
                && track.compareAndSet(old, 0)) {
            ended();
        }
    }

    /** Another handle for the same lease. If it was closed meanwhile, the new one has no owner and is given back. */
    private void replace(long old, long now) {
        if (now == 0 || now == old || track.compareAndSet(old, now)) {
            return;
        }
        try {
            store.holds().release(now);
        } catch (HoldfastException e) {
            /* lost, or the library goes on trying: either way it is not ours */
        }
        throw HoldfastException.of(Status.INVALID, 0, "the lease was closed meanwhile");
    }

    /**
     * Make a lease of a read-write lock one of another kind, without a gap in which somebody else could write. It has a new
     * token then.
     *
     * @param kind {@link Kind#SHARED}, {@link Kind#UPGRADEABLE} or {@link Kind#EXCLUSIVE}
     * @param wait how long to wait; null: for ever
     * @throws InterruptedException if the thread was interrupted; the lease is still held, and {@link #info()} tells its kind
     * @throws HoldfastException if it could not be converted; unless it is lost, it is still held with its old kind
     */
    public void convert(Kind kind, Duration wait) throws InterruptedException {
        store.await(convertPlan(kind, wait));
    }

    /**
     * As {@link #convert(Kind, Duration)}. If the future is cancelled, the lease is still held, and {@link #info()} tells its
     * kind.
     *
     * @param kind the kind
     * @param wait how long to wait; null: for ever
     * @return completed when it has that kind
     */
    public CompletableFuture<Void> convertAsync(Kind kind, Duration wait) {
        return store.async(convertPlan(kind, wait));
    }

    private Plan<Void> convertPlan(Kind kind, Duration wait) {
        long old = handle();
        Args args = new Args().number(kind.ordinal()).number(Args.waitMillis(wait));
        return new Plan<>(Op.CONVERT, old, args, result -> {
            replace(old, result.check().lease);
            return null;
        });
    }

    // ---- other processes

    /**
     * A detached lease as text that another process can give to {@link Store#adopt(Name, String, Duration, boolean)}. Whoever
     * has it can release the lease.
     *
     * @return the text
     */
    public String export() {
        return Native.export(handle());
    }

    /**
     * The session that holds it, for a process that works for us ({@link Request#session(String)}).
     *
     * @param around the same text of a process for which we work; null: none
     * @return the text
     */
    public String session(String around) {
        return new Reader(Native.session(handle(), new Args().text(around).done())).text();
    }

    /**
     * Write a cell that lives as long as this lease.
     *
     * @param cell the name of the cell
     * @param bytes at most 32768 bytes
     */
    public void setCell(Name cell, byte[] bytes) {
        store.join(setCellPlan(cell, bytes));
    }

    /**
     * As {@link #setCell(Name, byte[])}.
     *
     * @param cell the name of the cell
     * @param bytes at most 32768 bytes
     * @return completed when it is written
     */
    public CompletableFuture<Void> setCellAsync(Name cell, byte[] bytes) {
        return store.async(setCellPlan(cell, bytes));
    }

    private Plan<Void> setCellPlan(Name cell, byte[] bytes) {
        return Plan.of(Op.LEASE_CELL_SET, handle(), new Args().name(cell).bytes(Objects.requireNonNull(bytes, "bytes")));
    }

    @Override
    public String toString() {
        return "lease of '" + name + "', token " + token() + ", " + state();
    }
}
