# SPDX-License-Identifier: MIT
"""A crowd without tokens: it may keep neither the connections nor the time of the clients that have one."""
import json
import os
import signal
import socket
import unittest

from bed import ADMIN, LIMIT, TAKER, Redis, Serve, until

OPEN = 'read - anybody\nread,break,lease %s admin\nlease %s taker\n' % (ADMIN, TAKER)


def get(path, token=None):
    return ('GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n' % (path, 'Authorization: Bearer %s\r\n' % token if token else '')).encode()


def head(client):
    """The first bytes of an answer: its code is in them. Empty: the connection has ended."""
    try:
        return client.recv(12)
    except ConnectionError:
        return b''


def body(client):
    """The JSON of one answer with a length."""
    text = b''
    while b'\r\n\r\n' not in text:
        text += more(client)
    headers, _, text = text.partition(b'\r\n\r\n')
    length = int(headers.lower().partition(b'content-length:')[2].split(b'\r\n')[0])
    while len(text) < length:
        text += more(client)
    return json.loads(text)


def more(client):
    got = client.recv(1 << 20)
    assert got, 'the connection has ended'
    return got


class Crowd(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.redis.close()

    def client(self):
        client = socket.create_connection(('127.0.0.1', self.serve.port), LIMIT)
        self.clients.append(client)
        return client

    def test_places(self):
        """40 places. 200 connections that stay: streams, half a request, nothing at all."""
        self.serve = Serve(self.redis.url, tokens=OPEN, options=['--connections', '40']).ready()
        try:
            held = self.serve.connect()
            self.serve.send(held, 'POST', '/api/v1/stores/0/leases', {'name': 'kept', 'with_connection': True}, TAKER)
            lines = held.getresponse()
            self.assertEqual(json.loads(lines.readline())['event'], 'granted')
            idle = self.client()  # it had a token in its last request
            idle.sendall(get('/api/v1/stores', ADMIN))
            body(idle)
            for i in range(200):
                client = self.client()
                if i % 4:
                    client.sendall(get('/api/v1/watch'))
                    self.assertIn(head(client), (b'HTTP/1.1 200', b''), 'in its turn it is served')
                elif i % 8:
                    client.sendall(b'GET / HT')
                if i % 50 == 49:
                    self.assertEqual(self.serve.acquire('another-%d' % i, TAKER)[0], 201, 'a client with a token has a place')
            self.assertEqual(self.serve.call('GET', '/api/v1/stores', token=None)[0], 200, 'one without has its turn')
            idle.sendall(get('/api/v1/stores', ADMIN))
            body(idle)
            until(lambda: self.serve.row('kept'), 'what is bound to a connection is held')
            self.assertNotIn('lost', lines.readline().decode())
            until(lambda: self.serve.number('holdfast_serve_streams') <= 11, 'a quarter of the places for streams without a token')
            until(lambda: self.serve.number('holdfast_serve_connections') <= 40, 'the others have been closed')
            held.close()
        finally:
            self.assertEqual(self.serve.close(), 0)

    def test_many_tokens_are_many_clients(self):
        """Streams of clients with a token are no crowd."""
        self.serve = Serve(self.redis.url, tokens=OPEN, options=['--connections', '40']).ready()
        try:
            streams = [self.client() for _ in range(30)]
            for stream in streams:
                stream.sendall(get('/api/v1/watch', ADMIN))
                self.assertEqual(head(stream), b'HTTP/1.1 200')
            self.assertEqual(self.serve.number('holdfast_serve_streams'), 30)
        finally:
            self.assertEqual(self.serve.close(), 0)

    def test_time(self):
        """What takes long is done in turn, a client with a token first. The server's own clock is asked, not ours: both sides may stand
        still at any time."""
        self.serve = Serve(self.redis.url, tokens=OPEN, options=['--leases', '5000']).ready()
        try:
            taker = self.serve.connect()
            for i in range(2000):
                self.serve.send(taker, 'POST', '/api/v1/stores/0/leases', {'name': 'n%d' % i, 'ttl_ms': 600000})
                self.assertEqual(taker.getresponse().read()[:2], b'{"')
            until(lambda: len(self.serve.call('GET', '/api/v1/stores/0/names?limit=10000')[1]['names']) == 2000, 'all names are seen')
            crowd, one = [self.client() for _ in range(100)], self.client()
            for client in crowd + [one]:
                client.sendall(get('/healthz'))
                body(client)
            os.kill(self.serve.process.pid, signal.SIGSTOP)
            for client in crowd:
                client.sendall(get('/api/v1/stores/0/names?limit=10000'))
            one.sendall(get('/api/v1/stores/0/names/n7', ADMIN))
            os.kill(self.serve.process.pid, signal.SIGCONT)
            at = body(one)['now']
            before = sum(body(client)['now'] < at for client in crowd)
            self.assertLess(before, 50, 'of 100 requests that came before it')
        finally:
            self.assertEqual(self.serve.close(), 0)

    def test_one_that_leaves_the_line(self):
        self.serve = Serve(self.redis.url, tokens=OPEN).ready()
        try:
            crowd = [self.client() for _ in range(200)]
            os.kill(self.serve.process.pid, signal.SIGSTOP)
            for client in crowd:
                client.sendall(get('/metrics'))
            for client in crowd[::2]:
                client.close()
            os.kill(self.serve.process.pid, signal.SIGCONT)
            for client in crowd[1::2]:
                self.assertEqual(head(client), b'HTTP/1.1 200')
        finally:
            self.assertEqual(self.serve.close(), 0)


if __name__ == '__main__':
    unittest.main(verbosity=2)
