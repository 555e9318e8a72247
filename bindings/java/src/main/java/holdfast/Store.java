// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A store of locks and of what is built on them. Any thread may use it.
 *
 * <p>Calls that wait are ended by {@link Thread#interrupt()} with an InterruptedException; nothing is held then. Futures are
 * ended by {@link CompletableFuture#cancel(boolean)}; a grant that comes at the same moment is given back. Calls that take a
 * round trip only are not interruptible.
 */
public final class Store implements AutoCloseable {
    private static final long RELEASE = 1;

    private final long handle;
    private final Poller poller;
    private final Calls calls;
    private final Holds holds;
    private volatile boolean closed;
    /** One attempt to close at a time: one that fails starts the poller again. */
    private final ReentrantLock closing = new ReentrantLock();

    Store(long handle, Executor executor) {
        this.handle = handle;
        poller = new Poller(handle);
        calls = new Calls(poller, executor);
        holds = new Holds(this, calls, poller, executor);
    }

    long handle() {
        return handle;
    }

    boolean isClosed() {
        return closed;
    }

    Holds holds() {
        return holds;
    }

    Calls calls() {
        return calls;
    }

    <T> T join(Plan<T> plan) {
        return calls.join(plan);
    }

    <T> T await(Plan<T> plan) throws InterruptedException {
        return calls.await(plan);
    }

    <T> CompletableFuture<T> async(Plan<T> plan) {
        return calls.async(plan);
    }

    Plan<Lease> acquirePlan(Op op, Args first, Request request, boolean waits) {
        return holds.acquirePlan(op, first, request, waits);
    }

    // ---- the store itself

    /**
     * What this store is, and what it can do.
     *
     * @return the information
     */
    public StoreInfo info() {
        return StoreInfo.read(new Reader(Native.storeInfo(handle)));
    }

    /**
     * What this process has done with this store, as numbers: for metrics.
     *
     * @return the numbers
     */
    public StoreStats stats() {
        return StoreStats.read(new Reader(Native.stats(handle)));
    }

    /**
     * Close the store: release what is held, and cancel what waits. Leases become {@link LeaseState#LOST}. Not from within a
     * listener. Nothing happens if it is closed already.
     */
    @Override
    public void close() {
        if (!closed) {
            close(RELEASE);
        }
    }

    /**
     * Close the store if nothing is held and nothing waits.
     *
     * @throws HoldfastException.InUse otherwise; the store stays open
     */
    public void closeIfUnused() {
        close(0);
    }

    private void close(long flags) {
        if (poller.isCurrent()) {
            throw new IllegalStateException("a store cannot be closed by a function of one of its own cells");
        }
        Status status;
        closing.lock();
        try {
            poller.stop();
            status = Status.of(Native.close(handle, flags));
            if (status == Status.IN_USE) {
                poller.resume();
            } else {
                closed = true;
                poller.close();
            }
        } finally {
            closing.unlock();
        }
        if (status != Status.IN_USE) {
            holds.close(); /* without the lock: it waits for listeners */
        }
        if (status != Status.OK && !(status == Status.INVALID && flags == RELEASE)) {
            throw HoldfastException.of(status, 0, null);
        }
    }

    /**
     * Is this store safe for what it promises?
     *
     * @return the findings
     */
    public List<Finding> check() {
        return join(checkPlan());
    }

    /**
     * As {@link #check()}.
     *
     * @return the findings
     */
    public CompletableFuture<List<Finding>> checkAsync() {
        return async(checkPlan());
    }

    private Plan<List<Finding>> checkPlan() {
        return new Plan<>(Op.CHECK, handle, new Args(), result -> {
            Reader in = result.check().more;
            return in.list(() -> Finding.read(in));
        });
    }

    /** Give back all leases that linger, before the process ends. {@link #close()} does so too. */
    public void releaseIdle() {
        Native.releaseIdle(handle);
    }

    /**
     * Acquire what a request asks for.
     *
     * @param request the request
     * @return the lease
     * @throws InterruptedException if the thread was interrupted; nothing is held
     * @throws HoldfastException.Busy if the request does not wait, and somebody else holds it
     * @throws HoldfastException.TimedOut if the time is over
     * @throws HoldfastException.Deadlock if to wait would be a deadlock
     */
    public Lease acquire(Request request) throws InterruptedException {
        return holds.acquire(request);
    }

    /**
     * Try once, however long the request would wait. In a try-with-resources: {@code tryAcquire(request).orElse(null)}, which closes
     * nothing if it is null.
     *
     * @param request the request
     * @return the lease; empty: it is busy
     */
    public Optional<Lease> tryAcquire(Request request) {
        return Optional.ofNullable(holds.tryNow(request));
    }

    /**
     * Try for some time.
     *
     * @param request the request
     * @param wait how long
     * @return the lease; empty: it is busy, and the time is over
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public Optional<Lease> tryAcquire(Request request, Duration wait) throws InterruptedException {
        try {
            return Optional.of(acquire(request.waitAtMost(wait)));
        } catch (HoldfastException.Busy | HoldfastException.TimedOut e) {
            return Optional.empty();
        }
    }

    /**
     * As {@link #acquire(Request)}.
     *
     * @param request the request
     * @return the lease
     */
    public CompletableFuture<Lease> acquireAsync(Request request) {
        return async(acquirePlan(Op.ACQUIRE, new Args(), request, false));
    }

    // ---- several names at once

    /**
     * Acquire all that the requests ask for, or nothing. At most 64; all have the same time to wait, which is the limit for
     * all of them together, and different names.
     *
     * @param requests the requests
     * @return the leases, in the order of the requests
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public List<Lease> acquireAll(List<Request> requests) throws InterruptedException {
        return await(holds.allPlan(List.copyOf(requests), true));
    }

    /**
     * As {@link #acquireAll(List)}.
     *
     * @param requests the requests
     * @return the leases
     */
    public CompletableFuture<List<Lease>> acquireAllAsync(List<Request> requests) {
        return async(holds.allPlan(List.copyOf(requests), false));
    }

    /**
     * Acquire one of the things that the requests ask for, whichever comes free first.
     *
     * @param requests the requests, tried in this order
     * @return the lease, and which request it is of
     * @throws InterruptedException if the thread was interrupted; nothing is held
     */
    public AnyLease acquireAny(List<Request> requests) throws InterruptedException {
        return await(holds.anyPlan(List.copyOf(requests), true));
    }

    /**
     * As {@link #acquireAny(List)}.
     *
     * @param requests the requests
     * @return the lease
     */
    public CompletableFuture<AnyLease> acquireAnyAsync(List<Request> requests) {
        return async(holds.anyPlan(List.copyOf(requests), false));
    }

    /**
     * Release leases of this store, whatever happens.
     *
     * @param leases the leases
     * @throws HoldfastException with the first status that was not OK
     */
    public void releaseAll(List<Lease> leases) {
        holds.releaseAll(leases);
    }

    // ---- administration

    /**
     * Take over a detached lease by its text ({@link Lease#export()}).
     *
     * @param name the name of the lease
     * @param text the text
     * @param ttl renewed for this long from now; zero: as before
     * @param renew go on renewing it
     * @return the lease
     */
    public Lease adopt(Name name, String text, Duration ttl, boolean renew) {
        return join(adoptPlan(name, text, ttl, renew));
    }

    /**
     * As {@link #adopt(Name, String, Duration, boolean)}.
     *
     * @param name the name of the lease
     * @param text the text
     * @param ttl renewed for this long from now; zero: as before
     * @param renew go on renewing it
     * @return the lease
     */
    public CompletableFuture<Lease> adoptAsync(Name name, String text, Duration ttl, boolean renew) {
        return async(adoptPlan(name, text, ttl, renew));
    }

    private Plan<Lease> adoptPlan(Name name, String text, Duration ttl, boolean renew) {
        Args args = new Args().name(name).text(text).duration(ttl).flag(renew);
        return new Plan<>(Op.ADOPT, handle, args, result -> new Lease(this, name, result.check().lease, null))
                .undo(Lease::close);
    }

    /**
     * End exactly the lease that holds a name with a token, whoever owns it. Its holder is told.
     *
     * @param name the name
     * @param token the token
     * @throws HoldfastException.NotFound if no lease has that token now
     */
    public void breakLease(Name name, long token) {
        join(breakPlan(name, token));
    }

    /**
     * As {@link #breakLease(Name, long)}.
     *
     * @param name the name
     * @param token the token
     * @return completed when it has ended
     */
    public CompletableFuture<Void> breakLeaseAsync(Name name, long token) {
        return async(breakPlan(name, token));
    }

    private Plan<Void> breakPlan(Name name, long token) {
        return Plan.of(Op.BREAK, handle, new Args().name(name).number(token));
    }

    /**
     * Ask the holders of a name to give it away: {@link LeaseEvent.Type#ASKED}.
     *
     * @param name the name
     * @param text what to say; null: the label of the store
     * @throws HoldfastException.Busy if it is held, and no holder listens
     * @throws HoldfastException.NotFound if nobody holds it
     */
    public void ask(Name name, String text) {
        join(Plan.of(Op.ASK, handle, new Args().name(name).text(text)));
    }

    /**
     * As {@link #ask(Name, String)}.
     *
     * @param name the name
     * @param text what to say; null: the label of the store
     * @return completed when all holders were told
     */
    public CompletableFuture<Void> askAsync(Name name, String text) {
        return async(Plan.of(Op.ASK, handle, new Args().name(name).text(text)));
    }

    /**
     * Holders and waiters of one name.
     *
     * @param name the name
     * @return its entry; empty: nobody holds it or waits for it
     */
    public Optional<Entry> inspect(Name name) {
        return join(inspectPlan(name, 0)).entries().stream().findFirst();
    }

    /**
     * Holders and waiters of many names.
     *
     * @param pattern with * ? [a-z] and \; null: all names
     * @return the view
     */
    public View inspectAll(String pattern) {
        return join(inspectPlan(pattern == null ? null : Name.of(pattern), 1));
    }

    /**
     * As {@link #inspectAll(String)}.
     *
     * @param pattern with * ? [a-z] and \; null: all names
     * @return the view
     */
    public CompletableFuture<View> inspectAllAsync(String pattern) {
        return async(inspectPlan(pattern == null ? null : Name.of(pattern), 1));
    }

    private Plan<View> inspectPlan(Name name, long flags) {
        Args args = new Args().bytes(name == null ? null : name.raw()).number(flags);
        return new Plan<>(Op.INSPECT, handle, args, result -> View.read(result.check().more));
    }

    /**
     * The cycles of waiters that are in the store now.
     *
     * @return the cycles; the first waiter of each will get {@link Status#DEADLOCK}
     */
    public List<List<DeadlockWaiter>> deadlocks() {
        return join(deadlocksPlan());
    }

    /**
     * As {@link #deadlocks()}.
     *
     * @return the cycles
     */
    public CompletableFuture<List<List<DeadlockWaiter>>> deadlocksAsync() {
        return async(deadlocksPlan());
    }

    private Plan<List<List<DeadlockWaiter>>> deadlocksPlan() {
        return new Plan<>(Op.DEADLOCKS, handle, new Args(), result -> {
            Reader in = result.check().more;
            return in.list(() -> in.list(() -> DeadlockWaiter.read(in)));
        });
    }

    /**
     * Wait until something in the store has changed.
     *
     * @param since the number that this call returned last; 0: since now
     * @param wait how long; null: for ever
     * @return the number of the change
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.TimedOut if nothing changed
     */
    public long awaitChange(long since, Duration wait) throws InterruptedException {
        return await(changePlan(since, wait));
    }

    /**
     * As {@link #awaitChange(long, Duration)}.
     *
     * @param since the number that this call returned last; 0: since now
     * @param wait how long; null: for ever
     * @return the number of the change
     */
    public CompletableFuture<Long> awaitChangeAsync(long since, Duration wait) {
        return async(changePlan(since, wait));
    }

    private Plan<Long> changePlan(long since, Duration wait) {
        Args args = new Args().number(since).number(Args.waitMillis(wait));
        return new Plan<>(Op.STORE_WAIT, handle, args, result -> result.check().version);
    }

    // ---- what is in it

    /**
     * A lock with the interface of {@code java.util.concurrent.locks}: a reentrant mutex.
     *
     * @param name the name
     * @return the lock; nothing is acquired yet
     */
    public HoldfastLock lock(String name) {
        return lock(Request.mutex(name).reentrant());
    }

    /**
     * A lock that acquires as a request says.
     *
     * @param request the request; {@link Request#reentrant()} if a thread shall be able to lock it again
     * @return the lock; nothing is acquired yet
     */
    public HoldfastLock lock(Request request) {
        return new HoldfastLock(this, request);
    }

    /**
     * A read-write lock with the interface of {@code java.util.concurrent.locks}. Both locks are reentrant.
     *
     * @param name the name
     * @return the lock; nothing is acquired yet
     */
    public HoldfastReadWriteLock readWriteLock(String name) {
        return new HoldfastReadWriteLock(this, Name.of(name));
    }

    /**
     * A semaphore.
     *
     * @param name the name
     * @param capacity how many permits there are, the same for all
     * @return the semaphore; nothing is acquired yet
     */
    public HoldfastSemaphore semaphore(String name, int capacity) {
        return new HoldfastSemaphore(this, Request.semaphore(name, capacity));
    }

    /**
     * A semaphore whose permits are acquired as a request says.
     *
     * @param request the request
     * @return the semaphore; nothing is acquired yet
     */
    public HoldfastSemaphore semaphore(Request request) {
        return new HoldfastSemaphore(this, request);
    }

    /**
     * A cell: bytes with a version.
     *
     * @param name the name
     * @return the cell
     */
    public Cell cell(String name) {
        return new Cell(this, Name.of(name));
    }

    /**
     * A cell: bytes with a version.
     *
     * @param name the name
     * @return the cell
     */
    public Cell cell(Name name) {
        return new Cell(this, name);
    }

    /**
     * Change several cells in one step, if each has the version that its item expects; else nothing.
     *
     * @param items at most 64
     * @return whether it was done
     */
    public CommitResult commit(List<CellItem> items) {
        return join(CellItem.plan(this, items));
    }

    /**
     * As {@link #commit(List)}.
     *
     * @param items at most 64
     * @return whether it was done
     */
    public CompletableFuture<CommitResult> commitAsync(List<CellItem> items) {
        return async(CellItem.plan(this, items));
    }

    /**
     * A counter: a 64-bit number.
     *
     * @param name the name
     * @return the counter
     */
    public Counter counter(String name) {
        return new Counter(this, Name.of(name));
    }

    /**
     * A guarded resource, which refuses tokens that are lower than the highest it has seen.
     *
     * @param name the name
     * @return the resource
     */
    public Guard guard(String name) {
        return new Guard(this, Name.of(name));
    }

    /**
     * A rate limit.
     *
     * @param name the name
     * @param algorithm the algorithm
     * @param rate permits in each interval
     * @param per the interval
     * @return the limit
     */
    public Limit limit(String name, Limit.Algorithm algorithm, int rate, Duration per) {
        return new Limit(this, Name.of(name), algorithm, rate, per, 0);
    }

    /**
     * A latch: it opens when a number of participants have counted down.
     *
     * @param name the name
     * @return the latch
     */
    public Latch latch(String name) {
        return new Latch(this, Name.of(name));
    }

    /**
     * A barrier.
     *
     * @param name the name
     * @param parties how many participants, the same for all
     * @return the barrier
     */
    public Barrier barrier(String name, int parties) {
        return new Barrier(this, Name.of(name), parties, null);
    }

    /**
     * An election.
     *
     * @param name the name
     * @return the election
     */
    public Election election(String name) {
        return new Election(this, Name.of(name));
    }

    /**
     * A group, whose members are those that are alive.
     *
     * @param name the name
     * @return the group
     */
    public Group group(String name) {
        return new Group(this, Name.of(name));
    }

    /**
     * Work that is to be done once.
     *
     * @param name the name
     * @return the work
     */
    public Once once(String name) {
        return new Once(this, Name.of(name));
    }
}
