// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** What a call of C is given, as native/blob.c reads it: numbers, and bytes with their length before and a NUL behind them. */
final class Args {
    private ByteBuffer buffer = ByteBuffer.allocate(256).order(ByteOrder.nativeOrder());

    Args number(long number) {
        room(8).putLong(number);
        return this;
    }

    Args flag(boolean flag) {
        return number(flag ? 1 : 0);
    }

    Args bytes(byte[] bytes) {
        if (bytes == null) {
            return number(-1);
        }
        room(9 + bytes.length).putLong(bytes.length).put(bytes).put((byte) 0);
        return this;
    }

    Args name(Name name) {
        return bytes(name.raw());
    }

    /** A text that C ends at its first NUL: one with a NUL inside would be cut silently. */
    Args text(String text) {
        if (text != null && text.indexOf('\0') >= 0) {
            throw HoldfastException.of(Status.INVALID, 0, "a text must not contain a NUL character");
        }
        return bytes(text == null ? null : utf8(text));
    }

    /** getBytes() writes "?" for half a surrogate pair: then two names would silently be one. */
    static byte[] utf8(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (Character.isSurrogate(text.charAt(i)) && !Character.isSupplementaryCodePoint(text.codePointAt(i++))) {
                throw HoldfastException.of(Status.INVALID, 0, "a text must not contain half a surrogate pair");
            }
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    Args raw(byte[] encoded) {
        room(encoded.length).put(encoded);
        return this;
    }

    Args duration(Duration duration) {
        return number(millis(duration));
    }

    byte[] done() {
        byte[] bytes = new byte[buffer.position()];
        buffer.flip().get(bytes);
        return bytes;
    }

    private ByteBuffer room(int more) {
        if (buffer.remaining() < more) {
            int size = Math.max(buffer.capacity() * 2, buffer.position() + more);
            buffer = ByteBuffer.allocate(size).order(ByteOrder.nativeOrder()).put(buffer.flip());
        }
        return buffer;
    }

    private static final Duration LONGEST = Duration.ofMillis(Long.MAX_VALUE);

    /** In milliseconds, rounded up: what is not zero never becomes zero. null: 0. */
    static long millis(Duration duration) {
        if (duration == null) {
            return 0;
        }
        if (duration.isNegative()) {
            throw HoldfastException.of(Status.INVALID, 0, "a duration must not be negative: " + duration);
        }
        if (duration.compareTo(LONGEST) >= 0) {
            return Long.MAX_VALUE;
        }
        long millis = duration.toMillis();
        return duration.getNano() % 1_000_000 == 0 || millis == Long.MAX_VALUE ? millis : millis + 1;
    }

    /** The longest duration that the library takes: ten years. */
    private static final long WAIT_MAX = 1000L * 3600 * 24 * 3650;

    /** How long to wait: null or longer than the library can count is for ever. */
    static long waitMillis(Duration wait) {
        if (wait == null) {
            return Native.FOREVER;
        }
        long millis = millis(wait);
        return millis > WAIT_MAX ? Native.FOREVER : millis;
    }
}
