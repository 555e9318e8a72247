# SPDX-License-Identifier: MIT
"""
What the tests of scripts share, those of the Redis engine and those of Redlock's: the scripts as the program has
them, and sequences of calls on a server. The clock is the test's (a hash `clock` in the server).
"""
import ast
import os
import re
import subprocess
import tempfile
import time

from sequence import Mismatch, Sequence

EMBED = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'src', 'engine', 'redis', 'scripts',
                     'embed.cmake')


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


class ScriptSequence(Sequence):
    """Calls of scripts on a server. The class has INBOXES, channels of which somebody hears."""

    def __init__(self, server, call, model, seed):
        super().__init__(model, seed)
        self.call = call
        self.redis = call.redis
        self.redis('FLUSHALL')
        self.inbox = server.connect()
        for channel in self.INBOXES:
            self.inbox('SUBSCRIBE', channel)
        model.heard = set(self.INBOXES)
        model.us = int(time.time() * 1e6) + 3600 * 1000000  # ahead of the server, which must expire nothing
        self.expiry = {}  # of each key
        self.set_clock()

    def close(self):
        self.redis.close()
        self.inbox.close()

    def advance(self):
        super().advance()
        self.expire_keys()

    def set_clock(self):
        self.redis('HSET', 'clock', 's', self.model.us // 1000000, 'u', self.model.us % 1000000)

    def expire_keys(self):
        """What the server does to keys whose time is over, by our clock."""
        dead = [key for key, end in self.expiry.items() if self.model.now > end]
        if dead:
            self.redis('DEL', *dead)
        for key in dead:
            del self.expiry[key]

    def heard(self, channel, message):
        """Is it one that the model knows of?"""
        return True

    def said(self, message):
        """A message as the model writes it."""
        return message

    def check_messages(self):
        self.inbox.socket.sendall(self.inbox.pack(['PING']))
        got = []
        while True:
            message = text(self.inbox.read())
            if message[0] == 'pong':
                break
            if self.heard(message[1], message[2]):
                got.append((message[1], self.said(message[2])))
        # The order between two channels is that of one connection: exact.
        if got != self.model.sent:
            raise Mismatch('messages %r and not %r' % (got, self.model.sent))
        self.model.sent = []

