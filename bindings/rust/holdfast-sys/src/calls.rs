// SPDX-License-Identifier: MIT
//! The functions of `<holdfast/holdfast.h>`.

use crate::*;
use std::os::raw::{c_char, c_int, c_void};

extern "C" {
    pub fn hf_version() -> *const c_char;
    pub fn hf_version_number() -> c_int;
    pub fn hf_status_name(status: hf_status) -> *const c_char;
    pub fn hf_status_text(status: hf_status) -> *const c_char;
    pub fn hf_free(memory: *mut c_void);
    pub fn hf_allocator_set(allocator: *const hf_allocator) -> hf_status;
    pub fn hf_open(
        url: *const c_char,
        options: *const hf_open_options,
        ret_store: *mut *mut hf_store,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_close(store: *mut hf_store, flags: u64) -> hf_status;
    pub fn hf_store_get(store: *mut hf_store, ret_info: *mut hf_store_info) -> hf_status;
    pub fn hf_acquire(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        ret_lease: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_release(lease: *mut hf_lease, err: *mut hf_error) -> hf_status;
    pub fn hf_idle_release(store: *mut hf_store, err: *mut hf_error) -> hf_status;
    pub fn hf_yield(lease: *mut *mut hf_lease, wait_ms: i64, err: *mut hf_error) -> hf_status;
    pub fn hf_convert(
        lease: *mut *mut hf_lease,
        kind: hf_kind,
        wait_ms: i64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_renew(lease: *mut hf_lease, ttl_ms: i64, err: *mut hf_error) -> hf_status;
    pub fn hf_cancel_open(ret_cancel: *mut *mut hf_cancel) -> hf_status;
    pub fn hf_cancel_fire(cancel: *mut hf_cancel) -> hf_status;
    pub fn hf_cancel_close(cancel: *mut hf_cancel) -> hf_status;
    pub fn hf_acquire_all(
        store: *mut hf_store,
        requests: *const hf_acquire_request,
        count: usize,
        ret_leases: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_acquire_any(
        store: *mut hf_store,
        requests: *const hf_acquire_request,
        count: usize,
        ret_index: *mut usize,
        ret_lease: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_release_all(
        leases: *const *mut hf_lease,
        count: usize,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_get(lease: *mut hf_lease, ret_info: *mut hf_lease_info) -> hf_status;
    pub fn hf_lease_token(lease: *mut hf_lease) -> u64;
    pub fn hf_lease_state(lease: *mut hf_lease) -> hf_state;
    pub fn hf_lease_remaining_ms(lease: *mut hf_lease) -> i64;
    pub fn hf_lease_wanted(lease: *mut hf_lease) -> bool;
    pub fn hf_lease_fence(
        lease: *mut hf_lease,
        ret_token: *mut u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_fd(lease: *mut hf_lease) -> c_int;
    pub fn hf_lease_export(lease: *mut hf_lease, ret_text: *mut c_char) -> hf_status;
    pub fn hf_lease_adopt(
        store: *mut hf_store,
        request: *const hf_adopt_request,
        ret_lease: *mut *mut hf_lease,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_acquire_async(
        store: *mut hf_store,
        request: *const hf_acquire_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_release_async(
        lease: *mut hf_lease,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_acquire_all_async(
        store: *mut hf_store,
        requests: *const hf_acquire_request,
        count: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_acquire_any_async(
        store: *mut hf_store,
        requests: *const hf_acquire_request,
        count: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_release_all_async(
        leases: *const *mut hf_lease,
        count: usize,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_renew_async(
        lease: *mut hf_lease,
        ttl_ms: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_yield_async(
        lease: *mut hf_lease,
        wait_ms: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_convert_async(
        lease: *mut hf_lease,
        kind: hf_kind,
        wait_ms: i64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_semaphore_resize_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        capacity: u32,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_ask_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        text: *const c_char,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_adopt_async(
        store: *mut hf_store,
        request: *const hf_adopt_request,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_lease_break_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_store_inspect_async(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        flags: u64,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_store_wait_async(
        store: *mut hf_store,
        seq: u64,
        wait_ms: i64,
        cancel: *mut hf_cancel,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_store_check_async(
        store: *mut hf_store,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_deadlock_list_async(
        store: *mut hf_store,
        done: hf_done_fn,
        arg: *mut c_void,
        ret_op: *mut *mut hf_op,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_op_cancel(op: *mut hf_op) -> hf_status;
    pub fn hf_store_fd(store: *mut hf_store) -> c_int;
    pub fn hf_store_timeout_ms(store: *mut hf_store) -> c_int;
    pub fn hf_store_process(store: *mut hf_store) -> hf_status;
    pub fn hf_store_inspect(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        flags: u64,
        ret_view: *mut *mut hf_view,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_view_count(view: *const hf_view) -> usize;
    pub fn hf_view_entry(view: *const hf_view, index: usize) -> *const hf_entry;
    pub fn hf_entry_holder(entry: *const hf_entry, index: usize) -> *const hf_holder;
    pub fn hf_entry_waiter(entry: *const hf_entry, index: usize) -> *const hf_waiter;
    pub fn hf_view_waiters_tracked(view: *const hf_view) -> bool;
    pub fn hf_lease_break(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        token: u64,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_semaphore_resize(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        capacity: u32,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_ask(
        store: *mut hf_store,
        name: *const c_void,
        name_len: usize,
        text: *const c_char,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_store_wait(
        store: *mut hf_store,
        seq: *mut u64,
        wait_ms: i64,
        cancel: *mut hf_cancel,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_store_check(
        store: *mut hf_store,
        ret_report: *mut *mut hf_report,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_report_count(report: *const hf_report) -> usize;
    pub fn hf_report_item(report: *const hf_report, index: usize) -> *const hf_finding;
    pub fn hf_session_get(
        lease: *mut hf_lease,
        around: *const c_char,
        ret_text: *mut c_char,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_deadlock_list(
        store: *mut hf_store,
        ret_deadlocks: *mut *mut hf_deadlocks,
        err: *mut hf_error,
    ) -> hf_status;
    pub fn hf_deadlock_count(deadlocks: *const hf_deadlocks) -> usize;
    pub fn hf_deadlock_item(deadlocks: *const hf_deadlocks, index: usize) -> *const hf_deadlock;
    pub fn hf_deadlock_get_waiter(
        deadlock: *const hf_deadlock,
        index: usize,
    ) -> *const hf_deadlock_waiter;
    pub fn hf_engine_get(index: usize) -> *const hf_engine_info;
    pub fn hf_engine_get_mode(index: usize, mode: usize) -> *const hf_engine_info;
    pub fn hf_sql_get_schema(
        url: *const c_char,
        ret_sql: *mut *mut c_char,
        err: *mut hf_error,
    ) -> hf_status;
}
