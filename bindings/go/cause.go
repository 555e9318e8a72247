// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"sync"
)

type causeKey struct{}

// leaseContext is a context that ends with a lease. It knows why, also before Go 1.20.
type leaseContext struct {
	context.Context
	cancel func(error)
	over   func() error // why the lease has ended; nil: it has not

	mu    sync.Mutex
	cause error
}

func newLeaseContext(parent context.Context, over func() error) *leaseContext {
	c := &leaseContext{over: over}
	c.Context, c.cancel = withCancel(parent)
	return c
}

// Value is that of [context.Context].
func (c *leaseContext) Value(key interface{}) interface{} {
	if _, ok := key.(causeKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// Err is that of [context.Context]. It also asks the lease: when a release has returned, the context has ended, even if
// the goroutine that guards it has not run yet.
func (c *leaseContext) Err() error {
	if why := c.over(); why != nil {
		c.end(why)
	}
	return c.Context.Err()
}

func (c *leaseContext) end(why error) {
	c.mu.Lock()
	if c.Context.Err() == nil {
		c.cause = why
	}
	c.mu.Unlock()
	c.cancel(why)
}

// Cause returns why a context that was derived from a lease has ended: an error that is [ErrLost],
// [ErrReleased] or [ErrYielded] if the lease was the reason, else ctx.Err().
func Cause(ctx context.Context) error {
	c, ok := ctx.Value(causeKey{}).(*leaseContext)
	if !ok || ctx.Err() == nil {
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil && c.Context.Err() != nil {
		return c.cause
	}
	return ctx.Err()
}
