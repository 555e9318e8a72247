// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** What C says, as native/result.c wrote it. */
final class Reader {
    private final ByteBuffer buffer;

    Reader(byte[] bytes) {
        buffer = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
    }

    long number() {
        return buffer.getLong();
    }

    int integer() {
        return (int) buffer.getLong();
    }

    boolean flag() {
        return buffer.getLong() != 0;
    }

    byte[] bytes() {
        long length = buffer.getLong();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[(int) length];
        buffer.get(bytes);
        return bytes;
    }

    /** Labels and texts of strangers may hold any bytes: what is not UTF-8 is replaced. */
    String text() {
        byte[] bytes = bytes();
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    Duration duration() {
        return Duration.ofMillis(buffer.getLong());
    }

    /** -1: none, which is null. */
    Duration durationOrNull() {
        long millis = buffer.getLong();
        return millis < 0 ? null : Duration.ofMillis(millis);
    }

    <T> List<T> list(Supplier<T> item) {
        return list(number(), item);
    }

    <T> List<T> list(long count, Supplier<T> item) {
        List<T> items = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            items.add(item.get());
        }
        return List.copyOf(items);
    }
}
