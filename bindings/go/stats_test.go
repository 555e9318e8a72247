// SPDX-License-Identifier: MIT

package holdfast

import (
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		store := openAt(t, url)
		ctx := patient(t)
		stats := func() Stats {
			t.Helper()
			now, err := store.Stats()
			must(t, err)
			return now
		}
		before := stats()
		equal(t, before.Granted, 0)
		equal(t, before.Waits.Quantile(0.5), time.Duration(0))
		lease, err := store.Lock(ctx, "x")
		must(t, err)
		_, err = store.TryLock(ctx, "x")
		want(t, err, ErrBusy)
		now := stats()
		equal(t, now.Granted, 1)
		equal(t, now.Busy, 1)
		equal(t, now.Held, 1)
		equal(t, now.Waits.Count, 1)
		if now.Waits.Quantile(0.5) < time.Millisecond {
			t.Fatal("a bound is at least a millisecond")
		}
		must(t, store.Break(ctx, "x", lease.Token()))
		closed(t, "loss", lease.Done())
		want(t, lease.Release(), ErrLost)
		now = stats()
		equal(t, now.Held, 0)
		equal(t, now.Holds.Count, 1)
		equal(t, now.Losses["expired"], 0)
		var losses, holds uint64
		for _, n := range now.Losses {
			losses += n
		}
		for _, n := range now.Holds.Buckets {
			holds += n
		}
		equal(t, losses, 1)
		equal(t, holds, 1)
		equal(t, now.Holds.Bound(0), time.Millisecond)
		equal(t, now.Holds.Bound(3), 8*time.Millisecond)
		equal(t, now.Holds.Bound(len(now.Holds.Buckets)), Unlimited)
		must(t, store.Close())
		_, err = store.Stats()
		want(t, err, ErrInvalid)
	})
}
