// SPDX-License-Identifier: MIT
//! Stores: opening, closing and what they can do.
use crate::callback::Callback;
use crate::drive::{Drive, Driver};
use crate::error::call;
use crate::info::StoreInfo;
use crate::input::{c_ptr, c_text, millis};
use crate::{sys, Error, Result, Status};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A store of locks. It is cheap to clone, and all clones are the same store: any thread and any task
/// may use them at the same time.
///
/// It closes when the last clone, lease and future of it is gone. That blocks for a round trip, and
/// releases what is still held.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) handle: *mut sys::hf_store,
    closed: AtomicBool,
    pub(crate) drive: Drive,
}

// A handle is a number, and all calls may be made by any thread at any time.
unsafe impl Send for Inner {}
unsafe impl Sync for Inner {}

/// How to open a store.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct OpenOptions {
    wait: Option<Duration>,
    label: Option<String>,
    flags: u64,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Give up opening after this; the default is five seconds.
    pub fn wait(mut self, limit: Duration) -> OpenOptions {
        self.wait = Some(limit);
        self
    }

    /// Who we are, for people; the default names host, process, user and program.
    pub fn label(mut self, label: impl Into<String>) -> OpenOptions {
        self.label = Some(label.into());
        self
    }

    fn flag(mut self, flag: u64, on: bool) -> OpenOptions {
        self.flags = if on {
            self.flags | flag
        } else {
            self.flags & !flag
        };
        self
    }

    /// Use only what exists: create no file and no table.
    pub fn existing(self, on: bool) -> OpenOptions {
        self.flag(sys::HF_OPEN_FLAG_EXISTING, on)
    }

    /// Try each address of the server once, instead of until the time is over.
    pub fn once(self, on: bool) -> OpenOptions {
        self.flag(sys::HF_OPEN_FLAG_ONCE, on)
    }

    /// Do not wait for the server: calls wait for the connection.
    pub fn no_wait(self, on: bool) -> OpenOptions {
        self.flag(sys::HF_OPEN_FLAG_NO_WAIT, on)
    }

    /// Open the store at `url`, or that of a profile, as [`Store::open`] does.
    pub fn open(&self, url: impl AsRef<str>) -> Result<Store> {
        let url = CString::new(url.as_ref())
            .map_err(|_| Error::new(Status::Config, "the URL has a NUL in it"))?;
        self.open_at(url.as_ptr())
    }

    /// Open the store that the command uses without `-S`, as [`Store::open_default`] does.
    pub fn open_default(&self) -> Result<Store> {
        self.open_at(std::ptr::null())
    }

    fn open_at(&self, url: *const std::os::raw::c_char) -> Result<Store> {
        let label = self
            .label
            .as_ref()
            .map(|label| c_text("label", label))
            .transpose()?;
        let mut options = sys::hf_open_options::init();
        options.open_wait_ms = self.wait.map_or(0, |wait| millis(wait).max(1));
        options.label = c_ptr(&label);
        options.flags = self.flags;
        let mut handle = std::ptr::null_mut();
        call(|err| unsafe { sys::hf_open(url, &options, &mut handle, err) })?;
        let inner = Inner {
            handle,
            closed: AtomicBool::new(false),
            drive: Drive::new(),
        };
        Ok(Store {
            inner: Arc::new(inner),
        })
    }
}

impl Store {
    /// Open the store at `url`: `file:/path`, `redis://host` and so on, or the name of a profile.
    /// `""` is an error. Blocks for up to five seconds.
    pub fn open(url: impl AsRef<str>) -> Result<Store> {
        OpenOptions::new().open(url)
    }

    /// Open the store that the command `holdfast` uses without `-S`: that of the variable
    /// HOLDFAST_STORE, else of the `default` of the configuration file, else the user's own embedded
    /// store. [`StoreInfo::source`] says which of these it was.
    pub fn open_default() -> Result<Store> {
        OpenOptions::new().open_default()
    }

    /// How to open a store in another way than [`open`](Store::open) does.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Close it for all clones. [`Status::InUse`]: leases are held or calls are pending, and it stays
    /// open.
    ///
    /// Not in a callback (an event handler, say): there it is [`Status::Invalid`].
    pub fn close(&self) -> Result<()> {
        match self.inner.close(0) {
            Err(error) if error.status() == Status::InUse => {
                self.inner.finish_unattended()?;
                self.inner.close(0)
            }
            other => other,
        }
    }

    /// Close it for all clones: waiting calls end with [`Status::Cancelled`], leases become lost and
    /// are released.
    pub fn close_and_release(&self) -> Result<()> {
        self.inner.close(sys::HF_CLOSE_FLAG_RELEASE)
    }

    /// What this store is, and what it can do.
    pub fn info(&self) -> Result<StoreInfo> {
        let mut info = sys::hf_store_info::init();
        match unsafe { sys::hf_store_get(self.inner.handle, &mut info) } {
            sys::HF_OK => Ok(unsafe { StoreInfo::from_raw(&info) }),
            status => Err(Error::from_status(status)),
        }
    }

    /// Drive it from an event loop of the caller's own. [`Status::InUse`]: it has a driver.
    pub fn driver(&self) -> Result<Driver> {
        Driver::new(self)
    }

    /// Give back all idle leases ([`Request::linger`](crate::Request::linger)), before `exec` say.
    pub fn release_idle(&self) -> Result<()> {
        call(|err| unsafe { sys::hf_idle_release(self.inner.handle, err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::hf_store {
        self.inner.handle
    }
}

impl Inner {
    fn close(&self, flags: u64) -> Result<()> {
        if Callback::is_running() {
            return Err(Error::new(
                Status::Invalid,
                "a store cannot be closed in a callback",
            ));
        }
        match unsafe { sys::hf_close(self.handle, flags) } {
            sys::HF_OK => {
                self.closed.store(true, Ordering::Release);
                self.drive.nudge(); // so that a driver task ends
                Ok(())
            }
            status => Err(Error::from_status(status)),
        }
    }

    /// What tasks have dropped, guards and futures, may have left calls behind that are pending. Wait
    /// until they are done.
    fn finish_unattended(&self) -> Result<()> {
        // A driver may take the event that we wait for, so look again after a while.
        let pause = Duration::from_millis(10);
        while self.drive.has_unattended() {
            self.turn(Some(std::time::Instant::now() + pause))?;
        }
        self.drive.wait_for_callbacks();
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        if !Callback::is_running() {
            let status = unsafe { sys::hf_close(self.handle, sys::HF_CLOSE_FLAG_RELEASE) };
            // In a child process a thread that is not here may hold the locks of the driver.
            if status != sys::HF_FORKED {
                self.drive.nudge();
            }
            return;
        }
        // The last user was a lease in an event handler, or one that nobody waited for any more.
        let handle = self.handle as usize;
        let _ = std::thread::Builder::new()
            .name("holdfast-close".into())
            .spawn(move || unsafe {
                sys::hf_close(handle as *mut sys::hf_store, sys::HF_CLOSE_FLAG_RELEASE)
            });
        self.drive.nudge();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.info() {
            Ok(info) => f.debug_tuple("Store").field(&info.location).finish(),
            Err(_) => f.write_str("Store(closed)"),
        }
    }
}
