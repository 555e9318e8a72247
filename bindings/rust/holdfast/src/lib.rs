// SPDX-License-Identifier: MIT
//! Distributed locks: mutexes, read-write locks, semaphores and what is built on them, in an embedded
//! store or in a server (Redis, PostgreSQL, etcd and others).
//!
//! ```
//! # fn main() -> holdfast::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("hf-doc-{}", std::process::id()));
//! # let url = format!("file:{}", folder.display());
//! let store = holdfast::Store::open(&url)?;
//! {
//!     let lease = store.mutex("report").acquire()?;
//!     let page = store.guard("page");
//!     page.claim(lease.fence()?)?; // from now on no older holder can write
//!     page.set(lease.fence()?, "by me")?;
//! } // released
//! assert!(store.mutex("report").try_acquire()?.is_some());
//! # store.close()?;
//! # let _ = std::fs::remove_dir_all(folder);
//! # Ok(()) }
//! ```
//!
//! Every call that may block has a form that returns a future, with `_async` at its end. Dropping that
//! future cancels the call. The feature `tokio` drives a store by one task of the runtime; a
//! [`Driver`] does the same for any other event loop.
//!
//! A lease that is leaked (`std::mem::forget`) stays held until the store is closed or the process
//! ends. After `fork` the child must not use what it inherited: calls return [`Status::Forked`], and
//! drops do nothing.
#![deny(missing_docs)]
#![warn(rust_2018_idioms)]

use holdfast_sys as sys;

mod admin;
mod callback;
mod cancel;
mod cells;
mod commit;
mod counter;
mod drive;
mod election;
mod ending;
mod error;
mod event;
mod info;
mod input;
mod inspect;
mod lease;
mod limit;
mod members;
mod named;
mod once;
mod op;
mod orphans;
mod party;
mod request;
mod stats;
mod store;
#[cfg(feature = "tokio")]
mod tokio_driver;

pub use admin::Adopt;
pub use cancel::Canceller;
pub use cells::{Cell, CellAction, CellValue};
pub use commit::{CellItem, Commit};
pub use counter::{Counter, Guard, Swap};
pub use drive::Driver;
pub use election::{Election, Leader, Leadership};
pub use ending::set_release_hook;
pub use error::{Error, Result, Status};
#[doc(hidden)]
pub use event::sink_count;
pub use event::Event;
pub use info::{
    engine_modes, engines, version, version_number, Caps, Engine, Lack, StoreInfo, TokenStrength,
};
pub use input::{Scope, Wait};
pub use inspect::{Deadlock, DeadlockWaiter, Entry, Finding, Holder, Level, View, Waiter};
pub use lease::{Kind, Lease, LeaseInfo, LostFuture, State, Yielded};
pub use limit::{Algorithm, Limit, LimitInfo, Rule, Take};
pub use members::{Group, Member, Members, Membership};
pub use once::{Once, OnceMark, OnceName, Work};
pub use op::Op;
pub use party::{Barrier, Inside, Latch, LatchInfo};
pub use request::Request;
pub use stats::{Histogram, Stats};
pub use store::{OpenOptions, Store};
