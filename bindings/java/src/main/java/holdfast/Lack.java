// SPDX-License-Identifier: MIT
package holdfast;

import java.util.Set;

/**
 * What an engine cannot do, and why.
 *
 * @param capabilities what is missing
 * @param why the reason
 */
public record Lack(Set<Capability> capabilities, String why) {
    static Lack read(Reader in) {
        return new Lack(Capability.of(in.number()), in.text());
    }
}
