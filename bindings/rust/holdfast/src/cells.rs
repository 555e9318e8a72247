// SPDX-License-Identifier: MIT
//! Cells: bytes with a version.
use crate::callback::Callback;
use crate::cancel::{self, Canceller};
use crate::error::{call, Expect};
use crate::event::lock;
use crate::input::{bytes_ptr, copy_bytes, duration_unless_negative, millis, Owned};
use crate::op::{ok, Op};
use crate::{sys, Result, Status, Store, Wait};
use std::any::Any;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellValue {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Its version, which every write changes and which never comes back.
    pub version: u64,
    /// How long it stays; `None`: until it is deleted.
    pub ttl: Option<Duration>,
}

impl CellValue {
    /// Copies and frees.
    pub(crate) unsafe fn from_raw(cell: &sys::hf_cell) -> CellValue {
        let _owned = Owned(cell.bytes);
        CellValue::copy(cell)
    }

    unsafe fn copy(cell: &sys::hf_cell) -> CellValue {
        CellValue {
            bytes: copy_bytes(cell.bytes, cell.len),
            version: cell.version,
            ttl: duration_unless_negative(cell.ttl_ms),
        }
    }

    pub(crate) fn from_result(result: &sys::hf_result) -> Result<Option<CellValue>> {
        let value = ok(result).map(|()| unsafe {
            let _owned = Owned(result.bytes);
            CellValue {
                bytes: copy_bytes(result.bytes, result.len),
                version: result.version,
                ttl: duration_unless_negative(result.number),
            }
        });
        value.unless(Status::NotFound)
    }
}

/// What shall become of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellAction {
    /// Leave it as it is.
    Leave,
    /// Write these bytes.
    Write(Vec<u8>),
    /// Write these bytes, which are deleted after that long.
    WriteFor(Vec<u8>, Duration),
    /// Delete it.
    Delete,
}

/// A few bytes under a name, with a version. Made by [`Store::cell`].
#[derive(Clone, Debug)]
pub struct Cell {
    store: Store,
    name: Vec<u8>,
    canceller: Option<Canceller>,
}

impl Store {
    /// The cell of this name, which need not exist.
    pub fn cell(&self, name: impl AsRef<[u8]>) -> Cell {
        Cell {
            store: self.clone(),
            name: name.as_ref().to_vec(),
            canceller: None,
        }
    }
}

/// The arguments of a call, in memory of its own.
struct Args {
    store: Store,
    name: Vec<u8>,
    bytes: Vec<u8>,
    ttl: i64,
    version: u64,
    wait: i64,
    canceller: Option<Canceller>,
}

impl Args {
    fn raw(&self) -> sys::hf_cell_request {
        let mut raw = sys::hf_cell_request::init();
        raw.name = bytes_ptr(&self.name);
        raw.name_len = self.name.len();
        raw.bytes = bytes_ptr(&self.bytes);
        raw.len = self.bytes.len();
        raw.ttl_ms = self.ttl;
        raw.version = self.version;
        raw.wait_ms = self.wait;
        raw.cancel = cancel::raw(&self.canceller);
        raw
    }
}

impl Cell {
    fn args(&self) -> Args {
        Args {
            store: self.store.clone(),
            name: self.name.clone(),
            bytes: Vec::new(),
            ttl: 0,
            version: 0,
            wait: 0,
            canceller: self.canceller.clone(),
        }
    }

    fn write(&self, bytes: &[u8], ttl: Option<Duration>, version: u64) -> Args {
        let ttl = ttl.map_or(0, millis);
        Args {
            bytes: bytes.to_vec(),
            ttl,
            version,
            ..self.args()
        }
    }

    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Cell {
        self.canceller = Some(canceller.clone());
        self
    }

    /// Read it; `None`: there is none.
    pub fn get(&self) -> Result<Option<CellValue>> {
        let mut cell = sys::hf_cell::init();
        call(|err| unsafe {
            sys::hf_cell_get(
                self.store.raw(),
                bytes_ptr(&self.name),
                self.name.len(),
                &mut cell,
                err,
            )
        })
        .map(|()| unsafe { CellValue::from_raw(&cell) })
        .unless(Status::NotFound)
    }

    /// [`get`](Cell::get) without blocking.
    pub fn get_async(&self) -> Op<'static, Option<CellValue>> {
        let args = self.args();
        Op::new(
            &self.store,
            move |b| unsafe {
                let (name, len) = (bytes_ptr(&args.name), args.name.len());
                sys::hf_cell_get_async(args.store.raw(), name, len, b.done, b.arg, b.op, b.err)
            },
            CellValue::from_result,
        )
    }

    /// Write it, whatever is there. `ttl`: it is deleted after that long. Returns the new version.
    pub fn set(&self, bytes: impl AsRef<[u8]>, ttl: Option<Duration>) -> Result<u64> {
        let (args, mut version) = (self.write(bytes.as_ref(), ttl, 0), 0);
        call(|err| unsafe { sys::hf_cell_set(self.store.raw(), &args.raw(), &mut version, err) })?;
        Ok(version)
    }

    /// [`set`](Cell::set) without blocking.
    pub fn set_async(&self, bytes: impl AsRef<[u8]>, ttl: Option<Duration>) -> Op<'static, u64> {
        let args = self.write(bytes.as_ref(), ttl, 0);
        Op::new(
            &self.store,
            move |b| unsafe {
                sys::hf_cell_set_async(args.store.raw(), &args.raw(), b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| result.version),
        )
    }

    /// Write it if it still has `version` (0: if there is none). Returns the new version; `None`: it
    /// was changed, and nothing was done.
    pub fn swap(
        &self,
        version: u64,
        bytes: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Result<Option<u64>> {
        let (args, mut new) = (self.write(bytes.as_ref(), ttl, version), 0);
        call(|err| unsafe { sys::hf_cell_swap(self.store.raw(), &args.raw(), &mut new, err) })
            .map(|()| new)
            .unless(Status::Changed)
    }

    /// [`swap`](Cell::swap) without blocking.
    pub fn swap_async(
        &self,
        version: u64,
        bytes: impl AsRef<[u8]>,
        ttl: Option<Duration>,
    ) -> Op<'static, Option<u64>> {
        let args = self.write(bytes.as_ref(), ttl, version);
        Op::new(
            &self.store,
            move |b| unsafe {
                sys::hf_cell_swap_async(args.store.raw(), &args.raw(), b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| result.version).unless(Status::Changed),
        )
    }

    /// Delete it if it still has `version`. `false`: it has another one, or does not exist.
    pub fn delete(&self, version: u64) -> Result<bool> {
        call(|err| unsafe {
            let (name, len) = (bytes_ptr(&self.name), self.name.len());
            sys::hf_cell_delete(self.store.raw(), name, len, version, err)
        })
        .unless(Status::Changed)
        .map(|done| done.is_some())
    }

    /// [`delete`](Cell::delete) without blocking.
    pub fn delete_async(&self, version: u64) -> Op<'static, bool> {
        let args = self.args();
        Op::new(
            &self.store,
            move |b| unsafe {
                let (name, len) = (bytes_ptr(&args.name), args.name.len());
                let store = args.store.raw();
                sys::hf_cell_delete_async(store, name, len, version, b.done, b.arg, b.op, b.err)
            },
            |result| {
                ok(result)
                    .unless(Status::Changed)
                    .map(|done| done.is_some())
            },
        )
    }

    /// Wait until its version is not `version`. Returns the present one; 0: there is none.
    pub fn wait(&self, version: u64, wait: impl Into<Wait>) -> Result<u64> {
        let args = Args {
            version,
            wait: wait.into().millis(),
            ..self.args()
        };
        let mut present = 0;
        call(|err| unsafe { sys::hf_cell_wait(self.store.raw(), &args.raw(), &mut present, err) })?;
        Ok(present)
    }

    /// [`wait`](Cell::wait) without blocking.
    pub fn wait_async(&self, version: u64, wait: impl Into<Wait>) -> Op<'static, u64> {
        let args = Args {
            version,
            wait: wait.into().millis(),
            ..self.args()
        };
        let canceller = args.canceller.clone();
        Op::new(
            &self.store,
            move |b| unsafe {
                sys::hf_cell_wait_async(args.store.raw(), &args.raw(), b.done, b.arg, b.op, b.err)
            },
            move |result| {
                let _until_now = canceller;
                ok(result).map(|()| result.version)
            },
        )
    }

    /// Read, let `decide` say what to do, and do it if nobody else wrote in the meantime; else again.
    /// So `decide` may be called several times, and only its last answer counts. Returns the version
    /// that the cell has then; 0: none.
    pub fn update(
        &self,
        wait: impl Into<Wait>,
        decide: impl FnMut(Option<&CellValue>) -> CellAction,
    ) -> Result<u64> {
        let args = Args {
            wait: wait.into().millis(),
            ..self.args()
        };
        let mut update = Update {
            decide,
            bytes: Vec::new(),
            panic: None,
        };
        let mut raw = args.raw();
        raw.r#fn = Some(updated(&update));
        raw.fn_arg = (&mut update as *mut Update<_>).cast();
        let mut version = 0;
        let result =
            call(|err| unsafe { sys::hf_cell_update(self.store.raw(), &raw, &mut version, err) });
        if let Some(panic) = update.panic {
            resume_unwind(panic);
        }
        result.map(|()| version)
    }

    /// [`update`](Cell::update) without blocking: `decide` runs on the thread of the driver. If it
    /// panics, the call ends with [`Status::Internal`].
    pub fn update_async(
        &self,
        wait: impl Into<Wait>,
        decide: impl FnMut(Option<&CellValue>) -> CellAction + Send + 'static,
    ) -> Op<'static, u64> {
        let args = Args {
            wait: wait.into().millis(),
            ..self.args()
        };
        let canceller = args.canceller.clone();
        // Both the beginning and the end need it, and C has its address in between.
        let update = Arc::new(Mutex::new(Update {
            decide,
            bytes: Vec::new(),
            panic: None,
        }));
        let kept = update.clone();
        Op::new(
            &self.store,
            move |b| {
                let mut raw = args.raw();
                raw.r#fn = Some(updated_shared(&update));
                raw.fn_arg = Arc::as_ptr(&update) as *mut c_void;
                let store = args.store.raw();
                unsafe { sys::hf_cell_update_async(store, &raw, b.done, b.arg, b.op, b.err) }
            },
            move |result| {
                let _until_now = (kept, canceller);
                ok(result).map(|()| result.version)
            },
        )
    }
}

/// The argument of a callback of hf_cell_update().
struct Update<F> {
    decide: F,
    bytes: Vec<u8>, // what was decided last: C copies it after the callback has returned
    panic: Option<Box<dyn Any + Send>>,
}

impl<F: FnMut(Option<&CellValue>) -> CellAction> Update<F> {
    unsafe fn run(
        &mut self,
        old: *const sys::hf_cell,
        change: *mut sys::hf_cell_change,
        of_loop: bool,
    ) -> sys::hf_status {
        let _inside = Callback::enter(of_loop);
        let old = old
            .as_ref()
            .filter(|old| old.version != 0)
            .map(|old| CellValue::copy(old));
        let action = match catch_unwind(AssertUnwindSafe(|| (self.decide)(old.as_ref()))) {
            Ok(action) => action,
            Err(panic) => {
                self.panic = Some(panic);
                return sys::HF_INTERNAL;
            }
        };
        let change = &mut *change;
        let (bytes, ttl) = match action {
            CellAction::Leave => return sys::HF_OK,
            CellAction::Delete => {
                change.action = sys::HF_CELL_ACTION_DELETE;
                return sys::HF_OK;
            }
            CellAction::Write(bytes) => (bytes, 0),
            CellAction::WriteFor(bytes, ttl) => (bytes, millis(ttl)),
        };
        self.bytes = bytes;
        change.action = sys::HF_CELL_ACTION_WRITE;
        change.bytes = bytes_ptr(&self.bytes);
        change.len = self.bytes.len();
        change.ttl_ms = ttl;
        sys::HF_OK
    }
}

fn updated<F: FnMut(Option<&CellValue>) -> CellAction>(_: &Update<F>) -> sys::hf_cell_fn {
    unsafe extern "C" fn run<F: FnMut(Option<&CellValue>) -> CellAction>(
        old: *const sys::hf_cell,
        change: *mut sys::hf_cell_change,
        arg: *mut c_void,
    ) -> sys::hf_status {
        (*arg.cast::<Update<F>>()).run(old, change, false)
    }
    run::<F>
}

fn updated_shared<F: FnMut(Option<&CellValue>) -> CellAction>(
    _: &Arc<Mutex<Update<F>>>,
) -> sys::hf_cell_fn {
    unsafe extern "C" fn run<F: FnMut(Option<&CellValue>) -> CellAction>(
        old: *const sys::hf_cell,
        change: *mut sys::hf_cell_change,
        arg: *mut c_void,
    ) -> sys::hf_status {
        lock(&*arg.cast::<Mutex<Update<F>>>()).run(old, change, true)
    }
    run::<F>
}
