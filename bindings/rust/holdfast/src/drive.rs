// SPDX-License-Identifier: MIT
//! Driving a store: somebody waits for its descriptor and runs what is due.
use crate::event::lock;
use crate::orphans::tend;
use crate::store::Inner;
use crate::{sys, Error, Result, Status, Store};
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::task::Waker;
use std::time::{Duration, Instant};

/// What a store knows about its driver.
pub(crate) struct Drive {
    attached: AtomicBool,
    /// Told when a call has begun: the timeout may be another one now.
    waker: Mutex<Option<Waker>>,
    /// Calls that nobody waits for: releases of dropped guards, and calls whose future was dropped.
    unattended: AtomicUsize,
    /// A thread takes care of them, because there is no driver.
    tended: AtomicBool,
    /// Threads that are in hf_store_process(), and how often one has left it.
    processing: AtomicUsize,
    processed: AtomicUsize,
    /// The tasks that wait, so that each may start another driver if the present one ends with its
    /// runtime.
    #[cfg(feature = "tokio")]
    waiting: Mutex<std::collections::HashMap<usize, Waker>>,
}

impl Drive {
    pub(crate) fn new() -> Drive {
        Drive {
            attached: AtomicBool::new(false),
            waker: Mutex::new(None),
            unattended: AtomicUsize::new(0),
            tended: AtomicBool::new(false),
            processing: AtomicUsize::new(0),
            processed: AtomicUsize::new(0),
            #[cfg(feature = "tokio")]
            waiting: Mutex::new(std::collections::HashMap::new()),
        }
    }

    /// From now on nobody waits for a call.
    pub(crate) fn leave_alone(&self) {
        self.unattended.fetch_add(1, Ordering::SeqCst);
    }

    /// Such a call is done.
    pub(crate) fn is_done(&self) {
        self.unattended.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn has_unattended(&self) -> bool {
        self.unattended.load(Ordering::SeqCst) > 0
    }

    /// There are such calls, and no driver.
    pub(crate) fn has_orphans(&self) -> bool {
        self.has_unattended() && !self.attached.load(Ordering::SeqCst)
    }

    /// True: the caller takes care of them from now on.
    pub(crate) fn begin_tending(&self) -> bool {
        self.has_orphans() && !self.tended.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn end_tending(&self) {
        self.tended.store(false, Ordering::SeqCst);
    }

    /// A call is pending in C until its callback has returned, which another thread may be running.
    pub(crate) fn wait_for_callbacks(&self) {
        let before = self.processed.load(Ordering::SeqCst);
        let inside = self.processing.load(Ordering::SeqCst);
        while self.processing.load(Ordering::SeqCst) > 0
            && self.processed.load(Ordering::SeqCst).wrapping_sub(before) < inside
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A call has begun, or something else has changed that the driver should know.
    pub(crate) fn nudge(&self) {
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn set_waker(&self, waker: Option<&Waker>) {
        let mut present = lock(&self.waker);
        match (present.as_ref(), waker) {
            (Some(old), Some(new)) if old.will_wake(new) => (),
            _ => *present = waker.cloned(),
        }
    }

    /// True: the caller is the driver from now on.
    pub(crate) fn attach(&self) -> bool {
        !self.attached.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn detach(&self) {
        self.set_waker(None);
        self.attached.store(false, Ordering::SeqCst);
        #[cfg(feature = "tokio")]
        {
            let waiting = std::mem::take(&mut *lock(&self.waiting));
            waiting.into_iter().for_each(|(_, waker)| waker.wake());
        }
    }

    /// With the feature `tokio`, and in a runtime: see that the store has a driver.
    #[cfg(feature = "tokio")]
    pub(crate) fn ensure(&self, store: &Store) -> Result<()> {
        if self.attached.load(Ordering::Acquire) {
            return Ok(());
        }
        crate::tokio_driver::spawn(store)
    }

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn ensure(&self, _store: &Store) -> Result<()> {
        Ok(())
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn remember(&self, key: usize, waker: &Waker) {
        lock(&self.waiting).insert(key, waker.clone());
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn forget(&self, key: usize) {
        lock(&self.waiting).remove(&key);
    }

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn remember(&self, _key: usize, _waker: &Waker) {}

    #[cfg(not(feature = "tokio"))]
    pub(crate) fn forget(&self, _key: usize) {}
}

/// The steps of an event loop for one store.
impl Inner {
    pub(crate) fn fd(&self) -> Result<RawFd> {
        let fd = unsafe { sys::hf_store_fd(self.handle) };
        if fd < 0 {
            return Err(Error::new(Status::Invalid, "the store has no descriptor: it is closed, of the parent process, or no descriptor is left"));
        }
        Ok(fd)
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        let millis = unsafe { sys::hf_store_timeout_ms(self.handle) };
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    pub(crate) fn process(&self) -> Result<()> {
        self.drive.processing.fetch_add(1, Ordering::SeqCst);
        let status = unsafe { sys::hf_store_process(self.handle) };
        self.drive.processed.fetch_add(1, Ordering::SeqCst);
        self.drive.processing.fetch_sub(1, Ordering::SeqCst);
        match status {
            sys::HF_OK => Ok(()),
            status => Err(Error::from_status(status)),
        }
    }

    /// Until something may be due, at most until `end`.
    pub(crate) fn turn(&self, end: Option<Instant>) -> Result<()> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = match (self.timeout(), left) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd()?) };
        poll_readable(&fd, timeout);
        self.process()
    }

    /// A copy of the descriptor, which stays good when the store closes its own.
    pub(crate) fn fd_copy(&self) -> Result<OwnedFd> {
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd()?) };
        fd.try_clone_to_owned()
            .map_err(|error| Error::new(Status::Unavailable, error.to_string()))
    }
}

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

/// poll(2): is it readable within `timeout` (`None`: no limit)?
pub(crate) fn poll_readable(fd: &impl AsRawFd, timeout: Option<Duration>) -> bool {
    const POLLIN: c_short = 1;
    let millis = timeout.map_or(-1, |timeout| {
        c_int::try_from(crate::input::millis(timeout)).unwrap_or(c_int::MAX)
    });
    let mut slot = PollFd {
        fd: fd.as_raw_fd(),
        events: POLLIN,
        revents: 0,
    };
    unsafe { poll(&mut slot, 1, millis) > 0 }
}

/// Drives one store from an event loop of the caller's own: wait until the descriptor is readable or
/// the timeout has passed, then call [`process`](Driver::process).
///
/// While a `Driver` lives, the feature `tokio` does not start a driver of its own for that store.
///
/// ```
/// use std::future::Future;
/// use std::sync::Arc;
/// use std::task::{Context, Poll, Wake};
///
/// struct Nothing;
/// impl Wake for Nothing {
///     fn wake(self: Arc<Self>) {}
/// }
///
/// # fn main() -> holdfast::Result<()> {
/// # let folder = std::env::temp_dir().join(format!("hf-doc-driver-{}", std::process::id()));
/// # let url = format!("file:{}", folder.display());
/// let store = holdfast::Store::open(&url)?;
/// let driver = store.driver()?;
/// let waker = Arc::new(Nothing).into();
/// let mut context = Context::from_waker(&waker);
/// let mut future = Box::pin(store.mutex("job").acquire_async());
/// let lease = loop {
///     match future.as_mut().poll(&mut context) {
///         Poll::Ready(lease) => break lease?,
///         Poll::Pending => driver.turn(None)?,
///     }
/// };
/// assert!(lease.is_valid());
/// # drop(lease);
/// # store.close_and_release()?;
/// # let _ = std::fs::remove_dir_all(folder);
/// # Ok(()) }
/// ```
pub struct Driver {
    store: Store,
}

impl Driver {
    pub(crate) fn new(store: &Store) -> Result<Driver> {
        store.inner.fd()?;
        if !store.inner.drive.attach() {
            return Err(Error::new(Status::InUse, "the store has a driver"));
        }
        Ok(Driver {
            store: store.clone(),
        })
    }

    /// The descriptor to wait for; it belongs to the store.
    pub fn fd(&self) -> Result<RawFd> {
        self.store.inner.fd()
    }

    /// How long to wait for it at most; `None`: no limit. It may change whenever a call begins.
    pub fn timeout(&self) -> Option<Duration> {
        self.store.inner.timeout()
    }

    /// Run what is due, on this thread. It does not block.
    pub fn process(&self) -> Result<()> {
        self.store.inner.process()
    }

    /// One turn of a loop that has nothing else to do: wait, at most for `limit`, and process.
    pub fn turn(&self, limit: Option<Duration>) -> Result<()> {
        self.store
            .inner
            .turn(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Wake this when a call has begun on another thread, so that the loop asks for the timeout
    /// again.
    pub fn set_waker(&self, waker: &Waker) {
        self.store.inner.drive.set_waker(Some(waker));
    }
}

impl AsRawFd for Driver {
    fn as_raw_fd(&self) -> RawFd {
        self.store.inner.fd().unwrap_or(-1)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.store.inner.drive.detach();
        tend(&self.store.inner);
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Driver")
    }
}
