// SPDX-License-Identifier: MIT
//! `<holdfast/observe.h>`: numbers and events.
use crate::{hf_kind, hf_status, hf_store};
use std::os::raw::{c_char, c_double, c_uint, c_void};

pub const HF_HISTOGRAM_BUCKETS: usize = 30;
pub const HF_LOSSES_MAX: usize = 8;

pub type hf_loss = c_uint;
pub const HF_LOSS_NONE: hf_loss = 0;
pub const HF_LOSS_EXPIRED: hf_loss = 1;
pub const HF_LOSS_MAX_HOLD: hf_loss = 2;
pub const HF_LOSS_BROKEN: hf_loss = 3;
pub const HF_LOSS_FORGOTTEN: hf_loss = 4;
pub const HF_LOSS_CLOSED: hf_loss = 5;

pub type hf_observed = c_uint;
pub const HF_OBSERVED_BEGIN: hf_observed = 1;
pub const HF_OBSERVED_GRANTED: hf_observed = 2;
pub const HF_OBSERVED_REENTERED: hf_observed = 3;
pub const HF_OBSERVED_FAILED: hf_observed = 4;
pub const HF_OBSERVED_WANTED: hf_observed = 5;
pub const HF_OBSERVED_UNWANTED: hf_observed = 6;
pub const HF_OBSERVED_AT_RISK: hf_observed = 7;
pub const HF_OBSERVED_HELD: hf_observed = 8;
pub const HF_OBSERVED_LOST: hf_observed = 9;
pub const HF_OBSERVED_RELEASED: hf_observed = 10;
pub const HF_OBSERVED_RECONNECTED: hf_observed = 11;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_histogram {
    pub count: u64,
    pub sum_ms: u64,
    pub buckets: [u64; HF_HISTOGRAM_BUCKETS],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_stats {
    pub size: usize,
    pub granted: u64,
    pub busy: u64,
    pub timeouts: u64,
    pub cancelled: u64,
    pub deadlocks: u64,
    pub unknown: u64,
    pub failed: u64,
    pub reentries: u64,
    pub handovers: u64,
    pub passes: u64,
    pub lingered: u64,
    pub waits: hf_histogram,
    pub held: u64,
    pub holds: hf_histogram,
    pub renewals: u64,
    pub renewals_failed: u64,
    pub losses: [u64; HF_LOSSES_MAX],
    pub releases_unknown: u64,
    pub reconnects: u64,
    pub commands: u64,
    pub reserved: [u64; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_observation {
    pub size: usize,
    pub what: hf_observed,
    pub store: *mut hf_store,
    pub location: *const c_char,
    pub name: *const c_void,
    pub name_len: usize,
    pub kind: hf_kind,
    pub id: u64,
    pub token: u64,
    pub status: hf_status,
    pub loss: hf_loss,
    pub text: *const c_char,
    pub waited_ms: i64,
    pub held_ms: i64,
    pub local: bool,
}

pub type hf_observer_fn =
    unsafe extern "C" fn(observation: *const hf_observation, arg: *mut c_void);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct hf_observer {
    pub size: usize,
    pub on_event: Option<hf_observer_fn>,
    pub arg: *mut c_void,
}

sized!(hf_stats);
sized!(hf_observer);

extern "C" {
    pub fn hf_histogram_bound_ms(bucket: usize) -> i64;
    pub fn hf_histogram_quantile_ms(histogram: *const hf_histogram, share: c_double) -> i64;
    pub fn hf_loss_name(loss: hf_loss) -> *const c_char;
    pub fn hf_stats_get(store: *mut hf_store, ret_stats: *mut hf_stats) -> hf_status;
    pub fn hf_observer_set(observer: *const hf_observer) -> hf_status;
}
