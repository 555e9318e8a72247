// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/**
 * A cell: a few bytes under a name, with a version that every write changes and that never comes back.
 * A version of 0 means: there is no cell.
 */
public final class Cell {
    private final Store store;
    private final Name name;

    Cell(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    /** What a function of {@link Cell#update(Function, Duration)} wants. */
    public static final class Change {
        private static final Change LEAVE = new Change(0, null, null);
        private static final Change DELETE = new Change(2, null, null);

        private final int action;
        private final byte[] bytes;
        private final Duration ttl;

        private Change(int action, byte[] bytes, Duration ttl) {
            this.action = action;
            this.bytes = bytes;
            this.ttl = ttl;
        }

        /**
         * Leave it as it is.
         *
         * @return the change
         */
        public static Change leave() {
            return LEAVE;
        }

        /**
         * Delete it.
         *
         * @return the change
         */
        public static Change delete() {
            return DELETE;
        }

        /**
         * Write it.
         *
         * @param bytes the new bytes
         * @return the change
         */
        public static Change write(byte[] bytes) {
            return new Change(1, bytes.clone(), null);
        }

        /**
         * Write it, for some time.
         *
         * @param bytes the new bytes
         * @param ttl after that the cell is deleted
         * @return the change
         */
        public static Change write(byte[] bytes, Duration ttl) {
            return new Change(1, bytes.clone(), ttl);
        }
    }

    private Args request(byte[] bytes, Duration ttl, long version, long wait) {
        return new Args().name(name).bytes(bytes).duration(ttl).number(version).number(wait);
    }

    /** Without bytes C would write an empty cell. */
    private static byte[] given(byte[] bytes) {
        return Objects.requireNonNull(bytes, "bytes");
    }

    private Plan<Long> versionPlan(Op op, Args args) {
        return new Plan<>(op, store.handle(), args, result -> result.check().version);
    }

    private Plan<Optional<CellValue>> read(Op op) {
        return new Plan<>(op, store.handle(), new Args().name(name), result -> {
            if (result.status == Status.NOT_FOUND) {
                return Optional.empty();
            }
            result.check();
            return Optional.of(new CellValue(result.bytes, result.version,
                    result.number < 0 ? null : Duration.ofMillis(result.number)));
        });
    }

    private Plan<Optional<CellValue>> getPlan() {
        return read(Op.CELL_GET);
    }

    /**
     * Read it.
     *
     * @return the cell; empty: there is none
     */
    public Optional<CellValue> get() {
        return store.join(getPlan());
    }

    /**
     * As {@link #get()}.
     *
     * @return the cell; empty: there is none
     */
    public CompletableFuture<Optional<CellValue>> getAsync() {
        return store.async(getPlan());
    }

    private Plan<Optional<CellValue>> getOfLeasePlan() {
        return read(Op.LEASE_CELL_GET);
    }

    /**
     * Read a cell that is bound to a lease ({@link Lease#setCell(Name, byte[])}).
     *
     * @return the cell; empty: there is none, or its lease has ended
     */
    public Optional<CellValue> getOfLease() {
        return store.join(getOfLeasePlan());
    }

    /**
     * As {@link #getOfLease()}.
     *
     * @return the cell; empty: there is none, or its lease has ended
     */
    public CompletableFuture<Optional<CellValue>> getOfLeaseAsync() {
        return store.async(getOfLeasePlan());
    }

    private Plan<Long> setPlan(byte[] bytes) {
        return versionPlan(Op.CELL_SET, request(given(bytes), null, 0, 0));
    }

    /**
     * Write it, whatever is there.
     *
     * @param bytes what to write, at most 65536 bytes
     * @return the new version
     */
    public long set(byte[] bytes) {
        return store.join(setPlan(bytes));
    }

    /**
     * As {@link #set(byte[])}.
     *
     * @param bytes what to write, at most 65536 bytes
     * @return the new version
     */
    public CompletableFuture<Long> setAsync(byte[] bytes) {
        return store.async(setPlan(bytes));
    }

    private Plan<Long> setForPlan(byte[] bytes, Duration ttl) {
        return versionPlan(Op.CELL_SET, request(given(bytes), ttl, 0, 0));
    }

    /**
     * Write it, for some time.
     *
     * @param bytes what to write, at most 65536 bytes
     * @param ttl after that it is deleted, unless it is written again
     * @return the new version
     */
    public long setFor(byte[] bytes, Duration ttl) {
        return store.join(setForPlan(bytes, ttl));
    }

    /**
     * As {@link #setFor(byte[], Duration)}.
     *
     * @param bytes what to write, at most 65536 bytes
     * @param ttl after that it is deleted, unless it is written again
     * @return the new version
     */
    public CompletableFuture<Long> setForAsync(byte[] bytes, Duration ttl) {
        return store.async(setForPlan(bytes, ttl));
    }

    private Plan<Long> swapPlan(byte[] bytes, long version) {
        return versionPlan(Op.CELL_SWAP, request(given(bytes), null, version, 0));
    }

    /**
     * Write it if it still has a version, atomically.
     *
     * @param bytes what to write, at most 65536 bytes
     * @param version the version that it must have; 0: there must be none
     * @return the new version
     * @throws HoldfastException.Changed if it has another version, or does not exist
     */
    public long swap(byte[] bytes, long version) {
        return store.join(swapPlan(bytes, version));
    }

    /**
     * As {@link #swap(byte[], long)}.
     *
     * @param bytes what to write, at most 65536 bytes
     * @param version the version that it must have; 0: there must be none
     * @return the new version
     */
    public CompletableFuture<Long> swapAsync(byte[] bytes, long version) {
        return store.async(swapPlan(bytes, version));
    }

    private Plan<Void> deletePlan(long version) {
        return Plan.of(Op.CELL_DELETE, store.handle(), new Args().name(name).number(version));
    }

    /**
     * Delete it if it still has a version.
     *
     * @param version the version that it must have
     * @throws HoldfastException.Changed if it has another version, or does not exist
     */
    public void delete(long version) {
        store.join(deletePlan(version));
    }

    /**
     * As {@link #delete(long)}.
     *
     * @param version the version that it must have
     * @return completed when it is deleted
     */
    public CompletableFuture<Void> deleteAsync(long version) {
        return store.async(deletePlan(version));
    }

    private Plan<Long> updatePlan(Function<Optional<CellValue>, Change> change, Duration wait) {
        return versionPlan(Op.CELL_UPDATE, request(null, null, 0, Args.waitMillis(wait))).function(old -> {
            long version = old.number();
            Duration ttl = old.durationOrNull();
            byte[] bytes = old.bytes();
            Change wanted = change.apply(version == 0 ? Optional.empty() : Optional.of(new CellValue(bytes, version, ttl)));
            return new Args().number(wanted.action).duration(wanted.ttl).bytes(wanted.bytes).done();
        });
    }

    /**
     * Read it, let a function decide, and write if nobody else wrote in the meantime; else begin again.
     *
     * <p>The function may be called several times: it must have no side effects. It runs on the poller of the store: it must be
     * quick, and cannot make calls of the same store that wait. What it throws ends the call.
     *
     * @param change the present cell, empty if there is none; what shall become of it
     * @param wait for how long to begin again; null: for ever
     * @return the version that it has then; 0: none
     * @throws InterruptedException if the thread was interrupted
     */
    public long update(Function<Optional<CellValue>, Change> change, Duration wait) throws InterruptedException {
        return store.await(updatePlan(change, wait));
    }

    /**
     * As {@link #update(Function, Duration)}.
     *
     * @param change the present cell, empty if there is none; what shall become of it
     * @param wait for how long to begin again; null: for ever
     * @return the version that it has then; 0: none
     */
    public CompletableFuture<Long> updateAsync(Function<Optional<CellValue>, Change> change, Duration wait) {
        return store.async(updatePlan(change, wait));
    }

    private Plan<Long> awaitPlan(long version, Duration wait) {
        return versionPlan(Op.CELL_WAIT, request(null, null, version, Args.waitMillis(wait)));
    }

    /**
     * Wait until its version is another one; at once if it is not this one already.
     *
     * @param version the version that was seen last; 0: there was none
     * @param wait how long to wait; null: for ever
     * @return the present version; 0: it was deleted
     * @throws InterruptedException if the thread was interrupted
     * @throws HoldfastException.TimedOut if it did not change
     */
    public long await(long version, Duration wait) throws InterruptedException {
        return store.await(awaitPlan(version, wait));
    }

    /**
     * As {@link #await(long, Duration)}.
     *
     * @param version the version that was seen last; 0: there was none
     * @param wait how long to wait; null: for ever
     * @return the present version; 0: it was deleted
     */
    public CompletableFuture<Long> awaitAsync(long version, Duration wait) {
        return store.async(awaitPlan(version, wait));
    }
}
