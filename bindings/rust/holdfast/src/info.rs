// SPDX-License-Identifier: MIT
//! What stores and engines can do.
use crate::error::text_at;
use crate::input::{duration, duration_unless_zero};
use crate::sys;
use std::fmt;
use std::ops::BitOr;
use std::time::Duration;

macro_rules! caps {
    ($($(#[$doc:meta])* $name:ident = $raw:ident,)+) => {
        /// What an engine can do: a set.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct Caps(u64);

        impl Caps {
            $($(#[$doc])* pub const $name: Caps = Caps(sys::$raw);)+
        }

        impl fmt::Debug for Caps {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                $(if self.contains(Caps::$name) {
                    set.entry(&format_args!(stringify!($name)));
                })+
                set.finish()
            }
        }
    };
}

caps! {
    /// Shared and exclusive leases.
    SHARED = HF_CAP_SHARED,
    /// Semaphores.
    SEMAPHORE = HF_CAP_SEMAPHORE,
    /// Waiters are woken by an event, not by a poll.
    WAIT = HF_CAP_WAIT,
    /// First come, first served.
    FIFO = HF_CAP_FIFO,
    /// Leases can have a ttl.
    TTL = HF_CAP_TTL,
    /// Leases end with the process, without a ttl.
    PROCESS = HF_CAP_PROCESS,
    /// Leases that outlive the process.
    DETACHED = HF_CAP_DETACHED,
    /// Fencing tokens.
    TOKEN = HF_CAP_TOKEN,
    /// Blocks of tokens, so local passing.
    PASS = HF_CAP_PASS,
    /// Requests that may overtake waiters.
    BARGE = HF_CAP_BARGE,
    /// A name that stays closed after an unclean loss.
    LOCK_DELAY = HF_CAP_LOCK_DELAY,
    /// Holders can be listed.
    INSPECT = HF_CAP_INSPECT,
    /// Waiters can be listed too.
    WAITERS = HF_CAP_WAITERS,
    /// Leases can be broken.
    BREAK = HF_CAP_BREAK,
    /// Waiting for a change of the store.
    WATCH = HF_CAP_WATCH,
    /// Cells, and what is built on them.
    CELLS = HF_CAP_CELLS,
    /// Cells can have a ttl.
    CELL_TTL = HF_CAP_CELL_TTL,
    /// A change of a cell wakes waiters by an event.
    CELL_WATCH = HF_CAP_CELL_WATCH,
    /// A clock that all clients share: rate limits.
    CLOCK = HF_CAP_CLOCK,
    /// Scripts, which this crate does not offer.
    SCRIPTS = HF_CAP_SCRIPTS,
    /// A holder learns that others wait.
    WANTED = HF_CAP_WANTED,
    /// A released lease may stay with the process.
    LINGER = HF_CAP_LINGER,
    /// Several cells in one step.
    COMMIT = HF_CAP_COMMIT,
    /// Conversion of read-write leases.
    CONVERT = HF_CAP_CONVERT,
    /// The slots of a semaphore have numbers.
    NUMBERED = HF_CAP_NUMBERED,
    /// The size of a semaphore can be set.
    RESIZE = HF_CAP_RESIZE,
}

impl Caps {
    /// Are all of `other` in it?
    pub fn contains(self, other: Caps) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits, as the C library has them.
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl BitOr for Caps {
    type Output = Caps;
    fn bitor(self, other: Caps) -> Caps {
        Caps(self.0 | other.0)
    }
}

/// How far fencing tokens can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenStrength {
    /// There are none.
    None,
    /// They grow while the store keeps its data.
    WhileDurable,
    /// They always grow.
    Strict,
}

impl TokenStrength {
    fn from_raw(strength: sys::hf_token_strength) -> TokenStrength {
        match strength {
            sys::HF_TOKEN_STRENGTH_WHILE_DURABLE => TokenStrength::WhileDurable,
            sys::HF_TOKEN_STRENGTH_STRICT => TokenStrength::Strict,
            _ => TokenStrength::None,
        }
    }
}

/// What an engine cannot do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What is missing.
    pub caps: Caps,
    /// The reason.
    pub why: String,
}

/// A list of these ends with an item without a text.
unsafe fn lacks(mut item: *const sys::hf_engine_lack) -> Vec<Lack> {
    let mut list = Vec::new();
    while !item.is_null() && !(*item).why.is_null() {
        list.push(Lack {
            caps: Caps((*item).caps),
            why: text_at((*item).why),
        });
        item = item.add(1);
    }
    list
}

/// What a store is, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The engine: `"lmdb"`, `"redis"` and so on.
    pub engine: String,
    /// The URL or path in use, without secrets.
    pub location: String,
    /// What it can do.
    pub caps: Caps,
    /// How far its tokens can be trusted.
    pub tokens: TokenStrength,
    /// The ttl of leases that ask for none; `None`: they have none.
    pub default_ttl: Option<Duration>,
    /// The shortest ttl.
    pub min_ttl: Duration,
    /// The longest time that a grant or a renewal lasts; `None`: no limit.
    pub max_ttl: Option<Duration>,
    /// What it cannot do, and why.
    pub lacks: Vec<Lack>,
    /// What chose it: `"the caller"`, `"HOLDFAST_STORE"`, `"profile NAME in FILE"` or `"the
    /// built-in default"`.
    pub source: String,
}

impl StoreInfo {
    pub(crate) unsafe fn from_raw(info: &sys::hf_store_info) -> StoreInfo {
        StoreInfo {
            engine: text_at(info.engine),
            location: text_at(info.location),
            caps: Caps(info.caps),
            tokens: TokenStrength::from_raw(info.tokens),
            default_ttl: duration_unless_zero(info.default_ttl_ms),
            min_ttl: duration(info.min_ttl_ms),
            max_ttl: duration_unless_zero(info.max_ttl_ms),
            lacks: lacks(info.lacks),
            source: text_at(info.source),
        }
    }
}

/// An engine, or one of its modes, and what it promises.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// The schemes of its URLs.
    pub schemes: Vec<String>,
    /// Its module is there and loads. If not, only `why_not` says more.
    pub available: bool,
    /// Why it is not available.
    pub why_not: String,
    /// What it can do.
    pub caps: Caps,
    /// How far its tokens can be trusted.
    pub tokens: TokenStrength,
    /// What happens when a holder crashes.
    pub on_crash: String,
    /// What happens when a holder pauses.
    pub on_pause: String,
    /// What happens when a clock jumps.
    pub on_clock_jump: String,
    /// What happens when a server loses its data.
    pub on_server_loss: String,
    /// What happens when the network is parted.
    pub on_partition: String,
    /// In which order waiters are granted.
    pub fairness: String,
    /// How waiters are woken.
    pub wakeup: String,
    /// What it cannot do, and why.
    pub lacks: Vec<Lack>,
    /// What a URL says to have these promises; empty: nothing.
    pub choice: String,
}

unsafe fn engine(info: &sys::hf_engine_info) -> Engine {
    Engine {
        name: text_at(info.name),
        schemes: text_at(info.schemes)
            .split_whitespace()
            .map(String::from)
            .collect(),
        available: info.available,
        why_not: text_at(info.why_not),
        caps: Caps(info.caps),
        tokens: TokenStrength::from_raw(info.tokens),
        on_crash: text_at(info.on_crash),
        on_pause: text_at(info.on_pause),
        on_clock_jump: text_at(info.on_clock_jump),
        on_server_loss: text_at(info.on_server_loss),
        on_partition: text_at(info.on_partition),
        fairness: text_at(info.fairness),
        wakeup: text_at(info.wakeup),
        lacks: lacks(info.lacks),
        choice: text_at(info.choice),
    }
}

/// All engines. It may load their modules.
pub fn engines() -> Vec<Engine> {
    // What hf_engine_get() points to stays for the life of the process.
    (0..)
        .map_while(|index| unsafe { sys::hf_engine_get(index).as_ref().map(|e| engine(e)) })
        .collect()
}

/// The sets of promises among which the URLs of the engine number `index` choose. The first is the
/// engine's own.
pub fn engine_modes(index: usize) -> Vec<Engine> {
    (0..)
        .map_while(|mode| unsafe {
            sys::hf_engine_get_mode(index, mode)
                .as_ref()
                .map(|e| engine(e))
        })
        .collect()
}

/// The version of the library that is loaded: `"0.2.0"`.
pub fn version() -> &'static str {
    unsafe { std::ffi::CStr::from_ptr(sys::hf_version()) }
        .to_str()
        .unwrap_or("?")
}

/// The same as a number: 200 for `"0.2.0"`.
pub fn version_number() -> i32 {
    unsafe { sys::hf_version_number() }
}
