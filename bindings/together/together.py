#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""together.py BUILD SECONDS LANGUAGE=COMMAND ...: workers of several languages share one lock, one semaphore and one guarded counter.

COMMAND is the language's worker (README.md); it gets URL, SEED and SECONDS. Two of each language run at once. Every now and then one of
them is killed, wherever it is, and another one takes its place. What they print is judged by BUILD/bin/bindings/together_judge. The store is
that of HOLDFAST_TEST_URL (with_server), else an embedded one in a temporary directory. The last line is "N passed, N failed", a test for each language
and one for the history.
"""
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

EACH = 2          # workers of a language at a time
FILES_MAX = 60    # the judge has 64 lanes
ENOUGH = 20       # leases of each language
ROUNDS = 6        # a language that starts slowly gets more time
KILL_EVERY = 0.4  # seconds


class Worker:
    def __init__(self, language, command, url, seconds, path, seed):
        self.language = language
        self.path = path
        self.killed = False
        self.out = open(path, "wb")
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(shlex.split(command) + [url, str(seed), f"{seconds:.1f}"], stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=self.errors)

    def has_begun(self):
        return os.path.getsize(self.path) > 0

    def kill(self):
        """It was alive at a moment before the signal; what it held then is held by nobody after it."""
        alive = time.monotonic_ns()
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.killed = True
        with open(self.path, "ab") as file:
            file.write(b"%d dead\n" % alive)

    def wait(self, limit):
        """None, or what is wrong with its end."""
        if self.killed:
            return None
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "it did not end"
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        return None if status == 0 else f"status {status}: {text[-2000:]}"

    def leases(self):
        with open(self.path, "rb") as file:
            return sum(1 for line in file if b" got " in line)


class Run:
    def __init__(self, build, url, commands, folder):
        self.build = build
        self.url = url
        self.commands = commands
        self.folder = folder
        self.workers = []
        self.random = random.Random(1)

    def start(self, language, seconds):
        path = os.path.join(self.folder, f"{len(self.workers):02}.{language}")
        worker = Worker(language, self.commands[language], self.url, seconds, path, len(self.workers) + 1)
        self.workers.append(worker)
        return worker

    def round(self, seconds):
        end = time.monotonic() + seconds
        running = [self.start(language, seconds) for language in self.commands for _ in range(EACH)]
        while time.monotonic() < end - 1:
            time.sleep(KILL_EVERY)
            begun = [w for w in running if w.has_begun() and w.process.poll() is None]
            if not begun or len(self.workers) >= FILES_MAX:
                continue
            # One of the languages that have lost fewest so far: chance alone left out some of them in every run.
            fewest = min(self.deaths(w.language) for w in begun)
            victim = self.random.choice([w for w in begun if self.deaths(w.language) == fewest])
            victim.kill()
            running.remove(victim)
            left = end - time.monotonic()
            if left > 1:
                running.append(self.start(victim.language, left))
        for worker in running:
            worker.wait(120)

    def leases(self, language):
        return sum(w.leases() for w in self.workers if w.language == language)

    def deaths(self, language):
        return sum(w.killed for w in self.workers if w.language == language)

    def is_enough(self):
        """Each language took part, and lost a worker."""
        return all(self.leases(c) >= ENOUGH and self.deaths(c) > 0 for c in self.commands)

    def final(self):
        """The guarded counter; 0: never written."""
        found = subprocess.run([f"{self.build}/bin/holdfast", "-S", self.url, "guard", "shared-counter", "--token", str(2**53 - 1)],
                               stdout=subprocess.PIPE, check=False)
        return found.stdout.decode().strip() or "0"


def languages_judged(run):
    failed = 0
    for language in run.commands:
        wrong = [why for why in (w.wait(120) for w in run.workers if w.language == language) if why]
        count = run.leases(language)
        deaths = run.deaths(language)
        if count < ENOUGH:
            wrong.append("too few leases")
        if deaths == 0:
            wrong.append("no worker was killed")
        failed += bool(wrong)
        print(f"{language}: {count} leases, {deaths} killed{': ' + wrong[0] if wrong else ''}")
    return failed


def main():
    build, seconds = sys.argv[1], float(sys.argv[2])
    commands = dict(word.split("=", 1) for word in sys.argv[3:])
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("HOLDFAST_TEST_URL", f"file:{folder}/store").replace("{id}", "together")
        run = Run(build, url, commands, folder)
        for _ in range(ROUNDS):
            run.round(seconds)
            if len(run.workers) + EACH * len(commands) > FILES_MAX or run.is_enough():
                break
        failed = languages_judged(run)
        ttl = [] if url.startswith("file:") else ["-t"]
        judged = subprocess.run([f"{build}/bin/bindings/together_judge", *ttl, "-c", run.final(), *(w.path for w in run.workers)],
                                check=False)
        failed += judged.returncode != 0
    print(f"{len(commands) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
