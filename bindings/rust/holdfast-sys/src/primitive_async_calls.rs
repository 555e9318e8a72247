// SPDX-License-Identifier: MIT
//! The asynchronous functions of `<holdfast/primitives.h>`.

use crate::*;
use std::os::raw::{c_char, c_void};

extern "C" {
    pub fn hf_cell_get_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_set_async(
        store: *mut hf_store,
        request: *const hf_cell_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_swap_async(
        store: *mut hf_store,
        request: *const hf_cell_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_update_async(
        store: *mut hf_store,
        request: *const hf_cell_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_wait_async(
        store: *mut hf_store,
        request: *const hf_cell_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cells_commit_async(
        store: *mut hf_store,
        items: *const hf_cell_item,
        count: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_delete_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        version: u64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_add_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        delta: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_get_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_set_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        value: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_swap_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        expected: i64,
        value: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_delete_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_claim_async(
        at: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_set_async(
        at: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        bytes: *const c_void,
        len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_take_async(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_get_async(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_set_async(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_create_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        count: u32,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_count_down_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        who: *const c_char,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_join_async(
        store: *mut hf_store,
        request: *const hf_party_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_wait_async(
        store: *mut hf_store,
        request: *const hf_party_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_get_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_delete_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_wait_async(
        store: *mut hf_store,
        request: *const hf_party_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_enter_async(
        store: *mut hf_store,
        request: *const hf_party_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_leave_async(
        party: *mut hf_lease,
        wait_ms: i64,
        cancel: *mut hf_cancel,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_campaign_async(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        value: *const c_void,
        len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_set_async(
        leader: *mut hf_lease,
        value: *const c_void,
        len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_resign_async(
        leader: *mut hf_lease,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_wait_async(
        store: *mut hf_store,
        request: *const hf_election_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_cell_set_async(
        lease: *mut hf_lease,
        name: *const c_void,
        name_len: usize,
        bytes: *const c_void,
        len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_cell_get_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_member_join_async(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        value: *const c_char,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_member_leave_async(
        member: *mut hf_lease,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_members_wait_async(
        store: *mut hf_store,
        request: *const hf_members_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_begin_async(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        for_ms: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_get_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_claim_async(
        lease: *mut hf_lease,
        for_ms: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_finish_async(
        lease: *mut hf_lease,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_delete_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
}
