// SPDX-License-Identifier: MIT
package holdfast;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * Where the events of a lease go: to its listener, in order, one at a time, on an executor. A reentrant lease has one sink for
 * all its holds. It does not refer to the Lease: a forgotten lease with a listener is found like any other.
 */
final class Sink {
    final long id;
    private final Name name;
    private final Consumer<LeaseEvent> listener;
    private final Executor executor;
    private final Consumer<Sink> onEnd;
    private final ConcurrentLinkedQueue<LeaseEvent> events = new ConcurrentLinkedQueue<>();
    /** Held while the listener runs. */
    private final ReentrantLock running = new ReentrantLock();
    private final AtomicInteger holds = new AtomicInteger(1);
    private final AtomicBoolean ended = new AtomicBoolean();

    Sink(Request request, Executor executor, Consumer<Sink> onEnd) {
        this.name = request.name();
        this.listener = request.listener();
        this.executor = executor;
        this.onEnd = onEnd;
        this.id = Native.add(this);
    }

    /** On a thread of the library, or on the poller: it must not wait. */
    void add(int event, long token, String text) {
        events.add(new LeaseEvent(LeaseEvent.Type.of(event), name, token, text));
        try {
            executor.execute(this::drain);
        } catch (RuntimeException e) {
            Threads.CALLBACKS.execute(this::drain);
        }
    }

    private void drain() {
        running.lock();
        try {
            for (LeaseEvent event; (event = events.poll()) != null;) {
                tell(event);
            }
        } finally {
            running.unlock();
        }
    }

    private void tell(LeaseEvent event) {
        try {
            listener.accept(event);
        } catch (Throwable failure) {
            Log.failed("a listener of a lease", failure);
        }
    }

    void hold() {
        holds.incrementAndGet();
    }

    /** One hold has ended: after the last one no event comes, and those that came before have been told. */
    boolean end() {
        if (holds.decrementAndGet() > 0) {
            return false;
        }
        endAll();
        return true;
    }

    /** All holds have ended: so it is when the store is closed, also for leases that were forgotten. */
    void endAll() {
        if (ended.compareAndSet(false, true)) {
            Native.remove(this);
            onEnd.accept(this);
        }
        drain();
    }
}
