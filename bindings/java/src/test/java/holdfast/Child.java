// SPDX-License-Identifier: MIT
package holdfast;

import java.nio.file.Files;
import java.nio.file.Path;

/** Another process: it adds to the number in a file, under a lock. Child URL NAME FILE TIMES */
final class Child {
    private Child() {
    }

    public static void main(String[] args) throws Exception {
        Path file = Path.of(args[2]);
        try (Store store = Holdfast.open(args[0])) {
            for (int i = 0; i < Integer.parseInt(args[3]); i++) {
                try (Lease lease = store.acquire(Request.mutex(args[1]))) {
                    long number = Long.parseLong(Files.readString(file));
                    Thread.yield();
                    Files.writeString(file, Long.toString(number + 1));
                    if (!lease.isValid()) {
                        throw new IllegalStateException("lost");
                    }
                }
            }
        }
    }
}
