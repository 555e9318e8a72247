// SPDX-License-Identifier: MIT
package holdfast;

/**
 * One finding of {@link Store#check()}.
 *
 * @param level how bad it is
 * @param topic what it is about
 * @param text what was found
 * @param note a fact to know, which is no fault: "no replicas". The level is {@link Level#OK}
 */
public record Finding(Level level, String topic, String text, boolean note) {
    /** How bad a finding is. */
    public enum Level {
        /** It is as it should be. */
        OK,
        /** It may be a problem. */
        WARNING,
        /** The store does not keep its promises like this. */
        BAD
    }

    static Finding read(Reader in) {
        return new Finding(Level.values()[in.integer()], in.text(), in.text(), in.flag());
    }
}
