// SPDX-License-Identifier: MIT
package holdfast;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * A read-write lock between processes. A thread that holds one kind cannot lock another kind too: convert its lease
 * ({@link Lease#convert(Kind, java.time.Duration)}).
 */
public final class HoldfastReadWriteLock implements ReadWriteLock {
    private final HoldfastLock readLock;
    private final HoldfastLock writeLock;
    private final HoldfastLock upgradeableLock;

    HoldfastReadWriteLock(Store store, Name name) {
        readLock = new HoldfastLock(store, Request.shared(name).reentrant());
        writeLock = new HoldfastLock(store, Request.exclusive(name).reentrant());
        upgradeableLock = new HoldfastLock(store, Request.upgradeable(name).reentrant());
    }

    @Override
    public HoldfastLock readLock() {
        return readLock;
    }

    @Override
    public HoldfastLock writeLock() {
        return writeLock;
    }

    /**
     * The lock of the one reader that may become the writer: by {@link Lease#convert(Kind, java.time.Duration)} of its
     * {@link HoldfastLock#lease()}.
     *
     * @return the lock
     */
    public HoldfastLock upgradeableLock() {
        return upgradeableLock;
    }
}
