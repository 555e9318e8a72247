// SPDX-License-Identifier: MIT
import holdfast.Capability;
import holdfast.Holdfast;
import holdfast.HoldfastException;
import holdfast.Lease;
import holdfast.Request;
import holdfast.Status;
import holdfast.Store;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Random;
import java.util.concurrent.ExecutionException;

/** worker URL SEED SECONDS: a worker of the test in which programs of several languages share locks. */
final class Worker {
    private final FileOutputStream out = new FileOutputStream(FileDescriptor.out);
    private final Store store;
    private final Random random;
    private final boolean timed;
    private long number;

    private Worker(Store store, long seed) {
        this.store = store;
        this.random = new Random(seed);
        this.timed = !store.info().capabilities().contains(Capability.PROCESS);
    }

    /** One line, by one write: a kill never leaves half of it. */
    private void say(long now, String text) throws IOException {
        out.write((now + " " + text + "\n").getBytes(StandardCharsets.US_ASCII));
    }

    private void say(String text) throws IOException {
        say(System.nanoTime(), text);
    }

    /** The time first, then the question: what is said was true at that time. */
    private boolean sayIfValid(Lease lease, String text) throws IOException {
        long now = System.nanoTime();
        boolean valid = lease.isValid();
        say(now, valid ? text : "lost " + number);
        return valid;
    }

    private Request waiting(Request request) {
        Request ready = timed ? request.ttl(Duration.ofMillis(1000)) : request;
        switch (random.nextInt(5)) {
            case 0:
                return ready.tryOnce();
            case 1:
                return ready.waitAtMost(Duration.ofMillis(1 + random.nextInt(50)));
            default:
                return ready.waitAtMost(Duration.ofSeconds(2));
        }
    }

    private Lease acquire(Request request) throws Exception {
        if (random.nextInt(3) != 0) {
            return store.acquire(request);
        }
        try {
            return store.acquireAsync(request).get();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof HoldfastException) {
                throw (HoldfastException) e.getCause();
            }
            throw e;
        }
    }

    private void step(Request request, String what, int permits) throws Exception {
        number++;
        say("ask " + number + " " + what + " " + permits);
        Lease lease;
        try {
            lease = acquire(waiting(request));
        } catch (HoldfastException e) {
            say("not " + number + " " + e.status());
            return;
        }
        if (sayIfValid(lease, "got " + number + " " + lease.token())) {
            work(lease, what);
        }
        say("letting " + number);
        Status status = lease.release();
        say("let " + number + " " + status);
    }

    private void work(Lease lease, String what) throws Exception {
        if (what.equals("counter")) {
            count(lease);
        }
        Thread.sleep(random.nextInt(4));
        sayIfValid(lease, "still " + number);
    }

    private void count(Lease lease) throws IOException {
        long token = lease.token();
        long value;
        try {
            byte[] bytes = store.guard("shared-counter").claim(token).orElse(null);
            value = bytes == null ? 0 : Long.parseLong(new String(bytes, StandardCharsets.US_ASCII));
        } catch (HoldfastException e) {
            return; /* nothing is said of a claim */
        }
        value++;
        say("adding " + value + " " + token);
        String answer = "added ";
        try {
            store.guard("shared-counter").set(token, Long.toString(value).getBytes(StandardCharsets.US_ASCII));
        } catch (HoldfastException.Fenced e) {
            answer = "fenced ";
        } catch (HoldfastException e) {
            answer = "unsure ";
        }
        say(answer + value + " " + token);
    }

    private void run(double seconds) throws Exception {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() - end < 0) {
            switch (random.nextInt(3)) {
                case 0:
                    step(Request.mutex("shared-mutex"), "mutex", 1);
                    break;
                case 1:
                    int permits = 1 + random.nextInt(2);
                    step(Request.semaphore("shared-semaphore", 3).permits(permits), "semaphore", permits);
                    break;
                default:
                    step(Request.mutex("shared-counter-lock"), "counter", 1);
            }
        }
    }

    public static void main(String[] args) {
        if (args.length != 3) {
            System.err.println("usage: worker URL SEED SECONDS");
            System.exit(64);
        }
        try (Store store = Holdfast.open(args[0])) {
            new Worker(store, Long.parseLong(args[1])).run(Double.parseDouble(args[2]));
        } catch (Throwable e) {
            System.err.println("worker: " + e);
            System.exit(1);
        }
    }
}
