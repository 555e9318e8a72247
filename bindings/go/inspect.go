// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// View is what [Store.Inspect] has seen.
type View struct {
	Entries        []Entry // sorted by name, bytewise
	WaitersTracked bool    // false: this engine cannot list waiters
}

// Entry is a name that is held or waited for.
type Entry struct {
	Name     string
	Kind     Kind // KindMutex, KindShared (a read-write lock) or KindSemaphore
	Capacity uint32
	Taken    uint32        // permits; a writer takes Capacity
	Closed   time.Duration // lock delay left; 0: open
	Resized  bool          // Capacity was set by Store.Resize
	Holders  []Holder
	Waiters  []Waiter // in order
}

// Holder is one that holds a name.
type Holder struct {
	Token    uint64
	First    uint64 // first token of its block; local passes count up from it
	Permits  uint32
	Detached bool // no process is responsible for it
	Age      time.Duration
	TTL      time.Duration // left; Forever: none
	PID      int64         // 0: unknown, or in another PID namespace
	TID      int64         // the thread that holds after a local pass; 0: not known
	Label    string        // a stranger's words
	Session  uint64        // for deadlock detection; 0: not known
	Lingers  bool          // its process may keep it while nobody uses it ...
	Idle     bool          // ... and did so when it told the store last
	Watched  bool          // it learns that others wait, and Store.Ask reaches it
	Slots    []uint32
}

// Waiter is one that waits for a name.
type Waiter struct {
	Position uint32 // 1 is next
	Permits  uint32
	Kind     Kind
	Age      time.Duration
	PID      int64
	Label    string
	Session  uint64
}

func goName(p *C.uchar, n C.size_t) string {
	return string(C.GoBytes(unsafe.Pointer(p), C.int(n)))
}

func viewOf(v *C.hf_view) *View {
	view := &View{WaitersTracked: bool(C.hf_view_waiters_tracked(v))}
	for i := C.size_t(0); i < C.hf_view_count(v); i++ {
		e := C.hf_view_entry(v, i)
		entry := Entry{Name: goName(e.name, e.name_len), Kind: Kind(e.kind),
			Capacity: uint32(e.capacity), Taken: uint32(e.taken), Closed: goDuration(e.closed_ms),
			Resized: bool(e.resized)}
		for j := C.size_t(0); j < e.holder_count; j++ {
			entry.Holders = append(entry.Holders, holderOf(C.hf_entry_holder(e, j)))
		}
		for j := C.size_t(0); j < e.waiter_count; j++ {
			w := C.hf_entry_waiter(e, j)
			entry.Waiters = append(entry.Waiters, Waiter{Position: uint32(w.position),
				Permits: uint32(w.permits), Kind: Kind(w.kind), Age: goDuration(w.age_ms),
				PID: int64(w.pid), Label: goText(w.label), Session: uint64(w.session)})
		}
		view.Entries = append(view.Entries, entry)
	}
	return view
}

func holderOf(h *C.hf_holder) Holder {
	holder := Holder{Token: uint64(h.token), First: uint64(h.first), Permits: uint32(h.permits),
		Detached: bool(h.detached), Age: goDuration(h.age_ms), TTL: goDuration(h.ttl_ms),
		PID: int64(h.pid), TID: int64(h.tid), Label: goText(h.label), Session: uint64(h.session),
		Lingers: bool(h.lingers), Idle: bool(h.idle), Watched: bool(h.watched)}
	for i := 0; i < int(h.slot_count) && i < C.HF_SLOTS_MAX; i++ {
		holder.Slots = append(holder.Slots, uint32(h.slots[i]))
	}
	return holder
}

// Inspect lists holders and waiters of one name. If nobody holds it or waits for it, there is no entry.
func (s *Store) Inspect(ctx context.Context, name string) (*View, error) {
	return s.inspect(ctx, name, 0)
}

// InspectPattern lists holders and waiters of all names that match a pattern with * ? [a-z] and \;
// "" is all names.
func (s *Store) InspectPattern(ctx context.Context, pattern string) (*View, error) {
	return s.inspect(ctx, pattern, C.HF_INSPECT_FLAG_PATTERN)
}

func (s *Store) inspect(ctx context.Context, name string, flags C.uint64_t) (*View, error) {
	var a arena
	defer a.release()
	n, nl := a.bytes(name)
	if name == "" && flags != 0 {
		n = nil
	}
	res, err := s.run(ctx, reads, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_store_inspect_async(s.handle, n, nl, flags, doneFn, arg, op, e)
	})
	if err != nil {
		return nil, err
	}
	return res.view, nil
}

// Break ends exactly the lease that holds name with token, whoever owns it; its holder is told.
// ErrNotFound: no lease has that token now.
func (s *Store) Break(ctx context.Context, name string, token uint64) error {
	var a arena
	defer a.release()
	n, nl := a.bytes(name)
	_, err := s.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_lease_break_async(s.handle, n, nl, C.uint64_t(token), doneFn, arg, op, e)
	})
	return err
}

// Resize sets the size of a semaphore, also while it is in use. 0: as requests say.
func (s *Store) Resize(ctx context.Context, name string, capacity uint32) error {
	var a arena
	defer a.release()
	n, nl := a.bytes(name)
	_, err := s.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_semaphore_resize_async(s.handle, n, nl, C.uint32_t(capacity), doneFn, arg, op, e)
	})
	return err
}

// Ask asks the holders of name to give it away: they get [EventAsked] with text ("": the label of
// the store). ErrBusy: it is held, and no holder listens. ErrNotFound: nobody holds it.
func (s *Store) Ask(ctx context.Context, name, text string) error {
	var a arena
	defer a.release()
	n, nl := a.bytes(name)
	t := a.text(text)
	if a.bad {
		return newError(ErrInvalid, "a text has a NUL in it")
	}
	_, err := s.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_ask_async(s.handle, n, nl, t, doneFn, arg, op, e)
	})
	return err
}

// Wait waits until something in the store has changed since seq (0: since now), and returns the new
// number of the last change.
func (s *Store) Wait(ctx context.Context, seq uint64) (uint64, error) {
	res, err := s.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_store_wait_async(s.handle, C.uint64_t(seq), waitOf(ctx, Forever), nil, doneFn, arg, op, e)
	})
	if err != nil {
		return seq, err
	}
	return res.version, nil
}

// Level says how bad a finding is.
type Level int

// The levels of a finding.
const (
	LevelOK      Level = C.HF_CHECK_LEVEL_OK
	LevelWarning Level = C.HF_CHECK_LEVEL_WARNING
	LevelBad     Level = C.HF_CHECK_LEVEL_BAD
)

// Finding is one finding of [Store.Check].
type Finding struct {
	Level       Level
	Topic, Text string
	Note        bool // a fact to know, which is no fault: "no replicas"; the level is LevelOK
}

// Check says whether this store is safe for what it promises.
func (s *Store) Check(ctx context.Context) ([]Finding, error) {
	res, err := s.run(ctx, reads, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_store_check_async(s.handle, doneFn, arg, op, e)
	})
	if err != nil {
		return nil, err
	}
	return res.findings, nil
}

func findingsOf(report *C.hf_report) []Finding {
	var findings []Finding
	for i := C.size_t(0); i < C.hf_report_count(report); i++ {
		f := C.hf_report_item(report, i)
		findings = append(findings, Finding{Level(f.level), goText(f.topic), goText(f.text), bool(f.note)})
	}
	return findings
}

// DeadlockWaiter is a waiter of a cycle: it waits for Name, which the next waiter has. The last one
// waits for what the first has.
type DeadlockWaiter struct {
	Name    string
	Token   uint64 // of its lease of what the waiter before waits for; 0: ahead in the queue
	Session uint64
	Age     time.Duration // waiting since
	PID     int64         // 0: unknown
	Label   string
}

// Deadlock is one cycle; its waiter 0 is the one that will get ErrDeadlock.
type Deadlock []DeadlockWaiter

// Deadlocks lists the cycles that are in the store now.
func (s *Store) Deadlocks(ctx context.Context) ([]Deadlock, error) {
	res, err := s.run(ctx, reads, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_deadlock_list_async(s.handle, doneFn, arg, op, e)
	})
	if err != nil {
		return nil, err
	}
	return res.deadlocks, nil
}

func deadlocksOf(list *C.hf_deadlocks) []Deadlock {
	var deadlocks []Deadlock
	for i := C.size_t(0); i < C.hf_deadlock_count(list); i++ {
		cycle := C.hf_deadlock_item(list, i)
		var deadlock Deadlock
		for j := C.size_t(0); j < cycle.waiter_count; j++ {
			w := C.hf_deadlock_get_waiter(cycle, j)
			deadlock = append(deadlock, DeadlockWaiter{Name: goName(w.name, w.name_len),
				Token: uint64(w.token), Session: uint64(w.session), Age: goDuration(w.age_ms),
				PID: int64(w.pid), Label: goText(w.label)})
		}
		deadlocks = append(deadlocks, deadlock)
	}
	return deadlocks
}
