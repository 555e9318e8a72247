// SPDX-License-Identifier: MIT
package holdfast;

/**
 * The answer to {@link Counter#swap(long, long)}.
 *
 * @param done it was the expected number, and was set
 * @param current the present number
 */
public record Swapped(boolean done, long current) {
}
