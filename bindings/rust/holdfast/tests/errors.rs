// SPDX-License-Identifier: MIT
//! Errors, secrets, fork, and that nothing leaks.
mod common;

use common::*;
use holdfast::*;
use std::time::Duration;

/// Without a URL it is the store of HOLDFAST_STORE, and "" is a mistake. The environment is that of a
/// process of its own: this test starts itself.
#[test]
fn which_store() {
    if std::env::var_os("HOLDFAST_TEST_WHICH").is_some() {
        let info = Store::open_default().unwrap().info().unwrap();
        println!("{} from {}", info.location, info.source);
        return;
    }
    let bed = Bed::new();
    assert_eq!(bed.open().info().unwrap().source, "the caller");
    assert_eq!(status(Store::open("")), Status::Config);
    let location = bed.open().info().unwrap().location;
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "which_store", "--nocapture"])
        .env("HOLDFAST_TEST_WHICH", "1")
        .env("HOLDFAST_STORE", &bed.url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(&format!("{location} from HOLDFAST_STORE")),
        "{said}"
    );
}

#[test]
fn errors_have_status_native_and_text() {
    let error = Store::open("nonsense://x").unwrap_err();
    assert_eq!(
        (error.status(), error.status().name()),
        (Status::Config, "CONFIG")
    );
    assert_eq!(error.status().number(), 8);
    assert!(!error.text().is_empty());
    assert_eq!(error.to_string(), error.text());
    assert_eq!(status(Store::open("file:/a\0b")), Status::Config);
    let no_folder = Store::open("file:/dev/null/store").unwrap_err();
    assert_eq!(no_folder.native(), 20, "ENOTDIR: {no_folder:?}");

    let bed = Bed::new();
    let store = bed.open();
    assert_eq!(status(store.mutex("").try_acquire()), Status::Invalid);
    assert_eq!(
        status(store.mutex(vec![b'x'; 513]).try_acquire()),
        Status::Invalid
    );
    drop(store.mutex(vec![0xff; 512]).acquire().unwrap());
    assert_eq!(
        status(store.mutex("x").label("a\0b").acquire()),
        Status::Invalid
    );
    let _held = store.mutex("x").acquire().unwrap();
    assert_eq!(status(store.shared("x").try_acquire()), Status::Mismatch);
    let huge = Duration::MAX;
    assert_eq!(
        status(store.mutex("y").ttl(huge).acquire()),
        Status::Invalid
    );
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    is_error::<Error>();
}

#[test]
fn secrets_are_not_shown() {
    let open = |url: &str| Store::options().once(true).open(url).unwrap_err();
    for url in [
        "redis://:sesame@127.0.0.1:1",
        "redis://user:sesame@127.0.0.1:1?prefix=a&nonsense=1",
        "postgres://me:sesame@127.0.0.1:1/db",
    ] {
        let error = open(url);
        assert!(
            !format!("{error} {error:?}").contains("sesame"),
            "{error:?}"
        );
    }
    let store = Store::options()
        .no_wait(true)
        .open("redis://:sesame@127.0.0.1:1")
        .unwrap();
    assert!(!format!("{store:?} {:?}", store.info().unwrap()).contains("sesame"));
}

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// What a child may do with what it has inherited: nothing, and without harm.
fn in_child(store: Store, lease: Lease, url: &str) -> bool {
    let forked = |result: Result<()>| matches!(result, Err(e) if e.status() == Status::Forked);
    let mut fine = forked(store.mutex("other").acquire().map(drop));
    fine &= forked(lease.renew(None)) && lease.token() == 0 && !lease.is_valid();
    drop(lease);
    fine &= forked(store.close());
    drop(store);
    let own = match Store::options().wait(LONG).open(url) {
        Ok(own) => own,
        Err(_) => return false,
    };
    fine && matches!(own.mutex("m").try_acquire(), Ok(None)) // the parent has it
}

/// In a process of its own: other tests have threads, and a child that is forked has none of them.
#[test]
#[ignore = "a part of a_child_releases_nothing"]
fn child_forks() {
    let bed = Bed::new();
    let store = bed.open();
    let lease = store.mutex("m").on_event(|_| ()).acquire().unwrap();
    let pid = unsafe { fork() };
    if pid == 0 {
        let fine = in_child(store, lease, &bed.url);
        unsafe { _exit(i32::from(!fine)) };
    }
    let mut how = 0;
    assert_eq!(unsafe { waitpid(pid, &mut how, 0) }, pid);
    assert_eq!(how, 0, "the child saw something else");
    assert!(lease.is_valid());
    assert!(bed.open().mutex("m").try_acquire().unwrap().is_none());
    lease.release().unwrap();
}

#[test]
fn a_child_releases_nothing() {
    let bed = Bed::new();
    assert!(bed.child("child_forks", &[]).wait().unwrap().success());
}

fn memory_pages() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// In a process of its own: others allocate too.
#[test]
#[ignore = "a part of nothing_leaks"]
fn child_leaks_nothing() {
    let url = std::env::var("HF_CHILD_URL").unwrap();
    let store = Store::options().wait(LONG).open(&url).unwrap();
    std::mem::forget(store.mutex("forgotten").acquire().unwrap());
    let round = |times: usize| {
        for i in 0..times {
            let text = vec![b'x'; 1000];
            let lease = store
                .mutex("m")
                .on_event(move |_| drop(text.clone()))
                .acquire()
                .unwrap();
            assert!(store
                .mutex("forgotten")
                .on_event(|_| ())
                .try_acquire()
                .unwrap()
                .is_none());
            store.inspect_matching("*").unwrap();
            store.cell("c").set(i.to_string(), None).unwrap();
            store.cell("c").get().unwrap();
            lease.info().unwrap();
        }
        assert_eq!(sink_count(), 0);
    };
    round(300);
    let (pages, fds) = (memory_pages(), descriptors());
    round(3000);
    assert!(
        descriptors() <= fds,
        "descriptors: {} and {fds}",
        descriptors()
    );
    // Each lease that was leaked would cost 1,000 bytes and more: 3 MB.
    assert!(
        memory_pages() <= pages + 256,
        "pages: {} and {pages}",
        memory_pages()
    );
    // What was forgotten stays held, and ends with the store.
    assert_eq!(status(store.close()), Status::InUse);
    store.close_and_release().unwrap();
    let store = Store::options().wait(LONG).open(&url).unwrap();
    drop(store.mutex("forgotten").wait(LONG).acquire().unwrap());
}

#[test]
fn nothing_leaks() {
    let bed = Bed::new();
    assert!(bed
        .child("child_leaks_nothing", &[])
        .wait()
        .unwrap()
        .success());
}

/// Compile-time facts; what must not compile is in the documentation of the items.
#[test]
fn send_and_sync() {
    fn both<T: Send + Sync>() {}
    fn send<T: Send + Unpin>() {}
    both::<Store>();
    both::<Lease>();
    both::<Canceller>();
    both::<Driver>();
    both::<Error>();
    both::<Event>();
    both::<Cell>();
    both::<Leader>();
    both::<Members>();
    both::<Leadership>();
    both::<Membership>();
    both::<Inside>();
    both::<Work>();
    both::<LostFuture<'static>>();
    send::<Request>();
    send::<Op<'static, Lease>>();
}
