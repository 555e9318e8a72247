// SPDX-License-Identifier: MIT
package holdfast;

/**
 * The answer to {@link Once#begin(Request, java.time.Duration)}.
 *
 * @param lease it is ours to do, under this lease; null: it has been done
 * @param mark what the worker left that did it; null: it is not done
 */
public record OnceAttempt(Lease lease, OnceMark mark) {
    /**
     * Has it been done before?
     *
     * @return true: there is nothing to do
     */
    public boolean isDone() {
        return lease == null;
    }
}
