# SPDX-License-Identifier: MIT
"""CPython's own tests of locks (test/lock_tests.py, in Debian's libpython3.11-testsuite) on the objects of holdfast.threading."""

import itertools
import sys
import unittest
import warnings
from typing import Any, Dict, List

import holdfast
import holdfast.threading

from bed import new_url

try:
    from test import lock_tests
except ImportError:  # pragma: no cover
    lock_tests = None  # type: ignore[assignment]

# Cases that cannot hold between processes, and why. Nothing else is left out.
LEFT_OUT: Dict[str, str] = {
    "LockTests.test_at_fork_reinit":
        "a private hook for CPython's own use after fork(); a child cannot have the lease of its parent, and opens its own store",
    "SemaphoreTests.test_release_unacquired":
        "a permit is a lease: one that nobody has acquired cannot be given back, and the capacity is the same for all processes",
    "SemaphoreTests.test_repr":
        "it releases once more than it has acquired: see test_release_unacquired",
}


class Bed:
    """Each object of CPython's tests is another name in one store."""

    folders: List[str] = []
    names = itertools.count()
    store: holdfast.Store

    @classmethod
    def setUpClass(cls) -> None:
        if lock_tests is None:
            raise unittest.SkipTest("Debian's libpython3.11-testsuite is not installed")
        Bed.store = holdfast.open(new_url(Bed.folders))
        cls.caught = warnings.catch_warnings()
        cls.caught.__enter__()
        warnings.simplefilter("ignore", ResourceWarning)  # they drop locks that are held

    @classmethod
    def tearDownClass(cls) -> None:
        cls.caught.__exit__(None, None, None)
        Bed.store.close(release=True)

    def setUp(self) -> None:
        name = f"{type(self).__name__}.{self._testMethodName}"  # type: ignore[attr-defined]
        if name in LEFT_OUT:
            self.skipTest(LEFT_OUT[name])  # type: ignore[attr-defined]
        # A watching thread of the library is started by the first wait: not a thread that a test has left.
        super().setUp()  # type: ignore[misc]


def fresh() -> str:
    return f"lock {next(Bed.names)}"


if lock_tests is not None:

    class LockTests(Bed, lock_tests.LockTests):
        @staticmethod
        def locktype() -> Any:
            return holdfast.threading.Lock(Bed.store, fresh())

    class RLockTests(Bed, lock_tests.RLockTests):
        @staticmethod
        def locktype() -> Any:
            return holdfast.threading.RLock(Bed.store, fresh())

    class SemaphoreTests(Bed, lock_tests.SemaphoreTests):
        @staticmethod
        def semtype(value: int = 1) -> Any:
            return holdfast.threading.Semaphore(Bed.store, fresh(), value)

    class BoundedSemaphoreTests(Bed, lock_tests.BoundedSemaphoreTests):
        @staticmethod
        def semtype(value: int = 1) -> Any:
            return holdfast.threading.BoundedSemaphore(Bed.store, fresh(), value)

    class BarrierTests(Bed, lock_tests.BarrierTests):
        @staticmethod
        def barriertype(parties: int, action: Any = None, timeout: Any = None) -> Any:
            return holdfast.threading.Barrier(Bed.store, fresh(), parties, action, timeout)


class Table(unittest.TestCase):
    def test_what_is_left_out_exists(self) -> None:
        if lock_tests is None or sys.version_info < (3, 11):
            self.skipTest("lock_tests.py is not installed, or has fewer cases")
        for name in LEFT_OUT:
            suite, _, case = name.partition(".")
            self.assertTrue(hasattr(getattr(lock_tests, suite), case), name)


if __name__ == "__main__":
    unittest.main()
