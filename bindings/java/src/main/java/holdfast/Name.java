// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The name of a lock, a cell or another thing in a store: 1 to 512 bytes, any bytes. Text is UTF-8. */
public final class Name {
    private final byte[] bytes;

    private Name(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * A name that is a text.
     *
     * @param text the text
     * @return the name
     * @throws HoldfastException.Invalid if it has half a surrogate pair, which UTF-8 cannot express
     */
    public static Name of(String text) {
        return new Name(Args.utf8(text));
    }

    /**
     * A name of any bytes.
     *
     * @param bytes the bytes, which are copied
     * @return the name
     */
    public static Name of(byte[] bytes) {
        return new Name(bytes.clone());
    }

    byte[] raw() {
        return bytes;
    }

    /**
     * The bytes of the name.
     *
     * @return a copy
     */
    public byte[] bytes() {
        return bytes.clone();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Name && Arrays.equals(bytes, ((Name) other).bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** As text; bytes that are no UTF-8 are replaced. */
    @Override
    public String toString() {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
