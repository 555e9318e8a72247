// SPDX-License-Identifier: MIT
package holdfast;

import java.util.List;

/** The members of a group, as of one moment. */
public final class Members {
    private final long handle;
    private final List<Member> list;

    private Members(long handle, List<Member> list) {
        this.handle = handle;
        this.list = list;
        Log.CLEANER.register(this, () -> Native.freeMembers(handle));
    }

    static Members read(Reader in) {
        long handle = in.number();
        return new Members(handle, in.list(() -> Member.read(in)));
    }

    /** The list in C. It lives as long as this object. */
    long handle() {
        return handle;
    }

    /**
     * The members, the oldest first where tokens grow.
     *
     * @return the members
     */
    public List<Member> list() {
        return list;
    }
}
