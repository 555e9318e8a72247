// SPDX-License-Identifier: MIT
/**
 * Distributed locks, and what is built on them, by the C library Holdfast.
 *
 * <p>{@link holdfast.Holdfast#open(String)} opens a {@link holdfast.Store}. A store gives {@link holdfast.Lease leases}:
 * directly ({@link holdfast.Store#acquire(Request)}), or through the interfaces of {@code java.util.concurrent.locks}
 * ({@link holdfast.HoldfastLock}, {@link holdfast.HoldfastReadWriteLock}). Every call that waits has a form that returns a
 * {@link java.util.concurrent.CompletableFuture}. Errors are {@link holdfast.HoldfastException}.
 */
package holdfast;
