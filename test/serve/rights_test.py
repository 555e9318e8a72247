# SPDX-License-Identifier: MIT
"""Who may do what: tokens, Host, Origin, addresses, TLS, limits; and what every answer says to browsers."""
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import time
import unittest
import urllib.request

import schema
from bed import ADMIN, LIMIT, OTHER, TAKER, TOKENS, VIEWER, Events, Redis, Serve, until

LEASE = '/api/v1/leases/' + '0' * 32
ROUTES = [  # (method, path, right)
    ('GET', '/api/v1/stores', 'read'), ('GET', '/api/v1/stores/0/names', 'read'), ('GET', '/api/v1/stores/0/names/x', 'read'),
    ('GET', '/metrics', 'read'), ('POST', '/api/v1/stores/0/names/x/break', 'break'), ('POST', '/api/v1/stores/0/leases', 'lease'),
    ('GET', LEASE, 'lease'), ('DELETE', LEASE, 'lease'), ('POST', LEASE + '/renew', 'lease')]
RIGHTS = {ADMIN: 'read break lease', VIEWER: 'read', TAKER: 'lease', OTHER: 'read lease'}


class Rights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = Redis()
        cls.serve = Serve(cls.redis.url, options=['--host', 'locks.example']).ready()

    @classmethod
    def tearDownClass(cls):
        code = cls.serve.close()
        cls.redis.close()
        assert code == 0, 'holdfast-serve ended with %s' % code

    def test_matrix(self):
        for token, rights in RIGHTS.items():
            for method, path, right in ROUTES:
                code, _ = self.serve.call(method, path, {} if method == 'POST' else None, token)
                if right in rights.split():
                    self.assertNotIn(code, (401, 403), (token, method, path))
                else:
                    self.assertEqual(code, 403, (token, method, path))

    def test_no_token(self):
        for method, path, _ in ROUTES + [('GET', '/api/v1/watch', 'read')]:
            for header in (None, 'Bearer nonsense-nonsense', 'Basic YTpi', 'Bearer ' + ADMIN[:-1], 'Bearer ' + ADMIN + 'x', 'Bearer '):
                headers = {'Authorization': header} if header else None
                self.assertEqual(self.serve.call(method, path, None, None, headers)[0], 401, (method, path, header))
        self.assertIn('Bearer', self.serve.headers['WWW-Authenticate'])

    def test_host(self):
        for host, code in (('localhost', 200), ('127.0.0.1:1', 200), ('[::1]:80', 200), ('locks.example', 200), ('LOCKS.example:99', 200),
                           ('evil.example', 403), ('localhost.evil.example', 403), ('', 403), ('localhost:80@evil', 403),
                           ('127.0.0.1.evil', 403), ('[::1', 403),
                           # An address is no name that could be made to point here: Prometheus and the kubelet write the pod's.
                           ('192.0.2.2:7411', 200), ('10.2.3.4', 200), ('127.0.0.2', 200), ('[2001:db8::7]:7411', 200), ('[::ffff:10.1.2.3]', 200),
                           ('10.2.3', 403), ('10.2.3.4.', 403), ('0x0a.2.3.4', 403), ('010.2.3.4.5', 403), ('2001:db8::7', 403), ('[10.2.3.4]', 403),
                           ('[::1]evil', 403), ('10.2.3.4evil', 403), ('[locks.example]', 403), ('[]', 403), ('10.2.3.256', 403)):
            self.assertEqual(self.serve.call('GET', '/api/v1/stores', headers={'Host': host})[0], code, host)
            self.assertEqual(self.serve.call('GET', '/metrics', headers={'Host': host})[0], code, host)
        self.assertEqual(self.serve.call('GET', '/', headers={'Host': 'evil.example'})[0], 403, 'not even the page')

    def raw(self, text):
        """What is answered until the connection ends."""
        with socket.create_connection(('127.0.0.1', self.serve.port), LIMIT) as client:
            client.sendall(text.encode())
            return b''.join(iter(lambda: client.recv(65536), b'')).decode()

    def test_a_request_that_can_be_read_in_two_ways(self):
        """A proxy in front of us may choose the other one: what it takes for a body would be the next request."""
        lease = 'POST /api/v1/stores/0/leases HTTP/1.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n' % ADMIN
        inner = 'GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
        for headers, field in (('Host: localhost\r\nHost: evil.example\r\n', 'Host'),
                               ('Host: localhost\r\nContent-Length: 2\r\nContent-Length: 50\r\n', 'Content-Length'),
                               ('Host: localhost\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n', 'Transfer-Encoding'),
                               ('Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n', 'Transfer-Encoding'),
                               ('Host: localhost\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n', 'Transfer-Encoding'),
                               ('Host: localhost\r\nContent-Length : 2\r\nContent-Length: 2\r\n', 'blank')):
            answer = self.raw(lease + headers + '\r\n{}' + inner)
            self.assertTrue(answer.startswith('HTTP/1.1 400 '), (headers, answer))
            self.assertIn(field, answer.split('\r\n\r\n')[1], headers)
            self.assertEqual(answer.count('HTTP/1.1 '), 1, 'nothing behind it is taken for a request: ' + headers)

    def test_a_body_without_end(self):
        """It is read on for a while, so that its client sees the answer; then the connection ends."""
        with socket.create_connection(('127.0.0.1', self.serve.port), LIMIT) as client:
            client.sendall(b'POST /api/v1/stores/0/leases HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n')
            with self.assertRaises(OSError):
                for _ in range(2000):
                    client.sendall(b'8000\r\n' + b'x' * 32768 + b'\r\n')

    def test_head(self):
        head = ' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n' % ADMIN
        for path in ('/', '/metrics', '/api/v1/stores', '/api/v1/watch'):
            self.assertTrue(self.raw('HEAD ' + path + head).endswith('\r\n\r\n'), path)
            self.assertEqual(self.raw('HEAD ' + path + head).count('\r\n\r\n'), 1, 'no body: ' + path)

    def test_origin(self):
        for origin, code in (('http://localhost', 200), ('https://localhost', 200), ('http://evil.example', 403), ('null', 403),
                             ('http://localhost.evil', 403), ('http://127.0.0.1', 403), ('http://192.0.2.2', 403), ('file://localhost', 403)):
            headers = {'Host': 'localhost', 'Origin': origin}
            self.assertEqual(self.serve.call('GET', '/api/v1/stores', headers=headers)[0], code, origin)
        self.assertEqual(self.serve.call('GET', '/metrics', headers={'Sec-Fetch-Site': 'cross-site'})[0], 403)

    def test_origin_of_an_address(self):
        for origin, code in (('http://10.2.3.4:7411', 200), ('http://10.2.3.5:7411', 403), ('http://10.2.3.4', 403), ('http://evil.example', 403)):
            headers = {'Host': '10.2.3.4:7411', 'Origin': origin}
            self.assertEqual(self.serve.call('GET', '/api/v1/stores', headers=headers)[0], code, origin)

    def test_probes_say_a_status_and_nothing_else(self):
        """Without a token, by the address of a pod, as the kubelet asks."""
        for path in ('/healthz', '/readyz'):
            self.assertEqual(self.serve.call('GET', path, token=None, headers={'Host': '10.2.3.4:7411'}), (200, {'status': 'OK'}), path)
            schema.check_answer(path, 'get', 200, {'status': 'OK'})
            self.assertEqual(self.serve.call('POST', path, {}, token=None)[0], 405)
            self.assertEqual(self.serve.call('GET', path, token=None, headers={'Host': 'evil.example'})[0], 403, 'the same rule as everywhere')

    def test_a_form_of_another_site_does_nothing(self):
        body = '{"name": "csrf"}'
        code, _ = self.serve.call('POST', '/api/v1/stores/0/leases', body, headers={'Content-Type': 'text/plain'})
        self.assertEqual(code, 415)
        code, _ = self.serve.call('POST', '/api/v1/stores/0/leases', '{}', headers={'Content-Type': 'Application/JSON; charset=utf-8'})
        self.assertEqual(code, 400, 'a type has no case')

    def test_headers_of_every_answer(self):
        for path in ('/', '/api/v1/stores', '/metrics', '/none', '/api/v1/stores/99/names'):
            self.serve.call('GET', path)
            self.assertIn("default-src 'none'", self.serve.headers['Content-Security-Policy'], path)
            self.assertIn("frame-ancestors 'none'", self.serve.headers['Content-Security-Policy'])
            self.assertNotIn('unsafe', self.serve.headers['Content-Security-Policy'])
            self.assertEqual(self.serve.headers['X-Content-Type-Options'], 'nosniff')
            self.assertEqual(self.serve.headers['Referrer-Policy'], 'no-referrer')
            self.assertIsNone(self.serve.headers['Access-Control-Allow-Origin'])

    def test_methods_and_paths(self):
        self.assertEqual(self.serve.call('DELETE', '/api/v1/stores')[0], 405)
        self.assertEqual(self.serve.headers['Allow'], 'GET')
        self.assertEqual(self.serve.call('PATCH', '/api/v1/stores')[0], 405)
        for path in ('/api/v1/', '/api/v2/stores', '/api/v1/stores/7/names', '/api/v1/stores/x/names', '/../etc/passwd', '/api/v1/leases/zz'):
            self.assertEqual(self.serve.call('GET', path)[0], 404, path)
        for path in ('/api/v1/stores/0/names/%zz', '/api/v1/stores/0/names?limit=x', '/api/v1/watch?open=nothing',
                     '/api/v1/stores/0/names/' + 'x' * 513):
            self.assertEqual(self.serve.call('GET', path)[0], 400, path)
        self.assertEqual(self.serve.call('POST', '/api/v1/stores/0/leases', 'x' * 9000)[0], 413)

    def test_limit_of_connections(self):
        serve = Serve(self.redis.url, tokens=None, options=['--connections', '8'])
        try:
            until(lambda: serve.call('GET', '/api/v1/stores', token=None)[0] == 200, 'it answers')
            idle = [socket.create_connection(('127.0.0.1', serve.port)) for _ in range(20)]
            idle[0].close()
            for one in idle:
                one.close()
            until(lambda: serve.call('GET', '/api/v1/stores', token=None)[0] == 200, 'it answers again')
        finally:
            self.assertEqual(serve.close(), 0)

    def test_a_part_of_a_request_and_its_end(self):
        """They may arrive as one event: the place of a client that is gone is free long before idle connections end."""
        for _ in range(40):
            with socket.create_connection(('127.0.0.1', self.serve.port), LIMIT) as client:
                client.sendall(b'GET / HT')
        idle = socket.create_connection(('127.0.0.1', self.serve.port), LIMIT)
        idle.sendall(b'GET / HT')
        until(lambda: self.serve.number('holdfast_serve_connections') <= 2, 'only the idle one and ours are left')
        idle.setblocking(False)
        with self.assertRaises(BlockingIOError):  # its time was not over: nobody waited for that
            idle.recv(1)
        idle.close()

    def test_headers_that_do_not_fit_cost_nothing(self):
        """libmicrohttpd refuses them by itself, and tells nobody."""
        def memory():
            with open('/proc/%d/status' % self.serve.process.pid) as status:
                return int(next(line for line in status if line.startswith('VmRSS')).split()[1])

        def refused(count):
            for _ in range(count):
                with contextlib.suppress(ConnectionError):
                    self.raw('GET /%s HTTP/1.1\r\nHost: localhost\r\nCookie: %s\r\n\r\n' % ('a' * 12000, 'a=b;' * 5000))
        refused(100)
        before = memory()
        refused(2000)
        if not os.environ.get('HOLDFAST_SANITIZE'):  # which keep what was freed; and find leaks by themselves
            self.assertLess(memory() - before, 16 * 1024, 'kB: a fraction of the 28 MB of their first lines')

    def test_headers_byte_by_byte(self):
        """A few bytes now and then are not enough to keep a connection: others get their turn."""
        serve = Serve(self.redis.url, tokens=None, options=['--connections', '4'])
        slow = [socket.create_connection(('127.0.0.1', serve.port)) for _ in range(4)]
        try:
            for one in slow:
                one.sendall(b'GET / HTTP/1.1\r\nHost: localhost\r\nX: ')
            with socket.create_connection(('127.0.0.1', serve.port)) as client:
                client.sendall(b'GET /api/v1/stores HTTP/1.1\r\nHost: localhost\r\n\r\n')
                client.settimeout(5)
                for _ in range(60):  # five minutes; it takes one
                    try:
                        self.assertTrue(client.recv(12).startswith(b'HTTP/1.1 200'))
                        break
                    except socket.timeout:
                        for one in slow:
                            with contextlib.suppress(OSError):
                                one.sendall(b'x')
                else:
                    self.fail('never answered')
        finally:
            for one in slow:
                one.close()
            self.assertEqual(serve.close(), 0)


class Alone(unittest.TestCase):
    """How it starts, and what it refuses. There is no store behind it: that is no reason not to answer."""
    store = 'redis://127.0.0.1:1'

    def run_it(self, *options, **environment):
        build = os.environ['HOLDFAST_BUILD']
        return subprocess.run([os.path.join(build, 'bin', 'holdfast-serve'), '-S', self.store] + list(options),
                              capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ, **environment))

    def test_others_need_tls_and_tokens(self):
        done = self.run_it('--listen', '0.0.0.0:0')
        self.assertEqual(done.returncode, 78, done)
        self.assertIn('--allow-insecure', done.stderr)

    def test_without_a_file_it_reads_only(self):
        serve = Serve(self.store, tokens=None)
        try:
            self.assertEqual(serve.call('GET', '/api/v1/stores', token=None)[0], 200)
            self.assertEqual(serve.call('POST', '/api/v1/stores/0/leases', {'name': 'x'}, None)[0], 401)
            self.assertEqual(serve.call('POST', '/api/v1/stores/0/names/x/break', {'name': 'x', 'token': '1'}, None)[0], 401)
        finally:
            self.assertEqual(serve.close(), 0)

    def test_ready_when_each_store_has_answered_or_failed(self):
        """An outage does not make it unready: the page that says so stays. A store that says nothing yet is waited for."""
        with socket.socket() as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen(64)
            serve = Serve(self.store, 'redis://127.0.0.1:%d?op_timeout=60s' % silent.getsockname()[1], tokens=None)
            try:
                code, answer = serve.call('GET', '/readyz', token=None)
                healthy = serve.call('GET', '/healthz', token=None)[0]
                unknown = serve.call('GET', '/api/v1/stores', token=None)[1]['stores'][1]
                if not unknown['text']:  # if this machine took longer than the open may take, there was nothing to see
                    self.assertEqual((code, answer['status']), (503, 'UNAVAILABLE'), 'the second one says nothing')
                    self.assertNotIn('127.0.0.1', str(answer), 'not which one')
                    schema.check_answer('/readyz', 'get', 503, answer)
                self.assertEqual(healthy, 200)
                silent.close()
                until(lambda: serve.call('GET', '/readyz', token=None)[0] == 200, 'it has failed as well')
                self.assertFalse(any(store['up'] for store in serve.call('GET', '/api/v1/stores', token=None)[1]['stores']))
            finally:
                self.assertEqual(serve.close(), 0)

    def test_no_password_in_any_answer(self):
        """Also of a URL that is wrong: a / or a ? in a password has to be escaped."""
        for url in ('redis://user:open-sesame@127.0.0.1:1', 'redis://user:open-sesame/x@127.0.0.1:1', 'redis://user:open-sesame?x@127.0.0.1:1',
                    'redis://user:x@open-sesame/x@127.0.0.1:1', 'redis://127.0.0.1:1?password=open-sesame'):
            serve = Serve(url)
            try:
                until(lambda: serve.call('GET', '/api/v1/stores')[1]['stores'][0]['text'], 'it says why the store is away')
                for path in ('/api/v1/stores', '/metrics'):
                    self.assertNotIn('open-sesame', str(serve.call('GET', path)[1]), (url, path))
            finally:
                self.assertEqual(serve.close(), 0)
            self.assertNotIn('open-sesame', open(serve.errors.name).read())

    def test_no_password_in_the_process_list(self):
        """Nor in the environment; by `holdfast serve` and by the program itself."""
        url = 'redis://user:open-sesame@127.0.0.1:1'
        for direct in (False, True):
            for stores, environment in (((url,), {}), ((), {'HOLDFAST_STORE': url})):
                serve = Serve(*stores, environment=environment, direct=direct)
                try:
                    for name in ('cmdline', 'environ'):
                        with open('/proc/%d/%s' % (serve.process.pid, name), 'rb') as file:
                            self.assertNotIn(b'open-sesame', file.read(), (direct, stores, name))
                    until(lambda: serve.call('GET', '/api/v1/stores')[1]['stores'][0]['text'], 'it tries to open the store')
                    self.assertIn('127.0.0.1:1', serve.call('GET', '/api/v1/stores')[1]['stores'][0]['text'])
                finally:
                    self.assertEqual(serve.close(), 0)

    def test_a_line_for_requests_without_a_token(self):
        serve = Serve(self.store, tokens='read - anybody\nlease %s taker\n' % TAKER)
        try:
            self.assertEqual(serve.call('GET', '/api/v1/stores', token=None)[0], 200)
            self.assertEqual(serve.call('GET', '/api/v1/stores', token=TAKER)[0], 403)
        finally:
            self.assertEqual(serve.close(), 0)

    def test_bad_token_files(self):
        serve = Serve(self.store)
        try:
            for text, why in (('read short x\n', 'TOKEN'), ('write %s x\n' % ADMIN, 'RIGHTS'), ('read %s\n' % ADMIN, 'NAME'), ('', 'no line'),
                              ('lease - x\n', 'only read'), ('read %s a\nread %s b\n' % (ADMIN, ADMIN), 'twice'),
                              ('read %s a b\n' % ADMIN, 'RIGHTS TOKEN NAME')):
                serve.write_tokens(text)
                done = self.run_it('--listen', '127.0.0.1:0', '--tokens', serve.tokens)
                self.assertEqual(done.returncode, 78, (text, done))
                self.assertIn(why, done.stderr)
                self.assertNotIn(ADMIN, done.stderr, 'no secret in a message')
            serve.write_tokens(TOKENS, 0o644)
            self.assertIn('chmod 600', self.run_it('--listen', '127.0.0.1:0', '--tokens', serve.tokens).stderr)
            # systemd's credentials: root's, and the group's bits are the mask of an access list. Elsewhere they mean a group.
            serve.write_tokens('read short x\n', 0o440)
            where = ('--listen', '127.0.0.1:0', '--tokens', serve.tokens)
            trusted = 'TOKEN' if os.getuid() == 0 else 'chmod 600'
            self.assertIn(trusted, self.run_it(*where, CREDENTIALS_DIRECTORY=os.path.dirname(serve.tokens)).stderr)
            self.assertIn('chmod 600', self.run_it(*where, CREDENTIALS_DIRECTORY=os.path.dirname(serve.tokens)[:-1]).stderr)
            self.assertIn('chmod 600', self.run_it(*where).stderr)
            serve.write_tokens('read short x\n', 0o444)
            self.assertIn('chmod 600', self.run_it(*where, CREDENTIALS_DIRECTORY=os.path.dirname(serve.tokens)).stderr)
            # A bad file is no reason to lose the good one that was read before.
            serve.process.send_signal(signal.SIGHUP)
            until(lambda: 'stay as they are' in open(serve.errors.name).read(), 'the reload is refused')
            self.assertEqual(serve.call('GET', '/api/v1/stores')[0], 200)
            serve.write_tokens('read brand-new-token-0001 fresh\n')
            serve.process.send_signal(signal.SIGHUP)
            until(lambda: serve.call('GET', '/api/v1/stores', token='brand-new-token-0001')[0] == 200, 'the new token is known')
            self.assertEqual(serve.call('GET', '/api/v1/stores')[0], 401)
        finally:
            self.assertEqual(serve.close(), 0)

    def to_the_end(self, response):
        """The last line of a stream that ends."""
        last, end = None, time.monotonic() + LIMIT
        for line in iter(response.readline, b''):
            self.assertLess(time.monotonic(), end, 'it goes on')
            last = line
        return last

    def test_a_token_that_is_withdrawn(self):
        """It reads nothing more from a stream that was begun before, waits for nothing, and keeps nothing that this server renews."""
        redis = Redis()
        serve = Serve(redis.url).ready()
        try:
            watches = [Events(serve, token=token) for token in (VIEWER, ADMIN)]
            for events in watches:
                events.find('names')
            self.assertEqual(serve.acquire('taken', ADMIN, ttl_ms=600000)[0], 201)
            held, waits = serve.connect(), serve.connect()
            serve.send(held, 'POST', '/api/v1/stores/0/leases', {'name': 'bound', 'with_connection': True}, TAKER)
            lines = held.getresponse()
            self.assertEqual(json.loads(lines.readline())['event'], 'granted')
            serve.send(waits, 'POST', '/api/v1/stores/0/leases', {'name': 'taken', 'wait_ms': 60000, 'ttl_ms': 60000}, TAKER)
            until(lambda: len((serve.row('taken') or {}).get('waiters', [])) == 1, 'it waits')
            serve.write_tokens('read,break,lease %s admin\n' % ADMIN)
            serve.process.send_signal(signal.SIGHUP)
            self.to_the_end(watches[0].response)
            self.assertEqual(json.loads(self.to_the_end(lines))['event'], 'lost')
            self.assertEqual(json.loads(waits.getresponse().read())['status'], 'CANCELLED')
            until(lambda: serve.row('bound') is None, 'what it held with its connection is released')
            self.assertEqual(serve.acquire('another', ADMIN, ttl_ms=600000)[0], 201)
            watches[1].find('names', lambda data: any(row['name'] == 'another' for row in data['set']))  # this one goes on
            for events in watches:
                events.close()
            held.close()
            waits.close()
        finally:
            self.assertEqual(serve.close(), 0)
            redis.close()

    def test_unix_socket(self):
        serve = Serve(self.store)  # for its directory
        path = os.path.join(serve.dir, 'socket')
        process = subprocess.Popen([serve.process.args[0], 'serve', '-S', self.store, '--listen', 'unix:' + path],
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn('unix:' + path, process.stdout.readline())
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(LIMIT)
                client.connect(path)
                client.sendall(b'GET /api/v1/stores HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
                self.assertTrue(client.recv(100).startswith(b'HTTP/1.1 200'))
        finally:
            process.terminate()
            self.assertEqual(process.wait(LIMIT), 0)
            process.stdout.close()
            self.assertEqual(serve.close(), 0)
        self.assertFalse(os.path.exists(path))

    def test_tls(self):
        serve = Serve(self.store)  # for its directory and tokens
        cert, key = os.path.join(serve.dir, 'cert.pem'), os.path.join(serve.dir, 'key.pem')
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out',
                        cert, '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
                       check=True, capture_output=True)
        os.chmod(key, 0o644)
        self.assertIn('chmod 600', self.run_it('--listen', '127.0.0.1:0', '--cert', cert, '--key', key).stderr)
        os.chmod(key, 0o600)
        secure = Serve(self.store, options=['--cert', cert, '--key', key])
        try:
            self.assertTrue(secure.tls)
            context = ssl.create_default_context(cafile=cert)
            request = urllib.request.Request('https://127.0.0.1:%d/api/v1/stores' % secure.port,
                                             headers={'Authorization': 'Bearer ' + ADMIN})
            with urllib.request.urlopen(request, context=context, timeout=LIMIT) as answer:
                self.assertEqual(answer.status, 200)
            for version, taken in (('-tls1_3', True), ('-tls1_2', True), ('-tls1_1', False), ('-tls1', False)):
                done = subprocess.run(['openssl', 's_client', '-connect', '127.0.0.1:%d' % secure.port, version, '-cipher', 'ALL:@SECLEVEL=0'],
                                      input='', capture_output=True, text=True, timeout=LIMIT)
                self.assertEqual('New, TLSv' in done.stdout, taken, (version, done.stdout, done.stderr))
        finally:
            self.assertEqual(secure.close(), 0)
            self.assertEqual(serve.close(), 0)


if __name__ == '__main__':
    unittest.main(verbosity=2)
