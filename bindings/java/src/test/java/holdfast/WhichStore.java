// SPDX-License-Identifier: MIT
package holdfast;

/** Another process: it prints which store is meant without a URL, and what chose it. */
final class WhichStore {
    private WhichStore() {
    }

    public static void main(String[] args) {
        try (Store store = Holdfast.open()) {
            System.out.println(store.info().location() + " from " + store.info().source());
        }
    }
}
