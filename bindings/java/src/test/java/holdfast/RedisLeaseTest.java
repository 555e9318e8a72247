// SPDX-License-Identifier: MIT
package holdfast;

import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Leases on Redis. */
@EnabledIfEnvironmentVariable(named = "HOLDFAST_TEST_URL", matches = ".+")
class RedisLeaseTest extends LeaseSuite {
    @Override
    String makeUrl() {
        return redisUrl();
    }
}
