# SPDX-License-Identifier: MIT
"""What the tests of the page run beside it: holdfast serve, and commands that hold and wait. Everything is ended by its pid."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("HOLDFAST_BUILD", "build")).resolve()
HOLDFAST = os.environ.get("HOLDFAST_BIN", str(BUILD / "bin" / "holdfast"))
SERVE = os.environ.get("HOLDFAST_SERVE", str(BUILD / "bin" / "holdfast-serve"))
LIMIT_S = 60
BREAK_TOKEN = "a-token-that-may-break-0001"
READ_TOKEN = "a-token-that-may-only-read-1"


def wait_for(question, what):
    end = time.monotonic() + LIMIT_S
    while not question():
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Place:
    """A directory with an embedded store, and everything that was started in it."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-page."))
        self.url = f"file:{self.dir}/store"
        self.started = []
        self.tokens = self.dir / "tokens"
        self.tokens.write_text(f"read - anybody\nread,break {BREAK_TOKEN} operator\nread {READ_TOKEN} reader\n")
        self.tokens.chmod(0o600)
        self.environment = {**os.environ, "HOME": str(self.dir), "XDG_CONFIG_HOME": str(self.dir / "config"), "HOLDFAST_STORE": self.url}
        self.environment.pop("HOLDFAST_CONFIG", None)

    def start(self, *command, **more):
        process = subprocess.Popen([str(word) if not isinstance(word, bytes) else word for word in command], env=self.environment, cwd=self.dir, **more)
        self.started.append(process)
        return process

    def serve(self, *stores, port=0):
        """holdfast serve; returns (process, address of the page)."""
        words = [word for store in stores or (self.url,) for word in ("-S", store)]
        process = self.start(SERVE, *words, "--listen", f"127.0.0.1:{port}", "--tokens", self.tokens, stdout=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        found = re.search(r"(http://\S+/)", line)
        if not found:
            raise AssertionError(f"holdfast serve did not say where it listens: {line!r}")
        return process, found.group(1)

    def hold(self, name, *options, url=None):
        """A holder of `name`, until its standard input ends: it runs cat. It has been started, and need not hold or wait yet."""
        return self.start(HOLDFAST, "run", "-S", url or self.url, *options, "--name", name, "--", "cat", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def let_go(self, process):
        process.stdin.close()
        return process.wait(LIMIT_S)

    def command(self, *words):
        return subprocess.run([HOLDFAST, *words], env=self.environment, capture_output=True, text=True, timeout=LIMIT_S)

    def crosswise(self, first, second):
        """Two processes that have one name each and wait for the other's, for ever: nobody gives way."""
        url = f"{self.url}?deadlock_check=1h"
        for mine, other in ((first, second), (second, first)):
            script = 'touch "$1"; until [ -e "$2" ]; do sleep 0.05; done; exec "$3" run -S "$4" "$5" -- true'
            marks = [str(self.dir / f"has-{name.replace('/', '-')}") for name in (mine, other)]
            self.start(HOLDFAST, "run", "-S", url, mine, "--", "sh", "-c", script, "sh", *marks, HOLDFAST, url, other,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def redis(self):
        """A server of our own, to be killed: (process, URL)."""
        port = free_port()
        process = self.start("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.dir, stdout=subprocess.DEVNULL)

        def answers():
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                return False
        wait_for(answers, "redis-server")
        return process, f"redis://127.0.0.1:{port}"

    def close(self):
        for process in reversed(self.started):
            if process.stdin:
                process.stdin.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.dir, ignore_errors=True)
