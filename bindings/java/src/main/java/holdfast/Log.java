// SPDX-License-Identifier: MIT
package holdfast;

import java.lang.ref.Cleaner;

/** What nobody waits for is said through System.Logger "holdfast". */
final class Log {
    static final Cleaner CLEANER = Cleaner.create();

    private Log() {
    }

    private static System.Logger logger() {
        return System.getLogger("holdfast");
    }

    static void failed(String what, Throwable failure) {
        logger().log(System.Logger.Level.ERROR, what + " failed", failure);
    }

    static void warn(String text) {
        logger().log(System.Logger.Level.WARNING, text);
    }
}
