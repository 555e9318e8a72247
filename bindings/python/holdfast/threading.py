# SPDX-License-Identifier: MIT
"""Objects with the interface of the module ``threading``, between processes.

Each object names something in a store. Objects of the same name in other threads, processes and machines are the same lock. What
an object has acquired, any thread may release through that object, as with ``threading`` (not so RLock).

A lease may be lost, and then another thread may acquire through the same object. So an object keeps the leases of all its
holders. ``release()`` takes one that the calling thread has acquired, if there is one, and a lost one before a held one: the
thread that has lost its lease gets ``Lost``, and the lease of the next holder stays.

The differences: a semaphore cannot be released more often than this object has acquired it, for a permit is a lease; and an
object that goes away while it holds something is reported (ResourceWarning), for its lease stays held. Condition is not offered.
"""

import threading as _threading
from threading import TIMEOUT_MAX, BrokenBarrierError
from time import monotonic as _now
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type

from .errors import Busy, Lost, Status, Timeout
from .lease import Lease
from .locks import Lock as _Lock
from .store import Store
from .types import MAX_MS, CellValue, Kind, Name, Wait

__all__ = ["Barrier", "BoundedSemaphore", "BrokenBarrierError", "Lock", "RLock", "Semaphore"]


def _wait_of(blocking: bool, timeout: float) -> Wait:
    """The rules of threading.Lock.acquire()."""
    if not blocking and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
    if not blocking:
        return 0
    return None if timeout == -1 or timeout * 1000 > MAX_MS else timeout


def _with(options: Dict[str, Any], flag: str) -> Dict[str, Any]:
    return {**options, flag: True}


def _take(lock: _Lock, wait: Wait) -> Optional[Lease]:
    try:
        return lock.acquire(wait)
    except (Busy, Timeout):
        return None


class _Me(_threading.local):
    """Which thread is this? Unlike get_ident(), no later thread is the same."""

    def __init__(self) -> None:
        self.key = object()


_me = _Me()


class _Hold:
    """A lease, and the thread that has acquired it."""

    __slots__ = ("ident", "lease", "thread")

    def __init__(self, lease: Lease) -> None:
        self.thread = _me.key
        self.ident = _threading.get_ident()
        self.lease = lease

    def is_mine(self) -> bool:
        return self.thread is _me.key

    def order(self) -> Tuple[bool, bool, int]:
        """Which one release() takes first: our own; a lost one; of one name only the newest can be held."""
        return not self.is_mine(), not self.lease.lost, self.lease.token


class _Holds:
    """What was acquired through one object and not released. Each step on the list is atomic, so a signal handler may use it."""

    def __init__(self) -> None:
        self._all: List[_Hold] = []

    def add(self, lease: Lease) -> None:
        self._all.append(_Hold(lease))

    def all(self) -> List[_Hold]:
        return self._all[:]

    def mine(self) -> List[_Hold]:
        return [hold for hold in self.all() if hold.is_mine()]

    def take(self, only_mine: bool = False) -> Optional[_Hold]:
        """The one that is to be released."""
        while True:
            found = self.mine() if only_mine else self.all()
            if not found:
                return None
            first = min(found, key=_Hold.order)
            try:
                self._all.remove(first)
            except ValueError:
                continue  # another thread was quicker
            return first

    def take_some(self, count: int) -> List[_Hold]:
        """So many, or none."""
        taken: List[_Hold] = []
        while len(taken) < count:
            one = self.take()
            if one is None:
                self._all.extend(taken)
                return []
            taken.append(one)
        return taken

    def lease(self) -> Optional[Lease]:
        """The last one of this thread, else the last one."""
        found = self.mine() or self.all()
        return found[-1].lease if found else None

    def __len__(self) -> int:
        return len(self._all)


class _Context:
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.release()


class Lock(_Context):
    """As threading.Lock: any thread may release it."""

    def __init__(self, store: Store, name: Name, **options: Any) -> None:
        """``options`` are those of Store.lock(), but for ``wait``."""
        # Another thread may release it, so the thread that acquires it is not responsible for that.
        self._lock = _Lock(store, name, Kind.MUTEX, **_with(options, "no_deadlock_check"))
        self._holds = _Holds()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """True: it is ours."""
        lease = _take(self._lock, _wait_of(blocking, timeout))
        if lease is None:
            return False
        self._holds.add(lease)
        return True

    def release(self) -> None:
        """RuntimeError: this object has not acquired it. Lost: it was lost; the lease of another holder stays."""
        hold = self._holds.take()
        if hold is None:
            raise RuntimeError("release unlocked lock")
        hold.lease.release()

    def locked(self) -> bool:
        """Does this object hold it?"""
        return len(self._holds) > 0

    @property
    def lease(self) -> Optional[Lease]:
        """What the calling thread has acquired, else what was acquired last: the token, and whether it is lost."""
        return self._holds.lease()

    def __repr__(self) -> str:
        state = "locked" if self.locked() else "unlocked"
        return f"<{state} holdfast.threading.Lock object of {self._lock.name!r} at {id(self):#x}>"


class RLock(_Context):
    """As threading.RLock: the thread that has acquired it may do so again, and only that thread releases it."""

    def __init__(self, store: Store, name: Name, **options: Any) -> None:
        """``options`` are those of Store.lock(), but for ``wait``."""
        self._lock = _Lock(store, name, Kind.MUTEX, **_with(options, "reentrant"))
        self._holds = _Holds()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """True: it is ours, once more."""
        lease = _take(self._lock, _wait_of(blocking, timeout))
        if lease is None:
            return False
        self._holds.add(lease)
        return True

    def release(self) -> None:
        """RuntimeError: this thread has not acquired it. Lost: it was lost; the lease of another thread stays."""
        hold = self._holds.take(only_mine=True)
        if hold is None:
            raise RuntimeError("cannot release un-acquired lock")
        hold.lease.release()

    @property
    def lease(self) -> Optional[Lease]:
        """What the calling thread has acquired, else what was acquired last: the token, and whether it is lost."""
        return self._holds.lease()

    # What threading.Condition asks of a lock.

    def _is_owned(self) -> bool:
        return len(self._holds.mine()) > 0

    def _recursion_count(self) -> int:
        return len(self._holds.mine())

    def _release_save(self) -> int:
        mine = self._holds.mine()
        if not mine:
            raise RuntimeError("cannot release un-acquired lock")
        if any(hold.lease.lost for hold in mine):  # the end of the block releases it
            raise Lost(Status.LOST, 0, "the lease was lost before the wait")
        for _ in mine:
            self.release()
        return len(mine)

    def _acquire_restore(self, count: int) -> None:
        for _ in range(count):
            self.acquire()

    def __repr__(self) -> str:
        holds = self._holds.all()
        state = "locked" if holds else "unlocked"
        owner = holds[-1].ident if holds else None
        count = sum(hold.ident == owner for hold in holds)
        return (f"<{state} holdfast.threading.RLock object of {self._lock.name!r} owner={owner} "
                f"count={count} at {id(self):#x}>")


class Semaphore(_Context):
    """As threading.Semaphore, but that it cannot grow: only what this object has acquired can be released."""

    def __init__(self, store: Store, name: Name, value: int = 1, **options: Any) -> None:
        """``value`` is the capacity, the same in all processes. ``options`` are those of Store.semaphore(), but for ``wait``."""
        if value < 1:
            raise ValueError("the capacity of a semaphore must be >= 1")
        self._lock = _Lock(store, name, Kind.SEMAPHORE, capacity=value, permits=1,
                           **_with(options, "no_deadlock_check"))
        self._capacity = value
        self._holds = _Holds()

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """True: one permit is ours."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        wait = _wait_of(blocking, -1) if timeout is None else _wait_of(True, max(timeout, 0))
        lease = _take(self._lock, wait)
        if lease is None:
            return False
        self._holds.add(lease)
        return True

    def release(self, n: int = 1) -> None:
        """ValueError: this object has acquired fewer, and nothing is released. Lost: one of them was lost; all are released."""
        if n < 1:
            raise ValueError("n must be one or more")
        holds = self._holds.take_some(n)
        if not holds:
            raise ValueError("semaphore released too many times")
        first: Optional[BaseException] = None
        for hold in holds:
            try:
                hold.lease.release()
            except BaseException as error:
                first = first or error
        if first is not None:
            raise first

    @property
    def _value(self) -> int:
        return self._capacity - len(self._holds)

    def __repr__(self) -> str:
        return f"<holdfast.Semaphore at {id(self):#x}: value={self._value}>"


class BoundedSemaphore(Semaphore):
    """As threading.BoundedSemaphore."""

    def __repr__(self) -> str:
        return f"<holdfast.BoundedSemaphore at {id(self):#x}: value={self._value}/{self._capacity}>"


class _State(NamedTuple):
    """A barrier in its cell: which generation, how many of it have come, is it broken, and which generations were reset."""

    generation: int = 0
    came: int = 0
    broken: bool = False
    reset: Tuple[int, ...] = ()

    @classmethod
    def read(cls, cell: Optional[CellValue]) -> "_State":
        if cell is None:
            return cls()
        generation, came, broken, *reset = map(int, cell.bytes.split())
        return cls(generation, came, bool(broken), tuple(reset))

    def write(self) -> bytes:
        return " ".join(str(int(n)) for n in (self.generation, self.came, self.broken, *self.reset)).encode()


_RESETS_KEPT = 64  # generations that a slow waiter can be behind


class Barrier:
    """As threading.Barrier: index, action, abort, reset, and broken for all when one gives up.

    It is a cell with a few numbers, written by compare-and-swap and watched; the name is shared with cells. A participant that
    dies is noticed by ``timeout`` only; ``Store.barrier()`` notices it at once, and has none of these.
    """

    def __init__(self, store: Store, name: Name, parties: int, action: Optional[Callable[[], Any]] = None,
                 timeout: Optional[float] = None) -> None:
        if parties < 1:
            raise ValueError("parties must be >= 1")
        self._cell = store.cell(name)
        self._parties = parties
        self._action = action
        self._timeout = timeout

    def _change(self, step: Callable[[_State], _State]) -> Tuple[_State, int]:
        """Apply a step; what it was before, and the version of the cell after."""
        before = _State()

        def decide(cell: Optional[CellValue]) -> bytes:
            nonlocal before
            before = _State.read(cell)
            return step(before).write()

        version = self._cell.update(decide)
        return before, version

    def wait(self, timeout: Optional[float] = None) -> int:
        """Come, and wait for the others; a number from 0 to parties - 1, another one for each. BrokenBarrierError."""
        timeout = self._timeout if timeout is None else timeout
        end = None if timeout is None else _now() + max(timeout, 0)
        mine, version = self._come(end)
        if mine.came == self._parties - 1:
            self._pass(mine)
        else:
            self._wait_for(mine.generation, version, end)
        return mine.came

    def _come(self, end: Optional[float]) -> Tuple[_State, int]:
        while True:
            # One more than there is room for waits for the next generation.
            before, version = self._change(lambda now: now if now.broken or now.came >= self._parties
                                           else now._replace(came=now.came + 1))
            if before.broken:
                raise BrokenBarrierError
            if before.came < self._parties:
                return before, version
            self._wait_for(before.generation, version, end)

    def _pass(self, mine: _State) -> None:
        """The last one has come: it acts, and lets all of its generation go on."""
        try:
            if self._action is not None:
                self._action()
        except BaseException:
            self.abort()
            raise
        before, _ = self._change(lambda now: now._replace(generation=now.generation + 1, came=0)
                                 if now.generation == mine.generation and not now.broken else now)
        if before.broken or before.generation != mine.generation:
            raise BrokenBarrierError

    def _wait_for(self, generation: int, version: int, end: Optional[float]) -> None:
        while True:
            try:
                version = self._cell.wait(version, None if end is None else max(end - _now(), 0))
            except (Busy, Timeout):
                self._give_up(generation)
                return
            now = _State.read(self._cell.get())
            if self._is_over(now, generation):
                return

    @staticmethod
    def _is_over(now: _State, generation: int) -> bool:
        """Has the generation passed? BrokenBarrierError: it has been broken or reset."""
        if generation in now.reset or (now.broken and now.generation == generation):
            raise BrokenBarrierError
        return now.generation > generation

    def _give_up(self, generation: int) -> None:
        """The time is over: that breaks it for all, unless it has passed just now."""
        before, _ = self._change(lambda now: now if now.generation > generation else now._replace(broken=True, came=0))
        if not self._is_over(before, generation):
            raise BrokenBarrierError

    def reset(self) -> None:
        """Back to the beginning: those that wait get BrokenBarrierError."""
        def step(now: _State) -> _State:
            if now.came == 0 and not now.broken:
                return now
            return _State(now.generation + 1, 0, False, (*now.reset, now.generation)[-_RESETS_KEPT:])

        self._change(step)

    def abort(self) -> None:
        """Break it: those that wait, and those that come, get BrokenBarrierError until reset()."""
        self._change(lambda now: now._replace(broken=True, came=0))

    @property
    def parties(self) -> int:
        """How many must come."""
        return self._parties

    @property
    def n_waiting(self) -> int:
        """How many wait now."""
        came = _State.read(self._cell.get()).came
        return came if came < self._parties else 0

    @property
    def broken(self) -> bool:
        """Is it broken?"""
        return _State.read(self._cell.get()).broken

    def __repr__(self) -> str:
        if self.broken:
            return f"<holdfast.Barrier at {id(self):#x}: broken>"
        return f"<holdfast.Barrier at {id(self):#x}: waiters={self.n_waiting}/{self.parties}>"
