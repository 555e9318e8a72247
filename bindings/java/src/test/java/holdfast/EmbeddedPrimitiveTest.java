// SPDX-License-Identifier: MIT
package holdfast;

/** Primitives on the embedded store. */
class EmbeddedPrimitiveTest extends PrimitiveSuite {
    @Override
    String makeUrl() throws Exception {
        return embeddedUrl();
    }
}
