// SPDX-License-Identifier: MIT
//! A store for each test: in a folder of its own, or with a prefix of its own in the server whose URL
//! is in HOLDFAST_TEST_URL.
#![allow(dead_code)] // each test program uses some of it
use holdfast::{Event, Lease, Status, Store};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

/// For what must happen: no test depends on a time being short.
pub const LONG: Duration = Duration::from_secs(60);

pub struct Bed {
    pub url: String,
    folder: PathBuf,
}

impl Bed {
    pub fn new() -> Bed {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let id = format!(
            "rust-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(format!("hf-{id}"));
        std::fs::create_dir_all(&folder).unwrap();
        let url = match std::env::var("HOLDFAST_TEST_URL") {
            Ok(url) => url.replace("{id}", &id),
            Err(_) => format!("file:{}/store", folder.display()),
        };
        Bed { url, folder }
    }

    pub fn open(&self) -> Store {
        Store::options().wait(LONG).open(&self.url).unwrap()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Run the test `name` of this program, which is a part for a child, in another process.
    pub fn child(&self, name: &str, more: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                name,
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("HF_CHILD_URL", &self.url)
            .env("HF_CHILD_FOLDER", &self.folder)
            .envs(more.iter().copied())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Only an embedded store ends leases with their process; there a ttl is needed for a test of that.
pub fn is_embedded() -> bool {
    std::env::var("HOLDFAST_TEST_URL").is_err()
}

pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn waiters(store: &Store, name: &str) -> usize {
    store
        .inspect(name)
        .unwrap()
        .entry(name)
        .map_or(0, |entry| entry.waiters.len())
}

pub fn status<T>(result: holdfast::Result<T>) -> Status {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.status(),
    }
}

/// A lease and its events.
pub fn with_events(request: holdfast::Request) -> (Lease, Receiver<Event>) {
    let (sender, receiver) = channel();
    let lease = request
        .on_event(move |event| drop(sender.send(event)))
        .acquire()
        .unwrap();
    (lease, receiver)
}

/// The next event that `wanted` accepts.
pub fn event(events: &Receiver<Event>, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = events.recv_timeout(LONG).expect("an event");
        if wanted(&event) {
            return event;
        }
    }
}
