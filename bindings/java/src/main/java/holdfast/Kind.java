// SPDX-License-Identifier: MIT
package holdfast;

/** What kind of lease a request asks for, or an entry of a view is. */
public enum Kind {
    /** One holder. */
    MUTEX,
    /** Read-write lock: a reader. */
    SHARED,
    /** Read-write lock: the writer. */
    EXCLUSIVE,
    /** Some of a number of permits. */
    SEMAPHORE,
    /** Read-write lock: the one reader that may become the writer. */
    UPGRADEABLE;

    private static final Kind[] ALL = values();

    static Kind of(int number) {
        return ALL[number];
    }
}
