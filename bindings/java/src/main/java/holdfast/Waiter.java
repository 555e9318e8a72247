// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;

/**
 * A waiter for a lease.
 *
 * @param position 1 is next
 * @param permits how many permits it asks for
 * @param kind what it asks for
 * @param age since when
 * @param pid its process; 0: unknown
 * @param label its label, which may be anything
 * @param session for deadlock detection; 0: unknown
 */
public record Waiter(int position, int permits, Kind kind, Duration age, long pid, String label, long session) {
    static Waiter read(Reader in) {
        return new Waiter(in.integer(), in.integer(), Kind.of(in.integer()), in.duration(), in.number(), in.text(),
                in.number());
    }
}
