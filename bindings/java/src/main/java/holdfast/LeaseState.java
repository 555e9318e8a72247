// SPDX-License-Identifier: MIT
package holdfast;

/** How a lease stands. */
public enum LeaseState {
    /** It is held. */
    HELD,
    /** It is held, but its last renewal was not confirmed. */
    AT_RISK,
    /** It is lost, or has ended. */
    LOST;

    private static final LeaseState[] ALL = values();

    static LeaseState of(int number) {
        return ALL[number - 1];
    }
}
