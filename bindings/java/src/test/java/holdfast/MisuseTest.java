// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Programs that do what they should not, and moments that are hard to hit. */
class MisuseTest extends Bed {
    private final LinkedBlockingQueue<String> log = new LinkedBlockingQueue<>();
    private final Logger logger = Logger.getLogger("holdfast");
    private final Handler handler = new Handler() {
        @Override
        public void publish(LogRecord record) {
            log.add(record.getMessage());
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }
    };

    @Override
    String makeUrl() throws Exception {
        return embeddedUrl();
    }

    @BeforeEach
    void listenToTheLog() {
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
    }

    @AfterEach
    void leaveTheLog() {
        logger.removeHandler(handler);
        logger.setUseParentHandlers(true);
    }

    private void untilCollected(String report) throws Exception {
        until("a report of " + report, () -> {
            System.gc();
            return log.stream().anyMatch(line -> line.contains(report));
        });
    }

    // ---- bytes

    @Test
    void noBytesAreNotEmptyBytes() throws Exception {
        Cell cell = store.cell("c");
        long version = cell.set("kept".getBytes());
        assertThrows(NullPointerException.class, () -> cell.set(null));
        assertThrows(NullPointerException.class, () -> cell.setFor(null, Duration.ofSeconds(60)));
        assertThrows(NullPointerException.class, () -> cell.swap(null, version));
        try (Lease lease = store.acquire(Request.mutex("m"))) {
            assertThrows(NullPointerException.class, () -> store.guard("g").set(lease.fence(), null));
        }
        assertEquals(version, cell.get().orElseThrow().version());
    }

    // ---- names

    @Test
    void namesAreNeverChangedSilently() throws Exception {
        for (String half : List.of("\ud83d", "\ude00", "a\ude00\ud83d", "a\ud83d")) {
            assertThrows(HoldfastException.Invalid.class, () -> Name.of(half));
            assertThrows(HoldfastException.Invalid.class, () -> store.lock(half));
            assertThrows(HoldfastException.Invalid.class, () -> Request.mutex("m").label(half));
        }
        assertArrayEquals(new byte[] {(byte) 0xf0, (byte) 0x9f, (byte) 0x98, (byte) 0x80}, Name.of("\ud83d\ude00").bytes());
        Name odd = Name.of(new byte[] {0, -1, 0});
        try (Lease lease = store.acquire(Request.mutex(odd)); Lease question = store.acquire(Request.mutex("?"))) {
            assertEquals(odd, store.inspectAll(null).entries().get(0).name());
            assertTrue(store.inspect(odd).isPresent());
            assertTrue(lease.isValid() && question.isValid());
        }
        assertThrows(HoldfastException.Invalid.class, () -> store.acquire(Request.mutex("")));
        assertThrows(HoldfastException.Invalid.class, () -> store.acquire(Request.mutex("x".repeat(513))));
    }

    // ---- threads

    @Test
    void aThreadThatEndsWithALockIsReported() throws Exception {
        HoldfastLock lock = store.lock(name("orphan"));
        Thread owner = new Thread(lock::lock);
        owner.start();
        owner.join();
        owner = null;
        assertFalse(lock.tryLock(1, TimeUnit.MILLISECONDS));
        untilCollected("'" + name("orphan") + "'");
        assertFalse(lock.tryLock(), "it was released");
    }

    @Test
    void anInterruptIsNeverSwallowed() throws Exception {
        Cell cell = store.cell("c");
        Thread me = Thread.currentThread();
        for (int i = 0; i < 100; i++) {
            boolean interrupted;
            try {
                cell.update(old -> {
                    me.interrupt();
                    throw new IllegalArgumentException("mine");
                }, LONG);
                interrupted = Thread.interrupted();
            } catch (InterruptedException e) {
                interrupted = true;
            } catch (IllegalArgumentException e) {
                interrupted = Thread.interrupted();
            }
            assertTrue(interrupted, "round " + i);
        }
    }

    @Test
    void futuresOfOneThreadAreNotReentrant() throws Exception {
        HoldfastLock lock = store.lock("async");
        Lease first = get(lock.lockAsync());
        CompletableFuture<Lease> second = lock.lockAsync();
        lockIsBusyFor(lock);
        assertFalse(second.isDone());
        first.close();
        get(second).close();
    }

    private static void lockIsBusyFor(HoldfastLock lock) throws Exception {
        assertFalse(lock.tryLock());
        assertFalse(get(inThread(() -> lock.tryLock())));
    }

    // ---- futures

    @Test
    void timeoutsOfFuturesLeaveNothing() throws Exception {
        for (int i = 0; i < 300; i++) {
            Lease held = store.acquire(Request.mutex("t"));
            CompletableFuture<Lease> waiting = store.acquireAsync(Request.mutex("t")).orTimeout(i % 3, TimeUnit.MILLISECONDS);
            CompletableFuture<Lease> given = store.acquireAsync(Request.mutex("t"));
            given.completeExceptionally(new IllegalStateException("the program's own"));
            held.close();
            try {
                get(waiting).close();
            } catch (java.util.concurrent.ExecutionException e) {
                assertTrue(e.getCause() instanceof java.util.concurrent.TimeoutException, e.toString());
            }
        }
        store.acquire(Request.mutex("t").waitAtMost(LONG)).close();
        until("all calls have ended", () -> Native.registered() == 0);
    }

    @Test
    void anExecutorThatFailsLosesNoLease() throws Exception {
        AtomicBoolean broken = new AtomicBoolean(true);
        try (Store other = Holdfast.open(url, new OpenOptions().executor(work -> {
            if (broken.get()) {
                throw new IllegalStateException("an executor");
            }
            work.run();
        }))) {
            LinkedBlockingQueue<LeaseEvent> events = new LinkedBlockingQueue<>();
            Lease lease = get(other.acquireAsync(Request.mutex("e").onEvent(events::add)));
            store.breakLease(Name.of("e"), lease.token());
            assertEquals(LeaseEvent.Type.LOST, events.poll(60, TimeUnit.SECONDS).type());
            assertEquals(Status.LOST, lease.release());
        }
    }

    // ---- stores

    @Test
    void closingInTwoWaysAtOnce() throws Exception {
        for (int i = 0; i < 100; i++) {
            Store other = Holdfast.open(url);
            CompletableFuture<Lease> held = other.acquireAsync(Request.mutex("z" + i));
            get(held);
            CompletableFuture<Lease> waiting = other.acquireAsync(Request.mutex("z" + i));
            List<CompletableFuture<Object>> closers = new ArrayList<>();
            for (int j = 0; j < 4; j++) {
                boolean hard = j == 3;
                closers.add(inThread(() -> {
                    try {
                        if (hard) {
                            other.close();
                        } else {
                            other.closeIfUnused();
                        }
                    } catch (HoldfastException.InUse | HoldfastException.Invalid e) {
                        return e;
                    }
                    return null;
                }));
            }
            for (CompletableFuture<Object> closer : closers) {
                get(closer);
            }
            assertTrue(failure(waiting) instanceof HoldfastException.Cancelled);
            assertEquals(Status.LOST, get(held).release());
            assertThrows(HoldfastException.class, () -> other.acquire(Request.mutex("z")));
            assertThrows(HoldfastException.class, () -> other.lock("z").lock());
            assertTrue(failure(other.acquireAsync(Request.mutex("z"))) instanceof HoldfastException);
            other.close();
        }
    }

    @Test
    void leasesAreCollectedUnderLoad() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        List<CompletableFuture<Object>> workers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            String mine = "load-" + i;
            workers.add(inThread(() -> {
                while (!stop.get()) {
                    store.acquire(Request.mutex(mine)).close();
                    get(store.acquireAsync(Request.mutex(mine).onEvent(event -> {
                    }))).close();
                }
                return null;
            }));
        }
        for (int i = 0; i < 10; i++) {
            System.gc();
        }
        stop.set(true);
        for (CompletableFuture<Object> worker : workers) {
            get(worker);
        }
        System.gc();
        assertTrue(log.isEmpty(), log.toString());
    }

    // ---- the virtual machine

    private static URL url(String path) {
        try {
            return new File(path).toURI().toURL();
        } catch (MalformedURLException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void aSecondClassLoaderIsToldAndHarmsNobody() throws Exception {
        String path = System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
        URL[] urls = Arrays.stream(path.split(File.pathSeparator)).map(MisuseTest::url).toArray(URL[]::new);
        try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
            Class<?> twin = loader.loadClass("holdfast.Holdfast");
            Throwable cause = assertThrows(java.lang.reflect.InvocationTargetException.class,
                    () -> twin.getMethod("version").invoke(null)).getCause();
            assertTrue(cause.getMessage().contains("classloader"), cause.toString());
        }
        store.acquire(Request.mutex("still")).close();
    }

    /** Another process that ends in the middle: its shutdown hook closes the store, with waiters and holders. */
    public static final class Ending {
        private Ending() {
        }

        public static void main(String[] args) throws Exception {
            Store store = Holdfast.open(args[0]);
            store.acquire(Request.mutex("hook").detached().ttl(LONG).onEvent(event -> {
            }));
            store.acquireAsync(Request.mutex("hook"));
            Runtime.getRuntime().addShutdownHook(new Thread(store::close));
            System.exit(7);
        }
    }

    @Test
    void aShutdownHookMayCloseAStore() throws Exception {
        Process child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1", "-Dholdfast.library=" + System.getProperty("holdfast.library"), "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                "holdfast.MisuseTest$Ending", url).inheritIO().start();
        assertTrue(child.waitFor(60, TimeUnit.SECONDS));
        assertEquals(7, child.exitValue());
        store.acquire(Request.mutex("hook").tryOnce()).close();
    }
}
