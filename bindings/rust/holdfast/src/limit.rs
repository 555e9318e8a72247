// SPDX-License-Identifier: MIT
//! Rate limits.
use crate::cancel::{self, Canceller};
use crate::error::{Error, Expect, Room};
use crate::input::{bytes_ptr, duration, millis};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::{sys, Result, Status, Store, Wait};
use std::time::Duration;

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A window begins with its first call; then the next one.
    Fixed,
    /// Never more than the rate in any interval.
    Sliding,
    /// So many at once, refilled at the rate.
    Bucket {
        /// The most at once; 0: as many as the rate.
        burst: u32,
    },
}

/// A rule: `rate` permits in `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How it counts.
    pub algorithm: Algorithm,
    /// Permits in `per`.
    pub rate: u32,
    /// The interval.
    pub per: Duration,
}

/// A limit, as a call found it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitInfo {
    /// Permits that could be taken at once, after this call.
    pub left: u64,
    /// Until all are available again, if nobody takes any.
    pub refill: Duration,
    /// How long this call slept.
    pub waited: Duration,
    /// Refused: the wait that would have been enough.
    pub retry: Duration,
    /// Granted: when, by the store's clock, since 1970.
    pub at: Duration,
    /// The rule in force.
    pub rule: Rule,
    /// It was set by [`Limit::set`].
    pub is_set: bool,
}

/// What became of an attempt to take permits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "permits may have been refused"]
pub enum Take {
    /// They were taken.
    Granted(LimitInfo),
    /// They were not: it would have been too long to wait.
    Refused(LimitInfo),
}

impl Take {
    /// Were they taken?
    pub fn is_granted(&self) -> bool {
        matches!(self, Take::Granted(_))
    }
}

/// A rate limit, which exists by being used. Made by [`Store::limit`].
#[derive(Clone, Debug)]
pub struct Limit {
    named: Named,
    rule: Option<Rule>,
    canceller: Option<Canceller>,
}

impl Store {
    /// The limit of this name with this rule, which must be the same for all that share it. `None`:
    /// as the store has it, for [`Limit::get`].
    pub fn limit(&self, name: impl AsRef<[u8]>, rule: impl Into<Option<Rule>>) -> Limit {
        Limit {
            named: Named::new(self, name.as_ref()),
            rule: rule.into(),
            canceller: None,
        }
    }
}

impl LimitInfo {
    fn from_raw(raw: &sys::hf_limit_result) -> LimitInfo {
        let algorithm = match raw.algorithm {
            sys::HF_LIMIT_ALGORITHM_SLIDING => Algorithm::Sliding,
            sys::HF_LIMIT_ALGORITHM_BUCKET => Algorithm::Bucket { burst: raw.burst },
            _ => Algorithm::Fixed,
        };
        LimitInfo {
            left: raw.left,
            refill: duration(raw.refill_ms),
            waited: duration(raw.waited_ms),
            retry: duration(raw.retry_ms),
            at: Duration::from_micros(u64::try_from(raw.at_us).unwrap_or(0)),
            rule: Rule {
                algorithm,
                rate: raw.rate,
                per: duration(raw.per_ms),
            },
            is_set: raw.is_set,
        }
    }

    fn from_result(result: &sys::hf_result) -> LimitInfo {
        match unsafe { result.limit.as_ref() } {
            Some(raw) => LimitInfo::from_raw(raw),
            None => LimitInfo::from_raw(&sys::hf_limit_result::init()),
        }
    }
}

type LimitFn = unsafe extern "C" fn(
    *mut sys::hf_store,
    *const sys::hf_limit_request,
    *mut sys::hf_limit_result,
    *mut sys::hf_error,
) -> sys::hf_status;

type LimitAsyncFn = unsafe extern "C" fn(
    *mut sys::hf_store,
    *const sys::hf_limit_request,
    sys::hf_done_fn,
    *mut std::os::raw::c_void,
    *mut *mut sys::hf_op,
    *mut sys::hf_error,
) -> sys::hf_status;

impl Limit {
    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Limit {
        self.canceller = Some(canceller.clone());
        self
    }

    fn raw(&self, permits: u32, wait: Wait) -> sys::hf_limit_request {
        let mut raw = sys::hf_limit_request::init();
        raw.name = bytes_ptr(&self.named.name);
        raw.name_len = self.named.name.len();
        if let Some(rule) = self.rule {
            let (algorithm, burst) = match rule.algorithm {
                Algorithm::Fixed => (sys::HF_LIMIT_ALGORITHM_FIXED, 0),
                Algorithm::Sliding => (sys::HF_LIMIT_ALGORITHM_SLIDING, 0),
                Algorithm::Bucket { burst } => (sys::HF_LIMIT_ALGORITHM_BUCKET, burst),
            };
            raw.algorithm = algorithm;
            raw.rate = rule.rate;
            raw.burst = burst;
            raw.per_ms = millis(rule.per);
        }
        raw.permits = permits;
        raw.wait_ms = wait.millis();
        raw.cancel = cancel::raw(&self.canceller);
        raw
    }

    fn call(
        &self,
        function: LimitFn,
        permits: u32,
        wait: Wait,
    ) -> (sys::hf_status, LimitInfo, Error) {
        let (raw, mut result) = (self.raw(permits, wait), sys::hf_limit_result::init());
        let mut room = Room::new();
        let store = self.named.store.raw();
        let status = unsafe { function(store, &raw, &mut result, room.as_mut_ptr()) };
        (status, LimitInfo::from_raw(&result), room.error(status))
    }

    fn op<T: Send + 'static>(
        &self,
        function: LimitAsyncFn,
        permits: u32,
        wait: Wait,
        finish: impl FnOnce(&sys::hf_result) -> Result<T> + Send + 'static,
    ) -> Op<'static, T> {
        let (limit, canceller) = (self.clone(), self.canceller.clone());
        Op::new(
            &self.named.store,
            move |b| unsafe {
                let raw = limit.raw(permits, wait);
                function(limit.named.store.raw(), &raw, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                let _until_now = canceller;
                finish(result)
            },
        )
    }

    /// Take permits, all or none; wait for them at most so long. A call that would have to wait longer
    /// is refused at once.
    pub fn take(&self, permits: u32, wait: impl Into<Wait>) -> Result<Take> {
        let (status, info, error) = self.call(sys::hf_limit_take, permits, wait.into());
        match status {
            sys::HF_OK => Ok(Take::Granted(info)),
            sys::HF_BUSY | sys::HF_TIMEOUT => Ok(Take::Refused(info)),
            _ => Err(error),
        }
    }

    /// [`take`](Limit::take) without blocking.
    pub fn take_async(&self, permits: u32, wait: impl Into<Wait>) -> Op<'static, Take> {
        self.op(sys::hf_limit_take_async, permits, wait.into(), |result| {
            let info = LimitInfo::from_result(result);
            match result.status {
                sys::HF_BUSY | sys::HF_TIMEOUT => Ok(Take::Refused(info)),
                _ => ok(result).map(|()| Take::Granted(info)),
            }
        })
    }

    /// What is left of it, and its rule. `None`: all permits are there, and no rule was set.
    pub fn get(&self) -> Result<Option<LimitInfo>> {
        match self.call(sys::hf_limit_get, 0, Wait::Try) {
            (sys::HF_OK, info, _) => Ok(Some(info)),
            (_, _, error) => Err(error).unless(Status::NotFound),
        }
    }

    /// [`get`](Limit::get) without blocking.
    pub fn get_async(&self) -> Op<'static, Option<LimitInfo>> {
        self.op(sys::hf_limit_get_async, 0, Wait::Try, |result| {
            ok(result)
                .map(|()| LimitInfo::from_result(result))
                .unless(Status::NotFound)
        })
    }

    /// Set the rule, whatever requests say, until it is set again. A rate of 0: as requests say.
    pub fn set(&self) -> Result<LimitInfo> {
        match self.call(sys::hf_limit_set, 0, Wait::Try) {
            (sys::HF_OK, info, _) => Ok(info),
            (_, _, error) => Err(error),
        }
    }

    /// [`set`](Limit::set) without blocking.
    pub fn set_async(&self) -> Op<'static, LimitInfo> {
        self.op(sys::hf_limit_set_async, 0, Wait::Try, |result| {
            ok(result).map(|()| LimitInfo::from_result(result))
        })
    }
}
