// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;
import java.util.Set;

/**
 * What a store is, and what it can do.
 *
 * @param engine the engine: "lmdb", "redis" ...
 * @param location the URL or path in use, without secrets
 * @param capabilities what it can do
 * @param tokens what its tokens promise
 * @param defaultTtl the ttl of leases that ask for none; zero: none
 * @param minTtl the shortest ttl
 * @param maxTtl no grant and no renewal lasts longer; zero: no limit
 * @param lacks what it cannot do
 * @param source what chose it: "the caller", "HOLDFAST_STORE", "profile NAME in FILE" or "the built-in default"
 */
public record StoreInfo(String engine, String location, Set<Capability> capabilities, TokenStrength tokens,
        Duration defaultTtl, Duration minTtl, Duration maxTtl, List<Lack> lacks, String source) {
    static StoreInfo read(Reader in) {
        return new StoreInfo(in.text(), in.text(), Capability.of(in.number()), TokenStrength.of(in.integer()), in.duration(),
                in.duration(), in.duration(), in.list(() -> Lack.read(in)), in.text());
    }
}
