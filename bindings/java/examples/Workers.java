// SPDX-License-Identifier: MIT
import holdfast.Entry;
import holdfast.Guard;
import holdfast.Holdfast;
import holdfast.HoldfastException;
import holdfast.Lease;
import holdfast.LeaseEvent;
import holdfast.Name;
import holdfast.Request;
import holdfast.Store;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;

/**
 * workers [URL]: two workers, a token, a loss. The first worker loses its lease and does not look; the page that both write
 * refuses its old token. Without a URL an embedded store in a temporary directory is used.
 */
final class Workers {
    private static final Name REPORT = Name.of("report");

    private final Store store;
    private final Guard page;
    /** The moments that the workers wait for. */
    private final CompletableFuture<Long> firstWrote = new CompletableFuture<>();
    private final CompletableFuture<Void> firstLost = new CompletableFuture<>();
    private final CompletableFuture<Void> secondWrote = new CompletableFuture<>();
    private final CompletableFuture<Void> firstRefused = new CompletableFuture<>();

    private Workers(Store store) {
        this.store = store;
        this.page = store.guard("page");
    }

    private void write(String who, long token) {
        page.claim(token);
        page.set(token, ("by " + who).getBytes(StandardCharsets.UTF_8));
        System.out.println(who + ": wrote page");
    }

    private void first() throws InterruptedException {
        Lease lease = store.acquire(Request.mutex(REPORT).strict().onEvent(event -> {
            if (event.type() == LeaseEvent.Type.LOST) {
                System.out.println("first: lost report");
                firstLost.complete(null);
            }
        }));
        long token = lease.fence();
        System.out.println("first: holds report, token " + token);
        write("first", token);
        firstWrote.complete(token);
        secondWrote.join();
        try {
            page.set(token, "by first, too late".getBytes(StandardCharsets.UTF_8));
        } catch (HoldfastException.Fenced e) {
            System.out.println("first: refused, a newer token was used");
        }
        lease.release();
        firstRefused.complete(null);
    }

    private void second() throws InterruptedException {
        firstWrote.join();
        try (Lease lease = store.acquire(Request.mutex(REPORT).strict())) {
            firstLost.join(); /* so that the lines come in order */
            System.out.println("second: holds report, token " + lease.token());
            write("second", lease.fence());
            secondWrote.complete(null);
            firstRefused.join();
        }
        System.out.println("second: released");
    }

    /** As an operator would: end the lease of the first worker when somebody waits for it. */
    private void run() throws Exception {
        CompletableFuture<Void> workers = CompletableFuture.allOf(start(this::first), start(this::second));
        long token = firstWrote.join();
        while (!workers.isDone() && store.inspect(REPORT).map(Entry::waiters).orElseThrow().isEmpty()) {
            Thread.sleep(1);
        }
        store.breakLease(REPORT, token);
        workers.join();
        try (Lease lease = store.acquire(Request.mutex(REPORT))) {
            System.out.println("page: " + new String(page.claim(lease.fence()).orElseThrow(), StandardCharsets.UTF_8));
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static CompletableFuture<Void> start(Work work) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        new Thread(() -> {
            try {
                work.run();
                done.complete(null);
            } catch (Throwable e) {
                e.printStackTrace();
                System.exit(1);
            }
        }).start();
        return done;
    }

    private static void delete(Path directory) throws Exception {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }

    public static void main(String[] args) throws Exception {
        Path directory = args.length > 0 ? null : Files.createTempDirectory("holdfast-workers");
        try (Store store = Holdfast.open(directory == null ? args[0] : "file:" + directory)) {
            new Workers(store).run();
        } finally {
            if (directory != null) {
                delete(directory);
            }
        }
    }
}
