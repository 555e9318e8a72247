// SPDX-License-Identifier: MIT
//! Things that are a store and a name.
use crate::input::bytes_ptr;
use crate::op::{Begin, Op};
use crate::{sys, Result, Store};
use std::os::raw::c_void;

/// A store and a name in it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) store: Store,
    pub(crate) name: Vec<u8>,
}

impl Named {
    pub(crate) fn new(store: &Store, name: &[u8]) -> Named {
        Named {
            store: store.clone(),
            name: name.to_vec(),
        }
    }

    /// The first three arguments of many calls.
    pub(crate) fn raw(&self) -> (*mut sys::hf_store, *const c_void, usize) {
        (self.store.raw(), bytes_ptr(&self.name), self.name.len())
    }

    /// An asynchronous call with nothing but these and numbers as inputs.
    pub(crate) fn op<T: Send + 'static>(
        &self,
        begin: impl FnOnce(*mut sys::hf_store, *const c_void, usize, &Begin) -> sys::hf_status
            + Send
            + 'static,
        finish: impl FnOnce(&sys::hf_result) -> Result<T> + Send + 'static,
    ) -> Op<'static, T> {
        let named = self.clone();
        Op::new(
            &self.store,
            move |b| {
                let (store, name, len) = named.raw();
                begin(store, name, len, b)
            },
            finish,
        )
    }
}
