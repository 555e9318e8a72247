// SPDX-License-Identifier: MIT
//! Errors: a status, the engine's own code and a text.
use crate::sys;
use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int};
use std::ptr::addr_of_mut;

/// The result of a call of this library.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:ident,)+) => {
        /// Why a call did not do what it was asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($(#[$doc])* $name,)+
            /// A status that a newer library has added.
            Other(u32),
        }

        impl Status {
            pub(crate) fn from_raw(number: sys::hf_status) -> Status {
                match number {
                    $(sys::$number => Status::$name,)+
                    other => Status::Other(other),
                }
            }

            /// The number that the C library gives it.
            pub fn number(self) -> u32 {
                match self {
                    $(Status::$name => sys::$number,)+
                    Status::Other(number) => number,
                }
            }
        }
    };
}

statuses! {
    /// Somebody else holds it.
    Busy = HF_BUSY,
    /// The deadline passed before it was granted.
    Timeout = HF_TIMEOUT,
    /// A canceller, or the end of the store, ended the wait.
    Cancelled = HF_CANCELLED,
    /// The name is in use as another kind or capacity.
    Mismatch = HF_MISMATCH,
    /// The lease is lost.
    Lost = HF_LOST,
    /// There is no such thing.
    NotFound = HF_NOT_FOUND,
    /// An argument is invalid; the text names it.
    Invalid = HF_INVALID,
    /// The URL of the store is invalid; the text names the part.
    Config = HF_CONFIG,
    /// This engine cannot do that.
    Unsupported = HF_UNSUPPORTED,
    /// The store cannot be reached.
    Unavailable = HF_UNAVAILABLE,
    /// The store denied access.
    Denied = HF_DENIED,
    /// It may have been done, or not.
    Unknown = HF_UNKNOWN,
    /// The data of the store is damaged.
    Corrupt = HF_CORRUPT,
    /// There is no memory left.
    NoMemory = HF_NO_MEMORY,
    /// The handle belongs to the parent process.
    Forked = HF_FORKED,
    /// It is still in use.
    InUse = HF_IN_USE,
    /// It was granted with too little validity left, and given back.
    TooShort = HF_TOO_SHORT,
    /// The store is full.
    Full = HF_FULL,
    /// The store was made by another version.
    Version = HF_VERSION,
    /// An internal error.
    Internal = HF_INTERNAL,
    /// A newer token has already been used.
    Fenced = HF_FENCED,
    /// Waiting for it would be a deadlock.
    Deadlock = HF_DEADLOCK,
    /// It was changed in the meantime.
    Changed = HF_CHANGED,
    /// The result is out of range.
    Overflow = HF_OVERFLOW,
    /// A participant died.
    Broken = HF_BROKEN,
    /// It has been done already.
    Done = HF_DONE,
    /// It was given away, and is ours again.
    Yielded = HF_YIELDED,
}

impl Status {
    /// Its name in C, without the prefix: `"BUSY"`.
    pub fn name(self) -> &'static str {
        // The library never returns NULL here, and the text is a constant of it.
        unsafe { CStr::from_ptr(sys::hf_status_name(self.number())) }
            .to_str()
            .unwrap_or("?")
    }

    /// A sentence about it.
    pub fn text(self) -> &'static str {
        unsafe { CStr::from_ptr(sys::hf_status_text(self.number())) }
            .to_str()
            .unwrap_or("?")
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What went wrong. The text never holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: Status,
    native: i32,
    text: Box<str>,
}

impl Error {
    /// Why, as something to match on.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The engine's own code (`errno` for the embedded store); 0: none.
    pub fn native(&self) -> i32 {
        self.native
    }

    /// The whole story for people, from outer to inner.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn new(status: Status, text: impl Into<String>) -> Error {
        Error {
            status,
            native: 0,
            text: text.into().into(),
        }
    }

    /// Of a call that tells a status only.
    pub(crate) fn from_status(status: sys::hf_status) -> Error {
        let status = Status::from_raw(status);
        Error::new(status, status.text())
    }

    /// # Safety
    /// `error` is NULL or a struct that the library has filled in.
    pub(crate) unsafe fn from_raw(status: sys::hf_status, error: *const sys::hf_error) -> Error {
        if error.is_null() || (*error).text[0] == 0 {
            return Error::from_status(status);
        }
        Error {
            status: Status::from_raw(status),
            native: (*error).native,
            text: text_at((*error).text.as_ptr()).into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// A text of the library, which may hold any bytes.
///
/// # Safety
/// `text` is NULL or ends with a NUL.
pub(crate) unsafe fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    CStr::from_ptr(text).to_string_lossy().into_owned()
}

/// Room for an hf_error. The library writes its text up to the NUL only, so the rest of it is never
/// read, and need not be cleared.
pub(crate) struct Room(MaybeUninit<sys::hf_error>);

impl Room {
    pub(crate) fn new() -> Room {
        let mut room = Room(MaybeUninit::uninit());
        let error = room.0.as_mut_ptr();
        unsafe {
            addr_of_mut!((*error).status).write(sys::HF_OK);
            addr_of_mut!((*error).native).write(0);
            addr_of_mut!((*error).text).cast::<c_char>().write(0);
        }
        room
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut sys::hf_error {
        self.0.as_mut_ptr()
    }

    pub(crate) fn error(&mut self, status: sys::hf_status) -> Error {
        let error = self.0.as_mut_ptr();
        // Field by field: a reference to the whole struct would cover bytes that were not written.
        let (native, text): (c_int, String) = unsafe {
            (
                addr_of_mut!((*error).native).read(),
                text_at(addr_of_mut!((*error).text).cast::<c_char>()),
            )
        };
        if text.is_empty() {
            return Error::from_status(status);
        }
        Error {
            status: Status::from_raw(status),
            native,
            text: text.into(),
        }
    }
}

/// Make a call that fills in an error.
pub(crate) fn call(run: impl FnOnce(*mut sys::hf_error) -> sys::hf_status) -> Result<()> {
    let mut room = Room::new();
    match run(room.as_mut_ptr()) {
        sys::HF_OK => Ok(()),
        status => Err(room.error(status)),
    }
}

/// Some statuses are answers and not errors.
pub(crate) trait Expect<T> {
    /// `None` for this status.
    fn unless(self, status: Status) -> Result<Option<T>>;
}

impl<T> Expect<T> for Result<T> {
    fn unless(self, status: Status) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.status == status => Ok(None),
            Err(error) => Err(error),
        }
    }
}
