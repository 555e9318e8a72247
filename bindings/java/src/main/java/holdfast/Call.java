// SPDX-License-Identifier: MIT
package holdfast;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** An asynchronous call that is under way. C tells its end exactly once. */
abstract class Call {
    private final Poller poller;
    private final CellFunction function;
    private volatile Throwable thrown;
    long id;
    long op;

    Call(Poller poller, CellFunction function) {
        this.poller = poller;
        this.function = function;
    }

    /** On the poller, or on the thread that closes the store: it must not wait. */
    abstract void complete(Result result);

    void finish(Result result) {
        poller.leave();
        complete(result);
    }

    /** C has not begun it. */
    void abandon() {
        Native.remove(this);
        poller.leave();
    }

    void cancel() {
        Native.cancel(op);
    }

    /** The function of a cell update. null: it failed, and the call ends. */
    byte[] update(byte[] old) {
        try {
            return function.change(new Reader(old));
        } catch (Throwable failure) {
            thrown = failure;
            return null;
        }
    }

    /** What the caller gets: the failure of its own function goes before what C says of it. */
    <T> T decode(Plan<T> plan, Result result) {
        Throwable failure = thrown;
        if (failure instanceof RuntimeException) {
            throw (RuntimeException) failure;
        }
        if (failure instanceof Error) {
            throw (Error) failure;
        }
        return plan.decode(result);
    }

    /** What a cell becomes: see Cell.update(). */
    interface CellFunction {
        byte[] change(Reader old);
    }

    /** A thread waits for it, parked: no monitor is held, and a virtual thread is not pinned. */
    static final class Waited extends Call {
        final CompletableFuture<Result> result = new CompletableFuture<>();

        Waited(Poller poller, CellFunction function) {
            super(poller, function);
        }

        @Override
        void complete(Result found) {
            result.complete(found);
        }
    }

    /** A future of the program is completed, on an executor: what the program hangs onto it may take its time, and wait. */
    static final class Promised<T> extends Call {
        private final Plan<T> plan;
        private final Executor executor;
        private final CompletableFuture<T> future;
        private volatile boolean over;

        Promised(Poller poller, Plan<T> plan, Executor executor, CompletableFuture<T> future) {
            super(poller, plan.function);
            this.plan = plan;
            this.executor = executor;
            this.future = future;
        }

        /** After C has begun it: whatever completes the future before C does ends the call. */
        void watch() {
            future.whenComplete((value, failure) -> {
                if (!over) {
                    cancel();
                }
            });
        }

        @Override
        void complete(Result found) {
            over = true;
            Runnable task = () -> deliver(found);
            try {
                executor.execute(task);
            } catch (RuntimeException e) {
                Threads.CALLBACKS.execute(task); /* shut down, or it failed: a lease may be in it */
            }
        }

        private void deliver(Result found) {
            T value;
            try {
                value = decode(plan, found);
            } catch (Throwable failure) {
                future.completeExceptionally(failure);
                return;
            }
            if (!future.complete(value)) {
                plan.undo(value);
            }
        }
    }
}
