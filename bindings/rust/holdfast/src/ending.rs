// SPDX-License-Identifier: MIT
//! The end of a lease whose guard was dropped.
use crate::callback::Callback;
use crate::error::call;
use crate::event::SinkKey;
use crate::op::ok;
use crate::orphans::tend;
use crate::store::Inner;
use crate::{sys, Error, Status};
use std::os::raw::c_void;
use std::sync::{Arc, RwLock, Weak};

type Hook = Arc<dyn Fn(&Error) + Send + Sync>;
static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// Tell `hook` of every release that failed while a lease was dropped, on the thread on which that
/// is found out. It replaces the hook of before.
pub fn set_release_hook(hook: impl Fn(&Error) + Send + Sync + 'static) {
    *HOOK
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Arc::new(hook));
}

fn tell_hook(error: &Error) {
    let hook = HOOK
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .clone();
    if let Some(hook) = hook {
        hook(error);
    }
}

pub(crate) fn end_now(handle: *mut sys::hf_lease) {
    match call(|err| unsafe { sys::hf_release(handle, err) }) {
        Ok(()) => (),
        Err(error) if error.status() == Status::Forked => (), // it is the parent's
        Err(error) => tell_hook(&error),
    }
}

/// What `ended` needs.
struct Ending {
    store: Weak<Inner>,
    _sink: Option<Arc<SinkKey>>,
}

/// Release it without waiting for the answer.
pub(crate) fn end_in_background(
    store: &Arc<Inner>,
    handle: *mut sys::hf_lease,
    sink: Option<Arc<SinkKey>>,
) {
    let ending = Box::into_raw(Box::new(Ending {
        store: Arc::downgrade(store),
        _sink: sink,
    }));
    store.drive.leave_alone();
    let status = unsafe {
        sys::hf_release_async(
            handle,
            ended,
            ending.cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
    if status == sys::HF_OK {
        store.drive.nudge();
        tend(store);
        return;
    }
    store.drive.is_done();
    let _until_the_end = unsafe { Box::from_raw(ending) };
    // Its store was closed: then this does not block. Or there was no memory to begin.
    end_now(handle);
}

unsafe extern "C" fn ended(result: *const sys::hf_result, arg: *mut c_void) {
    let _inside = Callback::enter(true);
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let ending = Box::from_raw(arg.cast::<Ending>());
        if let Some(store) = ending.store.upgrade() {
            store.drive.is_done();
        }
        if let Err(error) = ok(&*result) {
            tell_hook(&error);
        }
    }));
}
