# SPDX-License-Identifier: MIT
"""Run all tests, or those of the modules that are named: run.py [MODULE...]. The last line is "N passed, N failed".

A ResourceWarning that no test expects is a failure: a lease or a store that a test forgot."""

import faulthandler
import os
import sys
import time
import unittest
import warnings
from typing import Any, List

HERE = os.path.dirname(os.path.abspath(__file__))


class Result(unittest.TextTestResult):
    """Counts what passed, and says what is slow."""

    passed = 0

    def startTest(self, test: unittest.TestCase) -> None:
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self.passed += 1
        took = time.monotonic() - self.began
        if took > 3:
            print(f"{test.id()} took {took:.1f} s", file=sys.stderr)


def main() -> int:
    faulthandler.dump_traceback_later(500, exit=True)
    sys.path.insert(0, HERE)
    names: List[str] = sys.argv[1:] or sorted(name[:-3] for name in os.listdir(HERE) if name.startswith("test_"))
    warnings.simplefilter("error", ResourceWarning)
    unraisable: List[Any] = []
    sys.unraisablehook = lambda one: unraisable.append((type(one.exc_value), str(one.exc_value)))
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    result: Any = unittest.TextTestRunner(resultclass=Result, verbosity=0, warnings=False).run(suite)  # type: ignore[arg-type]
    failed = len(result.failures) + len(result.errors) + len(unraisable)
    for one in unraisable:
        print("forgotten:", *one, file=sys.stderr)
    print(f"{result.passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
