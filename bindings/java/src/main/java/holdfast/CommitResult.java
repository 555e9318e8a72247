// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;

/**
 * The answer to {@link Store#commit(List)}.
 *
 * @param done all was done; else nothing
 * @param versions done: the version that each cell has now, 0: none
 * @param changed not done: the first item whose cell has another version
 * @param version not done: that version, 0: it does not exist
 */
public record CommitResult(boolean done, List<Long> versions, int changed, long version) {
}
