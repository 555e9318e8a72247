// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;

/** What an asynchronous call has found: hf_result. */
final class Result {
    static final int LEASES = 1;
    static final int VERSIONS = 2;

    final Status status;
    final int code;
    final String text;
    final long lease;
    final long version;
    final long number;
    final long count;
    final byte[] bytes;
    /** What follows: its kind is {@link #part}. */
    final Reader more;
    final int part;

    private Result(Reader in) {
        status = Status.of(in.integer());
        code = in.integer();
        text = in.text();
        lease = in.number();
        version = in.number();
        number = in.number();
        count = in.number();
        bytes = in.bytes();
        part = in.integer();
        more = in;
    }

    private Result(Status failed) {
        status = failed;
        code = 0;
        text = null;
        lease = version = number = count = 0;
        bytes = null;
        part = 0;
        more = null;
    }

    /** null: C could not tell us, and gave back what it had. */
    static Result of(byte[] blob) {
        return blob == null ? new Result(Status.NO_MEMORY) : new Result(new Reader(blob));
    }

    Result check() {
        if (status != Status.OK) {
            throw error();
        }
        return this;
    }

    HoldfastException error() {
        return HoldfastException.of(status, code, text);
    }

    /** Leases or versions. */
    List<Long> numbers() {
        return more.list(count, more::number);
    }
}
