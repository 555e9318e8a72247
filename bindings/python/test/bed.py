# SPDX-License-Identifier: MIT
"""What all tests share: a store of their own, and waiting for events. HOLDFAST_TEST_URL names a server's store ({id} is replaced);
without it stores are embedded, in temporary folders."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from typing import Any, Callable, List, Optional

import holdfast

LONG = float(os.environ.get("HOLDFAST_TEST_LONG", 60))  # for what surely happens; no test depends on it being short


def is_server() -> bool:
    return "HOLDFAST_TEST_URL" in os.environ


def new_url(folders: List[str]) -> str:
    if is_server():
        return os.environ["HOLDFAST_TEST_URL"].replace("{id}", uuid.uuid4().hex)
    folders.append(tempfile.mkdtemp(prefix="holdfast-python-test-"))
    return "file:" + folders[-1]


def await_that(what: Callable[[], Any], about: str = "it") -> Any:
    """Wait until it is true."""
    end = time.monotonic() + LONG
    while True:
        got = what()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"{about} has not happened")
        time.sleep(0.005)


class StoreTest(unittest.TestCase):
    """A test with a store of its own: self.store at self.url."""

    def setUp(self) -> None:
        self.folders: List[str] = []
        self.url = new_url(self.folders)
        self.store = holdfast.open(self.url)
        self.addCleanup(self.clean)

    def clean(self) -> None:
        self.store.close(release=True)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def open(self) -> holdfast.Store:
        """Another handle of the same store."""
        store = holdfast.open(self.url)
        self.addCleanup(store.close, release=True)
        return store

    def waiters(self, name: str) -> int:
        return sum(len(entry.waiters) for entry in self.store.inspect(name).entries)

    def await_waiters(self, name: str, count: int = 1) -> None:
        """Waiters in the store. One that waits for a lease of its own process is there only with ``strict``."""
        await_that(lambda: self.waiters(name) >= count, f"{count} waiters of {name}")

    def await_free(self, name: str) -> None:
        """Nobody holds it or waits for it any more."""
        await_that(lambda: not self.store.inspect(name).entries, f"the end of {name}")

    def is_free(self, name: str) -> bool:
        lease = self.store.lock(name).try_acquire()
        if lease is not None:
            lease.release()
        return lease is not None

    def thread(self, function: Callable[[], Any]) -> "Thread":
        made = Thread(function)
        made.start()
        return made

    def python(self, code: str, *args: str, **options: Any) -> "subprocess.Popen[str]":
        """Another process of this Python, with the store's URL in sys.argv[1]."""
        process = subprocess.Popen([sys.executable, "-c", code, self.url, *args], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                                   **options)
        self.addCleanup(finish, process)
        return process


def finish(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.communicate()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


class Thread(threading.Thread):
    """A thread whose result or exception join() brings."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.function = function
        self.result: Any = None
        self.error: Optional[BaseException] = None

    def run(self) -> None:
        try:
            self.result = self.function()
        except BaseException as error:
            self.error = error

    def end(self) -> Any:
        self.join(LONG)
        if self.is_alive():
            raise AssertionError("the thread does not end")
        if self.error is not None:
            raise self.error
        return self.result
