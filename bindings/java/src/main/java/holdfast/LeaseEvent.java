// SPDX-License-Identifier: MIT
package holdfast;

/**
 * Something has happened to a lease.
 *
 * @param type what
 * @param name the name that the lease holds
 * @param token its token, 0 where the engine has none, or if the lease has ended
 * @param text why; for {@link Type#ASKED} what the asker says, which may be anything
 */
public record LeaseEvent(Type type, Name name, long token, String text) {
    /** What can happen to a lease. */
    public enum Type {
        /** A renewal was not confirmed. */
        AT_RISK,
        /** The next one was: the lease is no longer at risk. */
        HELD,
        /** It expired, was broken, or the store forgot it. The last event of a lease. */
        LOST,
        /** Others wait for it ({@link Request#watch()}). */
        WANTED,
        /** No longer. */
        UNWANTED,
        /** Somebody asks for it ({@link Store#ask(Name, String)}). */
        ASKED;

        private static final Type[] ALL = values();

        static Type of(int number) {
            return ALL[Math.max(1, Math.min(number, ALL.length)) - 1];
        }
    }
}
