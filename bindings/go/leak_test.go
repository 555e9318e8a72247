// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestForgotten(t *testing.T) {
	before := OnForgotten
	defer func() { OnForgotten = before }()
	each(t, func(t *testing.T, url string) {
		told := make(chan Forgotten, 10)
		OnForgotten = func(f Forgotten) { told <- f }
		store := openAt(t, url)
		token := func() uint64 {
			lease, err := store.Lock(patient(t), "x")
			must(t, err)
			_ = lease.Events()
			return lease.Token()
		}()
		var got Forgotten
		await(t, "the report", func() bool {
			runtime.GC()
			select {
			case got = <-told:
				return true
			default:
				return false
			}
		})
		equal(t, got.Name, "x")
		equal(t, got.Token, token)
		if got.Location == "" {
			t.Fatal("no location")
		}
		_, err := store.TryLock(bg, "x")
		want(t, err, ErrBusy) // it is still held
		want(t, store.Close(), ErrInUse)
		must(t, store.CloseRelease())
		store = openAt(t, url)
		lease, err := store.TryLock(bg, "x")
		must(t, err)
		must(t, lease.Release())
		equal(t, len(told), 0)
	})
}

func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

func field(t testing.TB, name string) int {
	text, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, name+":") {
			n, err := strconv.Atoi(strings.Fields(line)[1])
			must(t, err)
			return n
		}
	}
	t.Fatal("no", name)
	return 0
}

func TestNothingLeaks(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		round := func(n int) {
			store := openAt(t, url)
			for i := 0; i < n; i++ {
				ctx, cancel := context.WithCancel(bg)
				lease, err := store.Lock(ctx, "x")
				must(t, err)
				_ = lease.Context(ctx)
				_, err = store.TryLock(ctx, "x")
				want(t, err, ErrBusy)
				_, err = store.Lock(ctx, "x", Wait(time.Millisecond))
				want(t, err, ErrTimeout)
				must(t, lease.Release())
				cancel()
			}
			must(t, store.Close())
		}
		round(50)
		await(t, "goroutines end", func() bool { return runtime.NumGoroutine() < 20 })
		base, fds, objects := runtime.NumGoroutine(), descriptors(t), ids.count()
		// The race detector and the collector take memory when they like. What leaks grows every time.
		grown := 0
		for try := 0; try < 5; try++ {
			rss := field(t, "VmRSS")
			for i := 0; i < 5; i++ {
				round(100)
			}
			await(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= base })
			equal(t, ids.count(), objects)
			await(t, "descriptors are closed", func() bool { return descriptors(t) <= fds })
			runtime.GC()
			if grown = field(t, "VmRSS") - rss; grown <= 32<<10 {
				return
			}
		}
		t.Fatalf("%d KiB more than before", grown)
	})
}

func TestThousandWaiters(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		lease, err := store.Lock(ctx, "x")
		must(t, err)
		_, err = store.Lock(ctx, "x", Wait(time.Millisecond)) // the poller runs
		want(t, err, ErrTimeout)
		threads := field(t, "Threads")
		var order int32
		var all sync.WaitGroup
		for i := 0; i < 1000; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				got, err := store.Lock(ctx, "x")
				if err != nil {
					t.Error(err)
					return
				}
				atomic.AddInt32(&order, 1)
				if err := got.Release(); err != nil {
					t.Error(err)
				}
			}()
		}
		local(t, 1000)
		if more := field(t, "Threads") - threads; more > 16 {
			t.Fatalf("%d threads more", more)
		}
		equal(t, order, 0)
		must(t, lease.Release())
		all.Wait()
		equal(t, order, 1000)
		must(t, store.Close())
	})
}
