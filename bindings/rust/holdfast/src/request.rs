// SPDX-License-Identifier: MIT
//! Asking for leases.
use crate::cancel::{self, Canceller};
use crate::error::{call, Expect};
use crate::event::{on_event, Event, Handler, SinkKey};
use crate::input::{bytes_ptr, c_ptr, c_text, millis, Scope};
use crate::op::{ok, Begin, Op};
use crate::{sys, Error, Kind, Lease, Result, Status, Store, Wait};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

/// A request for a lease: options first, then one of the calls that acquire.
///
/// ```no_run
/// use std::time::Duration;
/// # fn main() -> holdfast::Result<()> {
/// # let store = holdfast::Store::open_default()?;
/// let lease = store.mutex("job").wait(Duration::from_secs(5)).acquire()?;
/// println!("token {}", lease.token());
/// if store.mutex("other").try_acquire()?.is_none() {
///     println!("busy");
/// }
/// # Ok(()) }
/// ```
#[must_use = "a request does nothing until it is acquired"]
pub struct Request {
    pub(crate) store: Store,
    pub(crate) spec: Spec,
}

/// What a request asks for, in memory of its own.
pub(crate) struct Spec {
    name: Vec<u8>,
    kind: Kind,
    capacity: u32,
    permits: u32,
    flags: u64,
    wait: Wait,
    ttl: i64,
    max_hold: i64,
    min_valid: i64,
    min_hold: i64,
    lock_delay: i64,
    linger: i64,
    scope: u64,
    label: Option<CString>,
    session: Option<CString>,
    pub(crate) canceller: Option<Canceller>,
    handler: Option<Handler>,
    wrong: Option<Error>,
}

impl Store {
    fn request(&self, name: &[u8], kind: Kind, capacity: u32) -> Request {
        let spec = Spec {
            name: name.to_vec(),
            kind,
            capacity,
            permits: 0,
            flags: 0,
            wait: Wait::Forever,
            ttl: 0,
            max_hold: 0,
            min_valid: 0,
            min_hold: 0,
            lock_delay: 0,
            linger: 0,
            scope: 0,
            label: None,
            session: None,
            canceller: None,
            handler: None,
            wrong: None,
        };
        Request {
            store: self.clone(),
            spec,
        }
    }

    /// Ask for a mutex.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Request {
        self.request(name.as_ref(), Kind::Mutex, 0)
    }

    /// Ask to be a reader of a read-write lock.
    pub fn shared(&self, name: impl AsRef<[u8]>) -> Request {
        self.request(name.as_ref(), Kind::Shared, 0)
    }

    /// Ask to be the writer of a read-write lock.
    pub fn exclusive(&self, name: impl AsRef<[u8]>) -> Request {
        self.request(name.as_ref(), Kind::Exclusive, 0)
    }

    /// Ask to be the one reader of a read-write lock that may become the writer
    /// ([`Lease::convert`]).
    pub fn upgradeable(&self, name: impl AsRef<[u8]>) -> Request {
        self.request(name.as_ref(), Kind::Upgradeable, 0)
    }

    /// Ask for a permit of a semaphore with `capacity` permits.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, capacity: u32) -> Request {
        self.request(name.as_ref(), Kind::Semaphore, capacity)
    }

    /// Acquire all that the requests ask for, or nothing. `wait` is for all of them together, and
    /// replaces that of each request. Canceller, scope and session must be the same in all.
    pub fn acquire_all(
        &self,
        requests: impl IntoIterator<Item = Request>,
        wait: impl Into<Wait>,
    ) -> Result<Vec<Lease>> {
        let several = Several::new(requests, wait.into(), false)?;
        let mut leases = vec![std::ptr::null_mut(); several.specs.len()];
        let raws = several.raws();
        call(|err| unsafe {
            sys::hf_acquire_all(
                self.raw(),
                raws.as_ptr(),
                raws.len(),
                leases.as_mut_ptr(),
                err,
            )
        })?;
        let sinks = several.sinks.into_iter();
        Ok(leases
            .into_iter()
            .zip(sinks)
            .map(|(lease, sink)| Lease::new(self.clone(), lease, sink, false))
            .collect())
    }

    /// [`acquire_all`](Store::acquire_all) without blocking.
    pub fn acquire_all_async(
        &self,
        requests: impl IntoIterator<Item = Request>,
        wait: impl Into<Wait>,
    ) -> Op<'static, Vec<Lease>> {
        let mut several = match Several::new(requests, wait.into(), true) {
            Ok(several) => several,
            Err(error) => return Op::failed(self, error),
        };
        let (sinks, cancellers) = (std::mem::take(&mut several.sinks), several.cancellers());
        let args: Vec<usize> = sinks.iter().map(arg_of).collect();
        let (store, weak) = (self.clone(), Arc::downgrade(&self.inner));
        Op::new(
            self,
            move |b| {
                let raws = several.raws_with(&args);
                let (first, count) = (raws.as_ptr(), raws.len());
                unsafe {
                    sys::hf_acquire_all_async(store.raw(), first, count, b.done, b.arg, b.op, b.err)
                }
            },
            move |result| {
                let _until_now = cancellers;
                ok(result)?;
                let leases = unsafe { std::slice::from_raw_parts(result.leases, result.count) };
                // All become guards first: if one cannot, the others are released.
                let mut guards = Vec::with_capacity(leases.len());
                for (&lease, sink) in leases.iter().zip(sinks) {
                    guards.push(Lease::granted(&weak, lease, sink));
                }
                guards.into_iter().collect()
            },
        )
    }

    /// Acquire one of the things that the requests ask for, whichever comes free first, and say which.
    /// The rest is as for [`acquire_all`](Store::acquire_all).
    pub fn acquire_any(
        &self,
        requests: impl IntoIterator<Item = Request>,
        wait: impl Into<Wait>,
    ) -> Result<(usize, Lease)> {
        let mut several = Several::new(requests, wait.into(), false)?;
        let (mut index, mut lease) = (0, std::ptr::null_mut());
        let raws = several.raws();
        call(|err| unsafe {
            let (first, count) = (raws.as_ptr(), raws.len());
            sys::hf_acquire_any(self.raw(), first, count, &mut index, &mut lease, err)
        })?;
        let sink = several.sinks.get_mut(index).and_then(Option::take);
        Ok((index, Lease::new(self.clone(), lease, sink, false)))
    }

    /// [`acquire_any`](Store::acquire_any) without blocking.
    pub fn acquire_any_async(
        &self,
        requests: impl IntoIterator<Item = Request>,
        wait: impl Into<Wait>,
    ) -> Op<'static, (usize, Lease)> {
        let mut several = match Several::new(requests, wait.into(), true) {
            Ok(several) => several,
            Err(error) => return Op::failed(self, error),
        };
        let (mut sinks, cancellers) = (std::mem::take(&mut several.sinks), several.cancellers());
        let args: Vec<usize> = sinks.iter().map(arg_of).collect();
        let (store, weak) = (self.clone(), Arc::downgrade(&self.inner));
        Op::new(
            self,
            move |b| {
                let raws = several.raws_with(&args);
                let (first, count) = (raws.as_ptr(), raws.len());
                unsafe {
                    sys::hf_acquire_any_async(store.raw(), first, count, b.done, b.arg, b.op, b.err)
                }
            },
            move |result| {
                let _until_now = cancellers;
                ok(result)?;
                let index = usize::try_from(result.number).unwrap_or(0);
                let sink = sinks.get_mut(index).and_then(Option::take);
                Ok((index, Lease::granted(&weak, result.lease, sink)?))
            },
        )
    }
}

pub(crate) fn arg_of(sink: &Option<Arc<SinkKey>>) -> usize {
    sink.as_ref().map_or(0, |sink| sink.arg() as usize)
}

/// The requests of one call.
struct Several {
    specs: Vec<Spec>,
    sinks: Vec<Option<Arc<SinkKey>>>,
}

impl Several {
    fn new(
        requests: impl IntoIterator<Item = Request>,
        wait: Wait,
        asynchronous: bool,
    ) -> Result<Several> {
        let mut several = Several {
            specs: Vec::new(),
            sinks: Vec::new(),
        };
        for mut request in requests {
            request.spec.wait = wait;
            several.sinks.push(request.spec.prepare(asynchronous)?);
            several.specs.push(request.spec);
        }
        Ok(several)
    }

    fn raws(&self) -> Vec<sys::hf_acquire_request> {
        self.raws_with(&self.sinks.iter().map(arg_of).collect::<Vec<_>>())
    }

    fn raws_with(&self, args: &[usize]) -> Vec<sys::hf_acquire_request> {
        self.specs
            .iter()
            .zip(args)
            .map(|(spec, &arg)| spec.raw(arg))
            .collect()
    }

    fn cancellers(&self) -> Vec<Option<Canceller>> {
        self.specs
            .iter()
            .map(|spec| spec.canceller.clone())
            .collect()
    }
}

impl Spec {
    /// Are the options sound? Then the place of the events, if there is to be one.
    pub(crate) fn prepare(&mut self, asynchronous: bool) -> Result<Option<Arc<SinkKey>>> {
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        if !asynchronous && self.handler.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(SinkKey::new(self.handler.take()))))
    }

    /// The request for C, whose pointers are good while this lives. `arg` 0: without events.
    pub(crate) fn raw(&self, arg: usize) -> sys::hf_acquire_request {
        let mut raw = sys::hf_acquire_request::init();
        raw.name = bytes_ptr(&self.name);
        raw.name_len = self.name.len();
        raw.kind = self.kind.raw();
        raw.capacity = self.capacity;
        raw.permits = self.permits;
        raw.flags = self.flags;
        raw.wait_ms = self.wait.millis();
        raw.ttl_ms = self.ttl;
        raw.max_hold_ms = self.max_hold;
        raw.min_valid_ms = self.min_valid;
        raw.lock_delay_ms = self.lock_delay;
        raw.scope = self.scope;
        raw.label = c_ptr(&self.label);
        raw.cancel = cancel::raw(&self.canceller);
        if arg != 0 {
            raw.on_event = Some(on_event);
            raw.on_event_arg = arg as *mut _;
        }
        raw.session = c_ptr(&self.session);
        raw.linger_ms = self.linger;
        raw.min_hold_ms = self.min_hold;
        raw
    }
}

/// Options.
impl Request {
    /// How long to wait; the default is for as long as it takes.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Request {
        self.spec.wait = wait.into();
        self
    }

    /// How many permits of a semaphore; the default is one.
    pub fn permits(mut self, permits: u32) -> Request {
        self.spec.permits = permits;
        self
    }

    /// The lease ends by itself after this, unless it is renewed, which the library does.
    pub fn ttl(mut self, ttl: Duration) -> Request {
        self.spec.ttl = millis(ttl);
        self
    }

    /// End the lease after this, whatever happens.
    pub fn max_hold(mut self, limit: Duration) -> Request {
        self.spec.max_hold = millis(limit);
        self
    }

    /// A grant with less validity left is given back: [`Status::TooShort`].
    pub fn min_valid(mut self, least: Duration) -> Request {
        self.spec.min_valid = millis(least);
        self
    }

    /// The name stays held for this long, even if it is released before.
    pub fn min_hold(mut self, least: Duration) -> Request {
        self.spec.min_hold = millis(least);
        self
    }

    /// After an unclean loss the name stays closed for this long.
    pub fn lock_delay(mut self, delay: Duration) -> Request {
        self.spec.lock_delay = millis(delay);
        self
    }

    /// How long the released lease may stay with this process. `None`: not at all, whatever the URL
    /// says. The default is what the URL says.
    pub fn linger(mut self, linger: Option<Duration>) -> Request {
        self.spec.linger = linger.map_or(sys::HF_LINGER_NEVER, millis);
        self
    }

    /// Who asks, for people; the default is the label of the store.
    pub fn label(mut self, label: impl AsRef<str>) -> Request {
        match c_text("label", label.as_ref()) {
            Ok(label) => self.spec.label = Some(label),
            Err(error) => self.spec.wrong = Some(error),
        }
        self
    }

    /// The identity for reentrancy and deadlocks; the default is the thread of a blocking call, and
    /// nobody for a future.
    pub fn scope(mut self, scope: Scope) -> Request {
        self.spec.scope = scope.number();
        self
    }

    /// [`Lease::session`] of the process that we work for.
    pub fn session(mut self, session: impl AsRef<str>) -> Request {
        match c_text("session", session.as_ref()) {
            Ok(session) => self.spec.session = Some(session),
            Err(error) => self.spec.wrong = Some(error),
        }
        self
    }

    /// What may end the wait of a blocking call.
    pub fn canceller(mut self, canceller: &Canceller) -> Request {
        self.spec.canceller = Some(canceller.clone());
        self
    }

    /// Be told what happens to the lease: on a thread of the library for a blocking call, on that of
    /// the driver for a future. A handler that panics is told of the next event all the same. The
    /// events of one lease come one at a time.
    ///
    /// It runs on another thread, so it must be `Send`:
    ///
    /// ```compile_fail,E0277
    /// # fn f(store: &holdfast::Store) {
    /// let seen = std::rc::Rc::new(std::cell::Cell::new(0));
    /// let _ = store.mutex("x").on_event(move |_| seen.set(1)).acquire();
    /// # }
    /// ```
    ///
    /// and must borrow nothing that may end before:
    ///
    /// ```compile_fail,E0597
    /// # fn f(store: &holdfast::Store) -> holdfast::Result<holdfast::Lease> {
    /// let count = std::sync::atomic::AtomicUsize::new(0);
    /// let seen = &count;
    /// store.mutex("x").on_event(move |_| drop(seen)).acquire()
    /// # }
    /// ```
    pub fn on_event(mut self, handler: impl FnMut(Event) + Send + 'static) -> Request {
        self.spec.handler = Some(Box::new(handler));
        self
    }

    fn flag(mut self, flag: u64) -> Request {
        self.spec.flags |= flag;
        self
    }

    /// It may overtake waiters: throughput over order.
    pub fn barge(self) -> Request {
        self.flag(sys::HF_FLAG_BARGE)
    }

    /// The same thread (or scope) may take it again.
    pub fn reentrant(self) -> Request {
        self.flag(sys::HF_FLAG_REENTRANT)
    }

    /// The lease is not renewed by itself.
    pub fn no_renew(self) -> Request {
        self.flag(sys::HF_FLAG_NO_RENEW)
    }

    /// The lease outlives this process; it needs a ttl.
    pub fn detached(self) -> Request {
        self.flag(sys::HF_FLAG_DETACHED)
    }

    /// No local passing: first come, first served across all processes.
    pub fn strict(self) -> Request {
        self.flag(sys::HF_FLAG_STRICT)
    }

    /// No part in deadlock detection: another thread releases the lease.
    pub fn no_deadlock_check(self) -> Request {
        self.flag(sys::HF_FLAG_NO_DEADLOCK_CHECK)
    }

    /// The store tells the holder that others wait: [`Event::Wanted`], [`Event::Asked`],
    /// [`Lease::is_wanted`], [`Lease::yield_to_waiters`].
    pub fn watch(self) -> Request {
        self.flag(sys::HF_FLAG_WATCH)
    }

    /// The permits of a semaphore have numbers: [`LeaseInfo::slots`](crate::LeaseInfo::slots).
    pub fn numbered(self) -> Request {
        self.flag(sys::HF_FLAG_NUMBERED)
    }
}

/// An asynchronous call whose result is a lease, or what `wrap` makes of it.
pub(crate) fn lease_op<T: Send + 'static>(
    mut request: Request,
    begin: impl FnOnce(*mut sys::hf_store, &sys::hf_acquire_request, &Begin) -> sys::hf_status
        + Send
        + 'static,
    wrap: fn(Lease) -> T,
) -> Op<'static, T> {
    let sink = match request.spec.prepare(true) {
        Ok(sink) => sink,
        Err(error) => return Op::failed(&request.store, error),
    };
    let (store, weak) = (request.store.clone(), Arc::downgrade(&request.store.inner));
    let (arg, canceller) = (arg_of(&sink), request.spec.canceller.clone());
    Op::new(
        &store,
        move |b| begin(request.store.raw(), &request.spec.raw(arg), b),
        move |result| {
            let _until_now = canceller;
            ok(result)?;
            Lease::granted(&weak, result.lease, sink).map(wrap)
        },
    )
}

/// Acquiring.
impl Request {
    /// Acquire it, on this thread. [`Status::Timeout`] if it was not granted in time.
    pub fn acquire(self) -> Result<Lease> {
        self.acquire_with(|store, request, lease, err| unsafe {
            sys::hf_acquire(store, request, lease, err)
        })
    }

    pub(crate) fn acquire_with(
        mut self,
        acquire: impl FnOnce(
            *mut sys::hf_store,
            &sys::hf_acquire_request,
            &mut *mut sys::hf_lease,
            *mut sys::hf_error,
        ) -> sys::hf_status,
    ) -> Result<Lease> {
        let sink = self.spec.prepare(false)?;
        let raw = self.spec.raw(arg_of(&sink));
        let mut lease = std::ptr::null_mut();
        call(|err| acquire(self.store.raw(), &raw, &mut lease, err))?;
        Ok(Lease::new(self.store, lease, sink, false))
    }

    /// Try once; `None`: somebody else holds it.
    pub fn try_acquire(self) -> Result<Option<Lease>> {
        self.wait(Wait::Try).acquire().unless(Status::Busy)
    }

    /// Acquire it, without blocking.
    pub fn acquire_async(self) -> Op<'static, Lease> {
        lease_op(
            self,
            |store, request, b| unsafe {
                sys::hf_acquire_async(store, request, b.done, b.arg, b.op, b.err)
            },
            |lease| lease,
        )
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("name", &String::from_utf8_lossy(&self.spec.name))
            .field("kind", &self.spec.kind)
            .finish()
    }
}
