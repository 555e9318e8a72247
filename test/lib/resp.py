# SPDX-License-Identifier: MIT
"""A redis-server of our own, and just enough of its protocol, with Python's own library only."""
import os
import shutil
import socket
import subprocess
import tempfile
import time


class Error(Exception):
    """An error reply."""


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile('rb')

    @staticmethod
    def pack(args):
        out = [b'*%d\r\n' % len(args)]
        for arg in args:
            if not isinstance(arg, bytes):
                arg = str(arg).encode()
            out.append(b'$%d\r\n%s\r\n' % (len(arg), arg))
        return b''.join(out)

    def read(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b'+':
            return rest
        if kind == b'-':
            return Error(rest.decode())
        if kind == b':':
            return int(rest)
        if kind == b'$':
            if rest == b'-1':
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b'*':
            return [self.read() for _ in range(int(rest))]
        raise EOFError('the server said %r' % line)

    def many(self, commands):
        replies = []
        for i in range(0, len(commands), 100):  # more would fill the buffers on both sides, and block
            some = commands[i:i + 100]
            self.socket.sendall(b''.join(self.pack(c) for c in some))
            replies += [self.read() for _ in some]
        return replies

    def __call__(self, *args):
        reply = self.many([args])[0]
        if isinstance(reply, Error):
            raise reply
        return reply

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """Ends with close(); REDIS_SERVER names another program than redis-server."""

    def __init__(self, *options):
        self.dir = tempfile.mkdtemp(prefix='holdfast-redis-')
        self.path = os.path.join(self.dir, 'socket')
        self.process = subprocess.Popen(
            [os.environ.get('REDIS_SERVER', 'redis-server'), '--port', '0', '--unixsocket', self.path, '--save',
             '', '--dir', self.dir, '--logfile', 'log'] + list(options))
        for _ in range(3000):
            try:
                Connection(self.path).close()
                return
            except OSError:
                time.sleep(0.01)
        self.close()
        raise RuntimeError('redis-server did not start')

    def connect(self):
        return Connection(self.path)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
