// SPDX-License-Identifier: MIT
package holdfast;

import java.lang.ref.Reference;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;

/** How a plan becomes a call of C: a thread that waits for it, or a future. */
final class Calls {
    private final Poller poller;
    private final Executor executor;

    Calls(Poller poller, Executor executor) {
        this.poller = poller;
        this.executor = executor;
    }

    private void begin(Plan<?> plan, Call call) {
        try {
            poller.enter();
        } catch (Throwable failure) {
            plan.failed();
            throw failure;
        }
        call.id = Native.add(call);
        try {
            call.op = Native.begin(plan.op.ordinal(), plan.handle, plan.args, call.id);
        } catch (Throwable failure) {
            call.abandon();
            plan.failed();
            throw failure;
        } finally {
            Reference.reachabilityFence(plan);
        }
        poller.look();
    }

    private Call.Waited beginWaited(Plan<?> plan) {
        if (poller.isCurrent()) {
            plan.failed();
            throw new IllegalStateException("a function of a cell, or an executor that runs on the poller, cannot wait for its own store");
        }
        Call.Waited call = new Call.Waited(poller, plan.function);
        begin(plan, call);
        return call;
    }

    /** Wait for the end of a call that takes a round trip. Interrupts stay pending. */
    <T> T join(Plan<T> plan) {
        Call.Waited call = beginWaited(plan);
        return call.decode(plan, call.result.join());
    }

    /** Wait for the end of a call that waits. After an interrupt the call is cancelled, and what it got is given back. */
    <T> T await(Plan<T> plan) throws InterruptedException {
        if (Thread.interrupted()) {
            plan.failed();
            throw new InterruptedException();
        }
        Call.Waited call = beginWaited(plan);
        Result result;
        try {
            result = call.result.get();
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            call.cancel();
            drop(plan, call);
            throw e;
        }
        return call.decode(plan, result);
    }

    private <T> void drop(Plan<T> plan, Call.Waited call) {
        T value;
        try {
            value = call.decode(plan, call.result.join());
        } catch (RuntimeException | Error e) {
            return; /* cancelled, most likely. A failure of the program's own function must not hide the interrupt either. */
        }
        plan.undo(value);
    }

    <T> CompletableFuture<T> async(Plan<T> plan) {
        CompletableFuture<T> future = new CompletableFuture<>();
        Call.Promised<T> call = new Call.Promised<>(poller, plan, executor, future);
        try {
            begin(plan, call);
        } catch (HoldfastException e) {
            return CompletableFuture.failedFuture(e);
        }
        call.watch();
        return future;
    }

    /** A call that ends a lease, whatever it returns, unless it does not begin. It is not cancelled with its future. */
    CompletableFuture<Void> end(Lease lease, Op op, Args args) {
        long taken = lease.take();
        if (taken == 0) {
            return op == Op.RELEASE ? CompletableFuture.completedFuture(null) : CompletableFuture.failedFuture(hasEnded());
        }
        CompletableFuture<Void> future = new CompletableFuture<>();
        Plan<Void> plan = ending(lease, op, taken, args);
        try {
            begin(plan, new Call.Promised<>(poller, plan, executor, future));
        } catch (HoldfastException e) {
            if (op == Op.RELEASE && e.status() == Status.INVALID) {
                lease.ended(); /* a yield or a conversion is under way: it gives back what it brings */
            } else {
                lease.untake(taken);
            }
            return CompletableFuture.failedFuture(e);
        }
        return future;
    }

    /** The same, and the thread waits: not interruptible. */
    void endAndJoin(Lease lease, Op op, Args args) {
        long taken = lease.take();
        if (taken == 0) {
            throw hasEnded();
        }
        Plan<Void> plan = ending(lease, op, taken, args);
        Call.Waited call = beginEnding(lease, taken, plan);
        call.decode(plan, call.result.join());
    }

    /** The same, of a call that waits: after an interrupt the lease has ended too. */
    void endAndAwait(Lease lease, Op op, Args args) throws InterruptedException {
        long taken = lease.take();
        if (taken == 0) {
            throw hasEnded();
        }
        Plan<Void> plan = ending(lease, op, taken, args);
        Call.Waited call = beginEnding(lease, taken, plan);
        Result result;
        try {
            result = call.result.get();
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            call.cancel();
            drop(plan, call);
            throw e;
        }
        call.decode(plan, result);
    }

    private Call.Waited beginEnding(Lease lease, long taken, Plan<Void> plan) {
        try {
            return beginWaited(plan);
        } catch (RuntimeException e) {
            lease.untake(taken);
            throw e;
        }
    }

    private static HoldfastException hasEnded() {
        return HoldfastException.of(Status.INVALID, 0, "the lease has ended");
    }

    private static Plan<Void> ending(Lease lease, Op op, long taken, Args args) {
        return new Plan<>(op, taken, args, result -> {
            lease.ended();
            result.check();
            return null;
        });
    }
}
