// SPDX-License-Identifier: MIT
//! Two workers, a token and a loss: `workers [URL]`. Without a URL the store is embedded, in a folder
//! of its own.
use holdfast::{Event, Lease, Result, Status, Store};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn write_page(store: &Store, who: &str, token: u64) -> Result<()> {
    let page = store.guard("page");
    page.claim(token)?; // from now on no older holder can write
    page.set(token, format!("by {who}"))?;
    println!("{who}: wrote page");
    Ok(())
}

/// Holds the report until it is lost, and does not look when it writes again.
fn first(store: &Store, holds: Sender<u64>, lost: Sender<()>, late: Receiver<()>) -> Result<()> {
    let (sender, events) = channel();
    let lease = store
        .mutex("report")
        .on_event(move |event| drop(sender.send(event)))
        .acquire()?;
    let token = lease.fence()?;
    println!("first: holds report, token {token}");
    write_page(store, "first", token)?;
    holds.send(token).expect("main listens");
    while !matches!(events.recv(), Ok(Event::Lost(_))) {}
    println!("first: lost report");
    lost.send(()).expect("second listens");
    late.recv().expect("second has written");
    match store.guard("page").set(token, "by first, late") {
        Err(error) if error.status() == Status::Fenced => {
            println!("first: refused, a newer token was used")
        }
        other => panic!("not refused: {other:?}"),
    }
    Ok(())
}

fn second(store: &Store, lost: Receiver<()>, late: Sender<()>) -> Result<Lease> {
    let lease = store.mutex("report").acquire()?;
    lost.recv().expect("first has lost it");
    println!("second: holds report, token {}", lease.token());
    write_page(store, "second", lease.fence()?)?;
    late.send(()).expect("first listens");
    Ok(lease)
}

/// As an operator would: when somebody waits, end exactly the lease that is in the way.
fn break_when_wanted(store: &Store, token: u64) -> Result<()> {
    while store
        .inspect("report")?
        .entry("report")
        .map_or(true, |entry| entry.waiters.is_empty())
    {
        thread::sleep(Duration::from_millis(1));
    }
    store.break_lease("report", token)
}

fn run(url: &str) -> Result<()> {
    let open = || Store::options().wait(LONG).open(url);
    let (store, one, two) = (open()?, open()?, open()?);
    let (holds_sender, holds) = channel();
    let (lost_sender, lost) = channel();
    let (late_sender, late) = channel();
    let first = thread::spawn(move || first(&one, holds_sender, lost_sender, late));
    let token = holds.recv().expect("first holds it");
    let second = thread::spawn(move || second(&two, lost, late_sender));
    break_when_wanted(&store, token)?;
    first.join().expect("first")?;
    second.join().expect("second")?.release()?;
    println!("second: released");

    let lease = store.mutex("report").acquire()?;
    let page = store
        .guard("page")
        .claim(lease.fence()?)?
        .unwrap_or_default();
    println!("page: {}", String::from_utf8_lossy(&page));
    Ok(())
}

fn main() -> Result<()> {
    if let Some(url) = std::env::args().nth(1) {
        return run(&url);
    }
    let folder = std::env::temp_dir().join(format!("holdfast-workers-{}", std::process::id()));
    let result = run(&format!("file:{}", folder.display()));
    let _ = std::fs::remove_dir_all(folder);
    result
}
