# SPDX-License-Identifier: MIT
"""
The Redis engine's scripts against a model of the permit rules (scripts_model.py), on a redis-server of
our own. Long random sequences of all scripts, by many owners on few names; after each call its
answer, the messages it sent, the records it left and their expiry are compared.

The clock is ours: call('TIME') in the scripts is replaced, so time stands still between calls and
jumps when the test says so; keys whose expiry is then over are deleted as the server would. So
every time is exact, nothing depends on how fast this machine is, and a minute costs nothing.

Usage: scripts_test.py [--seed N] [--seconds S] [--scripts DIR]
"""
import argparse
import ast
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

import resp
import scripts_foreign
from scripts_model import Model

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, '..', '..', 'src', 'engine', 'redis', 'scripts')
PREFIX = 'hf:'
STATE = ('version mode capacity taken holders waiters last soon far closed tomb exp wexp sweep').split()
SLACK = 60000


def embedded(directory):
    """The scripts as the program has them: made by the build's own step, and read back from C."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, 'scripts.c')
        subprocess.run(['cmake', '-DDIR=' + directory, '-DOUT=' + out, '-P',
                        os.path.join(SCRIPTS, 'embed.cmake')], check=True)
        code = open(out).read()
    scripts = {}
    for name, text in re.findall(r'hfi_script_(\w+) = \{\n    "\w+",\n((?:    ".*"[,]?\n)+)', code):
        scripts[name] = ''.join(ast.literal_eval(line.strip().rstrip(',')) for line in text.splitlines())
    return scripts, code


def keys_of(name):
    key = '%s{%s}' % (PREFIX, name)
    return [key, key + ':w', key + ':q']


def text(reply):
    if isinstance(reply, list):
        return [text(item) for item in reply]
    return reply.decode('latin-1') if isinstance(reply, bytes) else reply


class Mismatch(Exception):
    pass


class Caller:
    """The scripts on a connection, loaded, with our clock or the server's."""

    def __init__(self, server, scripts, clock):
        self.redis = server.connect()
        self.shas = {}
        for name, source in scripts.items():
            if clock:
                source = source.replace("call('TIME')", "call('HMGET', 'clock', 's', 'u')")
            self.shas[name] = self.redis('SCRIPT', 'LOAD', source).decode()

    def command(self, script, keys, args):
        return ['EVALSHA', self.shas[script], len(keys)] + keys + list(args)

    def __call__(self, script, keys, *args):
        return text(self.redis(*self.command(script, keys, args)))


class Run:
    NAMES = ['a', 'b', 'c']
    OWNERS = ['%032x' % i for i in range(12)]
    INBOXES = ['hf:inbox:1', 'hf:inbox:2 with a space']
    KINDS = [(0, 1), (1, 1 << 30), (2, 3), (2, 5)]

    def __init__(self, server, scripts, seed):
        self.random = random.Random(seed)
        self.call = Caller(server, scripts, True)
        self.redis = self.call.redis
        self.redis('FLUSHALL')
        self.inbox = server.connect()
        for channel in self.INBOXES:
            self.inbox('SUBSCRIBE', channel)
        self.model = Model()
        self.model.us = int(time.time() * 1e6) + 3600 * 1000000  # ahead of the server, which must expire nothing
        self.counts = {}
        self.trace = []
        self.attempt = 0
        self.expiry = {}  # of each key
        self.kind = {name: self.KINDS[0] for name in self.NAMES}
        self.set_clock()

    def close(self):
        self.redis.close()
        self.inbox.close()

    # -- time

    def set_clock(self):
        self.redis('HSET', 'clock', 's', self.model.us // 1000000, 'u', self.model.us % 1000000)

    def advance(self):
        r = self.random
        self.model.us += r.choice([0, 1, r.randrange(100), r.randrange(3000), r.randrange(3000), r.randrange(30000),
                                   r.randrange(30000), r.randrange(200000)])
        if r.random() < 0.01:
            self.model.us += r.choice([SLACK, 2 * SLACK, 3 * SLACK, 20 * SLACK]) * 1000
        if r.random() < 0.05:  # exactly at the end of something, or just after
            ends = [h.deadline + d for n in self.model.names.values() for h in n.holders.values() for d in (0, h.delay)]
            ends += [w.beat + w.window for n in self.model.names.values() for w in n.waiters]
            ends += [n.closed for n in self.model.names.values()]
            ends = [e for e in ends if e * 1000 > self.model.us]
            if ends:
                self.model.us = r.choice(ends) * 1000 + r.choice([0, 999, 1000])
        self.set_clock()
        self.expire_keys()

    def expire_keys(self):
        """What the server does to keys whose time is over, by our clock."""
        dead = [key for key, end in self.expiry.items() if self.model.now > end]
        if dead:
            self.redis('DEL', *dead)
        for key in dead:
            del self.expiry[key]

    # -- calls

    def settle(self, name, owner):
        """Whether a dead waiter is still in the server's queue is the server's affair: ask it. One that is
        alive must be there."""
        n = self.model.name(name)
        mine = self.model.waiter(n, owner)
        if not mine or self.model.alive(mine) and self.random.random() < 0.9:
            return
        there = self.redis('HEXISTS', keys_of(name)[1], owner)
        if not there and self.model.alive(mine):
            raise Mismatch('%s waits for %s and was forgotten' % (owner, name))
        if not there:
            n.waiters.remove(mine)

    def check(self, what, answer, expected):
        self.counts[what + ' ' + str(expected[0] if isinstance(expected, list) else expected)] = \
            self.counts.get(what + ' ' + str(expected[0] if isinstance(expected, list) else expected), 0) + 1
        if expected and isinstance(expected, list) and expected[0] in 'QB' and expected[1] > 0:
            if answer[0] == expected[0] and 1 <= answer[1] <= expected[1] and len(answer) == 2:
                return
        if answer != expected:
            raise Mismatch('%s answered %r and not %r' % (what, answer, expected))

    def op_acquire(self, name, owner):
        r = self.random
        if r.random() < 0.03:
            self.kind[name] = r.choice(self.KINDS)
        mode, capacity = self.kind[name] if r.random() < 0.97 else r.choice(self.KINDS)
        permits = r.choice([1, capacity]) if mode == 1 else r.choice([1, 1, 1, capacity, r.randint(1, capacity)])
        flags = r.choice([1, 1, 1, 0]) + r.choice([0, 0, 0, 0, 2]) + r.choice([0, 0, 4])
        self.attempt += 1
        args = (mode, capacity, permits, flags, r.choice([1, 64, 64, 1000, r.choice([64, 300000000])]),
                r.choice([1, 20, 100, 100, 1000, r.choice([1000, 3000000])]),
                r.choice([0, 0, 0, 0, 30, r.choice([1000, 300000])]),
                r.choice([5, 20, 50, 50, 200, r.choice([200, 400000])]), self.attempt, r.choice(self.INBOXES),
                r.choice(['', 'some label', 'a\x00\xff\r\n b']))
        self.settle(name, owner)
        self.trace.append(('acquire', name, owner) + args)
        wire = [a.encode('latin-1') if isinstance(a, str) else a for a in args]
        answer = self.call('acquire', keys_of(name), owner, *wire)
        expected = self.model.acquire(name, owner, *args)
        waiters = self.model.name(name).waiters
        if answer == ['Q', 0] and expected[0] == 'Q' and waiters[0].owner != owner:
            expected = answer  # the dead before it may not have been noticed yet
        self.check('acquire', answer, expected)

    def op_release(self, name, owner):
        tomb = self.random.choice([0, 0, 0, 0, 0, 0, 0, 40, 40, self.random.choice([40, 100000])])
        self.settle(name, owner)
        self.trace.append(('release', name, owner, tomb))
        self.check('release', self.call('release', keys_of(name), owner, tomb), self.model.release(name, owner, tomb))

    def op_cancel(self, name, owner):
        tomb = self.random.choice([0, 0, 0, 0, 0, 0, 0, 40, 40, self.random.choice([40, 100000])])
        self.settle(name, owner)
        self.trace.append(('cancel', name, owner, tomb))
        self.check('cancel', self.call('cancel', keys_of(name), owner, tomb), self.model.cancel(name, owner, tomb))

    def op_beat(self, name, owner):
        """Of one, or of all that wait anywhere."""
        beats = [(name, owner, self.random.choice([5, 20, 50, 50, 200]))]
        if self.random.random() < 0.5:
            beats = [(k, w.owner, w.window) for k, n in self.model.names.items() for w in n.waiters]
            self.random.shuffle(beats)
        if not beats:
            return
        for k, o, window in beats:
            self.settle(k, o)
        self.trace.append(('beat', beats))
        keys = [key for k, o, w in beats for key in keys_of(k)]
        answers = self.call('beat', keys, *[x for k, o, w in beats for x in (o, w)])
        if len(answers) != len(beats):
            raise Mismatch('beat answered %r' % answers)
        for (k, o, w), answer in zip(beats, answers):
            waiter = self.model.waiter(self.model.name(k), o)
            if waiter and not self.model.alive(waiter) and answer == ['N']:
                self.model.name(k).waiters.remove(waiter)  # dropped by the beat before
            self.check('beat', answer, self.model.beat(k, o, w))

    def op_renew(self, name, owner):
        items = [(name, owner, self.random.choice([1, 30, 100, 1000]))]
        if self.random.random() < 0.5:
            items += [(k, o, self.random.choice([30, 100, h.ttl])) for k, n in self.model.names.items()
                      for o, h in n.holders.items()]
        self.trace.append(('renew', items))
        answers = self.call('renew', [keys_of(k)[0] for k, o, t in items], *[x for k, o, t in items for x in (o, t)])
        for item, answer in zip(items, answers):
            self.check('renew', answer, self.model.renew(*item))

    def some_token(self, name, owner):
        r = self.random
        holders = self.model.name(name).holders
        if not holders or r.random() < 0.1:
            return owner, r.randrange(1, 2 ** 53)
        owner = r.choice(sorted(holders))
        h = holders[owner]
        return owner, r.choice([h.first, h.token, h.token, h.token, h.token + 1, h.first + h.tokens, h.first - 1])

    def op_adopt(self, name, owner):
        owner, token = self.some_token(name, owner)
        ttl = self.random.choice([0, 50, 1000])
        self.trace.append(('adopt', name, owner, token, ttl))
        self.check('adopt', self.call('adopt', keys_of(name)[:1], owner, token, ttl),
                   self.model.adopt(name, owner, token, ttl))

    def op_note(self, name, owner):
        owner, token = self.some_token(name, owner)
        self.trace.append(('note', name, owner, token))
        self.model.note(name, owner, token, 4711)
        self.check('note', self.call('note', keys_of(name)[:1], owner, token, 4711), ['D'])

    def op_break(self, name, owner):
        owner, token = self.some_token(name, owner)
        self.trace.append(('break', name, token))
        self.check('break', self.call('break', keys_of(name), token), self.model.break_(name, token))

    def op_look(self, name, owner):
        self.trace.append(('look', name))
        answer = self.call('look', keys_of(name))
        if answer[0] == 'L':
            answer[5].sort()
        self.check('look', answer, self.model.look(name))

    # -- what must hold after each call

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

    def check_all_records(self):
        commands = [['TIME']]
        for name in self.NAMES:
            key, wkey, qkey = keys_of(name)
            commands += [['HGETALL', key], ['HGETALL', wkey], ['LRANGE', qkey, 0, -1], ['PTTL', key], ['PTTL', wkey],
                         ['PTTL', qkey]]
        replies = self.redis.many(commands)
        real = int(replies[0][0]) * 1000 + int(replies[0][1]) // 1000
        for i, name in enumerate(self.NAMES):
            self.check_records(name, real, *replies[6 * i + 1:6 * i + 7])

    def check_records(self, name, real, records, waiters, queue, *ttls):
        n = self.model.name(name)
        if -1 in ttls:
            raise Mismatch('a key of %s does not expire: %r' % (name, ttls))
        records = dict(zip(records[::2], records[1::2]))
        waiters = dict(zip(waiters[::2], waiters[1::2]))
        until = self.model.counts_until(name)
        if not records:
            if until > self.model.now or waiters or queue:
                raise Mismatch('%s is gone' % name)
            return
        state = dict(zip(STATE, struct.unpack('<B13d', records[b'm'])))
        holders = {k: struct.unpack('<11d', v[:88]) for k, v in records.items() if k[:1] == b'h'}

        def must(ok, what):
            if not ok:
                raise Mismatch('%s: %s; %r' % (name, what, state))

        for key, ttl, end in zip(keys_of(name), ttls, (state['exp'], state['wexp'], state['wexp'])):
            if ttl >= 0:
                must(abs(real + ttl - end) <= 20000, 'the state knows when %s expires (%d)' % (key, real + ttl))
                self.expiry[key] = end
        must(state['version'] == 1, 'version')
        must(state['holders'] == len(holders), 'holders are counted')
        must(state['taken'] == sum(h[3] for h in holders.values()), 'permits are counted')
        must(state['taken'] <= state['capacity'] or not holders, 'no more than there are')
        must(state['waiters'] == len(waiters) == len(queue) and sorted(waiters) == sorted(queue) or
             self.model.now > state['wexp'], 'waiters are counted')
        must(all(state['soon'] <= h[0] for h in holders.values()), 'soon is a lower bound')
        must(all(state['far'] >= h[0] + h[4] for h in holders.values()), 'far is an upper bound')
        must(state['exp'] > until and state['exp'] >= self.model.now, 'the key outlives %d' % until)
        alive = [w for w in n.waiters if self.model.alive(w)]
        must(not alive or state['wexp'] > max(w.beat + w.window for w in alive), 'the queue outlives its waiters')
        must(not alive or state['exp'] >= state['wexp'], 'the name outlives its queue')
        # An idle name does not stay for ever: what it waits for is known, and some slack.
        latest = max([until, state['wexp'], self.model.now])
        if state['holders'] or state['tomb']:
            latest = max(latest, state['far'])
        must(state['exp'] <= latest + 13 * SLACK, 'the key expires some day')
        living = {o for o, h in n.holders.items() if h.deadline >= self.model.now}
        must({k[1:].decode() for k, h in holders.items() if h[0] >= self.model.now} == living, 'who holds')
        for w in alive:
            must(w.owner.encode() in waiters, 'who waits')
        must(len([k for k in records if k[:1] == b'x']) <= 200, 'tombstones are taken away')

    OPS = (['acquire'] * 30 + ['release'] * 14 + ['cancel'] * 5 + ['beat'] * 12 + ['renew'] * 8 + ['adopt'] * 3 +
           ['note'] * 3 + ['break'] * 4 + ['look'] * 3)

    def step(self):
        r = self.random
        if r.random() < 0.6:
            self.advance()
        op = r.choice(self.OPS)
        name = r.choice(self.NAMES)
        owner = r.choice(self.OWNERS)
        if op == 'release' and r.random() < 0.7:
            owner = r.choice(sorted(self.model.name(name).holders) or [owner])
        if op == 'cancel' and r.random() < 0.5:
            owner = r.choice([w.owner for w in self.model.name(name).waiters] or [owner])
        self.trace.append(('clock', self.model.us))
        getattr(self, 'op_' + op)(name, owner)
        self.check_messages()
        self.check_all_records()

    def finish(self):
        """Everybody has died: nothing of them stays."""
        last = max(self.model.counts_until(name) for name in self.NAMES)
        for state in self.redis.many([['HGET', keys_of(name)[0], 'm'] for name in self.NAMES]):
            if state:  # a lease of many that was shortened may be remembered as long as it was
                last = max(last, dict(zip(STATE, struct.unpack('<B13d', state)))['far'])
        self.model.us = int(max(last, self.model.now) + 30 * SLACK) * 1000
        self.set_clock()
        self.expire_keys()
        left = self.redis('KEYS', PREFIX + '*')
        if left:
            raise Mismatch('left behind: %r' % left)


def random_runs(server, scripts, seed, seconds):
    end = time.monotonic() + seconds
    counts, steps = {}, 0
    while True:
        run = Run(server, scripts, seed)
        try:
            for _ in range(600):
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


# -- one thing at a time

class Case:
    """One name, our clock or the server's, and short ways to call."""

    def __init__(self, server, scripts, clock=True):
        self.server = server
        self.call = Caller(server, scripts, clock)
        self.redis = self.call.redis
        self.redis('FLUSHALL')
        self.us = int(time.time() * 1e6) + 3600 * 1000000
        self.pass_ms(0)

    def pass_ms(self, ms):
        self.us += ms * 1000
        self.redis('HSET', 'clock', 's', self.us // 1000000, 'u', self.us % 1000000)

    def acquire(self, owner, name='n', mode=0, capacity=1, permits=1, flags=1, tokens=1, ttl=1000, delay=0, window=500,
                attempt=1, inbox='hf:inbox:1', label='x'):
        return self.call('acquire', keys_of(name), owner, mode, capacity, permits, flags, tokens, ttl, delay, window,
                         attempt, inbox, label)

    def release(self, owner, name='n', tomb=0):
        return self.call('release', keys_of(name), owner, tomb)

    def look(self, name='n'):
        return self.call('look', keys_of(name))

    def state(self, name='n'):
        return dict(zip(STATE, struct.unpack('<B13d', self.redis('HGET', keys_of(name)[0], 'm'))))


def equal(got, expected):
    if got != expected:
        raise Mismatch('%r and not %r' % (got, expected))


def tokens_end(case):
    """At 2^53 nothing is granted any more, and nobody is queued for it."""

    def set_last(name, last):
        state = case.state(name)
        state['last'] = float(last)
        values = list(state.values())
        case.redis('HSET', keys_of(name)[0], 'm', struct.pack('<B13d', int(values[0]), *values[1:]))

    case.acquire('a')
    case.release('a')
    set_last('n', 2 ** 53 - 65)
    equal(case.acquire('a', tokens=65), ['F'])
    equal(case.acquire('a', tokens=64), ['G', 2 ** 53 - 64, 64, 1000])
    equal(case.acquire('b', tokens=1), ['F'])
    equal(case.acquire('b', tokens=1, flags=0), ['B', 1001])
    equal(case.release('a'), ['R'])
    equal(case.acquire('b'), ['F'])
    for kind in (dict(name='n1'), dict(name='n2', mode=2, capacity=2, permits=2)):  # who waits already
        case.acquire('a', **kind)
        case.acquire('b', tokens=65, **kind)
        set_last(kind['name'], 2 ** 53 - 65)
        equal(case.release('a', kind['name']), ['R'])
        equal([len(x) for x in case.look(kind['name'])[5:]], [0, 1])
        equal(case.call('beat', keys_of(kind['name']), 'b', 500), [['Q', 0]])
        equal(case.call('cancel', keys_of(kind['name']), 'b', 0), ['C'])


def long_queue(case):
    """The dead do not pile up in a queue that stands still."""
    case.acquire('holder', ttl=10 ** 9)
    case.acquire('first', window=10 ** 9)
    for i in range(1000):
        case.acquire('w%d' % i, window=5)
        case.pass_ms(1)
        if case.state()['waiters'] > 200:
            raise Mismatch('dead waiters pile up')
    alive = [w[0] for w in case.look()[6]]
    equal(alive, ['first'] + ['w%d' % i for i in range(995, 1000)])
    case.release('holder')
    equal(case.look()[5][0][0], 'first')
    case.release('first')
    equal(case.look()[5][0][0], 'w995')


def many_at_once(case):
    """More records than a call of Lua takes arguments: they expire, and are promoted, in one script."""

    def many(prefix, window):
        case.redis.many([case.call.command('acquire', keys_of('n'), ['%s%d' % (prefix, i), 2, 10000, 1, 1, 1, 1000, 0,
                                                                     window, 1, 'hf:inbox:1', 'x'])
                         for i in range(9000)])

    many('h', 500)
    case.acquire('all', mode=2, capacity=10000, permits=10000, window=10 ** 6)
    many('w', 10 ** 6)
    case.pass_ms(1001)
    equal(case.call('beat', keys_of('n'), 'all', 1000)[0][0], 'G')
    equal([case.state()[k] for k in ('holders', 'taken', 'waiters')], [1, 10000, 9000])
    equal(case.redis('HLEN', keys_of('n')[0]), 2)
    equal(case.release('all'), ['R'])
    equal([case.state()[k] for k in ('holders', 'taken', 'waiters')], [9000, 9000, 0])
    equal(len(case.look()[5]), 9000)
    equal(case.redis('HLEN', keys_of('n')[0]), 9001)
    equal(case.redis('EXISTS', *keys_of('n')), 1)


def tombstones_go(case):
    for i in range(1000):
        case.release('t%d' % i, tomb=50)
        case.pass_ms(1)
    case.acquire('a')
    if case.redis('HLEN', keys_of('n')[0]) > 120:
        raise Mismatch('tombstones pile up')
    equal(case.acquire('t999'), ['X'])
    case.pass_ms(200)
    case.acquire('b', flags=0)
    equal(case.redis('HLEN', keys_of('n')[0]), 2)


def full_server(case):
    """At maxmemory nothing new comes in, and whoever is in can go on and leave."""
    token = case.acquire('a', flags=5, ttl=5000)[1]
    case.acquire('b')
    case.acquire('a', name='m')
    before = case.redis('HGETALL', keys_of('n')[0])
    case.redis('CONFIG', 'SET', 'maxmemory', 1)
    try:
        for args in (dict(owner='a', name='new'), dict(owner='c'), dict(owner='b')):
            try:
                case.acquire(**args)
                raise Mismatch('a full server granted %r' % args)
            except resp.Error as error:
                if 'OOM' not in str(error):
                    raise
        equal(case.redis('HGETALL', keys_of('n')[0]), before)
        equal(case.redis('EXISTS', *keys_of('new')), 0)
        equal(case.call('beat', keys_of('n'), 'b', 500)[0][0], 'Q')
        equal(case.call('renew', keys_of('n')[:1] + keys_of('m')[:1], 'a', 6000, 'a', 6000), [1, 1])
        equal(case.call('adopt', keys_of('n')[:1], 'a', token, 0)[0], 'A')
        equal(case.release('a', tomb=100), ['R'])
        equal(case.call('cancel', keys_of('n'), 'b', 100)[0], 'G')
        equal(case.release('nobody', tomb=100), ['N'])
        equal(case.release('nobody', name='nowhere', tomb=100), ['N'])
        equal(case.call('break', keys_of('n'), case.look()[5][0][1]), ['R'])
        equal(case.look(), ['N'])
    finally:
        case.redis('CONFIG', 'SET', 'maxmemory', 0)
    equal(case.acquire('nobody'), ['X'])


def no_right_to_publish(case):
    """A message that may not be sent is a lost message, and no script that stops half way."""
    kinds = {'mutex': dict(name='n1'), 'semaphore': dict(name='n2', mode=2, capacity=2, permits=2)}
    for kind in kinds.values():
        case.acquire('a', **kind)
        case.acquire('b', **kind)
    case.redis('ACL', 'SETUSER', 'mute', 'on', 'nopass', '~*', '+@all', 'resetchannels')
    case.redis('AUTH', 'mute', '')
    for kind in kinds.values():
        keys = keys_of(kind['name'])
        equal(case.release('a', kind['name']), ['R'])
        equal(case.call('beat', keys, 'b', 500)[0][0], 'G')
        equal(case.call('break', keys, case.look(kind['name'])[5][0][1]), ['R'])
    case.redis('AUTH', 'default', '')


def to_the_millisecond(case):
    """A lease holds up to its deadline, and after that nothing can be done with it, although its record is
    still there."""
    for over in (0, 1):
        case.redis('DEL', *keys_of('n'))
        token = case.acquire('a', flags=5, ttl=100)[1]
        case.pass_ms(100 + over)
        calls = [('adopt', [keys_of('n')[:1], 'a', token, 0], 'A'), ('renew', [keys_of('n')[:1], 'a', 0], 1),
                 ('cancel', [keys_of('n'), 'a', 0], 'G'), ('break', [keys_of('n'), token], 'R')]
        record = case.redis('HGETALL', keys_of('n')[0])
        for script, args, good in calls:
            case.redis('DEL', keys_of('n')[0])
            case.redis('HSET', keys_of('n')[0], *record)
            answer = case.call(script, *args)[0]
            equal((script, answer), (script, good if not over else 0 if script == 'renew' else 'N'))
        case.redis('DEL', keys_of('n')[0])
        case.redis('HSET', keys_of('n')[0], *record)
        equal(case.release('a'), ['N' if over else 'R'])


def clock_set_back(case):
    """Nobody is let in early, the order stays, tokens grow on; leases last longer, that is all."""
    token = case.acquire('a', ttl=5000, tokens=10)[1]
    case.acquire('b', window=3600000)
    case.pass_ms(-1800000)
    case.acquire('c', window=3600000)
    equal(case.acquire('d', flags=0)[0], 'B')
    answer = case.look()
    equal([h[0] for h in answer[5]] + [w[0] for w in answer[6]], ['a', 'b', 'c'])
    equal([h[6] for h in answer[5]] + [w[3] for w in answer[6]], [0, 0, 0])
    equal(case.release('a'), ['R'])
    equal(case.call('beat', keys_of('n'), 'b', 3600000), [['G', token + 10, 1, 3600000]])
    equal(case.release('b'), ['R'])
    equal(case.look()[5][0][:2], ['c', token + 11])
    equal(case.release('c'), ['R'])
    equal(case.acquire('e'), ['G', token + 12, 1, 1000])
    if case.state()['exp'] <= token / 1000:
        raise Mismatch('the counter may be forgotten before its time has come')


def token_of_now(case):
    """After a local pass the lease is known by the token that holds now, and by no other of its block."""
    token = case.acquire('a', tokens=10)[1]
    key = keys_of('n')[:1]
    case.call('note', key, 'a', token + 10, 7)
    case.call('note', key, 'a', token - 1, 7)
    case.call('note', key, 'b', token + 1, 7)
    equal(case.look()[5][0][1:4], [token, token, 10])
    case.call('note', key, 'a', token + 9, 7)
    equal(case.look()[5][0][1:4], [token + 9, token, 10])
    equal(case.look()[5][0][10], 7)
    for other in (token, token + 1, token + 8, token + 10):
        equal(case.call('break', keys_of('n'), other), ['N'])
    equal(case.call('break', keys_of('n'), token + 9), ['R'])
    equal(case.look(), ['N'])


def another_version(case):
    case.redis('HSET', keys_of('n')[0], 'm', b'\x02' + bytes(112))
    for call in (lambda: case.acquire('a'), lambda: case.release('a'), lambda: case.look()):
        try:
            call()
            raise Mismatch('took the records of another version')
        except resp.Error as error:
            if 'another version' not in str(error):
                raise
    case.redis('DEL', keys_of('n')[0])
    case.redis('SET', keys_of('n')[0], 'not ours')
    try:
        case.acquire('a')
        raise Mismatch('took a key that is not ours')
    except resp.Error as error:
        if 'WRONGTYPE' not in str(error):
            raise


def cells(case):
    key = [PREFIX + '{n}:c']
    equal(case.call('cell_read', key), ['N'])
    equal(case.call('cell_swap', key, 1, 'x'), ['V', 0])
    first = case.us
    equal(case.call('cell_swap', key, 0, 'x\x00y'), ['C', first])
    equal(case.call('cell_swap', key, 0, 'z'), ['V', first])
    equal(case.call('cell_swap', key, first + 1, 'z'), ['V', first])
    equal(case.call('cell_read', key), ['C', first, 'x\x00y', -1])
    equal(case.call('cell_read', key, 1), ['C', first, '', -1])
    equal(case.call('cell_swap', key, first, ''), ['C', first + 1])  # in the same microsecond
    equal(case.call('cell_read', key), ['C', first + 1, '', -1])
    equal(case.redis('PTTL', key[0]), -1)
    equal(case.call('cell_swap', key, first), ['V', first + 1])
    equal(case.call('cell_swap', key, first + 1), ['C', first + 1])  # no bytes: deleted
    equal(case.call('cell_read', key), ['N'])
    case.pass_ms(1)
    equal(case.call('cell_swap', key, 0, 'x'), ['C', first + 1000])


def cells_end(case):
    key = [PREFIX + '{n}:c']
    case.us = case.us // 1000 * 1000 + 999  # the last microsecond of a millisecond counts as its first
    first = case.us
    case.pass_ms(0)
    equal(case.call('cell_swap', key, 0, 'x', 20), ['C', first])
    equal(case.call('cell_read', key), ['C', first, 'x', 21])
    equal(case.redis('PEXPIRETIME', key[0]), first // 1000 + 20)
    case.pass_ms(20)
    equal(case.call('cell_read', key, 1), ['C', first, '', 1])
    case.pass_ms(1)
    equal(case.call('cell_read', key), ['N'])
    equal(case.call('cell_swap', key, first, 'y'), ['V', 0])  # also while the server has not deleted it
    equal(case.call('cell_swap', key, 0, 'y'), ['C', first + 21000])
    equal(case.call('cell_read', key), ['C', first + 21000, 'y', -1])
    equal(case.redis('PTTL', key[0]), -1)
    equal(case.call('cell_swap', key, first + 21000, 'z', 5), ['C', first + 21001])
    equal(case.call('cell_swap', key, first + 21001, 'z'), ['C', first + 21002])  # stays, from now on
    equal(case.call('cell_read', key), ['C', first + 21002, 'z', -1])
    equal(case.redis('PTTL', key[0]), -1)
    equal(case.call('cell_swap', key, first + 21002, 'z', 5), ['C', first + 21003])
    case.pass_ms(6)
    case.us -= 1000000  # set back: a version is still never used twice
    case.pass_ms(0)
    equal(case.call('cell_swap', key, first + 21003, 'w'), ['C', first + 21004])


def cells_tell(case):
    key = [PREFIX + '{n}:c']
    listener = case.server.connect()
    listener('SUBSCRIBE', key[0])
    case.call('cell_swap', key, 1, 'x')  # refused: nothing to tell
    first = case.call('cell_swap', key, 0, 'x')[1]
    case.call('cell_swap', key, first, 'y', 1000)
    case.call('cell_swap', key, 0, 'y')
    case.call('cell_swap', key, first + 1)
    for version in (first, first + 1, 0):
        equal(text(listener.read()), ['message', key[0], str(version)])
    listener.close()


def counters(case):
    key = [PREFIX + '{n}:c']
    big = 2 ** 63 - 1
    equal(case.call('counter_set', key, big, ''), ['C'])
    equal(case.redis('GET', key[0]), str(big).encode())
    equal(case.call('counter_set', key, 1, big - 1), ['V', str(big)])  # no double tells these apart
    equal(case.call('counter_set', key, -big - 1, big), ['C'])
    equal(case.call('counter_set', key, '', ''), ['C'])
    equal(case.redis('EXISTS', key[0]), 0)
    equal(case.call('counter_set', key, 5, 1), ['V', '0'])
    equal(case.call('counter_set', key, 5, 0), ['C'])  # none is 0
    case.redis('SET', key[0], 'five')
    for args in ((1, ''), (1, 5), ('', '')):
        equal(case.call('counter_set', key, *args), ['M'])
    equal(case.redis('GET', key[0]), b'five')
    case.redis('DEL', key[0])
    first = case.call('cell_swap', key, 0, 'x')[1]
    for call in (lambda: case.call('counter_set', key, 1, ''), lambda: case.call('counter_set', key, '', '')):
        try:
            call()
            raise Mismatch('took a cell for a counter')
        except resp.Error as error:
            if 'WRONGTYPE' not in str(error):
                raise
    equal(case.call('cell_read', key), ['C', first, 'x', -1])


def real_clock(case):
    """The server's own clock and expiry: granted for at least the ttl, and tokens are its time."""
    seconds, us = case.redis('TIME')
    token = case.acquire('a', ttl=60)[1]
    if abs(token - int(seconds) * 1000000 - int(us)) > 60000000:
        raise Mismatch('token %d at %s s' % (token, seconds))
    while True:
        begin = case.redis('TIME')
        answer = case.acquire('b', flags=0, ttl=100000)
        if answer[0] == 'G':
            break
        equal(answer[0], 'B')
    end = case.redis('TIME')
    if int(end[0]) * 1000000 + int(end[1]) - token < 60000:
        raise Mismatch('b was let in before a was over')
    equal(case.call('renew', keys_of('n')[:1], 'a', 1000), [0])
    equal(case.release('a'), ['N'])
    ttl = case.redis('PTTL', keys_of('n')[0])
    if not 100000 < ttl <= 100000 + 2 * SLACK:
        raise Mismatch('the key expires in %d ms' % ttl)


CASES = [tokens_end, long_queue, many_at_once, tombstones_go, full_server, no_right_to_publish,
         to_the_millisecond, clock_set_back, token_of_now, another_version, cells,
         cells_end, cells_tell, counters, real_clock]


def embedding(code, scripts, server):
    """Every script that the header declares is there, with the SHA-1 that the server gives it."""
    header = open(os.path.join(SCRIPTS, '..', 'scripts.h')).read()
    equal(set(re.findall(r'hfi_script_(\w+)', header)) - set(scripts), set())
    redis = server.connect()
    for sha, name in [(redis('SCRIPT', 'LOAD', source).decode(), name) for name, source in scripts.items()]:
        if '%d, "%s"' % (len(scripts[name]), sha) not in code:
            raise Mismatch('%s has another SHA-1 or length' % name)
    redis.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seed', type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument('--seconds', type=float, default=8)
    parser.add_argument('--scripts', default=SCRIPTS)
    options = parser.parse_args()
    scripts, code = embedded(options.scripts)
    server = resp.Server()
    try:
        embedding(code, scripts, server)
        for case in CASES:
            try:
                case(Case(server, scripts, case is not real_clock))
            except Exception:
                print('in', case.__name__)
                raise
        scripts_foreign.run(Caller(server, scripts, False), server)
        random_runs(server, scripts, options.seed, options.seconds)
    finally:
        server.close()


if __name__ == '__main__':
    try:
        main()
    except Mismatch as error:
        sys.exit('FAILED: %s' % error)
