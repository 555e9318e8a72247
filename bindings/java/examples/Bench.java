// SPDX-License-Identifier: MIT
import holdfast.Holdfast;
import holdfast.Lease;
import holdfast.Request;
import holdfast.Store;

/**
 * bench URL SECONDS [direct|lock|async|virtual]: an uncontended pair of acquire and release, again and again on one thread.
 * The form is `direct` (blocking calls on a platform thread) unless another one is named.
 */
final class Bench {
    private final Store store;
    private final String form;
    private final Request request = Request.mutex("bench");

    private Bench(Store store, String form) {
        this.store = store;
        this.form = form;
    }

    private void pair() throws Exception {
        if (form.equals("async")) {
            store.acquireAsync(request).get().closeAsync().get();
            return;
        }
        try (Lease lease = store.acquire(request)) {
            if (!lease.isValid()) {
                throw new IllegalStateException("not held");
            }
        }
    }

    private double run(double seconds) throws Exception {
        var lock = store.lock("bench");
        long begin = System.nanoTime();
        long end = begin + (long) (seconds * 1e9);
        long pairs = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < 16; i++) {
                if (form.equals("lock")) {
                    lock.lock();
                    lock.unlock();
                } else {
                    pair();
                }
            }
            pairs += 16;
        }
        return pairs / ((System.nanoTime() - begin) / 1e9);
    }

    private void measure(double seconds) {
        try {
            run(Math.min(seconds, 2)); /* until the compiler has done its work */
            System.out.printf("pairs_per_second %.0f%n", run(seconds));
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 2) {
            System.err.println("usage: bench URL SECONDS [direct|lock|async|virtual]");
            System.exit(64);
        }
        try (Store store = Holdfast.open(args[0])) {
            Bench bench = new Bench(store, args.length > 2 ? args[2] : "direct");
            double seconds = Double.parseDouble(args[1]);
            if (bench.form.equals("virtual")) {
                Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                        .invoke(null, (Runnable) () -> bench.measure(seconds));
                thread.join();
            } else {
                bench.measure(seconds);
            }
        }
    }
}
