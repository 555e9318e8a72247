// SPDX-License-Identifier: MIT
package holdfast;

import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Locks on Redis. */
@EnabledIfEnvironmentVariable(named = "HOLDFAST_TEST_URL", matches = ".+")
class RedisLockTest extends LockSuite {
    @Override
    String makeUrl() {
        return redisUrl();
    }
}
