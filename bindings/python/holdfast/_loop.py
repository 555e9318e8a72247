# SPDX-License-Identifier: MIT
"""asyncio: calls of the library without a thread for each.

A store has one descriptor. Each event loop that makes a call watches a copy of it, and calls ``hf_store_process()`` when it is
readable or when ``hf_store_timeout_ms()`` has passed. So one store serves several loops in several threads. The end of a call
may be noticed by another loop than its own: then it is handed over by ``call_soon_threadsafe()``.

A call that is cancelled has still begun: it is asked to end, and awaited. What it got at that very moment is given back before
CancelledError goes on.
"""

import asyncio
import itertools
import os
import random
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from . import _holdfast

if TYPE_CHECKING:
    from .lease import Lease
    from .store import Store

On = Union["Store", "Lease"]


class Driver:
    """Drives one store from one event loop."""

    def __init__(self, store: "Store", loop: asyncio.AbstractEventLoop) -> None:
        self.store = weakref.ref(store)
        self.loop = loop
        self.timer: Optional[asyncio.TimerHandle] = None
        fd = store._fd()
        if fd < 0:
            store.info()  # which says why: closed, or the parent's
            raise OSError("no descriptor is left")
        self.fd = os.dup(fd)  # ours, so it is closed when nobody watches it any more
        loop.add_reader(self.fd, self.turn)

    def turn(self) -> None:
        """Something is to be done for the store, or may be."""
        store = self.store()
        if store is None or not store.is_open:
            self.stop()
            return
        store._process()
        self.arm(store)

    def arm(self, store: "Store") -> None:
        """Come back when the store says so, at the latest."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        ms = store._timeout_ms()
        if ms >= 0:
            self.timer = self.loop.call_later(ms / 1000, self.turn)

    def stop(self) -> None:
        """On the thread of the loop, or after the loop was closed."""
        if self.fd < 0:
            return
        if self.timer is not None:
            self.timer.cancel()
        if not self.loop.is_closed():
            self.loop.remove_reader(self.fd)
        os.close(self.fd)
        self.fd = -1

    def stop_soon(self) -> None:
        """From any thread."""
        try:
            self.loop.call_soon_threadsafe(self.stop)
        except RuntimeError:  # it is closed
            self.stop()


class Drivers:
    """The drivers of one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: Dict[int, Driver] = {}
        self._pid = os.getpid()

    def of(self, store: "Store", loop: asyncio.AbstractEventLoop) -> Driver:
        with self._lock:
            found = self._all.get(id(loop))
            if found is not None and found.loop is loop:
                return found
            for key, old in list(self._all.items()):
                if old.loop.is_closed():
                    old.stop()
                    del self._all[key]
            made = self._all[id(loop)] = Driver(store, loop)
            return made

    def stop(self) -> None:
        with self._lock:
            all_of_them, self._all = list(self._all.values()), {}
        if self._pid == os.getpid():
            for driver in all_of_them:
                driver.stop_soon()


def leases_in(value: Any) -> List["Lease"]:
    """The leases that a result of a call owns."""
    if isinstance(value, _holdfast.Lease):
        return [value]  # type: ignore[list-item]
    if isinstance(value, (list, tuple)):
        return [one for one in value if isinstance(one, _holdfast.Lease)]  # type: ignore[misc]
    return []


def _ignore(value: Any, error: Optional[BaseException]) -> None:
    pass


class Waiter:
    """One call and the task that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = threading.get_ident()
        self.future: "asyncio.Future[None]" = loop.create_future()
        self.is_done = False
        self.gone = False
        self.value: Any = None
        self.error: Optional[BaseException] = None

    def done(self, value: Any, error: Optional[BaseException]) -> None:
        """The call has ended. On any thread."""
        if threading.get_ident() == self.thread:
            self._end(value, error)
            return
        try:
            self.loop.call_soon_threadsafe(self._end, value, error)
        except RuntimeError:  # the loop is closed: nobody waits
            self._give_back(value)

    def _end(self, value: Any, error: Optional[BaseException]) -> None:
        if self.gone:
            self._give_back(value)
            return
        self.value, self.error, self.is_done = value, error, True
        if not self.future.done():
            self.future.set_result(None)

    @staticmethod
    def _give_back(value: Any) -> None:
        for lease in leases_in(value):
            _holdfast.begin(_holdfast.RELEASE, lease, _ignore)

    async def settle(self) -> None:
        """Wait until the call has ended, whatever happens to the task meanwhile."""
        while not self.is_done:
            if self.future.done():
                self.future = self.loop.create_future()
            try:
                await self.future
            except asyncio.CancelledError:
                pass  # the one that brought us here is raised in the end


async def run(store: "Store", which: int, on: On, *args: Any) -> Any:
    """Make a call and wait for its end without a thread."""
    loop = asyncio.get_running_loop()
    driver = store._drivers.of(store, loop)
    waiter = Waiter(loop)
    op = _holdfast.begin(which, on, waiter.done, *args)
    driver.arm(store)
    try:
        await waiter.future
    except asyncio.CancelledError:
        await _cancelled(store, waiter, op)
        raise
    except BaseException:  # the coroutine is thrown away: nothing can be awaited
        waiter.gone = True
        if waiter.is_done:
            waiter._give_back(waiter.value)
        else:
            _holdfast.op_cancel(op)
        raise
    if waiter.error is not None:
        raise waiter.error
    return waiter.value


async def _cancelled(store: "Store", waiter: Waiter, op: int) -> None:
    if not waiter.is_done:
        _holdfast.op_cancel(op)
        store._drivers.of(store, waiter.loop).arm(store)
        try:
            await waiter.settle()
        except BaseException:
            waiter.gone = True
            raise
    for lease in leases_in(waiter.value):
        back = Waiter(waiter.loop)
        _holdfast.begin(_holdfast.RELEASE, lease, back.done)
        store._drivers.of(store, waiter.loop).arm(store)
        await back.settle()


_scopes: "weakref.WeakKeyDictionary[asyncio.Task[Any], int]" = weakref.WeakKeyDictionary()
_numbers = itertools.count(random.getrandbits(62) | 1 << 62)


def scope_of_task() -> int:
    """Who the library takes the running task for: as a thread is for blocking calls, for reentrancy and deadlocks."""
    task = asyncio.current_task()
    if task is None:
        return 0
    scope = _scopes.get(task)
    if scope is None:
        scope = _scopes[task] = next(_numbers)
    return scope
