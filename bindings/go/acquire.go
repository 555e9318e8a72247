// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Kind is what a request asks for.
type Kind int

// The kinds of leases.
const (
	KindMutex       Kind = C.HF_KIND_MUTEX       // capacity 1
	KindShared      Kind = C.HF_KIND_SHARED      // read-write lock: reader
	KindExclusive   Kind = C.HF_KIND_EXCLUSIVE   // read-write lock: writer
	KindSemaphore   Kind = C.HF_KIND_SEMAPHORE   // some of Capacity permits
	KindUpgradeable Kind = C.HF_KIND_UPGRADEABLE // the one reader that may become the writer
)

var kindNames = [...]string{"mutex", "shared", "exclusive", "semaphore", "upgradeable"}

// String returns the name of the kind: "mutex".
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// Request is one of the things that [Store.All] and [Store.Any] acquire.
type Request struct {
	Name     string
	Kind     Kind
	Capacity uint32   // of a semaphore
	Permits  uint32   // of a semaphore; 0 means 1
	Options  []Option // after those of the call
}

// Option is an option of a call that acquires a lease.
type Option func(*settings)

type settings struct {
	flags                                              C.uint64_t
	wait                                               time.Duration
	ttl, maxHold, minValid, minHold, lockDelay, linger time.Duration
	label, session                                     string
	scope                                              uint64
}

// Wait limits how long the call waits, beside its context. 0: try once, then [ErrBusy]. [Forever]: no
// limit, which is the default of all calls but the Try forms. Any other negative duration is refused,
// because what is left of a deadline that has passed must not become a wait without end.
func Wait(d time.Duration) Option { return func(s *settings) { s.wait = d } }

// TTL is how long the lease is valid without a renewal. 0: the engine's default.
func TTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// MaxHold ends the lease after this time, whatever happens.
func MaxHold(d time.Duration) Option { return func(s *settings) { s.maxHold = d } }

// MinValid refuses a grant with less validity left: [ErrTooShort].
func MinValid(d time.Duration) Option { return func(s *settings) { s.minValid = d } }

// MinHold keeps the name held for this long, even if it is released before.
func MinHold(d time.Duration) Option { return func(s *settings) { s.minHold = d } }

// LockDelay keeps the name closed for this long after an unclean loss.
func LockDelay(d time.Duration) Option { return func(s *settings) { s.lockDelay = d } }

// Linger is how long the released lease may stay with this process. Negative: never, whatever the URL says.
func Linger(d time.Duration) Option { return func(s *settings) { s.linger = d } }

// Label is shown to people who inspect the store. The default is the label of the store.
func Label(label string) Option { return func(s *settings) { s.label = label } }

// Scope is an identity for [Reentrant] and for deadlock detection. The default is that of the
// context (see [WithScope]); without one the lease takes no part in deadlock detection.
func Scope(scope uint64) Option { return func(s *settings) { s.scope = scope } }

// Session is what [Lease.Session] returned in the process that we work for.
func Session(text string) Option { return func(s *settings) { s.session = text } }

func flag(f C.uint64_t) Option { return func(s *settings) { s.flags |= f } }

// Barge lets the request overtake waiters: throughput over order.
func Barge() Option { return flag(C.HF_FLAG_BARGE) }

// Reentrant lets the same scope take the name again. It needs [Scope] or [WithScope].
func Reentrant() Option { return flag(C.HF_FLAG_REENTRANT) }

// NoRenew leaves a lease with a ttl to itself: it is not renewed.
func NoRenew() Option { return flag(C.HF_FLAG_NO_RENEW) }

// Detached makes a lease that outlives this process; it needs a ttl. See [Lease.Export].
func Detached() Option { return flag(C.HF_FLAG_DETACHED) }

// Strict allows no local passing: first come, first served across all processes.
func Strict() Option { return flag(C.HF_FLAG_STRICT) }

// NoDeadlockCheck takes the lease out of deadlock detection.
func NoDeadlockCheck() Option { return flag(C.HF_FLAG_NO_DEADLOCK_CHECK) }

// Watch tells the holder that others wait: see [Lease.Events], [Lease.Wanted] and [Lease.Yield].
func Watch() Option { return flag(C.HF_FLAG_WATCH) }

// Numbered gives each permit of a semaphore a number: see [LeaseInfo].Slots.
func Numbered() Option { return flag(C.HF_FLAG_NUMBERED) }

// settingsOf puts options together. It returns an error for what C cannot tell us.
func settingsOf(ctx context.Context, wait time.Duration, lists ...[]Option) (*settings, error) {
	set := &settings{wait: wait}
	if scope, ok := ctx.Value(scopeKey{}).(uint64); ok {
		set.scope = scope
	}
	for _, list := range lists {
		for _, option := range list {
			option(set)
		}
	}
	if set.wait < 0 && set.wait != Forever {
		return nil, newError(ErrInvalid, "wait: negative")
	}
	if set.scope == 0 {
		if set.flags&C.HF_FLAG_REENTRANT != 0 {
			return nil, newError(ErrInvalid,
				"scope: a reentrant request needs one, for goroutines have no identity")
		}
		// Otherwise a lease would belong to the thread on which the goroutine happens to run.
		set.flags |= C.HF_FLAG_NO_DEADLOCK_CHECK
	}
	return set, nil
}

// fill writes a request but for its name.
func (set *settings) fill(r *C.hf_acquire_request, a *arena, of Request, key unsafe.Pointer) {
	*r = C.hf_acquire_request{
		size: C.sizeof_hf_acquire_request, kind: C.hf_kind(of.Kind),
		capacity: C.uint32_t(of.Capacity), permits: C.uint32_t(of.Permits),
		flags: set.flags, ttl_ms: span(set.ttl), max_hold_ms: span(set.maxHold),
		min_valid_ms: span(set.minValid), lock_delay_ms: span(set.lockDelay),
		scope: C.uint64_t(set.scope), label: a.text(set.label), session: a.text(set.session),
		on_event: eventFn, on_event_arg: key,
		linger_ms: millis(set.linger, C.HF_LINGER_NEVER), min_hold_ms: span(set.minHold),
	}
}

// Lock acquires a mutex and waits for it until the context ends.
func (s *Store) Lock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name}, Forever, options)
}

// TryLock acquires a mutex if it is free. [ErrBusy]: somebody else holds it.
func (s *Store) TryLock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name}, 0, options)
}

// RLock acquires a read-write lock as a reader.
func (s *Store) RLock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindShared}, Forever, options)
}

// TryRLock acquires a read-write lock as a reader if that is possible at once, else [ErrBusy].
func (s *Store) TryRLock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindShared}, 0, options)
}

// WLock acquires a read-write lock as the writer.
func (s *Store) WLock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindExclusive}, Forever, options)
}

// TryWLock acquires a read-write lock as the writer if that is possible at once, else [ErrBusy].
func (s *Store) TryWLock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindExclusive}, 0, options)
}

// ULock acquires a read-write lock as the one reader that may become the writer: [Lease.Convert].
func (s *Store) ULock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindUpgradeable}, Forever, options)
}

// Semaphore acquires permits of a semaphore of this capacity.
func (s *Store) Semaphore(ctx context.Context, name string, capacity, permits uint32,
	options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindSemaphore, Capacity: capacity,
		Permits: permits}, Forever, options)
}

// TrySemaphore acquires permits of a semaphore if they are free, else [ErrBusy].
func (s *Store) TrySemaphore(ctx context.Context, name string, capacity, permits uint32,
	options ...Option) (*Lease, error) {
	return s.acquire(ctx, Request{Name: name, Kind: KindSemaphore, Capacity: capacity,
		Permits: permits}, 0, options)
}

// Acquire acquires what a request asks for: the general form of the calls above.
func (s *Store) Acquire(ctx context.Context, request Request, options ...Option) (*Lease, error) {
	return s.acquire(ctx, request, Forever, options)
}

func (s *Store) acquire(ctx context.Context, of Request, wait time.Duration, options []Option) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, endedBy(ctx, OK)
	}
	set, err := settingsOf(ctx, wait, options, of.Options)
	if err != nil {
		return nil, err
	}
	if len(of.Name) <= NameMax { // longer ones are refused below, with the library's words
		if sl := s.takeSlot(); sl != nil {
			lease, err := s.try(ctx, sl, set, of)
			if err == nil || set.wait == 0 || StatusOf(err) != ErrBusy {
				return lease, err
			}
		}
	}
	var a arena
	defer a.release()
	h := s.newHolding(set)
	var r C.hf_acquire_request
	set.fill(&r, &a, of, h.key)
	r.name, r.name_len = a.bytes(of.Name)
	r.wait_ms = waitOf(ctx, set.wait)
	if a.bad {
		h.discard()
		return nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	return s.await(ctx, h, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_acquire_async(s.handle, &r, doneFn, arg, op, e)
	})
}

// await runs a call that waits for a lease. If the context has ended by the time of the grant, the lease is given back.
func (s *Store) await(ctx context.Context, h *holding, begin beginFunc) (*Lease, error) {
	res, err := s.run(ctx, waits, begin, h)
	if err != nil {
		return nil, err
	}
	return inTime(ctx, s.granted(h, res.lease))
}

// inTime gives a lease back if the context has ended.
func inTime(ctx context.Context, lease *Lease) (*Lease, error) {
	if ctx.Err() == nil {
		return lease, nil
	}
	_ = lease.Release() // the error of the context says all
	return nil, endedBy(ctx, OK)
}

// batch is the request array of a call for several names, in C memory.
func (s *Store) batch(ctx context.Context, a *arena, of []Request, options []Option) (*C.hf_acquire_request, []*holding, error) {
	holdings := make([]*holding, 0, len(of))
	fail := func(err error) (*C.hf_acquire_request, []*holding, error) {
		discardAll(holdings)
		return nil, nil, err
	}
	if len(of) == 0 || len(of) > C.HF_ACQUIRE_ALL_MAX {
		return fail(newError(ErrInvalid, "requests: their number is out of range"))
	}
	array := (*C.hf_acquire_request)(a.zeroed(uintptr(len(of)) * C.sizeof_hf_acquire_request))
	requests := unsafe.Slice(array, len(of))
	var limit C.int64_t
	for i := range of {
		set, err := settingsOf(ctx, Forever, options, of[i].Options)
		if err != nil {
			return fail(err)
		}
		h := s.newHolding(set)
		holdings = append(holdings, h)
		set.fill(&requests[i], a, of[i], h.key)
		requests[i].name, requests[i].name_len = a.bytes(of[i].Name)
		if i == 0 {
			limit = waitOf(ctx, set.wait) // the clock runs: the same for all
		}
		requests[i].wait_ms = limit
	}
	if a.bad {
		return fail(newError(ErrInvalid, "a text has a NUL in it"))
	}
	return array, holdings, nil
}

func discardAll(holdings []*holding) {
	for _, h := range holdings {
		h.discard()
	}
}

// All acquires all that the requests ask for, or nothing. The leases are in the order of the requests. The wait is that of
// the first request.
func (s *Store) All(ctx context.Context, requests []Request, options ...Option) (Leases, error) {
	var a arena
	defer a.release()
	array, holdings, err := s.batch(ctx, &a, requests, options)
	if err != nil {
		return nil, err
	}
	res, err := s.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_acquire_all_async(s.handle, array, C.size_t(len(requests)), doneFn, arg, op, e)
	}, holdings...)
	if err != nil {
		return nil, err
	}
	leases := make(Leases, len(holdings))
	for i, h := range holdings {
		leases[i] = s.granted(h, res.leases[i])
	}
	if ctx.Err() != nil {
		_ = leases.Release()
		return nil, endedBy(ctx, OK)
	}
	return leases, nil
}

// Any acquires one of the things that the requests ask for, whichever comes free first. The number is
// the index of its request. The wait is that of the first request.
func (s *Store) Any(ctx context.Context, requests []Request, options ...Option) (*Lease, int, error) {
	var a arena
	defer a.release()
	array, holdings, err := s.batch(ctx, &a, requests, options)
	if err != nil {
		return nil, -1, err
	}
	res, err := s.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_acquire_any_async(s.handle, array, C.size_t(len(requests)), doneFn, arg, op, e)
	}, holdings...)
	if err != nil {
		return nil, -1, err
	}
	index := int(res.number)
	discardAll(append(holdings[:index:index], holdings[index+1:]...))
	lease, err := inTime(ctx, s.granted(holdings[index], res.lease))
	return lease, index, err
}
