// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.charset.StandardCharsets;

/**
 * What an observer of an election sees.
 *
 * @param leads somebody leads
 * @param token its token; 0 where the engine has none
 * @param value what it has published; null: nobody leads
 * @param label who it is
 * @param version of what was published last
 */
public record Leader(boolean leads, long token, byte[] value, String label, long version) {
    static Leader read(Reader in) {
        return new Leader(in.flag(), in.number(), in.bytes(), in.text(), in.number());
    }

    void write(Args out) {
        out.flag(leads).number(token).bytes(value).text(label).number(version);
    }

    /**
     * The value as UTF-8.
     *
     * @return the text; null: nobody leads
     */
    public String text() {
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }
}
