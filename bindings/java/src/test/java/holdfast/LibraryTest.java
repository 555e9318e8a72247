// SPDX-License-Identifier: MIT
package holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The library itself, errors, what is forgotten, and that nothing grows. On the embedded store. */
class LibraryTest extends Bed {
    @Override
    String makeUrl() throws Exception {
        return embeddedUrl();
    }

    @Test
    void statusesAreThoseOfC() {
        for (Status status : Status.values()) {
            assertEquals(Native.statusName(status.number()), status.name());
        }
        int after = Status.values().length;
        assertEquals(Native.statusName(after), Native.statusName(after + 1), "C has a status that Java has not");
    }

    @Test
    void versionAndEngines() {
        assertTrue(Holdfast.version().startsWith(Holdfast.BUILT_FOR / 10000 + "." + Holdfast.BUILT_FOR / 100 % 100 + "."));
        assertEquals(Holdfast.BUILT_FOR, Holdfast.versionNumber() / 100 * 100);
        List<EngineInfo> engines = Holdfast.engines();
        EngineInfo lmdb = engines.stream().filter(engine -> engine.name().equals("lmdb")).findFirst().orElseThrow();
        assertTrue(lmdb.available());
        assertNull(lmdb.whyNot());
        assertTrue(lmdb.capabilities().contains(Capability.TOKEN));
        assertEquals(Capability.values().length, lmdb.capabilities().size()
                + lmdb.lacks().stream().mapToInt(lack -> lack.capabilities().size()).sum(), "C has a capability that Java has not");
        StoreInfo info = store.info();
        assertEquals("lmdb", info.engine());
        assertEquals(lmdb.capabilities(), info.capabilities());
        assertFalse(info.lacks().isEmpty());
        assertEquals(lmdb.tokens(), info.tokens());
    }

    /** Without a URL it is the store that the environment names, here that of another process. */
    @Test
    void whichStore() throws Exception {
        assertEquals("the caller", store.info().source());
        HoldfastException empty = assertThrows(HoldfastException.Config.class, () -> Holdfast.open(""));
        assertTrue(empty.getMessage().contains("is empty"), empty.getMessage());
        Path directory = Files.createTempDirectory("holdfast-java");
        ProcessBuilder builder = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dholdfast.library=" + System.getProperty("holdfast.library"), "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")), "holdfast.WhichStore");
        builder.environment().put("HOLDFAST_STORE", "file:" + directory + "/env");
        Process process = builder.redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), said);
        assertTrue(said.contains("file:" + directory + "/env from HOLDFAST_STORE"), said);
    }

    // ---- errors

    private static void noSecret(HoldfastException e) {
        assertFalse(e.getMessage().contains("opensesame"), e.getMessage());
    }

    @Test
    void badUrls() {
        assertEquals(Status.CONFIG, assertThrows(HoldfastException.Config.class, () -> Holdfast.open("gopher:x")).status());
        HoldfastException refused = assertThrows(HoldfastException.Unavailable.class,
                () -> Holdfast.open("redis://user:opensesame@127.0.0.1:1", new OpenOptions().once()));
        noSecret(refused);
        assertEquals(20 /* ENOTDIR */, assertThrows(HoldfastException.class, () -> Holdfast.open("file:/dev/null/x")).nativeCode());
        noSecret(assertThrows(HoldfastException.class, () -> Holdfast.open("redis://user:opensesame@127.0.0.1:x/")));
        assertThrows(HoldfastException.Invalid.class, () -> Holdfast.open("file:/tmp/a\0b"));
        assertThrows(HoldfastException.NotFound.class,
                () -> Holdfast.open(embeddedUrl() + "/none", new OpenOptions().existing().label("a")
                        .wait(Duration.ofSeconds(1))));
    }

    @Test
    void badRequests() throws Exception {
        assertThrows(HoldfastException.Invalid.class, () -> store.acquire(Request.mutex("")));
        assertThrows(HoldfastException.Invalid.class, () -> store.acquire(Request.mutex("x".repeat(513))));
        assertThrows(HoldfastException.Invalid.class, () -> Request.mutex("x").waitAtMost(Duration.ofMillis(-1)));
        assertThrows(HoldfastException.Invalid.class, () -> Request.mutex("x").label("a\0b"));
        assertThrows(HoldfastException.Invalid.class, () -> Request.mutex("x").scope(0));
        assertThrows(HoldfastException.Invalid.class, () -> store.cell("x").set(new byte[70000]));
        try (Lease lease = store.acquire(Request.semaphore("kind", 2))) {
            assertThrows(HoldfastException.Mismatch.class, () -> store.acquire(Request.mutex("kind")));
            assertThrows(HoldfastException.Unsupported.class, lease::export);
            assertThrows(HoldfastException.Unsupported.class, lease::renew);
        }
        byte[] odd = { (byte) 0xff, 0, 1 };
        try (Lease lease = store.acquire(Request.mutex(Name.of(odd)))) {
            assertEquals(Name.of(odd), lease.info().name());
            assertEquals(Name.of(odd), store.inspectAll(null).entries().get(0).name());
        }
    }

    @Test
    void durationsAreRoundedUp() {
        assertEquals(1, Args.millis(Duration.ofNanos(1)));
        assertEquals(2, Args.millis(Duration.ofNanos(1_000_001)));
        assertEquals(1, Args.millis(Duration.ofMillis(1)));
        assertEquals(0, Args.millis(Duration.ZERO));
        assertEquals(Native.FOREVER, Args.waitMillis(Duration.ofSeconds(Long.MAX_VALUE)));
        assertEquals(Native.FOREVER, Args.waitMillis(null));
    }

    @Test
    void sessions() throws Exception {
        try (Lease lease = store.acquire(Request.mutex("outer"))) {
            String session = lease.session(null);
            assertFalse(session.isEmpty());
            assertThrows(HoldfastException.Deadlock.class,
                    () -> store.acquire(Request.mutex("outer").session(session).waitForever()));
        }
    }

    @Test
    void allOptions() throws Exception {
        Request request = Request.mutex("options").ttl(Duration.ofMinutes(1)).maxHold(Duration.ofMinutes(2))
                .minValid(Duration.ofMillis(1)).lockDelay(Duration.ofMillis(1)).noLinger().barge().noRenew().strict()
                .noDeadlockCheck().label("label").scope(7).waitAtMost(LONG);
        try (Lease lease = store.acquire(request)) {
            assertEquals(Duration.ofMinutes(1), lease.info().ttl());
            assertTrue(lease.remaining().compareTo(Duration.ofMinutes(1)) <= 0);
            get(lease.renewAsync(Duration.ofSeconds(30)));
        }
        store.acquire(Request.mutex("held").minHold(Duration.ofMinutes(1))).close();
        assertTrue(store.tryAcquire(Request.mutex("held")).isEmpty());
    }

    @Test
    void anExecutorOfTheProgram() throws Exception {
        ExecutorService executor = Executors.newSingleThreadExecutor(work -> new Thread(work, "mine"));
        try (Store other = Holdfast.open(url, new OpenOptions().executor(executor))) {
            CompletableFuture<String> where = new CompletableFuture<>();
            Lease held = other.acquire(Request.mutex("here"));
            CompletableFuture<Void> got = other.acquireAsync(Request.mutex("here")).thenAccept(lease -> {
                where.complete(Thread.currentThread().getName());
                lease.close(); /* a continuation may wait */
            });
            held.close();
            get(got);
            assertEquals("mine", get(where));
            executor.shutdown();
            assertTrue(get(other.acquireAsync(Request.mutex("here"))).isValid(), "a lease must not get lost with an executor");
        }
    }

    // ---- what is forgotten

    private void forget() throws Exception {
        assertNotNull(store.acquire(Request.mutex("forgotten").onEvent(event -> {
        })));
    }

    @Test
    void aForgottenLeaseIsReportedAndStaysHeld() throws Exception {
        LinkedBlockingQueue<String> log = new LinkedBlockingQueue<>();
        Handler handler = new Handler() {
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
        Logger logger = Logger.getLogger("holdfast");
        logger.setUseParentHandlers(false);
        logger.addHandler(handler);
        try {
            store.acquire(Request.mutex("not forgotten")).close();
            forget();
            until("the report", () -> {
                System.gc();
                return !log.isEmpty();
            });
            String report = log.poll(60, TimeUnit.SECONDS);
            assertTrue(report.contains("'forgotten'"), report);
            assertTrue(log.isEmpty());
            assertTrue(get(inThread(() -> store.tryAcquire(Request.mutex("forgotten")))).isEmpty(), "it was released");
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
    }

    // ---- nothing grows

    private static long descriptors() throws Exception {
        try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
            return files.count();
        }
    }

    private static long residentKb() throws Exception {
        return Files.readAllLines(Path.of("/proc/self/status")).stream().filter(line -> line.startsWith("VmRSS"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", ""))).findFirst().orElseThrow();
    }

    private void useIt(int times) throws Exception {
        for (int i = 0; i < times; i++) {
            try (Lease lease = store.acquire(Request.mutex("leak").onEvent(event -> {
            }))) {
                get(store.cell("leak").setAsync(new byte[50_000]));
                assertTrue(lease.isValid());
                store.cell("leak").get();
                assertTrue(store.tryAcquire(Request.mutex("leak")).isEmpty());
                store.inspectAll(null);
                assertThrows(HoldfastException.Changed.class, () -> store.cell("leak").delete(1L << 40));
            }
        }
    }

    @Test
    void nothingGrows() throws Exception {
        useIt(500);
        System.gc();
        long before = residentKb();
        useIt(2000);
        System.gc();
        assertTrue(residentKb() - before < 40_000, "memory: " + before + " kB, then " + residentKb() + " kB");
        assertEquals(0, Native.registered());
    }

    @Test
    void storesLeaveNothing() throws Exception {
        String other = embeddedUrl();
        Holdfast.open(other).close();
        long before = descriptors();
        for (int i = 0; i < 20; i++) {
            Store opened = Holdfast.open(other);
            get(opened.counter("c").addAsync(1));
            get(opened.acquireAsync(Request.mutex("left").watch().onEvent(event -> {
            })));
            opened.close();
        }
        assertEquals(0, Native.registered());
        until("descriptors", () -> descriptors() <= before + 2);
        until("pollers", () -> Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("holdfast-poller")).count() <= 1);
    }
}
