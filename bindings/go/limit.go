// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Algorithm says how a rate limit counts.
type Algorithm int

// The algorithms of rate limits.
const (
	Fixed   Algorithm = C.HF_LIMIT_ALGORITHM_FIXED   // a window begins with its first call; then the next one
	Sliding Algorithm = C.HF_LIMIT_ALGORITHM_SLIDING // never more than Rate in any interval of Per
	Bucket  Algorithm = C.HF_LIMIT_ALGORITHM_BUCKET  // Burst at once, refilled at Rate in Per
)

// Rule is the rule of a rate limit. It is the same in all calls that share the limit.
type Rule struct {
	Algorithm Algorithm
	Rate      uint32 // permits in Per
	Per       time.Duration
	Burst     uint32 // Bucket: the most at once; 0: Rate
}

// Limit is a rate limit, which exists by being used. Only the store's clock counts.
type Limit struct {
	store *Store
	name  string
	rule  Rule
}

// Limit returns the rate limit of this name. Nothing is asked for.
func (s *Store) Limit(name string, rule Rule) *Limit { return &Limit{s, name, rule} }

// LimitState is the state of a rate limit after a call.
type LimitState struct {
	Left   uint64        // permits that could be taken at once
	Refill time.Duration // until all are available again, if nobody takes any
	Waited time.Duration // how long this call slept
	Retry  time.Duration // refused: the wait that would have been enough
	At     time.Time     // granted: when, by the store's clock
	Rule   Rule          // the rule in force
	IsSet  bool          // it was set by Limit.Set
}

func limitOf(l *C.hf_limit_result) *LimitState {
	state := &LimitState{Left: uint64(l.left), Refill: goDuration(l.refill_ms),
		Waited: goDuration(l.waited_ms), Retry: goDuration(l.retry_ms),
		Rule:  Rule{Algorithm(l.algorithm), uint32(l.rate), goDuration(l.per_ms), uint32(l.burst)},
		IsSet: bool(l.is_set)}
	if l.at_us != 0 {
		state.At = time.UnixMicro(int64(l.at_us))
	}
	return state
}

func (l *Limit) request(a *arena, permits uint32, wait C.int64_t) *C.hf_limit_request {
	r := &C.hf_limit_request{size: C.sizeof_hf_limit_request,
		algorithm: C.hf_limit_algorithm(l.rule.Algorithm), rate: C.uint32_t(l.rule.Rate),
		per_ms: span(l.rule.Per), burst: C.uint32_t(l.rule.Burst), permits: C.uint32_t(permits),
		wait_ms: wait}
	r.name, r.name_len = a.bytes(l.name)
	return r
}

func stateOf(res *result, err error) (LimitState, error) {
	if res == nil || res.limit == nil {
		return LimitState{}, err
	}
	return *res.limit, err
}

// Take takes permits (0 means 1), all or none. A waiting call reserves its time at once, and sleeps until then.
// ErrTimeout: it would have to wait longer than the deadline of the context; said at once.
func (l *Limit) Take(ctx context.Context, permits uint32) (LimitState, error) {
	return l.take(ctx, permits, waitOf(ctx, Forever))
}

// TryTake takes permits if that is possible at once, else ErrBusy.
func (l *Limit) TryTake(ctx context.Context, permits uint32) (LimitState, error) {
	return l.take(ctx, permits, 0)
}

func (l *Limit) take(ctx context.Context, permits uint32, wait C.int64_t) (LimitState, error) {
	var a arena
	defer a.release()
	r := l.request(&a, permits, wait)
	return stateOf(l.store.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_limit_take_async(l.store.handle, r, doneFn, arg, op, e)
	}))
}

// Get says what is left of it. It takes nothing. With a rule of rate 0 it is the limit as the store has it.
func (l *Limit) Get(ctx context.Context) (LimitState, error) {
	var a arena
	defer a.release()
	r := l.request(&a, 0, 0)
	return stateOf(l.store.run(ctx, reads, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_limit_get_async(l.store.handle, r, doneFn, arg, op, e)
	}))
}

// Set makes the rule of this Limit count, whatever requests say, until it is set again; with rate 0:
// until the next request brings its own.
func (l *Limit) Set(ctx context.Context) (LimitState, error) {
	var a arena
	defer a.release()
	r := l.request(&a, 0, 0)
	return stateOf(l.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_limit_set_async(l.store.handle, r, doneFn, arg, op, e)
	}))
}
