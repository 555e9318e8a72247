// SPDX-License-Identifier: MIT

package holdfast

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCells(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		cell := store.Cell("c")
		_, err := cell.Get(ctx)
		want(t, err, ErrNotFound)
		first, err := cell.Set(ctx, []byte("one\x00"), 0)
		must(t, err)
		value, err := cell.Get(ctx)
		must(t, err)
		equal(t, fmt.Sprintf("%q %v %v", value.Bytes, value.Version == first, value.TTL), `"one\x00" true -1ns`)
		_, err = cell.Swap(ctx, first+12345, []byte("no"), 0)
		want(t, err, ErrChanged)
		second, err := cell.Swap(ctx, first, nil, time.Hour)
		must(t, err)
		value, err = cell.Get(ctx)
		must(t, err)
		if value.Bytes == nil || len(value.Bytes) != 0 || value.TTL <= 0 {
			t.Fatal(value)
		}
		woken := make(chan uint64)
		go func() {
			version, err := cell.Wait(ctx, second)
			if err != nil {
				t.Error(err)
			}
			woken <- version
		}()
		local(t, 1)
		var all sync.WaitGroup
		for i := 0; i < 10; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				_, err := store.Cell("sum").Update(ctx, func(old CellValue) (CellChange, error) {
					n, _ := strconv.Atoi(string(old.Bytes))
					return CellChange{Action: CellWrite, Bytes: []byte(strconv.Itoa(n + 1))}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		all.Wait()
		value, err = store.Cell("sum").Get(ctx)
		must(t, err)
		equal(t, string(value.Bytes), "10")
		mine := errors.New("mine")
		_, err = cell.Update(ctx, func(CellValue) (CellChange, error) { return CellChange{}, mine })
		equal(t, err, mine)
		func() {
			defer func() { equal(t, recover(), "ouch") }()
			_, _ = cell.Update(ctx, func(CellValue) (CellChange, error) { panic("ouch") })
		}()
		must(t, cell.Delete(ctx, second))
		equal(t, <-woken, 0)
		want(t, cell.Delete(ctx, second), ErrChanged)

		versions, err := store.Commit(ctx, CellItem{Name: "p", Action: CellWrite, Bytes: []byte("1")},
			CellItem{Name: "q", Version: AnyVersion, Action: CellWrite, Bytes: []byte("2")})
		must(t, err)
		_, err = store.Commit(ctx, CellItem{Name: "p", Version: versions[0]}, CellItem{Name: "q", Action: CellWrite})
		want(t, err, ErrChanged)
		var changed *ChangedError
		if !errors.As(err, &changed) || changed.Index != 1 || changed.Version != versions[1] {
			t.Fatal(err, changed)
		}
		_, err = store.Commit(ctx)
		want(t, err, ErrInvalid)

		lease, err := store.Lock(ctx, "x")
		must(t, err)
		must(t, lease.SetCell(ctx, "bound", []byte("b")))
		value, err = store.LeaseCell(ctx, "bound")
		must(t, err)
		equal(t, string(value.Bytes), "b")
		must(t, lease.Release())
		_, err = store.LeaseCell(ctx, "bound")
		want(t, err, ErrNotFound)
	})
}

func TestCountersAndGuards(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		counter := store.Counter("n")
		sum, err := counter.Add(ctx, 5)
		must(t, err)
		equal(t, sum, 5)
		now, err := counter.Swap(ctx, 4, 9)
		want(t, err, ErrChanged)
		equal(t, now, 5)
		now, err = counter.Swap(ctx, 5, 9)
		must(t, err)
		equal(t, now, 9)
		must(t, counter.Set(ctx, 1<<63-1))
		_, err = counter.Add(ctx, 1)
		want(t, err, ErrOverflow)
		must(t, counter.Delete(ctx))
		now, err = counter.Get(ctx)
		must(t, err)
		equal(t, now, 0)

		guard := store.Guard("g")
		bytes, err := guard.Claim(ctx, 5)
		must(t, err)
		if bytes != nil {
			t.Fatal(bytes)
		}
		must(t, guard.Set(ctx, 5, []byte("five")))
		bytes, err = guard.Claim(ctx, 7)
		must(t, err)
		equal(t, string(bytes), "five")
		want(t, guard.Set(ctx, 5, nil), ErrFenced)
		_, err = guard.Claim(ctx, 6)
		want(t, err, ErrFenced)
	})
}

func TestLimits(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		limit := store.Limit("l", Rule{Bucket, 2, time.Hour, 2})
		state, err := limit.Take(ctx, 1)
		must(t, err)
		equal(t, state.Left, 1)
		if state.At.Year() < 2020 {
			t.Fatal(state.At)
		}
		_, err = limit.TryTake(ctx, 1)
		must(t, err)
		state, err = limit.TryTake(ctx, 1)
		want(t, err, ErrBusy)
		if state.Retry <= 0 {
			t.Fatal(state)
		}
		_, err = limit.Take(ctx, 1)
		want(t, err, ErrTimeout) // said at once
		stopped, cancel := context.WithCancel(bg)
		done := make(chan error)
		go func() {
			_, err := limit.Take(stopped, 1)
			done <- err
		}()
		local(t, 1)
		cancel()
		want(t, <-done, context.Canceled)
		state, err = limit.Get(ctx)
		must(t, err)
		equal(t, state.Rule, Rule{Bucket, 2, time.Hour, 2})
		state, err = store.Limit("l", Rule{Bucket, 5, time.Hour, 5}).Set(ctx)
		must(t, err)
		equal(t, state.IsSet, true)
	})
}

func TestLatchesAndBarriers(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		latch := store.Latch("l")
		want(t, latch.Wait(ctx), ErrNotFound)
		must(t, latch.Create(ctx, 2))
		lease, err := latch.Join(ctx, "one")
		must(t, err)
		left, err := latch.CountDown(ctx, "one")
		must(t, err)
		equal(t, left, 1)
		must(t, lease.Release())
		done := make(chan error, 10)
		go func() { done <- latch.Wait(ctx) }()
		_, err = latch.CountDown(ctx, "two")
		must(t, err)
		must(t, <-done)
		count, left, err := latch.Get(ctx)
		must(t, err)
		equal(t, []uint32{count, left}, "[2 0]")
		must(t, latch.Delete(ctx))

		barrier := store.Barrier("b", 3)
		for i := 0; i < 3; i++ {
			go func() { done <- barrier.Wait(ctx, "") }()
		}
		for i := 0; i < 3; i++ {
			must(t, <-done)
		}
		stopped, cancel := context.WithCancel(ctx)
		go func() { done <- barrier.Wait(stopped, "me") }()
		local(t, 1)
		cancel()
		want(t, <-done, context.Canceled)

		var inside int32
		for i := 0; i < 2; i++ {
			go func(who string) {
				party, err := store.Barrier("d", 2).Enter(ctx, who)
				if err == nil {
					atomic.AddInt32(&inside, 1)
					err = party.Leave(ctx)
				}
				if err == nil && atomic.LoadInt32(&inside) != 2 {
					err = errors.New("left alone")
				}
				done <- err
			}(fmt.Sprint("p", i))
		}
		must(t, <-done)
		must(t, <-done)
		must(t, store.Close())
	})
}

func TestElectionsAndGroups(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		election := store.Election("e")
		none, err := election.Wait(ctx, nil)
		must(t, err)
		equal(t, none.Leads, false)
		leader, err := election.Campaign(ctx, []byte("here"), Label("boss"))
		must(t, err)
		seen, err := election.Wait(ctx, none)
		must(t, err)
		equal(t, string(seen.Value), "here")
		equal(t, seen.Token, leader.Token())
		must(t, leader.Publish(ctx, []byte("there")))
		seen, err = election.Wait(ctx, seen)
		must(t, err)
		equal(t, string(seen.Value), "there")
		must(t, leader.Resign())
		want(t, leader.Release(), ErrInvalid)
		seen, err = election.Wait(ctx, seen)
		must(t, err)
		equal(t, seen.Leads, false)

		group := store.Group("g")
		member, err := group.Join(ctx, "tcp:1")
		must(t, err)
		members, err := group.Wait(ctx, nil)
		must(t, err)
		equal(t, members.List[0].Value, "tcp:1")
		second, err := group.Join(ctx, "tcp:2")
		must(t, err)
		members, err = group.Wait(ctx, members)
		must(t, err)
		equal(t, len(members.List), 2)
		must(t, member.Leave())
		must(t, second.Leave())
		members, err = group.Wait(ctx, members)
		must(t, err)
		if len(members.List) == 2 {
			t.Fatal(members.List)
		}
		must(t, store.Close())
	})
}

func TestOnce(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		once := store.Once("o")
		_, err := once.Get(ctx)
		want(t, err, ErrNotFound)
		failed := errors.New("failed")
		equal(t, once.Do(ctx, func(context.Context) error { return failed }), failed)
		runs := 0
		for i := 0; i < 2; i++ {
			must(t, once.Do(ctx, func(ctx context.Context) error { runs++; return ctx.Err() }, Label("me")))
		}
		equal(t, runs, 1)
		lease, mark, err := once.Begin(ctx, 0)
		want(t, err, ErrDone)
		if lease != nil || mark == nil || mark.Label != "me" {
			t.Fatal(lease, mark)
		}
		must(t, once.Delete(ctx))
		lease, _, err = once.Begin(ctx, 0)
		must(t, err)
		must(t, lease.Release())
		lease, err = store.Lock(ctx, "o")
		must(t, err)
		_, err = once.Claim(ctx, lease, 0)
		must(t, err)
		must(t, once.Finish(ctx, lease))
		must(t, lease.Release())
		must(t, store.Close())
	})
}

func TestStoreCalls(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url, OpenLabel("tester"))
		ctx := patient(t)
		info, err := store.Info()
		must(t, err)
		if info.Engine == "" || !info.Caps.Has(CapCells|CapToken) || info.Tokens == TokenNone {
			t.Fatal(info)
		}
		findings, err := store.Check(ctx)
		must(t, err)
		if len(findings) == 0 {
			t.Fatal("no findings")
		}
		lease, err := store.Lock(ctx, "x", MaxHold(time.Hour), MinValid(time.Millisecond), LockDelay(time.Second))
		must(t, err)
		session, err := lease.Session("")
		if err == nil && session == "" {
			t.Fatal("no session")
		}
		view, err := store.InspectPattern(ctx, "")
		must(t, err)
		equal(t, len(view.Entries), 1)
		if info.Caps.Has(CapWatch) {
			done := make(chan error)
			go func() {
				_, err := store.Wait(ctx, 0)
				done <- err
			}()
			local(t, 1)
			for ended := false; !ended; { // 0 is from the moment on that the wait has begun
				select {
				case err := <-done:
					must(t, err)
					ended = true
				default:
					extra, err := store.Lock(ctx, "y")
					must(t, err)
					must(t, extra.Release())
				}
			}
		}
		must(t, lease.Release())
		must(t, store.IdleRelease())
	})
	if len(Engines()) < 2 || Version() == "" || VersionNumber() < 100 {
		t.Fatal(Engines(), Version(), VersionNumber())
	}
}

func TestLockers(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		mutex := store.Mutex("m")
		n := 0
		var all sync.WaitGroup
		for i := 0; i < 8; i++ {
			all.Add(1)
			go func() {
				defer all.Done()
				mutex.Lock()
				defer mutex.Unlock()
				n++
			}()
		}
		all.Wait()
		equal(t, n, 8)
		equal(t, mutex.TryLock(), true)
		equal(t, mutex.TryLock(), false)
		must(t, store.Break(bg, "m", mutex.Lease().Token()))
		closed(t, "loss", mutex.Lease().Done())
		panics(t, mutex.Unlock)
		panics(t, mutex.Unlock)
		rw := store.RWMutex("rw")
		rw.RLock()
		rw.RLocker().Lock()
		equal(t, rw.TryRLock(), true)
		equal(t, rw.TryLock(), false)
		rw.RUnlock()
		rw.RUnlock()
		rw.RLocker().Unlock()
		panics(t, rw.RUnlock)
		rw.Lock()
		equal(t, rw.TryRLock(), false)
		rw.Unlock()
		must(t, store.Close())
	})
}

// tokens of the holders of a name.
func tokens(t *testing.T, store *Store, name string) []uint64 {
	t.Helper()
	view, err := store.Inspect(bg, name)
	must(t, err)
	found := []uint64{}
	for _, entry := range view.Entries {
		for _, holder := range entry.Holders {
			found = append(found, holder.Token)
		}
	}
	return found
}

// The lease of A is lost, and B locks through the same object: no Unlock gives the lease of B away while that of A is left.
func TestTwoHoldersThroughOneObject(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		mutex, rw := store.Mutex("m"), store.RWMutex("rw")
		for _, of := range []struct {
			name         string
			lock, unlock func()
		}{
			{"m", mutex.Lock, mutex.Unlock},
			{"rw", rw.Lock, rw.Unlock},
			{"rw", rw.RLock, rw.RUnlock},
			{"rw", rw.RLocker().Lock, rw.RLocker().Unlock},
		} {
			of.lock() // A
			lost := tokens(t, store, of.name)
			equal(t, len(lost), 1)
			must(t, store.Break(bg, of.name, lost[0]))
			of.lock() // B
			now := tokens(t, store, of.name)
			equal(t, len(now), 1)
			equal(t, errors.Is(panicOf(of.unlock), ErrLost), true) // A
			equal(t, tokens(t, store, of.name), now)
			of.unlock() // B
			equal(t, len(tokens(t, store, of.name)), 0)
			panics(t, of.unlock)
		}
		mutex.Lock()
		must(t, store.Break(bg, "m", mutex.Lease().Token()))
		mutex.Lock()
		equal(t, mutex.Lease().Token(), tokens(t, store, "m")[0])
		panics(t, mutex.Unlock)
		mutex.Unlock()
		// Of two readers the second one is lost.
		rw.RLock()
		first := tokens(t, store, "rw")[0]
		rw.RLock()
		for _, token := range tokens(t, store, "rw") {
			if token != first {
				must(t, store.Break(bg, "rw", token))
			}
		}
		await(t, "the loss", func() bool { return rw.readers.last().State() == StateLost })
		equal(t, errors.Is(panicOf(rw.RUnlock), ErrLost), true)
		equal(t, tokens(t, store, "rw"), []uint64{first})
		rw.RUnlock()
		must(t, store.Close())
	})
}

// panicOf returns the error that fn panics with.
func panicOf(fn func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	fn()
	return nil
}

func panics(t *testing.T, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal("it did not panic")
		}
	}()
	fn()
}
