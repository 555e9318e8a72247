// SPDX-License-Identifier: MIT
//! The blocking functions of `<holdfast/primitives.h>`.

use crate::*;
use std::os::raw::{c_char, c_void};

extern "C" {
    pub fn hf_cell_get(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        ret_cell: *mut hf_cell,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_set(
        store: *mut hf_store,
        request: *const hf_cell_request,
        ret_version: *mut u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_swap(
        store: *mut hf_store,
        request: *const hf_cell_request,
        ret_version: *mut u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_delete(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        version: u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_update(
        store: *mut hf_store,
        request: *const hf_cell_request,
        ret_version: *mut u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cell_wait(
        store: *mut hf_store,
        request: *const hf_cell_request,
        ret_version: *mut u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_cells_commit(
        store: *mut hf_store,
        items: *const hf_cell_item,
        count: usize,
        ret_versions: *mut u64,
        ret_index: *mut usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_add(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        delta: i64,
        ret_value: *mut i64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_get(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        ret_value: *mut i64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_set(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        value: i64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_swap(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        expected: i64,
        value: i64,
        ret_current: *mut i64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_counter_delete(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_claim(
        at: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        ret_bytes: *mut *mut c_void,
        ret_len: *mut usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_set(
        at: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        bytes: *const c_void,
        len: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_claim_sql(
        request: *const hf_guard_sql_request,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_guard_sql_schema(dialect: hf_sql_dialect) -> *const c_char;
    pub fn hf_sql_lock(request: *const hf_sql_lock_request, err: *mut hf_error) -> hf_status;
    pub fn hf_sql_get_lock(
        request: *const hf_sql_lock_request,
        ret_sql: *mut *mut c_char,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_take(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        ret_result: *mut hf_limit_result,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_get(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        ret_result: *mut hf_limit_result,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_limit_set(
        store: *mut hf_store,
        limit: *const hf_limit_request,
        ret_result: *mut hf_limit_result,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_create(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        count: u32,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_count_down(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        who: *const c_char,
        ret_left: *mut u32,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_join(
        store: *mut hf_store,
        request: *const hf_party_request,
        ret_lease: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_wait(
        store: *mut hf_store,
        request: *const hf_party_request,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_get(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        ret_count: *mut u32,
        ret_left: *mut u32,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_latch_delete(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_wait(
        store: *mut hf_store,
        request: *const hf_party_request,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_enter(
        store: *mut hf_store,
        request: *const hf_party_request,
        ret_party: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_barrier_leave(
        party: *mut hf_lease,
        wait_ms: i64,
        cancel: *mut hf_cancel,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_campaign(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        value: *const c_void,
        len: usize,
        ret_leader: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_set(
        leader: *mut hf_lease,
        value: *const c_void,
        len: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_election_resign(leader: *mut hf_lease, err: *mut hf_error) -> hf_status;
    pub fn hf_election_wait(
        store: *mut hf_store,
        request: *const hf_election_request,
        ret_leader: *mut *mut hf_leader,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_cell_set(
        lease: *mut hf_lease,
        name: *const c_void,
        name_len: usize,
        bytes: *const c_void,
        len: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_cell_get(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        ret_cell: *mut hf_cell,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_member_join(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        value: *const c_char,
        ret_member: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_member_leave(member: *mut hf_lease, err: *mut hf_error) -> hf_status;
    pub fn hf_members_wait(
        store: *mut hf_store,
        request: *const hf_members_request,
        ret_members: *mut *mut hf_members,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_members_count(members: *const hf_members) -> usize;
    pub fn hf_members_item(members: *const hf_members, index: usize) -> *const hf_member;
    pub fn hf_once_begin(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        for_ms: i64,
        ret_lease: *mut *mut hf_lease,
        ret_mark: *mut hf_once_mark,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_get(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        ret_mark: *mut hf_once_mark,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_claim(
        lease: *mut hf_lease,
        for_ms: i64,
        ret_mark: *mut hf_once_mark,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_once_finish(lease: *mut hf_lease, err: *mut hf_error) -> hf_status;
    pub fn hf_once_delete(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        err: *mut hf_error,
    ) -> hf_status;
}
