// SPDX-License-Identifier: MIT
//! Counters, and resources that are guarded by tokens.
use crate::error::{call, Expect};
use crate::input::{bytes_ptr, copy_bytes, Owned};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::{sys, Result, Status, Store};

/// A 64-bit number under a name; one that does not exist is 0. Made by [`Store::counter`].
#[derive(Clone, Debug)]
pub struct Counter(Named);

/// What became of a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a swap may have done nothing"]
pub enum Swap {
    /// It was done.
    Done,
    /// Nothing was done: the counter has this value.
    Changed(i64),
}

/// A few bytes that remember the highest token that they have seen, and refuse every lower one:
/// [`Status::Fenced`]. Made by [`Store::guard`].
#[derive(Clone, Debug)]
pub struct Guard(Named);

impl Store {
    /// The counter of this name.
    pub fn counter(&self, name: impl AsRef<[u8]>) -> Counter {
        Counter(Named::new(self, name.as_ref()))
    }

    /// The guarded resource of this name. All its tokens must be of one lock name in one store.
    pub fn guard(&self, name: impl AsRef<[u8]>) -> Guard {
        Guard(Named::new(self, name.as_ref()))
    }
}

fn number(result: &sys::hf_result) -> Result<i64> {
    ok(result).map(|()| result.number)
}

impl Counter {
    /// Add any number; returns the sum. [`Status::Unknown`]: it may have been added, once.
    pub fn add(&self, delta: i64) -> Result<i64> {
        let ((store, name, len), mut value) = (self.0.raw(), 0);
        call(|err| unsafe { sys::hf_counter_add(store, name, len, delta, &mut value, err) })?;
        Ok(value)
    }

    /// [`add`](Counter::add) without blocking.
    pub fn add_async(&self, delta: i64) -> Op<'static, i64> {
        self.0.op(
            move |store, name, len, b| unsafe {
                sys::hf_counter_add_async(store, name, len, delta, b.done, b.arg, b.op, b.err)
            },
            number,
        )
    }

    /// Its value.
    pub fn get(&self) -> Result<i64> {
        let ((store, name, len), mut value) = (self.0.raw(), 0);
        call(|err| unsafe { sys::hf_counter_get(store, name, len, &mut value, err) })?;
        Ok(value)
    }

    /// [`get`](Counter::get) without blocking.
    pub fn get_async(&self) -> Op<'static, i64> {
        self.0.op(
            |store, name, len, b| unsafe {
                sys::hf_counter_get_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            number,
        )
    }

    /// Set it, whatever it is.
    pub fn set(&self, value: i64) -> Result<()> {
        let (store, name, len) = self.0.raw();
        call(|err| unsafe { sys::hf_counter_set(store, name, len, value, err) })
    }

    /// [`set`](Counter::set) without blocking.
    pub fn set_async(&self, value: i64) -> Op<'static, ()> {
        self.0.op(
            move |store, name, len, b| unsafe {
                sys::hf_counter_set_async(store, name, len, value, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Set it if it is `expected`.
    pub fn swap(&self, expected: i64, value: i64) -> Result<Swap> {
        let ((store, name, len), mut present) = (self.0.raw(), 0);
        let done = call(|err| unsafe {
            sys::hf_counter_swap(store, name, len, expected, value, &mut present, err)
        });
        Ok(done
            .unless(Status::Changed)?
            .map_or(Swap::Changed(present), |()| Swap::Done))
    }

    /// [`swap`](Counter::swap) without blocking.
    pub fn swap_async(&self, expected: i64, value: i64) -> Op<'static, Swap> {
        self.0.op(
            move |store, name, len, b| unsafe {
                let (done, arg, op, err) = (b.done, b.arg, b.op, b.err);
                sys::hf_counter_swap_async(store, name, len, expected, value, done, arg, op, err)
            },
            |result| {
                let done = ok(result).unless(Status::Changed)?;
                Ok(done.map_or(Swap::Changed(result.number), |()| Swap::Done))
            },
        )
    }

    /// Delete it; it is 0 then.
    pub fn delete(&self) -> Result<()> {
        let (store, name, len) = self.0.raw();
        call(|err| unsafe { sys::hf_counter_delete(store, name, len, err) })
    }

    /// [`delete`](Counter::delete) without blocking.
    pub fn delete_async(&self) -> Op<'static, ()> {
        self.0.op(
            |store, name, len, b| unsafe {
                sys::hf_counter_delete_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }
}

impl Guard {
    /// Present the token and read, atomically: from then on no lower token is accepted. `None`: it
    /// was never written. Claim before you read.
    pub fn claim(&self, token: u64) -> Result<Option<Vec<u8>>> {
        let (store, name, len) = self.0.raw();
        let (mut bytes, mut count) = (std::ptr::null_mut(), 0);
        call(|err| unsafe {
            sys::hf_guard_claim(store, name, len, token, &mut bytes, &mut count, err)
        })?;
        let bytes = Owned(bytes);
        Ok(claimed(&bytes, count))
    }

    /// [`claim`](Guard::claim) without blocking.
    pub fn claim_async(&self, token: u64) -> Op<'static, Option<Vec<u8>>> {
        self.0.op(
            move |store, name, len, b| unsafe {
                sys::hf_guard_claim_async(store, name, len, token, b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| claimed(&Owned(result.bytes), result.len)),
        )
    }

    /// Replace the bytes if no higher token has been seen until then.
    pub fn set(&self, token: u64, bytes: impl AsRef<[u8]>) -> Result<()> {
        let ((store, name, len), bytes) = (self.0.raw(), bytes.as_ref());
        call(|err| unsafe {
            sys::hf_guard_set(store, name, len, token, bytes_ptr(bytes), bytes.len(), err)
        })
    }

    /// [`set`](Guard::set) without blocking.
    pub fn set_async(&self, token: u64, bytes: impl AsRef<[u8]>) -> Op<'static, ()> {
        let bytes = bytes.as_ref().to_vec();
        self.0.op(
            move |store, name, len, b| unsafe {
                let (first, count) = (bytes_ptr(&bytes), bytes.len());
                let (done, arg, op, err) = (b.done, b.arg, b.op, b.err);
                sys::hf_guard_set_async(store, name, len, token, first, count, done, arg, op, err)
            },
            ok,
        )
    }
}

fn claimed(bytes: &Owned<std::os::raw::c_void>, len: usize) -> Option<Vec<u8>> {
    if bytes.0.is_null() {
        return None;
    }
    Some(unsafe { copy_bytes(bytes.0, len) })
}
