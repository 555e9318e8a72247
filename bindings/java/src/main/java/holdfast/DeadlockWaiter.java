// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;

/**
 * A waiter of a cycle. It waits for what the next one has; the last one waits for what the first has.
 *
 * @param name what it waits for
 * @param token of its lease of what the waiter before waits for; 0: ahead in the queue
 * @param session its session
 * @param age since when it waits
 * @param pid its process; 0: unknown
 * @param label its label, which may be anything
 */
public record DeadlockWaiter(Name name, long token, long session, Duration age, long pid, String label) {
    static DeadlockWaiter read(Reader in) {
        return new DeadlockWaiter(Name.of(in.bytes()), in.number(), in.number(), in.duration(), in.number(), in.text());
    }
}
