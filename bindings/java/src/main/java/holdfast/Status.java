// SPDX-License-Identifier: MIT
package holdfast;

/** What a call of the C library returned. The order is that of the numbers, which never change. */
public enum Status {
    /** Done. */
    OK,
    /** Somebody else holds it. */
    BUSY,
    /** The deadline passed before it was granted. */
    TIMEOUT,
    /** The call was cancelled, or its store was closed. */
    CANCELLED,
    /** The name is in use as another kind or capacity. */
    MISMATCH,
    /** The lease is lost. */
    LOST,
    /** There is no such thing. */
    NOT_FOUND,
    /** An argument is invalid. */
    INVALID,
    /** The URL of the store, or its configuration, is invalid. */
    CONFIG,
    /** The engine cannot do that. */
    UNSUPPORTED,
    /** The store cannot be reached. */
    UNAVAILABLE,
    /** The store denied access. */
    DENIED,
    /** The outcome is unknown: the store may or may not have done it. */
    UNKNOWN,
    /** The data of the store is damaged. */
    CORRUPT,
    /** Out of memory. */
    NO_MEMORY,
    /** The handle belongs to the parent process. */
    FORKED,
    /** It is still in use. */
    IN_USE,
    /** It was granted, but with too little validity left. */
    TOO_SHORT,
    /** The store is full. */
    FULL,
    /** The store was made by another version. */
    VERSION,
    /** A defect of the library. */
    INTERNAL,
    /** A newer token has already been used. */
    FENCED,
    /** To wait for it would be a deadlock. */
    DEADLOCK,
    /** It was changed in the meantime. */
    CHANGED,
    /** The result is out of range. */
    OVERFLOW,
    /** A participant died. */
    BROKEN,
    /** It has been done already. */
    DONE,
    /** It was given away, and is ours again. */
    YIELDED;

    private static final Status[] ALL = values();

    static Status of(int number) {
        return number >= 0 && number < ALL.length ? ALL[number] : INTERNAL;
    }

    /**
     * The number of this status in the C library.
     *
     * @return the number
     */
    public int number() {
        return ordinal();
    }
}
