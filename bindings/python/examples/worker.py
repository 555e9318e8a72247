#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The worker of the test in which all languages share locks: worker.py URL SEED SECONDS. One line for each event."""

import asyncio
import os
import random
import sys
import time
from typing import Optional

import holdfast
from holdfast import HoldfastError, Lease, Status


class Worker:
    def __init__(self, store: holdfast.Store, seed: int, seconds: float) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.end = time.monotonic() + seconds
        self.number = 0
        self.ttl: Optional[float] = None if store.info().caps & holdfast.Cap.PROCESS else 1.0
        self.loop = asyncio.new_event_loop()

    def say(self, *words: object, at: int = 0) -> None:
        """One write, so that a SIGKILL never leaves half a line."""
        os.write(1, " ".join(map(str, (at or time.monotonic_ns(), *words))).encode() + b"\n")

    def still(self, lease: Lease, *words: object) -> bool:
        """The time first, then the question."""
        now = time.monotonic_ns()
        if lease.remaining > 0:
            self.say(*words, at=now)
            return True
        self.say("lost", self.number)
        return False

    def wait(self) -> float:
        chance = self.random.randrange(5)
        return 0 if chance == 0 else self.random.randint(1, 50) / 1000 if chance == 1 else 2.0

    def acquire(self, lock: holdfast.Lock) -> Optional[Lease]:
        try:
            if self.random.randrange(3) == 0:
                return self.loop.run_until_complete(lock.acquire_async())
            return lock.acquire()
        except HoldfastError as error:
            self.say("not", self.number, error.status.name)
            return None

    def release(self, lease: Lease, valid: bool) -> None:
        if valid and (self.ttl is None or self.still(lease, "still", self.number)):
            self.say("letting", self.number)
        try:
            lease.release()
            self.say("let", self.number, Status.OK.name)
        except HoldfastError as error:
            self.say("let", self.number, error.status.name)

    def add(self, lease: Lease) -> None:
        """The guarded counter: what was claimed, and one more."""
        token = lease.token
        guard = self.store.guard("shared-counter")
        try:
            value = int(guard.claim(token) or b"0") + 1
        except HoldfastError:
            return
        self.say("adding", value, token)
        try:
            guard.set(token, b"%d" % value)
            self.say("added", value, token)
        except holdfast.Fenced:
            self.say("fenced", value, token)
        except HoldfastError:
            self.say("unsure", value, token)

    def step(self) -> None:
        what = self.random.choice(("mutex", "semaphore", "counter"))
        permits = self.random.randint(1, 2) if what == "semaphore" else 1
        wait = self.wait()
        self.number += 1
        if what == "semaphore":
            lock = self.store.semaphore("shared-semaphore", 3, permits, wait=wait, ttl=self.ttl)
        else:
            lock = self.store.lock("shared-mutex" if what == "mutex" else "shared-counter-lock", wait=wait, ttl=self.ttl)
        self.say("ask", self.number, what, permits)
        lease = self.acquire(lock)
        if lease is None:
            return
        valid = self.still(lease, "got", self.number, lease.token)
        if valid:
            if what == "counter":
                self.add(lease)
            time.sleep(self.random.uniform(0, 0.003))
        self.release(lease, valid)

    def run(self) -> None:
        while time.monotonic() < self.end:
            self.step()
        self.loop.close()


def main() -> None:
    url, seed, seconds = sys.argv[1:]
    with holdfast.open(url) as store:
        Worker(store, int(seed), float(seconds)).run()


if __name__ == "__main__":
    main()
