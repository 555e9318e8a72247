#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speed.py BUILD SECONDS LANGUAGE=COMMAND ...: uncontended pairs in each language beside the C library, in one run.

COMMAND is the language's bench (README.md); it gets URL and SECONDS. A round measures C and then the language; the ratio of a language is the median
of the rounds. The store is an embedded one in a temporary directory, and that of HOLDFAST_TEST_URL (with_server) if there is one.
"""
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 5


def pairs(language, command, url, seconds):
    try:
        found = subprocess.run(shlex.split(command) + [url, str(seconds)], stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"speed: {language} does not run ({error}). Was it built? make test-bindings LANGUAGES={language}") from None
    words = found.stdout.decode().split()
    if len(words) != 2 or words[0] != "pairs_per_second":
        raise SystemExit(f"speed: {command} printed {words}")
    return float(words[1])


def measure(name, url, seconds, c, commands):
    for language, command in commands.items():
        ratios, rates = [], []
        for _ in range(ROUNDS):
            base = pairs("c", c, url, seconds)
            rate = pairs(language, command, url, seconds)
            ratios.append(rate / base)
            rates.append(rate)
        rate = statistics.median(rates)
        extra = 1e6 / rate - 1e6 / (rate / statistics.median(ratios))
        print(f"{name:10} {language:8} {rate:10.0f} pairs/s  {statistics.median(ratios):5.2f} of C"
              f"  {extra:+7.2f} us for a pair", flush=True)


def main():
    build, seconds = sys.argv[1], float(sys.argv[2])
    cores = len(os.sched_getaffinity(0))
    print(f"on {cores} core{'s' * (cores > 1)}", flush=True)
    commands = dict(word.split("=", 1) for word in sys.argv[3:])
    c = shlex.quote(f"{build}/bin/bindings/together_bench")
    with tempfile.TemporaryDirectory() as folder:
        measure("embedded", f"file:{folder}/store", seconds, c, commands)
    url = os.environ.get("HOLDFAST_TEST_URL")
    if url:
        measure(url.split(":")[0], url.replace("{id}", "speed"), seconds, c, commands)


if __name__ == "__main__":
    main()
