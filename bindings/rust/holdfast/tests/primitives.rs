// SPDX-License-Identifier: MIT
//! What is built on locks and cells, and what looks into a store: the blocking forms.
mod common;

use common::*;
use holdfast::*;
use std::time::Duration;

#[test]
fn stores_and_engines() {
    assert_eq!(version(), "0.2.0");
    let parts: Vec<i64> = version()
        .split('.')
        .map(|part| part.parse().unwrap())
        .collect();
    assert_eq!(
        i64::from(version_number()),
        parts[0] * 10000 + parts[1] * 100 + parts[2]
    );
    let engines = engines();
    assert!(engines
        .iter()
        .any(|engine| engine.available && engine.name == "lmdb"));
    assert!(!engine_modes(0).is_empty());

    let bed = Bed::new();
    let store = Store::options()
        .label("me")
        .wait(LONG)
        .open(&bed.url)
        .unwrap();
    let info = store.info().unwrap();
    assert!(info.caps.contains(Caps::TOKEN | Caps::CELLS));
    assert_ne!(info.tokens, TokenStrength::None);
    assert_eq!(info.caps.contains(Caps::PROCESS), is_embedded());
    assert!(!info.lacks.is_empty() && info.lacks.iter().all(|lack| !lack.why.is_empty()));
    assert!(!store.check().unwrap().is_empty());
    assert!(format!("{store:?}").contains(&info.location));
    store.release_idle().unwrap();

    let lease = store.mutex("m").acquire().unwrap();
    assert_eq!(status(store.close()), Status::InUse);
    store.close_and_release().unwrap();
    assert_eq!(lease.state(), State::Lost);
    assert_eq!(status(lease.release()), Status::Lost);
    assert_eq!(status(store.info()), Status::Invalid);
    assert_eq!(status(store.mutex("m").try_acquire()), Status::Invalid);
}

#[test]
fn an_existing_store_only() {
    if is_embedded() {
        let bed = Bed::new();
        let open = || Store::options().existing(true).open(&bed.url);
        assert_eq!(status(open()), Status::NotFound);
        drop(bed.open());
        open().unwrap();
    }
}

#[test]
fn inspection_shows_holders_and_waiters() {
    let bed = Bed::new();
    let store = bed.open();
    let lease = store
        .mutex("job/1")
        .label("the \u{fc} holder")
        .acquire()
        .unwrap();
    let waiting = {
        let store = bed.open();
        std::thread::spawn(move || drop(store.mutex("job/1").label("next").acquire().unwrap()))
    };
    until("it waits", || waiters(&store, "job/1") == 1);
    let view = store.inspect_matching("job/*").unwrap();
    assert!(view.waiters_tracked);
    let entry = view.entry("job/1").unwrap();
    assert_eq!(
        (entry.kind, entry.capacity, entry.taken),
        (Kind::Mutex, 1, 1)
    );
    assert_eq!(entry.holders[0].token, lease.token());
    assert_eq!(entry.holders[0].label, "the \u{fc} holder");
    if is_embedded() {
        assert_eq!(entry.holders[0].pid, i64::from(std::process::id()));
    }
    assert_eq!(
        (entry.waiters[0].position, entry.waiters[0].kind),
        (1, Kind::Mutex)
    );
    assert_eq!(entry.waiters[0].label, "next");
    assert!(
        store.inspect("job/*").unwrap().entries.is_empty(),
        "no pattern"
    );
    let canceller = Canceller::new().unwrap();
    canceller.fire().unwrap();
    let watches = store.info().unwrap().caps.contains(Caps::WATCH);
    let expected = if watches {
        Status::Cancelled
    } else {
        Status::Unsupported
    };
    assert_eq!(
        status(store.wait_change(0, LONG, Some(&canceller))),
        expected
    );
    drop(lease);
    waiting.join().unwrap();
}

#[test]
fn changes_of_a_store() {
    let bed = Bed::new();
    let store = bed.open();
    if !store.info().unwrap().caps.contains(Caps::WATCH) {
        return;
    }
    let other = bed.open();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let seq = other.wait_change(0, LONG, None);
        sender.send(()).unwrap();
        seq.unwrap()
    });
    until("it has seen a change", || {
        drop(store.mutex("m").acquire().unwrap());
        receiver.try_recv().is_ok()
    });
    assert_ne!(thread.join().unwrap(), 0);
}

#[test]
fn cells() {
    let bed = Bed::new();
    let store = bed.open();
    let cell = store.cell("c");
    assert_eq!(cell.get().unwrap(), None);
    let first = cell.swap(0, "one", None).unwrap().unwrap();
    assert_eq!(cell.swap(0, "other", None).unwrap(), None);
    let second = cell.set(b"two\0", None).unwrap();
    assert_ne!(first, second);
    let value = cell.get().unwrap().unwrap();
    assert_eq!(
        (&value.bytes[..], value.version, value.ttl),
        (&b"two\0"[..], second, None)
    );
    assert_eq!(cell.wait(first, Wait::Try).unwrap(), second);
    assert_eq!(
        status(cell.wait(second, Duration::from_millis(5))),
        Status::Timeout
    );
    assert!(!cell.delete(first).unwrap());
    assert!(cell.delete(second).unwrap());

    let add = |old: Option<&CellValue>| {
        let number = old.map_or(0, |old| {
            std::str::from_utf8(&old.bytes).unwrap().parse().unwrap()
        });
        CellAction::Write((number + 1u32).to_string().into_bytes())
    };
    cell.update(LONG, add).unwrap();
    cell.update(LONG, add).unwrap();
    assert_eq!(cell.get().unwrap().unwrap().bytes, b"2");
    let present = cell.update(LONG, |_| CellAction::Leave).unwrap();
    assert_eq!(cell.get().unwrap().unwrap().version, present);
    assert_eq!(cell.update(LONG, |_| CellAction::Delete).unwrap(), 0);
    let panic = std::panic::catch_unwind(|| cell.update(LONG, |_| panic!("expected")));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "expected");
    assert_eq!(cell.get().unwrap(), None);
    if store.info().unwrap().caps.contains(Caps::CELL_TTL) {
        cell.set("x", Some(LONG)).unwrap();
        assert!(cell.get().unwrap().unwrap().ttl.unwrap() <= LONG * 2);
    }
}

#[test]
fn several_cells() {
    let bed = Bed::new();
    let store = bed.open();
    let write = |name: &str, version, text: &str| {
        CellItem::new(name, version, CellAction::Write(text.into()))
    };
    let versions = match store
        .commit(&[write("a", Some(0), "1"), write("b", None, "2")])
        .unwrap()
    {
        Commit::Done(versions) => versions,
        other => panic!("{other:?}"),
    };
    let items = [
        CellItem::new("a", Some(versions[0]), CellAction::Leave),
        write("b", Some(versions[0] + versions[1] + 1), "3"),
    ];
    let changed = Commit::Changed {
        index: 1,
        version: versions[1],
    };
    assert_eq!(store.commit(&items).unwrap(), changed);
    assert_eq!(store.cell("b").get().unwrap().unwrap().bytes, b"2");
}

#[test]
fn cells_of_a_lease() {
    let bed = Bed::new();
    let store = bed.open();
    let lease = store.mutex("m").acquire().unwrap();
    lease.set_cell("address", "here").unwrap();
    assert_eq!(store.lease_cell("address").unwrap().unwrap().bytes, b"here");
    drop(lease);
    assert_eq!(store.lease_cell("address").unwrap(), None);
}

#[test]
fn counters() {
    let bed = Bed::new();
    let counter = bed.open().counter("n");
    assert_eq!(counter.get().unwrap(), 0);
    assert_eq!(counter.add(5).unwrap(), 5);
    assert_eq!(counter.add(-7).unwrap(), -2);
    assert_eq!(counter.swap(-2, 10).unwrap(), Swap::Done);
    assert_eq!(counter.swap(-2, 11).unwrap(), Swap::Changed(10));
    counter.set(i64::MAX).unwrap();
    assert_eq!(status(counter.add(1)), Status::Overflow);
    counter.delete().unwrap();
    assert_eq!(counter.get().unwrap(), 0);
}

#[test]
fn guards_refuse_older_tokens() {
    let bed = Bed::new();
    let store = bed.open();
    let guard = store.guard("page");
    let old = store.mutex("m").acquire().unwrap().fence().unwrap();
    let new = store.mutex("m").acquire().unwrap().fence().unwrap();
    assert_eq!(guard.claim(old).unwrap(), None);
    guard.set(old, "old").unwrap();
    assert_eq!(guard.claim(new).unwrap().unwrap(), b"old");
    assert_eq!(status(guard.set(old, "late")), Status::Fenced);
    assert_eq!(status(guard.claim(old)), Status::Fenced);
    guard.set(new, "").unwrap();
    assert_eq!(guard.claim(new).unwrap(), Some(Vec::new()));
    assert_eq!(status(store.counter("page").get()), Status::Mismatch);
}

#[test]
fn limits() {
    let bed = Bed::new();
    let store = bed.open();
    let rule = Rule {
        algorithm: Algorithm::Bucket { burst: 2 },
        rate: 1,
        per: LONG,
    };
    let limit = store.limit("l", rule);
    assert!(limit.take(2, Wait::Try).unwrap().is_granted());
    match limit.take(1, Wait::Try).unwrap() {
        Take::Refused(info) => assert!(info.retry > Duration::ZERO && info.left == 0),
        other => panic!("{other:?}"),
    }
    assert!(!limit
        .take(1, Duration::from_millis(1))
        .unwrap()
        .is_granted());
    assert_eq!(limit.get().unwrap().unwrap().rule, rule);
    let wider = Rule {
        algorithm: Algorithm::Bucket { burst: 100 },
        ..rule
    };
    assert!(store.limit("l", wider).set().unwrap().is_set);
    assert_eq!(store.limit("l", None).get().unwrap().unwrap().rule, wider);
    assert_eq!(store.limit("never", None).get().unwrap(), None);
    let sliding = Rule {
        algorithm: Algorithm::Sliding,
        rate: 1,
        per: LONG,
    };
    assert_eq!(
        status(store.limit("l", sliding).take(1, Wait::Try)),
        Status::Mismatch
    );
}

#[test]
fn latches() {
    let bed = Bed::new();
    let latch = bed.open().latch("l");
    assert_eq!(status(latch.get()), Status::NotFound);
    latch.create(2).unwrap();
    let joined = latch.join("a", LONG).unwrap();
    assert_eq!(latch.count_down("a").unwrap(), 1);
    assert_eq!(latch.count_down("a").unwrap(), 1);
    joined.release().unwrap();
    assert_eq!(
        status(latch.wait(Duration::from_millis(5))),
        Status::Timeout
    );
    let waiting = {
        let latch = latch.clone();
        std::thread::spawn(move || latch.wait(LONG))
    };
    assert_eq!(latch.count_down("b").unwrap(), 0);
    waiting.join().unwrap().unwrap();
    assert_eq!(latch.get().unwrap(), LatchInfo { count: 2, left: 0 });
    latch.delete().unwrap();

    latch.create(1).unwrap();
    drop(latch.join("c", LONG).unwrap()); // without counting down
    assert_eq!(status(latch.wait(LONG)), Status::Broken);
    assert_eq!(status(latch.count_down("with\0nul")), Status::Invalid);
}

#[test]
fn barriers() {
    let bed = Bed::new();
    let store = bed.open();
    let threads: Vec<_> = (0..3)
        .map(|i| {
            let barrier = store.barrier("b", 3).who(format!("p{i}"));
            std::thread::spawn(move || {
                barrier.wait(LONG).unwrap();
                let inside = barrier.enter(LONG).unwrap();
                assert!(inside.is_valid());
                inside.leave(LONG).unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let alone = store.barrier("c", 2);
    assert_eq!(
        status(alone.wait(Duration::from_millis(5))),
        Status::Timeout
    );
}

#[test]
fn elections() {
    let bed = Bed::new();
    let store = bed.open();
    let election = bed.open().election("e");
    let nobody = election.wait(None, Wait::Try).unwrap();
    assert!(!nobody.leads());
    let leader = store
        .exclusive("e")
        .label("first")
        .campaign("here")
        .unwrap();
    let seen = election.wait(Some(&nobody), LONG).unwrap();
    assert_eq!(
        (seen.leads(), seen.token(), seen.value()),
        (true, leader.token(), b"here".to_vec())
    );
    assert_eq!(seen.label(), "first");
    leader.publish("there").unwrap();
    let seen = election.wait(Some(&seen), LONG).unwrap();
    assert_eq!(seen.value(), b"there");
    assert_eq!(
        status(store.exclusive("e").wait(Wait::Try).campaign("me")),
        Status::Busy
    );
    leader.resign().unwrap();
    assert!(!election.wait(Some(&seen), LONG).unwrap().leads());
}

#[test]
fn groups() {
    let bed = Bed::new();
    let store = bed.open();
    let group = bed.open().group("g");
    let none = group.wait(None, Wait::Try).unwrap();
    assert!(none.is_empty());
    let member = store.shared("g").join("10.0.0.1").unwrap();
    let one = group.wait(Some(&none), LONG).unwrap();
    assert_eq!((one.len(), &one.list()[0].value[..]), (1, "10.0.0.1"));
    assert_eq!(one.list()[0].token, member.token());
    member.leave().unwrap();
    assert!(group.wait(Some(&one), LONG).unwrap().is_empty());
}

#[test]
fn once_only() {
    let bed = Bed::new();
    let store = bed.open();
    let begin = || store.mutex("job").begin_once(None).unwrap();
    match begin() {
        Once::Begun(work) => drop(work), // it is not done
        Once::Done(mark) => panic!("{mark:?}"),
    }
    assert_eq!(store.once("job").get().unwrap(), None);
    let token = match begin() {
        Once::Begun(work) => {
            let token = work.token();
            work.finish().unwrap();
            token
        }
        Once::Done(mark) => panic!("{mark:?}"),
    };
    match begin() {
        Once::Begun(_) => panic!("twice"),
        Once::Done(mark) => assert_eq!(mark.token, token),
    }
    match store
        .mutex("job")
        .acquire()
        .unwrap()
        .claim_once(None)
        .unwrap()
    {
        Once::Begun(_) => panic!("twice"),
        Once::Done(mark) => assert_eq!(mark.token, token),
    }
    assert!(store.once("job").delete().unwrap());
    assert!(!store.once("job").delete().unwrap());
    assert!(matches!(begin(), Once::Begun(_)));
}
