// SPDX-License-Identifier: MIT
//! Looking into a store: holders, waiters, findings, deadlocks.
use crate::cancel::{self, Canceller};
use crate::error::{call, text_at};
use crate::input::{bytes_ptr, copy_bytes, duration, duration_unless_negative, Owned};
use crate::op::{ok, Op};
use crate::{sys, Kind, Result, Store, Wait};
use std::time::Duration;

/// Holders and waiters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct View {
    /// The names, sorted bytewise. A name that nobody holds or waits for has no entry.
    pub entries: Vec<Entry>,
    /// False: this engine cannot list waiters.
    pub waiters_tracked: bool,
}

/// A name that is held or waited for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// [`Kind::Mutex`], [`Kind::Shared`] (a read-write lock) or [`Kind::Semaphore`].
    pub kind: Kind,
    /// How many permits it has.
    pub capacity: u32,
    /// How many are taken; a writer takes all.
    pub taken: u32,
    /// What is left of a lock delay.
    pub closed: Duration,
    /// The capacity was set by [`Store::resize_semaphore`].
    pub resized: bool,
    /// The holders.
    pub holders: Vec<Holder>,
    /// The waiters, in order.
    pub waiters: Vec<Waiter>,
}

/// A holder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// The token of its lease.
    pub token: u64,
    /// The first token of its block.
    pub first: u64,
    /// How many permits it has.
    pub permits: u32,
    /// No process is responsible for it.
    pub detached: bool,
    /// Since it was granted.
    pub age: Duration,
    /// What is left of its ttl; `None`: it has none.
    pub ttl: Option<Duration>,
    /// Its process; 0: not known.
    pub pid: i64,
    /// Its thread; 0: not known.
    pub tid: i64,
    /// Who it is, for people: the text of a stranger.
    pub label: String,
    /// Its session; 0: not known.
    pub session: u64,
    /// Its process may keep it while nobody uses it ...
    pub lingers: bool,
    /// ... and did so when it told the store last.
    pub idle: bool,
    /// It learns that others wait.
    pub watched: bool,
    /// The numbers of its permits.
    pub slots: Vec<u32>,
}

/// A waiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiter {
    /// 1 is next.
    pub position: u32,
    /// How many permits it asks for.
    pub permits: u32,
    /// What it asks for.
    pub kind: Kind,
    /// Since it waits.
    pub age: Duration,
    /// Its process; 0: not known.
    pub pid: i64,
    /// Who it is, for people: the text of a stranger.
    pub label: String,
    /// Its session; 0: not known.
    pub session: u64,
}

impl View {
    /// Copies and frees.
    unsafe fn from_raw(view: *mut sys::hf_view) -> View {
        let _owned = Owned(view);
        let entries = (0..sys::hf_view_count(view))
            .filter_map(|index| sys::hf_view_entry(view, index).as_ref())
            .map(|entry| Entry::from_raw(entry))
            .collect();
        View {
            entries,
            waiters_tracked: sys::hf_view_waiters_tracked(view),
        }
    }

    /// The entry of one name.
    pub fn entry(&self, name: impl AsRef<[u8]>) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.name == name.as_ref())
    }
}

impl Entry {
    unsafe fn from_raw(entry: &sys::hf_entry) -> Entry {
        Entry {
            name: copy_bytes(entry.name.cast(), entry.name_len),
            kind: Kind::from_raw(entry.kind),
            capacity: entry.capacity,
            taken: entry.taken,
            closed: duration(entry.closed_ms),
            resized: entry.resized,
            holders: (0..entry.holder_count)
                .filter_map(|index| sys::hf_entry_holder(entry, index).as_ref())
                .map(|holder| Holder::from_raw(holder))
                .collect(),
            waiters: (0..entry.waiter_count)
                .filter_map(|index| sys::hf_entry_waiter(entry, index).as_ref())
                .map(|waiter| Waiter::from_raw(waiter))
                .collect(),
        }
    }
}

impl Holder {
    unsafe fn from_raw(holder: &sys::hf_holder) -> Holder {
        Holder {
            token: holder.token,
            first: holder.first,
            permits: holder.permits,
            detached: holder.detached,
            age: duration(holder.age_ms),
            ttl: duration_unless_negative(holder.ttl_ms),
            pid: holder.pid,
            tid: holder.tid,
            label: text_at(holder.label),
            session: holder.session,
            lingers: holder.lingers,
            idle: holder.idle,
            watched: holder.watched,
            slots: holder.slots[..(holder.slot_count as usize).min(holder.slots.len())].to_vec(),
        }
    }
}

impl Waiter {
    unsafe fn from_raw(waiter: &sys::hf_waiter) -> Waiter {
        Waiter {
            position: waiter.position,
            permits: waiter.permits,
            kind: Kind::from_raw(waiter.kind),
            age: duration(waiter.age_ms),
            pid: waiter.pid,
            label: text_at(waiter.label),
            session: waiter.session,
        }
    }
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is well.
    Ok,
    /// Something to think about.
    Warning,
    /// Something that breaks a promise.
    Bad,
}

/// One finding of [`Store::check`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How serious it is.
    pub level: Level,
    /// What it is about.
    pub topic: String,
    /// What was found.
    pub text: String,
    /// A fact to know, which is no fault: "no replicas". The level is `Ok`.
    pub note: bool,
}

unsafe fn findings(report: *mut sys::hf_report) -> Vec<Finding> {
    let _owned = Owned(report);
    (0..sys::hf_report_count(report))
        .filter_map(|index| sys::hf_report_item(report, index).as_ref())
        .map(|finding| Finding {
            level: match finding.level {
                sys::HF_CHECK_LEVEL_OK => Level::Ok,
                sys::HF_CHECK_LEVEL_WARNING => Level::Warning,
                _ => Level::Bad,
            },
            topic: text_at(finding.topic),
            text: text_at(finding.text),
            note: finding.note,
        })
        .collect()
}

/// A waiter of a cycle: it waits for `name`, which the next waiter has. The last one waits for what
/// the first has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadlockWaiter {
    /// What it waits for.
    pub name: Vec<u8>,
    /// The token of its lease of what the waiter before waits for; 0: it is ahead in the queue.
    pub token: u64,
    /// Its session.
    pub session: u64,
    /// Since it waits.
    pub age: Duration,
    /// Its process; 0: not known.
    pub pid: i64,
    /// Who it is, for people: the text of a stranger.
    pub label: String,
}

/// One cycle. Its first waiter is the one that will get
/// [`Status::Deadlock`](crate::Status::Deadlock).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deadlock {
    /// The waiters of the cycle.
    pub waiters: Vec<DeadlockWaiter>,
}

unsafe fn deadlocks(list: *mut sys::hf_deadlocks) -> Vec<Deadlock> {
    let _owned = Owned(list);
    (0..sys::hf_deadlock_count(list))
        .filter_map(|index| sys::hf_deadlock_item(list, index).as_ref())
        .map(|item| Deadlock {
            waiters: (0..item.waiter_count)
                .filter_map(|index| sys::hf_deadlock_get_waiter(item, index).as_ref())
                .map(|waiter| DeadlockWaiter {
                    name: copy_bytes(waiter.name.cast(), waiter.name_len),
                    token: waiter.token,
                    session: waiter.session,
                    age: duration(waiter.age_ms),
                    pid: waiter.pid,
                    label: text_at(waiter.label),
                })
                .collect(),
        })
        .collect()
}

impl Store {
    fn inspect_raw(&self, name: &[u8], flags: u64) -> Result<View> {
        let mut view = std::ptr::null_mut();
        call(|err| unsafe {
            sys::hf_store_inspect(
                self.raw(),
                bytes_ptr(name),
                name.len(),
                flags,
                &mut view,
                err,
            )
        })?;
        Ok(unsafe { View::from_raw(view) })
    }

    fn inspect_raw_async(&self, name: &[u8], flags: u64) -> Op<'static, View> {
        crate::named::Named::new(self, name).op(
            move |store, name, len, b| unsafe {
                sys::hf_store_inspect_async(store, name, len, flags, b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| unsafe { View::from_raw(result.view) }),
        )
    }

    /// Holders and waiters of one name.
    pub fn inspect(&self, name: impl AsRef<[u8]>) -> Result<View> {
        self.inspect_raw(name.as_ref(), 0)
    }

    /// [`inspect`](Store::inspect) without blocking.
    pub fn inspect_async(&self, name: impl AsRef<[u8]>) -> Op<'static, View> {
        self.inspect_raw_async(name.as_ref(), 0)
    }

    /// Holders and waiters of all names that match a pattern with `*`, `?`, `[a-z]` and `\`.
    pub fn inspect_matching(&self, pattern: impl AsRef<[u8]>) -> Result<View> {
        self.inspect_raw(pattern.as_ref(), sys::HF_INSPECT_FLAG_PATTERN)
    }

    /// [`inspect_matching`](Store::inspect_matching) without blocking.
    pub fn inspect_matching_async(&self, pattern: impl AsRef<[u8]>) -> Op<'static, View> {
        self.inspect_raw_async(pattern.as_ref(), sys::HF_INSPECT_FLAG_PATTERN)
    }

    /// Is this store safe for what it promises?
    pub fn check(&self) -> Result<Vec<Finding>> {
        let mut report = std::ptr::null_mut();
        call(|err| unsafe { sys::hf_store_check(self.raw(), &mut report, err) })?;
        Ok(unsafe { findings(report) })
    }

    /// [`check`](Store::check) without blocking.
    pub fn check_async(&self) -> Op<'static, Vec<Finding>> {
        let store = self.clone();
        Op::new(
            self,
            move |b| unsafe { sys::hf_store_check_async(store.raw(), b.done, b.arg, b.op, b.err) },
            |result| ok(result).map(|()| unsafe { findings(result.report) }),
        )
    }

    /// The cycles of waiters that are in the store now.
    pub fn deadlocks(&self) -> Result<Vec<Deadlock>> {
        let mut list = std::ptr::null_mut();
        call(|err| unsafe { sys::hf_deadlock_list(self.raw(), &mut list, err) })?;
        Ok(unsafe { deadlocks(list) })
    }

    /// [`deadlocks`](Store::deadlocks) without blocking.
    pub fn deadlocks_async(&self) -> Op<'static, Vec<Deadlock>> {
        let store = self.clone();
        Op::new(
            self,
            move |b| unsafe {
                sys::hf_deadlock_list_async(store.raw(), b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| unsafe { deadlocks(result.deadlocks) }),
        )
    }

    /// Wait until something in the store has changed since `seq` (0: since now). Returns the number
    /// for the next call.
    pub fn wait_change(
        &self,
        seq: u64,
        wait: impl Into<Wait>,
        canceller: Option<&Canceller>,
    ) -> Result<u64> {
        let (mut seq, wait, canceller) = (seq, wait.into().millis(), canceller.cloned());
        call(|err| unsafe {
            sys::hf_store_wait(self.raw(), &mut seq, wait, cancel::raw(&canceller), err)
        })?;
        Ok(seq)
    }

    /// [`wait_change`](Store::wait_change) without blocking.
    pub fn wait_change_async(&self, seq: u64, wait: impl Into<Wait>) -> Op<'static, u64> {
        let (store, wait) = (self.clone(), wait.into().millis());
        Op::new(
            self,
            move |b| unsafe {
                let cancel = std::ptr::null_mut();
                let store = store.raw();
                sys::hf_store_wait_async(store, seq, wait, cancel, b.done, b.arg, b.op, b.err)
            },
            |result| ok(result).map(|()| result.version),
        )
    }
}
