// SPDX-License-Identifier: MIT

//go:build !go1.20

package holdfast

import "context"

// withCancel is for a Go without context.Cause: only [Cause] knows the reason.
func withCancel(parent context.Context) (context.Context, func(error)) {
	ctx, cancel := context.WithCancel(parent)
	return ctx, func(error) { cancel() }
}
