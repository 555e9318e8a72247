// SPDX-License-Identifier: MIT

// Package holdfast binds libholdfast, a library of distributed locks.
//
// A [Store] is opened by its URL. [Store.Lock] and its relatives acquire a [Lease], which carries a fencing token and
// ends with [Lease.Release]. [Lease.Done] and [Lease.Context] tell when it is lost.
//
//	store, err := holdfast.Open(ctx, "redis://localhost")
//	...
//	lease, err := store.Lock(ctx, "report", holdfast.Wait(5*time.Second))
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//	err = work(lease.Context(ctx), lease.Token())
//
// # Contexts
//
// Every call that waits ends when its context does, with an error that is both the context's and a [Status]. A call that waits for a
// lease then holds nothing: a grant in the same moment is given back. A call that is one round trip and may write
// ([Counter.Add], [Cell.Set], ...) ends with [ErrUnknown]: the store may do it or not. A deadline of the context is the limit of the wait in the
// store too.
//
// # Goroutines and threads
//
// Calls that wait use the asynchronous calls of the library. One goroutine for each store runs their
// callbacks; it sleeps in the poller of the Go runtime. So a thousand waiters block no thread. The first try
// of an acquire, and a release, are a round trip each, and run in C on the calling goroutine, because that is
// the fastest way to a free lock; at most four threads of a store do so at a time, and all others take the asynchronous way.
//
// Goroutines have no identity. Leases belong to a scope only if the request says so: see [WithScope].
//
// # Processes
//
// os/exec is safe at any time. A process that was forked without exec (which Go does not do) gets [ErrForked].
package holdfast

// #cgo LDFLAGS: -lholdfast
import "C"
