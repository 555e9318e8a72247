// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"unsafe"
)

// Latch opens for ever when a number of participants have counted down. Each is counted once, however
// often it counts down.
type Latch struct {
	store *Store
	name  string
}

// Latch returns the latch of this name. Nothing is asked for.
func (s *Store) Latch(name string) *Latch { return &Latch{s, name} }

// Create makes it for a count.
func (l *Latch) Create(ctx context.Context, count uint32) error {
	_, err := l.store.onName(ctx, writes, l.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_latch_create_async(l.store.handle, n, nl, C.uint32_t(count), doneFn, arg, op, e)
		}
	})
	return err
}

// CountDown counts down as who, and returns how many are missing; 0: it is open.
func (l *Latch) CountDown(ctx context.Context, who string) (uint32, error) {
	var a arena
	defer a.release()
	n, nl := a.bytes(l.name)
	w := a.text(who)
	if a.bad {
		return 0, newError(ErrInvalid, "a text has a NUL in it")
	}
	left, err := numberOf(l.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_latch_count_down_async(l.store.handle, n, nl, w, doneFn, arg, op, e)
	}))
	return uint32(left), err
}

// partyRequest is that of latches and barriers. "" as who: NULL.
func partyRequest(ctx context.Context, a *arena, name, who string, parties uint32) (*C.hf_party_request, error) {
	r := &C.hf_party_request{size: C.sizeof_hf_party_request, who: a.text(who),
		parties: C.uint32_t(parties), wait_ms: waitOf(ctx, Forever)}
	r.name, r.name_len = a.bytes(name)
	if a.bad {
		return nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	return r, nil
}

// Join joins as who before the work begins. The lease is released after the count-down: if it ends
// before, the latch is broken.
func (l *Latch) Join(ctx context.Context, who string) (*Lease, error) {
	var a arena
	defer a.release()
	r, err := partyRequest(ctx, &a, l.name, who, 0)
	if err != nil {
		return nil, err
	}
	return l.store.await(ctx, l.store.silentHolding(), func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_latch_join_async(l.store.handle, r, doneFn, arg, op, e)
	})
}

// Wait waits until it is open. ErrBroken: a participant that had joined died.
func (l *Latch) Wait(ctx context.Context) error {
	var a arena
	defer a.release()
	r, err := partyRequest(ctx, &a, l.name, "", 0)
	if err != nil {
		return err
	}
	_, err = l.store.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_latch_wait_async(l.store.handle, r, doneFn, arg, op, e)
	})
	return err
}

// Get returns its count, and how many are missing. ErrBroken: it is.
func (l *Latch) Get(ctx context.Context) (count, left uint32, err error) {
	res, err := l.store.onName(ctx, reads, l.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_latch_get_async(l.store.handle, n, nl, doneFn, arg, op, e)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	return uint32(res.count), uint32(res.number), nil
}

// Delete deletes it; its waiters get ErrNotFound.
func (l *Latch) Delete(ctx context.Context) error {
	_, err := l.store.onName(ctx, writes, l.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_latch_delete_async(l.store.handle, n, nl, doneFn, arg, op, e)
		}
	})
	return err
}

// Barrier makes a number of participants wait for each other, again and again.
type Barrier struct {
	store   *Store
	name    string
	parties uint32
}

// Barrier returns the barrier of this name for so many participants. Nothing is asked for.
func (s *Store) Barrier(name string, parties uint32) *Barrier { return &Barrier{s, name, parties} }

// Wait waits as who ("": a random id) until all have come. ErrBroken: a participant died. With another error it has not
// come, but for ErrUnknown.
func (b *Barrier) Wait(ctx context.Context, who string) error {
	var a arena
	defer a.release()
	r, err := partyRequest(ctx, &a, b.name, who, b.parties)
	if err != nil {
		return err
	}
	_, err = b.store.run(ctx, settles, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_barrier_wait_async(b.store.handle, r, doneFn, arg, op, e)
	})
	return err
}

// Party is a participant inside a double barrier.
type Party struct{ *Lease }

// Enter waits as who until all are inside: a double barrier. [Party.Leave] ends it.
func (b *Barrier) Enter(ctx context.Context, who string) (*Party, error) {
	var a arena
	defer a.release()
	r, err := partyRequest(ctx, &a, b.name, who, b.parties)
	if err != nil {
		return nil, err
	}
	lease, err := b.store.await(ctx, b.store.silentHolding(), func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_barrier_enter_async(b.store.handle, r, doneFn, arg, op, e)
	})
	if err != nil {
		return nil, err
	}
	return &Party{lease}, nil
}

// Leave leaves, and waits until all have left. The lease has ended, whatever is returned.
func (p *Party) Leave(ctx context.Context) error {
	return p.finish(ctx, waits, func(handle *C.hf_lease) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_barrier_leave_async(handle, waitOf(ctx, Forever), nil, doneFn, arg, op, e)
		}
	})
}
