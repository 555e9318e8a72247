# SPDX-License-Identifier: MIT
"""Leases of clients without a binding: waits, clients that go away, keys, limits, connections."""
import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from bed import ADMIN, LIMIT, OTHER, TAKER, Redis, Serve, until


class Leases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.serve = Serve(cls.redis.url, options=['--leases', '20']).ready()

    @classmethod
    def tearDownClass(cls):
        code = cls.serve.close()
        cls.redis.close()
        assert code == 0, 'holdfast-serve ended with %s' % code

    def grant(self, name, **more):
        code, answer = self.serve.acquire(name, **more)
        self.assertIn(code, (200, 201), answer)
        return answer

    def release(self, lease, token=ADMIN):
        return self.serve.call('DELETE', '/api/v1/leases/' + lease['lease'], token=token)

    def waiting(self, count):
        until(lambda: self.serve.metric('holdfast_api_waiting') == count, '%d requests wait' % count)

    def held(self, count):
        until(lambda: self.serve.metric('holdfast_api_leases') == count, '%d leases are held' % count)

    def begin(self, name, key=None, token=ADMIN, **more):
        """A request whose answer is not read yet."""
        connection = self.serve.connect()
        self.serve.send(connection, 'POST', '/api/v1/stores/0/leases', dict(name=name, **more), token,
                        {'Idempotency-Key': key} if key else None)
        return connection

    def end(self, connection):
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def test_take_renew_release(self):
        lease = self.grant('plain', ttl_ms=20000)
        self.assertGreater(int(lease['token']), 0)
        self.assertEqual(lease['ttl_ms'], 20000)
        self.assertEqual(self.serve.acquire('plain')[0], 423)
        code, answer = self.serve.call('POST', '/api/v1/leases/%s/renew' % lease['lease'], {'ttl_ms': 50000})
        self.assertEqual((code, answer['ttl_ms']), (200, 50000))
        self.assertGreater(answer['remaining_ms'], 20000)
        self.assertEqual(self.serve.call('GET', '/api/v1/leases/' + lease['lease'])[1]['token'], lease['token'])
        self.assertEqual(self.release(lease), (200, {'status': 'OK'}))
        self.assertEqual(self.release(lease)[0], 404)
        again = self.grant('plain')
        self.assertGreater(int(again['token']), int(lease['token']))
        self.release(again)

    def test_a_lease_belongs_to_its_token(self):
        lease = self.grant('mine')
        for method, path in (('DELETE', ''), ('GET', ''), ('POST', '/renew')):
            self.assertEqual(self.serve.call(method, '/api/v1/leases/%s%s' % (lease['lease'], path), token=OTHER)[0], 404)
        self.assertEqual(self.release(lease)[0], 200)

    def test_ttl_ends_it(self):
        lease = self.grant('short', ttl_ms=1000)
        until(lambda: self.serve.call('GET', '/api/v1/leases/' + lease['lease'])[0] == 404, 'a lease that nobody renews ends')
        self.release(self.grant('short', wait_ms=30000))

    def test_long_poll(self):
        lease = self.grant('queue')
        waiter = self.begin('queue', wait_ms=60000, token=TAKER)
        self.waiting(1)
        until(lambda: (self.serve.row('queue') or {}).get('waiters_total') == 1, 'the store shows the waiter')
        self.assertEqual(self.serve.row('queue')['waiters'][0]['label'], 'taker')
        self.release(lease)
        code, answer = self.end(waiter)
        self.assertEqual(code, 201, answer)
        self.release(answer, TAKER)

    def test_a_lease_that_was_waited_for_has_its_ttl(self):
        """A store hands over for ten seconds at first, which a holder renews: here nobody does but the client, much later."""
        lease = self.grant('whole')
        waiter = self.begin('whole', wait_ms=60000, ttl_ms=3600000)
        until(lambda: (self.serve.row('whole') or {}).get('waiters_total') == 1, 'it is in the queue')
        self.release(lease)
        code, answer = self.end(waiter)
        self.assertEqual(code, 201, answer)
        self.assertGreater(answer['remaining_ms'], 3600000 * 3 // 4)
        self.release(answer)

    def test_timeout(self):
        lease = self.grant('late')
        code, answer = self.serve.acquire('late', wait_ms=200)
        self.assertEqual((code, answer['status']), (423, 'TIMEOUT'))
        self.release(lease)

    def test_a_client_that_hangs_up_leaves_the_queue(self):
        lease = self.grant('hang')
        waiter = self.begin('hang', wait_ms=60000)
        self.waiting(1)
        waiter.sock.close()
        waiter.close()
        self.waiting(0)
        self.release(lease)
        self.release(self.grant('hang', wait_ms=30000))

    def test_grant_in_the_moment_of_a_hang_up_is_given_back(self):
        """The store gets the release, which grants the waiter, and its cancellation together. The ttl is out of reach."""
        lease = self.grant('moment')
        waiter = self.begin('moment', wait_ms=60000, ttl_ms=3600000)
        self.waiting(1)
        self.redis.process.send_signal(signal.SIGSTOP)
        try:
            release = self.serve.connect()
            self.serve.send(release, 'DELETE', '/api/v1/leases/' + lease['lease'])
            until(lambda: self.serve.call('GET', '/api/v1/leases/' + lease['lease'])[0] == 404, 'the release is under way')
            before = self.serve.number('holdfast_serve_connections')
            waiter.sock.close()
            waiter.close()
            until(lambda: self.serve.number('holdfast_serve_connections') < before, 'the hang-up is noticed')
        finally:
            self.redis.process.send_signal(signal.SIGCONT)
        self.assertEqual(self.end(release)[0], 200)
        self.waiting(0)
        self.release(self.grant('moment', wait_ms=60000))
        self.held(0)

    def test_grant_and_hang_up_arrive_together(self):
        """Our process is stopped meanwhile: it finds the grant and the hang-up at the same time. The ttl is out of reach."""
        other = Serve(self.redis.url).ready()
        try:
            lease = other.acquire('together')[1]
            waiter = self.begin('together', wait_ms=60000, ttl_ms=3600000)
            self.waiting(1)
            until(lambda: (other.row('together') or {}).get('waiters_total') == 1, 'it is in the queue')
            self.serve.process.send_signal(signal.SIGSTOP)
            other.call('DELETE', '/api/v1/leases/' + lease['lease'])
            waiter.sock.close()
            waiter.close()
            self.serve.process.send_signal(signal.SIGCONT)
            self.waiting(0)
            code, answer = other.acquire('together', wait_ms=60000)
            self.assertEqual(code, 201, answer)
            self.assertEqual(other.call('DELETE', '/api/v1/leases/' + answer['lease'])[0], 200)
        finally:
            self.assertEqual(other.close(), 0)
        self.held(0)

    @unittest.skipIf(os.environ.get('HOLDFAST_SANITIZE'), 'a sanitizer must be loaded first')
    def test_grant_after_its_cancel_is_given_back(self):
        """Cancels have no effect here, so the grant comes although nobody waits for it. The ttl is out of reach."""
        late = os.path.join(os.environ['HOLDFAST_BUILD'], 'bin', 'test', 'serve_late_cancel.so')
        other = Serve(self.redis.url, environment={'LD_PRELOAD': late}).ready()
        try:
            lease = self.grant('after')
            for key in (None, 'k-after'):
                waiter = other.connect()
                other.send(waiter, 'POST', '/api/v1/stores/0/leases', {'name': 'after', 'wait_ms': 60000, 'ttl_ms': 3600000},
                           headers={'Idempotency-Key': key} if key else None)
                until(lambda: (self.serve.row('after') or {}).get('waiters_total') == 1, 'it is in the queue')
                before = other.number('holdfast_serve_connections')
                waiter.sock.close()
                waiter.close()
                until(lambda: other.number('holdfast_serve_connections') < before, 'the hang-up is noticed')
                self.assertEqual(other.metric('holdfast_api_waiting'), 1, 'the cancel has had no effect')
                self.release(lease)
                lease = self.grant('after', wait_ms=60000)
                until(lambda: other.metric('holdfast_api_leases') == 0, 'it holds nothing')
            self.release(lease)
            code, again = other.acquire('after', key='k-after', wait_ms=60000, ttl_ms=3600000)
            self.assertEqual((code, again['repeated']), (201, False), 'its key is free')
            other.call('DELETE', '/api/v1/leases/' + again['lease'])
        finally:
            self.assertEqual(other.close(), 0)

    def test_hang_up_at_any_moment(self):
        """As close together as possible. An answer that was written before the hang-up ends with its ttl."""
        for _ in range(30):
            lease = self.grant('race', wait_ms=60000)
            waiter = self.begin('race', wait_ms=60000, ttl_ms=1000)
            self.waiting(1)
            hang = threading.Thread(target=waiter.sock.close)
            hang.start()
            self.release(lease)
            hang.join()
            waiter.close()
        self.waiting(0)
        self.release(self.grant('race', wait_ms=60000))
        self.held(0)

    def test_same_key_same_acquisition(self):
        first = self.grant('keyed', key='k-1')
        again = self.grant('keyed', key='k-1')
        self.assertEqual((again['lease'], again['token'], again['repeated']), (first['lease'], first['token'], True))
        self.assertEqual(self.serve.acquire('other', key='k-1')[0], 422)
        self.assertEqual(self.serve.acquire('keyed', key='k-1', token=OTHER)[0], 423, 'keys of two tokens are two keys')
        self.release(first)
        code, answer = self.serve.acquire('keyed', key='k-1')
        self.assertEqual((code, answer['status']), (409, 'DONE'), 'a late copy must not acquire again')

    def test_same_key_while_the_first_waits(self):
        lease = self.grant('both')
        waiters = [self.begin('both', key='k-2', wait_ms=60000)]
        self.waiting(1)
        waiters += [self.begin('both', key='k-2', wait_ms=60000) for _ in range(3)]
        # An answered request behind them on a connection of its own: they have been read by then.
        until(lambda: self.serve.metric('holdfast_api_waiting') == 1, 'one acquisition')
        waiters[0].sock.close()  # the others still want it
        waiters.pop(0).close()
        self.release(lease)
        answers = [self.end(waiter) for waiter in waiters]
        self.assertEqual({code for code, _ in answers} - {200, 201}, set(), answers)
        self.assertEqual(len({answer['lease'] for _, answer in answers}), 1)
        self.release(answers[0][1])
        self.held(0)

    def test_key_of_a_request_that_failed_is_free(self):
        lease = self.grant('again')
        self.assertEqual(self.serve.acquire('again', key='k-3')[0], 423)
        self.release(lease)
        self.release(self.grant('again', key='k-3'))

    def test_limit_of_a_token(self):
        leases = [self.grant('limit-%d' % i, token=OTHER) for i in range(20)]
        code, answer = self.serve.acquire('limit-x', token=OTHER)
        self.assertEqual((code, answer['status']), (429, 'LIMIT'))
        self.release(self.grant('limit-x'))  # another token is not concerned
        for lease in leases:
            self.assertEqual(self.release(lease, OTHER)[0], 200)

    def end_of_a_server(self, ending):
        """What becomes of leases and waits when their server ends: (lease with a ttl, stream's events, code of a waiter)."""
        other = Serve(self.redis.url).ready()
        name = 'end-%d' % ending
        lease = other.acquire(name, ttl_ms=3600000)[1]
        stream, waiter = other.connect(), other.connect()
        other.send(stream, 'POST', '/api/v1/stores/0/leases', {'name': name + '-bound', 'with_connection': True, 'ttl_ms': 2000})
        response = stream.getresponse()
        response.readline()
        other.send(waiter, 'POST', '/api/v1/stores/0/leases', {'name': name, 'wait_ms': 60000})
        until(lambda: other.metric('holdfast_api_waiting') == 1, 'it waits')
        other.process.send_signal(ending)
        other.process.wait(LIMIT)
        try:
            events = [json.loads(line)['event'] for line in response.read().splitlines()]
            code = waiter.getresponse().status
        except (OSError, http.client.HTTPException):
            events, code = None, None  # it was killed
        stream.close()
        waiter.close()
        other.close()
        until(lambda: self.serve.row(name), 'the lease with a ttl is still there')
        self.assertEqual(self.serve.acquire(name)[0], 423, 'its client may rely on it')
        self.assertEqual(self.serve.row(name)['holders'][0]['token'], lease['token'])
        self.release(self.grant(name + '-bound', wait_ms=60000))
        return events, code

    def test_a_server_that_is_terminated(self):
        self.assertEqual(self.end_of_a_server(signal.SIGTERM), (['lost'], 503))

    def test_a_server_that_is_killed(self):
        self.end_of_a_server(signal.SIGKILL)

    def test_embedded_store(self):
        with tempfile.TemporaryDirectory() as folder:
            url = 'file:%s/store' % folder
            subprocess.run([os.path.join(os.environ['HOLDFAST_BUILD'], 'bin', 'holdfast'), '-S', url, 'run', 'x', '--', 'true'], check=True)
            other = Serve(url).ready()
            try:
                lease = other.acquire('file')[1]
                self.assertEqual(other.acquire('file')[0], 423)
                self.assertEqual(other.call('POST', '/api/v1/leases/%s/renew' % lease['lease'])[0], 200)
                self.assertEqual(other.call('DELETE', '/api/v1/leases/' + lease['lease'])[0], 200)
                self.assertEqual(other.acquire('file', with_connection=False)[0], 201)
            finally:
                self.assertEqual(other.close(), 0)

    def test_semaphore_and_readers(self):
        leases = [self.grant('slots', kind='semaphore', capacity=2) for _ in range(2)]
        self.assertEqual(self.serve.acquire('slots', kind='semaphore', capacity=2)[0], 423)
        self.assertEqual(self.serve.acquire('slots')[1]['status'], 'MISMATCH')
        for lease in leases:
            self.release(lease)
        readers = [self.grant('book', kind='shared') for _ in range(2)]
        self.assertEqual(self.serve.acquire('book', kind='exclusive')[0], 423)
        for lease in readers:
            self.release(lease)

    def test_with_connection(self):
        stream = self.begin('bound', with_connection=True, ttl_ms=2000)
        response = stream.getresponse()
        line = json.loads(response.readline())
        self.assertEqual((response.status, line['event']), (200, 'granted'))
        self.assertEqual(self.serve.acquire('bound')[0], 423)
        self.assertEqual(json.loads(response.readline())['event'], 'alive', 'it is renewed: ten seconds are five ttls')
        stream.sock.shutdown(socket.SHUT_RDWR)
        response.close()
        stream.close()
        self.release(self.grant('bound', wait_ms=60000))

    def test_with_connection_says_lost(self):
        stream = self.begin('broken', with_connection=True)
        response = stream.getresponse()
        lease = json.loads(response.readline())
        code, answer = self.serve.call('POST', '/api/v1/stores/0/names/broken/break',
                                       {'name': 'broken', 'token': lease['token']})
        self.assertEqual(code, 200, answer)
        events = [json.loads(line)['event'] for line in response.read().splitlines()]
        self.assertEqual(events[-1:], ['lost'])
        stream.close()
        self.held(0)

    def test_break_needs_the_right_token_and_name(self):
        lease = self.grant('victim')
        path = '/api/v1/stores/0/names/victim/break'
        self.assertEqual(self.serve.call('POST', path, {'name': 'victi', 'token': lease['token']})[0], 400)
        self.assertEqual(self.serve.call('POST', path, {'token': lease['token']})[0], 400)
        self.assertEqual(self.serve.call('POST', path, {'name': 'victim', 'token': '1'})[0], 404)
        self.assertEqual(self.serve.call('POST', path, {'name': 'victim', 'token': lease['token']})[0], 200)
        self.held(0)

    def test_bad_bodies_name_the_field(self):
        for body, field in (('{', 'body'), ('[]', 'body'), ({}, 'name'), ({'name': ''}, 'name'), ({'name': 'x' * 513}, 'name'),
                            ({'name': 'x', 'ttl_ms': 5}, 'ttl_ms'), ({'name': 'x', 'wait_ms': 60001}, 'wait_ms'),
                            ({'name': 'x', 'wait_ms': -1}, 'wait_ms'), ({'name': 'x', 'kind': 'lock'}, 'kind'),
                            ({'name': 'x', 'kind': 'semaphore'}, 'capacity'), ({'name': 'x', 'permits': 1}, 'permits'),
                            ({'name': 'x', 'ttl': 5000}, 'ttl'), ({'name_hex': 'abc'}, 'name_hex'),
                            ('{"name": "x", "ttl_ms": 9223372036854775808}', 'ttl_ms'), ('{"name": "x", "wait_ms": -1e300}', 'wait_ms'),
                            ('{"name": "x", "capacity": -9223372036854775809}', 'capacity'), ('{"name": "x", "ttl_ms": NaN}', 'NaN'),
                            ('{"name": "x", "name": "y"}', '"name"'), ({'name': 'x', 'label': 'a\0b'}, 'label'), ({'name': 'x', 'with_connection': 1}, 'with_connection')):
            code, answer = self.serve.call('POST', '/api/v1/stores/0/leases', body)
            self.assertEqual(code, 400, (body, answer))
            self.assertIn(field, answer['text'])

    def test_names_of_any_bytes(self):
        lease = self.serve.call('POST', '/api/v1/stores/0/leases', {'name_hex': '00ff2f3c'})[1]
        self.assertEqual(lease['name_hex'], '00ff2f3c')
        until(lambda: self.serve.row('%00%FF%2F%3C'), 'its key finds it')
        self.release(lease)


if __name__ == '__main__':
    unittest.main(verbosity=2)
