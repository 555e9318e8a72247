// SPDX-License-Identifier: MIT
//! Calls that nobody waits for in a store that nobody drives: their runtime has ended, say. A lease that is granted to one of
//! them would hold its name until the store has a driver again. So a thread drives the store until they are done.
use crate::drive::poll_readable;
use crate::store::Inner;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the thread looks whether there is a driver again.
const PAUSE: Duration = Duration::from_millis(100);

/// After a call was left alone, and after a driver has gone.
pub(crate) fn tend(store: &Arc<Inner>) {
    if !store.drive.begin_tending() {
        return;
    }
    let weak = Arc::downgrade(store);
    let spawned = std::thread::Builder::new()
        .name("holdfast-orphans".into())
        .spawn(move || run(&weak));
    if spawned.is_err() {
        store.drive.end_tending(); // the next driver, or the end of the store, does it
    }
}

fn run(store: &Weak<Inner>) {
    // A copy, so that the store is not kept open while this thread sleeps.
    let fd = match store.upgrade().map(|store| store.fd_copy()) {
        Some(Ok(fd)) => fd,
        _ => return,
    };
    while let Some(store) = store.upgrade() {
        if store.process().is_err() {
            return; // it is closed
        }
        if !store.drive.has_orphans() {
            store.drive.end_tending();
            // One that was left alone before that relied on us.
            if !store.drive.begin_tending() {
                return;
            }
        }
        let timeout = store.timeout().map_or(PAUSE, |timeout| timeout.min(PAUSE));
        drop(store);
        poll_readable(&fd, Some(timeout));
    }
}
