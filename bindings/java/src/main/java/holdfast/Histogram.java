// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;

/**
 * Durations, counted by their length. Bucket 0 counts those below a millisecond, bucket i those of at least 2<sup>i-1</sup>
 * and less than 2<sup>i</sup> milliseconds, and the last one all longer ones.
 *
 * @param count how many durations there are
 * @param sum their sum
 * @param buckets how many are in each bucket; not cumulative
 */
public record Histogram(long count, Duration sum, List<Long> buckets) {
    static Histogram read(Reader in) {
        return new Histogram(in.number(), in.duration(), in.list(in::number));
    }

    /**
     * The upper bound of a bucket.
     *
     * @param bucket its number, from 0
     * @return the bound; null for the last bucket, which has none
     */
    public static Duration bound(int bucket) {
        return bucket < 0 ? Duration.ZERO : orNull(Native.bound(bucket));
    }

    /**
     * The bound below which a share of the durations lies.
     *
     * @param share 0.5 for the median
     * @return the bound; zero if there are no durations, null if it is in the last bucket, which has no bound
     */
    public Duration quantile(double share) {
        return orNull(Native.quantile(buckets.stream().mapToLong(Long::longValue).toArray(), share));
    }

    private static Duration orNull(long millis) {
        return millis == Long.MAX_VALUE ? null : Duration.ofMillis(millis);
    }
}
