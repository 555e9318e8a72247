# SPDX-License-Identifier: MIT
"""What is built on leases and cells. Each object is a name in a store and holds nothing itself."""

import asyncio
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, List, NamedTuple, Optional, Sequence, Union

from . import _holdfast as c
from ._loop import run, scope_of_task
from .errors import Changed, Status
from .lease import Lease
from .locks import Lock
from .types import (Algorithm, CellValue, Duration, LatchInfo, Leader, LimitResult, Mark, Member, MemberList, Name, Wait,
                    or_zero, to_ms, wait_to_ms)

if TYPE_CHECKING:
    from .store import Store

Cancel = Optional[c.Cancel]


class Delete:
    """The type of DELETE."""


DELETE = Delete()
"""What the function of ``Cell.update()`` returns to delete the cell."""

Update = Callable[[Optional[CellValue]], Union[bytes, Delete, None]]


class _Named:
    def __init__(self, store: "Store", name: Name) -> None:
        self.store = store
        self.name = name

    def __repr__(self) -> str:
        return f"<holdfast.{type(self).__name__}: {self.name!r}>"

    def _call(self, which: int, *args: Any, cancel: Cancel = None) -> Any:
        return c.call(which, self.store, cancel, self.name, *args)

    async def _run(self, which: int, *args: Any) -> Any:
        return await run(self.store, which, self.store, self.name, *args)


class Cell(_Named):
    """A few bytes with a version that every write changes: compare-and-swap without a lock."""

    def get(self) -> Optional[CellValue]:
        """Read it; None: there is none."""
        got = self._call(c.CELL_GET)
        return None if got is None else CellValue.of(got)

    async def get_async(self) -> Optional[CellValue]:
        """As get()."""
        got = await self._run(c.CELL_GET)
        return None if got is None else CellValue.of(got)

    def set(self, value: bytes, ttl: Optional[Duration] = None) -> int:
        """Write it, whatever is there; the new version."""
        return int(self._call(c.CELL_SET, value, or_zero(ttl)))

    async def set_async(self, value: bytes, ttl: Optional[Duration] = None) -> int:
        """As set()."""
        return int(await self._run(c.CELL_SET, value, or_zero(ttl)))

    def swap(self, version: int, value: bytes, ttl: Optional[Duration] = None) -> Optional[int]:
        """Write it if it still has ``version`` (0: if there is none); the new version. None: it was changed."""
        got = self._call(c.CELL_SWAP, value, or_zero(ttl), version)
        return None if got is None else int(got)

    async def swap_async(self, version: int, value: bytes, ttl: Optional[Duration] = None) -> Optional[int]:
        """As swap()."""
        got = await self._run(c.CELL_SWAP, value, or_zero(ttl), version)
        return None if got is None else int(got)

    def delete(self, version: int) -> bool:
        """Delete it if it still has ``version``; False: it was changed."""
        return bool(self._call(c.CELL_DELETE, version)[0])

    async def delete_async(self, version: int) -> bool:
        """As delete()."""
        return bool((await self._run(c.CELL_DELETE, version))[0])

    def update(self, function: Update, wait: Wait = None, ttl: Optional[Duration] = None) -> int:
        """Read it, let ``function`` decide, and write if nobody else did; else begin again. The version that it has then.

        ``function`` gets a CellValue or None. It returns the new bytes, ``DELETE``, or None to leave the cell. It may be
        called several times, and only its last answer counts."""
        return int(self._call(c.CELL_UPDATE, _for_c(function), or_zero(ttl), wait_to_ms(wait)))

    async def update_async(self, function: Update, wait: Wait = None, ttl: Optional[Duration] = None) -> int:
        """As update(); ``function`` is not a coroutine function."""
        return int(await self._run(c.CELL_UPDATE, _for_c(function), or_zero(ttl), wait_to_ms(wait)))

    def wait(self, version: int, wait: Wait = None, cancel: Cancel = None) -> int:
        """Wait until its version is not ``version``; the present one, 0: there is none. ``Timeout``."""
        return int(self._call(c.CELL_WAIT, version, wait_to_ms(wait), cancel=cancel))

    async def wait_async(self, version: int, wait: Wait = None) -> int:
        """As wait()."""
        return int(await self._run(c.CELL_WAIT, version, wait_to_ms(wait)))


def _for_c(function: Update) -> Callable[[Any], Any]:
    def decide(raw: Any) -> Union[bytes, bool, None]:
        said = function(None if raw is None else CellValue.of(raw))
        return False if isinstance(said, Delete) else said

    return decide


ANY_VERSION = 2**64 - 1


class CellItem(NamedTuple):
    """One item of ``Store.commit()``: made by ``assert_cell()``, ``write_cell()``, ``delete_cell()``."""

    name: Name
    version: int
    action: int
    value: bytes = b""
    ttl: Optional[Duration] = None


def assert_cell(name: Name, version: int) -> CellItem:
    """The cell must have this version (0: there is none); it is not written."""
    return CellItem(name, version, 0)


def write_cell(name: Name, value: bytes, version: Optional[int] = None, ttl: Optional[Duration] = None) -> CellItem:
    """Write the cell if it has ``version`` (0: there is none; None: whatever is there)."""
    return CellItem(name, ANY_VERSION if version is None else version, 1, value, ttl)


def delete_cell(name: Name, version: Optional[int] = None) -> CellItem:
    """Delete the cell if it has ``version`` (None: whatever is there)."""
    return CellItem(name, ANY_VERSION if version is None else version, 2)


class CommitChanged(Changed):
    """Nothing was committed: ``index`` is the first item whose cell has another version, ``version`` that version."""

    def __init__(self, index: int, version: int) -> None:
        super().__init__(Status.CHANGED, 0, f"item {index}: its cell has version {version}")
        self.index = index
        self.version = version


def items_for_c(items: Sequence[CellItem]) -> Any:
    return tuple((item.name, item.version, item.action, item.value, or_zero(item.ttl)) for item in items)


def committed(raw: Any) -> List[int]:
    versions, index, version = raw
    if versions is None:
        raise CommitChanged(index, version)
    return list(versions)


class Counter(_Named):
    """A 64-bit number; one that does not exist is 0. Each call is atomic."""

    def add(self, delta: int = 1) -> int:
        """Add, also a negative number; the new value. ``Unknown``: it may have been added, and is never added twice."""
        return int(self._call(c.COUNTER_ADD, delta))

    async def add_async(self, delta: int = 1) -> int:
        """As add()."""
        return int(await self._run(c.COUNTER_ADD, delta))

    def get(self) -> int:
        """Its value."""
        return int(self._call(c.COUNTER_GET))

    async def get_async(self) -> int:
        """As get()."""
        return int(await self._run(c.COUNTER_GET))

    def set(self, value: int) -> None:
        """Set it."""
        self._call(c.COUNTER_SET, value)

    async def set_async(self, value: int) -> None:
        """As set()."""
        await self._run(c.COUNTER_SET, value)

    def swap(self, expected: int, value: int) -> bool:
        """Set it if it is ``expected``; False: it is not."""
        return bool(self._call(c.COUNTER_SWAP, expected, value)[0])

    async def swap_async(self, expected: int, value: int) -> bool:
        """As swap()."""
        return bool((await self._run(c.COUNTER_SWAP, expected, value))[0])

    def delete(self) -> None:
        """Delete it."""
        self._call(c.COUNTER_DELETE)

    async def delete_async(self) -> None:
        """As delete()."""
        await self._run(c.COUNTER_DELETE)


Token = Union[int, Lease]


def _fence(token: Token) -> int:
    return token.fence() if isinstance(token, Lease) else token


class Guard(_Named):
    """A few bytes that refuse every token below the highest that they have seen (``Fenced``). A token is a number, or a lease."""

    def claim(self, token: Token) -> Optional[bytes]:
        """Present the token and read: from then on no lower one is accepted. None: never written."""
        got: Optional[bytes] = self._call(c.GUARD_CLAIM, _fence(token))
        return got

    async def claim_async(self, token: Token) -> Optional[bytes]:
        """As claim()."""
        got: Optional[bytes] = await self._run(c.GUARD_CLAIM, _fence(token))
        return got

    def set(self, token: Token, value: bytes) -> None:
        """Replace the bytes, unless a higher token has been seen."""
        self._call(c.GUARD_SET, _fence(token), value)

    async def set_async(self, token: Token, value: bytes) -> None:
        """As set()."""
        await self._run(c.GUARD_SET, _fence(token), value)


class Limit(_Named):
    """A rate limit: ``rate`` permits in ``per``. It exists by being used."""

    def __init__(self, store: "Store", name: Name, rate: int, per: Duration, algorithm: Algorithm, burst: int) -> None:
        super().__init__(store, name)
        self._rule = (int(algorithm), rate, to_ms(per), burst)

    def take(self, permits: int = 1, wait: Wait = None, cancel: Cancel = None) -> LimitResult:
        """Take permits, waiting at most ``wait``. ``granted`` is False if that would not be enough, and said at once."""
        return LimitResult.of(self._call(c.LIMIT_TAKE, *self._rule, permits, wait_to_ms(wait), cancel=cancel))

    async def take_async(self, permits: int = 1, wait: Wait = None) -> LimitResult:
        """As take()."""
        return LimitResult.of(await self._run(c.LIMIT_TAKE, *self._rule, permits, wait_to_ms(wait)))

    def try_take(self, permits: int = 1) -> bool:
        """Take permits if they are there."""
        return self.take(permits, 0).granted

    async def try_take_async(self, permits: int = 1) -> bool:
        """As try_take()."""
        return (await self.take_async(permits, 0)).granted

    def get(self) -> Optional[LimitResult]:
        """What is left, and the rule in force. With rate 0: as the store has it; None: it has none."""
        got = self._call(c.LIMIT_GET, *self._rule, 0, 0)
        return None if got is None else LimitResult.of(got)

    async def get_async(self) -> Optional[LimitResult]:
        """As get()."""
        got = await self._run(c.LIMIT_GET, *self._rule, 0, 0)
        return None if got is None else LimitResult.of(got)

    def set(self) -> None:
        """From now on the rule of this object counts for all, until it is set again; rate 0: each request brings its own."""
        self._call(c.LIMIT_SET, *self._rule, 0, 0)

    async def set_async(self) -> None:
        """As set()."""
        await self._run(c.LIMIT_SET, *self._rule, 0, 0)


class Latch(_Named):
    """Opens, for ever, when as many participants have counted down as it was made for."""

    def create(self, count: int) -> None:
        """Make it."""
        self._call(c.LATCH_CREATE, count)

    async def create_async(self, count: int) -> None:
        """As create()."""
        await self._run(c.LATCH_CREATE, count)

    def count_down(self, who: str) -> int:
        """Count ``who``, once however often; how many are missing."""
        return int(self._call(c.LATCH_COUNT_DOWN, who))

    async def count_down_async(self, who: str) -> int:
        """As count_down()."""
        return int(await self._run(c.LATCH_COUNT_DOWN, who))

    def join(
        self, who: str, wait: Wait = None, cancel: Cancel = None, ttl: Optional[Duration] = None
    ) -> Lease:
        """Begin to work as ``who``: if the lease ends before it has counted down, the latch is broken.
        ``ttl`` of the lease: the others notice a death after that time."""
        lease: Lease = self._call(c.LATCH_JOIN, who, 0, wait_to_ms(wait), or_zero(ttl), cancel=cancel)
        return lease

    async def join_async(self, who: str, wait: Wait = None, ttl: Optional[Duration] = None) -> Lease:
        """As join()."""
        lease: Lease = await self._run(c.LATCH_JOIN, who, 0, wait_to_ms(wait), or_zero(ttl))
        return lease

    def wait(self, wait: Wait = None, cancel: Cancel = None) -> None:
        """Wait until it is open. ``Timeout``, ``Broken``."""
        self._call(c.LATCH_WAIT, None, 0, wait_to_ms(wait), cancel=cancel)

    async def wait_async(self, wait: Wait = None) -> None:
        """As wait()."""
        await self._run(c.LATCH_WAIT, None, 0, wait_to_ms(wait))

    def get(self) -> LatchInfo:
        """Its count, and how many are missing."""
        return LatchInfo(*self._call(c.LATCH_GET))

    async def get_async(self) -> LatchInfo:
        """As get()."""
        return LatchInfo(*await self._run(c.LATCH_GET))

    def delete(self) -> None:
        """Delete it; its waiters get ``NotFound``."""
        self._call(c.LATCH_DELETE)

    async def delete_async(self) -> None:
        """As delete()."""
        await self._run(c.LATCH_DELETE)


class Barrier(_Named):
    """Each waits until ``parties`` have come, and all go on together. A participant that dies breaks it (``Broken``).

    ``who`` identifies a participant; None: a random id."""

    def __init__(self, store: "Store", name: Name, parties: int) -> None:
        super().__init__(store, name)
        self.parties = parties

    def wait(
        self, wait: Wait = None, who: Optional[str] = None, cancel: Cancel = None, ttl: Optional[Duration] = None
    ) -> None:
        """Come, and wait for the others. ``Timeout``: we have not come, and the others go on waiting.
        ``ttl`` of the lease of this participant: the others notice its death after that time."""
        self._call(c.BARRIER_WAIT, who, self.parties, wait_to_ms(wait), or_zero(ttl), cancel=cancel)

    async def wait_async(
        self, wait: Wait = None, who: Optional[str] = None, ttl: Optional[Duration] = None
    ) -> None:
        """As wait()."""
        await self._run(c.BARRIER_WAIT, who, self.parties, wait_to_ms(wait), or_zero(ttl))

    def enter(
        self, wait: Wait = None, who: Optional[str] = None, cancel: Cancel = None, ttl: Optional[Duration] = None
    ) -> Lease:
        """A double barrier: enter together; ``leave()`` ends the lease. ``ttl``: as for wait()."""
        lease: Lease = self._call(c.BARRIER_ENTER, who, self.parties, wait_to_ms(wait), or_zero(ttl), cancel=cancel)
        return lease

    async def enter_async(
        self, wait: Wait = None, who: Optional[str] = None, ttl: Optional[Duration] = None
    ) -> Lease:
        """As enter()."""
        lease: Lease = await self._run(c.BARRIER_ENTER, who, self.parties, wait_to_ms(wait), or_zero(ttl))
        return lease

    def leave(self, party: Lease, wait: Wait = None, cancel: Cancel = None) -> None:
        """Leave, and wait until all have left. The lease has ended, whatever happens."""
        c.call(c.BARRIER_LEAVE, party, cancel, wait_to_ms(wait))

    async def leave_async(self, party: Lease, wait: Wait = None) -> None:
        """As leave()."""
        await run(self.store, c.BARRIER_LEAVE, party, wait_to_ms(wait))


class _Locked:
    """What stands on a lock: the options of its requests are those of the lock."""

    def __init__(self, store: "Store", lock: Lock) -> None:
        self.store = store
        self.lock = lock
        self.name = lock.name

    def __repr__(self) -> str:
        return f"<holdfast.{type(self).__name__}: {self.name!r}>"

    def _acquire(self, which: int, value: Any) -> Any:
        return c.call(which, self.store, self.lock._cancel, self.lock._requests(None), self.lock._wait_ms, 0, value)

    async def _acquire_async(self, which: int, value: Any) -> Any:
        requests = self.lock._requests(asyncio.get_running_loop())
        return await run(self.store, which, self.store, requests, self.lock._wait_ms, scope_of_task(), value)


class Election(_Locked):
    """The holder of the lock is the leader, and publishes a value."""

    def campaign(self, value: bytes) -> Lease:
        """Wait until we lead, then publish ``value``. ``resign()`` ends it."""
        lease: Lease = self._acquire(c.CAMPAIGN, value)
        return lease

    async def campaign_async(self, value: bytes) -> Lease:
        """As campaign()."""
        lease: Lease = await self._acquire_async(c.CAMPAIGN, value)
        return lease

    def set(self, leader: Lease, value: bytes) -> None:
        """Publish another value. ``Lost``, ``Fenced``: we do not lead any more."""
        c.call(c.ELECTION_SET, leader, None, value)

    async def set_async(self, leader: Lease, value: bytes) -> None:
        """As set()."""
        await run(self.store, c.ELECTION_SET, leader, value)

    def resign(self, leader: Lease) -> None:
        """Publish that nobody leads, and release."""
        c.call(c.RESIGN, leader, None)

    async def resign_async(self, leader: Lease) -> None:
        """As resign()."""
        await run(self.store, c.RESIGN, leader)

    def leader(self) -> Leader:
        """Who leads now."""
        return Leader(c.call(c.ELECTION_WAIT, self.store, None, self.name, None, 0))

    async def leader_async(self) -> Leader:
        """As leader()."""
        return Leader(await run(self.store, c.ELECTION_WAIT, self.store, self.name, None, 0))

    def wait(self, last: Leader, wait: Wait = None, cancel: Cancel = None) -> Optional[Leader]:
        """Wait until there is something else to see than ``last``; None: nothing new in that time."""
        got = c.call(c.ELECTION_WAIT, self.store, cancel, self.name, last._seen, wait_to_ms(wait))
        return None if got is None else Leader(got)

    async def wait_async(self, last: Leader, wait: Wait = None) -> Optional[Leader]:
        """As wait()."""
        got = await run(self.store, c.ELECTION_WAIT, self.store, self.name, last._seen, wait_to_ms(wait))
        return None if got is None else Leader(got)

    def watch(self) -> Iterator[Leader]:
        """Who leads now, and then each change."""
        last: Optional[Leader] = self.leader()
        while last is not None:
            yield last
            last = self.wait(last)

    async def watch_async(self) -> AsyncIterator[Leader]:
        """As watch()."""
        last: Optional[Leader] = await self.leader_async()
        while last is not None:
            yield last
            last = await self.wait_async(last)


class Members(_Locked):
    """A group: a list of those that are alive."""

    def join(self, value: Optional[str] = None) -> Lease:
        """Join as ``value``: a text without control characters (None: the label of the store). ``leave()`` ends it."""
        lease: Lease = self._acquire(c.JOIN, value)
        return lease

    async def join_async(self, value: Optional[str] = None) -> Lease:
        """As join()."""
        lease: Lease = await self._acquire_async(c.JOIN, value)
        return lease

    def leave(self, member: Lease) -> None:
        """Release, and tell those that watch."""
        c.call(c.LEAVE, member, None)

    async def leave_async(self, member: Lease) -> None:
        """As leave()."""
        await run(self.store, c.LEAVE, member)

    def list(self) -> MemberList:
        """The members now."""
        return MemberList.of(c.call(c.MEMBERS_WAIT, self.store, None, self.name, None, 0))

    async def list_async(self) -> MemberList:
        """As list()."""
        return MemberList.of(await run(self.store, c.MEMBERS_WAIT, self.store, self.name, None, 0))

    def wait(self, last: MemberList, wait: Wait = None, cancel: Cancel = None) -> Optional[MemberList]:
        """Wait until the members are others than ``last``; None: nobody has joined or left in that time."""
        got = c.call(c.MEMBERS_WAIT, self.store, cancel, self.name, last._seen, wait_to_ms(wait))
        return None if got is None else MemberList.of(got)

    async def wait_async(self, last: MemberList, wait: Wait = None) -> Optional[MemberList]:
        """As wait()."""
        got = await run(self.store, c.MEMBERS_WAIT, self.store, self.name, last._seen, wait_to_ms(wait))
        return None if got is None else MemberList.of(got)


def _lease_or_mark(got: Any) -> Union[Lease, Mark]:
    return got if isinstance(got, Lease) else Mark.of(got)


class Once(_Locked):
    """Work that is done once: a lock, and a mark that it has been done."""

    def begin(self, keep: Optional[Duration] = None) -> Union[Lease, Mark]:
        """A Lease: it is ours to do; then ``finish()`` and release. A Mark: it has been done. ``keep``: how long the mark
        stays; None: for ever."""
        return _lease_or_mark(self._acquire(c.ONCE_BEGIN, or_zero(keep)))

    async def begin_async(self, keep: Optional[Duration] = None) -> Union[Lease, Mark]:
        """As begin()."""
        return _lease_or_mark(await self._acquire_async(c.ONCE_BEGIN, or_zero(keep)))

    def claim(self, lease: Lease, keep: Optional[Duration] = None) -> Optional[Mark]:
        """Begin under a lease that is held already. None: it is ours to do."""
        got = c.call(c.ONCE_CLAIM, lease, None, or_zero(keep))
        return None if got is None else Mark.of(got)

    async def claim_async(self, lease: Lease, keep: Optional[Duration] = None) -> Optional[Mark]:
        """As claim()."""
        got = await run(self.store, c.ONCE_CLAIM, lease, or_zero(keep))
        return None if got is None else Mark.of(got)

    def finish(self, lease: Lease) -> None:
        """It is done: set the mark. ``Fenced``: somebody has begun after us, and it is done once more."""
        c.call(c.ONCE_FINISH, lease, None)

    async def finish_async(self, lease: Lease) -> None:
        """As finish()."""
        await run(self.store, c.ONCE_FINISH, lease)

    def get(self) -> Optional[Mark]:
        """Who did it; None: it has not been done."""
        got = c.call(c.ONCE_GET, self.store, None, self.name)
        return None if got is None else Mark.of(got)

    async def get_async(self) -> Optional[Mark]:
        """As get()."""
        got = await run(self.store, c.ONCE_GET, self.store, self.name)
        return None if got is None else Mark.of(got)

    def delete(self) -> bool:
        """Delete the mark: the next worker does it again. False: there is none."""
        return bool(c.call(c.ONCE_DELETE, self.store, None, self.name)[0])

    async def delete_async(self) -> bool:
        """As delete()."""
        return bool((await run(self.store, c.ONCE_DELETE, self.store, self.name))[0])


__all__ = ["DELETE", "Barrier", "Cell", "CellItem", "CommitChanged", "Counter", "Election", "Guard", "Latch", "Limit",
           "Member", "Members", "Once", "assert_cell", "delete_cell", "write_cell"]
