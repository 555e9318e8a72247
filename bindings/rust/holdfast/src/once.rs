// SPDX-License-Identifier: MIT
//! Work that is to be done once.
use crate::error::{call, text_at, Expect, Room};
use crate::input::{duration, duration_unless_negative, millis};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::{sys, Lease, Request, Result, Status, Store};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// It has been done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnceMark {
    /// The token of the lease under which it was done.
    pub token: u64,
    /// When, since 1970, by the clock of the process that did it.
    pub at: Duration,
    /// How long the mark will stay; `None`: for ever.
    pub ttl: Option<Duration>,
    /// Who did it, for people.
    pub label: String,
}

impl OnceMark {
    fn from_raw(raw: &sys::hf_once_mark) -> OnceMark {
        OnceMark {
            token: raw.token,
            at: duration(raw.at_ms),
            ttl: duration_unless_negative(raw.ttl_ms),
            label: unsafe { text_at(raw.label.as_ptr()) },
        }
    }

    fn from_result(result: &sys::hf_result) -> OnceMark {
        match unsafe { result.mark.as_ref() } {
            Some(raw) => OnceMark::from_raw(raw),
            None => OnceMark::from_raw(&sys::hf_once_mark::init()),
        }
    }
}

/// Work that is ours to do. Dropping it releases the lease: it is not done then, and the next one
/// does it.
#[derive(Debug)]
#[must_use = "work that is dropped is not done"]
pub struct Work(Lease);

impl Deref for Work {
    type Target = Lease;
    fn deref(&self) -> &Lease {
        &self.0
    }
}

/// What became of an attempt to begin.
#[derive(Debug)]
#[must_use]
pub enum Once {
    /// It is ours to do.
    Begun(Work),
    /// It has been done before.
    Done(OnceMark),
}

impl Work {
    /// It is done: set the mark, and release. [`Status::Fenced`]: somebody has begun after us, and it
    /// is done once more.
    pub fn finish(self) -> Result<()> {
        call(|err| unsafe { sys::hf_once_finish(self.0.raw(), err) })?;
        self.0.release()
    }

    /// Set the mark without blocking; then it may be released.
    pub fn finish_async(&self) -> Op<'static, ()> {
        let core = self.0.core.clone();
        Op::new(
            self.0.store(),
            move |b| unsafe { sys::hf_once_finish_async(core.raw(), b.done, b.arg, b.op, b.err) },
            ok,
        )
    }

    /// The plain lease.
    pub fn into_lease(self) -> Lease {
        self.0
    }
}

impl Request {
    /// Begin the work of this name, unless it has been done. `keep`: how long the mark stays that it
    /// has been done; `None`: for ever. While somebody else is at work the call waits.
    pub fn begin_once(self, keep: Option<Duration>) -> Result<Once> {
        let (keep, mut mark) = (keep.map_or(0, millis), sys::hf_once_mark::init());
        let lease = self
            .acquire_with(|store, request, lease, err| unsafe {
                sys::hf_once_begin(store, request, keep, lease, &mut mark, err)
            })
            .unless(Status::Done)?;
        Ok(match lease {
            Some(lease) => Once::Begun(Work(lease)),
            None => Once::Done(OnceMark::from_raw(&mark)),
        })
    }

    /// [`begin_once`](Request::begin_once) without blocking.
    pub fn begin_once_async(mut self, keep: Option<Duration>) -> Op<'static, Once> {
        let sink = match self.spec.prepare(true) {
            Ok(sink) => sink,
            Err(error) => return Op::failed(&self.store, error),
        };
        let (store, weak) = (self.store.clone(), Arc::downgrade(&self.store.inner));
        let (arg, canceller) = (crate::request::arg_of(&sink), self.spec.canceller.clone());
        let keep = keep.map_or(0, millis);
        Op::new(
            &store,
            move |b| unsafe {
                let raw = self.spec.raw(arg);
                sys::hf_once_begin_async(self.store.raw(), &raw, keep, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                let _until_now = canceller;
                if ok(result).unless(Status::Done)?.is_none() {
                    return Ok(Once::Done(OnceMark::from_result(result)));
                }
                Lease::granted(&weak, result.lease, sink).map(|lease| Once::Begun(Work(lease)))
            },
        )
    }
}

impl Lease {
    /// Begin the work of the name of this lease, as [`Request::begin_once`] does. If it has been done,
    /// the lease is released.
    pub fn claim_once(self, keep: Option<Duration>) -> Result<Once> {
        let (keep, mut mark) = (keep.map_or(0, millis), sys::hf_once_mark::init());
        let mut room = Room::new();
        match unsafe { sys::hf_once_claim(self.raw(), keep, &mut mark, room.as_mut_ptr()) } {
            sys::HF_OK => Ok(Once::Begun(Work(self))),
            sys::HF_DONE => Ok(Once::Done(OnceMark::from_raw(&mark))),
            status => Err(room.error(status)),
        }
    }

    /// [`claim_once`](Lease::claim_once) without blocking.
    pub fn claim_once_async(self, keep: Option<Duration>) -> Op<'static, Once> {
        let (store, core) = (self.store().clone(), self.core.clone());
        let keep = keep.map_or(0, millis);
        Op::new(
            &store,
            move |b| unsafe {
                sys::hf_once_claim_async(core.raw(), keep, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                Ok(match ok(result).unless(Status::Done)? {
                    Some(()) => Once::Begun(Work(self)),
                    None => Once::Done(OnceMark::from_result(result)),
                })
            },
        )
    }
}

/// The mark of some work. Made by [`Store::once`].
#[derive(Clone, Debug)]
pub struct OnceName(Named);

impl Store {
    /// The mark of the work of this name. A worker begins by [`Request::begin_once`].
    pub fn once(&self, name: impl AsRef<[u8]>) -> OnceName {
        OnceName(Named::new(self, name.as_ref()))
    }
}

impl OnceName {
    /// Has it been done? `None`: it has not.
    pub fn get(&self) -> Result<Option<OnceMark>> {
        let ((store, name, len), mut mark) = (self.0.raw(), sys::hf_once_mark::init());
        call(|err| unsafe { sys::hf_once_get(store, name, len, &mut mark, err) })
            .map(|()| OnceMark::from_raw(&mark))
            .unless(Status::NotFound)
    }

    /// [`get`](OnceName::get) without blocking.
    pub fn get_async(&self) -> Op<'static, Option<OnceMark>> {
        self.0.op(
            |store, name, len, b| unsafe {
                sys::hf_once_get_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            |result| {
                ok(result)
                    .map(|()| OnceMark::from_result(result))
                    .unless(Status::NotFound)
            },
        )
    }

    /// Delete the mark: the next worker does it again. `false`: there is none.
    pub fn delete(&self) -> Result<bool> {
        let (store, name, len) = self.0.raw();
        call(|err| unsafe { sys::hf_once_delete(store, name, len, err) })
            .unless(Status::NotFound)
            .map(|done| done.is_some())
    }

    /// [`delete`](OnceName::delete) without blocking.
    pub fn delete_async(&self) -> Op<'static, bool> {
        self.0.op(
            |store, name, len, b| unsafe {
                sys::hf_once_delete_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            |result| {
                ok(result)
                    .unless(Status::NotFound)
                    .map(|done| done.is_some())
            },
        )
    }
}
