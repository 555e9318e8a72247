# SPDX-License-Identifier: MIT
"""The stream of events: deltas, details, hostile names, slow readers, a store that goes away, circles; metrics and files."""
import json
import os
import re
import socket
import subprocess
import time
import unittest

import schema
from bed import ADMIN, LIMIT, Events, Redis, Serve, until

IDLE = 29  # seconds without movement after which the server cuts a client off (IDLE_S of http.c), and one for rounding
HOSTILE = ['<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "a'b\\c", 'line\nbreak', 'data: x\n\nevent: hello\ndata: {}',
           '\u2028\u2029', '\x1b[31mred', '../../etc/passwd', '%00%2e', 'a&b=c?d#e', '.', '..', '锁', 'x' * 512, '\u202eevil', '\x9b\u2066\xad\U000e0041']


class Watch(unittest.TestCase):
    def setUp(self):
        self.redis = Redis()
        self.serve = Serve(self.redis.url, options=['--metrics-names', '3', '--leases', '5000']).ready()

    def tearDown(self):
        code = self.serve.close()
        self.redis.close()
        self.assertEqual(code, 0)

    def release(self, lease):
        self.assertEqual(self.serve.call('DELETE', '/api/v1/leases/' + lease['lease'])[0], 200)

    def test_changes_come(self):
        events = Events(self.serve)
        hello = events.find('hello')
        self.assertEqual(hello['rights'], {'break': True, 'lease': True})
        self.assertEqual(hello['stores'][0]['engine'], 'redis')
        self.assertTrue(events.find('names')['reset'])
        events.find('state', lambda data: data['up'])
        lease = self.serve.acquire('job')[1]
        row = events.find('names', lambda data: data['set'])['set'][0]
        self.assertEqual((row['name'], row['key'], row['token'], row['state']), ('job', 'job', lease['token'], 'held'))
        self.release(lease)
        self.assertEqual(events.find('names', lambda data: data['gone'])['gone'], ['job'])
        events.close()

    def test_openapi_has_all_events_and_answers(self):
        """Every event of every test is checked by Events; here each kind comes at least once, and what is read has its form too."""
        code, lease = self.serve.call('POST', '/api/v1/stores/0/leases', {'name_hex': 'ff00fe'})
        self.assertEqual(code, 201, lease)
        until(lambda: self.serve.row('%FF%00%FE'), 'the row is there')
        events = Events(self.serve, '?open=0/%FF%00%FE')
        missing = set(schema.EVENTS)
        while missing:
            missing.discard(events.next()[0])
        events.close()
        for path, at in (('/api/v1/stores', {}), ('/api/v1/stores/{store}/names', {'store': '0'}),
                         ('/api/v1/stores/{store}/names/{key}', {'store': '0', 'key': '%FF%00%FE'})):
            code, answer = self.serve.call('GET', path.format(**at))
            self.assertEqual(code, 200, answer)
            schema.check_answer(path, 'get', code, answer)

    def test_detail_of_the_open_name(self):
        lease = self.serve.acquire('a/b')[1]
        events = Events(self.serve, '?open=0/a%2Fb')
        detail = events.find('detail', lambda data: data['holders'])
        self.assertEqual((detail['key'], detail['holders'][0]['token']), ('a%2Fb', lease['token']))
        self.release(lease)
        events.find('detail', lambda data: not data['holders'])
        events.close()

    def test_hostile_names_are_text(self):
        for name in HOSTILE:
            code, answer = self.serve.acquire(name, label='<b>' + name[:50])
            self.assertEqual(code, 201, (name, answer))
        names = lambda: self.serve.call('GET', '/api/v1/stores')[1]['stores'][0]['total']['names']
        lease = self.serve.acquire('done')[1]
        until(lambda: names() == len(HOSTILE) + 1, 'a hold is seen')
        self.release(lease)
        until(lambda: names() == len(HOSTILE), 'and its end')
        self.serve.call('POST', '/api/v1/stores/0/leases', {'name_hex': 'ff00fe'})
        until(lambda: self.serve.call('GET', '/api/v1/stores/0/names')[1]['total']['names'] == len(HOSTILE) + 1, 'all are seen')
        code, answer = self.serve.call('GET', '/api/v1/stores/0/names')
        rows = {row['name']: row for row in answer['names']}
        self.assertEqual(rows['\\xff\\x00\\xfe']['name_hex'], 'ff00fe')
        for name in HOSTILE:
            self.assertRegex(rows[name]['key'], r'^[A-Za-z0-9._~%-]+$')
            code, one = self.serve.call('GET', '/api/v1/stores/0/names/' + rows[name]['key'])
            self.assertEqual((code, one['row']['name']), (200, name))
        # As bytes: nothing of it means something in HTML, and no line of an event ends early.
        connection = self.serve.connect()
        self.serve.send(connection, 'GET', '/api/v1/watch')
        response = connection.getresponse()
        line = b''
        while b'"set":[{' not in line:
            line = response.readline()
        self.assertNotRegex(line, rb'[<>&\x1b]|\xe2\x80[\xa8\xa9]')
        # Nor is there anything that a terminal obeys, or that reorders or hides a part of a line.
        self.assertNotRegex(line.decode(), '[\x80-\x9f\xad\u2028-\u202e\u2066\U000e0041]')
        self.assertIn(rb'\u202eevil', line)
        self.assertIn(rb'\u009b\u2066\u00ad\udb40\udc41', line)
        self.assertEqual({row['name'] for row in json.loads(line[6:])['set']}, set(rows))
        response.close()
        connection.close()
        self.check_metrics()

    def check_metrics(self):
        code, text = self.serve.call('GET', '/metrics')
        self.assertEqual(code, 200)
        done = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ''), text)
        self.assertIn('\nholdfast_seen_hold_seconds{', text)
        self.assertEqual(text.count('\nholdfast_name_waiters{'), 3, 'no more series than asked for')
        return text

    def test_pages_of_names(self):
        for i in range(25):
            self.serve.acquire('page-%02d' % i)
        self.serve.acquire('zzz')
        until(lambda: self.serve.call('GET', '/api/v1/stores')[1]['stores'][0]['total']['names'] == 26, 'all are seen')
        names, query = [], '?limit=10&prefix=page-'
        while query:
            answer = self.serve.call('GET', '/api/v1/stores/0/names' + query)[1]
            names += [row['name'] for row in answer['names']]
            query = answer['after'] and '?limit=10&prefix=page-&after=' + answer['after']
        self.assertEqual(names, ['page-%02d' % i for i in range(25)])

    def fill(self):
        """More rows than sockets buffer for a reader that does not read."""
        for i in range(1500):
            self.assertEqual(self.serve.acquire('many-%04d-%s' % (i, 'y' * 400), ttl_ms=600000)[0], 201)
        until(lambda: self.serve.call('GET', '/api/v1/stores')[1]['stores'][0]['total']['names'] >= 1500, 'all are seen')

    def slow(self):
        """A watcher that has not read anything yet."""
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.settimeout(LIMIT)
        slow.connect(('127.0.0.1', self.serve.port))
        slow.sendall(b'GET /api/v1/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ' + ADMIN.encode() + b'\r\n\r\n')
        return slow

    def test_slow_reader_holds_nobody_up(self):
        """One that reads nothing, while thousands of rows change: others see all of it, leases are granted."""
        began = time.monotonic()
        slow = self.slow()
        events = Events(self.serve)
        seen = set()
        self.fill()
        while len(seen) < 1500:
            seen |= {row['name'] for row in events.find('names')['set']}
        events.close()
        # When it reads at last it gets the present state, and not a copy for each change.
        data = b''
        try:
            while data.count(b'many-1499') == 0:
                more = slow.recv(65536)
                if not more:
                    raise ConnectionResetError
                data += more
        except ConnectionResetError:  # right only on a machine that needed so long for the above
            self.assertGreater(time.monotonic() - began, IDLE, 'it was not cut off before its time')
        self.assertLess(len(data), 1500 * 2500 * 3)
        slow.close()

    def test_a_reader_that_never_reads_is_cut_off(self):
        self.fill()
        slow = self.slow()
        until(lambda: self.serve.number('holdfast_serve_streams') == 1, 'it watches')
        until(lambda: self.serve.number('holdfast_serve_streams') == 0, 'its time is over')
        slow.close()

    def test_store_goes_away_and_comes_back(self):
        lease = self.serve.acquire('stays', ttl_ms=600000)[1]
        until(lambda: self.serve.row('stays'), 'the row is there')
        events = Events(self.serve)
        events.find('state', lambda data: data['up'])
        self.redis.kill()
        state = events.find('state', lambda data: not data['up'])
        self.assertTrue(state['text'])
        self.assertTrue(self.serve.row('stays'), 'the last known rows stay')
        self.assertEqual(self.serve.metric('holdfast_store_up'), 0)
        code, answer = self.serve.acquire('nobody', wait_ms=100)
        self.assertIn((code, answer['status']), [(503, 'UNAVAILABLE'), (504, 'UNKNOWN'), (423, 'TIMEOUT')])
        self.redis.start()
        events.find('state', lambda data: data['up'])
        events.close()
        code, answer = self.serve.call('POST', '/api/v1/leases/%s/renew' % lease['lease'], {})
        self.assertEqual(code, 200, answer)

    def test_several_stores(self):
        serve = Serve(self.redis.url, 'redis://127.0.0.1:1', self.redis.url + '?prefix=two:').ready().ready(2)
        try:
            self.assertEqual(serve.acquire('x', store=2)[0], 201)
            self.assertEqual(serve.acquire('x', store=0)[0], 201)
            self.assertEqual(serve.acquire('x', store=1)[0], 503)
            states = [store['up'] for store in serve.call('GET', '/api/v1/stores')[1]['stores']]
            self.assertEqual(states, [True, False, True])
        finally:
            self.assertEqual(serve.close(), 0)

    def test_a_real_deadlock_is_a_circle(self):
        """Two runs that take two names in opposite orders, and would notice after an hour."""
        url = self.redis.url + '?deadlock_check=1h'
        command = os.path.join(os.environ['HOLDFAST_BUILD'], 'bin', 'holdfast')
        events = Events(self.serve)
        runs = []
        try:
            for first, second in (('one', 'two'), ('two', 'one')):
                inner = "until [ -e %s/go ]; do sleep 0.05; done; exec %s -S '%s' run %s -- true" % (
                    self.serve.dir, command, url, second)
                runs.append(subprocess.Popen([command, '-S', url, 'run', first, '--', 'sh', '-c', inner]))
            until(lambda: self.serve.row('one') and self.serve.row('two'), 'both hold something')
            open(os.path.join(self.serve.dir, 'go'), 'w').close()
            graph = events.find('graph', lambda data: data['circles'])
            circle = graph['circles'][0]
            self.assertEqual(len(circle['nodes']), 2)
            self.assertLessEqual(set(circle['nodes']), {node['id'] for node in graph['nodes']})
            edges = {(edge['from'], edge['to']) for edge in graph['edges']}
            self.assertLessEqual({tuple(circle['nodes']), tuple(reversed(circle['nodes']))}, edges)
            self.assertEqual(self.serve.row('one')['row']['state'], 'deadlock')
            # What the page proposes ends it.
            code, answer = self.serve.call('POST', '/api/v1/stores/0/names/%s/break' % circle['break']['name'], circle['break'])
            self.assertEqual(code, 200, answer)
            events.find('graph', lambda data: not data['circles'])
        finally:
            for run in runs:
                run.terminate()
                run.wait(LIMIT)
        events.close()

    def test_many_watchers_see_the_same(self):
        watchers = [Events(self.serve) for _ in range(30)]
        lease = self.serve.acquire('all')[1]
        for events in watchers:
            events.find('names', lambda data: any(row['name'] == 'all' for row in data['set']))
        self.release(lease)
        for events in watchers:
            events.find('names', lambda data: data['gone'] == ['all'])
            events.close()
        until(lambda: 'holdfast_serve_streams 0\n' in self.serve.call('GET', '/metrics')[1], 'streams end with their clients')


class Files(unittest.TestCase):
    """alerts.yml and grafana.json ask for what is there."""
    folder = os.path.join(os.environ['HOLDFAST_SOURCE'], 'see', 'serve')

    def test_every_reference_of_openapi_leads_somewhere(self):
        for name in schema.references(schema.API):
            schema.resolve(name)

    def test_rules(self):
        done = subprocess.run(['promtool', 'check', 'rules', os.path.join(self.folder, 'alerts.yml')], capture_output=True, text=True,
                              timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_metric_that_is_asked_for_exists(self):
        redis = Redis()
        serve = Serve(redis.url).ready()
        try:
            serve.acquire('x')
            families = set(re.findall(r'^# TYPE (\S+)', serve.call('GET', '/metrics')[1], re.M))
        finally:
            serve.close()
            redis.close()
        for name in ('alerts.yml', 'grafana.json'):
            with open(os.path.join(self.folder, name)) as file:
                text = file.read()
            if name.endswith('json'):
                text = '\n'.join(target['expr'] for panel in json.loads(text)['panels'] for target in panel['targets'])
            else:
                text = '\n'.join(re.findall(r'expr: (.*)', text))
            used = set(re.findall(r'\bholdfast_\w+', text))
            self.assertTrue(used)
            self.assertEqual(used - families, set(), name)


if __name__ == '__main__':
    unittest.main(verbosity=2)
