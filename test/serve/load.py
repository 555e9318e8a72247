# SPDX-License-Identifier: MIT
"""Load for holdfast serve, with figures; not a test. load.py [WATCHERS [LEASES_A_SECOND [SECONDS]]]: so many clients watch, while
others take and release leases through the API at that rate, each with a keep-alive connection. One process, one thread, epoll.

HOLDFAST_SOURCE=. HOLDFAST_BUILD=build python3 -B test/serve/load.py 200 1000 20"""
import json
import os
import resource
import selectors
import socket
import sys
import time

from bed import ADMIN, Redis, Serve

WORKERS = 40
NAMES = 2000


def request(method, path, body=''):
    return ('%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n'
            'Content-Length: %d\r\n\r\n%s' % (method, path, ADMIN, len(body), body)).encode()


class Watcher:
    def __init__(self, port):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.sendall(request('GET', '/api/v1/watch'))
        self.bytes = self.batches = 0

    def ready(self, _):
        data = self.socket.recv(1 << 20)
        if not data:
            raise SystemExit('a watcher was cut off')
        self.bytes += len(data)
        self.batches += data.count(b'event: names\n')


class Worker:
    """acquire, release, acquire ... each when its time has come."""

    def __init__(self, port, load):
        self.load, self.lease, self.buffer, self.began, self.number = load, None, b'', None, load.next_number()
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self, now):
        self.began = now
        name = 'load-%d' % (self.number % NAMES)
        self.number += WORKERS
        self.socket.sendall(request('POST', '/api/v1/stores/0/leases', json.dumps({'name': name, 'wait_ms': 60000})))

    def ready(self, now):
        self.buffer += self.socket.recv(65536)
        head, found, body = self.buffer.partition(b'\r\n\r\n')
        if not found:
            return
        length = int(head.lower().partition(b'content-length: ')[2].split(b'\r\n')[0])
        if len(body) < length:
            return
        self.buffer = b''
        answer = json.loads(body)
        if answer['status'] != 'OK':
            raise SystemExit(answer)
        if self.lease is None:
            self.load.acquired.append(now - self.began)
            self.lease = answer['lease']
            self.began = now
            self.socket.sendall(request('DELETE', '/api/v1/leases/' + self.lease))
        else:
            self.load.released.append(now - self.began)
            self.lease = self.began = None


class Load:
    def __init__(self, watchers, rate, seconds):
        self.rate, self.seconds, self.number = rate, seconds, 0
        self.acquired, self.released = [], []
        self.redis = Redis()
        self.serve = Serve(self.redis.url).ready()
        self.selector = selectors.DefaultSelector()
        self.watchers = [self.add(Watcher(self.serve.port)) for _ in range(watchers)]
        self.workers = [self.add(Worker(self.serve.port, self)) for _ in range(WORKERS)]

    def next_number(self):
        self.number += 1
        return self.number

    def add(self, one):
        self.selector.register(one.socket, selectors.EVENT_READ, one)
        return one

    def processor(self):
        with open('/proc/%d/stat' % self.serve.process.pid) as file:
            fields = file.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def run(self):
        start, begun, before = time.monotonic(), 0, self.processor()
        while True:
            now = time.monotonic()
            if now - start > self.seconds and all(worker.began is None for worker in self.workers):
                break
            due = int((now - start) * self.rate) if now - start <= self.seconds else begun
            for worker in self.workers:
                if begun < due and worker.began is None and worker.lease is None:
                    worker.begin(now)
                    begun += 1
            for key, _ in self.selector.select(0.001):
                key.data.ready(time.monotonic())
        self.took, self.used = time.monotonic() - start, self.processor() - before

    def report(self):
        def at(times, part):
            return sorted(times)[int(len(times) * part)] * 1000
        with open('/proc/%d/status' % self.serve.process.pid) as file:
            peak = [line.split()[1] for line in file if line.startswith('VmHWM')][0]
        print('%d watchers, %d leases a second asked for, %.1f s' % (len(self.watchers), self.rate, self.took))
        print('leases:   %.0f a second (acquire and release)' % (len(self.released) / self.took))
        for what, times in (('acquire', self.acquired), ('release', self.released)):
            print('%s:  p50 %.2f ms, p99 %.2f ms, most %.2f ms' % (what, at(times, 0.5), at(times, 0.99), max(times) * 1000))
        batches = [watcher.batches for watcher in self.watchers] or [0]
        print('watchers: %d to %d batches of names each, %.1f MB to all' %
              (min(batches), max(batches), sum(watcher.bytes for watcher in self.watchers) / 1e6))
        print('serve:    %.0f %% of a processor, at most %d KiB; this program %.0f %%' %
              (100 * self.used / self.took, int(peak), 100 * resource.getrusage(resource.RUSAGE_SELF).ru_utime / self.took))

    def close(self):
        for one in self.watchers + self.workers:
            one.socket.close()
        self.serve.close()
        self.redis.close()


def main():
    numbers = [int(text) for text in sys.argv[1:]] + [200, 1000, 20][len(sys.argv) - 1:]
    load = Load(*numbers)
    try:
        load.run()
        load.report()
    finally:
        load.close()


main()
