// SPDX-License-Identifier: MIT
//! `bench URL SECONDS`: pairs of acquire and release of one free lock, on one thread.
use holdfast::{Result, Store};
use std::time::{Duration, Instant};

/// How many pairs, and in how many seconds.
fn pairs(store: &Store, limit: Duration) -> Result<f64> {
    let (begin, mut count) = (Instant::now(), 0u64);
    loop {
        for _ in 0..32 {
            store.mutex("bench").acquire()?.release()?;
        }
        count += 32;
        let took = begin.elapsed();
        if took >= limit {
            return Ok(count as f64 / took.as_secs_f64());
        }
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let (url, seconds) = match (args.next(), args.next().and_then(|text| text.parse().ok())) {
        (Some(url), Some(seconds)) => (url, seconds),
        _ => {
            eprintln!("usage: bench URL SECONDS");
            std::process::exit(2);
        }
    };
    let store = Store::open(url)?;
    pairs(&store, Duration::from_secs_f64(f64::min(0.2, seconds)))?;
    println!(
        "pairs_per_second {:.0}",
        pairs(&store, Duration::from_secs_f64(seconds))?
    );
    Ok(())
}
