# SPDX-License-Identifier: MIT
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

VERSION: str

ACQUIRE: int
ACQUIRE_ALL: int
ACQUIRE_ANY: int
RELEASE: int
RELEASE_ALL: int
RENEW: int
GIVE_WAY: int
CONVERT: int
RESIZE: int
ASK: int
ADOPT: int
BREAK_LEASE: int
INSPECT: int
STORE_WAIT: int
CHECK: int
DEADLOCKS: int
CELL_GET: int
CELL_SET: int
CELL_SWAP: int
CELL_DELETE: int
CELL_UPDATE: int
CELL_WAIT: int
COMMIT: int
COUNTER_ADD: int
COUNTER_GET: int
COUNTER_SET: int
COUNTER_SWAP: int
COUNTER_DELETE: int
GUARD_CLAIM: int
GUARD_SET: int
LIMIT_TAKE: int
LIMIT_GET: int
LIMIT_SET: int
LATCH_CREATE: int
LATCH_COUNT_DOWN: int
LATCH_JOIN: int
LATCH_WAIT: int
LATCH_GET: int
LATCH_DELETE: int
BARRIER_WAIT: int
BARRIER_ENTER: int
BARRIER_LEAVE: int
CAMPAIGN: int
ELECTION_SET: int
RESIGN: int
ELECTION_WAIT: int
LEASE_CELL_SET: int
LEASE_CELL_GET: int
JOIN: int
LEAVE: int
MEMBERS_WAIT: int
ONCE_BEGIN: int
ONCE_GET: int
ONCE_CLAIM: int
ONCE_FINISH: int
ONCE_DELETE: int

class Cancel:
    """Ends blocking calls from another thread: they raise holdfast.Cancelled."""
    @property
    def fired(self) -> bool: ...
    def fire(self) -> None: ...

class Request:
    def __init__(self, name: str | bytes, kind: int, capacity: int = ..., permits: int = ..., flags: int = ...,
                 ttl_ms: int = ..., max_hold_ms: int = ..., min_valid_ms: int = ..., min_hold_ms: int = ...,
                 lock_delay_ms: int = ..., linger_ms: int = ..., scope: int = ..., label: Optional[str] = ...,
                 session: Optional[str] = ..., on_event: Optional[Callable[[int, str], Any]] = ...) -> None: ...

class Lease:
    _taken: bool
    @property
    def token(self) -> int: ...
    @property
    def _state(self) -> int: ...
    @property
    def _remaining_ms(self) -> int: ...
    @property
    def wanted(self) -> bool: ...
    @property
    def owned(self) -> bool: ...
    @property
    def store(self) -> Any: ...
    def _info(self) -> Any: ...
    def _fence(self) -> int: ...
    def _export(self) -> str: ...
    def _session(self, around: Optional[str], /) -> str: ...
    def fileno(self) -> int: ...

class Store:
    @property
    def is_open(self) -> bool: ...
    def _open(self, url: Optional[str], label: Optional[str], wait_ms: int, flags: int, /) -> None: ...
    def _close(self, flags: int, /) -> None: ...
    def _info(self) -> Any: ...
    def _stats(self) -> Any: ...
    def _fd(self) -> int: ...
    def _timeout_ms(self) -> int: ...
    def _process(self) -> None: ...
    def _idle_release(self) -> None: ...

def call(which: int, on: Store | Lease, cancel: Optional[Cancel], /, *args: Any) -> Any: ...
def begin(which: int, on: Store | Lease, callback: Callable[[Any, Optional[BaseException]], Any], /, *args: Any) -> int: ...
def op_cancel(op: int, /) -> None: ...
def engines() -> List[Tuple[Any, ...]]: ...
def status(number: int, /) -> Tuple[str, str]: ...
def bound_ms(bucket: int, /) -> int: ...
def quantile_ms(buckets: Tuple[int, ...], share: float, /) -> int: ...
def register(lease: Type[Lease], errors: Dict[int, Any], base: Type[BaseException], /) -> None: ...
def set_main(thread: int, /) -> None: ...
def stop() -> None: ...
