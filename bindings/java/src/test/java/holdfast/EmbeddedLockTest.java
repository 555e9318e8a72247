// SPDX-License-Identifier: MIT
package holdfast;

/** Locks on the embedded store. */
class EmbeddedLockTest extends LockSuite {
    @Override
    String makeUrl() throws Exception {
        return embeddedUrl();
    }
}
