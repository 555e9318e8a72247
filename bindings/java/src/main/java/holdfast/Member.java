// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;

/**
 * A member of a group.
 *
 * @param token of its lease: no other member ever has it
 * @param value what it says of itself
 * @param age since when
 * @param ttl what is left; null: it has no ttl
 * @param pid its process; 0: unknown
 */
public record Member(long token, String value, Duration age, Duration ttl, long pid) {
    static Member read(Reader in) {
        return new Member(in.number(), in.text(), in.duration(), in.durationOrNull(), in.number());
    }
}
