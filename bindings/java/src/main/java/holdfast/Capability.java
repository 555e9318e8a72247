// SPDX-License-Identifier: MIT
package holdfast;

import java.util.EnumSet;
import java.util.Set;

/** What an engine can do. */
public enum Capability {
    /** Read-write locks. */
    SHARED,
    /** Capacities above 1. */
    SEMAPHORE,
    /** Waiters are woken by an event, not by a poll. */
    WAIT,
    /** First come, first served. */
    FIFO,
    /** Leases can have a ttl. */
    TTL,
    /** Leases end with the process, without a ttl. */
    PROCESS,
    /** Leases that outlive the process. */
    DETACHED,
    /** Fencing tokens. */
    TOKEN,
    /** Leases pass between threads of one process. */
    PASS,
    /** {@link Request#barge()}. */
    BARGE,
    /** {@link Request#lockDelay(java.time.Duration)}. */
    LOCK_DELAY,
    /** Holders can be listed. */
    INSPECT,
    /** Waiters can be listed too. */
    WAITERS,
    /** {@link Store#breakLease(Name, long)}. */
    BREAK,
    /** {@link Store#awaitChange(long, java.time.Duration)}. */
    WATCH,
    /** Cells, and what is built on them. */
    CELLS,
    /** Cells can have a ttl. */
    CELL_TTL,
    /** A change of a cell wakes waiters by an event. */
    CELL_WATCH,
    /** A clock that all clients share: rate limits. */
    CLOCK,
    /** Scripts, which this binding does not offer. */
    SCRIPTS,
    /** A holder learns that others wait. */
    WANTED,
    /** A released lease may stay with the process. */
    LINGER,
    /** Several cells in one step. */
    COMMIT,
    /** {@link Lease#convert(Kind, java.time.Duration)}. */
    CONVERT,
    /** The slots of a semaphore have numbers. */
    NUMBERED,
    /** {@link HoldfastSemaphore#resize(int)}. */
    RESIZE;

    static Set<Capability> of(long bits) {
        Set<Capability> found = EnumSet.noneOf(Capability.class);
        for (Capability capability : values()) {
            if ((bits >>> capability.ordinal() & 1) != 0) {
                found.add(capability);
            }
        }
        return Set.copyOf(found);
    }
}
