// SPDX-License-Identifier: MIT
package holdfast;

/** Leases on the embedded store. */
class EmbeddedLeaseTest extends LeaseSuite {
    @Override
    String makeUrl() throws Exception {
        return embeddedUrl();
    }
}
