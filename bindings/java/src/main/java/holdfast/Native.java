// SPDX-License-Identifier: MIT
package holdfast;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The border to C: native/binding.c has the other half. Only numbers and byte arrays cross it. C names Java objects by ids
 * and never holds a reference to one.
 */
final class Native {
    static final long FOREVER = -1;

    private static final AtomicLong ids = new AtomicLong();
    private static final Map<Long, Call> calls = new ConcurrentHashMap<>();
    private static final Map<Long, Sink> sinks = new ConcurrentHashMap<>();

    static {
        load();
    }

    private Native() {
    }

    private static void load() {
        String path = System.getProperty("holdfast.library");
        if (path != null) {
            System.load(path);
        } else {
            loadFromPath();
        }
        if (versionNumber() / 100 != Holdfast.BUILT_FOR / 100) {
            throw new UnsatisfiedLinkError("libholdfast is of version " + version() + ", which this binding was not made for");
        }
    }

    private static void loadFromPath() {
        try {
            System.loadLibrary("holdfast_jni");
        } catch (UnsatisfiedLinkError e) {
            throw new UnsatisfiedLinkError(e.getMessage() + " (-Dholdfast.library=PATH names another libholdfast_jni.so)");
        }
    }

    // ---- ids

    static long add(Call call) {
        long id = ids.incrementAndGet();
        calls.put(id, call);
        return id;
    }

    static void remove(Call call) {
        calls.remove(call.id);
    }

    static long add(Sink sink) {
        long id = ids.incrementAndGet();
        sinks.put(id, sink);
        return id;
    }

    static void remove(Sink sink) {
        sinks.remove(sink.id);
    }

    /** For tests: calls that are under way, and leases with a listener. */
    static int registered() {
        return calls.size() + sinks.size();
    }

    // ---- called by C; nothing may be thrown

    static void done(long id, byte[] result) {
        Call call = calls.remove(id);
        if (call == null) {
            return;
        }
        try {
            call.finish(Result.of(result));
        } catch (Throwable failure) {
            Log.failed("a callback", failure);
        }
    }

    static void event(long id, int event, byte[] blob) {
        Sink sink = sinks.get(id);
        if (sink == null || blob == null) {
            return;
        }
        try {
            Reader in = new Reader(blob);
            sink.add(event, in.number(), in.text());
        } catch (Throwable failure) {
            Log.failed("an event", failure);
        }
    }

    static byte[] update(long id, byte[] old) {
        Call call = calls.get(id);
        return call == null ? null : call.update(old);
    }

    static HoldfastException error(int status, int code, byte[] blob) {
        return HoldfastException.of(Status.of(status), code, blob == null ? null : new Reader(blob).text());
    }

    // ---- C

    static native String version();

    static native int versionNumber();

    static native String statusName(int status);

    static native String statusText(int status);

    static native byte[] engines();

    static native long open(byte[] args);

    static native int close(long store, long flags);

    static native byte[] storeInfo(long store);

    static native byte[] stats(long store);

    static native long bound(int bucket);

    static native long quantile(long[] buckets, double share);

    static native void releaseIdle(long store);

    static native int storeFd(long store);

    static native int timeout(long store);

    static native int makeBell();

    static native void ringBell(int bell);

    static native void closeBell(int bell);

    /** True: the bell rang, or there was something to do; false: the time is over. */
    static native boolean poll(long store, int fd, int bell, int timeout);

    static native long begin(int op, long handle, byte[] args, long id);

    static native int cancel(long op);

    static native long acquireNow(long store, byte[] wanted, long scope, long sink);

    static native void releaseNow(long lease);

    static native byte[] leaseInfo(long lease);

    static native long token(long lease);

    static native int state(long lease);

    static native long remaining(long lease);

    static native boolean wanted(long lease);

    static native long fence(long lease);

    static native String export(long lease);

    static native byte[] session(long lease, byte[] around);

    static native void freeMembers(long members);
}
