# SPDX-License-Identifier: MIT
"""Errors: one exception class for all, and one for each status that programs catch."""

from enum import IntEnum
from typing import Dict, Type

from . import _holdfast


class Status(IntEnum):
    """What a call of the library can end with. The names are those of the C header without ``HF_``."""

    OK = 0
    BUSY = 1
    TIMEOUT = 2
    CANCELLED = 3
    MISMATCH = 4
    LOST = 5
    NOT_FOUND = 6
    INVALID = 7
    CONFIG = 8
    UNSUPPORTED = 9
    UNAVAILABLE = 10
    DENIED = 11
    UNKNOWN = 12
    CORRUPT = 13
    NO_MEMORY = 14
    FORKED = 15
    IN_USE = 16
    TOO_SHORT = 17
    FULL = 18
    VERSION = 19
    INTERNAL = 20
    FENCED = 21
    DEADLOCK = 22
    CHANGED = 23
    OVERFLOW = 24
    BROKEN = 25
    DONE = 26
    YIELDED = 27


class HoldfastError(Exception):
    """A call has failed.

    ``status`` is a :class:`Status`, ``native`` the engine's own code (errno, ...; 0: none), ``text`` says where and why. It
    never holds a password.
    """

    status: Status
    native: int
    text: str

    def __init__(self, status: int, native: int = 0, text: str = "") -> None:
        super().__init__(status, native, text)
        try:
            self.status = Status(status)
        except ValueError:  # of a later version of the library
            self.status = Status.INTERNAL
        self.native = native
        self.text = text or _holdfast.status(status)[1]

    def __str__(self) -> str:
        return f"{self.text} [{self.status.name}]"


class Busy(HoldfastError):
    """Somebody else holds it, and the call was not to wait."""


class Timeout(HoldfastError, TimeoutError):
    """The time was over before it was granted."""


class Cancelled(HoldfastError):
    """A :class:`holdfast.Cancel`, or the end of the store, ended the wait."""


class Mismatch(HoldfastError):
    """The name is in use as another kind or capacity."""


class Lost(HoldfastError):
    """The lease is lost: it expired, was broken, or the store forgot it."""


class NotFound(HoldfastError):
    """There is no such lease, latch, store, ..."""


class Invalid(HoldfastError, ValueError):
    """An argument is invalid; the text names it."""


class Config(HoldfastError, ValueError):
    """The URL or the configuration of a store is invalid."""


class Unsupported(HoldfastError):
    """The engine of this store cannot do that."""


class Unavailable(HoldfastError, ConnectionError):
    """The store cannot be reached; nothing was done."""


class Denied(HoldfastError, PermissionError):
    """The store denied access."""


class Unknown(HoldfastError):
    """The store may or may not have done it. The library settles what it can in the background."""


class Forked(HoldfastError):
    """The handle belongs to the parent process: a child opens its own store."""


class InUse(HoldfastError):
    """Leases are held, or calls wait."""


class TooShort(HoldfastError):
    """It was granted with less validity than ``min_valid``, and given back."""


class Fenced(HoldfastError):
    """A newer token has already been used: this lease is no longer the current one."""


class Deadlock(HoldfastError):
    """To wait for it would be a deadlock; the text has the cycle."""


class Changed(HoldfastError):
    """It was changed in the meantime."""


class Overflow(HoldfastError, OverflowError):
    """The result is out of range."""


class Broken(HoldfastError):
    """A participant of a latch or barrier died."""


CLASSES: Dict[int, Type[HoldfastError]] = {
    Status.BUSY: Busy,
    Status.TIMEOUT: Timeout,
    Status.CANCELLED: Cancelled,
    Status.MISMATCH: Mismatch,
    Status.LOST: Lost,
    Status.NOT_FOUND: NotFound,
    Status.INVALID: Invalid,
    Status.CONFIG: Config,
    Status.UNSUPPORTED: Unsupported,
    Status.UNAVAILABLE: Unavailable,
    Status.DENIED: Denied,
    Status.UNKNOWN: Unknown,
    Status.FORKED: Forked,
    Status.IN_USE: InUse,
    Status.TOO_SHORT: TooShort,
    Status.FENCED: Fenced,
    Status.DEADLOCK: Deadlock,
    Status.CHANGED: Changed,
    Status.OVERFLOW: Overflow,
    Status.BROKEN: Broken,
}
