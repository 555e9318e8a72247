# SPDX-License-Identifier: MIT
"""What programs of redis-py say: the errors name the word that is meant. The whole table is docs/migrate/redis-py.md."""

from typing import Any, Dict, Iterable, Mapping

_OPTIONS: Dict[str, str] = {
    "timeout": "timeout= is ttl= here, and the lease is renewed while it is held; max_hold= ends it; how long to wait is wait=",
    "blocking_timeout": "blocking_timeout= is wait= here: seconds, 0 to try once, None for ever",
    "blocking": "blocking= is not an option here: blocking=False is wait=0, or try_acquire()",
    "sleep": "sleep= is not needed here: a waiter is woken by an event",
    "thread_local": "thread_local= is not needed here: each acquire() returns a lease of its own",
}

_ACQUIRE: Dict[str, str] = {**_OPTIONS, "timeout": "timeout= is wait= here: how long acquire() waits"}

_OF_LOCKS: Dict[str, str] = {
    "release": "it is a way to acquire and holds nothing: acquire() returns the lease, whose release() ends it",
    "extend": "acquire() returns the lease: lease.renew(ttl)",
    "reacquire": "acquire() returns the lease: lease.renew()",
    "locked": "store.inspect(name) lists holders and waiters",
    "owned": "acquire() returns the lease: lease.owned, lease.lost",
}

_OF_LEASES: Dict[str, str] = {"extend": "it is renew(ttl) here", "reacquire": "it is renew() here"}


def unknown(options: Iterable[str], habits: Mapping[str, str] = _OPTIONS) -> TypeError:
    """The error for options that there are not."""
    names = sorted(options)
    known = [habits[name] for name in names if name in habits]
    return TypeError("; ".join(known) if known else f"unknown options: {', '.join(names)}")


def unknown_to_acquire(options: Iterable[str]) -> TypeError:
    """The same for acquire()."""
    return unknown(options, _ACQUIRE)


def no_attribute(of: Any, name: str) -> AttributeError:
    """The error for an attribute of a lock or a lease that there is not."""
    habits = _OF_LEASES if hasattr(type(of), "renew") else _OF_LOCKS
    text = f"'{type(of).__name__}' object has no attribute '{name}'"
    return AttributeError(f"{text}: {habits[name]}" if name in habits else text)
