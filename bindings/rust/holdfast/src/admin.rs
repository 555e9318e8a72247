// SPDX-License-Identifier: MIT
//! Calls about the leases of others: break, ask, resize, adopt.
use crate::error::call;
use crate::input::{bytes_ptr, c_ptr, c_text, millis};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::{sys, Lease, Result, Store};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

/// How to take over a detached lease.
#[derive(Clone, Debug)]
pub struct Adopt {
    name: Vec<u8>,
    text: String,
    ttl: i64,
    renew: bool,
}

impl Adopt {
    /// The lease of `name` by the text that [`Lease::export`] returned.
    pub fn new(name: impl AsRef<[u8]>, text: impl Into<String>) -> Adopt {
        Adopt {
            name: name.as_ref().to_vec(),
            text: text.into(),
            ttl: 0,
            renew: false,
        }
    }

    /// Renew it for this long from now; the default is as before.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Adopt {
        self.ttl = millis(ttl);
        self
    }

    /// Go on renewing it.
    #[must_use]
    pub fn renew(mut self, on: bool) -> Adopt {
        self.renew = on;
        self
    }

    fn raw(&self, text: &CString) -> sys::hf_adopt_request {
        let mut raw = sys::hf_adopt_request::init();
        raw.name = bytes_ptr(&self.name);
        raw.name_len = self.name.len();
        raw.text = text.as_ptr();
        raw.ttl_ms = self.ttl;
        raw.renew = self.renew;
        raw
    }
}

impl Store {
    /// Take over a detached lease. [`Status::NotFound`](crate::Status::NotFound): it has ended.
    pub fn adopt(&self, adopt: &Adopt) -> Result<Lease> {
        let (text, mut lease) = (c_text("text", &adopt.text)?, std::ptr::null_mut());
        let raw = adopt.raw(&text);
        call(|err| unsafe { sys::hf_lease_adopt(self.raw(), &raw, &mut lease, err) })?;
        Ok(Lease::new(self.clone(), lease, None, false))
    }

    /// [`adopt`](Store::adopt) without blocking.
    pub fn adopt_async(&self, adopt: &Adopt) -> Op<'static, Lease> {
        let text = match c_text("text", &adopt.text) {
            Ok(text) => text,
            Err(error) => return Op::failed(self, error),
        };
        let (store, weak, adopt) = (self.clone(), Arc::downgrade(&self.inner), adopt.clone());
        Op::new(
            self,
            move |b| unsafe {
                let raw = adopt.raw(&text);
                sys::hf_lease_adopt_async(store.raw(), &raw, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                ok(result)?;
                Lease::granted(&weak, result.lease, None)
            },
        )
    }

    /// End exactly the lease that holds `name` with `token`, whoever owns it: its holder is told.
    /// [`Status::NotFound`](crate::Status::NotFound): no lease has that token now.
    pub fn break_lease(&self, name: impl AsRef<[u8]>, token: u64) -> Result<()> {
        let name = name.as_ref();
        call(|err| unsafe {
            sys::hf_lease_break(self.raw(), bytes_ptr(name), name.len(), token, err)
        })
    }

    /// [`break_lease`](Store::break_lease) without blocking.
    pub fn break_lease_async(&self, name: impl AsRef<[u8]>, token: u64) -> Op<'static, ()> {
        Named::new(self, name.as_ref()).op(
            move |store, name, len, b| unsafe {
                sys::hf_lease_break_async(store, name, len, token, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Ask whoever holds `name` to give it away. `text`: why; `None`: the label of the store.
    /// [`Status::Busy`](crate::Status::Busy): no holder listens.
    /// [`Status::NotFound`](crate::Status::NotFound): nobody holds it.
    pub fn ask(&self, name: impl AsRef<[u8]>, text: Option<&str>) -> Result<()> {
        let (name, text) = (
            name.as_ref(),
            text.map(|text| c_text("text", text)).transpose()?,
        );
        call(|err| unsafe {
            sys::hf_ask(self.raw(), bytes_ptr(name), name.len(), c_ptr(&text), err)
        })
    }

    /// [`ask`](Store::ask) without blocking.
    pub fn ask_async(&self, name: impl AsRef<[u8]>, text: Option<&str>) -> Op<'static, ()> {
        let text = match text.map(|text| c_text("text", text)).transpose() {
            Ok(text) => text,
            Err(error) => return Op::failed(self, error),
        };
        Named::new(self, name.as_ref()).op(
            move |store, name, len, b| unsafe {
                sys::hf_ask_async(store, name, len, c_ptr(&text), b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Set the size of a semaphore, also while it is in use. 0: as requests say, once it is free.
    pub fn resize_semaphore(&self, name: impl AsRef<[u8]>, capacity: u32) -> Result<()> {
        let name = name.as_ref();
        call(|err| unsafe {
            sys::hf_semaphore_resize(self.raw(), bytes_ptr(name), name.len(), capacity, err)
        })
    }

    /// [`resize_semaphore`](Store::resize_semaphore) without blocking.
    pub fn resize_semaphore_async(&self, name: impl AsRef<[u8]>, capacity: u32) -> Op<'static, ()> {
        Named::new(self, name.as_ref()).op(
            move |store, name, len, b| unsafe {
                let (done, arg) = (b.done, b.arg);
                sys::hf_semaphore_resize_async(store, name, len, capacity, done, arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Release them all, whatever happens. The first error, if there was one.
    pub fn release_all(&self, leases: Vec<Lease>) -> Result<()> {
        let handles: Vec<_> = leases.iter().map(Lease::take).collect();
        call(|err| unsafe { sys::hf_release_all(handles.as_ptr(), handles.len(), err) })
    }

    /// [`release_all`](Store::release_all) without blocking, of 1 to 64 leases.
    pub fn release_all_async(&self, leases: Vec<Lease>) -> Op<'static, ()> {
        let sinks: Vec<_> = leases.iter().map(Lease::sink).collect();
        Op::new(
            self,
            move |b| {
                let handles: Vec<_> = leases.iter().map(Lease::take).collect();
                let (first, count) = (handles.as_ptr(), handles.len());
                let status =
                    unsafe { sys::hf_release_all_async(first, count, b.done, b.arg, b.op, b.err) };
                if status != sys::HF_OK {
                    leases
                        .iter()
                        .zip(handles)
                        .for_each(|(lease, handle)| lease.put_back(handle));
                }
                status
            },
            move |result| {
                let _until_now = sinks;
                ok(result)
            },
        )
    }
}
