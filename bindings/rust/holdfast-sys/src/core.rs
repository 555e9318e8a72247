// SPDX-License-Identifier: MIT
//! What `<holdfast/holdfast.h>` declares.

use crate::{hf_leader, hf_limit_result, hf_members, hf_once_mark};
use std::os::raw::{c_char, c_int, c_uchar, c_uint, c_void};

pub const HF_VERSION_MAJOR: c_int = 0;
pub const HF_VERSION_MINOR: c_int = 2;
pub const HF_VERSION_PATCH: c_int = 0;
pub const HF_VERSION_NUMBER: c_int =
    HF_VERSION_MAJOR * 10000 + HF_VERSION_MINOR * 100 + HF_VERSION_PATCH;
pub const HF_CSTRING: usize = usize::MAX;
pub const HF_ERROR_TEXT_MAX: usize = 512;
pub const HF_OPEN_FLAG_EXISTING: u64 = 1 << 0;
pub const HF_OPEN_FLAG_ONCE: u64 = 1 << 1;
pub const HF_OPEN_FLAG_NO_WAIT: u64 = 1 << 2;
pub const HF_CLOSE_FLAG_RELEASE: u64 = 1 << 0;
pub const HF_CAP_SHARED: u64 = 1 << 0;
pub const HF_CAP_SEMAPHORE: u64 = 1 << 1;
pub const HF_CAP_WAIT: u64 = 1 << 2;
pub const HF_CAP_FIFO: u64 = 1 << 3;
pub const HF_CAP_TTL: u64 = 1 << 4;
pub const HF_CAP_PROCESS: u64 = 1 << 5;
pub const HF_CAP_DETACHED: u64 = 1 << 6;
pub const HF_CAP_TOKEN: u64 = 1 << 7;
pub const HF_CAP_PASS: u64 = 1 << 8;
pub const HF_CAP_BARGE: u64 = 1 << 9;
pub const HF_CAP_LOCK_DELAY: u64 = 1 << 10;
pub const HF_CAP_INSPECT: u64 = 1 << 11;
pub const HF_CAP_WAITERS: u64 = 1 << 12;
pub const HF_CAP_BREAK: u64 = 1 << 13;
pub const HF_CAP_WATCH: u64 = 1 << 14;
pub const HF_CAP_CELLS: u64 = 1 << 15;
pub const HF_CAP_CELL_TTL: u64 = 1 << 16;
pub const HF_CAP_CELL_WATCH: u64 = 1 << 17;
pub const HF_CAP_CLOCK: u64 = 1 << 18;
pub const HF_CAP_SCRIPTS: u64 = 1 << 19;
pub const HF_CAP_WANTED: u64 = 1 << 20;
pub const HF_CAP_LINGER: u64 = 1 << 21;
pub const HF_CAP_COMMIT: u64 = 1 << 22;
pub const HF_CAP_CONVERT: u64 = 1 << 23;
pub const HF_CAP_NUMBERED: u64 = 1 << 24;
pub const HF_CAP_RESIZE: u64 = 1 << 25;
pub const HF_NAME_MAX: usize = 512;
pub const HF_LABEL_MAX: usize = 127;
pub const HF_CAPACITY_MAX: u32 = 1_000_000_000;
pub const HF_SLOTS_MAX: usize = 16;
pub const HF_FOREVER: i64 = -1;
pub const HF_TTL_MIN_MS: i64 = 1000;
pub const HF_DURATION_MAX_MS: i64 = 1000 * 3600 * 24 * 3650;
pub const HF_FLAG_BARGE: u64 = 1 << 0;
pub const HF_FLAG_REENTRANT: u64 = 1 << 1;
pub const HF_FLAG_NO_RENEW: u64 = 1 << 2;
pub const HF_FLAG_DETACHED: u64 = 1 << 3;
pub const HF_FLAG_STRICT: u64 = 1 << 4;
pub const HF_FLAG_NO_DEADLOCK_CHECK: u64 = 1 << 5;
pub const HF_FLAG_WATCH: u64 = 1 << 6;
pub const HF_FLAG_NUMBERED: u64 = 1 << 7;
pub const HF_LINGER_NEVER: i64 = -1;
pub const HF_ACQUIRE_ALL_MAX: usize = 64;
pub const HF_LEASE_TEXT_MAX: usize = 64;
pub const HF_INSPECT_FLAG_PATTERN: u64 = 1 << 0;
pub const HF_SESSION_TEXT_MAX: usize = 160;

pub type hf_status = c_uint;
pub const HF_OK: hf_status = 0;
pub const HF_BUSY: hf_status = 1;
pub const HF_TIMEOUT: hf_status = 2;
pub const HF_CANCELLED: hf_status = 3;
pub const HF_MISMATCH: hf_status = 4;
pub const HF_LOST: hf_status = 5;
pub const HF_NOT_FOUND: hf_status = 6;
pub const HF_INVALID: hf_status = 7;
pub const HF_CONFIG: hf_status = 8;
pub const HF_UNSUPPORTED: hf_status = 9;
pub const HF_UNAVAILABLE: hf_status = 10;
pub const HF_DENIED: hf_status = 11;
pub const HF_UNKNOWN: hf_status = 12;
pub const HF_CORRUPT: hf_status = 13;
pub const HF_NO_MEMORY: hf_status = 14;
pub const HF_FORKED: hf_status = 15;
pub const HF_IN_USE: hf_status = 16;
pub const HF_TOO_SHORT: hf_status = 17;
pub const HF_FULL: hf_status = 18;
pub const HF_VERSION: hf_status = 19;
pub const HF_INTERNAL: hf_status = 20;
pub const HF_FENCED: hf_status = 21;
pub const HF_DEADLOCK: hf_status = 22;
pub const HF_CHANGED: hf_status = 23;
pub const HF_OVERFLOW: hf_status = 24;
pub const HF_BROKEN: hf_status = 25;
pub const HF_DONE: hf_status = 26;
pub const HF_YIELDED: hf_status = 27;

pub type hf_token_strength = c_uint;
pub const HF_TOKEN_STRENGTH_NONE: hf_token_strength = 0;
pub const HF_TOKEN_STRENGTH_WHILE_DURABLE: hf_token_strength = 1;
pub const HF_TOKEN_STRENGTH_STRICT: hf_token_strength = 2;
pub type hf_kind = c_uint;
pub const HF_KIND_MUTEX: hf_kind = 0;
pub const HF_KIND_SHARED: hf_kind = 1;
pub const HF_KIND_EXCLUSIVE: hf_kind = 2;
pub const HF_KIND_SEMAPHORE: hf_kind = 3;
pub const HF_KIND_UPGRADEABLE: hf_kind = 4;
pub type hf_state = c_uint;
pub const HF_STATE_HELD: hf_state = 1;
pub const HF_STATE_AT_RISK: hf_state = 2;
pub const HF_STATE_LOST: hf_state = 3;
pub type hf_event = c_uint;
pub const HF_EVENT_AT_RISK: hf_event = 1;
pub const HF_EVENT_HELD: hf_event = 2;
pub const HF_EVENT_LOST: hf_event = 3;
pub const HF_EVENT_WANTED: hf_event = 4;
pub const HF_EVENT_UNWANTED: hf_event = 5;
pub const HF_EVENT_ASKED: hf_event = 6;
pub type hf_check_level = c_uint;
pub const HF_CHECK_LEVEL_OK: hf_check_level = 0;
pub const HF_CHECK_LEVEL_WARNING: hf_check_level = 1;
pub const HF_CHECK_LEVEL_BAD: hf_check_level = 2;

opaque!(
    hf_store,
    hf_lease,
    hf_cancel,
    hf_op,
    hf_view,
    hf_report,
    hf_deadlocks,
    hf_value,
    hf_redlock_status
);

pub type hf_event_fn = unsafe extern "C" fn(
    lease: *mut hf_lease,
    event: hf_event,
    text: *const c_char,
    arg: *mut c_void,
);
pub type hf_done_fn = unsafe extern "C" fn(result: *const hf_result, arg: *mut c_void);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_error {
    pub status: hf_status,
    pub native: c_int,
    pub text: [c_char; HF_ERROR_TEXT_MAX],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_allocator {
    pub size: usize,
    pub allocate: Option<unsafe extern "C" fn(bytes: usize, arg: *mut c_void) -> *mut c_void>,
    pub resize: Option<
        unsafe extern "C" fn(memory: *mut c_void, bytes: usize, arg: *mut c_void) -> *mut c_void,
    >,
    pub release: Option<unsafe extern "C" fn(memory: *mut c_void, arg: *mut c_void)>,
    pub arg: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_open_options {
    pub size: usize,
    pub open_wait_ms: i64,
    pub label: *const c_char,
    pub flags: u64,
    pub reserved: [u64; 5],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_engine_lack {
    pub caps: u64,
    pub why: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_store_info {
    pub size: usize,
    pub engine: *const c_char,
    pub location: *const c_char,
    pub caps: u64,
    pub tokens: hf_token_strength,
    pub default_ttl_ms: i64,
    pub min_ttl_ms: i64,
    pub max_ttl_ms: i64,
    pub lacks: *const hf_engine_lack,
    pub source: *const c_char,
    pub reserved: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_acquire_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub kind: hf_kind,
    pub capacity: u32,
    pub permits: u32,
    pub flags: u64,
    pub wait_ms: i64,
    pub ttl_ms: i64,
    pub max_hold_ms: i64,
    pub min_valid_ms: i64,
    pub lock_delay_ms: i64,
    pub scope: u64,
    pub label: *const c_char,
    pub cancel: *mut hf_cancel,
    pub on_event: Option<hf_event_fn>,
    pub on_event_arg: *mut c_void,
    pub session: *const c_char,
    pub linger_ms: i64,
    pub min_hold_ms: i64,
    pub reserved: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_lease_info {
    pub size: usize,
    pub token: u64,
    pub state: hf_state,
    pub holds: u32,
    pub remaining_ms: i64,
    pub age_ms: i64,
    pub ttl_ms: i64,
    pub name: [c_uchar; HF_NAME_MAX],
    pub name_len: usize,
    pub wanted: bool,
    pub asks: u32,
    pub kind: hf_kind,
    pub slot_count: u32,
    pub slots: [u32; HF_SLOTS_MAX],
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_adopt_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub text: *const c_char,
    pub ttl_ms: i64,
    pub renew: bool,
    pub on_event: Option<hf_event_fn>,
    pub on_event_arg: *mut c_void,
    pub reserved: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_result {
    pub size: usize,
    pub status: hf_status,
    pub error: *const hf_error,
    pub lease: *mut hf_lease,
    pub leases: *const *mut hf_lease,
    pub count: usize,
    pub bytes: *mut c_void,
    pub len: usize,
    pub version: u64,
    pub number: i64,
    pub view: *mut hf_view,
    pub report: *mut hf_report,
    pub deadlocks: *mut hf_deadlocks,
    pub leader: *mut hf_leader,
    pub value: *mut hf_value,
    pub limit: *const hf_limit_result,
    pub mark: *const hf_once_mark,
    pub redlock: *mut hf_redlock_status,
    pub versions: *const u64,
    pub members: *mut hf_members,
    pub reserved: [*const c_void; 1],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_holder {
    pub token: u64,
    pub first: u64,
    pub permits: u32,
    pub detached: bool,
    pub age_ms: i64,
    pub ttl_ms: i64,
    pub pid: i64,
    pub tid: i64,
    pub label: *const c_char,
    pub session: u64,
    pub lingers: bool,
    pub idle: bool,
    pub watched: bool,
    pub slot_count: u32,
    pub slots: [u32; HF_SLOTS_MAX],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_waiter {
    pub position: u32,
    pub permits: u32,
    pub kind: hf_kind,
    pub age_ms: i64,
    pub pid: i64,
    pub label: *const c_char,
    pub session: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_entry {
    pub name: *const c_uchar,
    pub name_len: usize,
    pub kind: hf_kind,
    pub capacity: u32,
    pub taken: u32,
    pub closed_ms: i64,
    pub holder_count: usize,
    pub waiter_count: usize,
    pub resized: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_finding {
    pub level: hf_check_level,
    pub topic: *const c_char,
    pub text: *const c_char,
    pub note: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_deadlock_waiter {
    pub name: *const c_uchar,
    pub name_len: usize,
    pub token: u64,
    pub session: u64,
    pub age_ms: i64,
    pub pid: i64,
    pub label: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_deadlock {
    pub waiter_count: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_engine_info {
    pub name: *const c_char,
    pub schemes: *const c_char,
    pub available: bool,
    pub caps: u64,
    pub tokens: hf_token_strength,
    pub on_crash: *const c_char,
    pub on_pause: *const c_char,
    pub on_clock_jump: *const c_char,
    pub on_server_loss: *const c_char,
    pub on_partition: *const c_char,
    pub fairness: *const c_char,
    pub wakeup: *const c_char,
    pub why_not: *const c_char,
    pub lacks: *const hf_engine_lack,
    pub choice: *const c_char,
}

sized!(hf_allocator);
sized!(hf_open_options);
sized!(hf_store_info);
sized!(hf_acquire_request);
sized!(hf_lease_info);
sized!(hf_adopt_request);
sized!(hf_result);
