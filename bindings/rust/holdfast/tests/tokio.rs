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
            // The one that was cancelled may still be ending.
            while let Err(error) = lease.convert_async(Kind::Exclusive, LONG).await {
                assert_eq!(error.status(), Status::InUse);
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

#[test]
fn store_calls() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let lease = soon(store.mutex("m").watch().acquire_async())
            .await
            .unwrap();
        soon(store.ask_async("m", Some("hello"))).await.unwrap();
        assert!(!soon(store.check_async()).await.unwrap().is_empty());
        assert!(soon(store.deadlocks_async()).await.unwrap().is_empty());
        assert_eq!(
            soon(store.inspect_matching_async("*"))
                .await
                .unwrap()
                .entries
                .len(),
            1
        );
        soon(store.resize_semaphore_async("s", 2)).await.unwrap();
        let brief = Duration::from_millis(5);
        let watches = store.info().unwrap().caps.contains(Caps::WATCH);
        let expected = if watches {
            Status::Timeout
        } else {
            Status::Unsupported
        };
        assert_eq!(
            status(soon(store.wait_change_async(0, brief)).await),
            expected
        );
        drop(lease);
        let ttl = Duration::from_secs(120);
        let timed = soon(store.mutex("t").ttl(ttl).acquire_async())
            .await
            .unwrap();
        soon(timed.renew_async(Some(ttl * 2))).await.unwrap();
        if store.info().unwrap().caps.contains(Caps::DETACHED) {
            let lease = soon(store.mutex("d").ttl(ttl).detached().acquire_async())
                .await
                .unwrap();
            let text = lease.detach().unwrap();
            let adopted = soon(store.adopt_async(&Adopt::new("d", text)))
                .await
                .unwrap();
            soon(adopted.release_async()).await.unwrap();
        }
        assert_eq!(
            status(soon(store.break_lease_async("none", 1)).await),
            Status::NotFound
        );
    });
}

#[test]
fn cells_counters_guards_limits() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let cell = store.cell("c");
        assert_eq!(soon(cell.get_async()).await.unwrap(), None);
        let first = soon(cell.set_async("1", None)).await.unwrap();
        assert_eq!(soon(cell.swap_async(0, "x", None)).await.unwrap(), None);
        let waiting = tokio::spawn(cell.wait_async(first, LONG));
        let second = soon(cell.swap_async(first, "2", None))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(soon(waiting).await.unwrap().unwrap(), second);
        soon(cell.update_async(LONG, |old| {
            CellAction::Write([&old.unwrap().bytes[..], b"3"].concat())
        }))
        .await
        .unwrap();
        let value = soon(cell.get_async()).await.unwrap().unwrap();
        assert_eq!((&value.bytes[..], value.ttl), (&b"23"[..], None));
        let panic = cell.update_async(LONG, |_| panic!("expected"));
        assert_eq!(status(soon(panic).await), Status::Internal);
        assert!(soon(cell.delete_async(value.version)).await.unwrap());
        let items = [CellItem::new(
            "a",
            Some(0),
            CellAction::Write(b"1".to_vec()),
        )];
        assert!(
            matches!(soon(store.commit_async(&items)).await.unwrap(), Commit::Done(v) if v[0] > 0)
        );
        assert!(matches!(
            soon(store.commit_async(&items)).await.unwrap(),
            Commit::Changed {
                index: 0,
                version: 1..
            }
        ));

        let counter = store.counter("n");
        assert_eq!(soon(counter.add_async(2)).await.unwrap(), 2);
        soon(counter.set_async(5)).await.unwrap();
        assert_eq!(
            soon(counter.swap_async(4, 9)).await.unwrap(),
            Swap::Changed(5)
        );
        assert_eq!(soon(counter.swap_async(5, 9)).await.unwrap(), Swap::Done);
        assert_eq!(soon(counter.get_async()).await.unwrap(), 9);
        soon(counter.delete_async()).await.unwrap();

        let guard = store.guard("g");
        assert_eq!(soon(guard.claim_async(5)).await.unwrap(), None);
        soon(guard.set_async(5, "five")).await.unwrap();
        assert_eq!(soon(guard.claim_async(6)).await.unwrap().unwrap(), b"five");
        assert_eq!(
            status(soon(guard.set_async(5, "late")).await),
            Status::Fenced
        );

        let rule = Rule {
            algorithm: Algorithm::Fixed,
            rate: 1,
            per: LONG,
        };
        let limit = store.limit("l", rule);
        assert!(soon(limit.take_async(1, Wait::Try))
            .await
            .unwrap()
            .is_granted());
        assert!(!soon(limit.take_async(1, Wait::Try))
            .await
            .unwrap()
            .is_granted());
        assert!(
            timeout(Duration::from_millis(5), limit.take_async(1, Wait::Forever))
                .await
                .is_err()
        );
        assert_eq!(soon(limit.get_async()).await.unwrap().unwrap().rule, rule);
        assert!(soon(limit.set_async()).await.unwrap().is_set);
    });
}

#[test]
fn parties_elections_groups_once() {
    let bed = Bed::new();
    one_thread().block_on(async {
        let store = bed.open();
        let latch = store.latch("l");
        soon(latch.create_async(1)).await.unwrap();
        let joined = soon(latch.join_async("a", LONG)).await.unwrap();
        let waiting = tokio::spawn(latch.wait_async(LONG));
        assert_eq!(soon(latch.count_down_async("a")).await.unwrap(), 0);
        drop(joined);
        soon(waiting).await.unwrap().unwrap();
        assert_eq!(
            soon(latch.get_async()).await.unwrap(),
            LatchInfo { count: 1, left: 0 }
        );
        soon(latch.delete_async()).await.unwrap();

        let party = |who: &str| {
            let barrier = store.barrier("b", 2).who(who);
            tokio::spawn(async move {
                barrier.wait_async(LONG).await.unwrap();
                let inside = barrier.enter_async(LONG).await.unwrap();
                inside.leave_async(LONG).await.unwrap();
            })
        };
        let (a, b) = (party("a"), party("b"));
        soon(a).await.unwrap();
        soon(b).await.unwrap();

        let election = store.election("e");
        let nobody = soon(election.wait_async(None, Wait::Try)).await.unwrap();
        let leader = soon(store.mutex("e").campaign_async("here")).await.unwrap();
        let seen = soon(election.wait_async(Some(&nobody), LONG))
            .await
            .unwrap();
        assert_eq!(seen.value(), b"here");
        soon(leader.publish_async("there")).await.unwrap();
        soon(leader.set_cell_async("mine", "x")).await.unwrap();
        assert!(soon(store.lease_cell_async("mine"))
            .await
            .unwrap()
            .is_some());
        soon(leader.resign_async()).await.unwrap();
        assert!(soon(store.lease_cell_async("mine"))
            .await
            .unwrap()
            .is_none());

        let group = store.group("g");
        let none = soon(group.wait_async(None, Wait::Try)).await.unwrap();
        let member = soon(store.shared("g").join_async("me")).await.unwrap();
        let one = soon(group.wait_async(Some(&none), LONG)).await.unwrap();
        assert_eq!(one.list()[0].value, "me");
        soon(member.leave_async()).await.unwrap();
        assert!(soon(group.wait_async(Some(&one), LONG))
            .await
            .unwrap()
            .is_empty());

        let work = match soon(store.mutex("o").begin_once_async(None)).await.unwrap() {
            Once::Begun(work) => work,
            Once::Done(mark) => panic!("{mark:?}"),
        };
        soon(work.finish_async()).await.unwrap();
        soon(work.into_lease().release_async()).await.unwrap();
        let again = soon(store.mutex("o").begin_once_async(None)).await.unwrap();
        assert!(matches!(again, Once::Done(_)));
        let lease = soon(store.mutex("o").acquire_async()).await.unwrap();
        assert!(matches!(
            soon(lease.claim_once_async(None)).await.unwrap(),
            Once::Done(_)
        ));
        assert!(soon(store.once("o").get_async()).await.unwrap().is_some());
        assert!(soon(store.once("o").delete_async()).await.unwrap());
        let lease = soon(store.mutex("o").acquire_async()).await.unwrap();
        assert!(matches!(
            soon(lease.claim_once_async(None)).await.unwrap(),
            Once::Begun(_)
        ));
    });
}
