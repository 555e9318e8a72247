// SPDX-License-Identifier: MIT
//! Declarations of libholdfast, exactly as its C headers have them. The header files describe every
//! item; the crate `holdfast` is the safe way to use them.
//!
//! `<holdfast/redis.h>` is not declared here.
#![allow(non_camel_case_types, missing_docs)]
#![allow(clippy::missing_safety_doc)]

/// A type that only the library knows. Handles are numbers in the shape of pointers: they may be
/// sent to other threads, and must not be dereferenced.
macro_rules! opaque {
    ($($name:ident),+) => {
        $(
            #[repr(C)]
            pub struct $name {
                _private: [u8; 0],
                _marker: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
            }
        )+
    };
}

/// The HF_*_INIT of a struct that begins with `size`: all zero but that.
macro_rules! sized {
    ($name:ident) => {
        impl $name {
            pub fn init() -> Self {
                // All fields are numbers, booleans, pointers and optional functions: zero is valid.
                let mut value: Self = unsafe { std::mem::zeroed() };
                value.size = std::mem::size_of::<Self>();
                value
            }
        }
    };
}

mod calls;
mod core;
mod observe;
mod primitive_async_calls;
mod primitive_calls;
mod primitives;

pub use crate::calls::*;
pub use crate::core::*;
pub use crate::observe::*;
pub use crate::primitive_async_calls::*;
pub use crate::primitive_calls::*;
pub use crate::primitives::*;
