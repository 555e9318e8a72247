# SPDX-License-Identifier: MIT
"""Holdfast: distributed locks.

::

    import holdfast

    with holdfast.open("redis://127.0.0.1") as store:
        with store.lock("report", wait=5) as lease:
            store.guard("page").set(lease, b"...")     # refused if a newer token was used

Blocking calls release the GIL, and signals interrupt them. Every call that may block has an ``_async`` form for asyncio.
``holdfast.threading`` has objects with the interface of the module ``threading``.
"""

import atexit as _atexit
import os as _os
import threading as _threading
from typing import List as _List

from . import _holdfast
from ._holdfast import Cancel
from .errors import (CLASSES, Broken, Busy, Cancelled, Changed, Config, Deadlock, Denied, Fenced, Forked, HoldfastError,
                     InUse, Invalid, Lost, Mismatch, NotFound, Overflow, Status, Timeout, TooShort, Unavailable, Unknown,
                     Unsupported)
from .lease import Lease
from .locks import AllLocks, AnyLock, Lock
from .primitives import (DELETE, Barrier, Cell, CellItem, CommitChanged, Counter, Election, Guard, Latch, Limit, Members,
                         Once, assert_cell, delete_cell, write_cell)
from .store import Store, open, open_async
from .types import (Algorithm, Cap, CellValue, DeadlockWaiter, EngineInfo, Entry, Event, Finding, Histogram, Holder, Kind,
                    Lack, LatchInfo, Leader, LeaseInfo, Level, LimitResult, Mark, Member, MemberList, State, StoreInfo,
                    StoreStats, TokenStrength, View, Waiter)

__version__ = _holdfast.VERSION

_holdfast.register(Lease, CLASSES, HoldfastError)


def _set_main() -> None:
    _holdfast.set_main(_threading.main_thread().ident or 0)


_set_main()
_os.register_at_fork(after_in_child=_set_main)
_atexit.register(_holdfast.stop)


def version() -> str:
    """The version of the library that is loaded."""
    return _holdfast.VERSION


def engines() -> _List[EngineInfo]:
    """All engines with their sets of promises; those that are not available say why."""
    return [EngineInfo.of(raw) for raw in _holdfast.engines()]


__all__ = [
    "Algorithm", "AllLocks", "AnyLock", "Barrier", "Broken", "Busy", "Cancel", "Cancelled", "Cap", "Cell", "CellItem",
    "CellValue", "Changed", "CommitChanged", "Config", "Counter", "DELETE", "Deadlock", "DeadlockWaiter", "Denied", "Election",
    "EngineInfo", "Entry", "Event", "Fenced", "Finding", "Forked", "Guard", "Histogram", "HoldfastError", "Holder", "InUse",
    "Invalid", "Kind", "Lack", "Latch", "LatchInfo", "Leader", "Lease", "LeaseInfo", "Level", "Limit", "LimitResult", "Lock",
    "Lost", "Mark", "Member", "MemberList", "Members", "Mismatch", "NotFound", "Once", "Overflow", "State", "Status", "Store",
    "StoreInfo", "StoreStats", "Timeout", "TokenStrength", "TooShort", "Unavailable", "Unknown", "Unsupported", "View", "Waiter",
    "assert_cell", "delete_cell", "engines", "open", "open_async", "version", "write_cell",
]
