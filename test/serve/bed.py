# SPDX-License-Identifier: MIT
"""What the tests of holdfast serve share: a redis-server of their own, holdfast-serve on a free port, HTTP.
Events are waited for with a generous limit; nothing depends on a time being short."""
import atexit
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ['HOLDFAST_SOURCE'], 'test', 'lib'))
import resp  # noqa: E402
import schema  # noqa: E402

LIMIT = 60  # seconds until an event counts as missing
ADMIN, VIEWER, TAKER, OTHER = ('admin-token-0000001', 'viewer-token-000001', 'taker-token-0000001', 'other-token-0000001')
TOKENS = ('# tokens of the tests\nread,break,lease %s admin\nread %s viewer\nlease %s taker\nread,lease %s other\n'
          % (ADMIN, VIEWER, TAKER, OTHER))


def until(what, why):
    """Wait until what() is true; its value."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError('never: ' + why)


def folder():
    """A directory that goes when the test ends."""
    path = tempfile.mkdtemp(prefix='holdfast-serve-')
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Redis:
    """A redis-server on a TCP port, which can be killed and started again."""

    def __init__(self):
        self.dir = folder()
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ['redis-server', '--port', str(self.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'yes',
             '--dir', self.dir, '--logfile', 'log'])

        def answers():
            try:
                with socket.create_connection(('127.0.0.1', self.port), 5) as probe:
                    probe.sendall(b'PING\r\n')
                    return probe.recv(5) == b'+PONG'
            except OSError:
                return False
        until(answers, 'redis-server answers')

    def kill(self):
        self.process.kill()
        self.process.wait()

    close = kill

    @property
    def url(self):
        return 'redis://127.0.0.1:%d' % self.port


class Serve:
    def __init__(self, *stores, tokens=TOKENS, options=(), environment=None, direct=False):
        build = os.environ['HOLDFAST_BUILD']
        self.dir = folder()
        command = [os.path.join(build, 'bin', 'holdfast-serve')] if direct else [os.path.join(build, 'bin', 'holdfast'), 'serve']
        command += ['--listen', '127.0.0.1:0']
        for store in stores:
            command += ['-S', store]
        if tokens:
            self.tokens = os.path.join(self.dir, 'tokens')
            self.write_tokens(tokens)
            command += ['--tokens', self.tokens]
        self.errors = open(os.path.join(self.dir, 'errors'), 'w+')
        self.process = subprocess.Popen(command + list(options), stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=dict(os.environ, **(environment or {})))
        line = self.process.stdout.readline()
        found = re.search(r'(https?)://127\.0\.0\.1:(\d+)/', line)
        if not found:
            self.process.wait()
            self.errors.seek(0)
            raise AssertionError('it did not start: %r %s' % (line, self.errors.read()))
        self.tls, self.port = found.group(1) == 'https', int(found.group(2))

    def write_tokens(self, text, mode=0o600):
        with open(self.tokens, 'w') as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)

    def connect(self):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT)

    def send(self, connection, method, path, body=None, token=ADMIN, headers=None):
        all_headers = {}
        if token:
            all_headers['Authorization'] = 'Bearer ' + token
        if body is not None:
            all_headers['Content-Type'] = 'application/json'
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        all_headers.update(headers or {})
        connection.request(method, path, body, all_headers)

    def call(self, method, path, body=None, token=ADMIN, headers=None):
        """(code, answer): the answer as JSON, or as text where it is none."""
        connection = self.connect()
        try:
            self.send(connection, method, path, body, token, headers)
            response = connection.getresponse()
            text = response.read().decode()
            self.headers = response.headers
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def acquire(self, name, token=ADMIN, store=0, key=None, **more):
        headers = {'Idempotency-Key': key} if key else None
        return self.call('POST', '/api/v1/stores/%d/leases' % store, dict(name=name, **more), token, headers)

    def ready(self, store=0):
        until(lambda: self.call('GET', '/api/v1/stores')[1]['stores'][store]['up'], 'the store is up')
        return self

    def row(self, name, store=0):
        """The row of a name; None: there is none."""
        code, answer = self.call('GET', '/api/v1/stores/%d/names/%s' % (store, name))
        return answer if code == 200 else None

    def metric(self, name, **labels):
        for line in self.call('GET', '/metrics')[1].splitlines():
            if line.startswith(name + '{') and all('%s="%s"' % pair in line for pair in labels.items()):
                return float(line.rsplit(' ', 1)[1])
        return None

    def number(self, name):
        """The value of a metric without labels."""
        return float(re.search('^%s (.*)$' % name, self.call('GET', '/metrics')[1], re.M).group(1))

    def close(self):
        """Its exit code. Every test ends so: a server that crashed on the way is noticed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT)
        self.process.stdout.close()
        self.errors.close()
        return code


class Events:
    """The server-sent events of a watch."""

    def __init__(self, serve, query='', token=ADMIN):
        self.connection = serve.connect()
        serve.send(self.connection, 'GET', '/api/v1/watch' + query, None, token)
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def next(self):
        """(event, data) of the next one that is not a comment. It has the form that openapi.json says."""
        event = None
        while True:
            line = self.response.readline().decode().rstrip('\n')
            if line.startswith('event: '):
                event = line[7:]
            elif line.startswith('data: '):
                data = json.loads(line[6:])
                schema.check_event(event, data)
                return event, data

    def find(self, event, wanted=lambda data: True):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            kind, data = self.next()
            if kind == event and wanted(data):
                return data
        raise AssertionError('never: ' + event)

    def close(self):
        self.response.close()
        self.connection.close()
