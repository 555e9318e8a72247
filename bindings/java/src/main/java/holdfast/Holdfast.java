// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;

/** Where everything begins. */
public final class Holdfast {
    /** The version of the C library that this binding was made for, as a number. */
    static final int BUILT_FOR = 200;

    private Holdfast() {
    }

    /**
     * Open the store that the command holdfast uses without -S: that of the variable HOLDFAST_STORE, else of the
     * {@code default} of the configuration file, else the user's own embedded store. {@link StoreInfo#source()} says which.
     *
     * @return the store
     */
    public static Store open() {
        return open(null, new OpenOptions());
    }

    /**
     * Open a store.
     *
     * @param url "file:/path", "redis://host" ...: see holdfast-engines(7); or the name of a profile. null: as {@link #open()};
     *     empty: an error
     * @return the store
     */
    public static Store open(String url) {
        return open(url, new OpenOptions());
    }

    /**
     * Open a store.
     *
     * @param url "file:/path", "redis://host" ..., or the name of a profile; null: as {@link #open()}
     * @param options how
     * @return the store
     */
    public static Store open(String url, OpenOptions options) {
        return new Store(Native.open(options.encode(url)), options.executor());
    }

    /**
     * The version of the C library that is loaded.
     *
     * @return "0.2.0"
     */
    public static String version() {
        return Native.version();
    }

    /**
     * The version as a number: 10000 major + 100 minor + patch.
     *
     * @return the number
     */
    public static int versionNumber() {
        return Native.versionNumber();
    }

    /**
     * The engines that the library knows, each with every set of promises that a URL may choose.
     *
     * @return the engines
     */
    public static List<EngineInfo> engines() {
        Reader in = new Reader(Native.engines());
        return in.list(() -> EngineInfo.read(in));
    }
}
