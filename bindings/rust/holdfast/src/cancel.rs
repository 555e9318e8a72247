// SPDX-License-Identifier: MIT
//! Ending a wait from another thread.
use crate::{sys, Error, Result};
use std::sync::Arc;

/// Ends the waiting of every request that names it. One canceller may serve many requests; fired
/// once, it stays fired. Futures need none: dropping one cancels it.
///
/// ```no_run
/// # fn main() -> holdfast::Result<()> {
/// # let store = holdfast::Store::open_default()?;
/// let canceller = holdfast::Canceller::new()?;
/// let stop = canceller.clone();
/// std::thread::spawn(move || stop.fire());
/// match store.mutex("job").canceller(&canceller).acquire() {
///     Err(error) if error.status() == holdfast::Status::Cancelled => println!("stopped"),
///     other => drop(other?),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Canceller(Arc<Handle>);

struct Handle(*mut sys::hf_cancel);

// A handle is a number, and any thread may use it.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Canceller {
    /// A canceller that has not been fired.
    pub fn new() -> Result<Canceller> {
        let mut cancel = std::ptr::null_mut();
        match unsafe { sys::hf_cancel_open(&mut cancel) } {
            sys::HF_OK => Ok(Canceller(Arc::new(Handle(cancel)))),
            status => Err(Error::from_status(status)),
        }
    }

    /// End the waiting of every request that names it, from any thread.
    pub fn fire(&self) -> Result<()> {
        match unsafe { sys::hf_cancel_fire(self.0 .0) } {
            sys::HF_OK => Ok(()),
            status => Err(Error::from_status(status)),
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::hf_cancel {
        self.0 .0
    }
}

pub(crate) fn raw(canceller: &Option<Canceller>) -> *mut sys::hf_cancel {
    canceller
        .as_ref()
        .map_or(std::ptr::null_mut(), Canceller::raw)
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Every call that names it keeps a clone until it is done, so it is not in use.
        unsafe { sys::hf_cancel_close(self.0) };
    }
}

impl std::fmt::Debug for Canceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Canceller")
    }
}
