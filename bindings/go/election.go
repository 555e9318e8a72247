// SPDX-License-Identifier: MIT

package holdfast

// #include "shim.h"
import "C"

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// askFor runs a call that acquires by an ordinary request, and does something more.
func (s *Store) askFor(ctx context.Context, of Request, options []Option,
	begin func(a *arena, r *C.hf_acquire_request) beginFunc) (*Lease, *result, error) {
	set, err := settingsOf(ctx, Forever, options)
	if err != nil {
		return nil, nil, err
	}
	var a arena
	defer a.release()
	h := s.newHolding(set)
	r := new(C.hf_acquire_request)
	set.fill(r, &a, of, h.key)
	r.name, r.name_len = a.bytes(of.Name)
	r.wait_ms = waitOf(ctx, set.wait)
	fn := begin(&a, r)
	if a.bad {
		h.discard()
		return nil, nil, newError(ErrInvalid, "a text has a NUL in it")
	}
	res, err := s.run(ctx, waits, fn, h)
	if err != nil {
		return nil, res, err
	}
	lease, err := inTime(ctx, s.granted(h, res.lease))
	return lease, res, err
}

// Election is a lock whose holder leads and publishes a value.
type Election struct {
	store *Store
	name  string
}

// Election returns the election of this name. Nothing is asked for.
func (s *Store) Election(name string) *Election { return &Election{s, name} }

// Leadership is the lease of a leader. It leads for as long as the lease is valid.
type Leadership struct{ *Lease }

// Campaign waits until we lead, and publishes the value.
func (el *Election) Campaign(ctx context.Context, value []byte, options ...Option) (*Leadership, error) {
	lease, _, err := el.store.askFor(ctx, Request{Name: el.name}, options,
		func(a *arena, r *C.hf_acquire_request) beginFunc {
			v, vl := a.bytes(string(value))
			return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
				return C.hf_election_campaign_async(el.store.handle, r, v, vl, doneFn, arg, op, e)
			}
		})
	if err != nil {
		return nil, err
	}
	return &Leadership{lease}, nil
}

// Publish publishes another value. ErrLost: we do not lead any more. ErrFenced: a later leader has
// published.
func (l *Leadership) Publish(ctx context.Context, value []byte) error {
	var a arena
	defer a.release()
	v, vl := a.bytes(string(value))
	_, err := l.h.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_election_set_async(l.now(), v, vl, doneFn, arg, op, e)
	})
	return err
}

// Resign publishes that nobody leads, and releases the lease, whatever it returns.
func (l *Leadership) Resign() error {
	return l.finish(context.Background(), ends, func(handle *C.hf_lease) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_election_resign_async(handle, doneFn, arg, op, e)
		}
	})
}

// Leader is what an observer of an election sees.
type Leader struct {
	Leads   bool // false: nobody leads
	Token   uint64
	Value   []byte
	Label   string
	Version uint64 // of what was published last
	native  *C.hf_leader
}

// Wait waits until there is something else to see than last; nil: it returns at once.
func (el *Election) Wait(ctx context.Context, last *Leader) (*Leader, error) {
	var a arena
	defer a.release()
	r := &C.hf_election_request{size: C.sizeof_hf_election_request, wait_ms: waitOf(ctx, Forever)}
	r.name, r.name_len = a.bytes(el.name)
	if last != nil {
		r.last = last.native
	}
	res, err := el.store.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_election_wait_async(el.store.handle, r, doneFn, arg, op, e)
	})
	runtime.KeepAlive(last)
	if err != nil {
		return nil, err
	}
	c := res.leader
	leader := &Leader{Leads: bool(c.leads), Token: uint64(c.token), Label: goText(c.label),
		Version: uint64(c.version), native: c}
	if c.leads {
		leader.Value = C.GoBytes(c.value, C.int(c.value_len))
	}
	runtime.SetFinalizer(leader, func(l *Leader) { C.hf_free(unsafe.Pointer(l.native)) })
	return leader, nil
}

// Group is a list of those that are alive.
type Group struct {
	store *Store
	name  string
}

// Group returns the group of this name. Nothing is asked for.
func (s *Store) Group(name string) *Group { return &Group{s, name} }

// Membership is the lease of a member.
type Membership struct{ *Lease }

// Join joins the group as value, an address for example ("": the label of the store).
func (g *Group) Join(ctx context.Context, value string, options ...Option) (*Membership, error) {
	lease, _, err := g.store.askFor(ctx, Request{Name: g.name, Kind: KindShared}, options,
		func(a *arena, r *C.hf_acquire_request) beginFunc {
			v := a.text(value)
			return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
				return C.hf_member_join_async(g.store.handle, r, v, doneFn, arg, op, e)
			}
		})
	if err != nil {
		return nil, err
	}
	return &Membership{lease}, nil
}

// Leave releases the lease, and tells those that watch.
func (m *Membership) Leave() error {
	return m.finish(context.Background(), ends, func(handle *C.hf_lease) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_member_leave_async(handle, doneFn, arg, op, e)
		}
	})
}

// Member is a member of a group.
type Member struct {
	Token uint64 // of its lease: no other member ever has it
	Value string
	Age   time.Duration
	TTL   time.Duration // left; Forever: none
	PID   int64         // 0: unknown
}

// Members are the members of a group at one moment.
type Members struct {
	List   []Member // sorted by token
	native *C.hf_members
}

// Wait lists the members. With last it waits until they are others.
func (g *Group) Wait(ctx context.Context, last *Members) (*Members, error) {
	var a arena
	defer a.release()
	r := &C.hf_members_request{size: C.sizeof_hf_members_request, wait_ms: waitOf(ctx, Forever)}
	r.name, r.name_len = a.bytes(g.name)
	if last != nil {
		r.last = last.native
	}
	res, err := g.store.run(ctx, waits, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_members_wait_async(g.store.handle, r, doneFn, arg, op, e)
	})
	runtime.KeepAlive(last)
	if err != nil {
		return nil, err
	}
	members := &Members{native: res.members}
	for i := C.size_t(0); i < C.hf_members_count(res.members); i++ {
		m := C.hf_members_item(res.members, i)
		members.List = append(members.List, Member{uint64(m.token), goText(m.value),
			goDuration(m.age_ms), goDuration(m.ttl_ms), int64(m.pid)})
	}
	runtime.SetFinalizer(members, func(m *Members) { C.hf_free(unsafe.Pointer(m.native)) })
	return members, nil
}

// Once is work that is to be done once: a lock, and a mark under its name that it has been done.
type Once struct {
	store *Store
	name  string
}

// Once returns the work of this name. Nothing is asked for.
func (s *Store) Once(name string) *Once { return &Once{s, name} }

// Mark says by whom work was done.
type Mark struct {
	Token uint64    // of the lease under which it was done
	At    time.Time // by the clock of the process that did it
	TTL   time.Duration
	Label string
}

func markOf(m *C.hf_once_mark) *Mark {
	return &Mark{Token: uint64(m.token), At: time.UnixMilli(int64(m.at_ms)),
		TTL: goDuration(m.ttl_ms), Label: goText(&m.label[0])}
}

// Begin begins. A lease: it is ours to do; then Finish and Release, or Release alone: it is not done. ErrDone: it has
// been done before, and the mark says by whom. keep is how long the mark stays, 0: for ever.
func (o *Once) Begin(ctx context.Context, keep time.Duration, options ...Option) (*Lease, *Mark, error) {
	lease, res, err := o.store.askFor(ctx, Request{Name: o.name}, options,
		func(_ *arena, r *C.hf_acquire_request) beginFunc {
			return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
				return C.hf_once_begin_async(o.store.handle, r, span(keep), doneFn, arg, op, e)
			}
		})
	if res == nil {
		return nil, nil, err
	}
	return lease, res.mark, err
}

// Claim begins under a lease that is held already. ErrDone: it has been done, and the mark says by
// whom; the lease is still ours to release.
func (o *Once) Claim(ctx context.Context, lease *Lease, keep time.Duration) (*Mark, error) {
	res, err := o.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_once_claim_async(lease.now(), span(keep), doneFn, arg, op, e)
	})
	if res == nil {
		return nil, err
	}
	return res.mark, err
}

// Finish sets the mark: it is done. ErrFenced: somebody has begun after us, and it is done once more.
func (o *Once) Finish(ctx context.Context, lease *Lease) error {
	_, err := o.store.run(ctx, writes, func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
		return C.hf_once_finish_async(lease.now(), doneFn, arg, op, e)
	})
	return err
}

// Get says by whom it was done. ErrNotFound: it has not been done.
func (o *Once) Get(ctx context.Context) (*Mark, error) {
	res, err := o.store.onName(ctx, reads, o.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_once_get_async(o.store.handle, n, nl, doneFn, arg, op, e)
		}
	})
	if err != nil {
		return nil, err
	}
	return res.mark, nil
}

// Delete deletes the mark: the next worker does it again. ErrNotFound: there is none.
func (o *Once) Delete(ctx context.Context) error {
	_, err := o.store.onName(ctx, writes, o.name, func(n unsafe.Pointer, nl C.size_t) beginFunc {
		return func(arg unsafe.Pointer, op **C.hf_op, e *C.hf_error) C.hf_status {
			return C.hf_once_delete_async(o.store.handle, n, nl, doneFn, arg, op, e)
		}
	})
	return err
}

// Do runs work unless it has been done before, and sets the mark if it returns nil. It returns the
// error of the work. The context that the work gets ends with the lease.
func (o *Once) Do(ctx context.Context, work func(context.Context) error, options ...Option) error {
	lease, _, err := o.Begin(ctx, 0, options...)
	if StatusOf(err) == ErrDone {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release()
	if err := work(lease.Context(ctx)); err != nil {
		return err
	}
	return o.Finish(ctx, lease)
}
