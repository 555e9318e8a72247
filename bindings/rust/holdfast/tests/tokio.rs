// SPDX-License-Identifier: MIT
//! Futures in the tokio runtime.
#![cfg(feature = "tokio")]
mod common;

use common::*;
use holdfast::*;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// With a limit, so that a future that nobody drives is a failure and not a hang.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future)
        .await
        .expect("it does not become ready")
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// In a process of its own: the harness has threads too.
#[test]
#[ignore = "a part of a_thousand_waiters_with_one_thread"]
fn child_waits_a_thousand_times() {
    const COUNT: usize = 1000;
    let url = std::env::var("HF_CHILD_URL").unwrap();
    one_thread().block_on(async {
        let store = Store::options().wait(LONG).open(&url).unwrap();
        let first = soon(store.mutex("m").acquire_async()).await.unwrap();
        let before = threads();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..COUNT)
            .map(|i| {
                let (store, order) = (store.clone(), order.clone());
                tokio::spawn(async move {
                    let lease = store.mutex("m").acquire_async().await.unwrap();
                    order.lock().unwrap().push((i, lease.token()));
                    lease.release_async().await.unwrap();
                })
            })
            .collect();
        tokio::task::yield_now().await; // all of them have begun
        let during = threads();
        first.release_async().await.unwrap();
        for task in tasks {
            soon(task).await.unwrap();
        }
        let order = order.lock().unwrap();
        assert_eq!(order.len(), COUNT);
        assert!(
            order.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "one after the other"
        );
        // The library has some threads of its own, however many waiters there are.
        assert!(during <= before + 8, "{before} threads became {during}");
        assert_eq!(sink_count(), 0);
        store.close().unwrap();
    });
}

#[test]
fn a_thousand_waiters_with_one_thread() {
    let bed = Bed::new();
    assert!(bed
        .child("child_waits_a_thousand_times", &[])
        .wait()
        .unwrap()
        .success());
}

#[test]
fn acquire_wait_and_release() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let lease = soon(store.mutex("m").acquire_async()).await.unwrap();
        let brief = Duration::from_millis(20);
        let other = store.mutex("m").wait(brief).acquire_async();
        assert_eq!(status(soon(other).await), Status::Timeout);
        assert_eq!(
            status(soon(store.mutex("m").wait(Wait::Try).acquire_async()).await),
            Status::Busy
        );
        assert_eq!(
            status(soon(store.mutex("").acquire_async()).await),
            Status::Invalid
        );
        assert_eq!(
            status(soon(store.mutex("x").label("\0").acquire_async()).await),
            Status::Invalid
        );
        let waiting = tokio::spawn(store.mutex("m").acquire_async());
        tokio::task::yield_now().await;
        drop(lease); // does not block, and is a release
        let lease = soon(waiting).await.unwrap().unwrap();
        soon(lease.release_async()).await.unwrap();
        drop(soon(store.mutex("m").acquire_async()).await.unwrap());
        store.close().unwrap(); // although a release is under way
        assert_eq!(
            status(soon(store.mutex("m").acquire_async()).await),
            Status::Invalid
        );
    });
}

#[test]
fn dropping_a_future_cancels_it() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let (store, other) = (bed.open(), bed.open());
        let lease = soon(store.mutex("m").acquire_async()).await.unwrap();
        let waiting = tokio::spawn(other.mutex("m").acquire_async());
        waiters_become(&store, 1).await;
        waiting.abort();
        waiters_become(&store, 0).await;
        drop(lease);
        drop(soon(other.mutex("m").acquire_async()).await.unwrap());
    });
    assert_free(&bed);
}

async fn waiters_become(store: &Store, count: usize) {
    soon(async {
        while store
            .inspect_async("m")
            .await
            .unwrap()
            .entry("m")
            .unwrap()
            .waiters
            .len()
            != count
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Nobody holds "m", or will: another process can have it.
fn assert_free(bed: &Bed) {
    drop(
        bed.open()
            .mutex("m")
            .wait(LONG)
            .acquire()
            .expect("it is still held"),
    );
}

/// A small generator: which moment is hit differs from round to round, and is the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

#[test]
fn cancelled_at_the_moment_of_the_grant() {
    let bed = Bed::new();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (store, other) = (bed.open(), bed.open());
        let mut random = Random(7);
        let (mut granted, mut cancelled) = (0, 0);
        for round in 0..300 {
            let lease = soon(store.mutex("m").acquire_async()).await.unwrap();
            // Every other waiter is in the same store handle, so the lease is passed on locally.
            let from = if round % 2 == 0 { &store } else { &other };
            let waiting = tokio::spawn(from.mutex("m").acquire_async());
            let spins = random.below(400);
            let release = tokio::spawn(lease.release_async());
            for _ in 0..spins {
                std::hint::spin_loop();
                if spins % 3 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            waiting.abort();
            match soon(waiting).await {
                Ok(lease) => {
                    granted += 1;
                    drop(lease.unwrap());
                }
                Err(_) => cancelled += 1,
            }
            soon(release).await.unwrap().unwrap();
        }
        println!("{granted} granted, {cancelled} cancelled");
        drop(soon(store.mutex("m").acquire_async()).await.unwrap());
        store.close().unwrap();
        drop(other);
    });
    assert_free(&bed);
}

#[test]
fn loss() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let request = store
            .mutex("m")
            .on_event(move |event| drop(sender.send(event)));
        let lease = soon(request.acquire_async()).await.unwrap();
        let token = lease.fence().unwrap();
        assert!(timeout(Duration::from_millis(1), lease.lost())
            .await
            .is_err());
        soon(bed.open().break_lease_async("m", token))
            .await
            .unwrap();
        soon(lease.lost()).await.unwrap();
        soon(lease.lost()).await.unwrap();
        assert!(matches!(soon(events.recv()).await, Some(Event::Lost(_))));
        assert_eq!(status(soon(lease.release_async()).await), Status::Lost);
        assert!(soon(events.recv()).await.is_none());

        // A blocking release of a lost lease whose event nobody has run. (On a server nobody would
        // hear of the loss before the next renewal, because nobody drives the store meanwhile.)
        if is_embedded() {
            let lease = soon(store.mutex("m").acquire_async()).await.unwrap();
            bed.open().break_lease("m", lease.token()).unwrap();
            while lease.state() != State::Lost {
                std::thread::yield_now();
            }
            assert_eq!(status(lease.release()), Status::Lost);
        }
        let blocking = store.mutex("m").acquire().unwrap();
        assert_eq!(status(soon(blocking.lost()).await), Status::Invalid);
    });
}

#[test]
fn conversion_and_yielding() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let (store, other) = (bed.open(), bed.open());
        let mut lease = soon(store.upgradeable("rw").acquire_async()).await.unwrap();
        let reader = soon(other.shared("rw").acquire_async()).await.unwrap();
        // Cancelled: it is what it was.
        assert!(timeout(
            Duration::from_millis(30),
            lease.convert_async(Kind::Exclusive, LONG)
        )
        .await
        .is_err());
        assert!(lease.is_valid());
        drop(reader);
        soon(async {
            // The one that was cancelled may still be ending. If the store has converted the lease all the same, the handle of
            // before has ended, and the new one is on its way.
            while let Err(error) = lease.convert_async(Kind::Exclusive, LONG).await {
                assert!(matches!(error.status(), Status::InUse | Status::Invalid));
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(lease.info().unwrap().kind, Kind::Exclusive);
        assert_eq!(
            status(soon(other.shared("rw").wait(Wait::Try).acquire_async()).await),
            Status::Busy
        );
        drop(lease);
        drop(soon(other.exclusive("rw").acquire_async()).await.unwrap());

        let mut lease = soon(store.mutex("m").watch().acquire_async())
            .await
            .unwrap();
        let token = lease.token();
        assert_eq!(soon(lease.yield_async(LONG)).await.unwrap(), Yielded::Kept);
        let waiting = tokio::spawn(async move {
            let lease = other.mutex("m").acquire_async().await.unwrap();
            lease.release_async().await.unwrap();
        });
        while !lease.is_wanted() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            soon(lease.yield_async(LONG)).await.unwrap(),
            Yielded::Regained
        );
        assert!(lease.token() > token);
        soon(waiting).await.unwrap();
    });
    assert_free(&bed);
}

/// A conversion, or a yield, that is under way when its future and its lease are dropped.
#[test]
fn abandoned_with_its_lease() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let (store, other) = (bed.open(), bed.open());
        for _ in 0..20 {
            let mut lease = soon(store.upgradeable("rw").acquire_async()).await.unwrap();
            let reader = soon(other.shared("rw").acquire_async()).await.unwrap();
            let op = lease.convert_async(Kind::Exclusive, LONG);
            assert!(timeout(Duration::from_millis(1), op).await.is_err());
            drop((lease, reader));
            drop(soon(other.exclusive("rw").acquire_async()).await.unwrap());

            let mut lease = soon(store.mutex("m").watch().acquire_async())
                .await
                .unwrap();
            let theirs = tokio::spawn(other.mutex("m").acquire_async());
            while !lease.is_wanted() {
                tokio::task::yield_now().await;
            }
            assert!(timeout(Duration::from_millis(1), lease.yield_async(LONG))
                .await
                .is_err());
            drop(lease);
            drop(soon(theirs).await.unwrap().unwrap());
        }
        drop(soon(store.mutex("m").acquire_async()).await.unwrap());
    });
    assert_free(&bed);
}

/// The driver is a task of the first runtime. Futures of another one go on when that ends.
#[test]
fn two_runtimes() {
    let bed = Bed::new();
    let store = bed.open();
    let first = one_thread();
    let lease = first.block_on(store.mutex("m").acquire_async()).unwrap();
    let (sender, begun) = std::sync::mpsc::channel();
    let second = std::thread::spawn(move || {
        one_thread().block_on(async move {
            let waiting = tokio::spawn(store.mutex("m").acquire_async());
            tokio::task::yield_now().await;
            sender.send(()).unwrap();
            let lease = soon(waiting).await.unwrap().unwrap();
            lease.release_async().await.unwrap();
        })
    });
    begun.recv_timeout(LONG).unwrap();
    drop(first); // and the driver with it
    lease.release().unwrap();
    second.join().unwrap();
    assert_free(&bed);
}

#[test]
fn a_store_closes_with_its_last_user() {
    let bed = Bed::new();
    let held = bed.open();
    let lease = held.mutex("m").acquire().unwrap();
    let runtime = one_thread();
    let store = bed.open();
    let waiting = runtime.spawn(store.mutex("m").acquire_async());
    drop(store);
    runtime.block_on(tokio::task::yield_now());
    until("it waits", || waiters(&held, "m") == 1);
    runtime.block_on(async {
        waiting.abort(); // the task had the last reference to its store
        assert!(soon(waiting).await.unwrap_err().is_cancelled());
    });
    until("it waits no more", || waiters(&held, "m") == 0);
    drop(lease);
    assert_free(&bed);
}

#[test]
fn several_names() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let (store, other) = (bed.open(), bed.open());
        let all = || [store.mutex("b"), store.mutex("a")];
        let leases = soon(store.acquire_all_async(all(), LONG)).await.unwrap();
        assert_eq!(leases[0].info().unwrap().name, b"b");
        let any = [other.mutex("a"), other.mutex("c")];
        let (index, lease) = soon(other.acquire_any_async(any, LONG)).await.unwrap();
        assert_eq!(index, 1);
        assert!(timeout(
            Duration::from_millis(5),
            store.acquire_all_async(all(), LONG)
        )
        .await
        .is_err());
        soon(store.release_all_async(leases)).await.unwrap();
        drop(soon(store.acquire_all_async(all(), LONG)).await.unwrap());
        drop(lease);
    });
}
