// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.time.Instant;

/**
 * The mark that work was done.
 *
 * @param token of the lease under which it was done
 * @param at when, by the clock of the process that did it
 * @param ttl how long the mark will stay; null: for ever
 * @param label who did it
 */
public record OnceMark(long token, Instant at, Duration ttl, String label) {
    static OnceMark read(Reader in) {
        return new OnceMark(in.number(), Instant.ofEpochMilli(in.number()), in.durationOrNull(), in.text());
    }
}
