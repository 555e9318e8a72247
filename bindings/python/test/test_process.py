# SPDX-License-Identifier: MIT
"""fork, multiprocessing, forgotten leases, the end of the interpreter."""

import asyncio
import gc
import multiprocessing
import os
import pickle
import sys
import threading
import traceback
import unittest
import warnings
from typing import Any, List

import holdfast
from holdfast import Status

from bed import LONG, StoreTest, await_that, line_of


def count_up(url: str, times: int) -> None:
    """The work of a child of multiprocessing."""
    with holdfast.open(url) as store:
        for _ in range(times):
            with store.lock("x"):
                now = store.cell("n").get()
                store.cell("n").set(b"%d" % (int(now.bytes if now else b"0") + 1))


class Processes(StoreTest):
    def in_child(self, work: Any) -> int:
        """Run it in a forked child; its status."""
        pid = os.fork()
        if pid == 0:
            status = 99
            try:
                status = work()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_fork(self) -> None:
        lease = self.store.lock("x").acquire()

        def work() -> int:
            forked = 0
            for call in (lambda: self.store.lock("y").acquire(), lease.release, lease.info, self.store.info,
                         lambda: self.store.close(), lambda: self.store.cell("c").get(),
                         lambda: asyncio.run(self.store.lock("y").acquire_async())):
                try:
                    call()
                except holdfast.Forked as error:
                    forked += error.status == Status.FORKED
            with holdfast.open(self.url) as store:  # its own
                forked += store.lock("x").try_acquire() is None
                with store.lock("z"):
                    forked += 1
            return forked

        self.assertEqual(self.in_child(work), 9)
        self.assertTrue(lease.owned)
        lease.release()

    def test_shown_in_a_child(self) -> None:
        """A log line or a traceback of a child may show its parent's objects."""
        lease = self.store.lock("x").acquire()

        def work() -> int:
            return ("parent" in repr(self.store)) + ("holdfast.Lease" in repr(lease))

        self.assertEqual(self.in_child(work), 2)
        lease.release()

    def test_garbage_collection_in_a_child(self) -> None:
        """A child neither releases what is its parent's nor reports it."""
        leases = [self.store.lock("x", on_event=lambda event, text: None).acquire()]

        def work() -> int:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                leases.clear()
                self.store = None  # type: ignore[assignment]
                self._cleanups.clear()  # type: ignore[attr-defined]
                gc.collect()
                return len(caught)

        self.assertEqual(self.in_child(work), 0)
        self.assertFalse(self.open().lock("x").try_acquire())
        leases[0].release()

    def test_multiprocessing(self) -> None:
        for method in ("fork", "spawn"):
            context = multiprocessing.get_context(method)
            children = [context.Process(target=count_up, args=(self.url, 15)) for _ in range(2)]
            for child in children:
                child.start()
            for child in children:
                child.join(LONG)
                self.assertEqual(child.exitcode, 0, method)
        value = self.store.cell("n").get()
        self.assertEqual(value and value.bytes, b"60")

    def test_no_pickle(self) -> None:
        with self.assertRaises(TypeError):
            pickle.dumps(self.store)

    def test_forgotten(self) -> None:
        lease = self.store.lock("job").acquire()
        with self.assertWarnsRegex(ResourceWarning, "the lease of 'job' was forgotten"):
            del lease
            gc.collect()
        self.assertFalse(self.is_free("job"), "it must stay held")

    def test_forgotten_by_tasks_and_groups(self) -> None:
        async def main() -> None:
            await self.store.lock("one").acquire_async()

        self.store.latch("l").create(1)
        for forget in (lambda: asyncio.run(main()), lambda: self.store.all([self.store.lock("two")]).acquire(),
                       lambda: self.store.any([self.store.lock("three")]).acquire(), lambda: self.store.latch("l").join("w")):
            with self.assertWarns(ResourceWarning):
                forget()
                gc.collect()
        for name in ("one", "two", "three"):
            self.assertFalse(self.is_free(name), name)

    def test_forgotten_callback_is_still_told(self) -> None:
        told: List[Any] = []
        lease = self.store.lock("x", on_event=lambda event, text: told.append(event)).acquire()
        token = lease.token
        with self.assertWarns(ResourceWarning):
            del lease
            gc.collect()
        self.store.break_lease("x", token)
        await_that(lambda: told == [holdfast.Event.LOST])

    def test_released_and_exported_are_not_reported(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.store.lock("x").acquire().release()
            lease = self.store.lock("d", detached=True, ttl=60).acquire()
            text = lease.export()
            del lease
            gc.collect()
        self.store.adopt("d", text).release()

    def test_store_that_is_not_closed(self) -> None:
        store = holdfast.open(self.url)
        with self.assertWarnsRegex(ResourceWarning, "not closed"):
            del store
            gc.collect()

    def test_forgotten_in_a_cycle(self) -> None:
        """A store that has its own lease: the collector finds both, and both are reported."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            store: Any = holdfast.open(self.url)
            store.mine = store.lock("cycle").acquire()
            del store
            gc.collect()
        texts = sorted(str(one.message) for one in caught)
        self.assertEqual(len(texts), 2, texts)
        self.assertIn("a store was not closed", texts[0])
        self.assertIn("the lease of 'cycle' was forgotten", texts[1])

    def test_closed_by_several_threads(self) -> None:
        """All of them find it closed."""
        errors: List[BaseException] = []

        def close(store: holdfast.Store) -> None:
            try:
                store.close(release=True)
            except BaseException as error:
                errors.append(error)

        for _ in range(50):
            store = holdfast.open(self.url)
            threads = [threading.Thread(target=close, args=(store,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertFalse(store.is_open)
        self.assertEqual(errors, [])

    def test_no_subinterpreter(self) -> None:
        """Callbacks come to the main interpreter: another one is refused, and this one goes on."""
        try:
            import _xxsubinterpreters as interpreters  # its name before Python 3.13
        except ImportError:
            self.skipTest("this Python has no _xxsubinterpreters")
        one = interpreters.create()
        try:
            with self.assertRaisesRegex(Exception, "ImportError.*only in the main interpreter"):
                interpreters.run_string(one, f"import sys; sys.path[:] = {sys.path!r}; import holdfast")
        finally:
            interpreters.destroy(one)
        with self.store.lock("x") as lease:
            self.assertIsInstance(lease, holdfast.Lease)

    def test_close_in_use(self) -> None:
        store = self.open()
        lease = store.lock("x").acquire()
        with self.assertRaises(holdfast.InUse):
            store.close()
        store.close(release=True)
        self.assertTrue(lease.lost)
        with self.assertRaises(holdfast.HoldfastError):
            lease.release()
        self.assertTrue(self.is_free("x"))
        store.close()
        self.assertEqual(repr(store), "<holdfast.Store: closed>")
        with self.assertRaises(holdfast.Invalid):
            store.lock("x").acquire()

    def test_end_of_the_interpreter(self) -> None:
        """With a lease that has a callback, events that come, a waiting thread and a pending task."""
        code = """if True:
            import asyncio, sys, threading, holdfast
            store = holdfast.open(sys.argv[1])
            lease = store.lock("x", watch=True, on_event=lambda event, text: None).acquire()
            threading.Thread(target=lambda: store.lock("x", strict=True).acquire(), daemon=True).start()
            loop = asyncio.new_event_loop()
            task = loop.create_task(store.lock("x").acquire_async())
            loop.run_until_complete(asyncio.sleep(0.01))
            print("ready", flush=True)
            sys.stdin.readline()
        """
        process = self.python(code)
        self.assertEqual(line_of(process), "ready")
        for _ in range(3):
            try:
                self.store.ask("x")
            except holdfast.HoldfastError:
                pass
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.communicate(timeout=LONG)
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
