// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;

/**
 * A name that is held or waited for.
 *
 * @param name the name
 * @param kind {@link Kind#MUTEX}, {@link Kind#SHARED} (a read-write lock) or {@link Kind#SEMAPHORE}
 * @param capacity the number of permits
 * @param taken how many are taken; a writer takes all
 * @param closed what is left of a lock delay; zero: open
 * @param resized the capacity was set
 * @param holders its holders
 * @param waiters its waiters, in order
 */
public record Entry(Name name, Kind kind, int capacity, int taken, Duration closed, boolean resized, List<Holder> holders,
        List<Waiter> waiters) {
    static Entry read(Reader in) {
        return new Entry(Name.of(in.bytes()), Kind.of(in.integer()), in.integer(), in.integer(), in.duration(), in.flag(),
                in.list(() -> Holder.read(in)), in.list(() -> Waiter.read(in)));
    }
}
