// SPDX-License-Identifier: MIT
//! What `<holdfast/primitives.h>` declares.

use crate::*;
use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const HF_CELL_MAX: usize = 65536;
pub const HF_CELLS_MAX: usize = 64;
pub const HF_CELLS_BYTES_MAX: usize = 524288;
pub const HF_CELL_ANY: u64 = u64::MAX;
pub const HF_GUARD_MAX: usize = 65536;
pub const HF_LIMIT_SLIDING_MAX: usize = 4096;
pub const HF_PARTICIPANTS_MAX: usize = 256;
pub const HF_PARTICIPANT_MAX: usize = 64;
pub const HF_ELECTION_MAX: usize = 32768;
pub const HF_LEASE_CELL_MAX: usize = 32768;

pub type hf_cell_action = c_uint;
pub const HF_CELL_ACTION_LEAVE: hf_cell_action = 0;
pub const HF_CELL_ACTION_WRITE: hf_cell_action = 1;
pub const HF_CELL_ACTION_DELETE: hf_cell_action = 2;
pub type hf_sql_dialect = c_uint;
pub const HF_SQL_DIALECT_POSTGRESQL: hf_sql_dialect = 1;
pub const HF_SQL_DIALECT_MYSQL: hf_sql_dialect = 2;
pub type hf_limit_algorithm = c_uint;
pub const HF_LIMIT_ALGORITHM_FIXED: hf_limit_algorithm = 0;
pub const HF_LIMIT_ALGORITHM_SLIDING: hf_limit_algorithm = 1;
pub const HF_LIMIT_ALGORITHM_BUCKET: hf_limit_algorithm = 2;

opaque!(hf_members);

pub type hf_cell_fn = unsafe extern "C" fn(
    old: *const hf_cell,
    change: *mut hf_cell_change,
    arg: *mut c_void,
) -> hf_status;
pub type hf_sql_fn =
    unsafe extern "C" fn(sql: *const c_char, ret_number: *mut i64, arg: *mut c_void) -> c_int;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_cell {
    pub size: usize,
    pub bytes: *mut c_void,
    pub len: usize,
    pub version: u64,
    pub ttl_ms: i64,
    pub reserved: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_cell_change {
    pub size: usize,
    pub action: hf_cell_action,
    pub bytes: *const c_void,
    pub len: usize,
    pub ttl_ms: i64,
    pub reserved: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_cell_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub bytes: *const c_void,
    pub len: usize,
    pub ttl_ms: i64,
    pub version: u64,
    pub r#fn: Option<hf_cell_fn>,
    pub fn_arg: *mut c_void,
    pub wait_ms: i64,
    pub cancel: *mut hf_cancel,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_cell_item {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub version: u64,
    pub action: hf_cell_action,
    pub bytes: *const c_void,
    pub len: usize,
    pub ttl_ms: i64,
    pub reserved: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_guard_sql_request {
    pub size: usize,
    pub dialect: hf_sql_dialect,
    pub table: *const c_char,
    pub name: *const c_void,
    pub name_len: usize,
    pub token: u64,
    pub run: Option<hf_sql_fn>,
    pub run_arg: *mut c_void,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_sql_lock_request {
    pub size: usize,
    pub url: *const c_char,
    pub name: *const c_void,
    pub name_len: usize,
    pub kind: hf_kind,
    pub wait_ms: i64,
    pub run: Option<hf_sql_fn>,
    pub run_arg: *mut c_void,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_limit_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub algorithm: hf_limit_algorithm,
    pub rate: u32,
    pub per_ms: i64,
    pub burst: u32,
    pub permits: u32,
    pub wait_ms: i64,
    pub cancel: *mut hf_cancel,
    pub reserved: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_limit_result {
    pub size: usize,
    pub left: u64,
    pub refill_ms: i64,
    pub waited_ms: i64,
    pub retry_ms: i64,
    pub at_us: i64,
    pub per_ms: i64,
    pub rate: u32,
    pub burst: u32,
    pub algorithm: hf_limit_algorithm,
    pub is_set: bool,
    pub reserved: [u64; 1],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_party_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub who: *const c_char,
    pub parties: u32,
    pub wait_ms: i64,
    pub cancel: *mut hf_cancel,
    pub on_event: Option<hf_event_fn>,
    pub on_event_arg: *mut c_void,
    pub ttl_ms: i64,
    pub reserved: [u64; 1],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_leader {
    pub leads: bool,
    pub token: u64,
    pub value: *const c_void,
    pub value_len: usize,
    pub label: *const c_char,
    pub version: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_election_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub last: *const hf_leader,
    pub wait_ms: i64,
    pub cancel: *mut hf_cancel,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_member {
    pub token: u64,
    pub value: *const c_char,
    pub age_ms: i64,
    pub ttl_ms: i64,
    pub pid: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_members_request {
    pub size: usize,
    pub name: *const c_void,
    pub name_len: usize,
    pub last: *const hf_members,
    pub wait_ms: i64,
    pub cancel: *mut hf_cancel,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_once_mark {
    pub size: usize,
    pub token: u64,
    pub at_ms: i64,
    pub ttl_ms: i64,
    pub label: [c_char; HF_LABEL_MAX + 1],
    pub reserved: [u64; 4],
}

sized!(hf_cell);
sized!(hf_cell_change);
sized!(hf_cell_request);
sized!(hf_cell_item);
sized!(hf_guard_sql_request);
sized!(hf_sql_lock_request);
sized!(hf_limit_request);
sized!(hf_limit_result);
sized!(hf_party_request);
sized!(hf_election_request);
sized!(hf_members_request);
sized!(hf_once_mark);
