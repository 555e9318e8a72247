# SPDX-License-Identifier: MIT
"""What can be acquired: locks of all kinds, and several at once.

These objects hold nothing. They say what to acquire and how; each acquire returns a Lease of its own. So one object may be used
by many threads and tasks, nested, and again and again.
"""

import asyncio
import functools
import inspect
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, NoReturn, Optional, Sequence, Tuple, Type, TypeVar, Union, cast

from . import _holdfast
from ._habits import no_attribute, unknown, unknown_to_acquire
from ._loop import run, scope_of_task
from .errors import Busy
from .lease import Lease, leave, leave_async
from .types import Duration, Event, Kind, Name, Wait, or_zero, to_ms, wait_to_ms

if TYPE_CHECKING:
    from .store import Store

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
OnEvent = Callable[[Event, str], Any]


class Default:
    """The default of a wait that the object has already."""


DEFAULT = Default()
WaitOrDefault = Union[Wait, Default]

FLAGS = {"barge": 1 << 0, "reentrant": 1 << 1, "no_renew": 1 << 2, "detached": 1 << 3, "strict": 1 << 4,
         "no_deadlock_check": 1 << 5, "watch": 1 << 6, "numbered": 1 << 7}


def linger_to_ms(linger: Optional[Duration]) -> int:
    """None: as the URL says; 0: never."""
    return 0 if linger is None else to_ms(linger) or -1


class Acquirer(Generic[T]):
    """What locks and groups of them share: blocks, decorators, and the two forms of acquire."""

    _store: "Store"
    _wait_ms: int
    _cancel: Optional[_holdfast.Cancel]
    _entered: Dict[Any, List[T]]

    def _set(self, store: "Store", wait: Wait, cancel: Optional[_holdfast.Cancel]) -> None:
        self._store = store
        self._wait_ms = wait_to_ms(wait)
        self._cancel = cancel
        self._entered = {}

    # What differs.

    _which: int

    def _requests(self, loop: Optional[asyncio.AbstractEventLoop]) -> Tuple[_holdfast.Request, ...]:
        raise NotImplementedError

    def _took(self, got: Any) -> T:
        return cast(T, got)

    def _mark(self, held: T) -> None:
        """It has reached its caller. Until then a signal handler may raise, and the lease is given back when it goes away."""
        raise NotImplementedError

    def _leave(self, held: T, error: Optional[BaseException]) -> None:
        raise NotImplementedError

    async def _leave_async(self, held: T, error: Optional[BaseException]) -> None:
        raise NotImplementedError

    # What is the same.

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise no_attribute(self, name)

    def _ms(self, wait: WaitOrDefault) -> int:
        return self._wait_ms if isinstance(wait, Default) else wait_to_ms(wait)

    def _acquire(self, wait_ms: int) -> T:
        return self._took(_holdfast.call(self._which, self._store, self._cancel, self._requests(None), wait_ms, 0))

    async def _acquire_async(self, wait_ms: int) -> T:
        requests = self._requests(asyncio.get_running_loop())
        return self._took(await run(self._store, self._which, self._store, requests, wait_ms, scope_of_task()))

    def acquire(self, wait: WaitOrDefault = DEFAULT, **more: NoReturn) -> T:
        """Acquire it. ``wait``: as of the object. ``Busy`` (wait 0), ``Timeout``, ``Cancelled``, ``Deadlock``, ..."""
        if more:
            raise unknown_to_acquire(more)
        held = self._acquire(self._ms(wait))
        self._mark(held)
        return held

    async def acquire_async(self, wait: WaitOrDefault = DEFAULT, **more: NoReturn) -> T:
        """As acquire(). If the task is cancelled, nothing is held."""
        if more:
            raise unknown_to_acquire(more)
        return await self._acquire_async(self._ms(wait))

    def try_acquire(self) -> Optional[T]:
        """Acquire it if it is free; None: it is not."""
        try:
            held = self._acquire(0)
        except Busy:
            return None
        self._mark(held)
        return held

    async def try_acquire_async(self) -> Optional[T]:
        """As try_acquire()."""
        try:
            return await self._acquire_async(0)
        except Busy:
            return None

    def _push(self, key: Any, held: T) -> T:
        self._entered.setdefault(key, []).append(held)
        return held

    def _pop(self, key: Any) -> T:
        stack = self._entered[key]
        held = stack.pop()
        if not stack:
            del self._entered[key]
        return held

    def __enter__(self) -> T:
        held = self._acquire(self._wait_ms)
        entered = False
        try:
            self._push(threading.get_ident(), held)
            entered = True
            self._mark(held)
        except BaseException:  # a signal handler
            if entered:
                self._pop(threading.get_ident())
            raise
        return held

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._leave(self._pop(threading.get_ident()), error)

    async def __aenter__(self) -> T:
        return self._push(asyncio.current_task(), await self._acquire_async(self._wait_ms))

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self._leave_async(self._pop(asyncio.current_task()), error)

    def __call__(self, function: F) -> F:
        """As a decorator: the function, also a coroutine function, holds it while it runs. Generators are refused: their bodies
        run when the call has returned, without the lock."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator function cannot be decorated with a lock: use a block in its body")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def held_async(*args: Any, **kwargs: Any) -> Any:
                async with self:
                    return await function(*args, **kwargs)

            return cast(F, held_async)

        @functools.wraps(function)
        def held(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(F, held)


class Lock(Acquirer[Lease]):
    """A name and how it is acquired: ``Store.lock()``, ``shared()``, ``exclusive()``, ``upgradeable()``, ``semaphore()``.

    ::

        with store.lock("x", wait=5) as lease: ...
        async with store.lock("x"): ...
        lease = store.lock("x").try_acquire()

        @store.lock("x")
        def alone(): ...
    """

    _which = _holdfast.ACQUIRE

    def __init__(self, store: "Store", name: Name, kind: Kind = Kind.MUTEX, *, capacity: int = 0, permits: int = 0,
                 wait: Wait = None, ttl: Optional[Duration] = None, max_hold: Optional[Duration] = None,
                 min_valid: Optional[Duration] = None, min_hold: Optional[Duration] = None,
                 lock_delay: Optional[Duration] = None, linger: Optional[Duration] = None, label: Optional[str] = None,
                 scope: int = 0, session: Optional[str] = None, on_event: Optional[OnEvent] = None,
                 cancel: Optional[_holdfast.Cancel] = None, **flags: bool) -> None:
        """Use the methods of the store. ``scope`` is who acquires, for reentrancy and deadlocks; 0: the thread, or the task."""
        self._set(store, wait, cancel)
        self.name = name
        self.kind = kind
        if on_event is not None and not callable(on_event):
            raise TypeError(f"on_event must be callable, not {on_event!r}")
        self._on_event = on_event
        more = set(flags) - set(FLAGS)
        if more:
            raise unknown(more)
        self._options: Dict[str, Any] = {
            "name": name, "kind": int(kind), "capacity": capacity, "permits": permits,
            "flags": sum(FLAGS[flag] for flag, on in flags.items() if on), "ttl_ms": or_zero(ttl),
            "max_hold_ms": or_zero(max_hold), "min_valid_ms": or_zero(min_valid), "min_hold_ms": or_zero(min_hold),
            "lock_delay_ms": or_zero(lock_delay), "linger_ms": linger_to_ms(linger), "scope": scope, "label": label,
            "session": session}
        self._request = self._make(None if on_event is None else functools.partial(_tell, on_event))
        self._as_tuple = (self._request,)

    def _make(self, on_event: Optional[Callable[[int, str], Any]]) -> _holdfast.Request:
        return _holdfast.Request(**self._options, on_event=on_event)

    def _requests(self, loop: Optional[asyncio.AbstractEventLoop]) -> Tuple[_holdfast.Request, ...]:
        if loop is None or self._on_event is None:
            return self._as_tuple
        # Events of a lease that is acquired here come to this loop, whichever loop has noticed them.
        return (self._make(functools.partial(_tell_loop, loop, threading.get_ident(), self._on_event)),)

    def _mark(self, held: Lease) -> None:
        held._taken = True

    def acquire(self, wait: WaitOrDefault = DEFAULT, **more: NoReturn) -> Lease:
        """Acquire it. ``wait``: as of the object. ``Busy`` (wait 0), ``Timeout``, ``Cancelled``, ``Deadlock``, ..."""
        if more:
            raise unknown_to_acquire(more)
        # What Acquirer does, without its steps: this is the call that programs make in a loop.
        ms = self._wait_ms if wait is DEFAULT else self._ms(wait)
        held: Lease = _holdfast.call(_holdfast.ACQUIRE, self._store, self._cancel, self._as_tuple, ms, 0)
        held._taken = True
        return held

    def _leave(self, held: Lease, error: Optional[BaseException]) -> None:
        leave(held, error)

    async def _leave_async(self, held: Lease, error: Optional[BaseException]) -> None:
        await leave_async(held, error)

    def __repr__(self) -> str:
        return f"<holdfast.Lock: {self.kind.name} {self.name!r}>"


def _tell(on_event: OnEvent, event: int, text: str) -> None:
    on_event(Event(event), text)


def _tell_loop(loop: asyncio.AbstractEventLoop, thread: int, on_event: OnEvent, event: int, text: str) -> None:
    if threading.get_ident() == thread:
        on_event(Event(event), text)
        return
    try:
        loop.call_soon_threadsafe(on_event, Event(event), text)
    except RuntimeError:
        pass  # the loop is closed: nobody is left to be told


class AllLocks(Acquirer[List[Lease]]):
    """Several locks, all or none: ``Store.all()``. A block gets the list of leases, in the order of the locks."""

    _which = _holdfast.ACQUIRE_ALL

    def __init__(self, store: "Store", locks: Sequence[Lock], wait: Wait, cancel: Optional[_holdfast.Cancel]) -> None:
        self._set(store, wait, cancel)
        self.locks = tuple(locks)

    def _requests(self, loop: Optional[asyncio.AbstractEventLoop]) -> Tuple[_holdfast.Request, ...]:
        return tuple(lock._requests(loop)[0] for lock in self.locks)

    def _mark(self, held: List[Lease]) -> None:
        for lease in held:
            lease._taken = True

    def _leave(self, held: List[Lease], error: Optional[BaseException]) -> None:
        try:
            release_all(self._store, [lease for lease in held if lease.owned])
        except Exception:
            if error is None:
                raise

    async def _leave_async(self, held: List[Lease], error: Optional[BaseException]) -> None:
        try:
            await release_all_async(self._store, [lease for lease in held if lease.owned])
        except Exception:
            if error is None:
                raise


class AnyLock(Acquirer[Lease]):
    """One of several locks, whichever is free first: ``Store.any()``. ``Lease.name`` says which."""

    _which = _holdfast.ACQUIRE_ANY

    def __init__(self, store: "Store", locks: Sequence[Lock], wait: Wait, cancel: Optional[_holdfast.Cancel]) -> None:
        self._set(store, wait, cancel)
        self.locks = tuple(locks)

    def _requests(self, loop: Optional[asyncio.AbstractEventLoop]) -> Tuple[_holdfast.Request, ...]:
        return tuple(lock._requests(loop)[0] for lock in self.locks)

    def _took(self, got: Any) -> Lease:
        return cast(Lease, got[1])

    def _mark(self, held: Lease) -> None:
        held._taken = True

    def _leave(self, held: Lease, error: Optional[BaseException]) -> None:
        leave(held, error)

    async def _leave_async(self, held: Lease, error: Optional[BaseException]) -> None:
        await leave_async(held, error)


def release_all(store: "Store", leases: Sequence[Lease]) -> None:
    """Release leases of one store, whatever happens; the first error is raised in the end."""
    if leases:
        _holdfast.call(_holdfast.RELEASE_ALL, store, None, tuple(leases))


async def release_all_async(store: "Store", leases: Sequence[Lease]) -> None:
    """As release_all()."""
    if leases:
        await run(store, _holdfast.RELEASE_ALL, store, tuple(leases))


__all__ = ["Acquirer", "AllLocks", "AnyLock", "Lock", "OnEvent", "release_all", "release_all_async"]
