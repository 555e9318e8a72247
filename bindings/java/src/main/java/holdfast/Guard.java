// SPDX-License-Identifier: MIT
package holdfast;

import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A guarded resource: a few bytes that remember the highest token they have seen, and refuse every lower one. So a holder
 * that was paused until after its lease had ended changes nothing.
 *
 * <p>The tokens of one resource must all be of one lock name in one store.
 */
public final class Guard {
    private final Store store;
    private final Name name;

    Guard(Store store, Name name) {
        this.store = store;
        this.name = name;
    }

    private Plan<Optional<byte[]>> claimPlan(long token) {
        return new Plan<>(Op.GUARD_CLAIM, store.handle(), new Args().name(name).number(token),
                result -> Optional.ofNullable(result.check().bytes));
    }

    /**
     * Present a token and read, atomically: from then on no lower token is accepted. Claim before you read.
     *
     * @param token of {@link Lease#fence()}
     * @return what the last write left; empty: it was never written
     * @throws HoldfastException.Fenced if a higher token has been used: stop, because the lease is no longer ours
     */
    public Optional<byte[]> claim(long token) {
        return store.join(claimPlan(token));
    }

    /**
     * As {@link #claim(long)}.
     *
     * @param token of {@link Lease#fence()}
     * @return what the last write left; empty: it was never written
     */
    public CompletableFuture<Optional<byte[]>> claimAsync(long token) {
        return store.async(claimPlan(token));
    }

    private Plan<Void> setPlan(long token, byte[] bytes) {
        return Plan.of(Op.GUARD_SET, store.handle(), new Args().name(name).number(token).bytes(Objects.requireNonNull(bytes, "bytes")));
    }

    /**
     * Replace the bytes if no higher token has been seen until then, atomically.
     *
     * @param token of {@link Lease#fence()}
     * @param bytes the new bytes, at most 65536
     * @throws HoldfastException.Fenced if a higher token has been used: stop, because the lease is no longer ours
     */
    public void set(long token, byte[] bytes) {
        store.join(setPlan(token, bytes));
    }

    /**
     * As {@link #set(long, byte[])}.
     *
     * @param token of {@link Lease#fence()}
     * @param bytes the new bytes, at most 65536
     * @return completed when it is written
     */
    public CompletableFuture<Void> setAsync(long token, byte[] bytes) {
        return store.async(setPlan(token, bytes));
    }
}
