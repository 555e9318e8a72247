// SPDX-License-Identifier: MIT
//! Elections, and cells that end with a lease.
use crate::cancel::{self, Canceller};
use crate::cells::CellValue;
use crate::error::{call, text_at, Expect};
use crate::input::{bytes_ptr, copy_bytes, Owned};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::request::lease_op;
use crate::{sys, Lease, Request, Result, Status, Store, Wait};
use std::ops::Deref;
use std::sync::Arc;

/// We lead. It is a lease like any other, and [`resign`](Leadership::resign) ends it. Dropping it
/// releases the lease too; observers find that out within a second.
#[derive(Debug)]
#[must_use = "a leadership that is dropped ends"]
pub struct Leadership(Lease);

impl Deref for Leadership {
    type Target = Lease;
    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl Leadership {
    /// Publish another value. [`Status::Lost`]: we do not lead any more.
    pub fn publish(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        call(|err| unsafe {
            sys::hf_election_set(self.0.raw(), bytes_ptr(value), value.len(), err)
        })
    }

    /// [`publish`](Leadership::publish) without blocking.
    pub fn publish_async(&self, value: impl AsRef<[u8]>) -> Op<'static, ()> {
        let (core, value) = (self.0.core.clone(), value.as_ref().to_vec());
        Op::new(
            self.0.store(),
            move |b| unsafe {
                let (first, len) = (bytes_ptr(&value), value.len());
                sys::hf_election_set_async(core.raw(), first, len, b.done, b.arg, b.op, b.err)
            },
            ok,
        )
    }

    /// Publish that nobody leads, and release. It has ended, whatever is returned.
    pub fn resign(self) -> Result<()> {
        let lease = self.0.take();
        call(|err| unsafe { sys::hf_election_resign(lease, err) })
    }

    /// [`resign`](Leadership::resign) without blocking.
    pub fn resign_async(self) -> Op<'static, ()> {
        self.0.end_op(
            |lease, b| unsafe { sys::hf_election_resign_async(lease, b.done, b.arg, b.op, b.err) },
            None,
        )
    }

    /// The plain lease.
    pub fn into_lease(self) -> Lease {
        self.0
    }
}

impl Request {
    /// Acquire a mutex or be a writer, and publish `value`: then we lead.
    pub fn campaign(self, value: impl AsRef<[u8]>) -> Result<Leadership> {
        let value = value.as_ref();
        self.acquire_with(|store, request, lease, err| unsafe {
            let (first, len) = (bytes_ptr(value), value.len());
            sys::hf_election_campaign(store, request, first, len, lease, err)
        })
        .map(Leadership)
    }

    /// [`campaign`](Request::campaign) without blocking.
    pub fn campaign_async(self, value: impl AsRef<[u8]>) -> Op<'static, Leadership> {
        let value = value.as_ref().to_vec();
        lease_op(
            self,
            move |store, request, b| unsafe {
                let (first, len) = (bytes_ptr(&value), value.len());
                let (done, arg) = (b.done, b.arg);
                sys::hf_election_campaign_async(store, request, first, len, done, arg, b.op, b.err)
            },
            Leadership,
        )
    }
}

/// What an observer sees.
#[derive(Clone)]
pub struct Leader {
    raw: Arc<Owned<sys::hf_leader>>,
}

impl Leader {
    fn new(raw: *mut sys::hf_leader) -> Leader {
        Leader {
            raw: Arc::new(Owned(raw)),
        }
    }

    fn get(&self) -> &sys::hf_leader {
        // The library hands out one that is not NULL with HF_OK, and nobody changes it.
        unsafe { &*self.raw.0 }
    }

    /// Does anybody lead? If not, the rest is empty.
    pub fn leads(&self) -> bool {
        self.get().leads
    }

    /// The token of the leader's lease; 0 where the engine has none.
    pub fn token(&self) -> u64 {
        self.get().token
    }

    /// What the leader has published.
    pub fn value(&self) -> Vec<u8> {
        unsafe { copy_bytes(self.get().value, self.get().value_len) }
    }

    /// Who it is, for people.
    pub fn label(&self) -> String {
        unsafe { text_at(self.get().label) }
    }

    /// The version of what was published last.
    pub fn version(&self) -> u64 {
        self.get().version
    }
}

impl std::fmt::Debug for Leader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leader")
            .field("leads", &self.leads())
            .field("token", &self.token())
            .field("label", &self.label())
            .finish()
    }
}

/// Observes who leads. Made by [`Store::election`].
#[derive(Clone, Debug)]
pub struct Election {
    named: Named,
    canceller: Option<Canceller>,
}

impl Store {
    /// The election of this name. A candidate asks for the lock of this name:
    /// [`Request::campaign`].
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election {
            named: Named::new(self, name.as_ref()),
            canceller: None,
        }
    }

    /// Read a cell that is bound to a lease ([`Lease::set_cell`]). `None`: there is none, or its
    /// lease has ended.
    pub fn lease_cell(&self, name: impl AsRef<[u8]>) -> Result<Option<CellValue>> {
        let (name, mut cell) = (name.as_ref(), sys::hf_cell::init());
        call(|err| unsafe {
            sys::hf_lease_cell_get(self.raw(), bytes_ptr(name), name.len(), &mut cell, err)
        })
        .map(|()| unsafe { CellValue::from_raw(&cell) })
        .unless(Status::NotFound)
    }

    /// [`lease_cell`](Store::lease_cell) without blocking.
    pub fn lease_cell_async(&self, name: impl AsRef<[u8]>) -> Op<'static, Option<CellValue>> {
        Named::new(self, name.as_ref()).op(
            |store, name, len, b| unsafe {
                sys::hf_lease_cell_get_async(store, name, len, b.done, b.arg, b.op, b.err)
            },
            CellValue::from_result,
        )
    }
}

impl Election {
    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Election {
        self.canceller = Some(canceller.clone());
        self
    }

    fn raw(&self, last: Option<&Leader>, wait: Wait) -> sys::hf_election_request {
        let mut raw = sys::hf_election_request::init();
        raw.name = bytes_ptr(&self.named.name);
        raw.name_len = self.named.name.len();
        raw.last = last.map_or(std::ptr::null(), |last| last.raw.0);
        raw.wait_ms = wait.millis();
        raw.cancel = cancel::raw(&self.canceller);
        raw
    }

    /// Wait until there is something else to see than `last`; `None`: look at once.
    pub fn wait(&self, last: Option<&Leader>, wait: impl Into<Wait>) -> Result<Leader> {
        let (raw, mut leader) = (self.raw(last, wait.into()), std::ptr::null_mut());
        let store = self.named.store.raw();
        call(|err| unsafe { sys::hf_election_wait(store, &raw, &mut leader, err) })?;
        Ok(Leader::new(leader))
    }

    /// [`wait`](Election::wait) without blocking.
    pub fn wait_async(&self, last: Option<&Leader>, wait: impl Into<Wait>) -> Op<'static, Leader> {
        let (election, last, wait) = (self.clone(), last.cloned(), wait.into());
        let canceller = self.canceller.clone();
        Op::new(
            &self.named.store,
            move |b| unsafe {
                let raw = election.raw(last.as_ref(), wait);
                let store = election.named.store.raw();
                sys::hf_election_wait_async(store, &raw, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                let _until_now = canceller;
                ok(result).map(|()| Leader::new(result.leader))
            },
        )
    }
}

impl Lease {
    /// Write bytes into the cell `name`, for as long as this lease lives.
    pub fn set_cell(&self, name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let (name, bytes) = (name.as_ref(), bytes.as_ref());
        call(|err| unsafe {
            let (first, len) = (bytes_ptr(bytes), bytes.len());
            sys::hf_lease_cell_set(self.raw(), bytes_ptr(name), name.len(), first, len, err)
        })
    }

    /// [`set_cell`](Lease::set_cell) without blocking.
    pub fn set_cell_async(
        &self,
        name: impl AsRef<[u8]>,
        bytes: impl AsRef<[u8]>,
    ) -> Op<'static, ()> {
        let (name, bytes) = (name.as_ref().to_vec(), bytes.as_ref().to_vec());
        let core = self.core.clone();
        Op::new(
            self.store(),
            move |b| unsafe {
                let (name, name_len) = (bytes_ptr(&name), name.len());
                let (first, len) = (bytes_ptr(&bytes), bytes.len());
                let (done, arg, op, err) = (b.done, b.arg, b.op, b.err);
                let lease = core.raw();
                sys::hf_lease_cell_set_async(lease, name, name_len, first, len, done, arg, op, err)
            },
            ok,
        )
    }
}
