// SPDX-License-Identifier: MIT
//! Blocking locks: exclusion, waiting, loss, conversion, several names.
mod common;

use common::*;
use holdfast::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_mutex_excludes_threads() {
    let bed = Bed::new();
    let store = bed.open();
    let inside = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (store, inside) = (store.clone(), inside.clone());
            std::thread::spawn(move || {
                let mut last = 0;
                for _ in 0..50 {
                    let lease = store.mutex("m").wait(LONG).acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    assert!(lease.token() > last, "tokens grow");
                    last = lease.token();
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    store.close().unwrap();
}

/// Add to a number in a file, which only a lock makes safe.
fn add_in_file(store: &Store, file: &std::path::Path, times: usize) {
    for _ in 0..times {
        let lease = store.mutex("file").wait(LONG).acquire().unwrap();
        let number: u64 = std::fs::read_to_string(file)
            .unwrap_or_default()
            .parse()
            .unwrap_or(0);
        std::thread::yield_now();
        std::fs::write(file, (number + 1).to_string()).unwrap();
        lease.release().unwrap();
    }
}

#[test]
#[ignore = "a part of a_mutex_excludes_processes"]
fn child_adds() {
    let store = Store::options()
        .wait(LONG)
        .open(std::env::var("HF_CHILD_URL").unwrap())
        .unwrap();
    let folder = std::env::var("HF_CHILD_FOLDER").unwrap();
    add_in_file(&store, &std::path::Path::new(&folder).join("number"), 100);
}

#[test]
fn a_mutex_excludes_processes() {
    let bed = Bed::new();
    let store = bed.open();
    let children: Vec<_> = (0..3).map(|_| bed.child("child_adds", &[])).collect();
    add_in_file(&store, &bed.file("number"), 100);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(std::fs::read_to_string(bed.file("number")).unwrap(), "400");
}

#[test]
fn a_lease_moves_to_another_thread() {
    let bed = Bed::new();
    let store = bed.open();
    let lease = store.mutex("m").no_deadlock_check().acquire().unwrap();
    assert!(store.mutex("m").try_acquire().unwrap().is_none());
    std::thread::spawn(move || drop(lease)).join().unwrap();
    assert!(store.mutex("m").try_acquire().unwrap().is_some());
}

#[test]
fn waiting_ends() {
    let bed = Bed::new();
    let store = bed.open();
    let _held = store.mutex("m").acquire().unwrap();
    let other = bed.open();
    let soon = Duration::from_millis(20);
    assert_eq!(
        status(other.mutex("m").wait(soon).acquire()),
        Status::Timeout
    );
    assert_eq!(
        status(other.mutex("m").wait(Wait::Try).acquire()),
        Status::Busy
    );

    let canceller = Canceller::new().unwrap();
    let thread = {
        let (other, canceller) = (other.clone(), canceller.clone());
        std::thread::spawn(move || status(other.mutex("m").canceller(&canceller).acquire()))
    };
    until("it waits", || waiters(&store, "m") == 1);
    canceller.fire().unwrap();
    assert_eq!(thread.join().unwrap(), Status::Cancelled);
    assert_eq!(waiters(&store, "m"), 0);
    // One that has been fired stays so.
    assert_eq!(
        status(other.mutex("m").canceller(&canceller).acquire()),
        Status::Cancelled
    );
}

#[test]
fn loss_is_told() {
    let bed = Bed::new();
    let store = bed.open();
    let (lease, events) = with_events(store.mutex("m"));
    let fence = lease.fence().unwrap();
    assert_eq!(fence, lease.token());
    bed.open().break_lease("m", fence).unwrap();
    assert!(matches!(
        event(&events, |event| matches!(event, Event::Lost(_))),
        Event::Lost(_)
    ));
    assert_eq!(lease.state(), State::Lost);
    assert!(!lease.is_valid());
    assert_eq!(lease.remaining(), Some(Duration::ZERO));
    assert_eq!(status(lease.fence()), Status::Lost);
    assert_eq!(status(lease.release()), Status::Lost);
    assert_eq!(status(store.break_lease("m", fence)), Status::NotFound);
    assert!(
        events.recv().is_err(),
        "the handler has ended with the lease"
    );
}

/// A has lost its lease, and B holds the next one of the same store and name.
#[test]
fn two_holders_through_one_store() {
    let bed = Bed::new();
    let store = bed.open();
    let holders = |name: &str| -> Vec<u64> {
        let view = store.inspect(name).unwrap();
        let entry = view.entry(name);
        entry.map_or(Vec::new(), |entry| {
            entry.holders.iter().map(|holder| holder.token).collect()
        })
    };
    let requests: [(&str, &dyn Fn() -> Lease); 5] = [
        ("m", &|| store.mutex("m").acquire().unwrap()),
        ("m", &|| store.mutex("m").reentrant().acquire().unwrap()),
        ("rw", &|| store.exclusive("rw").acquire().unwrap()),
        ("rw", &|| store.shared("rw").acquire().unwrap()),
        ("s", &|| store.semaphore("s", 1).acquire().unwrap()),
    ];
    for (name, acquire) in requests {
        for dropped in [false, true] {
            let a = acquire();
            store.break_lease(name, a.token()).unwrap();
            let b = acquire();
            assert_eq!(holders(name), [b.token()]);
            if dropped {
                drop(a);
            } else {
                assert_eq!(status(a.release()), Status::Lost);
            }
            assert_eq!(holders(name), [b.token()]);
            b.release().unwrap();
            assert!(holders(name).is_empty());
        }
    }
}

/// The hook is one for the process, so one test has all of it.
#[test]
fn a_release_that_fails_in_a_drop_is_told() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let bed = Bed::new();
    let store = bed.open();
    set_release_hook(|error| {
        if error.text().contains("hooked") || error.status() == Status::Lost {
            SEEN.fetch_add(1, Ordering::SeqCst);
        }
    });
    let lease = store.mutex("hooked").acquire().unwrap();
    store.break_lease("hooked", lease.token()).unwrap();
    until("it is lost", || lease.state() == State::Lost);
    let before = SEEN.load(Ordering::SeqCst);
    drop(lease);
    assert!(SEEN.load(Ordering::SeqCst) > before);
}

#[test]
fn a_handler_may_end_its_own_lease_and_panic() {
    let bed = Bed::new();
    let store = bed.open();
    let slot = Arc::new(std::sync::Mutex::new(None::<Lease>));
    let (sender, receiver) = std::sync::mpsc::channel();
    let lease = {
        let slot = slot.clone();
        store
            .mutex("m")
            .on_event(move |_| {
                drop(slot.lock().unwrap().take()); // frees this very closure
                sender.send(()).unwrap();
                panic!("a panic in a handler stays there (this text is expected)");
            })
            .acquire()
            .unwrap()
    };
    let token = lease.token();
    *slot.lock().unwrap() = Some(lease);
    store.break_lease("m", token).unwrap();
    receiver.recv_timeout(LONG).unwrap();
    until("it can be had", || {
        store.mutex("m").try_acquire().unwrap().is_some()
    });
}

#[test]
fn reentrancy_by_thread_and_by_scope() {
    let bed = Bed::new();
    let store = bed.open();
    let first = store.mutex("m").reentrant().acquire().unwrap();
    let second = store.mutex("m").reentrant().acquire().unwrap();
    assert_eq!(first.info().unwrap().holds, 2);
    assert_eq!(first.token(), second.token());
    drop(first);
    assert_eq!(second.info().unwrap().holds, 1);
    drop(second);

    let scope = Scope::new();
    assert_ne!(scope, Scope::new());
    let (first, events) = with_events(store.mutex("m").reentrant().scope(scope));
    let second = {
        let store = store.clone();
        let request = store.mutex("m").reentrant().scope(scope).on_event(|_| ());
        std::thread::spawn(move || request.acquire().unwrap())
            .join()
            .unwrap()
    };
    drop(first); // and its handler, while the lease is still held
    assert!(store.mutex("m").try_acquire().unwrap().is_none());
    store.break_lease("m", second.token()).unwrap();
    until("it is lost", || second.state() == State::Lost);
    assert!(events.recv().is_err(), "no event after the release");
    assert_eq!(status(second.release()), Status::Lost);
}

#[test]
fn readers_writers_and_conversion() {
    let bed = Bed::new();
    let (store, other) = (bed.open(), bed.open());
    let reader = store.shared("rw").acquire().unwrap();
    let second = other.shared("rw").acquire().unwrap();
    assert!(other.exclusive("rw").try_acquire().unwrap().is_none());
    assert_eq!(status(reader.fence()), Status::Unsupported);
    let mut upgradeable = store.upgradeable("rw").acquire().unwrap();
    assert_eq!(
        status(upgradeable.convert(Kind::Exclusive, Wait::Try)),
        Status::Busy
    );
    assert_eq!(upgradeable.info().unwrap().kind, Kind::Upgradeable);
    reader.release().unwrap();
    second.release().unwrap();
    upgradeable.convert(Kind::Exclusive, LONG).unwrap();
    assert_eq!(upgradeable.info().unwrap().kind, Kind::Exclusive);
    assert!(other.shared("rw").try_acquire().unwrap().is_none());
    upgradeable.convert(Kind::Shared, LONG).unwrap();
    let again = other.shared("rw").wait(LONG).acquire().unwrap();
    assert_eq!(
        status(upgradeable.convert(Kind::Exclusive, LONG)),
        Status::Invalid
    );
    drop((again, upgradeable));
    assert!(other.exclusive("rw").wait(LONG).acquire().is_ok());
}

#[test]
fn semaphores() {
    let bed = Bed::new();
    let store = bed.open();
    let two = store.semaphore("s", 3).permits(2).acquire().unwrap();
    assert!(store
        .semaphore("s", 3)
        .permits(2)
        .try_acquire()
        .unwrap()
        .is_none());
    let one = store.semaphore("s", 3).acquire().unwrap();
    assert!(store.semaphore("s", 3).try_acquire().unwrap().is_none());
    assert_eq!(
        status(store.semaphore("s", 4).try_acquire()),
        Status::Mismatch
    );
    assert_eq!(status(store.mutex("s").try_acquire()), Status::Mismatch);
    drop((two, one));

    let numbered = store
        .semaphore("n", 3)
        .permits(2)
        .numbered()
        .acquire()
        .unwrap();
    let slots = numbered.info().unwrap().slots;
    assert_eq!(slots.len(), 2);
    let third = store.semaphore("n", 3).numbered().acquire().unwrap();
    assert!(!slots.contains(&third.info().unwrap().slots[0]));

    store.resize_semaphore("r", 2).unwrap();
    let a = store.semaphore("r", 1).acquire().unwrap();
    let b = store
        .semaphore("r", 1)
        .try_acquire()
        .unwrap()
        .expect("its size was set to 2");
    assert!(store.inspect("r").unwrap().entry("r").unwrap().resized);
    drop((a, b));
}

#[test]
fn several_names() {
    let bed = Bed::new();
    let (store, other) = (bed.open(), bed.open());
    let requests = |store: &Store| vec![store.mutex("b"), store.exclusive("a")];
    let leases = store.acquire_all(requests(&store), LONG).unwrap();
    assert_eq!(leases[0].info().unwrap().name, b"b");
    assert_eq!(leases[1].info().unwrap().name, b"a");
    assert_eq!(
        status(other.acquire_all(requests(&other), Wait::Try)),
        Status::Busy
    );
    let (index, lease) = other
        .acquire_any([other.mutex("b"), other.mutex("free")], Wait::Forever)
        .unwrap();
    assert_eq!((index, lease.info().unwrap().name), (1, b"free".to_vec()));
    drop(lease);
    store.release_all(leases).unwrap();
    drop(other.acquire_all(requests(&other), LONG).unwrap());
    assert_eq!(status(store.acquire_all([], LONG)), Status::Invalid);
    // The handlers of the names that were not taken are gone.
    let counted = Arc::new(());
    let request = |name: &str| {
        let counted = counted.clone();
        store.mutex(name).on_event(move |_| drop(counted.clone()))
    };
    let (_, lease) = store
        .acquire_any([request("x"), request("y")], LONG)
        .unwrap();
    assert_eq!(
        Arc::strong_count(&counted),
        2,
        "ours, and that of the lease"
    );
    drop(lease);
}

#[test]
fn holders_hear_of_waiters() {
    let bed = Bed::new();
    let (store, other) = (bed.open(), bed.open());
    assert_eq!(status(other.ask("m", None)), Status::NotFound);
    let (mut lease, events) = with_events(store.mutex("m").watch());
    assert_eq!(lease.yield_to_waiters(LONG).unwrap(), Yielded::Kept);
    other.ask("m", Some("please")).unwrap();
    let asked = event(&events, |event| matches!(event, Event::Asked(_)));
    assert_eq!(asked, Event::Asked("please".into()));
    assert_eq!(lease.info().unwrap().asks, 1);

    let thread = std::thread::spawn(move || {
        let lease = other.mutex("m").wait(LONG).acquire().unwrap();
        (lease.token(), lease.release().unwrap()).0
    });
    event(&events, |event| *event == Event::Wanted);
    assert!(lease.is_wanted());
    let before = lease.token();
    assert_eq!(lease.yield_to_waiters(LONG).unwrap(), Yielded::Regained);
    let theirs = thread.join().unwrap();
    assert!(before < theirs && theirs < lease.token());
    lease.release().unwrap();

    let unwatched = store.mutex("m").acquire().unwrap();
    assert_eq!(status(store.ask("m", None)), Status::Busy);
    drop(unwatched);
}

#[test]
fn ttl_renewal_and_detached_leases() {
    let bed = Bed::new();
    let store = bed.open();
    let caps = store.info().unwrap().caps;
    let ttl = Duration::from_secs(120);
    if caps.contains(Caps::TTL) {
        let lease = store.mutex("t").ttl(ttl).acquire().unwrap();
        assert_eq!(lease.info().unwrap().ttl, Some(ttl));
        assert!(lease.remaining().unwrap() <= ttl);
        lease.renew(Some(ttl * 2)).unwrap();
        assert!(lease.remaining().unwrap() > ttl);
        assert_eq!(status(lease.export()), Status::Unsupported);
    }
    if caps.contains(Caps::DETACHED) {
        let lease = store.mutex("d").ttl(ttl).detached().acquire().unwrap();
        let token = lease.token();
        let text = lease.detach().unwrap();
        store.close().unwrap();
        let other = bed.open();
        assert!(
            other.mutex("d").try_acquire().unwrap().is_none(),
            "it lives on"
        );
        let adopted = other
            .adopt(&Adopt::new("d", &text).ttl(ttl).renew(true))
            .unwrap();
        assert_eq!(adopted.token(), token);
        adopted.release().unwrap();
        assert_eq!(
            status(other.adopt(&Adopt::new("d", &text))),
            Status::NotFound
        );
        assert!(other.mutex("d").try_acquire().unwrap().is_some());
    }
}

#[test]
fn a_lease_ends_with_its_time() {
    let bed = Bed::new();
    let store = bed.open();
    let request = store.mutex("m").max_hold(Duration::from_millis(1500));
    let (lease, events) = with_events(request);
    event(&events, |event| matches!(event, Event::Lost(_)));
    assert_eq!(lease.state(), State::Lost);
    assert_eq!(status(lease.release()), Status::Lost);
}

#[test]
fn deadlocks_and_sessions() {
    let bed = Bed::new();
    let store = bed.open();
    let lease = store.mutex("m").acquire().unwrap();
    // This thread would wait for itself, without a limit.
    assert_eq!(status(store.mutex("m").acquire()), Status::Deadlock);
    assert!(store.deadlocks().unwrap().is_empty());
    let session = lease.session(None).unwrap();
    assert!(!session.is_empty());
    drop(lease);
    drop(store.mutex("m").session(&session).acquire().unwrap());
}

#[test]
fn a_store_counts() {
    let bed = Bed::new();
    let store = bed.open();
    let before = store.stats().unwrap();
    assert_eq!(before.granted, 0);
    assert_eq!(before.waits.quantile(0.5), Some(Duration::ZERO));
    let lease = store.mutex("x").acquire().unwrap();
    assert!(store.mutex("x").try_acquire().unwrap().is_none());
    let now = store.stats().unwrap();
    assert_eq!((now.granted, now.busy, now.held), (1, 1, 1));
    assert_eq!((now.waits.count(), now.holds.count()), (1, 0));
    assert!(now.waits.quantile(0.5) >= Some(Duration::from_millis(1)));
    store.break_lease("x", lease.token()).unwrap();
    assert_eq!(lease.release().unwrap_err().status(), Status::Lost);
    let now = store.stats().unwrap();
    assert_eq!((now.held, now.holds.buckets().iter().sum::<u64>()), (0, 1));
    assert_eq!(
        (now.losses.values().sum::<u64>(), now.losses["expired"]),
        (1, 0)
    );
    assert_eq!(Histogram::bound(3), Some(Duration::from_millis(8)));
    assert_eq!(Histogram::bound(now.holds.buckets().len() - 1), None);
    store.close().unwrap();
    assert_eq!(store.stats().unwrap_err().status(), Status::Invalid);
}
