# SPDX-License-Identifier: MIT
"""
The Redis engine's scripts on a redis-server of our own, one thing at a time. (Long random sequences beside a model:
test/permits.)

The clock is ours: call('TIME') in the scripts is replaced, so time stands still between calls and
jumps when the test says so; keys whose expiry is then over are deleted as the server would. So
every time is exact, nothing depends on how fast this machine is, and a minute costs nothing.

Usage: scripts_test.py [--scripts DIR]
"""
import argparse
import os
import re
import struct
import sys
import time

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', part) for part in ('lib', 'permits')]

import resp  # noqa: E402
import scripts_alone  # noqa: E402
import scripts_foreign  # noqa: E402
import scripts_sized  # noqa: E402
import scripts_thin  # noqa: E402
import scripts_wanted  # noqa: E402
from model import AHEAD  # noqa: E402
from on_redis import FREE, FULL, HELD, PREFIX, SCRIPTS, SLACK, Caller, inbox, keys_of, parsed, raw, records_of, shown  # noqa: E402
from scripts import check_hashes, embedded, text  # noqa: E402
from sequence import Mismatch, equal  # noqa: E402


class Case:
    """One name, our clock or the server's, and short ways to call."""

    def __init__(self, server, scripts, clock=True):
        self.server = server
        self.scripts = scripts
        self.call = Caller(server, scripts, clock)
        self.redis = self.call.redis
        self.redis('FLUSHALL')
        self.us = int(time.time() * 1e6) + 3600 * 1000000
        self.pass_ms(0)

    def pass_ms(self, ms):
        self.us += ms * 1000
        self.redis('HSET', 'clock', 's', self.us // 1000000, 'u', self.us % 1000000)

    def acquire(self, owner, name='n', mode=0, capacity=1, permits=1, flags=1, tokens=1, ttl=1000, delay=0, window=500,
                attempt=1, inbox=inbox(1), label='x'):
        return self.call('acquire', keys_of(name), owner, mode, capacity, permits, flags, tokens, ttl, delay, window,
                         attempt, inbox, label)

    def release(self, owner, name='n', tomb=0):
        return self.call('release', keys_of(name), owner, tomb)

    def look(self, name='n'):
        return self.call('look', keys_of(name))

    def state(self, name='n'):
        return parsed(records_of(self.redis, name))[0]


def tokens_end(case):
    """At 2^53 nothing is granted any more, and nobody is queued for it."""

    def set_last(name, last):
        state = case.redis('HGET', keys_of(name)[0], 'm')
        at = 1 if state[0] != FULL else 2 + 5 * 8
        case.redis('HSET', keys_of(name)[0], 'm', state[:at] + struct.pack('<d', last) + state[at + 8:])

    case.acquire('a')
    case.release('a')
    set_last('n', 2 ** 53 - 2)
    equal(case.acquire('a', tokens=65), ['G', 2 ** 53 - 1, 1, 1000])
    equal(case.acquire('b', tokens=1), ['F'])
    equal(case.acquire('b', tokens=1, flags=0), ['B', 1001])
    equal(case.release('a'), ['R'])
    equal(case.acquire('b'), ['F'])
    for kind in (dict(name='n1'), dict(name='n2', mode=2, capacity=2, permits=2)):  # who waits already
        case.acquire('a', **kind)
        case.acquire('b', tokens=65, **kind)
        set_last(kind['name'], 2 ** 53 - 1)
        equal(case.release('a', kind['name']), ['R'])
        equal([len(x) for x in case.look(kind['name'])[5:]], [0, 1])
        equal(case.call('beat', keys_of(kind['name']), 'b', 500), [['Q', 0, 2 ** 53 - 1]])
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
                                                                     window, 1, inbox(1), 'x'])
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
        equal(case.call('renew', keys_of('n')[:1] + keys_of('m')[:1], 'a', 6000, 0, 0, 'a', 6000, 0, 0), [1, 1])
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
    still there; but a thin name, which nobody has taken since, was released."""
    for over, delay in ((0, 0), (1, 0), (0, 30), (1, 30)):
        case.redis('DEL', *keys_of('n'))
        token = case.acquire('a', flags=5, ttl=100, delay=delay)[1]
        equal(case.redis('HGET', keys_of('n')[0], 'm')[0], FULL if delay else HELD)
        case.pass_ms(100 + over)
        calls = [('adopt', [keys_of('n')[:1], 'a', token, 0], 'A'), ('renew', [keys_of('n')[:1], 'a', 0, 0, 0], 1),
                 ('cancel', [keys_of('n'), 'a', 0], 'G'), ('break', [keys_of('n'), token], 'R')]
        record = case.redis('HGETALL', keys_of('n')[0])
        for script, args, good in calls:
            case.redis('DEL', keys_of('n')[0])
            case.redis('HSET', keys_of('n')[0], *record)
            answer = case.call(script, *args)[0]
            equal((script, answer), (script, good if not over else 0 if script == 'renew' else 'N'))
        case.redis('DEL', keys_of('n')[0])
        case.redis('HSET', keys_of('n')[0], *record)
        equal(case.release('a'), ['N' if over and delay else 'R'])


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


def tokens_near_the_clock(case):
    """Tokens do not run away from the clock, whatever blocks are asked for and however fast: after a loss of all data they
    go on above all before, as soon as AHEAD has passed."""
    queue = dict(mode=2, capacity=2, permits=2)  # by the rules, and not by the common case of a mutex
    for kind in (dict(), queue):
        highest = 0
        case.redis('FLUSHALL')
        case.pass_ms(0)
        for i in range(300):
            case.us += 3
            case.pass_ms(0)
            if i % 3 == 2:  # handed over, and queued again
                case.acquire('w%d' % i, tokens=1000, **kind)
                case.release('a')
                answer = case.call('beat', keys_of('n'), 'w%d' % i, 500)[0]
                case.release('w%d' % i)
            else:
                answer = case.acquire('a', tokens=1000, **kind)
                if i % 3 == 0:
                    case.release('a')
            equal(answer[0], 'G')
            if not (answer[1] > highest and answer[2] >= 1):
                raise Mismatch('%r after %d' % (answer, highest))
            highest = answer[1] + answer[2] - 1
            if highest >= case.us + AHEAD:
                raise Mismatch('%d microseconds ahead of the clock' % (highest - case.us))
        case.redis('FLUSHALL')
        case.us += AHEAD
        case.pass_ms(0)
        answer = case.acquire('b', tokens=1000, **kind)
        if answer[1] <= highest:
            raise Mismatch('%d after %d' % (answer[1], highest))
        equal(answer[2], AHEAD)
    # A clock that went back: one by one above the last.
    case.release('b')
    case.pass_ms(-3600000)
    equal(case.acquire('c', tokens=1000, **queue)[1:3], [answer[1] + AHEAD, 1])
    equal(case.release('c'), ['R'])


def dead_before_the_clock_went_back(case):
    """What is over comes to its end from when somebody looks: nothing lasts longer than it was granted for."""
    back = 600000
    for looks in ('try', 'wait', 'beat'):
        name = 'n ' + looks
        case.acquire('a', name, ttl=1000, window=500)
        case.acquire('w', name, window=1500)
        case.pass_ms(900)
        case.call('renew', keys_of(name)[:1], 'a', 1000, 0, 0)
        case.pass_ms(-back)
        equal(case.look(name)[5][0][7], 1000)
        if looks == 'beat':
            equal(case.call('beat', keys_of(name), 'w', 1500)[0][:2], ['Q', 1001])
        else:
            equal(case.acquire('b', name, flags=0 if looks == 'try' else 1)[:2],
                  ['B', 1001] if looks == 'try' else ['Q', 0])
        case.pass_ms(1000)
        equal([h[0] for h in case.look(name)[5]], ['a'])
        case.pass_ms(1)
        equal(case.acquire('c', name, flags=0)[:2], ['B', 1501])  # granted to w, for its window
        case.pass_ms(1501)
        equal(case.acquire('c', name, flags=0)[0], 'G')
        case.pass_ms(back)
    # A living holder has all that it was promised: the window where that is the longer one.
    case.acquire('a', 'm', ttl=100, window=9000)
    case.acquire('b', 'm', ttl=100, window=9000)
    case.release('a', 'm')
    case.pass_ms(-back)
    equal(case.acquire('c', 'm', flags=0), ['B', 9001])
    equal(case.call('renew', keys_of('m')[:1], 'b', 20000, 0, 0), [1])
    equal(case.acquire('c', 'm', flags=0), ['B', 20001])
    equal(case.acquire('b', 'm', ttl=30000)[3], 30000)
    case.pass_ms(-back)
    equal(case.call('cancel', keys_of('m'), 'b', 0)[3], 30000)
    # A lock delay, a tombstone; a queue of the dead is passed over as one.
    case.acquire('a', 'd', delay=2000)
    case.call('break', keys_of('d'), case.look('d')[5][0][1])
    case.release('x', 'd', tomb=3000)
    case.pass_ms(-back)
    equal(case.look('d'), ['L', 0, 1, 0, 2001, [], []])
    equal(case.acquire('b', 'd', flags=0), ['B', 2001])
    equal(case.acquire('x', 'd'), ['X'])
    case.pass_ms(2001)
    equal(case.acquire('b', 'd')[0], 'G')
    case.pass_ms(1000)
    equal(case.acquire('x', 'd', flags=0)[0], 'B')
    case.acquire('a', 'q', ttl=100)
    for i in range(5):
        case.acquire('w%d' % i, 'q', window=500)
    case.pass_ms(-back)
    case.acquire('z', 'q', window=5000)
    case.release('a', 'q')
    case.pass_ms(501)
    equal(case.call('beat', keys_of('q'), 'z', 5000)[0][0], 'G')


def queued_again_by_a_late_copy(case):
    """A waiter was granted and passed over, and a late copy of its acquire queues it again: every "queued" says the
    last token, so that the message of the grant that has ended can be told from one to come."""
    first = case.acquire('a', tokens=10)[1]
    equal(case.acquire('b', attempt=2), ['Q', 1001, first + 9])
    equal(case.acquire('c', window=5000), ['Q', 0, first + 9])
    equal(case.call('beat', keys_of('n') * 2, 'b', 500, 'c', 5000), [['Q', 1001, first + 9], ['Q', 0, first + 9]])
    case.release('a')
    old = case.look()[5][0]
    equal(old[:2], ['b', first + 10])  # its message is on its way
    case.pass_ms(501)
    now = case.call('beat', keys_of('n'), 'c', 5000)[0][1]
    equal(case.acquire('b', attempt=1), ['Q', 5001, now])
    equal(case.acquire('b', attempt=1), ['Q', 5001, now])
    equal(case.call('beat', keys_of('n'), 'b', 500), [['Q', 5001, now]])
    if not old[1] <= now:
        raise Mismatch('the old grant looks new')
    case.release('c')
    if not case.look()[5][0][1] > now:
        raise Mismatch('the new grant looks old')


def dead_heirs(case):
    """Nobody listens to their inboxes: they are passed over, and keep their places; nothing is said to them."""
    listener = case.server.connect()
    listener('SUBSCRIBE', inbox(1))

    def queue(name, **kind):
        case.acquire('holder', name=name, **kind)
        for i in range(3):
            case.acquire('dead%d' % i, name=name, flags=9, inbox=inbox(0xdead), window=5000, **kind)
        case.acquire('deaf', name=name, flags=9, inbox=inbox(0xdeaf), window=5000, **kind)
        case.acquire('alive', name=name, flags=9, window=5000, **kind)
        case.pass_ms(101)

    for kind in ({}, dict(mode=2, capacity=2, permits=2)):
        name = 'n%d' % len(kind)
        queue(name, **kind)
        case.release('holder', name)
        answer = case.look(name)
        equal(([h[0] for h in answer[5]], [w[0] for w in answer[6]]), (['alive'], ['dead0', 'dead1', 'dead2', 'deaf']))
        said = text(listener.read())[2]
        equal((said[0], shown(said[1:17])), ('G', 'alive'))
        equal(case.release('alive', name), ['R'])
        equal(case.look(name)[5], [])  # free, and nobody is there who could be told
        equal(case.acquire('new', name=name, flags=0, **kind)[0], 'G')
        # One that speaks is there, deaf or not: its turn comes with that, or like everybody's from then on.
        equal(case.call('beat', keys_of(name), 'deaf', 5000)[0][0], 'Q')
        case.pass_ms(101)
        case.release('new', name)
        answer = case.look(name)
        equal(([h[0] for h in answer[5]], [h[5] for h in answer[5]]), (['deaf'], [0]))
    queue('at once')
    case.release('holder', 'at once')
    case.release('alive', 'at once')
    equal(case.call('beat', keys_of('at once'), 'deaf', 5000)[0][0], 'G')
    # Where it is not known whether somebody listens, all is as it was.
    case.acquire('holder', 'cluster')
    case.acquire('first', 'cluster', inbox=inbox(2))
    case.acquire('second', 'cluster', flags=9)
    case.pass_ms(101)
    case.release('holder', 'cluster')
    equal([h[0] for h in case.look('cluster')[5]], ['first'])
    queue('denied')
    case.redis('ACL', 'SETUSER', 'blind', 'on', 'nopass', '~*', '&*', '+@all', '-pubsub')
    case.redis('AUTH', 'blind', '')
    case.release('holder', 'denied')
    equal([h[0] for h in case.look('denied')[5]], ['dead0'])
    case.redis('AUTH', 'default', '')
    # Not without an end in one call.
    case.acquire('holder', 'many')
    for i in range(100):
        case.acquire('dead%d' % i, 'many', flags=9, inbox=inbox(0xdead), window=5000)
    case.acquire('alive', 'many', flags=9, window=5000)
    case.pass_ms(101)
    case.release('holder', 'many')
    equal([h[0] for h in case.look('many')[5]], ['dead64'])
    listener.close()


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
    case.call('note', key, 'a', token + 5, 8)  # late: never back
    equal(case.call('renew', key, 'a', 1000, token + 5, 8), [1])
    equal(case.call('renew', key, 'a', 1000, 0, 0), [1])
    equal([case.look()[5][0][i] for i in (1, 10)], [token + 9, 7])
    for other in (token, token + 1, token + 8, token + 10):
        equal(case.call('break', keys_of('n'), other), ['N'])
    equal(case.call('break', keys_of('n'), token + 9), ['R'])
    equal(case.look(), ['N'])


def notes_are_made_good(case):
    """A note that was lost travels with the next renewal; and a note is taken by a full server too."""
    for script in ('renew', 'note'):
        token = case.acquire('a', tokens=10)[1]
        case.redis('CONFIG', 'SET', 'maxmemory', 1)
        try:
            for beyond in (token + 10, token - 1):
                case.call('renew', keys_of('n')[:1], 'a', 1000, beyond, 7)
            equal(case.look()[5][0][1], token)
            if script == 'renew':
                equal(case.call('renew', keys_of('n')[:1], 'a', 1000, token + 3, 7), [1])
            else:
                equal(case.call('note', keys_of('n')[:1], 'a', token + 3, 7), ['D'])
        finally:
            case.redis('CONFIG', 'SET', 'maxmemory', 0)
        equal(case.look()[5][0][1:4] + case.look()[5][0][10:11], [token + 3, token, 10, 7])
        equal(case.call('break', keys_of('n'), token), ['N'])
        equal(len(case.look()[5]), 1)
        equal(case.call('break', keys_of('n'), token + 3), ['R'])
        case.pass_ms(1)


def another_version(case):
    case.redis('HSET', keys_of('n')[0], 'm', b'\x01' + bytes(104))
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
    equal(case.call('renew', keys_of('n')[:1], 'a', 1000, 0, 0), [0])
    equal(case.release('a'), ['N'])
    ttl = case.redis('PTTL', keys_of('n')[0])
    if not 100000 < ttl <= 100000 + 2 * SLACK:
        raise Mismatch('the key expires in %d ms' % ttl)


CASES = [tokens_end, long_queue, many_at_once, tombstones_go, full_server, no_right_to_publish,
         to_the_millisecond, clock_set_back, dead_before_the_clock_went_back, queued_again_by_a_late_copy,
         dead_heirs, token_of_now, another_version, cells, cells_end, cells_tell, counters,
         tokens_near_the_clock, notes_are_made_good, real_clock]


def embedding(code, scripts, server):
    """Every script that the header declares is there, with the SHA-1 that the server gives it."""
    header = open(os.path.join(SCRIPTS, '..', 'scripts.h')).read()
    equal(set(re.findall(r'hfi_script_(\w+)', header)) - set(scripts), set())
    check_hashes(code, scripts, server)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--scripts', default=SCRIPTS)
    options = parser.parse_args()
    scripts, code = embedded(options.scripts, 'hfi_script_')
    server = resp.Server()
    try:
        embedding(code, scripts, server)
        for case in CASES + scripts_alone.CASES + scripts_thin.CASES + scripts_wanted.CASES + scripts_sized.CASES:
            try:
                case(Case(server, scripts, case is not real_clock))
            except Exception:
                print('in', case.__name__)
                raise
        scripts_foreign.run(Caller(server, scripts, False), server)
    finally:
        server.close()


if __name__ == '__main__':
    try:
        main()
    except Mismatch as error:
        sys.exit('FAILED: %s' % error)
