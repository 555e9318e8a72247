// SPDX-License-Identifier: MIT
//! The future of every asynchronous call.
use crate::callback::Callback;
use crate::error::Room;
use crate::event::lock;
use crate::orphans::tend;
use crate::store::Inner;
use crate::{sys, Error, Result, Store};
use std::future::Future;
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};

/// A call that runs in its store. It begins when it is polled first.
///
/// Dropping it cancels the call. A lease that is granted nevertheless is given back. A call that
/// writes may be done or not, as with a blocking call whose answer was lost.
///
/// With the feature `tokio` a task of the runtime drives the store. Elsewhere a [`Driver`] does:
/// without one the future does not become ready.
///
/// [`Driver`]: crate::Driver
#[must_use = "futures do nothing unless polled"]
pub struct Op<'a, T: Send + 'static> {
    stage: Stage<T>,
    store: Store,
    borrowed: PhantomData<&'a mut ()>,
}

/// What an hf_X_async() wants beside its inputs.
pub(crate) struct Begin {
    pub(crate) done: sys::hf_done_fn,
    pub(crate) arg: *mut c_void,
    pub(crate) op: *mut *mut sys::hf_op,
    pub(crate) err: *mut sys::hf_error,
}

type BeginFn = Box<dyn FnOnce(&Begin) -> sys::hf_status + Send>;
type FinishFn<T> = Box<dyn FnOnce(&sys::hf_result) -> Result<T> + Send>;

enum Stage<T> {
    New(BeginFn, FinishFn<T>),
    Failed(Error),
    Begun(Arc<Shared<T>>, Handle),
    Over,
}

#[derive(Clone, Copy)]
struct Handle(*mut sys::hf_op);
// A number, which any thread may use.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

struct Shared<T>(Mutex<Slot<T>>);

enum Slot<T> {
    Waiting(Waker),
    Ready(Result<T>),
    Abandoned,
    Taken,
}

/// The argument of `done`.
struct Ctx<T> {
    /// Weak, so that a call that nobody waits for does not keep its store open.
    store: Weak<Inner>,
    shared: Arc<Shared<T>>,
    finish: FinishFn<T>,
}

impl<'a, T: Send + 'static> Op<'a, T> {
    /// `begin` owns the inputs; `finish`, which makes the answer, owns what must live until then.
    pub(crate) fn new(
        store: &Store,
        begin: impl FnOnce(&Begin) -> sys::hf_status + Send + 'static,
        finish: impl FnOnce(&sys::hf_result) -> Result<T> + Send + 'static,
    ) -> Op<'a, T> {
        Op {
            stage: Stage::New(Box::new(begin), Box::new(finish)),
            store: store.clone(),
            borrowed: PhantomData,
        }
    }

    /// One whose inputs are wrong.
    pub(crate) fn failed(store: &Store, error: Error) -> Op<'a, T> {
        Op {
            stage: Stage::Failed(error),
            store: store.clone(),
            borrowed: PhantomData,
        }
    }

    fn begin(&mut self, begin: BeginFn, finish: FinishFn<T>, waker: &Waker) -> Result<()> {
        let shared = Arc::new(Shared(Mutex::new(Slot::Waiting(waker.clone()))));
        let ctx = Box::into_raw(Box::new(Ctx {
            store: Arc::downgrade(&self.store.inner),
            shared: shared.clone(),
            finish,
        }));
        let mut op = std::ptr::null_mut();
        let mut room = Room::new();
        let status = begin(&Begin {
            done: done::<T>,
            arg: ctx.cast(),
            op: &mut op,
            err: room.as_mut_ptr(),
        });
        if status != sys::HF_OK {
            // Nothing began, so `done` does not come.
            drop(unsafe { Box::from_raw(ctx) });
            return Err(room.error(status));
        }
        self.stage = Stage::Begun(shared, Handle(op));
        self.store.inner.drive.nudge();
        Ok(())
    }
}

unsafe extern "C" fn done<T: Send + 'static>(result: *const sys::hf_result, arg: *mut c_void) {
    let _inside = Callback::enter(true);
    // A panic (of a waker, say) must not unwind into C.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let ctx = Box::from_raw(arg.cast::<Ctx<T>>());
        let Ctx {
            store,
            shared,
            finish,
        } = *ctx;
        let answer = finish(&*result);
        let mut slot = lock(&shared.0);
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Waiting(waker) => {
                *slot = Slot::Ready(answer);
                drop(slot);
                waker.wake();
            }
            // Nobody is left to take it: a lease in it is given back here.
            state => {
                *slot = state;
                drop(slot);
                drop(answer);
                if let Some(store) = store.upgrade() {
                    store.drive.is_done();
                }
            }
        }
    }));
}

/// The error of a result that is not HF_OK.
pub(crate) fn ok(result: &sys::hf_result) -> Result<()> {
    match result.status {
        sys::HF_OK => Ok(()),
        status => Err(unsafe { Error::from_raw(status, result.error) }),
    }
}

impl<T: Send + 'static> Future for Op<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let this = &mut *self;
        let driven = this.store.inner.drive.ensure(&this.store);
        match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::New(begin, finish) => {
                // What fails here drops its inputs: a lease among them is released.
                let begun = driven.and_then(|()| this.begin(begin, finish, cx.waker()));
                if let Err(error) = begun {
                    return Poll::Ready(Err(error));
                }
            }
            Stage::Failed(error) => return Poll::Ready(Err(error)),
            begun => this.stage = begun,
        }
        let shared = match &this.stage {
            Stage::Begun(shared, _) => shared.clone(),
            _ => panic!("an Op was polled after it had ended"),
        };
        let mut slot = lock(&shared.0);
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Ready(answer) => {
                drop(slot);
                this.stage = Stage::Over;
                this.store.inner.drive.forget(key(&shared));
                Poll::Ready(answer)
            }
            _ => {
                *slot = Slot::Waiting(cx.waker().clone());
                drop(slot);
                this.store.inner.drive.remember(key(&shared), cx.waker());
                // A driver that has gone before we were in its list has not woken us.
                if let Err(error) = this.store.inner.drive.ensure(&this.store) {
                    this.abandon();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending
            }
        }
    }
}

impl<T: Send + 'static> Op<'_, T> {
    /// Nobody waits for it any more.
    fn abandon(&mut self) {
        if let Stage::Begun(shared, op) = std::mem::replace(&mut self.stage, Stage::Over) {
            let inner = &self.store.inner;
            inner.drive.forget(key(&shared));
            let mut slot = lock(&shared.0);
            let before = std::mem::replace(&mut *slot, Slot::Abandoned);
            if let Slot::Waiting(_) = before {
                inner.drive.leave_alone(); // with the lock: before `done` counts it
            }
            drop(slot);
            match before {
                Slot::Waiting(_) => {
                    // Too late is fine: `done` finds nobody waiting, and gives a lease back.
                    if unsafe { sys::hf_op_cancel(op.0) } != sys::HF_FORKED {
                        inner.drive.nudge();
                        tend(inner);
                    }
                }
                answer => drop(answer),
            }
        }
    }
}

/// What the driver knows a waiting call by.
fn key<T>(shared: &Arc<Shared<T>>) -> usize {
    Arc::as_ptr(shared) as *const () as usize
}

impl<T: Send + 'static> Drop for Op<'_, T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl<T: Send + 'static> std::fmt::Debug for Op<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Op")
    }
}
