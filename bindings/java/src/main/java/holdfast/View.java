// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;

/**
 * Holders and waiters of a store.
 *
 * @param waitersTracked the engine can list waiters
 * @param entries what is held or waited for, sorted by name
 */
public record View(boolean waitersTracked, List<Entry> entries) {
    static View read(Reader in) {
        return new View(in.flag(), in.list(() -> Entry.read(in)));
    }
}
