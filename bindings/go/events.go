// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// EventKind says what has happened to a lease.
type EventKind int

// The events of a lease.
const (
	EventAtRisk   EventKind = C.HF_EVENT_AT_RISK  // a renewal was not confirmed; Text: why
	EventHeld     EventKind = C.HF_EVENT_HELD     // the next one was
	EventLost     EventKind = C.HF_EVENT_LOST     // the lease is lost; Text: why. The last event
	EventWanted   EventKind = C.HF_EVENT_WANTED   // Watch: others wait for it
	EventUnwanted EventKind = C.HF_EVENT_UNWANTED // Watch: no longer
	EventAsked    EventKind = C.HF_EVENT_ASKED    // Watch: Store.Ask; Text: what the asker says
)

var eventNames = [...]string{"", "AT_RISK", "HELD", "LOST", "WANTED", "UNWANTED", "ASKED"}

// String returns the name of the event: "AT_RISK".
func (k EventKind) String() string {
	if k < 1 || int(k) >= len(eventNames) {
		return "UNKNOWN"
	}
	return eventNames[k]
}

// track says which events replace each other.
func (k EventKind) track() int {
	switch k {
	case EventWanted, EventUnwanted:
		return 1
	case EventAsked:
		return 2
	}
	return 0
}

// Event is something that has happened to a lease.
type Event struct {
	Kind EventKind
	Text string // the text of EventAsked is that of a stranger
}

// eventQueue holds what was not received yet: at most one event of each track, as in the library.
type eventQueue struct {
	pending []Event
	changed chan struct{} // closed when there is more; nil: nobody waits
	out     chan Event    // nil: Events was not called
}

//export goEvent
func goEvent(lease *C.hf_lease, event C.hf_event, text *C.char, arg unsafe.Pointer) {
	if h, ok := ids.get(arg).(*holding); ok {
		h.happened(Event{EventKind(event), goText(text)})
	}
}

func (h *holding) happened(event Event) {
	h.mu.Lock()
	q := &h.events
	kept := q.pending[:0]
	for _, old := range q.pending {
		if event.Kind != EventLost && old.Kind.track() != event.Kind.track() {
			kept = append(kept, old)
		}
	}
	q.pending = append(kept, event)
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
	h.mu.Unlock()
	if event.Kind == EventLost {
		h.over(newError(ErrLost, "the lease is lost: "+event.Text))
	}
}

// Events returns the channel of the lease's events. It is closed after [EventLost], and when the lease is released. If the
// receiver is slow, events that replace each other (WANTED and UNWANTED, AT_RISK and HELD, several
// ASKED) are merged. All calls return the same channel.
func (l *Lease) Events() <-chan Event {
	h := l.h
	h.listen()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.events.out == nil {
		h.events.out = make(chan Event, 1)
		go h.deliver(h.events.out)
	}
	return h.events.out
}

// next takes the first event. more is what to wait for if there is none.
func (h *holding) next() (event Event, ok bool, more chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := &h.events
	if len(q.pending) > 0 {
		event = q.pending[0]
		q.pending = append(q.pending[:0], q.pending[1:]...)
		return event, true, nil
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return event, false, q.changed
}

// deliver sends events until the lease has ended. It knows only the holding: so a lease whose events
// nobody receives can still be found to be forgotten.
func (h *holding) deliver(out chan<- Event) {
	defer close(out)
	for {
		event, ok, more := h.next()
		if !ok {
			select {
			case <-more:
			case <-h.end:
				if event, ok, _ = h.next(); ok { // LOST comes just before the end
					h.last(out, event)
				}
				return
			}
			continue
		}
		if event.Kind == EventLost {
			h.last(out, event)
			return
		}
		select {
		case out <- event:
		case <-h.end:
			if event, ok, _ = h.next(); ok {
				h.last(out, event)
			}
			return
		}
	}
}

// last puts LOST into the channel's buffer, in place of what was not received.
func (h *holding) last(out chan<- Event, event Event) {
	if event.Kind != EventLost {
		return
	}
	select {
	case out <- event:
		return
	default:
	}
	h.mu.Lock()
	in := h.events.out
	h.mu.Unlock()
	select {
	case <-in:
	default:
	}
	out <- event // there is room: nobody else sends
}

// listen watches the descriptor of a lease whose request took no callback, on a goroutine that
// blocks no thread.
func (h *holding) listen() {
	if h.key != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listens || h.err != nil {
		return
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(C.hf_lease_fd(h.handle)),
		syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return
	}
	_ = syscall.SetNonblock(int(fd), true)
	h.listens = true
	go h.listenTo(os.NewFile(fd, "holdfast lease"), h.handle)
}

func (h *holding) listenTo(file *os.File, handle *C.hf_lease) {
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the end of the lease ends the sleep
		select {
		case <-h.end:
			_ = file.SetReadDeadline(time.Unix(1, 0))
		case <-stop:
		}
	}()
	told := State(StateHeld)
	for {
		looked := false
		if conn.Read(func(fd uintptr) bool {
			if looked {
				return true
			}
			looked = true
			return C.hfgo_readable(C.int(fd)) != 0
		}) != nil {
			return
		}
		info := C.hf_lease_info{size: C.sizeof_hf_lease_info}
		status := C.hf_lease_get(handle, &info)
		state := State(info.state)
		switch {
		case status != C.HF_OK: // released
			return
		case state == StateLost:
			h.happened(Event{EventLost, "its descriptor says so"})
			return
		case state != told:
			h.happened(Event{map[State]EventKind{StateHeld: EventHeld, StateAtRisk: EventAtRisk}[state], ""})
			told = state
		}
	}
}

// givenAway cancels the contexts that were derived so far.
func (h *holding) givenAway() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch != nil {
		close(h.epoch)
		h.epoch = nil
	}
}

// Context returns a copy of ctx that is cancelled when the lease is lost, released or yielded, and a little before its
// validity ends: a tenth of its ttl, if no renewal has come by then. [Cause] (and context.Cause, since Go 1.20) tells why.
func (l *Lease) Context(ctx context.Context) context.Context {
	margin := time.Duration(0)
	if info, err := l.Info(); err == nil {
		margin = info.TTL / 10
	}
	return l.ContextMargin(ctx, margin)
}

// ContextMargin is [Lease.Context] with another time before the end of the validity.
func (l *Lease) ContextMargin(ctx context.Context, margin time.Duration) context.Context {
	h := l.h
	h.listen()
	h.mu.Lock()
	if h.epoch == nil {
		h.epoch = make(chan struct{})
	}
	epoch := h.epoch
	h.mu.Unlock()
	derived := newLeaseContext(ctx, func() error {
		select {
		case <-h.end:
			return h.why(ErrReleased)
		case <-epoch:
			return ErrYielded
		default:
			return nil
		}
	})
	if h.remaining() <= margin {
		derived.end(h.why(newError(ErrLost, "the lease is about to end")))
	} else {
		go h.guard(derived, epoch, margin)
	}
	return derived
}

// remaining is that of [Lease.Remaining].
func (h *holding) remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return goDuration(C.hf_lease_remaining_ms(h.handle))
}

// guard ends a derived context.
func (h *holding) guard(ctx *leaseContext, epoch <-chan struct{}, margin time.Duration) {
	for {
		left := h.remaining()
		if left <= margin {
			ctx.end(h.why(newError(ErrLost, "the lease is about to end")))
			return
		}
		var soon <-chan time.Time
		var timer *time.Timer
		if left != Unlimited {
			timer = time.NewTimer(left - margin)
			soon = timer.C
		}
		select {
		case <-soon:
			continue // a renewal may have come
		case <-ctx.Done():
		case <-h.end:
			ctx.end(h.why(ErrReleased))
		case <-epoch:
			ctx.end(ErrYielded)
		}
		if timer != nil {
			timer.Stop()
		}
		return
	}
}

// why returns the reason of the end, otherwise if there is none yet.
func (h *holding) why(otherwise error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	return otherwise
}
