// SPDX-License-Identifier: MIT
//! Groups: who is alive.
use crate::cancel::{self, Canceller};
use crate::error::{call, text_at};
use crate::input::{bytes_ptr, c_text, duration, duration_unless_negative, Owned};
use crate::named::Named;
use crate::op::{ok, Op};
use crate::request::lease_op;
use crate::{sys, Lease, Request, Result, Store, Wait};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// We are a member. It is a lease like any other, and [`leave`](Membership::leave) ends it. Dropping it
/// releases the lease too; observers find that out within a second.
#[derive(Debug)]
#[must_use = "a membership that is dropped ends"]
pub struct Membership(Lease);

impl Deref for Membership {
    type Target = Lease;
    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl Membership {
    /// Release, and tell those that watch. It has ended, whatever is returned.
    pub fn leave(self) -> Result<()> {
        let lease = self.0.take();
        call(|err| unsafe { sys::hf_member_leave(lease, err) })
    }

    /// [`leave`](Membership::leave) without blocking.
    pub fn leave_async(self) -> Op<'static, ()> {
        self.0.end_op(
            |lease, b| unsafe { sys::hf_member_leave_async(lease, b.done, b.arg, b.op, b.err) },
            None,
        )
    }

    /// The plain lease.
    pub fn into_lease(self) -> Lease {
        self.0
    }
}

impl Request {
    /// Join the group of this name as `value`, an address for example. The request is one for
    /// [`Store::shared`].
    pub fn join(self, value: &str) -> Result<Membership> {
        let value = c_text("value", value)?;
        self.acquire_with(|store, request, lease, err| unsafe {
            sys::hf_member_join(store, request, value.as_ptr(), lease, err)
        })
        .map(Membership)
    }

    /// [`join`](Request::join) without blocking.
    pub fn join_async(self, value: &str) -> Op<'static, Membership> {
        let value = match c_text("value", value) {
            Ok(value) => value,
            Err(error) => return Op::failed(&self.store, error),
        };
        lease_op(
            self,
            move |store, request, b| unsafe {
                let (value, done, arg) = (value.as_ptr(), b.done, b.arg);
                sys::hf_member_join_async(store, request, value, done, arg, b.op, b.err)
            },
            Membership,
        )
    }
}

/// A member, as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The token of its lease: no other member ever has it.
    pub token: u64,
    /// What it joined as.
    pub value: String,
    /// Since it joined.
    pub age: Duration,
    /// What is left of its ttl; `None`: it has none.
    pub ttl: Option<Duration>,
    /// Its process; 0: not known.
    pub pid: i64,
}

/// The members of a group, at one moment.
#[derive(Clone)]
pub struct Members {
    raw: Arc<Owned<sys::hf_members>>,
}

impl Members {
    fn new(raw: *mut sys::hf_members) -> Members {
        Members {
            raw: Arc::new(Owned(raw)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        unsafe { sys::hf_members_count(self.raw.0) }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, the oldest first where tokens grow.
    pub fn list(&self) -> Vec<Member> {
        (0..self.len())
            .filter_map(|index| unsafe { sys::hf_members_item(self.raw.0, index).as_ref() })
            .map(|member| Member {
                token: member.token,
                value: unsafe { text_at(member.value) },
                age: duration(member.age_ms),
                ttl: duration_unless_negative(member.ttl_ms),
                pid: member.pid,
            })
            .collect()
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// Observes the members of a group. Made by [`Store::group`].
#[derive(Clone, Debug)]
pub struct Group {
    named: Named,
    canceller: Option<Canceller>,
}

impl Store {
    /// The group of this name. A member joins by [`Request::join`].
    pub fn group(&self, name: impl AsRef<[u8]>) -> Group {
        Group {
            named: Named::new(self, name.as_ref()),
            canceller: None,
        }
    }
}

impl Group {
    /// What may end the wait of blocking calls.
    #[must_use]
    pub fn canceller(mut self, canceller: &Canceller) -> Group {
        self.canceller = Some(canceller.clone());
        self
    }

    fn raw(&self, last: Option<&Members>, wait: Wait) -> sys::hf_members_request {
        let mut raw = sys::hf_members_request::init();
        raw.name = bytes_ptr(&self.named.name);
        raw.name_len = self.named.name.len();
        raw.last = last.map_or(std::ptr::null(), |last| last.raw.0);
        raw.wait_ms = wait.millis();
        raw.cancel = cancel::raw(&self.canceller);
        raw
    }

    /// Wait until the members are others than `last`; `None`: look at once.
    pub fn wait(&self, last: Option<&Members>, wait: impl Into<Wait>) -> Result<Members> {
        let (raw, mut members) = (self.raw(last, wait.into()), std::ptr::null_mut());
        let store = self.named.store.raw();
        call(|err| unsafe { sys::hf_members_wait(store, &raw, &mut members, err) })?;
        Ok(Members::new(members))
    }

    /// [`wait`](Group::wait) without blocking.
    pub fn wait_async(
        &self,
        last: Option<&Members>,
        wait: impl Into<Wait>,
    ) -> Op<'static, Members> {
        let (group, last, wait) = (self.clone(), last.cloned(), wait.into());
        let canceller = self.canceller.clone();
        Op::new(
            &self.named.store,
            move |b| unsafe {
                let raw = group.raw(last.as_ref(), wait);
                let store = group.named.store.raw();
                sys::hf_members_wait_async(store, &raw, b.done, b.arg, b.op, b.err)
            },
            move |result| {
                let _until_now = canceller;
                ok(result).map(|()| Members::new(result.members))
            },
        )
    }
}
