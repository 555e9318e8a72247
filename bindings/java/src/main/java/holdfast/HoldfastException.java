// SPDX-License-Identifier: MIT
package holdfast;

/**
 * Why a call failed. The statuses that programs handle have a class of their own, which is nested here.
 *
 * <p>The text never holds a password.
 */
public class HoldfastException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What the library returned. */
    private final Status status;
    /** The engine's own code. */
    private final int nativeCode;

    /**
     * An exception with a status.
     *
     * @param status what the library returned
     * @param nativeCode the engine's own code, 0 if there is none
     * @param text what happened
     */
    protected HoldfastException(Status status, int nativeCode, String text) {
        super(status + ": " + text);
        this.status = status;
        this.nativeCode = nativeCode;
    }

    /**
     * What the library returned.
     *
     * @return the status
     */
    public Status status() {
        return status;
    }

    /**
     * The engine's own code: errno for the embedded store.
     *
     * @return the code, 0 if there is none
     */
    public int nativeCode() {
        return nativeCode;
    }

    /** The text of the status itself, if there is no better one. */
    static HoldfastException of(Status status, int code, String given) {
        String text = given == null || given.isEmpty() ? Native.statusText(status.number()) : given;
        switch (status) {
            case BUSY:
                return new Busy(code, text);
            case TIMEOUT:
                return new TimedOut(code, text);
            case CANCELLED:
                return new Cancelled(code, text);
            case MISMATCH:
                return new Mismatch(code, text);
            case LOST:
                return new Lost(code, text);
            case NOT_FOUND:
                return new NotFound(code, text);
            case INVALID:
                return new Invalid(code, text);
            case CONFIG:
                return new Config(code, text);
            case UNSUPPORTED:
                return new Unsupported(code, text);
            case UNAVAILABLE:
                return new Unavailable(code, text);
            case DENIED:
                return new Denied(code, text);
            case UNKNOWN:
                return new Unknown(code, text);
            case IN_USE:
                return new InUse(code, text);
            case FENCED:
                return new Fenced(code, text);
            case DEADLOCK:
                return new Deadlock(code, text);
            case CHANGED:
                return new Changed(code, text);
            case BROKEN:
                return new Broken(code, text);
            case FORKED:
                return new Forked(code, text);
            default:
                return new HoldfastException(status, code, text);
        }
    }

    /** Somebody else holds it, and the request does not wait. */
    public static final class Busy extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Busy(int code, String text) {
            super(Status.BUSY, code, text);
        }
    }

    /** The deadline passed before it was granted. */
    public static final class TimedOut extends HoldfastException {
        private static final long serialVersionUID = 1;

        private TimedOut(int code, String text) {
            super(Status.TIMEOUT, code, text);
        }
    }

    /** The call was cancelled, or its store was closed. */
    public static final class Cancelled extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Cancelled(int code, String text) {
            super(Status.CANCELLED, code, text);
        }
    }

    /** The name is in use as another kind or capacity. */
    public static final class Mismatch extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Mismatch(int code, String text) {
            super(Status.MISMATCH, code, text);
        }
    }

    /** The lease is lost: it expired, was broken, or the store forgot it. */
    public static final class Lost extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Lost(int code, String text) {
            super(Status.LOST, code, text);
        }
    }

    /** There is no such lease, cell, latch or mark. */
    public static final class NotFound extends HoldfastException {
        private static final long serialVersionUID = 1;

        private NotFound(int code, String text) {
            super(Status.NOT_FOUND, code, text);
        }
    }

    /** An argument is invalid; the text names it. */
    public static final class Invalid extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Invalid(int code, String text) {
            super(Status.INVALID, code, text);
        }
    }

    /** The URL of the store, or its configuration, is invalid. */
    public static final class Config extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Config(int code, String text) {
            super(Status.CONFIG, code, text);
        }
    }

    /** The engine of the store cannot do that. */
    public static final class Unsupported extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Unsupported(int code, String text) {
            super(Status.UNSUPPORTED, code, text);
        }
    }

    /** The store cannot be reached. */
    public static final class Unavailable extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Unavailable(int code, String text) {
            super(Status.UNAVAILABLE, code, text);
        }
    }

    /** The store denied access. */
    public static final class Denied extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Denied(int code, String text) {
            super(Status.DENIED, code, text);
        }
    }

    /** The outcome is unknown: the store may or may not have done it. */
    public static final class Unknown extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Unknown(int code, String text) {
            super(Status.UNKNOWN, code, text);
        }
    }

    /** It is still in use. */
    public static final class InUse extends HoldfastException {
        private static final long serialVersionUID = 1;

        private InUse(int code, String text) {
            super(Status.IN_USE, code, text);
        }
    }

    /** A newer token has already been used: the lease is no longer ours. */
    public static final class Fenced extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Fenced(int code, String text) {
            super(Status.FENCED, code, text);
        }
    }

    /** To wait for it would be a deadlock; the text has the cycle. */
    public static final class Deadlock extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Deadlock(int code, String text) {
            super(Status.DEADLOCK, code, text);
        }
    }

    /** It was changed in the meantime. */
    public static final class Changed extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Changed(int code, String text) {
            super(Status.CHANGED, code, text);
        }
    }

    /** A participant died. */
    public static final class Broken extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Broken(int code, String text) {
            super(Status.BROKEN, code, text);
        }
    }

    /** The handle belongs to the parent process. */
    public static final class Forked extends HoldfastException {
        private static final long serialVersionUID = 1;

        private Forked(int code, String text) {
            super(Status.FORKED, code, text);
        }
    }
}
