// SPDX-License-Identifier: MIT
//! rslock as a peer: SERVER is one host:port, or five with commas between. Orders and answers: ../README.md.
//!     peer-rslock rslock SERVER TASKS
use rslock::{Lock, LockManager};
use std::io::BufRead;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TTL: Duration = Duration::from_secs(30);
const NAME: &[u8] = b"rslock-name";

fn manager(server: &str, delay_ms: f64) -> LockManager {
    let uris: Vec<String> = server.split(',').map(|host| format!("redis://{host}/")).collect();
    let mut manager = LockManager::new(uris);
    if delay_ms > 0.0 {
        manager.set_retry(3, Duration::from_secs_f64(delay_ms / 1000.0));
    }
    manager
}

// It gives up after some tries: go on as its manual shows.
async fn acquire(manager: &LockManager) -> Lock {
    loop {
        if let Ok(lock) = manager.lock(NAME, TTL).await {
            return lock;
        }
    }
}

async fn pair(manager: &LockManager, seconds: f64) -> String {
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed().as_secs_f64() < seconds {
        let lock = acquire(manager).await;
        manager.unlock(&lock).await;
        count += 1;
    }
    format!("{{\"took\":{},\"counts\":[{count}],\"waits\":[]}}", start.elapsed().as_secs_f64())
}

fn wall_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros()
}

// How long each acquisition took, and when it was.
async fn work(manager: LockManager, end: Instant, hold: Duration) -> Vec<(u128, u128)> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let since = Instant::now();
        let lock = acquire(&manager).await;
        if Instant::now() < end {
            waits.push((since.elapsed().as_micros(), wall_us()));
        }
        let until = Instant::now() + hold;
        while Instant::now() < until {}
        manager.unlock(&lock).await;
    }
    waits
}

async fn queue(server: &str, tasks: usize, seconds: f64, hold_us: f64, delay_ms: f64) -> String {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let hold = Duration::from_secs_f64(hold_us / 1e6);
    let running: Vec<_> =
        (0..tasks).map(|_| tokio::spawn(work(manager(server, delay_ms), end, hold))).collect();
    let (mut counts, mut waits, mut at, mut tasks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, task) in running.into_iter().enumerate() {
        let own = task.await.expect("a task");
        counts.push(own.len().to_string());
        waits.extend(own.iter().map(|own| own.0.to_string()));
        at.extend(own.iter().map(|own| own.1.to_string()));
        tasks.extend(own.iter().map(|_| index.to_string()));
    }
    format!(
        "{{\"took\":{seconds},\"counts\":[{}],\"waits\":[{}],\"at\":[{}],\"task\":[{}]}}",
        counts.join(","), waits.join(","), at.join(","), tasks.join(",")
    )
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (server, tasks) = (&words[2], words[3].parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let alone = manager(server, 0.0);
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let order: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| order[index].parse::<f64>().expect("a number");
        let text = if order[0] == "pair" {
            runtime.block_on(pair(&alone, number(1)))
        } else {
            runtime.block_on(queue(server, tasks, number(1), number(2), number(3)))
        };
        println!("{text}");
    }
}
