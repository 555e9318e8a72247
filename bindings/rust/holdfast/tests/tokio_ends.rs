// SPDX-License-Identifier: MIT
//! Futures and runtimes that end early: at every await point, with their runtime, or never.
#![cfg(feature = "tokio")]
mod common;

use common::*;
use holdfast::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use tokio::runtime::{Builder, Runtime};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Nobody holds or waits for `name`: what was abandoned has been given back.
fn assert_free(store: &Store, name: &str) {
    let lease = store.mutex(name).wait(LONG).acquire().unwrap();
    assert_eq!(waiters(store, name), 0);
    lease.release().unwrap();
}

/// Polls `inner` at most `left` times. Ready(None): it was not ready by then.
struct AtMost<F> {
    inner: Pin<Box<F>>,
    left: usize,
}

impl<F: Future> Future for AtMost<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        if let Poll::Ready(answer) = self.inner.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

/// A transaction with an await for each step. However often it was polled before it was dropped, nothing
/// stays held and nobody waits.
async fn transaction(store: Store) -> Result<()> {
    let mut rw = store.upgradeable("rw").acquire_async().await?;
    let lease = store.mutex("m").watch().acquire_async().await?;
    rw.convert_async(Kind::Exclusive, LONG).await?;
    let all = [store.mutex("a"), store.mutex("b")];
    let leases = store.acquire_all_async(all, LONG).await?;
    store.counter("n").add_async(1).await?;
    store.guard("page").set_async(lease.fence()?, "x").await?;
    store.release_all_async(leases).await?;
    rw.release_async().await?;
    lease.release_async().await
}

#[test]
fn dropped_at_every_await_point() {
    let bed = Bed::new();
    let watcher = bed.open();
    let runtime = one_thread();
    runtime.block_on(async {
        let store = bed.open();
        for polls in 1..200 {
            let step = AtMost {
                inner: Box::pin(transaction(store.clone())),
                left: polls,
            };
            let done = tokio::time::timeout(LONG, step).await.unwrap();
            for name in ["m", "a", "b"] {
                drop(store.mutex(name).wait(LONG).acquire_async().await.unwrap());
            }
            drop(
                store
                    .exclusive("rw")
                    .wait(LONG)
                    .acquire_async()
                    .await
                    .unwrap(),
            );
            if let Some(result) = done {
                result.unwrap();
                assert!(polls > 9, "each step is an await: {polls} polls");
                return;
            }
        }
        panic!("it did not end");
    });
    drop(runtime);
    for name in ["m", "a", "b"] {
        assert_free(&watcher, name);
    }
}

/// The answer is there, but the future that waits for it is not polled again.
#[test]
fn dropped_between_the_answer_and_the_second_poll() {
    let bed = Bed::new();
    let other = bed.open();
    one_thread().block_on(async {
        let store = bed.open();
        for _ in 0..50 {
            let mut op = Box::pin(store.mutex("m").acquire_async());
            let wakes = Arc::new(Count::default());
            let waker = wakes.clone().into();
            assert!(op
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending());
            while wakes.0.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            assert!(other.mutex("m").try_acquire().unwrap().is_none());
            drop(op);
            drop(other.mutex("m").wait(LONG).acquire_async().await.unwrap());
        }
    });
    assert_free(&other, "m");
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The runtime ends after the store has granted what its task waits for, and before the task knows.
/// Threads that use the same store without a runtime are not stuck behind that grant.
#[test]
fn a_grant_that_comes_when_the_runtime_ends() {
    let bed = Bed::new();
    let (store, other) = (bed.open(), bed.open());
    for _ in 0..5 {
        let lease = other.mutex("m").acquire().unwrap();
        let runtime = one_thread();
        let waiting = runtime.spawn(store.mutex("m").acquire_async());
        runtime.block_on(async {
            while waiters(&other, "m") == 0 {
                tokio::task::yield_now().await;
            }
        });
        lease.release().unwrap(); // the task, which does not run now, is granted it
        drop(runtime);
        drop(waiting);
        assert_free(&store, "m");
    }
}

/// A runtime ends with many waiters; the store lives on, in another runtime.
#[test]
fn waiters_end_with_their_runtime() {
    let bed = Bed::new();
    let (store, other) = (bed.open(), bed.open());
    let lease = other.mutex("m").acquire().unwrap();
    let runtime = one_thread();
    for _ in 0..100 {
        runtime.spawn(store.mutex("m").acquire_async());
    }
    runtime.block_on(async {
        while waiters(&other, "m") == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(runtime);
    lease.release().unwrap();
    assert_free(&store, "m");
    one_thread().block_on(async {
        let op = store.mutex("m").acquire_async();
        drop(tokio::time::timeout(LONG, op).await.unwrap().unwrap());
    });
}

/// The driver's runtime ends while a future of another runtime is being polled.
#[test]
fn a_driver_that_ends_during_a_poll() {
    let bed = Bed::new();
    let store = bed.open();
    let (sender, runtimes) = channel::<Runtime>();
    let ender = std::thread::spawn(move || {
        for runtime in runtimes {
            drop(runtime);
        }
    });
    for round in 0..300u32 {
        let first = one_thread();
        drop(
            first
                .block_on(store.mutex("other").acquire_async())
                .unwrap(),
        );
        sender.send(first).unwrap();
        for _ in 0..round % 50 {
            std::hint::spin_loop();
        }
        one_thread().block_on(async {
            let op = store.mutex("m").acquire_async();
            let lease = tokio::time::timeout(LONG, op).await;
            drop(lease.expect("a driver took over").unwrap());
        });
    }
    drop(sender);
    ender.join().unwrap();
}

/// A future that is forgotten is as a lease that is forgotten: it is held until the store is closed.
#[test]
fn forgotten_futures_and_leases() {
    let bed = Bed::new();
    let other = bed.open();
    let runtime = one_thread();
    runtime.block_on(async {
        let store = bed.open();
        let mut op = Box::pin(store.mutex("m").acquire_async());
        let waker = Arc::new(Count::default()).into();
        assert!(op
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending());
        std::mem::forget(op);
        std::mem::forget(store.mutex("n").acquire_async().await.unwrap());
        std::mem::forget(store.mutex("never polled").acquire_async());
        while other.mutex("m").try_acquire().unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(other.mutex("n").try_acquire().unwrap().is_none());
        assert!(other.mutex("never polled").try_acquire().unwrap().is_some());
        store.close_and_release().unwrap();
    });
    assert_free(&other, "m");
    assert_free(&other, "n");
}

/// Panics of wakers, of handlers and of functions of cells stay where they are.
#[test]
fn panics_do_not_enter_the_library() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let mut op = Box::pin(store.mutex("m").acquire_async());
        let waker = Arc::new(Panics).into();
        assert!(op
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending());
        drop(tokio::time::timeout(LONG, op).await); // or it is ready
        let cell = store.cell("c");
        let update = cell.update_async(LONG, |_| panic!("a function"));
        let task = tokio::spawn(async move { update.await.map(drop) });
        let _ = tokio::time::timeout(LONG, task).await.expect("it ends");
        let op = store.mutex("m").wait(LONG).acquire_async();
        drop(op.await.unwrap());
    });
    std::panic::set_hook(hook);
}
