// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.TestWatcher;

/** What all tests need: a store of its own names, and ways to wait for things without counting on time. */
@Timeout(120)
@ExtendWith(Bed.Names.class)
abstract class Bed {
    static final Duration LONG = Duration.ofSeconds(60);
    private static final AtomicLong COUNT = new AtomicLong();
    private static final Queue<Path> DIRECTORIES = new ConcurrentLinkedQueue<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> DIRECTORIES.forEach(Bed::delete)));
    }

    private static void delete(Path directory) {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        } catch (IOException e) {
            System.err.println("left behind: " + e);
        }
    }

    /** What failed is named at once. */
    static final class Names implements TestWatcher {
        @Override
        public void testFailed(ExtensionContext context, Throwable cause) {
            System.err.println("FAILED " + context.getTestClass().map(Class::getSimpleName).orElse("") + "."
                    + context.getDisplayName() + ": " + cause);
        }
    }

    private final String unique = ProcessHandle.current().pid() + "-" + COUNT.incrementAndGet();
    String url;
    Store store;

    abstract String makeUrl() throws Exception;

    @BeforeEach
    void openStore() throws Exception {
        url = makeUrl();
        store = Holdfast.open(url);
    }

    @AfterEach
    void closeStore() {
        store.close();
    }

    /** Tests on one server do not share names. */
    String name(String what) {
        return what + "-" + unique;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String embeddedUrl() throws Exception {
        Path directory = Files.createTempDirectory("holdfast-java");
        DIRECTORIES.add(directory);
        return "file:" + directory;
    }

    static String redisUrl() {
        String given = System.getenv("HOLDFAST_TEST_URL");
        return given == null ? null : given.replace("{id}", "java");
    }

    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + LONG.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() - end > 0) {
                fail("waited in vain: " + what);
            }
            Thread.sleep(2);
        }
    }

    /** Requests are strict where this is used: others wait in a queue of the process, which the store does not show. */
    int waiters(String name) {
        return store.inspect(Name.of(name)).map(entry -> entry.waiters().size()).orElse(0);
    }

    void untilWaiters(String name, int count) throws Exception {
        until(count + " wait for " + name, () -> waiters(name) == count);
    }

    /** What a thread does, as a future. */
    static <T> CompletableFuture<T> inThread(Callable<T> work) {
        CompletableFuture<T> done = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                done.complete(work.call());
            } catch (Throwable failure) {
                done.completeExceptionally(failure);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return done;
    }

    static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(60, java.util.concurrent.TimeUnit.SECONDS);
    }

    /** The exception that a future ended with. */
    static Throwable failure(CompletableFuture<?> future) throws Exception {
        try {
            get(future);
        } catch (java.util.concurrent.ExecutionException e) {
            return e.getCause();
        } catch (java.util.concurrent.CancellationException e) {
            return e;
        }
        return fail("it did not fail");
    }
}
