// SPDX-License-Identifier: MIT
//! Futures without a runtime: a driver and poll(2).
mod common;

use common::*;
use holdfast::*;
use std::future::Future;
use std::os::unix::io::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn run<T>(driver: &Driver, mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> T {
    let waker: Waker = Arc::new(Count::default()).into();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut context) {
            return answer;
        }
        driver.turn(Some(Duration::from_millis(50))).unwrap();
    }
}

fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    let waker: Waker = Arc::new(Count::default()).into();
    match future.poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[test]
fn a_driver_of_ones_own() {
    let bed = Bed::new();
    let store = bed.open();
    let driver = store.driver().unwrap();
    assert_eq!(status(store.driver()), Status::InUse);
    assert_eq!(driver.as_raw_fd(), driver.fd().unwrap());

    let began = Arc::new(Count::default());
    driver.set_waker(&began.clone().into());
    let mut first = Box::pin(store.mutex("m").acquire_async());
    let lease = run(&driver, first.as_mut()).unwrap();
    assert!(
        began.0.load(Ordering::SeqCst) > 0,
        "told that a call has begun"
    );

    let mut second = Box::pin(store.mutex("m").acquire_async());
    assert!(poll_once(second.as_mut()).is_none());
    let mut release = Box::pin(lease.release_async());
    run(&driver, release.as_mut()).unwrap();
    let lease = run(&driver, second.as_mut()).unwrap();
    drop(lease);
    drop(driver);
    store.close().unwrap(); // it finishes the release that the drop has begun
    let store = bed.open();
    assert!(store.mutex("m").try_acquire().unwrap().is_some());
}

#[test]
fn a_grant_that_nobody_waits_for_is_given_back() {
    let bed = Bed::new();
    let store = bed.open();
    let driver = store.driver().unwrap();
    // Granted in the store before anybody looks: the future is dropped between that and `done`.
    for _ in 0..20 {
        let mut future = Box::pin(store.mutex("m").acquire_async());
        assert!(poll_once(future.as_mut()).is_none());
        until("it is held", || bed_holds(&bed, "m"));
        drop(future);
        until("it is given back", || {
            driver.turn(Some(Duration::from_millis(5))).unwrap();
            !bed_holds(&bed, "m")
        });
    }
    // The answer was there, and is dropped with the future.
    let mut future = Box::pin(store.mutex("m").acquire_async());
    assert!(poll_once(future.as_mut()).is_none());
    until("it is held", || bed_holds(&bed, "m"));
    for _ in 0..5 {
        driver.turn(Some(Duration::from_millis(5))).unwrap();
    }
    drop(future);
    until("it is given back", || {
        driver.turn(Some(Duration::from_millis(5))).unwrap();
        !bed_holds(&bed, "m")
    });
    assert_eq!(sink_count_of_this_test(), 0);
}

fn bed_holds(bed: &Bed, name: &str) -> bool {
    bed.open()
        .inspect(name)
        .unwrap()
        .entry(name)
        .map_or(false, |entry| !entry.holders.is_empty())
}

/// Other tests of this program have sinks too, which end.
fn sink_count_of_this_test() -> usize {
    until("all sinks are gone", || sink_count() == 0);
    0
}

#[test]
fn a_store_that_is_dropped_ends_what_is_abandoned() {
    let bed = Bed::new();
    let held = bed.open();
    let lease = held.mutex("m").acquire().unwrap();
    let store = bed.open();
    let mut future = Box::pin(store.mutex("m").acquire_async());
    assert!(poll_once(future.as_mut()).is_none());
    until("it waits", || waiters(&held, "m") == 1);
    drop(future); // nobody drives
    drop(store); // closes, which runs what is due
    until("it does not wait any more", || waiters(&held, "m") == 0);
    drop(lease);
    assert!(held.mutex("m").try_acquire().unwrap().is_some());
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// In a process of its own, whose descriptors show that the store is closed.
#[test]
#[ignore = "a part of a_store_may_end_in_a_handler"]
fn child_ends_a_store_in_a_handler() {
    let url = std::env::var("HF_CHILD_URL").unwrap();
    let open = || Store::options().wait(LONG).open(&url).unwrap();
    drop(open()); // the engine is loaded
    let before = descriptors();
    let (sender, receiver) = std::sync::mpsc::channel();
    let slot = Arc::new(std::sync::Mutex::new(None));
    let token = {
        let store = open();
        let kept = slot.clone();
        let request = store.mutex("m").on_event(move |_| {
            drop(kept.lock().unwrap().take()); // the last user of its store
            let _ = sender.send(());
        });
        let lease = request.acquire().unwrap();
        let token = lease.token();
        *slot.lock().unwrap() = Some(lease);
        token
    };
    open().break_lease("m", token).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    until("the store is closed", || descriptors() <= before);
    assert!(open().mutex("m").wait(LONG).acquire().is_ok());
}

#[test]
fn a_store_may_end_in_a_handler() {
    let bed = Bed::new();
    let mut child = bed.child("child_ends_a_store_in_a_handler", &[]);
    assert!(child.wait().unwrap().success());
}
