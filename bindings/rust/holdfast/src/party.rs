// SPDX-License-Identifier: MIT
//! Latches and barriers.
use crate::cancel::{self, Canceller};
use crate::error::call;
use crate::input::{bytes_ptr, c_ptr, c_text};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::{sys, Lease, Result, Store, Wait};
use std::ffi::CString;
use std::ops::Deref;
use std::sync::Arc;

/// Opens, for ever, when so many participants have counted down. Made by [`Store::latch`].
#[derive(Clone, Debug)]
pub struct Latch {
    named: Named,
    canceller: Option<Canceller>,
}

/// How far a latch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchInfo {
    /// For how many participants it was made.
    pub count: u32,
    /// How many are missing; 0: it is open.
    pub left: u32,
}

/// Participants wait for each other, and go on together. Made by [`Store::barrier`].
#[derive(Clone, Debug)]
pub struct Barrier {
    named: Named,
    parties: u32,
    who: Option<String>,
    canceller: Option<Canceller>,
}

impl Store {
    /// The latch of this name.
    pub fn latch(&self, name: impl AsRef<[u8]>) -> Latch {
        Latch {
            named: Named::new(self, name.as_ref()),
            canceller: None,
        }
    }

    /// The barrier of this name for `parties` participants.
    pub fn barrier(&self, name: impl AsRef<[u8]>, parties: u32) -> Barrier {
        let named = Named::new(self, name.as_ref());
        Barrier {
            named,
            parties,
            who: None,
            canceller: None,
        }
    }
}

/// A request, in memory of its own.
struct Party {
    named: Named,
    who: Option<CString>,
    parties: u32,
    wait: i64,
    canceller: Option<Canceller>,
}

impl Party {
    fn raw(&self) -> sys::hf_party_request {
        let mut raw = sys::hf_party_request::init();
        raw.name = bytes_ptr(&self.named.name);
        raw.name_len = self.named.name.len();
        raw.who = c_ptr(&self.who);
        raw.parties = self.parties;
        raw.wait_ms = self.wait;
        raw.cancel = cancel::raw(&self.canceller);
        raw
    }

    fn call(self, function: WaitFn) -> Result<()> {
        call(|err| unsafe { function(self.named.store.raw(), &self.raw(), err) })
    }

    fn lease(self, function: LeaseFn) -> Result<Lease> {
        let mut lease = std::ptr::null_mut();
        call(|err| unsafe { function(self.named.store.raw(), &self.raw(), &mut lease, err) })?;
        Ok(Lease::new(self.named.store, lease, None, false))
    }

    fn op<T: Send + 'static>(
        self,
        function: AsyncFn,
        finish: impl FnOnce(&sys::hf_result) -> Result<T> + Send + 'static,
    ) -> Op<'static, T> {
        let (store, canceller) = (self.named.store.clone(), self.canceller.clone());
        Op::new(
            &store,
            move |b| unsafe {
                function(
                    self.named.store.raw(),
                    &self.raw(),
                    b.done,
                    b.arg,
                    b.op,
                    b.err,
                )
            },
            move |result| {
                let _until_now = canceller;
                finish(result)
            },
        )
    }

    fn lease_op(self, function: AsyncFn) -> Op<'static, Lease> {
        let weak = Arc::downgrade(&self.named.store.inner);
        self.op(function, move |result| {
            ok(result)?;
            Lease::granted(&weak, result.lease, None)
        })
    }
}

type WaitFn = unsafe extern "C" fn(
    *mut sys::hf_store,
    *const sys::hf_party_request,
    *mut sys::hf_error,
) -> sys::hf_status;

type LeaseFn = unsafe extern "C" fn(
    *mut sys::hf_store,
    *const sys::hf_party_request,
    *mut *mut sys::hf_lease,
    *mut sys::hf_error,
) -> sys::hf_status;

type AsyncFn = unsafe extern "C" fn(
    *mut sys::hf_store,
    *const sys::hf_party_request,
    sys::hf_done_fn,
    *mut std::os::raw::c_void,
    *mut *mut sys::hf_op,
    *mut sys::hf_error,
) -> sys::hf_status;

fn missing(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

impl Latch {
    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Latch {
        self.canceller = Some(canceller.clone());
        self
    }

    fn party(&self, who: Option<CString>, wait: Wait) -> Party {
        Party {
            named: self.named.clone(),
            who,
            parties: 0,
            wait: wait.millis(),
            canceller: self.canceller.clone(),
        }
    }

    /// Make it, for so many participants.
    pub fn create(&self, count: u32) -> Result<()> {
        let (store, name, len) = self.named.raw();
        call(|err| unsafe { sys::hf_latch_create(store, name, len, count, err) })
    }

    /// [`create`](Latch::create) without blocking.
    pub fn create_async(&self, count: u32) -> Op<'static, ()> {
        self.named.op(
            move |store, name, len, b| unsafe {
                sys::hf_latch_create_async(store, name, len, count, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Count down as `who`, who is counted once, however often it calls. Returns how many are
    /// missing.
    pub fn count_down(&self, who: &str) -> Result<u32> {
        let (who, (store, name, len)) = (c_text("who", who)?, self.named.raw());
        let mut left = 0;
        call(|err| unsafe {
            sys::hf_latch_count_down(store, name, len, who.as_ptr(), &mut left, err)
        })?;
        Ok(left)
    }

    /// [`count_down`](Latch::count_down) without blocking.
    pub fn count_down_async(&self, who: &str) -> Op<'static, u32> {
        let who = match c_text("who", who) {
            Ok(who) => who,
            Err(error) => return Op::failed(&self.named.store, error),
        };
        self.named.op(
            move |store, name, len, b| unsafe {
                let who = who.as_ptr();
                sys::hf_latch_count_down_async(store, name, len, who, b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| missing(result.number)),
        )
    }

    /// Join as `who` before the work begins: if the lease ends before `who` has counted down, the
    /// latch is broken.
    pub fn join(&self, who: &str, wait: impl Into<Wait>) -> Result<Lease> {
        self.party(Some(c_text("who", who)?), wait.into())
            .lease(sys::hf_latch_join)
    }

    /// [`join`](Latch::join) without blocking.
    pub fn join_async(&self, who: &str, wait: impl Into<Wait>) -> Op<'static, Lease> {
        match c_text("who", who) {
            Ok(who) => self
                .party(Some(who), wait.into())
                .lease_op(sys::hf_latch_join_async),
            Err(error) => Op::failed(&self.named.store, error),
        }
    }

    /// Wait until it is open. [`Status::Broken`](crate::Status::Broken): a participant died.
    pub fn wait(&self, wait: impl Into<Wait>) -> Result<()> {
        self.party(None, wait.into()).call(sys::hf_latch_wait)
    }

    /// [`wait`](Latch::wait) without blocking.
    pub fn wait_async(&self, wait: impl Into<Wait>) -> Op<'static, ()> {
        self.party(None, wait.into())
            .op(sys::hf_latch_wait_async, ok)
    }

    /// How far it is.
    pub fn get(&self) -> Result<LatchInfo> {
        let ((store, name, len), mut count, mut left) = (self.named.raw(), 0, 0);
        call(|err| unsafe { sys::hf_latch_get(store, name, len, &mut count, &mut left, err) })?;
        Ok(LatchInfo { count, left })
    }

    /// [`get`](Latch::get) without blocking.
    pub fn get_async(&self) -> Op<'static, LatchInfo> {
        self.named.op(
            |store, name, len, b| unsafe {
                sys::hf_latch_get_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            |result| {
                ok(result)?;
                let count = u32::try_from(result.count).unwrap_or(u32::MAX);
                Ok(LatchInfo {
                    count,
                    left: missing(result.number),
                })
            },
        )
    }

    /// Delete it.
    pub fn delete(&self) -> Result<()> {
        let (store, name, len) = self.named.raw();
        call(|err| unsafe { sys::hf_latch_delete(store, name, len, err) })
    }

    /// [`delete`](Latch::delete) without blocking.
    pub fn delete_async(&self) -> Op<'static, ()> {
        self.named.op(
            |store, name, len, b| unsafe {
                sys::hf_latch_delete_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }
}

/// A participant that is inside a double barrier.
///
/// Dropping it ends its lease without waiting for the others: they find the barrier broken.
#[derive(Debug)]
#[must_use = "a participant that is dropped breaks the barrier"]
pub struct Inside {
    lease: Lease,
    canceller: Option<Canceller>,
}

impl Deref for Inside {
    type Target = Lease;
    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Inside {
    /// Leave, and wait until all have left. It has ended, whatever is returned.
    pub fn leave(self, wait: impl Into<Wait>) -> Result<()> {
        let (wait, lease) = (wait.into().millis(), self.lease.take());
        call(|err| unsafe { sys::hf_barrier_leave(lease, wait, cancel::raw(&self.canceller), err) })
    }

    /// [`leave`](Inside::leave) without blocking.
    pub fn leave_async(self, wait: impl Into<Wait>) -> Op<'static, ()> {
        let (wait, canceller) = (wait.into().millis(), self.canceller.clone());
        self.lease.end_op(
            move |lease, b| unsafe {
                let cancel = cancel::raw(&self.canceller);
                sys::hf_barrier_leave_async(lease, wait, cancel, b.done, b.arg, b.op, b.err)
            },
            canceller,
        )
    }
}

impl Barrier {
    /// Which participant this is; the default is a random id.
    #[must_use]
    pub fn who(mut self, who: impl Into<String>) -> Barrier {
        self.who = Some(who.into());
        self
    }

    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Barrier {
        self.canceller = Some(canceller.clone());
        self
    }

    fn party(&self, wait: Wait) -> Result<Party> {
        Ok(Party {
            named: self.named.clone(),
            who: self
                .who
                .as_ref()
                .map(|who| c_text("who", who))
                .transpose()?,
            parties: self.parties,
            wait: wait.millis(),
            canceller: self.canceller.clone(),
        })
    }

    /// Wait until all have come. [`Status::Broken`](crate::Status::Broken): one died.
    pub fn wait(&self, wait: impl Into<Wait>) -> Result<()> {
        self.party(wait.into())?.call(sys::hf_barrier_wait)
    }

    /// [`wait`](Barrier::wait) without blocking.
    pub fn wait_async(&self, wait: impl Into<Wait>) -> Op<'static, ()> {
        match self.party(wait.into()) {
            Ok(party) => party.op(sys::hf_barrier_wait_async, ok),
            Err(error) => Op::failed(&self.named.store, error),
        }
    }

    /// A double barrier: enter together, work, leave together.
    pub fn enter(&self, wait: impl Into<Wait>) -> Result<Inside> {
        let lease = self.party(wait.into())?.lease(sys::hf_barrier_enter)?;
        Ok(Inside {
            lease,
            canceller: self.canceller.clone(),
        })
    }

    /// [`enter`](Barrier::enter) without blocking.
    pub fn enter_async(&self, wait: impl Into<Wait>) -> Op<'static, Inside> {
        let party = match self.party(wait.into()) {
            Ok(party) => party,
            Err(error) => return Op::failed(&self.named.store, error),
        };
        let (weak, canceller) = (
            Arc::downgrade(&self.named.store.inner),
            self.canceller.clone(),
        );
        party.op(sys::hf_barrier_enter_async, move |result| {
            ok(result)?;
            let lease = Lease::granted(&weak, result.lease, None)?;
            Ok(Inside { lease, canceller })
        })
    }
}
