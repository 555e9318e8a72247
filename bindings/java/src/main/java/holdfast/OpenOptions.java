// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Executor;

/** How to open a store. Options are immutable: each method returns another one. */
public final class OpenOptions {
    private static final long EXISTING = 1;
    private static final long ONCE = 1 << 1;
    private static final long NO_WAIT = 1 << 2;

    private final long wait;
    private final String label;
    private final long flags;
    private final Executor executor;

    /** The defaults. */
    public OpenOptions() {
        this(0, null, 0, Threads.CALLBACKS);
    }

    private OpenOptions(long wait, String label, long flags, Executor executor) {
        this.wait = wait;
        this.label = label;
        this.flags = flags;
        this.executor = executor;
    }

    /**
     * Give up opening after this time; the default is five seconds.
     *
     * @param time the time
     * @return the options
     */
    public OpenOptions wait(Duration time) {
        return new OpenOptions(Args.millis(time), label, flags, executor);
    }

    /**
     * For people: who we are. The default names host, process, user and program.
     *
     * @param text the label
     * @return the options
     */
    public OpenOptions label(String text) {
        return new OpenOptions(wait, text, flags, executor);
    }

    /**
     * Use only what exists: nothing is created.
     *
     * @return the options
     */
    public OpenOptions existing() {
        return new OpenOptions(wait, label, flags | EXISTING, executor);
    }

    /**
     * Try each address of the server once.
     *
     * @return the options
     */
    public OpenOptions once() {
        return new OpenOptions(wait, label, flags | ONCE, executor);
    }

    /**
     * Do not wait for the server: calls wait for it.
     *
     * @return the options
     */
    public OpenOptions noWait() {
        return new OpenOptions(wait, label, flags | NO_WAIT, executor);
    }

    /**
     * Complete futures and call listeners on this executor. The default is a pool of daemon threads of this library, in which
     * continuations may wait.
     *
     * @param where the executor
     * @return the options
     */
    public OpenOptions executor(Executor where) {
        return new OpenOptions(wait, label, flags, Objects.requireNonNull(where, "executor"));
    }

    Executor executor() {
        return executor;
    }

    byte[] encode(String url) {
        return new Args().text(url).number(wait).text(label).number(flags).done();
    }
}
