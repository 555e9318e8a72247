// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;

/**
 * A holder of a lease.
 *
 * @param token its token
 * @param permits how many permits it has
 * @param detached no process is responsible for it
 * @param age since when
 * @param ttl what is left; null: it has no ttl
 * @param pid its process; 0: unknown
 * @param tid its thread; 0: unknown
 * @param label its label, which may be anything
 * @param session for deadlock detection; 0: unknown
 * @param lingers its process may keep it while nobody uses it
 * @param idle and did so when it told the store last
 * @param watched it learns that others wait
 * @param slots the numbers of its permits
 */
public record Holder(long token, int permits, boolean detached, Duration age, Duration ttl, long pid, long tid,
        String label, long session, boolean lingers, boolean idle, boolean watched, List<Integer> slots) {
    static Holder read(Reader in) {
        return new Holder(in.number(), in.integer(), in.flag(), in.duration(), in.durationOrNull(), in.number(), in.number(),
                in.text(), in.number(), in.flag(), in.flag(), in.flag(), in.list(in::integer));
    }
}
