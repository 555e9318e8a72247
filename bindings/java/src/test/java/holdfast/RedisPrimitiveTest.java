// SPDX-License-Identifier: MIT
package holdfast;

import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Primitives on Redis. */
@EnabledIfEnvironmentVariable(named = "HOLDFAST_TEST_URL", matches = ".+")
class RedisPrimitiveTest extends PrimitiveSuite {
    @Override
    String makeUrl() {
        return redisUrl();
    }
}
