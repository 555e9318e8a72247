// SPDX-License-Identifier: MIT
package holdfast;

import java.time.Duration;
import java.util.List;

/** One item of {@link Store#commit(List)}: what the version of a cell must be, and what becomes of it. */
public final class CellItem {
    /** Any version, also no cell at all. */
    public static final long ANY = -1;

    private final Name name;
    private final long version;
    private final int action;
    private final byte[] bytes;
    private final Duration ttl;

    private CellItem(Name name, long version, int action, byte[] bytes, Duration ttl) {
        this.name = name;
        this.version = version;
        this.action = action;
        this.bytes = bytes;
        this.ttl = ttl;
    }

    /**
     * Only assert the version.
     *
     * @param name the cell
     * @param version the version that it must have; 0: there must be none
     * @return the item
     */
    public static CellItem check(Name name, long version) {
        return new CellItem(name, version, 0, null, null);
    }

    /**
     * Write a cell.
     *
     * @param name the cell
     * @param version the version that it must have; 0: there must be none; {@link #ANY}
     * @param bytes the new bytes
     * @return the item
     */
    public static CellItem write(Name name, long version, byte[] bytes) {
        return new CellItem(name, version, 1, bytes.clone(), null);
    }

    /**
     * Write a cell, for some time.
     *
     * @param name the cell
     * @param version the version that it must have; 0: there must be none; {@link #ANY}
     * @param bytes the new bytes
     * @param ttl after that the cell is deleted
     * @return the item
     */
    public static CellItem write(Name name, long version, byte[] bytes, Duration ttl) {
        return new CellItem(name, version, 1, bytes.clone(), ttl);
    }

    /**
     * Delete a cell.
     *
     * @param name the cell
     * @param version the version that it must have; {@link #ANY}
     * @return the item
     */
    public static CellItem delete(Name name, long version) {
        return new CellItem(name, version, 2, null, null);
    }

    static Plan<CommitResult> plan(Store store, List<CellItem> items) {
        Args args = new Args().number(items.size());
        for (CellItem item : items) {
            args.name(item.name).number(item.version).number(item.action).bytes(item.bytes).duration(item.ttl);
        }
        return new Plan<>(Op.CELLS_COMMIT, store.handle(), args, result -> {
            if (result.status == Status.CHANGED) {
                return new CommitResult(false, List.of(), (int) result.number, result.version);
            }
            return new CommitResult(true, result.check().numbers(), -1, 0);
        });
    }
}
