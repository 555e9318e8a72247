#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An uncontended pair of acquire and release in a loop: bench.py URL SECONDS"""

import sys
import time

import holdfast


def pairs(lock: holdfast.Lock, seconds: float) -> float:
    """Pairs in a second."""
    count, begin = 0, time.monotonic()
    while True:
        for _ in range(50):
            lock.acquire().release()
        count += 50
        passed = time.monotonic() - begin
        if passed >= seconds:
            return count / passed


def main() -> None:
    url, seconds = sys.argv[1:]
    with holdfast.open(url) as store:
        lock = store.lock("bench")
        pairs(lock, min(0.3, float(seconds)))
        print(f"pairs_per_second {pairs(lock, float(seconds)):.0f}")


if __name__ == "__main__":
    main()
