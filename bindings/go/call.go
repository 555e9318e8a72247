// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"sync"
	"time"
	"unsafe"
)

var (
	doneFn   = (*C.hf_done_fn)(C.hfgo_done)
	eventFn  = (*C.hf_event_fn)(C.hfgo_event)
	decideFn = (*C.hf_cell_fn)(C.hfgo_decide)
)

// result is what a call has found: hf_result in Go's memory. Leases are handles, not memory.
type result struct {
	status    C.hf_status
	err       *Error // nil if the status is OK
	lease     *C.hf_lease
	leases    []*C.hf_lease
	count     int
	bytes     []byte // nil: the library gave none
	version   uint64
	number    int64
	view      *View
	findings  []Finding
	deadlocks []Deadlock
	leader    *C.hf_leader  // to be freed
	members   *C.hf_members // to be freed
	limit     *LimitState
	mark      *Mark
	versions  []uint64
}

func resultOf(r *C.hf_result) *result {
	res := &result{status: r.status, lease: r.lease, count: int(r.count),
		version: uint64(r.version), number: int64(r.number), leader: r.leader, members: r.members}
	if r.status != C.HF_OK {
		res.err = errorOf(r.status, r.error)
	}
	if r.leases != nil {
		res.leases = append(res.leases, unsafe.Slice(r.leases, int(r.count))...)
	}
	if r.versions != nil {
		for _, v := range unsafe.Slice(r.versions, int(r.count)) {
			res.versions = append(res.versions, uint64(v))
		}
	}
	if r.bytes != nil {
		res.bytes = takeBytes(r.bytes, r.len)
	}
	if r.view != nil {
		res.view = viewOf(r.view)
		C.hf_free(unsafe.Pointer(r.view))
	}
	if r.report != nil {
		res.findings = findingsOf(r.report)
		C.hf_free(unsafe.Pointer(r.report))
	}
	if r.deadlocks != nil {
		res.deadlocks = deadlocksOf(r.deadlocks)
		C.hf_free(unsafe.Pointer(r.deadlocks))
	}
	if r.limit != nil {
		res.limit = limitOf(r.limit)
	}
	if r.mark != nil {
		res.mark = markOf(r.mark)
	}
	return res
}

// takeBytes copies bytes of the library and frees them. The copy is not nil.
func takeBytes(p unsafe.Pointer, n C.size_t) []byte {
	b := make([]byte, int(n))
	copy(b, unsafe.Slice((*byte)(p), int(n)))
	C.hf_free(p)
	return b
}

// call is an asynchronous call that has begun. Its callback comes exactly once.
type call struct {
	done  chan struct{} // closed when res is set
	op    *C.hf_op
	key   unsafe.Pointer
	hopes []*holding // what a grant is for

	mu        sync.Mutex
	res       *result
	abandoned bool // nobody waits: the callback disposes of what it is given
}

//export goDone
func goDone(r *C.hf_result, arg unsafe.Pointer) {
	c, ok := ids.take(arg).(*call)
	if !ok {
		return
	}
	res := resultOf(r)
	c.mu.Lock()
	c.res = res
	abandoned := c.abandoned
	c.mu.Unlock()
	if abandoned {
		res.dispose(c.hopes)
	} else if res.lease == nil && res.leases == nil {
		discardAll(c.hopes)
	}
	close(c.done)
}

// dispose gives back what nobody has taken. It does not block. The holdings stay until no event can
// come any more.
func (r *result) dispose(hopes []*holding) {
	if r.leader != nil {
		C.hf_free(unsafe.Pointer(r.leader))
	}
	if r.members != nil {
		C.hf_free(unsafe.Pointer(r.members))
	}
	leases := r.leases
	if r.lease != nil {
		leases = append(leases, r.lease)
	}
	if len(leases) == 0 {
		discardAll(hopes)
		return
	}
	back := &call{done: make(chan struct{}), hopes: hopes}
	back.key = ids.add(back)
	if C.hf_release_all_async(&leases[0], C.size_t(len(leases)), doneFn, back.key, nil, nil) != C.HF_OK {
		ids.remove(back.key, back) // the store is being closed, and they end with it
		discardAll(hopes)
	}
}

// abandon says that nobody waits for the answer any more. false: it is here.
func (c *call) abandon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = c.res == nil
	return c.abandoned
}

// nature says what becomes of a call whose context ends.
type nature int

const (
	waits   nature = iota // it is cancelled; if the store does not answer, the call goes on without us, and a grant is given back
	settles               // it is cancelled, and its answer is waited for
	reads                 // it is a round trip: the answer is not waited for, and matters to nobody
	writes                // likewise, and it may be done or not: ErrUnknown
	ends                  // it ends something, and the context has no say
)

// grace is how long a cancelled call may take to say so.
const grace = 100 * time.Millisecond

// beginFunc begins a call: it is one of hf_X_async().
type beginFunc func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status

// begin begins a call, and sees to it that the poller runs. If it does not begin, the holdings that a
// grant would have are discarded.
func (s *Store) begin(fn beginFunc, hopes []*holding) (*call, error) {
	p, err := s.polled()
	if err != nil {
		discardAll(hopes)
		return nil, err
	}
	c := &call{done: make(chan struct{}), hopes: hopes}
	c.key = ids.add(c)
	var e C.hf_error
	var op *C.hf_op
	if status := fn(c.key, &op, &e); status != C.HF_OK {
		ids.remove(c.key, c)
		discardAll(hopes)
		return nil, errorOf(status, &e)
	}
	c.op = op
	p.begun()
	return c, nil
}

// run begins a call and waits for its answer. The result is not nil if the call has begun and was
// not abandoned, whatever the error is. hopes are the holdings of what it may be granted; they are discarded
// unless there is a lease in the result.
func (s *Store) run(ctx context.Context, is nature, fn beginFunc, hopes ...*holding) (*result, error) {
	if is != ends && ctx.Err() != nil {
		discardAll(hopes)
		return nil, endedBy(ctx, OK)
	}
	c, err := s.begin(fn, hopes)
	if err != nil {
		return nil, err
	}
	if is == ends {
		<-c.done
		return c.answer(ctx)
	}
	select {
	case <-c.done:
		return c.answer(ctx)
	case <-ctx.Done():
	}
	switch is {
	case settles:
		C.hf_op_cancel(c.op)
		<-c.done
		return c.answer(ctx)
	case waits:
		C.hf_op_cancel(c.op)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.done:
			return c.answer(ctx)
		case <-timer.C:
		}
	}
	if !c.abandon() {
		<-c.done
		return c.answer(ctx)
	}
	if is == writes {
		return nil, endedBy(ctx, ErrUnknown)
	}
	return nil, endedBy(ctx, OK)
}

// answer returns the result of a call that is done.
func (c *call) answer(ctx context.Context) (*result, error) {
	if c.res.err == nil {
		return c.res, nil
	}
	return c.res, withContext(ctx, c.res.err)
}

// withContext adds the error of the context if that is why the call ended.
func withContext(ctx context.Context, err *Error) error {
	switch {
	case err.Status == ErrCancelled && ctx.Err() != nil:
		return endedBy(ctx, OK)
	case err.Status == ErrTimeout && deadlinePassed(ctx):
		err.cause = context.DeadlineExceeded
	}
	return err
}

// deadlinePassed says whether the deadline of the context is over. The library counts whole
// milliseconds: what ends it may be a little earlier than the deadline.
func deadlinePassed(ctx context.Context) bool {
	at, ok := ctx.Deadline()
	return ok && time.Until(at) < 2*time.Millisecond
}

// waitOf is the limit of a wait: that of the caller (negative: none), or the deadline of the context.
func waitOf(ctx context.Context, limit time.Duration) C.int64_t {
	if at, ok := ctx.Deadline(); ok && limit != 0 {
		left := time.Until(at)
		if left <= 0 {
			left = time.Millisecond
		}
		if limit < 0 || left < limit {
			limit = left
		}
	}
	return millis(limit, C.HF_FOREVER)
}

// millis rounds up, so that what is not zero does not become zero. negative is what a negative
// duration means; one that is longer than the library knows is that too.
func millis(d time.Duration, negative C.int64_t) C.int64_t {
	ms := C.int64_t(d / time.Millisecond)
	switch {
	case d < 0 || ms >= C.HF_DURATION_MAX_MS:
		return negative
	case d%time.Millisecond != 0:
		ms++
	}
	return ms
}

// span is a duration that is not a limit of waiting: the library refuses a negative one.
func span(d time.Duration) C.int64_t {
	if d > 0 {
		return C.int64_t((d-1)/time.Millisecond) + 1
	}
	return C.int64_t(d / time.Millisecond)
}

func goDuration(ms C.int64_t) time.Duration {
	switch {
	case ms < 0:
		return Forever
	case ms > C.int64_t(Unlimited/time.Millisecond):
		return Unlimited
	}
	return time.Duration(ms) * time.Millisecond
}
