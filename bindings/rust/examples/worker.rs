// SPDX-License-Identifier: MIT
//! The worker of the cross-language test: `worker URL SEED SECONDS`. It takes locks at random and
//! writes one line for each event, each with one write(2), so that a kill leaves no half line.
use holdfast::{Caps, Error, Lease, Request, Status, Store, Wait};
use std::io::Write;
use std::time::{Duration, Instant};

/// CLOCK_MONOTONIC in nanoseconds, which all processes share.
fn now() -> u64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanos: std::os::raw::c_long,
    }
    extern "C" {
        fn clock_gettime(clock: std::os::raw::c_int, time: *mut Timespec) -> std::os::raw::c_int;
    }
    const CLOCK_MONOTONIC: std::os::raw::c_int = 1;
    let mut time = Timespec {
        seconds: 0,
        nanos: 0,
    };
    assert_eq!(unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) }, 0);
    time.seconds as u64 * 1_000_000_000 + time.nanos as u64
}

fn say(at: u64, what: std::fmt::Arguments<'_>) {
    let line = format!("{at} {what}\n");
    // Not print!(): its buffer may be written in pieces.
    let mut out = std::mem::ManuallyDrop::new(unsafe {
        <std::fs::File as std::os::unix::io::FromRawFd>::from_raw_fd(1)
    });
    match out.write(line.as_bytes()) {
        Ok(written) if written == line.len() => (),
        _ => std::process::exit(1), // nobody listens any more
    }
}

macro_rules! say {
    ($($text:tt)+) => { say(now(), format_args!($($text)+)) };
}

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

struct Worker {
    store: Store,
    runtime: tokio::runtime::Runtime,
    random: Random,
    has_ttl: bool,
    count: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Mutex,
    Semaphore,
    Counter,
}

impl Worker {
    fn request(&mut self, what: What, permits: u32) -> Request {
        let request = match what {
            What::Mutex => self.store.mutex("shared-mutex"),
            What::Semaphore => self.store.semaphore("shared-semaphore", 3).permits(permits),
            What::Counter => self.store.mutex("shared-counter-lock"),
        };
        let wait = match self.random.below(5) {
            0 => Wait::Try,
            1 => Wait::For(Duration::from_millis(1 + self.random.below(50))),
            _ => Wait::For(Duration::from_secs(2)),
        };
        let request = request.wait(wait);
        if self.has_ttl {
            request.ttl(Duration::from_secs(1))
        } else {
            request
        }
    }

    /// The time first, then the question.
    fn holds(&self, lease: &Lease, what: std::fmt::Arguments<'_>) -> bool {
        let at = now();
        let valid = lease.is_valid();
        if valid {
            say(at, what);
        } else {
            say!("lost {}", self.count);
        }
        valid
    }

    fn round(&mut self) -> Result<(), Error> {
        let what = [What::Mutex, What::Semaphore, What::Counter][self.random.below(3) as usize];
        let permits = if what == What::Semaphore {
            1 + self.random.below(2) as u32
        } else {
            1
        };
        let request = self.request(what, permits);
        let asynchronous = self.random.below(3) == 0;
        self.count += 1;
        let (n, name) = (self.count, ["mutex", "semaphore", "counter"][what as usize]);
        say!("ask {n} {name} {permits}");
        let got = if asynchronous {
            self.runtime.block_on(request.acquire_async())
        } else {
            request.acquire()
        };
        let lease = match got {
            Ok(lease) => lease,
            Err(error) => {
                say!("not {n} {}", error.status().name());
                return expected(&error);
            }
        };
        if self.holds(&lease, format_args!("got {n} {}", lease.token())) {
            if what == What::Counter {
                self.add(&lease)?;
            }
            std::thread::sleep(Duration::from_micros(self.random.below(3001)));
            self.holds(&lease, format_args!("still {n}"));
        }
        say!("letting {n}");
        let released = if asynchronous {
            self.runtime.block_on(lease.release_async())
        } else {
            lease.release()
        };
        say!(
            "let {n} {}",
            released
                .as_ref()
                .err()
                .map_or("OK", |error| error.status().name())
        );
        released.as_ref().err().map_or(Ok(()), expected)
    }

    fn add(&self, lease: &Lease) -> Result<(), Error> {
        let token = match lease.fence() {
            Ok(token) => token,
            Err(error) => return expected(&error),
        };
        let guard = self.store.guard("shared-counter");
        let bytes = match guard.claim(token) {
            Ok(bytes) => bytes.unwrap_or_else(|| b"0".to_vec()),
            Err(error) => return expected(&error),
        };
        let text = String::from_utf8(bytes).expect("a number");
        let value = text.parse::<u64>().expect("a number") + 1;
        say!("adding {value} {token}");
        match guard.set(token, value.to_string()) {
            Ok(()) => say!("added {value} {token}"),
            Err(error) if error.status() == Status::Fenced => say!("fenced {value} {token}"),
            Err(error) => {
                say!("unsure {value} {token}");
                return expected(&error);
            }
        }
        Ok(())
    }
}

/// What a test with kills, stalls and lost connections brings about; the rest is a defect.
fn expected(error: &Error) -> Result<(), Error> {
    match error.status() {
        Status::Busy
        | Status::Timeout
        | Status::Cancelled
        | Status::Lost
        | Status::Unavailable
        | Status::Unknown
        | Status::Fenced
        | Status::TooShort => Ok(()),
        _ => Err(error.clone()),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let numbers =
        (args.len() == 4).then(|| (args[2].parse::<u64>().ok(), args[3].parse::<f64>().ok()));
    let (seed, seconds) = match numbers {
        Some((Some(seed), Some(seconds))) => (seed, seconds),
        _ => {
            eprintln!("usage: worker URL SEED SECONDS");
            std::process::exit(2);
        }
    };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let result = Store::open(&args[1]).and_then(|store| {
        let has_ttl = !store.info()?.caps.contains(Caps::PROCESS);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut worker = Worker {
            store,
            runtime,
            random: Random(seed),
            has_ttl,
            count: 0,
        };
        while Instant::now() < end {
            worker.round()?;
        }
        Ok(())
    });
    if let Err(error) = result {
        eprintln!("worker: {error}");
        std::process::exit(1);
    }
}
