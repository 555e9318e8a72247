// SPDX-License-Identifier: MIT
package holdfast;

/**
 * The lease of one of several requests.
 *
 * @param lease the lease
 * @param index which request
 */
public record AnyLease(Lease lease, int index) {
}
