# SPDX-License-Identifier: MIT
"""Errors, durations, and what must not be printed."""

import asyncio
import datetime
import errno
import os
import tempfile
import unittest
from unittest import mock

import holdfast
from holdfast import Status, _holdfast
from holdfast.types import to_ms, wait_to_ms

from bed import StoreTest, line_of


class Habits(StoreTest):
    """What programs of redis-py say: the error has the word that is meant."""

    def test_options(self) -> None:
        for call in (self.store.lock, self.store.shared, self.store.exclusive, self.store.upgradeable, self.store.locked):
            for option, word in (("timeout", "ttl="), ("blocking_timeout", "wait="), ("blocking", "wait=0"), ("sleep", "event")):
                with self.assertRaisesRegex(TypeError, f"{option}= .*{word}"):
                    call("x", **{option: 1})
        with self.assertRaisesRegex(TypeError, "timeout= .*ttl="):
            self.store.semaphore("x", 3, timeout=1)  # type: ignore[call-arg, arg-type]
        with self.assertRaisesRegex(TypeError, "unknown options: nonsense"):
            self.store.lock("x", nonsense=1)  # type: ignore[call-arg, arg-type]
        lock = self.store.lock("x")
        for arguments in ({"blocking": False}, {"blocking_timeout": 1}, {"timeout": 1}):
            with self.assertRaisesRegex(TypeError, "wait="):
                lock.acquire(**arguments)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "wait="):
            self.store.all([lock]).acquire(blocking=False)  # type: ignore[arg-type]
        self.assertTrue(self.is_free("x"))

    def test_methods(self) -> None:
        lock = self.store.lock("x")
        for method, word in (("release", "lease"), ("extend", "renew"), ("locked", "inspect"), ("owned", "lease")):
            with self.assertRaisesRegex(AttributeError, f"{method}.*{word}"):
                getattr(lock, method)
        with self.assertRaisesRegex(AttributeError, "nonsense"):
            getattr(lock, "nonsense")
        with lock as lease:
            with self.assertRaisesRegex(AttributeError, "extend.*renew"):
                getattr(lease, "extend")
        self.assertFalse(hasattr(lock, "release"))


class Errors(StoreTest):
    def test_statuses_are_those_of_the_library(self) -> None:
        for status in Status:
            self.assertEqual(_holdfast.status(status)[0], status.name)
        self.assertNotIn(_holdfast.status(len(Status))[0], Status.__members__)

    def test_bad_url(self) -> None:
        for url in ("nonsense", "gopher://host", "redis://host:port", "file:/x?nonsense=1"):
            with self.assertRaises(holdfast.Config) as raised:
                holdfast.open(url)
            self.assertIsInstance(raised.exception, ValueError)
            self.assertEqual(raised.exception.status, Status.CONFIG)
            self.assertIn("CONFIG", str(raised.exception))
        with self.assertRaises(ValueError):
            holdfast.open("file:/a\0b")

    def test_which_store(self) -> None:
        """Without a URL it is the store of HOLDFAST_STORE or of the configuration, and "" is a mistake."""
        with tempfile.TemporaryDirectory() as directory:
            config = os.path.join(directory, "config")
            with open(config, "w", encoding="utf-8") as file:
                file.write(f"default = a\n[profile a]\nurl = file:{directory}/a\n")
            for variable, url, location, source in (
                    (f"file:{directory}/env", None, f"file:{directory}/env", "HOLDFAST_STORE"),
                    (None, None, f"file:{directory}/a", f"profile a in {config}"),
                    (f"file:{directory}/env", "a", f"file:{directory}/a", f"profile a in {config}"),
                    (None, f"file:{directory}/given", f"file:{directory}/given", "the caller")):
                environment = {"HOLDFAST_CONFIG": config, **({"HOLDFAST_STORE": variable} if variable else {})}
                with mock.patch.dict(os.environ, environment):
                    if not variable:
                        os.environ.pop("HOLDFAST_STORE", None)
                    with holdfast.open(url) as store:
                        self.assertEqual((store.info().location, store.info().source), (location, source))
            with self.assertRaises(holdfast.Config) as raised:
                holdfast.open("")
            self.assertIn("is empty", str(raised.exception))

    def test_unavailable(self) -> None:
        with self.assertRaises(holdfast.Unavailable) as raised:
            holdfast.open("redis://127.0.0.1:1", once=True, wait=5)
        self.assertIsInstance(raised.exception, ConnectionError)
        with self.assertRaises(holdfast.HoldfastError) as other:
            holdfast.open("file:/dev/null/store")
        self.assertEqual(other.exception.native, errno.ENOTDIR)
        with self.assertRaises(holdfast.NotFound):
            holdfast.open("file:/tmp/holdfast-python-none", existing=True)

    def test_secrets(self) -> None:
        secret = "swordfish"
        with self.assertRaises(holdfast.HoldfastError) as raised:
            holdfast.open(f"redis://user:{secret}@127.0.0.1:1", once=True)
        self.assertNotIn(secret, str(raised.exception) + repr(raised.exception))
        with holdfast.open(f"redis://user:{secret}@127.0.0.1:1", no_wait=True) as store:
            self.assertNotIn(secret, repr(store) + repr(store.info()))
            with self.assertRaises(holdfast.HoldfastError) as raised:
                store.lock("x", wait=0.01).acquire()
            self.assertNotIn(secret, str(raised.exception) + repr(raised.exception))

    def test_bad_names(self) -> None:
        for name in ("", "x" * 513, b""):
            for call in (self.store.lock(name).acquire, self.store.cell(name).get, self.store.counter(name).add):
                with self.assertRaises(holdfast.Invalid):
                    call()
        with self.assertRaises(TypeError):
            self.store.lock(7)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.store.cell("x").set("text")  # type: ignore[arg-type]
        with self.assertRaises(UnicodeEncodeError):
            self.store.lock("\udc80").acquire()

    def test_labels_of_strangers(self) -> None:
        """Any bytes: a program in C has this label."""
        code = """if True:
            import ctypes, glob, os, sys, holdfast
            c = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(holdfast.__file__), "lib", "libholdfast.so.*"))[0])
            options = (ctypes.c_uint64 * 9)(72, 0, ctypes.cast(ctypes.c_char_p(b"a\\xff\\xfeb"), ctypes.c_void_p).value)
            store, lease = ctypes.c_void_p(), ctypes.c_void_p()
            error = ctypes.create_string_buffer(1024)
            assert c.hf_open(sys.argv[1].encode(), options, ctypes.byref(store), error) == 0, error.raw
            class Request(ctypes.Structure):
                _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("name_len", ctypes.c_size_t),
                            ("rest", ctypes.c_uint64 * 32)]
            request = Request(176, b"x", 1)
            assert c.hf_acquire(store, ctypes.byref(request), ctypes.byref(lease), error) == 0, error.raw
            print("held", flush=True)
            sys.stdin.readline()
        """
        process = self.python(code)
        self.assertEqual(line_of(process) or process.communicate()[1], "held")
        self.assertEqual(self.store.inspect("x").entries[0].holders[0].label, "a\ufffd\ufffdb")

    def test_durations(self) -> None:
        for value, ms in ((0, 0), (1, 1000), (0.0001, 1), (1e-12, 1), (0.007, 7), (0.0070001, 8), (1.5, 1500),
                          (datetime.timedelta(microseconds=1), 1), (datetime.timedelta(seconds=2), 2000)):
            self.assertEqual(to_ms(value), ms, value)
        self.assertEqual(wait_to_ms(None), -1)
        for bad in (-1, -0.001, float("nan"), float("inf"), float("-inf"), 1e300, 10**400):
            with self.assertRaises(ValueError):
                to_ms(bad)
        for wrong in (True, False, "5", b"5", [1]):  # wait=True is somebody's idea of blocking=True, and not one second
            with self.assertRaisesRegex(TypeError, "a duration is a number of seconds or a timedelta"):
                to_ms(wrong)  # type: ignore[arg-type]
        with self.assertRaises(holdfast.Invalid):
            self.store.lock("x", wait=3600 * 24 * 36500).acquire()

    def test_numbers_that_do_not_fit(self) -> None:
        """A size of 2**32 + 2 is not one of 2, and a token of 2**64 + 1 is not 1."""
        for bad in (-1, 2**32 + 2, 2**64 + 2):
            for call in (lambda: self.store.semaphore("s", bad), lambda: self.store.semaphore("s", 5, bad),
                         lambda: self.store.resize("s", bad), lambda: self.store.latch("l").create(bad),
                         lambda: self.store.barrier("b", bad).wait(0), lambda: self.store.limit("r", bad).take(wait=0)):
                with self.assertRaises(holdfast.Invalid):
                    call()
        self.store.cell("c").set(b"1")
        for bad in (-1, 2**64 + 1):
            for call in (lambda: self.store.cell("c").swap(bad, b"2"), lambda: self.store.guard("g").claim(bad),
                         lambda: self.store.break_lease("x", bad), lambda: self.store.lock("x", scope=bad)):
                with self.assertRaises(holdfast.Invalid):
                    call()
        with self.assertRaises(TypeError):
            self.store.semaphore("s", 1.5)  # type: ignore[arg-type]
        with self.assertRaises(TypeError):
            self.store.lock("x", on_event=5)  # type: ignore[arg-type]

    def test_bad_arguments_of_the_extension(self) -> None:
        for args in ((), (0, self.store, None), (9999, self.store, None), (0, 1, None), (0, self.store, None, (1,), 0, 0),
                     (0, self.store, 1, (), 0, 0)):
            with self.assertRaises((TypeError, holdfast.Invalid)):
                _holdfast.call(*args)  # type: ignore[arg-type]

    def test_async_errors(self) -> None:
        async def main() -> None:
            with self.assertRaises(holdfast.Invalid):
                await self.store.lock("").acquire_async()
            with self.assertRaises(holdfast.NotFound):
                await self.store.latch("none").get_async()
            lease = await self.store.lock("x").acquire_async()
            await lease.release_async()
            with self.assertRaises(holdfast.Invalid):
                await lease.release_async()

        asyncio.run(main())

    def test_version_and_engines(self) -> None:
        self.assertEqual(holdfast.version(), holdfast.__version__)
        engines = {engine.name: engine for engine in holdfast.engines()}
        self.assertTrue(engines["lmdb"].available)
        self.assertIn("redis", engines["redis"].schemes)
        for engine in engines.values():
            self.assertTrue(engine.available or engine.why_not)

    def test_without_a_loop(self) -> None:
        coroutine = self.store.lock("x").acquire_async()
        with self.assertRaises(RuntimeError):
            coroutine.send(None)


if __name__ == "__main__":
    unittest.main()
