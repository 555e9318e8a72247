# SPDX-License-Identifier: MIT
"""Nothing grows: objects, references, descriptors, memory."""

import asyncio
import gc
import os
import sys
import tracemalloc
import unittest
import warnings
from typing import Any, Callable

import holdfast

from bed import StoreTest


def rss_kb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Leaks(StoreTest):
    def no_growth(self, work: Callable[[], Any], rounds: int) -> None:
        """More rounds need no more: neither Python's memory, nor blocks, nor descriptors. Caches grow for a while, a leak for
        ever: so it is enough that one of several measurements finds nothing."""
        problem = ""
        for _ in range(5):
            problem = self.growth(work, rounds)
            if not problem:
                return
        self.fail(problem)

    def growth(self, work: Callable[[], Any], rounds: int) -> str:
        tracemalloc.start()
        try:
            work()
            gc.collect()
            before = (tracemalloc.get_traced_memory()[0], sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")))
            for _ in range(rounds):
                work()
            gc.collect()
            after = (tracemalloc.get_traced_memory()[0], sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")))
        finally:
            tracemalloc.stop()
        grown = [now - then for now, then in zip(after, before)]
        if grown[0] < rounds * 100 and grown[1] < rounds * 2 // 3 and grown[2] <= 2:
            return ""
        return f"{rounds} rounds: {grown[0]} bytes, {grown[1]} blocks, {grown[2]} descriptors more"

    def test_blocking(self) -> None:
        def on_event(event: Any, text: str) -> None:
            pass

        def work() -> None:
            with self.store.lock("x", on_event=on_event, label="us") as lease:
                lease.info()
                self.assertIsNone(self.store.lock("x").try_acquire())
                self.store.inspect("x")
                self.store.guard("g").claim(lease)
            with self.store.all([self.store.lock("a"), self.store.shared("b")]):
                pass
            self.store.cell("c").set(b"x" * 1000)
            self.store.cell("c").update(lambda old: b"y")
            self.store.cell("c").get()

        references = sys.getrefcount(on_event)
        self.no_growth(work, 100)
        self.assertEqual(sys.getrefcount(on_event), references)

    def test_failures(self) -> None:
        held = self.store.lock("held").acquire()

        def work() -> None:
            for call in (lambda: self.store.lock("held", wait=0.001, scope=1).acquire(), lambda: self.store.lock("").acquire(),
                         lambda: self.store.latch("none").get(), lambda: self.store.cell("c").update(lambda old: b"%d" % (1 // 0)),
                         lambda: self.store.guard("g").set(1, b"")):
                try:
                    call()
                except (holdfast.HoldfastError, ZeroDivisionError):
                    pass

        self.no_growth(work, 100)
        held.release()

    def test_asynchronous(self) -> None:
        async def round() -> None:
            async with self.store.lock("x", on_event=lambda event, text: None):
                task = asyncio.ensure_future(self.store.lock("x").acquire_async())
                await asyncio.sleep(0)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    pass
                await self.store.inspect_async("x")
                await self.store.cell("c").set_async(b"x" * 1000)

        loop = asyncio.new_event_loop()
        loop.set_debug(False)
        self.no_growth(lambda: loop.run_until_complete(round()), 80)
        loop.close()

    def test_loops_come_and_go(self) -> None:
        async def main() -> None:
            async with self.store.lock("x"):
                pass

        self.no_growth(lambda: asyncio.run(main(), debug=False), 60)  # debugging asyncio keeps texts

    def test_forgotten(self) -> None:
        """A forgotten lease keeps its slot in the library; its objects are freed."""
        names = iter(range(10**9))

        def work() -> None:
            self.store.lock(f"forgotten {next(names)}").acquire()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.no_growth(work, 150)

    def test_memory_of_the_process(self) -> None:
        """What the library returned is freed: views, bytes, errors."""
        cell = self.store.cell("c")
        cell.set(b"x" * 60000)
        held = self.store.all([self.store.lock(f"{n} of many", label="l" * 120) for n in range(60)]).acquire()

        def work(count: int) -> None:
            for _ in range(count):
                cell.get()
                with self.store.lock("x"):
                    self.store.inspect()

        work(200)
        before = rss_kb()
        work(1000)
        self.assertLess(rss_kb() - before, 10000, "1000 cells that were not freed are 60 MB, as many views 20 MB")
        self.store.release_all(held)


if __name__ == "__main__":
    unittest.main()
