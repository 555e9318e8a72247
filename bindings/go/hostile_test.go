// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A thousand waiters for a thousand names, whose contexts can end: what they cost is memory, not threads.
func TestThousandNames(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		holder, store := openAt(t, url), openAt(t, url)
		const count = 1000
		for i := 0; i < count; i++ {
			lease, err := holder.Lock(patient(t), "x"+strconv.Itoa(i))
			must(t, err)
			defer runtime.KeepAlive(lease)
		}
		_, err := store.Lock(bg, "x0", Wait(time.Millisecond)) // the poller runs
		want(t, err, ErrTimeout)
		threads := field(t, "Threads")
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		var all sync.WaitGroup
		for i := 0; i < count; i++ {
			all.Add(1)
			go func(name string) {
				defer all.Done()
				if _, err := store.Lock(ctx, name); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v", name, err)
				}
			}("x" + strconv.Itoa(i))
		}
		await(t, "they wait", func() bool { return ids.count() >= 3*count })
		cancel()
		all.Wait()
		// Threads of Go do not end: this is the most that there were. Go starts some for calls of C that a busy machine is slow to run; a
		// thread for each waiter would be a thousand.
		if more := field(t, "Threads") - threads; more > count/10 {
			t.Fatalf("%d threads more", more)
		}
		// A cancelled call is left after a tenth of a second; its answer may come later on a busy machine, and until then the store is in use.
		await(t, "the store closes", func() bool {
			err := store.Close()
			if err != nil {
				want(t, err, ErrInUse)
			}
			return err == nil
		})
	})
}

func TestAwkwardNames(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		for _, name := range []string{"\x00", "a\x00b", "a\x00c", "\xff\xfe", "\xc3", "%s{}*?[", strings.Repeat("\xff", NameMax)} {
			lease, err := store.Lock(bg, name)
			must(t, err)
			_, err = store.TryLock(bg, name)
			want(t, err, ErrBusy)
			view, err := store.Inspect(bg, name)
			must(t, err)
			equal(t, len(view.Entries), 1)
			equal(t, view.Entries[0].Name, name)
			info, err := lease.Info()
			must(t, err)
			equal(t, info.Name, name)
			_, err = store.Cell(name).Set(bg, []byte(name), 0)
			must(t, err)
			value, err := store.Cell(name).Get(bg)
			must(t, err)
			equal(t, string(value.Bytes), name)
			defer lease.Release() // all of them are different names
		}
		for _, name := range []string{"", strings.Repeat("x", NameMax+1)} {
			_, err := store.Lock(bg, name)
			want(t, err, ErrInvalid)
			if !strings.Contains(err.Error(), "name") {
				t.Fatal(err)
			}
			_, err = store.Counter(name).Add(bg, 1)
			want(t, err, ErrInvalid)
		}
		_, err := store.Lock(bg, "x", Label("a\x00b"))
		want(t, err, ErrInvalid)
	})
}

func TestAwkwardDurations(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		const longest, shortest = time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
		for _, wait := range []time.Duration{longest, longest - 1, Forever, 0, 1} {
			lease, err := store.Lock(bg, "x", Wait(wait))
			must(t, err)
			must(t, lease.Release())
		}
		for _, option := range []Option{Wait(-2), Wait(shortest), TTL(-1 * time.Second), TTL(shortest), MaxHold(shortest), MinValid(shortest), MinHold(shortest), LockDelay(shortest)} {
			_, err := store.Lock(bg, "x", option)
			want(t, err, ErrInvalid)
		}
		held, err := store.Lock(bg, "x")
		must(t, err)
		ctx, cancel := context.WithTimeout(bg, longest)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			lease, err := store.Lock(ctx, "x", Wait(longest))
			if err == nil {
				err = lease.Release()
			}
			done <- err
		}()
		local(t, 1)
		must(t, held.Release())
		must(t, <-done)
		past, cancel := context.WithDeadline(bg, time.Unix(1, 0))
		defer cancel()
		_, err = store.Lock(past, "x")
		want(t, err, context.DeadlineExceeded)
	})
}

// Nothing is done for a context that has ended.
func TestEndedContext(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		calls := map[string]func() error{
			"Lock":     func() error { _, err := store.Lock(ctx, "x"); return err },
			"TryLock":  func() error { _, err := store.TryLock(ctx, "x"); return err },
			"All":      func() error { _, err := store.All(ctx, []Request{{Name: "x"}}); return err },
			"Any":      func() error { _, _, err := store.Any(ctx, []Request{{Name: "x"}}); return err },
			"Add":      func() error { _, err := store.Counter("n").Add(ctx, 1); return err },
			"Set":      func() error { _, err := store.Cell("c").Set(ctx, nil, 0); return err },
			"Campaign": func() error { _, err := store.Election("e").Campaign(ctx, nil); return err },
			"Open":     func() error { _, err := Open(ctx, url); return err },
			"Do": func() error {
				return store.Once("o").Do(ctx, func(context.Context) error { t.Error("done"); return nil })
			},
		}
		objects := ids.count()
		for name, call := range calls {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		equal(t, ids.count(), objects)
		view, err := store.InspectPattern(bg, "")
		must(t, err)
		equal(t, len(view.Entries), 0)
		n, err := store.Counter("n").Get(bg)
		must(t, err)
		equal(t, n, 0)
		must(t, store.Close())
	})
}

// A function that ends its goroutine (t.FailNow in somebody's test) must not end the poller with it.
func TestUpdateThatEndsItsGoroutine(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		_, err := store.Cell("c").Update(patient(t), func(CellValue) (CellChange, error) {
			runtime.Goexit()
			return CellChange{}, nil
		})
		want(t, err, ErrCancelled)
		func() {
			defer func() { equal(t, recover(), "no") }()
			_, _ = store.Cell("c").Update(patient(t), func(CellValue) (CellChange, error) { panic("no") })
			t.Error("it did not panic")
		}()
		version, err := store.Cell("c").Update(patient(t), func(CellValue) (CellChange, error) {
			return CellChange{Action: CellWrite}, nil
		})
		must(t, err) // the poller still runs
		if version == 0 {
			t.Fatal("no cell")
		}
	})
}

// Everything at once, with the garbage collector always at work, and then the store is closed.
func TestCloseUnderLoad(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	each(t, func(t *testing.T, url string) {
		for round := 0; round < 5; round++ {
			store := openAt(t, url)
			objects := ids.count()
			var done int64
			var all sync.WaitGroup
			work := []func(ctx context.Context, i int) error{
				func(ctx context.Context, i int) error {
					lease, err := store.Lock(ctx, "x"+strconv.Itoa(i%2))
					if err != nil {
						return err
					}
					_ = lease.Context(ctx)
					_ = lease.Events()
					return lease.Release()
				},
				func(ctx context.Context, i int) error { _, err := store.Counter("n").Add(ctx, 1); return err },
				func(ctx context.Context, i int) error {
					_, err := store.Cell("c").Update(ctx, func(CellValue) (CellChange, error) {
						return CellChange{Action: CellWrite, Bytes: []byte("b")}, nil
					})
					return err
				},
				func(ctx context.Context, i int) error { _, err := store.InspectPattern(ctx, ""); return err },
				func(ctx context.Context, i int) error {
					short, cancel := context.WithTimeout(ctx, time.Duration(1+i%3)*time.Millisecond)
					defer cancel()
					leases, err := store.All(short, []Request{{Name: "x0"}, {Name: "x1"}})
					if err == nil {
						return leases.Release()
					}
					if errors.Is(err, ErrTimeout) {
						return nil
					}
					return err
				},
			}
			for i := 0; i < 20; i++ {
				all.Add(1)
				go func(i int) {
					defer all.Done()
					for {
						err := work[i%len(work)](bg, i)
						switch StatusOf(err) {
						case OK:
							atomic.AddInt64(&done, 1)
						case ErrCancelled, ErrInvalid, ErrLost: // closed, while it waited, before it, or while it was held
							return
						default:
							t.Error(err)
							return
						}
					}
				}(i)
			}
			await(t, "some work", func() bool { return atomic.LoadInt64(&done) > 100 })
			must(t, store.CloseRelease())
			all.Wait()
			await(t, "nothing is left", func() bool { return ids.count() <= objects })
			_, err := store.Lock(bg, "x")
			want(t, err, ErrInvalid)
			want(t, store.Close(), ErrInvalid)
		}
	})
}
