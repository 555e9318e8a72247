# SPDX-License-Identifier: MIT
"""Stores: where the locks are."""

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, List, NoReturn, Optional, Sequence, Tuple, Type, Union

from . import _holdfast
from ._habits import unknown
from ._loop import Drivers, run
from .errors import Forked
from .lease import Lease
from .locks import AllLocks, AnyLock, Lock, OnEvent, release_all, release_all_async
from .primitives import (Barrier, Cell, CellItem, Counter, Election, Guard, Latch, Limit, Members, Once, committed,
                         items_for_c)
from .types import (Algorithm, CellValue, DeadlockWaiter, Duration, Finding, Kind, Level, Name, StoreInfo, StoreStats, View, Wait,
                    or_zero, wait_to_ms)

EXISTING, ONCE, NO_WAIT = 1, 2, 4
NameOrLock = Union[Name, Lock]


class Store(_holdfast.Store):
    """An open store. Any thread may use it, and any event loop.

    ``url``: "file:/path", "redis://host", ... (see holdfast-engines(7)), or the name of a profile. None is the store that the
    command ``holdfast`` uses without -S: the variable HOLDFAST_STORE, else the ``default`` of the configuration file, else the
    user's own embedded store. An empty text is an error. ``info().source`` says what chose the store.
    ``wait``: how long to try to open it (None: 5 seconds). ``existing``: create nothing. ``once``: try each address once.
    ``no_wait``: do not wait for the server at all.

    A block (``with``, ``async with``) closes it at its end and releases what is held then.
    """

    def __init__(self, url: Optional[str] = None, *, label: Optional[str] = None, wait: Optional[Duration] = None,
                 existing: bool = False, once: bool = False, no_wait: bool = False) -> None:
        self._drivers = Drivers()
        self._open(url, label, or_zero(wait), existing * EXISTING | once * ONCE | no_wait * NO_WAIT)

    # ---- the store itself

    def close(self, release: bool = False) -> None:
        """Close it. ``InUse``: leases are held or calls wait; with ``release`` they are released and cancelled."""
        self._close(1 if release else 0)
        self._drivers.stop()

    async def close_async(self, release: bool = False) -> None:
        """As close(), in a thread of the loop's executor: closing may take a round trip."""
        await asyncio.get_running_loop().run_in_executor(None, self.close, release)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close(release=True)

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close_async(release=True)

    def __reduce__(self) -> Any:
        raise TypeError("a store cannot be pickled: each process opens its own")

    def __repr__(self) -> str:
        if not self.is_open:
            return "<holdfast.Store: closed>"
        try:
            return f"<holdfast.Store: {self.info().location}>"
        except Forked:
            return "<holdfast.Store: of the parent process>"

    def info(self) -> StoreInfo:
        """What this store is, and what it can do."""
        return StoreInfo.of(self._info())

    def stats(self) -> StoreStats:
        """What this process has done with this store, as numbers: for metrics."""
        return StoreStats.of(self._stats())

    def check(self) -> List[Finding]:
        """Is this store safe for what it promises?"""
        return [Finding(Level(level), *rest) for level, *rest in _holdfast.call(_holdfast.CHECK, self, None)]

    async def check_async(self) -> List[Finding]:
        """As check()."""
        return [Finding(Level(level), *rest) for level, *rest in await run(self, _holdfast.CHECK, self)]

    def release_idle(self) -> None:
        """Give back all leases that linger (``linger``), before exec or the end of the process."""
        self._idle_release()

    # ---- what can be acquired

    def lock(self, name: Name, *, wait: Wait = None, ttl: Optional[Duration] = None, max_hold: Optional[Duration] = None,
             min_valid: Optional[Duration] = None, min_hold: Optional[Duration] = None,
             lock_delay: Optional[Duration] = None, linger: Optional[Duration] = None, label: Optional[str] = None,
             scope: int = 0, session: Optional[str] = None, on_event: Optional[OnEvent] = None,
             cancel: Optional[_holdfast.Cancel] = None, barge: bool = False, reentrant: bool = False,
             no_renew: bool = False, detached: bool = False, strict: bool = False, no_deadlock_check: bool = False,
             watch: bool = False, **more: NoReturn) -> Lock:
        """A mutex. Nothing is acquired yet: see Lock.

        wait: None for ever, 0 try once. ttl: None is the store's. max_hold: end it after this, whatever happens.
        min_valid: a grant with less validity left is given back (``TooShort``). min_hold: the name stays held for this long.
        lock_delay: after an unclean loss the name stays closed this long. linger: how long a released lease may stay with this
        process (None: as the URL says, 0: never). on_event(event, text) hears of AT_RISK, HELD, LOST, and with ``watch`` of
        WANTED, UNWANTED and ASKED, on a thread of the library, or in the event loop that acquired it."""
        if more:
            raise unknown(more)
        return Lock(self, name, Kind.MUTEX, wait=wait, ttl=ttl, max_hold=max_hold, min_valid=min_valid, min_hold=min_hold,
                    lock_delay=lock_delay, linger=linger, label=label, scope=scope, session=session, on_event=on_event,
                    cancel=cancel, barge=barge, reentrant=reentrant, no_renew=no_renew, detached=detached, strict=strict,
                    no_deadlock_check=no_deadlock_check, watch=watch)

    if TYPE_CHECKING:
        locked = shared = exclusive = upgradeable = lock
    else:

        def locked(self, name, **options):
            """A decorator: the function, also a coroutine function, holds the mutex while it runs. Options as of lock()."""
            return Lock(self, name, Kind.MUTEX, **options)

        def shared(self, name, **options):
            """A reader of a read-write lock. Options as of lock()."""
            return Lock(self, name, Kind.SHARED, **options)

        def exclusive(self, name, **options):
            """The writer of a read-write lock. Options as of lock()."""
            return Lock(self, name, Kind.EXCLUSIVE, **options)

        def upgradeable(self, name, **options):
            """The one reader that may become the writer: ``Lease.convert()``. Options as of lock()."""
            return Lock(self, name, Kind.UPGRADEABLE, **options)

    def semaphore(self, name: Name, capacity: int, permits: int = 1, *, numbered: bool = False, wait: Wait = None,
                  ttl: Optional[Duration] = None, max_hold: Optional[Duration] = None,
                  min_valid: Optional[Duration] = None, min_hold: Optional[Duration] = None,
                  lock_delay: Optional[Duration] = None, linger: Optional[Duration] = None, label: Optional[str] = None,
                  scope: int = 0, session: Optional[str] = None, on_event: Optional[OnEvent] = None,
                  cancel: Optional[_holdfast.Cancel] = None, barge: bool = False, reentrant: bool = False,
                  no_renew: bool = False, detached: bool = False, strict: bool = False, no_deadlock_check: bool = False,
                  watch: bool = False, **more: NoReturn) -> Lock:
        """``permits`` of a semaphore of ``capacity``. numbered: each permit has a number, ``LeaseInfo.slots``. The rest as of
        lock()."""
        if more:
            raise unknown(more)
        return Lock(self, name, Kind.SEMAPHORE, capacity=capacity, permits=permits, wait=wait, ttl=ttl, max_hold=max_hold,
                    min_valid=min_valid, min_hold=min_hold, lock_delay=lock_delay, linger=linger, label=label, scope=scope,
                    session=session, on_event=on_event, cancel=cancel, barge=barge, reentrant=reentrant, no_renew=no_renew,
                    detached=detached, strict=strict, no_deadlock_check=no_deadlock_check, watch=watch, numbered=numbered)

    def all(self, locks: Sequence[Lock], *, wait: Wait = None, cancel: Optional[_holdfast.Cancel] = None) -> AllLocks:
        """Several locks, all or none; never in a cycle with another call of this. The ``wait`` of the locks does not count."""
        return AllLocks(self, locks, wait, cancel)

    def any(self, locks: Sequence[Lock], *, wait: Wait = None, cancel: Optional[_holdfast.Cancel] = None) -> AnyLock:
        """One of several locks, whichever is free first. The ``wait`` of the locks does not count."""
        return AnyLock(self, locks, wait, cancel)

    def release_all(self, leases: Sequence[Lease]) -> None:
        """Release leases of this store, whatever happens; the first error is raised in the end."""
        release_all(self, leases)

    async def release_all_async(self, leases: Sequence[Lease]) -> None:
        """As release_all()."""
        await release_all_async(self, leases)

    def adopt(self, name: Name, text: str, ttl: Optional[Duration] = None, renew: bool = False) -> Lease:
        """Take over a detached lease by the text of ``Lease.export()``. ``NotFound``: it has ended."""
        lease: Lease = _holdfast.call(_holdfast.ADOPT, self, None, name, text, or_zero(ttl), renew)
        return lease

    async def adopt_async(self, name: Name, text: str, ttl: Optional[Duration] = None, renew: bool = False) -> Lease:
        """As adopt()."""
        lease: Lease = await run(self, _holdfast.ADOPT, self, name, text, or_zero(ttl), renew)
        return lease

    # ---- for operators

    def inspect(self, name: Optional[Name] = None, pattern: bool = False) -> View:
        """Holders and waiters of a name, of all names (None), or of those that match a pattern with ``* ? [a-z]``."""
        return View.of(_holdfast.call(_holdfast.INSPECT, self, None, name or b"", pattern or name is None))

    async def inspect_async(self, name: Optional[Name] = None, pattern: bool = False) -> View:
        """As inspect()."""
        return View.of(await run(self, _holdfast.INSPECT, self, name or b"", pattern or name is None))

    def break_lease(self, name: Name, token: int) -> None:
        """End exactly the lease that holds ``name`` with ``token``; its holder is told. ``NotFound``: there is none."""
        _holdfast.call(_holdfast.BREAK_LEASE, self, None, name, token)

    async def break_lease_async(self, name: Name, token: int) -> None:
        """As break_lease()."""
        await run(self, _holdfast.BREAK_LEASE, self, name, token)

    def resize(self, name: Name, capacity: int) -> None:
        """Set the size of a semaphore, also while it is in use; 0: as requests say again."""
        _holdfast.call(_holdfast.RESIZE, self, None, name, capacity)

    async def resize_async(self, name: Name, capacity: int) -> None:
        """As resize()."""
        await run(self, _holdfast.RESIZE, self, name, capacity)

    def ask(self, name: Name, text: Optional[str] = None) -> None:
        """Ask the holders with ``watch`` to give it away. ``Busy``: no holder listens. ``NotFound``: nobody holds it."""
        _holdfast.call(_holdfast.ASK, self, None, name, text)

    async def ask_async(self, name: Name, text: Optional[str] = None) -> None:
        """As ask()."""
        await run(self, _holdfast.ASK, self, name, text)

    def wait(self, seq: int = 0, wait: Wait = None, cancel: Optional[_holdfast.Cancel] = None) -> int:
        """Wait until something in the store has changed since ``seq`` (0: since now); the new number. ``Timeout``."""
        return int(_holdfast.call(_holdfast.STORE_WAIT, self, cancel, seq, wait_to_ms(wait)))

    async def wait_async(self, seq: int = 0, wait: Wait = None) -> int:
        """As wait()."""
        return int(await run(self, _holdfast.STORE_WAIT, self, seq, wait_to_ms(wait)))

    def deadlocks(self) -> List[Tuple[DeadlockWaiter, ...]]:
        """The cycles of waiters that are in the store now; the first of each will get ``Deadlock``."""
        return [tuple(map(DeadlockWaiter.of, cycle)) for cycle in _holdfast.call(_holdfast.DEADLOCKS, self, None)]

    async def deadlocks_async(self) -> List[Tuple[DeadlockWaiter, ...]]:
        """As deadlocks()."""
        return [tuple(map(DeadlockWaiter.of, cycle)) for cycle in await run(self, _holdfast.DEADLOCKS, self)]

    # ---- primitives

    def cell(self, name: Name) -> Cell:
        """A cell: bytes with a version."""
        return Cell(self, name)

    def commit(self, items: Sequence[CellItem]) -> List[int]:
        """Several cells in one step, or none (``CommitChanged``); their new versions, 0: none."""
        return committed(_holdfast.call(_holdfast.COMMIT, self, None, items_for_c(items)))

    async def commit_async(self, items: Sequence[CellItem]) -> List[int]:
        """As commit()."""
        return committed(await run(self, _holdfast.COMMIT, self, items_for_c(items)))

    def get_lease_cell(self, name: Name) -> Optional[CellValue]:
        """Read a cell that lives as long as a lease (``Lease.set_cell()``); None: there is none, or its lease has ended."""
        got = _holdfast.call(_holdfast.LEASE_CELL_GET, self, None, name)
        return None if got is None else CellValue.of(got)

    async def get_lease_cell_async(self, name: Name) -> Optional[CellValue]:
        """As get_lease_cell()."""
        got = await run(self, _holdfast.LEASE_CELL_GET, self, name)
        return None if got is None else CellValue.of(got)

    def counter(self, name: Name) -> Counter:
        """A counter: a 64-bit number."""
        return Counter(self, name)

    def guard(self, name: Name) -> Guard:
        """A guarded resource, which refuses old tokens."""
        return Guard(self, name)

    def limit(self, name: Name, rate: int, per: Duration = 1, *, algorithm: Algorithm = Algorithm.FIXED,
              burst: int = 0) -> Limit:
        """A rate limit: ``rate`` permits in ``per``. ``burst``: of a bucket, the most at once (0: rate)."""
        return Limit(self, name, rate, per, algorithm, burst)

    def latch(self, name: Name) -> Latch:
        """A latch, which opens when enough have counted down."""
        return Latch(self, name)

    def barrier(self, name: Name, parties: int) -> Barrier:
        """A barrier for ``parties``."""
        return Barrier(self, name, parties)

    def _as_lock(self, lock: NameOrLock, kind: Kind = Kind.MUTEX) -> Lock:
        return lock if isinstance(lock, Lock) else Lock(self, lock, kind)

    def election(self, lock: NameOrLock) -> Election:
        """An election: a name, or a lock() or exclusive() whose options count for ``campaign()``."""
        return Election(self, self._as_lock(lock))

    def members(self, lock: NameOrLock) -> Members:
        """A group: a name, or a shared() whose options count for ``join()``."""
        return Members(self, self._as_lock(lock, Kind.SHARED))

    def once(self, lock: NameOrLock) -> Once:
        """Work that is done once: a name, or a lock() whose options count for ``begin()``."""
        return Once(self, self._as_lock(lock))


def open(url: Optional[str] = None, *, label: Optional[str] = None, wait: Optional[Duration] = None, existing: bool = False,
         once: bool = False, no_wait: bool = False) -> Store:
    """Open a store: see Store."""
    return Store(url, label=label, wait=wait, existing=existing, once=once, no_wait=no_wait)


async def open_async(url: Optional[str] = None, *, label: Optional[str] = None, wait: Optional[Duration] = None,
                     existing: bool = False, once: bool = False, no_wait: bool = False) -> Store:
    """As open(), in a thread of the loop's executor: opening may wait for a server."""

    def work() -> Store:
        return Store(url, label=label, wait=wait, existing=existing, once=once, no_wait=no_wait)

    return await asyncio.get_running_loop().run_in_executor(None, work)
