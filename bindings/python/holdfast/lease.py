# SPDX-License-Identifier: MIT
"""Leases: what an acquire returns."""

from types import TracebackType
from typing import TYPE_CHECKING, Optional, Type

from . import _holdfast
from ._habits import no_attribute
from ._loop import run
from .types import Duration, Kind, LeaseInfo, Name, State, Wait, or_zero, to_seconds, wait_to_ms

if TYPE_CHECKING:
    from .store import Store


class Lease(_holdfast.Lease):
    """A lease that this process holds, or has held.

    ``release()`` ends it, and so does the end of a ``with`` block. A lease that is forgotten is reported by a ResourceWarning
    and stays held: the code that it protects may still run.

    The store may end a lease (ttl, break): then ``state`` is LOST, ``on_event`` is called with ``Event.LOST``, and
    ``release()`` raises ``Lost``.
    """

    __slots__ = ("__weakref__",)

    if TYPE_CHECKING:

        @property
        def store(self) -> "Store": ...

    else:

        def __getattr__(self, name):
            raise no_attribute(self, name)

    @property
    def state(self) -> State:
        """HELD, AT_RISK or LOST; LOST also after it was released."""
        return State(self._state)

    @property
    def lost(self) -> bool:
        """True: it does not protect anything any more."""
        return self._state == State.LOST

    @property
    def remaining(self) -> float:
        """Seconds of validity by our own clock; infinite without a ttl, 0 when it is lost."""
        return to_seconds(self._remaining_ms)

    def info(self) -> LeaseInfo:
        """All of it at one moment."""
        return LeaseInfo.of(self._info())

    @property
    def name(self) -> bytes:
        """The name that it is of."""
        return self.info().name

    def fence(self) -> int:
        """The token as a fence for ``Guard``. Unsupported: it is none, for holders of this kind overlap."""
        return self._fence()

    def release(self) -> None:
        """End it. ``Lost``: it had ended before, and nobody else's lease was touched. ``Unknown``, ``Unavailable``: the store
        could not be told, and the library goes on in the background. In every case this object holds nothing any more."""
        _holdfast.call(_holdfast.RELEASE, self, None)

    async def release_async(self) -> None:
        """As release()."""
        await run(self.store, _holdfast.RELEASE, self)

    def renew(self, ttl: Optional[Duration] = None) -> None:
        """Renew it now, for ``ttl`` from now (None: as before). ``Lost``: too late."""
        _holdfast.call(_holdfast.RENEW, self, None, or_zero(ttl))

    async def renew_async(self, ttl: Optional[Duration] = None) -> None:
        """As renew()."""
        await run(self.store, _holdfast.RENEW, self, or_zero(ttl))

    def yield_(self, wait: Wait = None) -> bool:
        """Give it to those that wait, and queue for it again; for a lease with ``watch``. False: nobody waits, and it has
        stayed. True: it was given away and is ours again, with a new token. An error: it may be gone, see ``owned``. ``Invalid``: it was
        released meanwhile, and what came back was given back."""
        return bool(_holdfast.call(_holdfast.GIVE_WAY, self, None, wait_to_ms(wait)))

    async def yield_async(self, wait: Wait = None) -> bool:
        """As yield_()."""
        return bool(await run(self.store, _holdfast.GIVE_WAY, self, wait_to_ms(wait)))

    def convert(self, kind: Kind, wait: Wait = None) -> None:
        """Make a lease of a read-write lock one of another kind, without a gap in which somebody else could write."""
        _holdfast.call(_holdfast.CONVERT, self, None, int(kind), wait_to_ms(wait))

    async def convert_async(self, kind: Kind, wait: Wait = None) -> None:
        """As convert()."""
        await run(self.store, _holdfast.CONVERT, self, int(kind), wait_to_ms(wait))

    def export(self) -> str:
        """A detached lease as text that another process can ``adopt()``. The text is a secret."""
        return self._export()

    def session(self, around: Optional[str] = None) -> str:
        """The session that holds it, as text for a process that works for us: its ``session`` option."""
        return self._session(around)

    def set_cell(self, name: Name, value: bytes) -> None:
        """Write a cell that is gone when this lease ends; ``Store.get_lease_cell()`` reads it."""
        _holdfast.call(_holdfast.LEASE_CELL_SET, self, None, name, value)

    async def set_cell_async(self, name: Name, value: bytes) -> None:
        """As set_cell()."""
        await run(self.store, _holdfast.LEASE_CELL_SET, self, name, value)

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        leave(self, error)

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await leave_async(self, error)

    def __repr__(self) -> str:
        if not self.owned:
            return "<holdfast.Lease: released>"
        return f"<holdfast.Lease: {self.state.name}, token {self.token}>"


def leave(lease: Lease, error: Optional[BaseException]) -> None:
    """The end of a block. What went wrong in the block counts more than what goes wrong in the release."""
    if not lease.owned:
        return
    try:
        lease.release()
    except Exception:
        if error is None:
            raise


async def leave_async(lease: Lease, error: Optional[BaseException]) -> None:
    """As leave()."""
    if not lease.owned:
        return
    try:
        await lease.release_async()
    except Exception:
        if error is None:
            raise
