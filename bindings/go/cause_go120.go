// SPDX-License-Identifier: MIT

//go:build go1.20

package holdfast

import "context"

// withCancel makes the reason known to context.Cause.
func withCancel(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, cancel
}
