# SPDX-License-Identifier: MIT
"""Plain values: kinds, events, and what calls report. Durations in them are seconds."""

import math
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, IntFlag
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import _holdfast

Name = Union[str, bytes]
"""A name of a lock, cell, ...: text is encoded as UTF-8."""

Duration = Union[int, float, timedelta]
"""Seconds, or a timedelta. It is rounded up to whole milliseconds."""

Wait = Optional[Duration]
"""How long to wait: None for ever, 0 not at all (try once)."""

FOREVER_MS = -1
MAX_MS = 1000 * 3600 * 24 * 3650
NO_LIMIT_MS = 2**63 - 1


def to_ms(value: Duration) -> int:
    """A duration in milliseconds, rounded up: one that is not zero never becomes zero."""
    if isinstance(value, bool) or not (isinstance(value, timedelta) or hasattr(value, "__float__")):
        raise TypeError(f"a duration is a number of seconds or a timedelta, not {value!r}")
    try:
        seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except OverflowError:  # an int of hundreds of digits
        seconds = math.inf
    if math.isnan(seconds):
        raise ValueError("a duration must be a number")
    if seconds < 0:
        raise ValueError(f"a duration must not be negative: {value!r}")
    if seconds * 1000 >= NO_LIMIT_MS:
        raise ValueError("a duration must be finite; None waits for ever")
    # 0.007 * 1000 is 7.000000000000001: what is a millionth of a millisecond too much is no reason to round up.
    ms = math.ceil(seconds * 1000 - 1e-6)
    return max(ms, 1) if seconds > 0 else 0


def wait_to_ms(value: Wait) -> int:
    """A wait in milliseconds; None: for ever."""
    return FOREVER_MS if value is None else to_ms(value)


def or_zero(value: Optional[Duration]) -> int:
    """An optional duration in milliseconds; None: 0, the default of the library."""
    return 0 if value is None else to_ms(value)


def to_seconds(ms: int) -> float:
    """Milliseconds of the library as seconds; no limit: infinity."""
    return math.inf if ms == NO_LIMIT_MS else ms / 1000


def _left(ms: int) -> Optional[float]:
    return None if ms < 0 else ms / 1000


class Kind(IntEnum):
    """What is acquired."""

    MUTEX = 0
    SHARED = 1
    EXCLUSIVE = 2
    SEMAPHORE = 3
    UPGRADEABLE = 4


class Event(IntEnum):
    """What has happened to a lease: the first argument of ``on_event``."""

    AT_RISK = 1
    HELD = 2
    LOST = 3
    WANTED = 4
    UNWANTED = 5
    ASKED = 6


class State(IntEnum):
    """What a lease is by our own clock."""

    HELD = 1
    AT_RISK = 2
    LOST = 3


class TokenStrength(IntEnum):
    """What the fencing tokens of a store are worth."""

    NONE = 0
    WHILE_DURABLE = 1
    STRICT = 2


class Algorithm(IntEnum):
    """How a rate limit counts."""

    FIXED = 0
    SLIDING = 1
    BUCKET = 2


class Level(IntEnum):
    """How bad a finding is."""

    OK = 0
    WARNING = 1
    BAD = 2


class Cap(IntFlag):
    """What an engine can do."""

    SHARED = 1 << 0
    SEMAPHORE = 1 << 1
    WAIT = 1 << 2
    FIFO = 1 << 3
    TTL = 1 << 4
    PROCESS = 1 << 5
    DETACHED = 1 << 6
    TOKEN = 1 << 7
    PASS = 1 << 8
    BARGE = 1 << 9
    LOCK_DELAY = 1 << 10
    INSPECT = 1 << 11
    WAITERS = 1 << 12
    BREAK = 1 << 13
    WATCH = 1 << 14
    CELLS = 1 << 15
    CELL_TTL = 1 << 16
    CELL_WATCH = 1 << 17
    CLOCK = 1 << 18
    SCRIPTS = 1 << 19
    WANTED = 1 << 20
    LINGER = 1 << 21
    COMMIT = 1 << 22
    CONVERT = 1 << 23
    NUMBERED = 1 << 24
    RESIZE = 1 << 25


class Lack(NamedTuple):
    """What an engine cannot do, and why."""

    caps: Cap
    why: str


def _lacks(raw: List[Tuple[int, str]]) -> Tuple[Lack, ...]:
    return tuple(Lack(Cap(caps), why) for caps, why in raw)


class StoreInfo(NamedTuple):
    """What a store is. ``location`` is its URL without secrets. ``ttl`` of None: leases have none unless asked for.

    ``source`` says what chose it: "the caller", "HOLDFAST_STORE", "profile NAME in FILE" or "the built-in default"."""

    engine: str
    location: str
    caps: Cap
    tokens: TokenStrength
    ttl: Optional[float]
    min_ttl: float
    max_ttl: Optional[float]
    lacks: Tuple[Lack, ...]
    source: str

    @classmethod
    def of(cls, raw: Any) -> "StoreInfo":
        engine, location, caps, tokens, ttl, min_ttl, max_ttl, lacks, source = raw
        return cls(engine, location, Cap(caps), TokenStrength(tokens), ttl / 1000 or None, min_ttl / 1000,
                   max_ttl / 1000 or None, _lacks(lacks), source)


@dataclass(frozen=True)
class Histogram:
    """Durations, counted by their length. ``sum`` is in seconds. Bucket 0 counts those below a millisecond, bucket i those of at
    least 2**(i-1) and less than 2**i milliseconds, and the last one all longer ones."""

    count: int
    sum: float
    buckets: Tuple[int, ...]

    @classmethod
    def of(cls, raw: Any) -> "Histogram":
        count, sum_ms, buckets = raw
        return cls(count, sum_ms / 1000, buckets)

    @staticmethod
    def bound(bucket: int) -> float:
        """The upper bound of a bucket in seconds; infinity for the last one."""
        return to_seconds(_holdfast.bound_ms(bucket))

    def quantile(self, share: float) -> float:
        """The bound, in seconds, below which this share of the durations lies (0.5: the median). 0: there are none."""
        return to_seconds(_holdfast.quantile_ms(self.buckets, share))


class StoreStats(NamedTuple):
    """What this process has done with a store since it was opened; docs/observe.md says what each number means. Every number but
    ``held`` only grows. ``losses`` has the number for each reason: ``losses["expired"]``."""

    granted: int
    busy: int
    timeouts: int
    cancelled: int
    deadlocks: int
    unknown: int
    failed: int
    reentries: int
    handovers: int
    passes: int
    lingered: int
    waits: Histogram
    held: int
    holds: Histogram
    renewals: int
    renewals_failed: int
    losses: Dict[str, int]
    releases_unknown: int
    reconnects: int
    commands: int

    @classmethod
    def of(cls, raw: Any) -> "StoreStats":
        made = cls._make(raw)
        return made._replace(waits=Histogram.of(made.waits), holds=Histogram.of(made.holds))


class EngineInfo(NamedTuple):
    """One set of promises of an engine. ``choice`` is what a URL says to have it (``wire=plain``; empty: nothing)."""

    name: str
    schemes: Tuple[str, ...]
    available: bool
    caps: Cap
    tokens: TokenStrength
    on_crash: str
    on_pause: str
    on_clock_jump: str
    on_server_loss: str
    on_partition: str
    fairness: str
    wakeup: str
    why_not: str
    choice: str
    lacks: Tuple[Lack, ...]

    @classmethod
    def of(cls, raw: Any) -> "EngineInfo":
        name, schemes, available, caps, tokens, *words, lacks = raw
        fields = (name, tuple(schemes.split()), available, Cap(caps), TokenStrength(tokens), *words, _lacks(lacks))
        return cls._make(fields)


class LeaseInfo(NamedTuple):
    """A lease at one moment. ``remaining`` is infinite without a ttl. ``slots`` are the numbers of numbered permits."""

    token: int
    state: State
    holds: int
    remaining: float
    age: float
    ttl: Optional[float]
    name: bytes
    wanted: bool
    asks: int
    kind: Kind
    slots: Tuple[int, ...]

    @classmethod
    def of(cls, raw: Any) -> "LeaseInfo":
        token, state, holds, remaining, age, ttl, name, wanted, asks, kind, slots = raw
        return cls(token, State(state), holds, to_seconds(remaining), age / 1000, ttl / 1000 or None, name, wanted, asks,
                   Kind(kind), slots)


class Holder(NamedTuple):
    """A lease as inspection sees it."""

    token: int
    first: int
    permits: int
    detached: bool
    age: float
    ttl: Optional[float]
    pid: int
    tid: int
    label: str
    session: int
    lingers: bool
    idle: bool
    watched: bool
    slots: Tuple[int, ...]

    @classmethod
    def of(cls, raw: Any) -> "Holder":
        token, first, permits, detached, age, ttl, *rest = raw
        return cls(token, first, permits, detached, age / 1000, _left(ttl), *rest)


class Waiter(NamedTuple):
    """A request in a queue; position 1 is next."""

    position: int
    permits: int
    kind: Kind
    age: float
    pid: int
    label: str
    session: int

    @classmethod
    def of(cls, raw: Any) -> "Waiter":
        position, permits, kind, age, *rest = raw
        return cls(position, permits, Kind(kind), age / 1000, *rest)


class Entry(NamedTuple):
    """A name that is held or waited for."""

    name: bytes
    kind: Kind
    capacity: int
    taken: int
    closed: float
    resized: bool
    holders: Tuple[Holder, ...]
    waiters: Tuple[Waiter, ...]

    @classmethod
    def of(cls, raw: Any) -> "Entry":
        name, kind, capacity, taken, closed, resized, holders, waiters = raw
        return cls(name, Kind(kind), capacity, taken, closed / 1000, resized, tuple(map(Holder.of, holders)),
                   tuple(map(Waiter.of, waiters)))


class View(NamedTuple):
    """What inspection found. ``waiters_tracked`` is False where the engine cannot list waiters."""

    waiters_tracked: bool
    entries: Tuple[Entry, ...]

    @classmethod
    def of(cls, raw: Any) -> "View":
        tracked, entries = raw
        return cls(tracked, tuple(map(Entry.of, entries)))


class _Finding(NamedTuple):
    level: Level
    topic: str
    text: str


class Finding(_Finding):
    """One finding of ``check()``: three fields; and ``note``, a fact to know that is no fault, with the level ``OK``."""

    note: bool

    def __new__(cls, level: Level, topic: str, text: str, note: bool = False) -> "Finding":
        self = super().__new__(cls, level, topic, text)
        self.note = note
        return self


class DeadlockWaiter(NamedTuple):
    """A waiter of a cycle: it waits for ``name``, which the next one has."""

    name: bytes
    token: int
    session: int
    age: float
    pid: int
    label: str

    @classmethod
    def of(cls, raw: Any) -> "DeadlockWaiter":
        name, token, session, age, *rest = raw
        return cls(name, token, session, age / 1000, *rest)


class CellValue(NamedTuple):
    """A cell: its bytes and their version. ``ttl`` is what is left; None: it has none."""

    bytes: bytes
    version: int
    ttl: Optional[float]

    @classmethod
    def of(cls, raw: Any) -> "CellValue":
        value, version, ttl = raw
        return cls(value, version, _left(ttl))


class LimitResult(NamedTuple):
    """A rate limit after a call. ``retry`` is the wait that would have been enough for a refused one."""

    granted: bool
    left: int
    refill: float
    waited: float
    retry: float
    at: float
    rate: int
    per: float
    burst: int
    algorithm: Algorithm
    is_set: bool

    @classmethod
    def of(cls, raw: Any) -> "LimitResult":
        status, left, refill, waited, retry, at_us, rate, per, burst, algorithm, is_set = raw
        return cls(status == 0, left, refill / 1000, waited / 1000, retry / 1000, at_us / 1e6, rate, per / 1000, burst,
                   Algorithm(algorithm), is_set)


class LatchInfo(NamedTuple):
    """A latch: for how many it was made, and how many are missing."""

    parties: int
    left: int


class Leader:
    """What an observer of an election has seen. ``value`` is None while nobody leads."""

    token: int
    value: Optional[bytes]
    label: str
    version: int

    def __init__(self, raw: Any) -> None:
        self._seen, self.token, self.value, self.label, self.version = raw

    def __repr__(self) -> str:
        return f"Leader(token={self.token}, value={self.value!r}, label={self.label!r}, version={self.version})"


class Member(NamedTuple):
    """A member of a group."""

    token: int
    value: str
    age: float
    ttl: Optional[float]
    pid: int

    @classmethod
    def of(cls, raw: Any) -> "Member":
        token, value, age, ttl, pid = raw
        return cls(token, value, age / 1000, _left(ttl), pid)


class MemberList(Tuple[Member, ...]):
    """The members of a group at one moment, the oldest first; ``Members.wait()`` takes it as what was seen last."""

    _seen: Any

    @classmethod
    def of(cls, raw: Any) -> "MemberList":
        seen, members = raw
        made = cls(map(Member.of, members))
        made._seen = seen
        return made


class Mark(NamedTuple):
    """Who did a piece of work that is done once. ``at`` is in seconds since 1970; ``ttl`` of None: it stays for ever."""

    token: int
    at: float
    ttl: Optional[float]
    label: str

    @classmethod
    def of(cls, raw: Any) -> "Mark":
        token, at, ttl, label = raw
        return cls(token, at / 1000, _left(ttl), label)
