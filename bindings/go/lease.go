// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"log"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Lease is something that is held, until [Lease.Release]. Its methods may be called from any
// goroutine.
//
// A lease that is forgotten is reported by [OnForgotten] and not released: what it protects may
// still be in use. It stays held until the store is closed or the process ends.
type Lease struct {
	h *holding

	mu   sync.Mutex
	over bool // this hold was released
}

// holding is the state of a lease that does not depend on who still knows the lease: C's callbacks
// find it. The holds of a reentrant lease share one.
type holding struct {
	store *Store
	key   unsafe.Pointer // in ids, for events; nil: there is none, see listen()
	watch bool           // requested with Watch

	mu      sync.Mutex
	handle  *C.hf_lease
	holds   int
	moving  int           // calls under way that will replace the handle: their callbacks may come after a release
	end     chan struct{} // closed when it is lost or released
	err     error         // why end is closed
	epoch   chan struct{} // closed when it was given away by Yield
	events  eventQueue
	listens bool // listen() runs
}

// Forgotten is a lease that was not released before the garbage collector found it.
type Forgotten struct {
	Name     string
	Token    uint64
	Location string // of the store, without secrets
}

// OnForgotten is called for each lease that was forgotten, on a goroutine of its own. The default
// logs it. Set it before the first use of the package.
var OnForgotten = func(f Forgotten) {
	log.Printf("holdfast: the lease of %q (token %d) in %s was forgotten: it was never released, and is still held",
		f.Name, f.Token, f.Location)
}

func (s *Store) newHolding(set *settings) *holding {
	h := &holding{store: s, end: make(chan struct{}), watch: set.flags&C.HF_FLAG_WATCH != 0}
	h.key = ids.add(h)
	return h
}

// discard is called when no event can come any more; perhaps more than once.
func (h *holding) discard() {
	if h.key != nil {
		ids.remove(h.key, h)
	}
}

// granted makes a lease of what was granted. A reentrant request may have got a handle that is held
// already.
func (s *Store) granted(h *holding, handle *C.hf_lease) *Lease {
	s.mu.Lock()
	if before := s.leases[handle]; before != nil {
		s.mu.Unlock()
		h.discard()
		h = before
	} else {
		s.leases[handle] = h
		s.mu.Unlock()
	}
	h.mu.Lock()
	h.handle = handle
	h.holds++
	h.mu.Unlock()
	lease := &Lease{h: h}
	runtime.SetFinalizer(lease, (*Lease).forgotten)
	return lease
}

// forgotten is the finalizer.
func (l *Lease) forgotten() {
	if l.over {
		return
	}
	select {
	case <-l.h.end: // lost, or the store is closed: nobody is protected, and nothing is said
		go func() { _ = l.Release() }()
		return
	default:
	}
	go l.report()
}

func (l *Lease) report() {
	info, err := l.Info()
	if err != nil {
		return // it has ended meanwhile
	}
	location := ""
	if about, err := l.h.store.Info(); err == nil {
		location = about.Location
	}
	if told := OnForgotten; told != nil {
		told(Forgotten{Name: info.Name, Token: info.Token, Location: location})
	}
}

// now returns the handle, nil if this hold was released.
func (l *Lease) now() *C.hf_lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.h.handle
}

// take ends this hold for all other calls; if it is the last one, those that wait for the end are
// told before the store is. false: it has ended before.
func (l *Lease) take() (*C.hf_lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, false
	}
	l.over = true
	runtime.SetFinalizer(l, nil)
	l.h.mu.Lock()
	handle := l.h.handle
	l.h.holds--
	last := l.h.holds == 0
	l.h.mu.Unlock()
	if last {
		l.h.over(ErrReleased)
	}
	return handle, true
}

var errOver = newError(ErrInvalid, "the lease was released before")

// Release ends the lease (one hold of a reentrant one), whatever it returns. nil: it was given back. ErrLost: it was lost before;
// nobody else's lease was touched. ErrUnknown, ErrUnavailable: the store could not be told; the
// library goes on trying in the background. ErrInvalid: it was released before.
func (l *Lease) Release() error {
	handle, ok := l.take()
	if !ok {
		return errOver
	}
	s := l.h.store
	var err error
	if sl := s.takeSlot(); sl != nil {
		if status := C.hfgo_release(handle, sl.frame); status != C.HF_OK {
			err = errorOf(status, &sl.frame.error)
		}
		s.putSlot(sl)
	} else {
		err = l.releaseLater(handle)
	}
	l.h.released(handle)
	return err
}

// releaseLater releases through the poller. Of a closed store only the handles are left, and to
// release one takes no time.
func (l *Lease) releaseLater(handle *C.hf_lease) error {
	res, err := l.h.store.run(context.Background(), ends, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_release_async(handle, doneFn, arg, op, e)
	})
	if res != nil {
		return err
	}
	var e C.hf_error
	if status := C.hf_release(handle, &e); status != C.HF_OK {
		return errorOf(status, &e)
	}
	return nil
}

// finish ends the lease by another call than a release, which ends it only if it begins.
func (l *Lease) finish(ctx context.Context, is nature, begin func(*C.hf_lease) beginFunc) error {
	handle, ok := l.take()
	if !ok {
		return errOver
	}
	res, err := l.h.store.run(ctx, is, begin(handle))
	if res == nil { // it did not begin
		C.hf_release(handle, nil)
	}
	l.h.released(handle)
	return err
}

// released is called after the end of one hold. After the last one no callback comes any more, unless a yield or a conversion
// is under way.
func (h *holding) released(handle *C.hf_lease) {
	h.mu.Lock()
	last, moving := h.holds == 0, h.moving > 0
	h.mu.Unlock()
	if !last {
		return
	}
	h.store.mu.Lock()
	if h.store.leases[handle] == h {
		delete(h.store.leases, handle)
	}
	h.store.mu.Unlock()
	if !moving {
		h.discard()
	}
}

// move runs a call that replaces the handle.
func (h *holding) move(ctx context.Context, is nature, begin beginFunc) (*result, error) {
	h.mu.Lock()
	h.moving++
	h.mu.Unlock()
	return h.store.run(ctx, is, begin)
}

// moved is called when such a call has ended, and what it has brought was kept or given back.
func (h *holding) moved() {
	h.mu.Lock()
	h.moving--
	last := h.holds == 0 && h.moving == 0
	h.mu.Unlock()
	if last {
		h.discard()
	}
}

// orphaned is called when the store was closed: no callback comes any more.
func (h *holding) orphaned() {
	h.discard()
	h.over(newError(ErrLost, "its store was closed"))
}

// over closes end, once.
func (h *holding) over(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = why
		close(h.end)
	}
}

// Done returns a channel that is closed when the lease is lost or released; [Lease.Err] says which.
func (l *Lease) Done() <-chan struct{} {
	l.h.listen()
	return l.h.end
}

// Err returns nil while the lease is held; else an error that is [ErrLost] with the reason, or
// [ErrReleased].
func (l *Lease) Err() error {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.h.err
}

// Token returns the fencing token, 0 if the engine has none or the lease was released.
func (l *Lease) Token() uint64 { return uint64(C.hf_lease_token(l.now())) }

// State is the state of a lease.
type State int

// The states of a lease.
const (
	StateHeld   State = C.HF_STATE_HELD
	StateAtRisk State = C.HF_STATE_AT_RISK // a renewal was not confirmed; it is still valid
	StateLost   State = C.HF_STATE_LOST    // lost, or released
)

// String returns "held", "at risk" or "lost".
func (s State) String() string {
	switch s {
	case StateHeld:
		return "held"
	case StateAtRisk:
		return "at risk"
	}
	return "lost"
}

// State returns the state by our own clock, without a round trip.
func (l *Lease) State() State { return State(C.hf_lease_state(l.now())) }

// Remaining returns for how long the lease is valid without a further renewal: 0 if it is lost or
// released, [Unlimited] if it does not end by itself.
func (l *Lease) Remaining() time.Duration {
	return goDuration(C.hf_lease_remaining_ms(l.now()))
}

// Wanted says whether others wait for it. It needs [Watch].
func (l *Lease) Wanted() bool { return bool(C.hf_lease_wanted(l.now())) }

// Fence returns the token as a fence for [Guard]. ErrUnsupported: it is none, for the lease is one of
// several that may overlap. ErrLost: too late to begin.
func (l *Lease) Fence() (uint64, error) {
	var e C.hf_error
	var token C.uint64_t
	if status := C.hf_lease_fence(l.now(), &token, &e); status != C.HF_OK {
		return 0, errorOf(status, &e)
	}
	return uint64(token), nil
}

// LeaseInfo is all that is known about a lease.
type LeaseInfo struct {
	Name      string
	Kind      Kind
	Token     uint64
	State     State
	Holds     int           // hold count of a reentrant lease, else 1
	Remaining time.Duration // validity left; Unlimited: no limit
	Age       time.Duration // since it was granted to us
	TTL       time.Duration // what each renewal gives; 0: none
	Wanted    bool          // Watch: others wait for it
	Asks      int           // Watch: how often EventAsked has come
	Slots     []uint32      // Numbered: the numbers of its permits, in ascending order
}

// Info returns all of it in one step, without a round trip.
func (l *Lease) Info() (LeaseInfo, error) {
	info := C.hf_lease_info{size: C.sizeof_hf_lease_info}
	if status := C.hf_lease_get(l.now(), &info); status != C.HF_OK {
		return LeaseInfo{}, errorOf(status, nil)
	}
	about := LeaseInfo{
		Name: string(C.GoBytes(unsafe.Pointer(&info.name[0]), C.int(info.name_len))),
		Kind: Kind(info.kind), Token: uint64(info.token), State: State(info.state),
		Holds: int(info.holds), Remaining: goDuration(info.remaining_ms),
		Age: goDuration(info.age_ms), TTL: goDuration(info.ttl_ms), Wanted: bool(info.wanted),
		Asks: int(info.asks),
	}
	for i := 0; i < int(info.slot_count) && i < C.HF_SLOTS_MAX; i++ {
		about.Slots = append(about.Slots, uint32(info.slots[i]))
	}
	return about, nil
}

// Renew renews the lease now, for ttl from now (0: as before). ErrLost: too late. ErrUnavailable,
// ErrUnknown: not confirmed; it is at risk, and still valid for [Lease.Remaining].
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	_, err := l.h.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_renew_async(l.now(), span(ttl), doneFn, arg, op, e)
	})
	return err
}

// Convert makes a lease of a read-write lock one of another kind, without a gap in which somebody
// else could write: a writer becomes an upgradeable or shared reader at once, an upgradeable reader a
// shared one at once, or the writer when the other readers have left. On an error the lease keeps its
// kind, unless it is ErrLost or ErrUnknown.
func (l *Lease) Convert(ctx context.Context, kind Kind) error {
	defer l.h.moved()
	res, err := l.h.move(ctx, settles, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_convert_async(l.now(), C.hf_kind(kind), waitOf(ctx, Forever), doneFn, arg, op, e)
	})
	if err != nil {
		return err
	}
	return l.replaced(res.lease)
}

// Yield gives a lease that others wait for to them, and waits for it again behind them; for a lease that was requested
// with [Watch]. false: nobody waits, as far as we have been told, and the lease stays as it is. true: it was given away
// and is ours again, with a new token: what it protects may have changed, and contexts that were derived from it
// are cancelled.
//
// ErrInvalid, ErrLost, ErrInUse: nothing was done. After any other error nothing is held. If the lease is released while Yield
// waits, Yield returns ErrInvalid, and what comes back is given back.
func (l *Lease) Yield(ctx context.Context) (bool, error) {
	if l.h.watch && !l.Wanted() && l.State() != StateLost {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, endedBy(ctx, OK)
	}
	l.h.givenAway() // before others have it
	old := l.now()
	defer l.h.moved()
	res, err := l.h.move(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_yield_async(old, waitOf(ctx, Forever), doneFn, arg, op, e)
	})
	switch {
	case res == nil: // it did not begin
		return false, err
	case res.lease != nil:
		err := l.replaced(res.lease)
		return err == nil && res.status == C.HF_YIELDED, err
	}
	l.h.over(err)
	if _, ok := l.take(); ok { // nothing is held
		l.h.released(old)
	}
	return false, err
}

var errMeanwhile = newError(ErrInvalid, "the lease was released meanwhile")

// replaced gives the lease another handle. If it was released meanwhile, nobody else would release what has come.
func (l *Lease) replaced(handle *C.hf_lease) error {
	l.mu.Lock()
	if !l.over {
		l.h.replaced(handle)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	_ = l.releaseLater(handle) // ErrInvalid says all
	return errMeanwhile
}

// replaced gives the holding another handle.
func (h *holding) replaced(handle *C.hf_lease) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store.leases[h.handle] == h {
		delete(h.store.leases, h.handle)
	}
	h.handle = handle
	h.store.leases[handle] = h
}

// Export returns a detached lease as text that another process can give to [Store.Adopt]. Whoever
// has it can release the lease.
func (l *Lease) Export() (string, error) {
	var text [C.HF_LEASE_TEXT_MAX]C.char
	if status := C.hf_lease_export(l.now(), &text[0]); status != C.HF_OK {
		return "", errorOf(status, nil)
	}
	return C.GoString(&text[0]), nil
}

// Session returns the session that holds the lease, as text for a process that works for us: see the option
// [Session]. around is the same text of a process for which we work, "" if there is none.
func (l *Lease) Session(around string) (string, error) {
	var a arena
	defer a.release()
	var e C.hf_error
	var text [C.HF_SESSION_TEXT_MAX]C.char
	outer := a.text(around)
	if status := C.hf_session_get(l.now(), outer, &text[0], &e); status != C.HF_OK {
		return "", errorOf(status, &e)
	}
	return C.GoString(&text[0]), nil
}

// SetCell writes bytes into a cell that is gone when the lease ends: [Store.LeaseCell] reads it.
// ErrBusy: it is bound to another lease, which is held.
func (l *Lease) SetCell(ctx context.Context, name string, bytes []byte) error {
	var a arena
	defer a.release()
	n, nl := a.bytes(name)
	b, bl := a.bytes(string(bytes))
	_, err := l.h.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_lease_cell_set_async(l.now(), n, nl, b, bl, doneFn, arg, op, e)
	})
	return err
}

// AdoptRequest says which detached lease is taken over.
type AdoptRequest struct {
	Name  string
	Text  string        // what Lease.Export returned
	TTL   time.Duration // renewed for this long from now; 0: as before
	Renew bool          // go on renewing it
}

// Adopt takes over a detached lease by its text. ErrNotFound: there is no such lease any more. If the context ends while
// the store is asked, and the lease is ours all the same, it is released: nobody else would.
func (s *Store) Adopt(ctx context.Context, request AdoptRequest) (*Lease, error) {
	var a arena
	defer a.release()
	r := C.hf_adopt_request{size: C.sizeof_hf_adopt_request, text: a.text(request.Text),
		ttl_ms: span(request.TTL), renew: C.bool(request.Renew)}
	r.name, r.name_len = a.bytes(request.Name)
	if a.bad {
		return nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	return s.await(ctx, s.silentHolding(), func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_lease_adopt_async(s.handle, &r, doneFn, arg, op, e)
	})
}

// silentHolding is for leases whose request takes no callback: see listen().
func (s *Store) silentHolding() *holding {
	return &holding{store: s, end: make(chan struct{})}
}

// Leases are several leases that are released together.
type Leases []*Lease

// Release releases them all, whatever happens, and returns the first error.
func (ls Leases) Release() error {
	var first error
	for i := len(ls) - 1; i >= 0; i-- {
		if err := ls[i].Release(); err != nil && (first == nil || errors.Is(first, errOver)) {
			first = err
		}
	}
	return first
}
