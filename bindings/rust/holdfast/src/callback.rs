// SPDX-License-Identifier: MIT
//! Whether this thread runs a callback of the library, in which a store must not be closed.
#![allow(clippy::declare_interior_mutable_const)] // a false alarm of clippy 1.63
use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static OF_LOOP: Cell<usize> = const { Cell::new(0) };
}

/// This thread is in a callback while it lives.
pub(crate) struct Callback {
    of_loop: bool,
}

fn change(counter: &'static std::thread::LocalKey<Cell<usize>>, by: isize) {
    // A thread that is ending has no counters any more, and no callbacks.
    let _ = counter.try_with(|count| count.set(count.get().wrapping_add(by as usize)));
}

fn is_positive(counter: &'static std::thread::LocalKey<Cell<usize>>) -> bool {
    counter.try_with(|count| count.get() > 0).unwrap_or(false)
}

impl Callback {
    /// `of_loop`: the thread is in hf_store_process() and must not block.
    pub(crate) fn enter(of_loop: bool) -> Callback {
        change(&DEPTH, 1);
        if of_loop {
            change(&OF_LOOP, 1);
        }
        Callback { of_loop }
    }

    pub(crate) fn is_running() -> bool {
        is_positive(&DEPTH)
    }

    /// A callback of a loop, which must not block.
    pub(crate) fn is_of_loop() -> bool {
        is_positive(&OF_LOOP)
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        change(&DEPTH, -1);
        if self.of_loop {
            change(&OF_LOOP, -1);
        }
    }
}
