// SPDX-License-Identifier: MIT
//! Leases: guards of what was granted.
use crate::callback::Callback;
use crate::ending::{end_in_background, end_now};
use crate::error::{call, Room};
use crate::event::SinkKey;
use crate::input::{duration, duration_unless_zero, millis};
use crate::op::{ok, Begin, Op};
use crate::store::Inner;
use crate::{sys, Canceller, Error, Result, Status, Store, Wait};
use std::future::Future;
use std::os::raw::c_char;
use std::os::unix::io::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// What is held. Dropping it releases it.
///
/// A lease owns a share of its store instead of borrowing it, so it may move to another thread or
/// into a spawned task, and the store stays open for as long as it lives. A lease that another
/// thread will release should be requested with
/// [`no_deadlock_check`](crate::Request::no_deadlock_check).
///
/// Dropping a lease that was acquired by a blocking call blocks for a round trip. Dropping one that a
/// future has returned begins the release and does not block. A release that fails then is told to
/// the hook of [`set_release_hook`](crate::set_release_hook); [`release`](Lease::release) returns its result.
///
/// A lease cannot be used after its release:
///
/// ```compile_fail,E0382
/// # fn f(lease: holdfast::Lease) {
/// lease.release().unwrap();
/// lease.token();
/// # }
/// ```
///
/// It has one owner:
///
/// ```compile_fail,E0599
/// # fn f(lease: holdfast::Lease) {
/// let second: holdfast::Lease = lease.clone();
/// # }
/// ```
#[must_use = "a lease that is not bound to a variable is released at once"]
pub struct Lease {
    pub(crate) core: Arc<Core>,
}

/// What a lease shares with calls that are under way for it.
pub(crate) struct Core {
    pub(crate) store: Store,
    /// NULL: it has ended. A conversion or a yield puts another one in its place.
    handle: AtomicPtr<sys::hf_lease>,
    sink: Option<Arc<SinkKey>>,
    /// It came from a future: its end must not block.
    asynchronous: bool,
}

/// Held, at risk or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is held.
    Held,
    /// It is held, but a renewal was not confirmed.
    AtRisk,
    /// It is lost, or has ended.
    Lost,
}

impl State {
    fn from_raw(state: sys::hf_state) -> State {
        match state {
            sys::HF_STATE_HELD => State::Held,
            sys::HF_STATE_AT_RISK => State::AtRisk,
            _ => State::Lost,
        }
    }
}

/// What a lease is a lease of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// The reader of a read-write lock.
    Shared,
    /// The writer of a read-write lock.
    Exclusive,
    /// Permits of a semaphore.
    Semaphore,
    /// The one reader of a read-write lock that may become the writer.
    Upgradeable,
}

impl Kind {
    pub(crate) fn from_raw(kind: sys::hf_kind) -> Kind {
        match kind {
            sys::HF_KIND_SHARED => Kind::Shared,
            sys::HF_KIND_EXCLUSIVE => Kind::Exclusive,
            sys::HF_KIND_SEMAPHORE => Kind::Semaphore,
            sys::HF_KIND_UPGRADEABLE => Kind::Upgradeable,
            _ => Kind::Mutex,
        }
    }

    pub(crate) fn raw(self) -> sys::hf_kind {
        match self {
            Kind::Mutex => sys::HF_KIND_MUTEX,
            Kind::Shared => sys::HF_KIND_SHARED,
            Kind::Exclusive => sys::HF_KIND_EXCLUSIVE,
            Kind::Semaphore => sys::HF_KIND_SEMAPHORE,
            Kind::Upgradeable => sys::HF_KIND_UPGRADEABLE,
        }
    }
}

/// All about a lease, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// Its token; 0 where the engine has none.
    pub token: u64,
    /// Held, at risk or lost.
    pub state: State,
    /// The hold count of a reentrant lease, else 1.
    pub holds: u32,
    /// Validity left; `None`: no limit.
    pub remaining: Option<Duration>,
    /// Since it was granted to us.
    pub age: Duration,
    /// What each renewal gives; `None`: it has no ttl.
    pub ttl: Option<Duration>,
    /// The name.
    pub name: Vec<u8>,
    /// Others wait for it ([`Request::watch`](crate::Request::watch)).
    pub wanted: bool,
    /// How often somebody asked for it.
    pub asks: u32,
    /// What it is.
    pub kind: Kind,
    /// The numbers of its permits ([`Request::numbered`](crate::Request::numbered)).
    pub slots: Vec<u32>,
}

/// What became of a lease that was offered to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yielded {
    /// Nobody waits for it: it stayed.
    Kept,
    /// It was given away and is ours again, with a new token: what it protects may have changed.
    Regained,
}

fn remaining(millis: i64) -> Option<Duration> {
    Some(millis)
        .filter(|&millis| millis != i64::MAX)
        .map(duration)
}

impl Core {
    pub(crate) fn raw(&self) -> *mut sys::hf_lease {
        self.handle.load(Ordering::Acquire)
    }

    /// Take the handle, so that only one caller ends it.
    fn take(&self) -> *mut sys::hf_lease {
        self.handle.swap(std::ptr::null_mut(), Ordering::AcqRel)
    }

    /// A call has replaced `old` by `new` (NULL: nothing is held). If the guard was dropped
    /// meanwhile, `new` is given back.
    fn replace(&self, old: *mut sys::hf_lease, new: *mut sys::hf_lease) {
        let swapped = self
            .handle
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !swapped && !new.is_null() {
            end_in_background(&self.store.inner, new, None);
        }
    }
}

/// A handle for closures that another thread may run. It is a number.
#[derive(Clone, Copy)]
struct Raw(*mut sys::hf_lease);
unsafe impl Send for Raw {}

impl Raw {
    /// A method, so that a closure captures the whole of it.
    fn get(self) -> *mut sys::hf_lease {
        self.0
    }
}

impl Lease {
    pub(crate) fn new(
        store: Store,
        handle: *mut sys::hf_lease,
        sink: Option<Arc<SinkKey>>,
        asynchronous: bool,
    ) -> Lease {
        let handle = AtomicPtr::new(handle);
        Lease {
            core: Arc::new(Core {
                store,
                handle,
                sink,
                asynchronous,
            }),
        }
    }

    /// In `done`: the lease of a result. Without a store, which is being closed, nothing is held.
    pub(crate) fn granted(
        store: &Weak<Inner>,
        handle: *mut sys::hf_lease,
        sink: Option<Arc<SinkKey>>,
    ) -> Result<Lease> {
        match store.upgrade() {
            Some(inner) => Ok(Lease::new(Store { inner }, handle, sink, true)),
            None => {
                unsafe { sys::hf_release(handle, std::ptr::null_mut()) };
                Err(Error::new(Status::Cancelled, "the store is being closed"))
            }
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::hf_lease {
        self.core.raw()
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.core.store
    }

    /// Its token: a fence for an exclusive lease, an id for others. 0 where the engine has none.
    pub fn token(&self) -> u64 {
        unsafe { sys::hf_lease_token(self.raw()) }
    }

    /// The token as a fence for guarded resources. [`Status::Unsupported`]: the lease is one of
    /// several that may overlap. [`Status::Lost`]: too late to begin.
    pub fn fence(&self) -> Result<u64> {
        let mut token = 0;
        call(|err| unsafe { sys::hf_lease_fence(self.raw(), &mut token, err) })?;
        Ok(token)
    }

    /// Held, at risk or lost.
    pub fn state(&self) -> State {
        State::from_raw(unsafe { sys::hf_lease_state(self.raw()) })
    }

    /// Validity left: `None` is no limit, zero is lost.
    pub fn remaining(&self) -> Option<Duration> {
        remaining(unsafe { sys::hf_lease_remaining_ms(self.raw()) })
    }

    /// Is there validity left?
    pub fn is_valid(&self) -> bool {
        unsafe { sys::hf_lease_remaining_ms(self.raw()) > 0 }
    }

    /// Do others wait for it ([`Request::watch`](crate::Request::watch))?
    pub fn is_wanted(&self) -> bool {
        unsafe { sys::hf_lease_wanted(self.raw()) }
    }

    /// All about it, at one moment.
    pub fn info(&self) -> Result<LeaseInfo> {
        let mut info = sys::hf_lease_info::init();
        match unsafe { sys::hf_lease_get(self.raw(), &mut info) } {
            sys::HF_OK => (),
            status => return Err(Error::from_status(status)),
        }
        Ok(LeaseInfo {
            token: info.token,
            state: State::from_raw(info.state),
            holds: info.holds,
            remaining: remaining(info.remaining_ms),
            age: duration(info.age_ms),
            ttl: duration_unless_zero(info.ttl_ms),
            name: info.name[..info.name_len.min(info.name.len())].to_vec(),
            wanted: info.wanted,
            asks: info.asks,
            kind: Kind::from_raw(info.kind),
            slots: info.slots[..(info.slot_count as usize).min(info.slots.len())].to_vec(),
        })
    }

    /// A descriptor that is readable when an event has happened since the last
    /// [`info`](Lease::info), and always once the lease is lost. It belongs to the lease.
    pub fn events_fd(&self) -> Result<RawFd> {
        match unsafe { sys::hf_lease_fd(self.raw()) } {
            fd if fd >= 0 => Ok(fd),
            _ => Err(Error::new(Status::Invalid, "the lease has no descriptor")),
        }
    }

    /// Renew it now; `None`: for as long as before.
    pub fn renew(&self, ttl: Option<Duration>) -> Result<()> {
        let ttl = ttl.map_or(0, millis);
        call(|err| unsafe { sys::hf_renew(self.raw(), ttl, err) })
    }

    /// [`renew`](Lease::renew) without blocking.
    pub fn renew_async(&self, ttl: Option<Duration>) -> Op<'static, ()> {
        let (core, ttl) = (self.core.clone(), ttl.map_or(0, millis));
        Op::new(
            self.store(),
            move |b| unsafe { sys::hf_renew_async(core.raw(), ttl, b.done, b.arg, b.op, b.err) },
            ok,
        )
    }

    /// Release it, and say whether that worked. [`Status::Lost`]: it was lost before.
    /// [`Status::Unknown`], [`Status::Unavailable`]: the library goes on trying in the background. In
    /// every case it is no longer ours.
    pub fn release(self) -> Result<()> {
        let handle = self.core.take();
        call(|err| unsafe { sys::hf_release(handle, err) })
    }

    /// [`release`](Lease::release) without blocking. Dropping the future releases all the same.
    pub fn release_async(self) -> Op<'static, ()> {
        self.end_op(
            |lease, b| unsafe { sys::hf_release_async(lease, b.done, b.arg, b.op, b.err) },
            None,
        )
    }

    /// A call that ends the lease if it begins. If it does not, the lease is released by its drop.
    pub(crate) fn end_op(
        self,
        begin: impl FnOnce(*mut sys::hf_lease, &Begin) -> sys::hf_status + Send + 'static,
        canceller: Option<Canceller>,
    ) -> Op<'static, ()> {
        let (store, sink) = (self.store().clone(), self.sink());
        Op::new(
            &store,
            move |b| {
                let handle = self.core.take();
                let status = begin(handle, b);
                if status != sys::HF_OK {
                    self.put_back(handle);
                }
                status
            },
            move |result| {
                let _until_now = (sink, canceller);
                ok(result)
            },
        )
    }

    /// Give it to those who wait for it, and queue for it again behind them
    /// ([`Request::watch`](crate::Request::watch)).
    ///
    /// [`Status::InUse`]: its hold count is above 1, and nothing was done. After another error the
    /// lease has ended.
    pub fn yield_to_waiters(&mut self, wait: impl Into<Wait>) -> Result<Yielded> {
        let before = self.raw();
        let mut handle = before;
        let mut room = Room::new();
        let wait = wait.into().millis();
        let status = unsafe { sys::hf_yield(&mut handle, wait, room.as_mut_ptr()) };
        self.core.replace(before, handle);
        yielded(status).unwrap_or_else(|| Err(room.error(status)))
    }

    /// [`yield_to_waiters`](Lease::yield_to_waiters) without blocking. If the future is dropped, the
    /// lease may have ended, or comes back later and is then held again.
    ///
    /// The lease cannot be used meanwhile:
    ///
    /// ```compile_fail,E0502
    /// # async fn f(mut lease: holdfast::Lease) {
    /// let offer = lease.yield_async(holdfast::Wait::Forever);
    /// lease.token();
    /// offer.await.unwrap();
    /// # }
    /// ```
    ///
    /// To release it, drop the future first. What comes back all the same has no owner, and is given
    /// back.
    ///
    /// ```compile_fail,E0505
    /// # async fn f(mut lease: holdfast::Lease) {
    /// let offer = lease.yield_async(holdfast::Wait::Forever);
    /// lease.release().unwrap();
    /// offer.await.unwrap();
    /// # }
    /// ```
    pub fn yield_async(&mut self, wait: impl Into<Wait>) -> Op<'_, Yielded> {
        let (core, wait, handle) = (self.core.clone(), wait.into().millis(), Raw(self.raw()));
        Op::new(
            self.store(),
            move |b| unsafe { sys::hf_yield_async(handle.get(), wait, b.done, b.arg, b.op, b.err) },
            move |result| {
                core.replace(handle.get(), result.lease);
                yielded(result.status).unwrap_or_else(|| ok(result).map(|()| Yielded::Kept))
            },
        )
    }

    /// Make a lease of a read-write lock one of another kind, without a gap in which somebody else
    /// could write. After an error the lease is as it was, unless that is [`Status::Lost`] or
    /// [`Status::Unknown`].
    pub fn convert(&mut self, kind: Kind, wait: impl Into<Wait>) -> Result<()> {
        let before = self.raw();
        let mut handle = before;
        let wait = wait.into().millis();
        let result = call(|err| unsafe { sys::hf_convert(&mut handle, kind.raw(), wait, err) });
        self.core.replace(before, handle);
        result
    }

    /// [`convert`](Lease::convert) without blocking. If the future is dropped, the lease stays, as
    /// one kind or the other: [`info`](Lease::info) says which. Until the call has really ended,
    /// another conversion is [`Status::InUse`], or [`Status::Invalid`] if the lease was converted all
    /// the same and its new handle is on its way.
    ///
    /// The lease cannot be released meanwhile:
    ///
    /// ```compile_fail,E0505
    /// # async fn f(mut lease: holdfast::Lease) {
    /// let conversion = lease.convert_async(holdfast::Kind::Exclusive, holdfast::Wait::Forever);
    /// lease.release().unwrap();
    /// conversion.await.unwrap();
    /// # }
    /// ```
    pub fn convert_async(&mut self, kind: Kind, wait: impl Into<Wait>) -> Op<'_, ()> {
        let (core, wait, handle) = (self.core.clone(), wait.into().millis(), Raw(self.raw()));
        Op::new(
            self.store(),
            move |b| unsafe {
                sys::hf_convert_async(handle.get(), kind.raw(), wait, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                ok(result)?;
                core.replace(handle.get(), result.lease);
                Ok(())
            },
        )
    }

    /// A detached lease as text that another process can give to
    /// [`Store::adopt`](crate::Store::adopt). It is a secret. Dropping this guard still releases the
    /// lease: see [`detach`](Lease::detach).
    pub fn export(&self) -> Result<String> {
        let mut text = [0 as c_char; sys::HF_LEASE_TEXT_MAX];
        match unsafe { sys::hf_lease_export(self.raw(), text.as_mut_ptr()) } {
            sys::HF_OK => Ok(unsafe { crate::error::text_at(text.as_ptr()) }),
            status => Err(Error::from_status(status)),
        }
    }

    /// Export a detached lease and leave it to whoever adopts it: it lives on without this guard.
    /// After an error it is released.
    pub fn detach(self) -> Result<String> {
        let text = self.export()?;
        self.core.take();
        Ok(text)
    }

    /// The session that holds it, as text for a process that works for us
    /// ([`Request::session`](crate::Request::session)). `around`: the same of a process for which we
    /// work.
    pub fn session(&self, around: Option<&str>) -> Result<String> {
        let around = around
            .map(|around| crate::input::c_text("around", around))
            .transpose()?;
        let mut text = [0 as c_char; sys::HF_SESSION_TEXT_MAX];
        call(|err| unsafe {
            sys::hf_session_get(
                self.raw(),
                crate::input::c_ptr(&around),
                text.as_mut_ptr(),
                err,
            )
        })?;
        Ok(unsafe { crate::error::text_at(text.as_ptr()) })
    }

    /// Ready when the lease is lost, or has ended. It needs a lease that a future has returned, or
    /// one with an event handler; for others it is [`Status::Invalid`].
    pub fn lost(&self) -> LostFuture<'_> {
        LostFuture(self)
    }

    pub(crate) fn sink(&self) -> Option<Arc<SinkKey>> {
        self.core.sink.clone()
    }

    /// It did not end: the drop tries again.
    pub(crate) fn put_back(&self, handle: *mut sys::hf_lease) {
        self.core.handle.store(handle, Ordering::Release);
    }

    /// The handle, whose end is the caller's business now.
    pub(crate) fn take(&self) -> *mut sys::hf_lease {
        self.core.take()
    }
}

fn yielded(status: sys::hf_status) -> Option<Result<Yielded>> {
    match status {
        sys::HF_OK => Some(Ok(Yielded::Kept)),
        sys::HF_YIELDED => Some(Ok(Yielded::Regained)),
        _ => None,
    }
}

/// See [`Lease::lost`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct LostFuture<'a>(&'a Lease);

impl Future for LostFuture<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let core = &self.0.core;
        // Events of a lease that a future returned come from the driver, which may have ended.
        let _ = core.store.inner.drive.ensure(&core.store);
        let lost = match &core.sink {
            Some(sink) => sink.poll_lost(cx.waker()),
            None => {
                let text = "the lease was acquired without events: give it a handler";
                return Poll::Ready(Err(Error::new(Status::Invalid, text)));
            }
        };
        if lost || self.0.state() == State::Lost {
            return Poll::Ready(Ok(()));
        }
        Poll::Pending
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let handle = self.take();
        if handle.is_null() {
            return;
        }
        if self.asynchronous || Callback::is_of_loop() {
            end_in_background(&self.store.inner, handle, self.sink.take());
        } else {
            end_now(handle);
        }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.info() {
            Ok(info) => f
                .debug_struct("Lease")
                .field("name", &String::from_utf8_lossy(&info.name))
                .field("token", &info.token)
                .field("state", &info.state)
                .finish(),
            Err(_) => f.write_str("Lease(ended)"),
        }
    }
}
