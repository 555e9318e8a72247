// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"
)

// slotCount limits the threads that a store may block at a time: in the first try of an acquire and
// in releases, which are a round trip each. A free lock is taken and released faster that way than
// through the poller. What waits, and what finds no slot, goes through the poller.
const slotCount = 4

// slot is a place for one short blocking call. Its request lies in C memory.
type slot struct {
	frame *C.struct_hfgo_frame
	texts arena // of the request
}

// takeSlot returns nil if all are in use.
func (s *Store) takeSlot() *slot {
	select {
	case sl := <-s.slots:
		if sl == nil {
			sl = &slot{frame: (*C.struct_hfgo_frame)(C.calloc(1, C.sizeof_struct_hfgo_frame))}
		}
		return sl
	default:
		return nil
	}
}

func (s *Store) putSlot(sl *slot) {
	sl.texts.release()
	s.slots <- sl
}

// freeSlots takes all slots for good: calls that come later find that the store is closed.
func (s *Store) freeSlots() {
	for i := 0; i < slotCount; i++ {
		if sl := <-s.slots; sl != nil {
			C.free(unsafe.Pointer(sl.frame))
		}
	}
}

// try acquires without waiting, and puts the slot back.
func (s *Store) try(ctx context.Context, sl *slot, set *settings, of Request) (*Lease, error) {
	h := s.newHolding(set)
	r := &sl.frame.request
	set.fill(r, &sl.texts, of, h.key)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&sl.frame.name[0])), NameMax), of.Name)
	r.name, r.name_len = unsafe.Pointer(&sl.frame.name[0]), C.size_t(len(of.Name))
	if sl.texts.bad {
		sl.texts.bad = false
		s.putSlot(sl)
		h.discard()
		return nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	if ctx.Done() == nil {
		return s.tried(ctx, sl, h, C.hfgo_acquire(s.handle, sl.frame))
	}
	return s.tryBeside(ctx, sl, h)
}

// tried is the end of a try.
func (s *Store) tried(ctx context.Context, sl *slot, h *holding, status C.hf_status) (*Lease, error) {
	if status != C.HF_OK {
		defer s.putSlot(sl)
		h.discard()
		return nil, withContext(ctx, errorOf(status, &sl.frame.error))
	}
	lease := sl.frame.lease
	s.putSlot(sl)
	return inTime(ctx, s.granted(h, lease))
}

// tryBeside tries on a goroutine of its own, because the library tries for seconds if the store does not answer: when the
// context ends, the try goes on without us, and what it is granted is given back.
func (s *Store) tryBeside(ctx context.Context, sl *slot, h *holding) (*Lease, error) {
	var owner int32 // 1: the try has ended first; 2: the caller has left first
	answer := make(chan C.hf_status, 1)
	go func() {
		status := C.hfgo_acquire(s.handle, sl.frame)
		answer <- status
		if !atomic.CompareAndSwapInt32(&owner, 0, 1) {
			if status == C.HF_OK {
				C.hf_release(sl.frame.lease, nil)
			}
			h.discard()
			s.putSlot(sl)
		}
	}()
	select {
	case status := <-answer:
		return s.tried(ctx, sl, h, status)
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case status := <-answer:
		return s.tried(ctx, sl, h, status)
	case <-timer.C:
	}
	if atomic.CompareAndSwapInt32(&owner, 0, 2) {
		return nil, endedBy(ctx, OK)
	}
	return s.tried(ctx, sl, h, <-answer)
}
