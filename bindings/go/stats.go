// SPDX-License-Identifier: MIT

package holdfast

// #include <holdfast/observe.h>
import "C"

import "time"

// Histogram counts durations by their length. Buckets[0] counts those below a millisecond, Buckets[i] those of at least
// 2^(i-1) and less than 2^i milliseconds, and the last one all longer ones. The buckets are not cumulative.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Buckets [C.HF_HISTOGRAM_BUCKETS]uint64
}

// Bound returns the upper bound of a bucket; [Unlimited] for the last one.
func (h *Histogram) Bound(bucket int) time.Duration {
	if bucket < 0 {
		return 0
	}
	return goDuration(C.hf_histogram_bound_ms(C.size_t(bucket)))
}

// Quantile returns the bound below which this share of the durations lies (0.5: the median); 0 if there are none.
func (h *Histogram) Quantile(share float64) time.Duration {
	raw := C.hf_histogram{count: C.uint64_t(h.Count)}
	for i, n := range h.Buckets {
		raw.buckets[i] = C.uint64_t(n)
	}
	return goDuration(C.hf_histogram_quantile_ms(&raw, C.double(share)))
}

func histogramOf(raw *C.hf_histogram) Histogram {
	h := Histogram{Count: uint64(raw.count), Sum: time.Duration(raw.sum_ms) * time.Millisecond}
	for i, n := range raw.buckets {
		h.Buckets[i] = uint64(n)
	}
	return h
}

// Stats is what this process has done with a store since it was opened. Every number but Held only grows. docs/observe.md of
// Holdfast maps them to metrics of Prometheus.
type Stats struct {
	Granted   uint64 // acquisitions, by their outcome
	Busy      uint64
	Timeouts  uint64
	Cancelled uint64
	Deadlocks uint64
	Unknown   uint64 // settled in the background
	Failed    uint64 // with any other status
	Reentries uint64 // one hold more of what was held; not in Granted

	Handovers uint64    // granted by the store, after a wait there
	Passes    uint64    // granted by a caller of this process that released it
	Lingered  uint64    // it had stayed with the process: option Linger
	Waits     Histogram // of granted acquisitions

	Held            uint64    // now
	Holds           Histogram // of those that have ended, lost ones too
	Renewals        uint64
	RenewalsFailed  uint64            // refused, or not confirmed
	Losses          map[string]uint64 // by reason: "expired", "max_hold", "broken", "forgotten", "closed"
	ReleasesUnknown uint64            // settled in the background

	Reconnects uint64 // connections that were made again
	Commands   uint64 // requests that were sent to servers
}

// Stats returns what this process has done with this store, as numbers: for metrics.
func (s *Store) Stats() (Stats, error) {
	raw := C.hf_stats{size: C.sizeof_hf_stats}
	if status := C.hf_stats_get(s.handle, &raw); status != C.HF_OK {
		return Stats{}, errorOf(status, nil)
	}
	return Stats{
		Granted: uint64(raw.granted), Busy: uint64(raw.busy), Timeouts: uint64(raw.timeouts),
		Cancelled: uint64(raw.cancelled), Deadlocks: uint64(raw.deadlocks), Unknown: uint64(raw.unknown),
		Failed: uint64(raw.failed), Reentries: uint64(raw.reentries),
		Handovers: uint64(raw.handovers), Passes: uint64(raw.passes), Lingered: uint64(raw.lingered),
		Waits: histogramOf(&raw.waits), Held: uint64(raw.held), Holds: histogramOf(&raw.holds),
		Renewals: uint64(raw.renewals), RenewalsFailed: uint64(raw.renewals_failed), Losses: lossesOf(&raw),
		ReleasesUnknown: uint64(raw.releases_unknown), Reconnects: uint64(raw.reconnects), Commands: uint64(raw.commands),
	}, nil
}

func lossesOf(raw *C.hf_stats) map[string]uint64 {
	losses := make(map[string]uint64)
	// Reasons are appended only: those that the library does not know come last, and all have one name.
	for i := C.HF_LOSS_NONE + 1; i < C.HF_LOSSES_MAX; i++ {
		name := goText(C.hf_loss_name(C.hf_loss(i)))
		if name == "unknown" {
			break
		}
		losses[name] = uint64(raw.losses[i])
	}
	return losses
}
