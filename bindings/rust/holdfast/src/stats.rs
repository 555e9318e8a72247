// SPDX-License-Identifier: MIT
//! What this process has done with a store, as numbers.
use crate::error::{text_at, Error, Result};
use crate::store::Store;
use crate::sys;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Durations, counted by their length. Bucket 0 counts those below a millisecond, bucket `i` those of
/// at least `2^(i-1)` and less than `2^i` milliseconds, and the last one all longer ones.
#[derive(Clone, Copy)]
pub struct Histogram(sys::hf_histogram);

impl Histogram {
    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.0.count
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        Duration::from_millis(self.0.sum_ms)
    }

    /// How many are in each bucket; not cumulative.
    pub fn buckets(&self) -> &[u64] {
        &self.0.buckets
    }

    /// The upper bound of a bucket; `None` for the last one, which has none.
    pub fn bound(bucket: usize) -> Option<Duration> {
        limit(unsafe { sys::hf_histogram_bound_ms(bucket) })
    }

    /// The bound below which this share of the durations lies (0.5: the median). Zero: there are no
    /// durations. `None`: it is in the last bucket, which has no bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        limit(unsafe { sys::hf_histogram_quantile_ms(&self.0, share) })
    }
}

fn limit(ms: i64) -> Option<Duration> {
    (ms < i64::MAX).then(|| Duration::from_millis(ms as u64))
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .field("buckets", &self.buckets())
            .finish()
    }
}

/// What this process has done with a store since it was opened. Every number but `held` only grows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Acquisitions that were granted.
    pub granted: u64,
    /// Tries that found the name taken.
    pub busy: u64,
    /// Waits that were too long.
    pub timeouts: u64,
    /// Waits that were cancelled.
    pub cancelled: u64,
    /// Acquisitions that ended with [`Status::Deadlock`](crate::Status::Deadlock).
    pub deadlocks: u64,
    /// Acquisitions with an unknown outcome, which are settled in the background.
    pub unknown: u64,
    /// Acquisitions with any other status.
    pub failed: u64,
    /// One hold more of what was held; not in `granted`.
    pub reentries: u64,
    /// Granted by the store, after a wait there.
    pub handovers: u64,
    /// Granted by a call of this process that released it.
    pub passes: u64,
    /// It had stayed with the process: [`Request::linger`](crate::Request::linger).
    pub lingered: u64,
    /// How long granted acquisitions waited.
    pub waits: Histogram,
    /// Held now.
    pub held: u64,
    /// How long leases were held that have ended, lost ones too.
    pub holds: Histogram,
    /// Renewals that were confirmed.
    pub renewals: u64,
    /// Renewals that were refused, or not confirmed.
    pub renewals_failed: u64,
    /// Losses by reason: `"expired"`, `"max_hold"`, `"broken"`, `"forgotten"`, `"closed"`.
    pub losses: BTreeMap<String, u64>,
    /// Releases that are settled in the background.
    pub releases_unknown: u64,
    /// Connections that were made again.
    pub reconnects: u64,
    /// Requests that were sent to servers.
    pub commands: u64,
}

/// Reasons are appended only: those that the library does not know come last, and all have one name.
fn losses(raw: &sys::hf_stats) -> BTreeMap<String, u64> {
    raw.losses
        .iter()
        .enumerate()
        .skip(1)
        .map(|(loss, count)| {
            let name = unsafe { text_at(sys::hf_loss_name(loss as sys::hf_loss)) };
            (name, *count)
        })
        .take_while(|(name, _)| name != "unknown")
        .collect()
}

impl Store {
    /// What this process has done with this store, as numbers: for metrics.
    pub fn stats(&self) -> Result<Stats> {
        let mut raw = sys::hf_stats::init();
        let status = unsafe { sys::hf_stats_get(self.raw(), &mut raw) };
        if status != sys::HF_OK {
            return Err(Error::from_status(status));
        }
        Ok(Stats {
            granted: raw.granted,
            busy: raw.busy,
            timeouts: raw.timeouts,
            cancelled: raw.cancelled,
            deadlocks: raw.deadlocks,
            unknown: raw.unknown,
            failed: raw.failed,
            reentries: raw.reentries,
            handovers: raw.handovers,
            passes: raw.passes,
            lingered: raw.lingered,
            waits: Histogram(raw.waits),
            held: raw.held,
            holds: Histogram(raw.holds),
            renewals: raw.renewals,
            renewals_failed: raw.renewals_failed,
            losses: losses(&raw),
            releases_unknown: raw.releases_unknown,
            reconnects: raw.reconnects,
            commands: raw.commands,
        })
    }
}
