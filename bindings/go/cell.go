// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"context"
	"sync"
	"time"
	"unsafe"
)

// Cell is a few bytes with a version under a name. Every write changes the version, and no version ever comes back.
// Names of cells are separate from names of locks, but shared with counters, guards and the like.
type Cell struct {
	store *Store
	name  string
}

// Cell returns the cell of this name. Nothing is asked for.
func (s *Store) Cell(name string) *Cell { return &Cell{s, name} }

// CellValue is what a cell holds.
type CellValue struct {
	Bytes   []byte
	Version uint64        // 0: there is no cell
	TTL     time.Duration // left; Forever: it has none
}

// onName runs a call whose inputs are a name and nothing else in C memory.
func (s *Store) onName(ctx context.Context, is nature, name string,
	begin func(n unsafe.Pointer, nl C.size_t) beginFunc) (*result, error) {
	var a arena
	defer a.release()
	return s.run(ctx, is, begin(a.bytes(name)))
}

// Get reads it. ErrNotFound: there is none.
func (c *Cell) Get(ctx context.Context) (CellValue, error) {
	return valueOf(c.store.onName(ctx, reads, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_cell_get_async(c.store.handle, n, nl, doneFn, arg, op, e)
		}
	}))
}

// LeaseCell reads a cell that [Lease.SetCell] wrote. ErrNotFound: there is none, or its lease has ended.
func (s *Store) LeaseCell(ctx context.Context, name string) (CellValue, error) {
	return valueOf(s.onName(ctx, reads, name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_lease_cell_get_async(s.handle, n, nl, doneFn, arg, op, e)
		}
	}))
}

func valueOf(res *result, err error) (CellValue, error) {
	if err != nil {
		return CellValue{}, err
	}
	return CellValue{res.bytes, res.version, goDuration(C.int64_t(res.number))}, nil
}

func (c *Cell) request(a *arena, bytes []byte, ttl time.Duration, version uint64) *C.hf_cell_request {
	r := &C.hf_cell_request{size: C.sizeof_hf_cell_request, ttl_ms: span(ttl), version: C.uint64_t(version)}
	r.name, r.name_len = a.bytes(c.name)
	r.bytes, r.len = a.bytes(string(bytes))
	return r
}

// Set writes bytes, whatever is there, and returns the new version. With a ttl the cell is deleted
// after that time, 0: never.
func (c *Cell) Set(ctx context.Context, bytes []byte, ttl time.Duration) (uint64, error) {
	var a arena
	defer a.release()
	r := c.request(&a, bytes, ttl, 0)
	return versionOf(c.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_cell_set_async(c.store.handle, r, doneFn, arg, op, e)
	}))
}

// Swap writes bytes if the cell still has this version (0: if there is none), and returns the new
// version. ErrChanged: it has another one; nothing was done.
func (c *Cell) Swap(ctx context.Context, version uint64, bytes []byte, ttl time.Duration) (uint64, error) {
	var a arena
	defer a.release()
	r := c.request(&a, bytes, ttl, version)
	return versionOf(c.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_cell_swap_async(c.store.handle, r, doneFn, arg, op, e)
	}))
}

// Delete deletes the cell if it still has this version. ErrChanged: it has another one, or does not exist.
func (c *Cell) Delete(ctx context.Context, version uint64) error {
	_, err := c.store.onName(ctx, writes, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_cell_delete_async(c.store.handle, n, nl, C.uint64_t(version), doneFn, arg, op, e)
		}
	})
	return err
}

// Wait waits until the version of the cell is not this one, and returns the present one, 0: there is
// no cell.
func (c *Cell) Wait(ctx context.Context, version uint64) (uint64, error) {
	var a arena
	defer a.release()
	r := c.request(&a, nil, 0, version)
	r.wait_ms = waitOf(ctx, Forever)
	return versionOf(c.store.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_cell_wait_async(c.store.handle, r, doneFn, arg, op, e)
	}))
}

func versionOf(res *result, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return res.version, nil
}

// CellAction is what a change does to a cell.
type CellAction int

// The actions of a change.
const (
	CellLeave  CellAction = C.HF_CELL_ACTION_LEAVE
	CellWrite  CellAction = C.HF_CELL_ACTION_WRITE
	CellDelete CellAction = C.HF_CELL_ACTION_DELETE
)

// CellChange is what the function of [Cell.Update] wants.
type CellChange struct {
	Action CellAction
	Bytes  []byte        // CellWrite
	TTL    time.Duration // CellWrite; 0: none
}

// update is an Update that runs.
type update struct {
	fn func(CellValue) (CellChange, error)

	mu       sync.Mutex
	memory   unsafe.Pointer // the bytes of the last answer
	err      error          // of fn
	panicked interface{}
}

//export goDecide
func goDecide(old *C.hf_cell, change *C.hf_cell_change, arg unsafe.Pointer) C.hf_status {
	u, ok := ids.get(arg).(*update)
	if !ok {
		return C.HF_INTERNAL
	}
	value := CellValue{Version: uint64(old.version), TTL: goDuration(old.ttl_ms)}
	if old.bytes != nil {
		value.Bytes = C.GoBytes(old.bytes, C.int(old.len))
	}
	wanted, ok := u.decide(value)
	if !ok {
		return C.HF_CANCELLED
	}
	C.free(u.memory)
	u.memory = C.CBytes(wanted.Bytes)
	change.action = C.hf_cell_action(wanted.Action)
	change.bytes, change.len = u.memory, C.size_t(len(wanted.Bytes))
	change.ttl_ms = span(wanted.TTL)
	return C.HF_OK
}

// decide asks fn, on a goroutine of its own: runtime.Goexit in fn (as t.FailNow does it) would end the poller. false: fn has
// not decided, and u says why.
func (u *update) decide(value CellValue) (change CellChange, ok bool) {
	u.err = newError(ErrCancelled, "the function of the update has ended its goroutine")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			u.panicked = recover() // it is raised again in Update
		}()
		change, u.err = u.fn(value)
		ok = u.err == nil
	}()
	<-done
	return change, ok
}

// Update reads the cell, lets fn decide, and writes if nobody else wrote in the meantime; else it begins again. It returns the
// version that the cell has then, 0: there is none. If fn returns an error, Update ends with it, and nothing is done.
//
// fn may be called several times, on another goroutine. All callbacks of the store wait for it: it must be
// short, and must not call this store.
func (c *Cell) Update(ctx context.Context, fn func(old CellValue) (CellChange, error)) (uint64, error) {
	var a arena
	defer a.release()
	u := &update{fn: fn}
	key := ids.add(u)
	defer ids.remove(key, u)
	r := c.request(&a, nil, 0, 0)
	r.fn, r.fn_arg, r.wait_ms = decideFn, key, waitOf(ctx, Forever)
	res, err := c.store.run(ctx, settles, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_cell_update_async(c.store.handle, r, doneFn, arg, op, e)
	})
	C.free(u.memory)
	if u.panicked != nil {
		panic(u.panicked)
	}
	if err != nil && u.err != nil {
		return 0, u.err
	}
	return versionOf(res, err)
}

// AnyVersion as the version of a [CellItem] means: whatever is there, also nothing.
const AnyVersion uint64 = C.HF_CELL_ANY

// CellItem is one item of [Store.Commit]. CellLeave only asserts the version.
type CellItem struct {
	Name    string
	Version uint64 // 0: there must be no cell; AnyVersion
	Action  CellAction
	Bytes   []byte
	TTL     time.Duration
}

// ChangedError is the error of a commit that found another version: errors.Is(err, ErrChanged) is true too.
type ChangedError struct {
	Index   int    // the first item whose cell has another version
	Version uint64 // that version, 0: it does not exist
	err     error
}

// Error returns the text.
func (e *ChangedError) Error() string { return e.err.Error() }

// Unwrap returns the *Error.
func (e *ChangedError) Unwrap() error { return e.err }

// Commit does all items at one moment if every item's cell has the version that the item expects, else nothing:
// a [ChangedError]. It returns the versions that the cells have now, 0: none.
func (s *Store) Commit(ctx context.Context, items ...CellItem) ([]uint64, error) {
	var a arena
	defer a.release()
	array := (*C.hf_cell_item)(a.zeroed(uintptr(len(items)+1) * C.sizeof_hf_cell_item))
	for i, slice := 0, unsafe.Slice(array, len(items)); i < len(items); i++ {
		item := &slice[i]
		item.size = C.sizeof_hf_cell_item
		item.name, item.name_len = a.bytes(items[i].Name)
		item.version = C.uint64_t(items[i].Version)
		item.action = C.hf_cell_action(items[i].Action)
		item.bytes, item.len = a.bytes(string(items[i].Bytes))
		item.ttl_ms = span(items[i].TTL)
	}
	res, err := s.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_cells_commit_async(s.handle, array, C.size_t(len(items)), doneFn, arg, op, e)
	})
	switch {
	case err == nil:
		return res.versions, nil
	case res != nil && StatusOf(err) == ErrChanged:
		return nil, &ChangedError{int(res.number), res.version, err}
	}
	return nil, err
}

// Counter is a 64-bit number under a name; one that does not exist is 0. Each call is atomic.
// ErrUnknown: it may have been done once. It is never done twice.
type Counter struct {
	store *Store
	name  string
}

// Counter returns the counter of this name. Nothing is asked for.
func (s *Store) Counter(name string) *Counter { return &Counter{s, name} }

func numberOf(res *result, err error) (int64, error) {
	if res == nil {
		return 0, err
	}
	return res.number, err
}

// Add adds any number, and returns the sum. ErrOverflow: it would leave the range; nothing was done.
func (c *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	return numberOf(c.store.onName(ctx, writes, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_counter_add_async(c.store.handle, n, nl, C.int64_t(delta), doneFn, arg, op, e)
		}
	}))
}

// Get returns the number.
func (c *Counter) Get(ctx context.Context) (int64, error) {
	return numberOf(c.store.onName(ctx, reads, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_counter_get_async(c.store.handle, n, nl, doneFn, arg, op, e)
		}
	}))
}

// Set sets the number.
func (c *Counter) Set(ctx context.Context, value int64) error {
	_, err := c.store.onName(ctx, writes, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_counter_set_async(c.store.handle, n, nl, C.int64_t(value), doneFn, arg, op, e)
		}
	})
	return err
}

// Swap sets the number if it is the expected one, and returns the present one. ErrChanged: it is
// not, and nothing was done.
func (c *Counter) Swap(ctx context.Context, expected, value int64) (int64, error) {
	return numberOf(c.store.onName(ctx, writes, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_counter_swap_async(c.store.handle, n, nl, C.int64_t(expected), C.int64_t(value),
				doneFn, arg, op, e)
		}
	}))
}

// Delete deletes it, also if it does not exist.
func (c *Counter) Delete(ctx context.Context) error {
	_, err := c.store.onName(ctx, writes, c.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_counter_delete_async(c.store.handle, n, nl, doneFn, arg, op, e)
		}
	})
	return err
}

// Guard is a few bytes under a name that remember the highest token they have seen, and refuse every
// lower one: [ErrFenced]. The tokens must all be of one lock name in one store.
type Guard struct {
	store *Store
	name  string
}

// Guard returns the guarded resource of this name. Nothing is asked for.
func (s *Store) Guard(name string) *Guard { return &Guard{s, name} }

// Claim presents the token and reads, atomically. nil: never written. ErrFenced: stop, because the
// lease is no longer ours. Claim before reading anything that the token protects.
func (g *Guard) Claim(ctx context.Context, token uint64) ([]byte, error) {
	res, err := g.store.onName(ctx, writes, g.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_guard_claim_async(g.store.handle, n, nl, C.uint64_t(token), doneFn, arg, op, e)
		}
	})
	if err != nil {
		return nil, err
	}
	return res.bytes, nil
}

// Set replaces the bytes if no higher token has been seen, and presents the token as Claim does.
// ErrUnknown: the same call may be made again.
func (g *Guard) Set(ctx context.Context, token uint64, bytes []byte) error {
	var a arena
	defer a.release()
	n, nl := a.bytes(g.name)
	b, bl := a.bytes(string(bytes))
	_, err := g.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_guard_set_async(g.store.handle, n, nl, C.uint64_t(token), b, bl, doneFn, arg, op, e)
	})
	return err
}
