# SPDX-License-Identifier: MIT
"""
What the tests of scripts share, those of the Redis engine and those of Redlock's: the scripts as the program has
them, and long random sequences beside a model. The clock is the test's (a hash `clock` in the server).
"""
import ast
import os
import random
import re
import subprocess
import tempfile
import time

EMBED = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'src', 'engine', 'redis', 'scripts',
                     'embed.cmake')


class Mismatch(Exception):
    pass


def equal(got, expected):
    if got != expected:
        raise Mismatch('%r and not %r' % (got, expected))


def text(reply):
    if isinstance(reply, list):
        return [text(item) for item in reply]
    return reply.decode('latin-1') if isinstance(reply, bytes) else reply


def embedded(directory, prefix):
    """The scripts as the program has them: made by the build's own step, and read back from C."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, 'scripts.c')
        subprocess.run(['cmake', '-DDIR=' + directory, '-DOUT=' + out, '-DPREFIX=' + prefix, '-P', EMBED], check=True)
        code = open(out).read()
    scripts = {}
    for name, lines in re.findall(prefix + r'(\w+) = \{\n    "\w+",\n((?:    ".*"[,]?\n)+)', code):
        scripts[name] = ''.join(ast.literal_eval(line.strip().rstrip(',')) for line in lines.splitlines())
    return scripts, code


def check_hashes(code, scripts, server):
    """Each script has in C the SHA-1 that the server gives it."""
    redis = server.connect()
    for name, source in scripts.items():
        sha = redis('SCRIPT', 'LOAD', source).decode()
        if '%d, "%s"' % (len(source), sha) not in code:
            raise Mismatch('%s has another SHA-1 or length' % name)
    redis.close()


class Sequence:
    """Calls of scripts, by chance, beside a model that says what must come of them. Who inherits has NAMES, INBOXES
    and KINDS, and step() and finish()."""

    def __init__(self, server, call, model, seed):
        self.random = random.Random(seed)
        self.call = call
        self.redis = call.redis
        self.redis('FLUSHALL')
        self.inbox = server.connect()
        for channel in self.INBOXES:
            self.inbox('SUBSCRIBE', channel)
        self.model = model
        self.model.us = int(time.time() * 1e6) + 3600 * 1000000  # ahead of the server, which must expire nothing
        self.counts = {}
        self.trace = []
        self.expiry = {}  # of each key
        self.kind = {name: self.KINDS[0] for name in self.NAMES}
        self.set_clock()

    def close(self):
        self.redis.close()
        self.inbox.close()

    def set_clock(self):
        self.redis('HSET', 'clock', 's', self.model.us // 1000000, 'u', self.model.us % 1000000)

    def expire_keys(self):
        """What the server does to keys whose time is over, by our clock."""
        dead = [key for key, end in self.expiry.items() if self.model.now > end]
        if dead:
            self.redis('DEL', *dead)
        for key in dead:
            del self.expiry[key]

    def check_messages(self):
        self.inbox.socket.sendall(self.inbox.pack(['PING']))
        got = []
        while True:
            message = text(self.inbox.read())
            if message[0] == 'pong':
                break
            got.append((message[1], message[2]))
        # The order between two channels is that of one connection: exact.
        if got != self.model.sent:
            raise Mismatch('messages %r and not %r' % (got, self.model.sent))
        self.model.sent = []


def random_runs(begin, steps_each, seed, seconds):
    """Sequences of so many steps, each made by begin(seed), until the time is over."""
    end = time.monotonic() + seconds
    counts, steps = {}, 0
    while True:
        run = begin(seed)
        try:
            for _ in range(steps_each):
                run.step()
                steps += 1
            run.finish()
        except Exception:
            print('seed %d, step %d' % (seed, steps))
            for line in run.trace[-40:]:
                print('   ', line)
            raise
        finally:
            run.close()
        for what, count in run.counts.items():
            counts[what] = counts.get(what, 0) + count
        seed += 1
        if time.monotonic() > end:
            break
    print('%d calls: %s' % (steps, ', '.join('%s %d' % item for item in sorted(counts.items()))))
