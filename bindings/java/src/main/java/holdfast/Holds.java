// SPDX-License-Identifier: MIT
package holdfast;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;

/** How the leases of a store come and go, and where their events go. */
final class Holds {
    /** Leases that one call of C releases. */
    private static final int MOST = 64;

    private final Store store;
    private final long handle;
    private final Calls calls;
    private final Poller poller;
    private final Executor executor;
    /** The sinks of reentrant leases, by their handles: all holds of one have the same. */
    private final Map<Long, Sink> reentrant = new ConcurrentHashMap<>();
    /** All sinks of leases that have not ended. */
    private final Set<Sink> sinks = ConcurrentHashMap.newKeySet();
    /** A direct call ended in trouble: until an asynchronous one goes well again, no thread is held in C for so long. */
    private volatile boolean troubled;

    Holds(Store store, Calls calls, Poller poller, Executor executor) {
        this.store = store;
        this.handle = store.handle();
        this.calls = calls;
        this.poller = poller;
        this.executor = executor;
    }

    /** The store is closed: what was forgotten has ended too. */
    void close() {
        sinks.forEach(Sink::endAll);
    }

    /** The request with what is left open in it. */
    private static Args encode(Args args, Request request, long scope, Sink sink) {
        return args.number(request.waitMillis()).number(scope).number(sink == null ? 0 : sink.id).raw(request.wanted());
    }

    /** Without a scope C takes the calling thread for the owner, also of an asynchronous reentrant request. A future has no thread. */
    private static long scope(Request request, boolean waits) {
        if (request.scope() != 0) {
            return request.scope();
        }
        if (waits) {
            return Threads.scope();
        }
        return request.isReentrant() ? Threads.nobody() : 0;
    }

    /** Events of a lease that is acquired asynchronously come through the poller. */
    private Sink sink(Request request, boolean polled) {
        if (request.listener() == null) {
            return null;
        }
        if (polled) {
            poller.enter();
        }
        Sink sink = new Sink(request, executor, ended -> {
            sinks.remove(ended);
            if (polled) {
                poller.leave();
            }
        });
        sinks.add(sink);
        return sink;
    }

    /** A call that acquires something as `request` says. `first` goes before the request. */
    Plan<Lease> acquirePlan(Op op, Args first, Request request, boolean waits) {
        Sink sink = sink(request, true);
        Args args = encode(first, request, scope(request, waits), sink);
        return new Plan<>(op, handle, args, result -> {
            troubled = false;
            return lease(request, result.check().lease, sink);
        }).undo(Lease::close).sinks(sink == null ? List.of() : List.of(sink));
    }

    Lease lease(Request request, long found, Sink given) {
        Sink sink = given;
        if (sink != null && request.isReentrant()) {
            sink = share(found, sink);
        }
        return new Lease(store, request.name(), found, sink);
    }

    private Sink share(long found, Sink mine) {
        Sink shared = reentrant.compute(found, (key, old) -> {
            if (old != null) {
                old.hold();
            }
            return old != null ? old : mine;
        });
        if (shared != mine) {
            mine.end();
        }
        return shared;
    }

    void forget(Sink sink) {
        reentrant.values().remove(sink);
    }

    /** One try on this thread, in C. null: it is busy. */
    private Lease acquireNow(Request request) {
        Sink sink = sink(request, false);
        long found = 0;
        try {
            found = Native.acquireNow(handle, request.wanted(), scope(request, true), sink == null ? 0 : sink.id);
        } catch (HoldfastException e) {
            troubled = e.status() == Status.UNAVAILABLE || e.status() == Status.UNKNOWN;
            throw e;
        } finally {
            if (found == 0 && sink != null) {
                sink.end();
            }
        }
        return found == 0 ? null : lease(request, found, sink);
    }

    /** May this thread be held in C for a round trip? A virtual thread would hold its carrier too. */
    private boolean isDirect() {
        return !troubled && !Threads.isVirtual();
    }

    /**
     * What is free is granted by one call of C, on this thread. Only if it is not does the thread wait, parked. null: this
     * form cannot say, and the request has to be queued.
     */
    Lease acquireFree(Request request) {
        if (!isDirect()) {
            return null;
        }
        try {
            return acquireNow(request);
        } catch (HoldfastException e) {
            if (request.waitMillis() == 0) {
                throw e;
            }
            return null; /* the call that waits tries again, or says it */
        }
    }

    /** As Store.acquire(). */
    Lease acquire(Request request) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Lease lease = acquireFree(request);
        return lease != null ? lease : calls.await(acquirePlan(Op.ACQUIRE, new Args(), request, true));
    }

    /** As acquire(), but an interrupt stays pending. */
    Lease acquireUninterruptibly(Request request) {
        Lease lease = acquireFree(request);
        return lease != null ? lease : calls.join(acquirePlan(Op.ACQUIRE, new Args(), request, true));
    }

    /** One try. null: it is busy. */
    Lease tryNow(Request request) {
        Request once = request.waitMillis() == 0 ? request : request.tryOnce();
        if (isDirect()) {
            return acquireNow(once);
        }
        try {
            return calls.join(acquirePlan(Op.ACQUIRE, new Args(), once, true));
        } catch (HoldfastException.Busy e) {
            return null;
        }
    }

    /** Give back a lease by its handle. */
    void release(long lease) {
        if (isDirect()) {
            try {
                Native.releaseNow(lease);
            } catch (HoldfastException.Unavailable | HoldfastException.Unknown e) {
                troubled = true;
                throw e;
            }
        } else {
            calls.join(Plan.of(Op.RELEASE, lease, new Args()));
        }
    }

    private Args encodeAll(List<Request> requests, boolean waits, List<Sink> sinks) {
        Args args = new Args().number(requests.size());
        for (Request request : requests) {
            Sink sink = sink(request, true);
            sinks.add(sink);
            encode(args, request, scope(request, waits), sink);
        }
        return args;
    }

    private static List<Sink> real(List<Sink> sinks) {
        return sinks.stream().filter(sink -> sink != null).toList();
    }

    Plan<List<Lease>> allPlan(List<Request> requests, boolean waits) {
        List<Sink> sinks = new ArrayList<>();
        Args args = encodeAll(requests, waits, sinks);
        return new Plan<>(Op.ACQUIRE_ALL, handle, args, result -> {
            List<Long> found = result.check().numbers();
            List<Lease> leases = new ArrayList<>();
            for (int i = 0; i < found.size(); i++) {
                leases.add(lease(requests.get(i), found.get(i), sinks.get(i)));
            }
            return List.copyOf(leases);
        }).undo(this::releaseAll).sinks(real(sinks));
    }

    Plan<AnyLease> anyPlan(List<Request> requests, boolean waits) {
        List<Sink> sinks = new ArrayList<>();
        Args args = encodeAll(requests, waits, sinks);
        return new Plan<>(Op.ACQUIRE_ANY, handle, args, result -> {
            int index = (int) result.check().number;
            Sink mine = sinks.get(index);
            real(sinks).stream().filter(sink -> sink != mine).forEach(Sink::end);
            return new AnyLease(lease(requests.get(index), result.lease, mine), index);
        }).undo(any -> any.lease().close()).sinks(real(sinks));
    }

    /** Release them all, by as few calls as there can be. The first failure is thrown when all have ended. */
    void releaseAll(List<Lease> leases) {
        HoldfastException first = null;
        for (int i = 0; i < leases.size(); i += MOST) {
            try {
                releaseSome(leases.subList(i, Math.min(i + MOST, leases.size())));
            } catch (HoldfastException e) {
                first = first == null ? e : first;
            }
        }
        if (first != null) {
            throw first;
        }
    }

    private void releaseSome(List<Lease> leases) {
        List<Lease> mine = new ArrayList<>();
        List<Long> handles = new ArrayList<>();
        for (Lease lease : leases) {
            long taken = lease.take();
            if (taken != 0) {
                mine.add(lease);
                handles.add(taken);
            }
        }
        if (mine.isEmpty()) {
            return;
        }
        Args args = new Args().number(handles.size());
        handles.forEach(args::number);
        try {
            calls.join(Plan.of(Op.RELEASE_ALL, handle, args));
        } finally {
            mine.forEach(Lease::ended);
        }
    }
}
