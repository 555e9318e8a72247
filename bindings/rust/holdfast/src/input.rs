// SPDX-License-Identifier: MIT
//! What callers give: durations, waits, texts.
use crate::{sys, Error, Result, Status};
use std::ffi::CString;
use std::os::raw::{c_char, c_void};
use std::time::Duration;

/// How long a call may wait.
///
/// ```
/// use holdfast::Wait;
/// use std::time::Duration;
/// assert_eq!(Wait::from(Duration::from_secs(5)), Wait::For(Duration::from_secs(5)));
/// assert_eq!(Wait::from(None), Wait::Forever);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Try once.
    Try,
    /// As long as it takes.
    Forever,
    /// At most this long. Zero tries once.
    For(Duration),
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Wait {
        Wait::For(limit)
    }
}

impl From<Option<Duration>> for Wait {
    fn from(limit: Option<Duration>) -> Wait {
        limit.map_or(Wait::Forever, Wait::For)
    }
}

impl Wait {
    pub(crate) fn millis(self) -> i64 {
        match self {
            Wait::Try => 0,
            Wait::Forever => sys::HF_FOREVER,
            Wait::For(limit) => millis(limit).min(sys::HF_DURATION_MAX_MS),
        }
    }
}

/// Rounded up, so that only zero becomes zero.
pub(crate) fn millis(duration: Duration) -> i64 {
    let whole = duration.as_millis();
    let rest = duration.subsec_nanos() % 1_000_000;
    i64::try_from(whole + u128::from(rest > 0)).unwrap_or(i64::MAX)
}

/// Of a number that is never negative where it has a meaning.
pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Of a number that is negative if there is none.
pub(crate) fn duration_unless_negative(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// Of a number that is 0 if there is none.
pub(crate) fn duration_unless_zero(millis: i64) -> Option<Duration> {
    Some(duration(millis)).filter(|duration| !duration.is_zero())
}

/// A text for C.
pub(crate) fn c_text(what: &str, text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|_| Error::new(Status::Invalid, format!("{what}: it has a NUL in it")))
}

pub(crate) fn c_ptr(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

/// Bytes for C: also of nothing an address that may be read.
pub(crate) fn bytes_ptr(bytes: &[u8]) -> *const c_void {
    bytes.as_ptr().cast()
}

/// Bytes of the library, copied.
///
/// # Safety
/// `bytes` is NULL, or `len` bytes are there.
pub(crate) unsafe fn copy_bytes(bytes: *const c_void, len: usize) -> Vec<u8> {
    if bytes.is_null() {
        return Vec::new();
    }
    std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec()
}

/// Memory of the library, freed when this ends.
pub(crate) struct Owned<T>(pub(crate) *mut T);

// Only the library's own memory, which any thread may read and free.
unsafe impl<T> Send for Owned<T> {}
unsafe impl<T> Sync for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        unsafe { sys::hf_free(self.0.cast()) }
    }
}

/// The identity of a task for reentrant requests and for deadlock detection, where a thread is
/// not the right one: an asynchronous task that moves between threads, or a request that several
/// threads serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scope(std::num::NonZeroU64);

impl Scope {
    /// A scope that no other call of this process has returned.
    #[allow(clippy::new_without_default)] // two defaults would differ
    pub fn new() -> Scope {
        use std::sync::atomic::{AtomicU64, Ordering};
        // The upper half, so that small numbers of the caller's own are no scope of ours.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        Scope(std::num::NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).expect("not zero"))
    }

    /// A scope of the caller's own numbering.
    pub fn from_number(number: std::num::NonZeroU64) -> Scope {
        Scope(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(7)), 7);
        assert_eq!(millis(Duration::from_micros(7001)), 8);
        assert_eq!(millis(Duration::MAX), i64::MAX);
        assert_eq!(Wait::For(Duration::MAX).millis(), sys::HF_DURATION_MAX_MS);
        assert_eq!(Wait::Try.millis(), 0);
        assert_eq!(Wait::Forever.millis(), -1);
    }
}
