// SPDX-License-Identifier: MIT
//! What happens to a lease while it is held.
//!
//! The library is given a number and not an address as the argument of its callback. A number that
//! is not in the table any more is ignored. So an event that comes late can never reach memory that
//! was freed: that of a reentrant lease, say, whose first guard was dropped before its second.
use crate::callback::Callback;
use crate::error::text_at;
use crate::sys;
use std::collections::HashMap;
use std::os::raw::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Something that has happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A renewal was not confirmed; the text says why.
    AtRisk(String),
    /// The next renewal was confirmed: the lease is no longer at risk.
    Held,
    /// It expired, was broken, or the store forgot it; the text says why. It is the last event.
    Lost(String),
    /// Others wait for it ([`Request::watch`](crate::Request::watch)).
    Wanted,
    /// Nobody waits for it any more.
    Unwanted,
    /// Somebody asks for it ([`Store::ask`](crate::Store::ask)); the text is what a stranger says.
    Asked(String),
    /// An event that a newer library has added.
    Other(u32),
}

pub(crate) type Handler = Box<dyn FnMut(Event) + Send>;

pub(crate) struct Sink {
    handler: Mutex<Option<Handler>>,
    loss: Mutex<Loss>,
}

struct Loss {
    lost: bool,
    wakers: Vec<Waker>,
}

/// A poisoned lock is as good as another here: no code of ours panics while it holds one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Table {
    next: usize,
    sinks: Option<HashMap<usize, Arc<Sink>>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    next: 1,
    sinks: None,
});

/// A place in the table, which is free again when this is dropped.
pub(crate) struct SinkKey {
    key: usize,
    pid: u32,
}

impl SinkKey {
    pub(crate) fn new(handler: Option<Handler>) -> SinkKey {
        let sink = Arc::new(Sink {
            handler: Mutex::new(handler),
            loss: Mutex::new(Loss {
                lost: false,
                wakers: Vec::new(),
            }),
        });
        let mut table = lock(&TABLE);
        let key = table.next;
        table.next += 1;
        table
            .sinks
            .get_or_insert_with(HashMap::new)
            .insert(key, sink);
        SinkKey {
            key,
            pid: std::process::id(),
        }
    }

    pub(crate) fn arg(&self) -> *mut c_void {
        self.key as *mut c_void
    }

    /// True: the lease was lost. False: `waker` is woken when it is.
    pub(crate) fn poll_lost(&self, waker: &Waker) -> bool {
        let sink = match find(self.key) {
            Some(sink) => sink,
            None => return true,
        };
        let mut loss = lock(&sink.loss);
        if !loss.lost && !loss.wakers.iter().any(|known| known.will_wake(waker)) {
            loss.wakers.push(waker.clone());
        }
        loss.lost
    }
}

impl Drop for SinkKey {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return; // after fork() a thread that is not here may hold the lock
        }
        // The handler, which is the caller's code, is dropped without the lock.
        let sink = lock(&TABLE)
            .sinks
            .as_mut()
            .and_then(|sinks| sinks.remove(&self.key));
        drop(sink);
    }
}

fn find(key: usize) -> Option<Arc<Sink>> {
    lock(&TABLE).sinks.as_ref()?.get(&key).cloned()
}

/// How many places are taken: for tests.
#[doc(hidden)]
pub fn sink_count() -> usize {
    lock(&TABLE).sinks.as_ref().map_or(0, HashMap::len)
}

impl Sink {
    fn tell(&self, event: Event) {
        if let Event::Lost(_) = event {
            let wakers = {
                let mut loss = lock(&self.loss);
                loss.lost = true;
                std::mem::take(&mut loss.wakers)
            };
            wakers.into_iter().for_each(Waker::wake);
        }
        if let Some(handler) = lock(&self.handler).as_mut() {
            handler(event);
        }
    }
}

/// The hf_event_fn of all leases.
pub(crate) unsafe extern "C" fn on_event(
    _lease: *mut sys::hf_lease,
    event: sys::hf_event,
    text: *const c_char,
    arg: *mut c_void,
) {
    let _inside = Callback::enter(false);
    let text = || text_at(text);
    let event = match event {
        sys::HF_EVENT_AT_RISK => Event::AtRisk(text()),
        sys::HF_EVENT_HELD => Event::Held,
        sys::HF_EVENT_LOST => Event::Lost(text()),
        sys::HF_EVENT_WANTED => Event::Wanted,
        sys::HF_EVENT_UNWANTED => Event::Unwanted,
        sys::HF_EVENT_ASKED => Event::Asked(text()),
        other => Event::Other(other),
    };
    // A panic must not unwind into C. The panic hook has reported it.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        if let Some(sink) = find(arg as usize) {
            sink.tell(event);
        }
    }));
}
