#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holdfast and a real foreign client on one key, in both directions.

    interop.py HOLDFAST_WORKER QUERY FOREIGN_WORKER...

The server is the one that with_server started, or the nodes of a Redlock (with_server redis -R). Both kinds of worker are processes
that take the same commands (worker.c); in FOREIGN_WORKER {port} is the server's port, or those of all nodes: 1,2,3. Each case is run with
either of them in either role. Nothing here depends on a time being short: whoever is to get a lock
waits for it, and whoever is to be refused is refused by somebody who certainly holds it (for
minutes: longer than anybody waits, so that no expiry stands in for a message).
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

LONG_MS = 200000
WAIT_MS = 60000
SHORT_MS = 1500
LIMIT_S = 150
WORKERS = 3
COUNT = int(os.environ.get("INTEROP_COUNT", "40"))


class Worker:
    """One process; a command is one line, its answer another."""

    def __init__(self, kind, command):
        self.kind = kind
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        answer = self.answer()
        if answer != "ready":
            sys.exit(f"{kind}: does not start: {answer!r}")

    def begin(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def do(self, *words):
        self.begin(*words)
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def expect(what, got, want):
    if got != want:
        sys.exit(f"FAILED: {what}: {got}, not {want}")


def excludes(name, first, second):
    """What one holds the other does not get; once it is free he does."""
    expect(f"{first.kind} takes it", first.do("acquire", name, 0, LONG_MS), "OK")
    expect(f"{second.kind} tries while {first.kind} holds", second.do("acquire", name, 0, LONG_MS), "BUSY")
    expect(f"{first.kind} frees it", first.do("release"), "OK")
    expect(f"{second.kind} takes it then", second.do("acquire", name, 0, LONG_MS), "OK")
    expect(f"{first.kind} tries while {second.kind} holds", first.do("acquire", name, 0, LONG_MS), "BUSY")
    expect(f"{second.kind} frees it", second.do("release"), "OK")


def waits(name, first, second):
    """One who waits gets it when the other has let go: also if nothing else would wake him in time."""
    expect(f"{first.kind} takes it", first.do("acquire", name, 0, LONG_MS), "OK")
    second.begin("acquire", name, WAIT_MS, LONG_MS)
    time.sleep(0.3)  # so that the other client really waits; if not, the case tests less
    expect(f"{first.kind} frees it", first.do("release"), "OK")
    expect(f"{second.kind}, who waited, gets it", second.answer(), "OK")
    expect(f"{second.kind} frees it", second.do("release"), "OK")


def frees_nothing_of_others(name, first, second, third):
    """One whose lock has expired cannot free that of who came after him."""
    expect(f"{first.kind} takes it for a short time", first.do("acquire", name, 0, -SHORT_MS), "OK")
    expect(f"{second.kind} gets it after that", second.do("acquire", name, WAIT_MS, LONG_MS), "OK")
    expect(f"{first.kind} comes late to free it", first.do("release"), "LOST")
    expect(f"a third tries while {second.kind} holds", third.do("acquire", name, 0, LONG_MS), "BUSY")
    expect(f"{second.kind} frees it", second.do("release"), "OK")


def survives_death(name, start_first, second):
    """A holder that was killed is forgotten after its time."""
    first = start_first()
    expect(f"{first.kind} takes it", first.do("acquire", name, 0, SHORT_MS), "OK")
    first.kill()
    expect(f"{second.kind} gets it after {first.kind} died", second.do("acquire", name, WAIT_MS, LONG_MS), "OK")
    expect(f"{second.kind} frees it", second.do("release"), "OK")


def extends(name, first, second):
    """What one makes last longer the other does not get, when its first time has passed."""
    expect(f"{first.kind} takes it for a short time", first.do("acquire", name, 0, -SHORT_MS), "OK")
    said = first.do("extend", LONG_MS)
    if said != "cannot":
        expect(f"{first.kind} extends it", said, "OK")
        time.sleep(SHORT_MS / 1000 + 0.2)
        expect(f"{second.kind} tries after that", second.do("acquire", name, 0, LONG_MS), "BUSY")
        expect(f"{first.kind} frees it", first.do("release"), "OK")


def ask(port, command):
    """What the server says to an inline command, up to its end of an integer or a list of one bulk string."""
    with socket.create_connection(("127.0.0.1", int(port))) as line:
        line.sendall(command.encode() + b"\r\nPING\r\n")
        said = b""
        while not said.endswith(b"+PONG\r\n"):
            said += line.recv(4096)
    return said[:-len(b"+PONG\r\n")].decode().split()


def counts(name, port, first, second):
    """Taken several times by one: the hash says how often, and the other waits for the last release."""
    for hold in (1, 2, 3):
        expect(f"{first.kind} takes it", first.do("again", name, LONG_MS), "OK")
        expect("the count", ask(port, f"HVALS {name}")[-1:], [str(hold)])
        expect(f"{first.kind} knows the count", first.do("holds"), str(hold))
    second.begin("acquire", name, WAIT_MS, LONG_MS)
    for hold in (2, 1):
        expect(f"{first.kind} frees it once", first.do("release"), "OK")
        expect("the count", ask(port, f"HVALS {name}")[-1:], [str(hold)])
    expect(f"{first.kind} frees it", first.do("release"), "OK")
    expect(f"{second.kind}, who waited, gets it", second.answer(), "OK")
    expect("the count", ask(port, f"HVALS {name}")[-1:], ["1"])
    expect(f"{second.kind} frees it", second.do("release"), "OK")
    expect("the key", ask(port, f"EXISTS {name}"), [":0"])


def shut_down(port):
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"SHUTDOWN NOSAVE\r\n")
        while line.recv(4096):
            pass


def number_in(path):
    with open(path) as file:
        return int(file.read() or "0")  # somebody may be writing it


def loses_no_update(name, starters, word="hammer", meanwhile=None):
    """Workers of both kinds raise one number, each time under the lock."""
    with tempfile.NamedTemporaryFile("w", prefix="holdfast-interop-", delete=False) as file:
        file.write("0\n")
    workers = [start() for start in starters for _ in range(WORKERS)]
    for worker in workers:
        worker.begin(word, name, file.name, COUNT)
    if meanwhile:
        while number_in(file.name) < COUNT:
            time.sleep(0.001)
        meanwhile()
    for worker in workers:
        expect(f"{worker.kind} raises the number", worker.answer(), "OK")
        worker.end()
    with open(file.name) as result:
        expect("the number", int(result.read()), len(workers) * COUNT)
    os.unlink(file.name)


def main():
    signal.alarm(LIMIT_S)
    holdfast, query, *foreign = sys.argv[1:]
    url = os.environ["HOLDFAST_TEST_URL"]
    ports = re.findall(r"127\.0\.0\.1:(\d+)", url)
    port = ",".join(ports)
    prefix = os.environ.get("INTEROP_PREFIX", "")
    url = f"{url.partition('?')[0]}?{query}"

    def start_ours():
        return Worker("holdfast", [holdfast, url])

    def start_theirs():
        return Worker("foreign", [word.replace("{port}", port) for word in foreign])

    ours, theirs, third = start_ours(), start_theirs(), start_ours()
    for a, b in ((ours, theirs), (theirs, ours)):
        excludes(f"{prefix}excludes", a, b)
        waits(f"{prefix}waits", a, b)
        frees_nothing_of_others(f"{prefix}frees-nothing", a, b, third)
    survives_death(f"{prefix}death", start_ours, theirs)
    survives_death(f"{prefix}death", start_theirs, ours)
    loses_no_update(f"{prefix}number", (start_ours, start_theirs))
    if "redisson" in query:
        counts("counts", port, ours, theirs)
        counts("counts", port, theirs, ours)
    if len(ports) > 1 and not os.environ.get("INTEROP_WHOLE"):
        # A node is lost while all want it; after that the others are still a majority.
        loses_no_update("storm", (start_ours, start_theirs), "storm", lambda: shut_down(int(ports[0])))
        for a, b in ((ours, theirs), (theirs, ours)):
            extends("extends", a, b)
            excludes("less", a, b)
            waits("less", a, b)
        survives_death("less", start_ours, theirs)
        survives_death("less", start_theirs, ours)
    for worker in (ours, theirs, third):
        worker.end()
    print("all as it should be")


main()
