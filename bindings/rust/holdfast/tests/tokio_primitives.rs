// SPDX-License-Identifier: MIT
//! The asynchronous form of every call that is not about the lease of a lock itself.
#![cfg(feature = "tokio")]
mod common;

use common::*;
use holdfast::*;
use std::future::Future;
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
