// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * What to acquire, and how. Requests are immutable: each method returns another one.
 *
 * <p>A request waits for ever unless it says otherwise. Durations are rounded up to milliseconds.
 */
public final class Request {
    private static final long BARGE = 1;
    static final long REENTRANT = 1 << 1;
    private static final long NO_RENEW = 1 << 2;
    private static final long DETACHED = 1 << 3;
    private static final long STRICT = 1 << 4;
    private static final long NO_DEADLOCK_CHECK = 1 << 5;
    private static final long WATCH = 1 << 6;
    private static final long NUMBERED = 1 << 7;

    private final Fields fields;
    /** All but the time to wait, the scope and the sink, as C reads it. */
    private final byte[] wanted;

    /** All fields; a copy is changed before its request is made. */
    private static final class Fields implements Cloneable {
        Name name;
        Kind kind = Kind.MUTEX;
        int capacity;
        int permits;
        long flags;
        long waitMillis = Native.FOREVER;
        long ttl;
        long maxHold;
        long minValid;
        long minHold;
        long lockDelay;
        long linger;
        long scope;
        String label;
        String session;
        Consumer<LeaseEvent> listener;

        Fields copy() {
            try {
                return (Fields) clone();
            } catch (CloneNotSupportedException e) {
                throw new AssertionError(e);
            }
        }
    }

    private Request(Fields fields) {
        this.fields = fields;
        wanted = new Args().name(fields.name).number(fields.kind.ordinal()).number(fields.capacity)
                .number(fields.permits).number(fields.flags).number(fields.ttl).number(fields.maxHold)
                .number(fields.minValid).number(fields.minHold).number(fields.lockDelay).number(fields.linger)
                .text(fields.label).text(fields.session).done();
    }

    private Request with(Consumer<Fields> change) {
        Fields copy = fields.copy();
        change.accept(copy);
        return new Request(copy);
    }

    private Request flag(long flag) {
        return with(copy -> copy.flags |= flag);
    }

    private static Request of(Name name, Kind kind) {
        Fields fields = new Fields();
        fields.name = Objects.requireNonNull(name, "name");
        fields.kind = kind;
        return new Request(fields);
    }

    /**
     * A mutex.
     *
     * @param name the name
     * @return the request
     */
    public static Request mutex(String name) {
        return mutex(Name.of(name));
    }

    /**
     * A mutex.
     *
     * @param name the name
     * @return the request
     */
    public static Request mutex(Name name) {
        return of(name, Kind.MUTEX);
    }

    /**
     * A reader of a read-write lock.
     *
     * @param name the name
     * @return the request
     */
    public static Request shared(String name) {
        return shared(Name.of(name));
    }

    /**
     * A reader of a read-write lock.
     *
     * @param name the name
     * @return the request
     */
    public static Request shared(Name name) {
        return of(name, Kind.SHARED);
    }

    /**
     * The writer of a read-write lock.
     *
     * @param name the name
     * @return the request
     */
    public static Request exclusive(String name) {
        return exclusive(Name.of(name));
    }

    /**
     * The writer of a read-write lock.
     *
     * @param name the name
     * @return the request
     */
    public static Request exclusive(Name name) {
        return of(name, Kind.EXCLUSIVE);
    }

    /**
     * The one reader of a read-write lock that may become the writer.
     *
     * @param name the name
     * @return the request
     */
    public static Request upgradeable(String name) {
        return upgradeable(Name.of(name));
    }

    /**
     * The one reader of a read-write lock that may become the writer.
     *
     * @param name the name
     * @return the request
     */
    public static Request upgradeable(Name name) {
        return of(name, Kind.UPGRADEABLE);
    }

    /**
     * A permit of a semaphore.
     *
     * @param name the name
     * @param capacity how many permits there are, the same in all requests
     * @return the request
     */
    public static Request semaphore(String name, int capacity) {
        return semaphore(Name.of(name), capacity);
    }

    /**
     * A permit of a semaphore.
     *
     * @param name the name
     * @param capacity how many permits there are, the same in all requests
     * @return the request
     */
    public static Request semaphore(Name name, int capacity) {
        return of(name, Kind.SEMAPHORE).with(copy -> copy.capacity = capacity);
    }

    /**
     * Take several permits of a semaphore, all or none.
     *
     * @param permits how many
     * @return the request
     */
    public Request permits(int permits) {
        return with(copy -> copy.permits = permits);
    }

    /**
     * Wait at most this long; zero is {@link #tryOnce()}. What is longer than ten years is for ever.
     *
     * @param wait how long
     * @return the request
     */
    public Request waitAtMost(Duration wait) {
        Objects.requireNonNull(wait, "wait");
        return with(copy -> copy.waitMillis = Args.waitMillis(wait));
    }

    /**
     * Do not wait: if it is not free, the call ends with {@link Status#BUSY}.
     *
     * @return the request
     */
    public Request tryOnce() {
        return with(copy -> copy.waitMillis = 0);
    }

    /**
     * Wait for ever, which is the default.
     *
     * @return the request
     */
    public Request waitForever() {
        return with(copy -> copy.waitMillis = Native.FOREVER);
    }

    /**
     * The lease lives this long after its last renewal; the library renews it in time.
     *
     * @param time the time
     * @return the request
     */
    public Request ttl(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.ttl = millis);
    }

    /**
     * End the lease after this time, whatever happens.
     *
     * @param time the time
     * @return the request
     */
    public Request maxHold(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.maxHold = millis);
    }

    /**
     * A grant with less validity left is given back ({@link Status#TOO_SHORT}).
     *
     * @param time the time
     * @return the request
     */
    public Request minValid(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.minValid = millis);
    }

    /**
     * The name stays held for this long, even if it is released before.
     *
     * @param time the time
     * @return the request
     */
    public Request minHold(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.minHold = millis);
    }

    /**
     * After an unclean loss the name stays closed for this long.
     *
     * @param time the time
     * @return the request
     */
    public Request lockDelay(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.lockDelay = millis);
    }

    /**
     * The released lease may stay with this process for this long.
     *
     * @param time the time
     * @return the request
     */
    public Request linger(Duration time) {
        long millis = Args.millis(time);
        return with(copy -> copy.linger = millis);
    }

    /**
     * The released lease never stays with this process, whatever the URL says.
     *
     * @return the request
     */
    public Request noLinger() {
        return with(copy -> copy.linger = -1);
    }

    /**
     * A name of the holder, for people. The default is the label of the store.
     *
     * @param label the label
     * @return the request
     */
    public Request label(String label) {
        return with(copy -> copy.label = label);
    }

    /**
     * The identity for reentrancy and deadlock detection. The default is the calling thread for calls that block, and none
     * for futures.
     *
     * @param scope a positive number
     * @return the request
     */
    public Request scope(long scope) {
        if (scope <= 0) {
            throw HoldfastException.of(Status.INVALID, 0, "scope: it must be positive");
        }
        return with(copy -> copy.scope = scope);
    }

    /**
     * Work for the holder of another lease ({@link Lease#session(String)}), in deadlock detection.
     *
     * @param session the text of the session
     * @return the request
     */
    public Request session(String session) {
        return with(copy -> copy.session = session);
    }

    /**
     * May overtake waiters: throughput over order.
     *
     * @return the request
     */
    public Request barge() {
        return flag(BARGE);
    }

    /**
     * The same thread (or scope) may take it again.
     *
     * @return the request
     */
    public Request reentrant() {
        return flag(REENTRANT);
    }

    /**
     * The library does not renew the lease by itself.
     *
     * @return the request
     */
    public Request noRenew() {
        return flag(NO_RENEW);
    }

    /**
     * The lease outlives this process; it needs a ttl. See {@link Lease#export()}.
     *
     * @return the request
     */
    public Request detached() {
        return flag(DETACHED);
    }

    /**
     * First come, first served across all processes: no passing within this one.
     *
     * @return the request
     */
    public Request strict() {
        return flag(STRICT);
    }

    /**
     * No part in deadlock detection: another thread will release the lease.
     *
     * @return the request
     */
    public Request noDeadlockCheck() {
        return flag(NO_DEADLOCK_CHECK);
    }

    /**
     * The holder learns that others wait: see {@link Lease#isWanted()} and {@link LeaseEvent.Type#WANTED}.
     *
     * @return the request
     */
    public Request watch() {
        return flag(WATCH);
    }

    /**
     * Each permit of a semaphore has a number: see {@link LeaseInfo#slots()}.
     *
     * @return the request
     */
    public Request numbered() {
        return flag(NUMBERED);
    }

    /**
     * Call a listener when something has happened to the lease: in order, one event at a time, on the executor of the store.
     * It may come before the acquire has returned. It may call anything but {@link Store#close()}. After the lease was
     * closed no event comes. Of a reentrant lease the listener of the first hold is called.
     *
     * @param listener the listener
     * @return the request
     */
    public Request onEvent(Consumer<LeaseEvent> listener) {
        return with(copy -> copy.listener = listener);
    }

    /**
     * The name.
     *
     * @return the name
     */
    public Name name() {
        return fields.name;
    }

    /**
     * The kind.
     *
     * @return the kind
     */
    public Kind kind() {
        return fields.kind;
    }

    byte[] wanted() {
        return wanted;
    }

    long waitMillis() {
        return fields.waitMillis;
    }

    long scope() {
        return fields.scope;
    }

    boolean isReentrant() {
        return (fields.flags & REENTRANT) != 0;
    }

    Consumer<LeaseEvent> listener() {
        return fields.listener;
    }
}
