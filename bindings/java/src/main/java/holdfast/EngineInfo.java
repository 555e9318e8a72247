// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;
import java.util.Set;

/**
 * An engine of the library, with one set of promises.
 *
 * @param name "lmdb"
 * @param schemes the schemes of its URLs, separated by spaces
 * @param available its module is there and loads
 * @param whyNot why it is not available; else null
 * @param capabilities what it can do
 * @param tokens what its tokens promise
 * @param choice what a URL says to have these promises; empty: nothing
 * @param onCrash what happens when a process crashes
 * @param onPause when a process is paused
 * @param onClockJump when a clock jumps
 * @param onServerLoss when a server is lost
 * @param onPartition when the network is parted
 * @param fairness in which order waiters are served
 * @param wakeup how waiters are woken
 * @param lacks what it cannot do
 */
public record EngineInfo(String name, String schemes, boolean available, String whyNot, Set<Capability> capabilities,
        TokenStrength tokens, String choice, String onCrash, String onPause, String onClockJump, String onServerLoss,
        String onPartition, String fairness, String wakeup, List<Lack> lacks) {
    static EngineInfo read(Reader in) {
        return new EngineInfo(in.text(), in.text(), in.flag(), in.text(), Capability.of(in.number()),
                TokenStrength.of(in.integer()), in.text(), in.text(), in.text(), in.text(), in.text(), in.text(), in.text(),
                in.text(), in.list(() -> Lack.read(in)));
    }
}
