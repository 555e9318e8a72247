// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Function;

/** One call of C, with what becomes of its result. The same plan serves the blocking form and the future. */
final class Plan<T> {
    final Op op;
    final long handle;
    final byte[] args;
    private final Function<Result, T> decode;
    private Consumer<T> undo = value -> {
    };
    private List<Sink> sinks = List.of();
    Call.CellFunction function;
    @SuppressWarnings("unused")
    private Object kept;

    Plan(Op op, long handle, Args args, Function<Result, T> decode) {
        this.op = op;
        this.handle = handle;
        this.args = args.done();
        this.decode = decode;
    }

    /** A call that finds nothing but a status. */
    static Plan<Void> of(Op op, long handle, Args args) {
        return new Plan<>(op, handle, args, result -> {
            result.check();
            return null;
        });
    }

    /** What to do with a value that nobody waits for any more. */
    Plan<T> undo(Consumer<T> how) {
        undo = how;
        return this;
    }

    /** What must not be collected while the call is under way. */
    Plan<T> keep(Object used) {
        kept = used;
        return this;
    }

    /** Sinks that end if the call fails. */
    Plan<T> sinks(List<Sink> used) {
        sinks = used;
        return this;
    }

    Plan<T> function(Call.CellFunction used) {
        function = used;
        return this;
    }

    /** As this call, but `other` is the answer if the status is `status`. */
    <R> Plan<R> mapOr(Function<T, R> map, Status status, Function<Result, R> other, Consumer<R> undoing) {
        return new Plan<>(this, result -> {
            if (result.status == status) {
                failed();
                return other.apply(result);
            }
            return map.apply(decode.apply(result));
        }).undo(undoing);
    }

    private Plan(Plan<?> like, Function<Result, T> decode) {
        op = like.op;
        handle = like.handle;
        args = like.args;
        sinks = like.sinks;
        this.decode = decode;
    }

    /** Exactly once for each call that has begun. */
    T decode(Result result) {
        try {
            return decode.apply(result);
        } catch (Throwable failure) {
            failed();
            throw failure;
        }
    }

    void failed() {
        sinks.forEach(Sink::end);
    }

    /** Give back what came too late: it must not stay held. */
    void undo(T value) {
        try {
            undo.accept(value);
        } catch (HoldfastException e) {
            /* lost, or the library goes on trying: either way it is not ours */
        }
    }
}
