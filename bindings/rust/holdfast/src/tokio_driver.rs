// SPDX-License-Identifier: MIT
//! One task for each store, in the runtime in which a future of the store was polled first.
use crate::drive::poll_readable;
use crate::orphans::tend;
use crate::store::Inner;
use crate::{Error, Result, Status, Store};
use std::future::Future;
use std::os::unix::io::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

/// How often the task goes on before it lets others run.
const TURNS: usize = 8;

struct Task {
    /// Weak, so that the store closes when its users are gone.
    store: Weak<Inner>,
    fd: AsyncFd<OwnedFd>,
    sleep: Option<Pin<Box<Sleep>>>,
    _attached: Attached,
}

/// The store is without a driver when this ends: with the store, or with the runtime.
struct Attached(Weak<Inner>);

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(store) = self.0.upgrade() {
            store.drive.detach();
            tend(&store);
        }
    }
}

pub(crate) fn spawn(store: &Store) -> Result<()> {
    let runtime = match Handle::try_current() {
        Ok(runtime) => runtime,
        Err(_) => return Ok(()), // another runtime, whose program has a Driver or will have one
    };
    if !store.inner.drive.attach() {
        return Ok(()); // somebody else was faster
    }
    let weak = Arc::downgrade(&store.inner);
    let attached = Attached(weak.clone());
    let fd = AsyncFd::with_interest(store.inner.fd_copy()?, Interest::READABLE)
        .map_err(|error| Error::new(Status::Unavailable, error.to_string()))?;
    runtime.spawn(Task {
        store: weak,
        fd,
        sleep: None,
        _attached: attached,
    });
    Ok(())
}

impl Task {
    /// One turn. `Some`: it is known what to wait for, or that there is nothing left.
    fn turn(&mut self, store: &Inner, cx: &mut Context<'_>) -> Option<Poll<()>> {
        // First this: a call that begins after we have asked for the timeout wakes us.
        store.drive.set_waker(Some(cx.waker()));
        if store.process().is_err() {
            return Some(Poll::Ready(())); // closed, or we are a child process
        }
        match self.fd.poll_read_ready(cx) {
            Poll::Ready(Ok(mut guard)) => {
                guard.clear_ready();
                return None;
            }
            Poll::Ready(Err(_)) => return Some(Poll::Ready(())),
            Poll::Pending => (),
        }
        // The runtime reports edges. What was left unread before has no edge any more.
        if poll_readable(&self.fd, Some(std::time::Duration::ZERO)) {
            return None;
        }
        let deadline = match store.timeout() {
            None => return Some(Poll::Pending),
            Some(timeout) => Instant::now() + timeout,
        };
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                sleep.as_mut().reset(deadline);
                sleep
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(deadline))),
        };
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => None,
            Poll::Pending => Some(Poll::Pending),
        }
    }
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let store = match self.store.upgrade() {
            Some(store) => store,
            None => return Poll::Ready(()),
        };
        for _ in 0..TURNS {
            if let Some(what) = self.turn(&store, cx) {
                return what;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
