// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is longer than anything takes on a busy machine: it ends a test that hangs.
const patience = 30 * time.Second

var bg = context.Background()

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(bg, patience)
	t.Cleanup(cancel)
	return ctx
}

var testNumber int64

// each runs a test on the embedded store, and on Redis if HOLDFAST_TEST_URL says where it is.
func each(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("embedded", func(t *testing.T) { test(t, "file:"+t.TempDir()+"/store") })
	t.Run("redis", func(t *testing.T) {
		url := os.Getenv("HOLDFAST_TEST_URL")
		if url == "" {
			t.Skip("HOLDFAST_TEST_URL is not set")
		}
		id := fmt.Sprintf("go%d-%d", os.Getpid(), atomic.AddInt64(&testNumber, 1))
		test(t, strings.Replace(url, "{id}", id, 1))
	})
}

func openAt(t testing.TB, url string, options ...OpenOption) *Store {
	t.Helper()
	store, err := Open(bg, url, append([]OpenOption{OpenWait(patience)}, options...)...)
	must(t, err)
	t.Cleanup(func() { _ = store.CloseRelease() })
	return store
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, err error, status error) {
	t.Helper()
	if !errors.Is(err, status) {
		t.Fatalf("got %v, want %v", err, status)
	}
}

func equal(t testing.TB, got, wanted interface{}) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Fatalf("got %v, want %v", got, wanted)
	}
}

// await waits until something is true.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func closed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
	}
}

// local waits until n calls of this process wait in the library.
func local(t testing.TB, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d calls", n), func() bool { return pendingCalls() >= n })
}

func pendingCalls() int {
	ids.mu.RLock()
	defer ids.mu.RUnlock()
	n := 0
	for _, object := range ids.objects {
		if _, ok := object.(*call); ok {
			n++
		}
	}
	return n
}

func TestLock(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x", Label("me"), TTL(10*time.Second))
		must(t, err)
		first := lease.Token()
		if first == 0 || lease.State() != StateHeld || lease.Remaining() <= 0 {
			t.Fatal("not held", first, lease.State(), lease.Remaining())
		}
		_, err = store.TryLock(bg, "x")
		want(t, err, ErrBusy)
		_, err = store.RLock(bg, "x", Wait(0))
		want(t, err, ErrMismatch)
		view, err := store.Inspect(bg, "x")
		must(t, err)
		equal(t, view.Entries[0].Holders[0].Label, "me")
		equal(t, view.Entries[0].Holders[0].Token, first)
		must(t, lease.Renew(bg, 0))
		must(t, lease.Release())
		want(t, lease.Release(), ErrInvalid)
		want(t, lease.Err(), ErrReleased)
		closed(t, "end", lease.Done())
		lease, err = store.TryLock(bg, "x")
		must(t, err)
		if lease.Token() <= first {
			t.Fatal("the token did not grow")
		}
		want(t, store.Close(), ErrInUse)
		must(t, lease.Release())
		must(t, store.Close())
		_, err = store.Lock(bg, "x")
		want(t, err, ErrInvalid)
		want(t, store.Close(), ErrInvalid)
	})
}

func TestContended(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		var inside, turns int32
		var all sync.WaitGroup
		for i := 0; i < 20; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				for j := 0; j < 20; j++ {
					lease, err := store.Lock(patient(t), "x")
					if err != nil {
						t.Error(err)
						return
					}
					if atomic.AddInt32(&inside, 1) != 1 {
						t.Error("two inside")
					}
					atomic.AddInt32(&turns, 1)
					runtime.Gosched()
					atomic.AddInt32(&inside, -1)
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		all.Wait()
		equal(t, turns, 400)
		must(t, store.Close())
	})
}

func TestTimeout(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x")
		must(t, err)
		_, err = store.Lock(bg, "x", Wait(20*time.Millisecond))
		want(t, err, ErrTimeout)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Fatal("no context had a deadline")
		}
		ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
		defer cancel()
		_, err = store.Lock(ctx, "x")
		want(t, err, ErrTimeout)
		want(t, err, context.DeadlineExceeded)
		_, err = store.Lock(bg, "x", Wait(time.Nanosecond)) // not a try: it is rounded up
		want(t, err, ErrTimeout)
		must(t, lease.Release())
		<-ctx.Done() // the library may have been a little earlier
		_, err = store.Lock(ctx, "x")
		want(t, err, context.DeadlineExceeded)
		must(t, store.Close())
	})
}

func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x")
		must(t, err)
		ctx, cancel := context.WithCancel(bg)
		done := make(chan error)
		go func() {
			_, err := store.Lock(ctx, "x")
			done <- err
		}()
		local(t, 1)
		cancel()
		err = <-done
		want(t, err, ErrCancelled)
		want(t, err, context.Canceled)
		must(t, lease.Release())
		must(t, store.Close()) // nothing waits, nothing is held
	})
}

// A grant that meets the end of the context is given back, or handed over, but never both or neither.
func TestCancelAtTheGrant(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		granted := 0
		for i := 0; i < 150; i++ {
			lease, err := store.Lock(patient(t), "x")
			must(t, err)
			ctx, cancel := context.WithCancel(bg)
			done := make(chan *Lease)
			go func() {
				lease, err := store.Lock(ctx, "x")
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				done <- lease
			}()
			local(t, 1)
			go cancel()
			if i%2 == 0 {
				for j := 0; j < i; j++ {
					runtime.Gosched()
				}
			}
			must(t, lease.Release())
			if got := <-done; got != nil {
				granted++
				must(t, got.Release())
			}
			cancel()
		}
		t.Logf("%d of 150 were granted", granted)
		must(t, store.Close()) // IN_USE if one is still held
		equal(t, pendingCalls(), 0)
	})
}

// The same at a place that decides it: the context ends between the grant and the return.
func TestGrantToAnEndedContext(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x")
		must(t, err)
		ctx := &endingContext{Context: bg, done: make(chan struct{})}
		done := make(chan error)
		go func() {
			_, err := store.Lock(ctx, "x", TTL(30*time.Second))
			done <- err
		}()
		local(t, 1)
		atomic.StoreInt32(&ctx.ended, 1) // its channel stays open: the grant comes first
		must(t, lease.Release())
		want(t, <-done, context.Canceled)
		must(t, store.Close())
	})
}

type endingContext struct {
	context.Context
	done  chan struct{}
	ended int32
}

func (c *endingContext) Done() <-chan struct{} { return c.done }
func (c *endingContext) Err() error {
	if atomic.LoadInt32(&c.ended) != 0 {
		return context.Canceled
	}
	return nil
}

func TestLoss(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		lease, err := store.Lock(ctx, "x")
		must(t, err)
		var waited *Lease // one through the poller, one through a slot
		var failed error
		got := make(chan struct{})
		go func() {
			defer close(got)
			waited, failed = store.Lock(ctx, "x")
		}()
		local(t, 1)
		for round := 0; round < 2; round++ {
			derived := lease.Context(ctx)
			events := lease.Events()
			must(t, derived.Err())
			must(t, store.Break(ctx, "x", lease.Token()))
			closed(t, "loss", lease.Done())
			want(t, lease.Err(), ErrLost)
			closed(t, "the derived context", derived.Done())
			want(t, Cause(derived), ErrLost)
			last := EventKind(0)
			for event := range events {
				last = event.Kind
			}
			equal(t, last, EventLost)
			equal(t, lease.State(), StateLost)
			equal(t, lease.Remaining(), time.Duration(0))
			_, err := lease.Fence()
			want(t, err, ErrLost)
			want(t, lease.Release(), ErrLost)
			if round == 0 {
				closed(t, "the waiter", got)
				must(t, failed)
				lease = waited
			}
		}
		want(t, store.Break(ctx, "x", 12345678), ErrNotFound)
		must(t, store.Close())
	})
}

func TestContext(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x")
		must(t, err)
		parent, cancel := context.WithCancel(context.WithValue(bg, scopeKey{}, uint64(7)))
		derived := lease.Context(parent)
		equal(t, derived.Value(scopeKey{}), 7)
		child, stop := context.WithCancel(derived)
		defer stop()
		cancel()
		closed(t, "child", child.Done())
		equal(t, Cause(child), context.Canceled)
		derived = lease.Context(bg)
		must(t, lease.Release())
		equal(t, derived.Err(), context.Canceled) // at once
		equal(t, Cause(derived), ErrReleased)
		closed(t, "derived", derived.Done())
		closed(t, "of a lease that has ended", lease.Context(bg).Done())

		// Before the validity ends. A machine that sleeps for seconds may miss it: try again.
		for try := 1; ; try++ {
			lease, err := store.Lock(patient(t), "y", TTL(4*time.Second), NoRenew())
			must(t, err)
			derived := lease.ContextMargin(bg, 3500*time.Millisecond)
			closed(t, "derived", derived.Done())
			early := lease.State() != StateLost
			want(t, Cause(derived), ErrLost)
			_ = lease.Release()
			if early {
				break
			}
			if try == 5 {
				t.Fatal("the context was never cancelled before the end")
			}
		}
		must(t, store.Close())
	})
}

// A healthy lease is renewed: its context outlives several ttls.
func TestContextOfRenewedLease(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		for try := 1; ; try++ {
			lease, err := store.Lock(patient(t), "x", TTL(2*time.Second))
			must(t, err)
			derived := lease.Context(bg)
			select {
			case <-derived.Done():
				if try == 5 {
					t.Fatal("it ended:", Cause(derived))
				}
			case <-time.After(3 * time.Second):
				must(t, lease.Release())
				return
			}
			_ = lease.Release()
		}
	})
}

func TestCloseReleaseEndsWaiters(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		lease, err := store.Lock(patient(t), "x")
		must(t, err)
		done := make(chan error)
		go func() {
			_, err := store.Lock(bg, "x")
			done <- err
		}()
		local(t, 1)
		want(t, store.Close(), ErrInUse)
		must(t, store.CloseRelease())
		want(t, <-done, ErrCancelled)
		closed(t, "loss", lease.Done())
		want(t, lease.Err(), ErrLost)
		want(t, lease.Release(), ErrLost)
		_, err = store.Info()
		want(t, err, ErrInvalid)
	})
}

// A lease that ends twice, with its store and by a release, does not end what has its key by then.
func TestKeysAreNotMixedUp(t *testing.T) {
	store := openAt(t, "file:"+t.TempDir()+"/store")
	lease, err := store.Lock(bg, "x")
	must(t, err)
	must(t, store.CloseRelease())
	other := &call{}
	key := ids.add(other)
	defer ids.remove(key, other)
	equal(t, key, lease.h.key) // the last one that was freed
	want(t, lease.Release(), ErrLost)
	if ids.get(key) != other {
		t.Fatal("its callback would not be found")
	}
}

func TestErrors(t *testing.T) {
	_, err := Open(bg, "nonsense://x")
	want(t, err, ErrConfig)
	_, err = Open(bg, "file:"+t.TempDir()+"/none", OpenExisting())
	want(t, err, ErrNotFound)
	_, err = Open(bg, "a\x00b")
	want(t, err, ErrInvalid)
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		_, err := store.Lock(bg, "")
		want(t, err, ErrInvalid)
		_, err = store.Lock(bg, strings.Repeat("x", NameMax+1))
		want(t, err, ErrInvalid)
		_, err = store.Lock(bg, "x", Label("a\x00b"))
		want(t, err, ErrInvalid)
		_, err = store.Lock(bg, "x", Reentrant())
		want(t, err, ErrInvalid)
		_, err = store.Lock(bg, "x", Wait(time.Until(time.Now().Add(-time.Second)))) // not for ever
		want(t, err, ErrInvalid)
		_, err = store.All(bg, []Request{{Name: "x"}}, Wait(-time.Second))
		want(t, err, ErrInvalid)
		_, err = store.Semaphore(bg, "s", 0, 1)
		want(t, err, ErrInvalid)
		_, err = store.All(bg, nil)
		want(t, err, ErrInvalid)
		name := "bytes \xff\x00 of any kind"
		lease, err := store.Lock(bg, name, Label("bad \xff label"))
		must(t, err)
		info, err := lease.Info()
		must(t, err)
		equal(t, info.Name, name)
		view, err := store.Inspect(bg, name)
		must(t, err)
		if label := view.Entries[0].Holders[0].Label; !strings.Contains(label, "label") {
			t.Fatal(label)
		}
		must(t, lease.Release())
		var full *Error
		_, err = store.Cell("none").Get(bg)
		if !errors.As(err, &full) || full.Status != ErrNotFound || full.Text == "" {
			t.Fatal(err)
		}
		equal(t, ErrBusy.Name(), "BUSY")
		equal(t, StatusOf(ErrBusy), ErrBusy)
		equal(t, StatusOf(nil), OK)
	})
}

func TestSecrets(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	listener.Close()
	_, err = Open(bg, "redis://user:sesame@"+address, OpenOnce(), OpenWait(time.Second))
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "sesame") {
		t.Fatal(err)
	}
	_, err = Open(bg, "redis://user:sesame@"+address+"?nonsense=1")
	want(t, err, ErrConfig)
	if strings.Contains(err.Error(), "sesame") {
		t.Fatal(err)
	}
	store := openAt(t, "redis://user:sesame@"+address, OpenNoWait())
	info, err := store.Info()
	must(t, err)
	if strings.Contains(info.Location, "sesame") {
		t.Fatal(info.Location)
	}
}
