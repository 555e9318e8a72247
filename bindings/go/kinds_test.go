// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestReadWrite(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		one, err := store.RLock(ctx, "rw")
		must(t, err)
		two, err := store.TryRLock(ctx, "rw")
		must(t, err)
		_, err = store.TryWLock(ctx, "rw")
		want(t, err, ErrBusy)
		_, err = one.Fence()
		want(t, err, ErrUnsupported)
		up, err := store.ULock(ctx, "rw")
		must(t, err)
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		want(t, up.Convert(short, KindExclusive), context.DeadlineExceeded)
		cancel()
		equal(t, up.State(), StateHeld)
		must(t, one.Release())
		must(t, two.Release())
		before := up.Token()
		must(t, up.Convert(ctx, KindExclusive))
		if up.Token() == before {
			t.Fatal("the token is the same")
		}
		fence, err := up.Fence()
		must(t, err)
		equal(t, fence, up.Token())
		_, err = store.TryRLock(ctx, "rw")
		want(t, err, ErrBusy)
		must(t, up.Convert(ctx, KindShared))
		want(t, up.Convert(ctx, KindExclusive), ErrInvalid)
		must(t, store.Break(ctx, "rw", up.Token())) // the new handle is the one that is watched
		closed(t, "loss", up.Done())
		want(t, up.Release(), ErrLost)
		must(t, store.Close())
	})
}

func TestSemaphore(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		info, err := store.Info()
		must(t, err)
		options := []Option{}
		if info.Caps.Has(CapNumbered) {
			options = append(options, Numbered())
		}
		two, err := store.Semaphore(ctx, "s", 3, 2, options...)
		must(t, err)
		_, err = store.TrySemaphore(ctx, "s", 3, 2)
		want(t, err, ErrBusy)
		_, err = store.TrySemaphore(ctx, "s", 4, 1)
		want(t, err, ErrMismatch)
		if info.Caps.Has(CapNumbered) {
			about, err := two.Info()
			must(t, err)
			equal(t, about.Slots, "[0 1]")
		}
		if info.Caps.Has(CapResize) {
			must(t, store.Resize(ctx, "s", 5))
			more, err := store.TrySemaphore(ctx, "s", 3, 3)
			must(t, err)
			must(t, more.Release())
			must(t, store.Resize(ctx, "s", 0))
		}
		must(t, two.Release())
		must(t, store.Close())
	})
}

func TestSeveralNames(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		abc := []Request{{Name: "c"}, {Name: "a"}, {Name: "b", Kind: KindSemaphore, Capacity: 2}}
		leases, err := store.All(ctx, abc, Label("all"))
		must(t, err)
		for i, lease := range leases {
			info, err := lease.Info()
			must(t, err)
			equal(t, info.Name, abc[i].Name)
		}
		_, err = store.All(ctx, abc[:2], Wait(0))
		want(t, err, ErrBusy)
		_, _, err = store.Any(ctx, abc[:2], Wait(time.Millisecond))
		want(t, err, ErrTimeout)
		stopped, cancel := context.WithCancel(ctx)
		done := make(chan error)
		go func() {
			_, _, err := store.Any(stopped, abc[:2])
			done <- err
		}()
		local(t, 1)
		cancel()
		want(t, <-done, context.Canceled)
		must(t, leases[1].Release())
		lease, index, err := store.Any(ctx, abc[:2])
		must(t, err)
		equal(t, index, 1)
		must(t, lease.Release())
		want(t, leases.Release(), ErrInvalid) // one was released before
		must(t, store.Close())
	})
}

func TestReentrant(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := WithScope(patient(t))
		outer, err := store.Lock(ctx, "x", Reentrant())
		must(t, err)
		inner, err := store.Lock(ctx, "x", Reentrant())
		must(t, err)
		equal(t, inner.Token(), outer.Token())
		_, err = store.TryLock(WithScope(bg), "x", Reentrant())
		want(t, err, ErrBusy)
		must(t, inner.Release())
		want(t, inner.Release(), ErrInvalid) // and not the outer hold
		must(t, outer.Err())
		equal(t, outer.State(), StateHeld)
		again, err := store.Lock(bg, "x", Reentrant(), Scope(ctx.Value(scopeKey{}).(uint64)))
		must(t, err)
		must(t, store.Break(ctx, "x", outer.Token()))
		closed(t, "outer", outer.Done())
		closed(t, "again", again.Done())
		want(t, again.Release(), ErrLost)
		want(t, outer.Release(), ErrLost)
		must(t, store.Close())
	})
}

func TestDeadlock(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		one, two := WithScope(patient(t)), WithScope(patient(t))
		a, err := store.Lock(one, "a")
		must(t, err)
		b, err := store.Lock(two, "b")
		must(t, err)
		done := make(chan error, 2)
		cross := func(ctx context.Context, name string, mine *Lease) {
			lease, err := store.Lock(ctx, name)
			if err == nil {
				err = lease.Release()
			}
			_ = mine.Release()
			done <- err
		}
		go cross(one, "b", a)
		go cross(two, "a", b)
		first, second := <-done, <-done
		if (first == nil) == (second == nil) {
			t.Fatal(first, second)
		}
		if first == nil {
			first = second
		}
		want(t, first, ErrDeadlock)
		list, err := store.Deadlocks(patient(t))
		must(t, err)
		equal(t, len(list), 0)
	})
}

func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store, other := openAt(t, url), openAt(t, url)
		ctx := patient(t)
		lease, err := store.Lock(ctx, "x", Watch())
		must(t, err)
		yielded, err := lease.Yield(ctx)
		must(t, err)
		equal(t, yielded, false)
		derived := lease.Context(ctx)
		events := lease.Events()
		must(t, other.Ask(ctx, "x", "please"))
		equal(t, <-events, Event{EventAsked, "please"})
		done := make(chan error)
		go func() {
			got, err := other.Lock(ctx, "x", Label("other"))
			if err == nil {
				err = got.Release()
			}
			done <- err
		}()
		equal(t, (<-events).Kind, EventWanted)
		equal(t, lease.Wanted(), true)
		before := lease.Token()
		must(t, derived.Err())
		yielded, err = lease.Yield(ctx)
		must(t, err)
		equal(t, yielded, true)
		must(t, <-done)
		if lease.Token() <= before {
			t.Fatal("the token did not grow")
		}
		closed(t, "the context of before", derived.Done())
		want(t, Cause(derived), ErrYielded)
		must(t, lease.Release())
		for range events { // it is closed
		}
		want(t, other.Ask(ctx, "x", ""), ErrNotFound)
		plain, err := store.Lock(ctx, "x")
		must(t, err)
		_, err = plain.Yield(ctx)
		want(t, err, ErrInvalid)
		must(t, plain.Release())
	})
}

// A yield that does not come back holds nothing.
func TestYieldCancelled(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store, other := openAt(t, url), openAt(t, url)
		ctx, cancel := context.WithCancel(patient(t))
		lease, err := store.Lock(ctx, "x", Watch())
		must(t, err)
		got := make(chan *Lease)
		go func() {
			lease, _ := other.Lock(bg, "x")
			got <- lease
		}()
		await(t, "wanted", lease.Wanted)
		go func() {
			holder := <-got
			cancel()
			got <- holder
		}()
		_, err = lease.Yield(ctx)
		want(t, err, context.Canceled)
		closed(t, "the end", lease.Done())
		want(t, lease.Release(), ErrInvalid)
		must(t, store.Close())
		must(t, (<-got).Release())
	})
}

// A release beside a waiting yield: what comes back has no owner, and is given back.
func TestReleaseBesideYield(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store, other := openAt(t, url), openAt(t, url)
		before := ids.count()
		for _, cancelled := range []bool{false, true} {
			ctx, cancel := context.WithCancel(patient(t))
			lease, err := store.Lock(ctx, "x", Watch())
			must(t, err)
			got := make(chan *Lease)
			go func() {
				lease, _ := other.Lock(bg, "x")
				got <- lease
			}()
			await(t, "wanted", lease.Wanted)
			ended := make(chan error)
			go func() {
				_, err := lease.Yield(ctx)
				ended <- err
			}()
			theirs := <-got
			want(t, lease.Release(), ErrInvalid)
			next, err := store.Lock(patient(t), "next")
			must(t, err)
			if cancelled {
				cancel()
				want(t, <-ended, context.Canceled)
				must(t, theirs.Release())
			} else {
				must(t, theirs.Release())
				want(t, <-ended, ErrInvalid)
			}
			want(t, lease.Release(), ErrInvalid)
			want(t, lease.Err(), ErrReleased)
			await(t, "the end of what came back", func() bool { return len(tokens(t, other, "x")) == 0 })
			equal(t, tokens(t, other, "next"), []uint64{next.Token()})
			must(t, next.Release())
			cancel()
		}
		await(t, "the end of all callbacks", func() bool { return ids.count() == before })
		must(t, store.Close()) // nothing is held
	})
}

// A release beside a waiting conversion.
func TestReleaseBesideConvert(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store, other := openAt(t, url), openAt(t, url)
		ctx := patient(t)
		reader, err := other.RLock(ctx, "x")
		must(t, err)
		lease, err := store.ULock(ctx, "x")
		must(t, err)
		ended := make(chan error)
		go func() { ended <- lease.Convert(ctx, KindExclusive) }()
		await(t, "the conversion waits", func() bool {
			view, err := other.Inspect(ctx, "x")
			must(t, err)
			return len(view.Entries) == 1 && len(view.Entries[0].Waiters) == 1
		})
		must(t, lease.Release())
		must(t, reader.Release())
		if err := <-ended; !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
		await(t, "the end of what came", func() bool { return len(tokens(t, other, "x")) == 0 })
		must(t, store.Close())
	})
}

// A release in the moment in which a yield or a conversion ends leaves nothing held.
func TestReleaseAtTheEndOfAMove(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store, other := openAt(t, url), openAt(t, url)
		ctx := patient(t)
		for i := 0; i < 50; i++ {
			lease, err := store.Lock(ctx, "x", Watch())
			must(t, err)
			got := make(chan *Lease)
			go func() {
				lease, _ := other.Lock(bg, "x")
				got <- lease
			}()
			await(t, "wanted", lease.Wanted)
			ended := make(chan error)
			go func() {
				_, err := lease.Yield(ctx)
				ended <- err
			}()
			must(t, (<-got).Release())
			released := lease.Release()
			yielded := <-ended
			if (released == nil) != (yielded == nil) {
				t.Fatal(released, yielded)
			}
			await(t, "the end of the lease", func() bool { return len(tokens(t, other, "x")) == 0 })

			reader, err := other.RLock(ctx, "rw")
			must(t, err)
			lease, err = store.ULock(ctx, "rw")
			must(t, err)
			go func() { ended <- lease.Convert(ctx, KindExclusive) }()
			must(t, reader.Release())
			_ = lease.Release()
			<-ended
			await(t, "the end of the lease", func() bool { return len(tokens(t, other, "rw")) == 0 })
		}
		must(t, store.Close())
	})
}

func TestDetached(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		lease, err := store.Lock(ctx, "x", Detached(), TTL(time.Minute))
		if errors.Is(err, ErrUnsupported) {
			t.Skip(err)
		}
		must(t, err)
		text, err := lease.Export()
		must(t, err)
		must(t, store.CloseRelease()) // it lives on
		store = openAt(t, url)
		_, err = store.TryLock(ctx, "x")
		want(t, err, ErrBusy)
		_, err = store.Adopt(ctx, AdoptRequest{Name: "x", Text: "nonsense"})
		want(t, err, ErrInvalid)
		lease, err = store.Adopt(ctx, AdoptRequest{Name: "x", Text: text, TTL: 3 * time.Second, Renew: true})
		must(t, err)
		derived := lease.Context(ctx)                                                  // its loss is learned by its descriptor, at the next renewal at the latest
		if err := store.Break(ctx, "x", lease.Token()); !errors.Is(err, ErrNotFound) { // on a slow machine it has expired
			must(t, err)
		}
		closed(t, "loss", lease.Done())
		closed(t, "the derived context", derived.Done())
		want(t, lease.Release(), ErrLost)
		must(t, store.Close())
	})
}
