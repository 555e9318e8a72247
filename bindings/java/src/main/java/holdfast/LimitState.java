// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.time.Instant;

/**
 * What a rate limit has left.
 *
 * @param granted the permits were taken
 * @param left permits that could be taken at once
 * @param refill until all are available again, if nobody takes any
 * @param waited how long the call slept
 * @param retry not granted: the wait that would have been enough
 * @param at granted: when, by the clock of the store; else null
 * @param rate the rule in force: permits in each interval
 * @param per the interval
 * @param burst bucket only: the most at once
 * @param algorithm the algorithm
 * @param isSet the rule was set
 */
public record LimitState(boolean granted, long left, Duration refill, Duration waited, Duration retry, Instant at,
        int rate, Duration per, int burst, Limit.Algorithm algorithm, boolean isSet) {
    static LimitState read(boolean granted, Reader in) {
        long left = in.number();
        Duration refill = in.duration();
        Duration waited = in.duration();
        Duration retry = in.duration();
        long micros = in.number();
        Instant at = micros == 0 ? null : Instant.ofEpochSecond(micros / 1_000_000, micros % 1_000_000 * 1000);
        Duration per = in.duration();
        return new LimitState(granted, left, refill, waited, retry, at, in.integer(), per, in.integer(),
                Limit.Algorithm.of(in.integer()), in.flag());
    }
}
