// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;

/**
 * All of a lease, as of one moment.
 *
 * @param token the token, 0 where the engine has none
 * @param state how it stands
 * @param holds the hold count of a reentrant lease, else 1
 * @param remaining the validity left; {@link Lease#NO_LIMIT} if there is no limit
 * @param age the time since it was granted
 * @param ttl what each renewal gives; zero: none
 * @param name the name
 * @param wanted others wait for it ({@link Request#watch()})
 * @param asks how often somebody has asked for it
 * @param kind its kind
 * @param slots the numbers of its permits ({@link Request#numbered()})
 */
public record LeaseInfo(long token, LeaseState state, int holds, Duration remaining, Duration age, Duration ttl, Name name,
        boolean wanted, int asks, Kind kind, List<Integer> slots) {
    static LeaseInfo read(Reader in) {
        return new LeaseInfo(in.number(), LeaseState.of(in.integer()), in.integer(), in.duration(), in.duration(),
                in.duration(), Name.of(in.bytes()), in.flag(), in.integer(), Kind.of(in.integer()), in.list(in::integer));
    }
}
