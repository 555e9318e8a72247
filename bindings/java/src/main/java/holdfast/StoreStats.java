// SPDX-License-Identifier: MIT
package holdfast;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What this process has done with a store since it was opened. Every number but {@code held} only grows.
 *
 * @param granted acquisitions that were granted
 * @param busy tries that found the name taken
 * @param timeouts waits that were too long
 * @param cancelled waits that were cancelled
 * @param deadlocks acquisitions that ended with {@link Status#DEADLOCK}
 * @param unknown acquisitions with an unknown outcome, which are settled in the background
 * @param failed acquisitions with any other status
 * @param reentries one hold more of what was held; not in {@code granted}
 * @param handovers granted by the store, after a wait there
 * @param passes granted by a call of this process that released it
 * @param lingered it had stayed with the process: {@link Request#linger}
 * @param waits of granted acquisitions
 * @param held held now
 * @param holds of holds that have ended, lost ones too
 * @param renewals renewals that were confirmed
 * @param renewalsFailed renewals that were refused, or not confirmed
 * @param losses by reason: "expired", "max_hold", "broken", "forgotten", "closed"
 * @param releasesUnknown releases that are settled in the background
 * @param reconnects connections that were made again
 * @param commands requests that were sent to servers
 */
public record StoreStats(long granted, long busy, long timeouts, long cancelled, long deadlocks, long unknown, long failed,
        long reentries, long handovers, long passes, long lingered, Histogram waits, long held, Histogram holds, long renewals,
        long renewalsFailed, Map<String, Long> losses, long releasesUnknown, long reconnects, long commands) {
    static StoreStats read(Reader in) {
        return new StoreStats(in.number(), in.number(), in.number(), in.number(), in.number(), in.number(), in.number(),
                in.number(), in.number(), in.number(), in.number(), Histogram.read(in), in.number(), Histogram.read(in),
                in.number(), in.number(), losses(in), in.number(), in.number(), in.number());
    }

    private static Map<String, Long> losses(Reader in) {
        Map<String, Long> losses = new LinkedHashMap<>();
        for (long left = in.number(); left > 0; left--) {
            losses.put(in.text(), in.number());
        }
        return Collections.unmodifiableMap(losses);
    }
}
