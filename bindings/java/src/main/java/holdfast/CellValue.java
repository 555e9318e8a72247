// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * What a cell holds.
 *
 * @param bytes its bytes
 * @param version its version, which every write changes and which never comes back
 * @param ttl what is left; null: it has no ttl
 */
public record CellValue(byte[] bytes, long version, Duration ttl) {
    /**
     * The bytes as UTF-8.
     *
     * @return the text
     */
    public String text() {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
