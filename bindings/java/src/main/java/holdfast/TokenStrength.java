// SPDX-License-Identifier: MIT
package holdfast;

/** What the tokens of a store promise. */
public enum TokenStrength {
    /** There are none. */
    NONE,
    /** They grow while the store keeps its data. */
    WHILE_DURABLE,
    /** They always grow. */
    STRICT;

    static TokenStrength of(int number) {
        return values()[number];
    }
}
