#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""judge_test.py JUDGE: good histories pass, and each kind of bad one is caught."""
import os
import subprocess
import sys
import tempfile


def lease(begin, token, what="mutex", permits=1, end=None):
    end = end or begin + 10
    return (f"{begin} ask 1 {what} {permits}\n{begin + 1} got 1 {token}\n{end - 1} still 1\n{end - 1} letting 1\n{end} let 1 OK\n")


CASES = [  # what, options, files, status
    ("one after the other", [], [lease(10, 1), lease(30, 2)], 0),
    ("two at once", [], [lease(10, 1), lease(15, 2)], 1),
    ("two at once, one was killed before", [], ["10 ask 1 mutex 1\n11 got 1 1\n14 dead\n", lease(15, 2)], 0),
    ("two at once, one was killed after", [], ["10 ask 1 mutex 1\n11 got 1 1\n18 dead\n", lease(15, 2)], 1),
    ("with a ttl only what was asked counts", ["-t"], ["10 ask 1 mutex 1\n11 got 1 1\n30 dead\n", lease(15, 2)], 0),
    ("two at once with a ttl", ["-t"], [lease(10, 1, end=30), lease(15, 2)], 1),
    ("a token that is not larger", [], [lease(10, 2), lease(30, 1)], 1),
    ("a token twice", [], [lease(10, 1), lease(30, 1)], 1),
    ("a semaphore of three", [], [lease(10, 1, "semaphore", 2), lease(12, 2, "semaphore", 1)], 0),
    ("four permits of three", [], [lease(10, 1, "semaphore", 2), lease(12, 2, "semaphore", 2)], 1),
    ("lost without a ttl", [], ["10 ask 1 mutex 1\n11 got 1 1\n12 lost 1\n"], 1),
    ("the counter", ["-c", "2"], ["1 adding 1 1\n2 added 1 1\n", "3 adding 2 2\n4 added 2 2\n"], 0),
    ("a number that was lost", ["-c", "1"], ["1 adding 1 1\n2 added 1 1\n3 adding 2 2\n4 added 2 2\n"], 1),
    ("a number written twice", ["-c", "1"], ["1 adding 1 1\n2 added 1 1\n", "3 adding 1 2\n4 added 1 2\n"], 1),
    ("a number of nobody", ["-c", "2"], ["1 adding 1 1\n2 added 1 1\n"], 1),
    ("a number of a killed one", ["-c", "2"], ["1 adding 1 1\n2 added 1 1\n3 adding 2 2\n4 dead\n"], 0),
    ("an older token wrote later", ["-c", "2"], ["1 adding 1 2\n2 added 1 2\n", "3 adding 2 1\n4 added 2 1\n"], 1),
    ("half a line", [], ["10 ask 1 mutex 1\n11 got 1"], 2),
    ("no such event", [], ["10 hold 1 mutex 1\n"], 2),
    ("no such status", [], ["10 ask 1 mutex 1\n11 not 1 TIRED\n"], 2),
]


def main():
    failed = 0
    for what, options, files, status in CASES:
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(len(files))]
            for path, text in zip(paths, files):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
            found = subprocess.run([sys.argv[1], *options, *paths], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if found.returncode != status:
            failed += 1
            print(f"{what}: {found.returncode} and not {status}\n{found.stdout.decode()}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
