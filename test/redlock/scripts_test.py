# SPDX-License-Identifier: MIT
"""
The Redlock engine's scripts, at one node: a redis-server of our own.

One thing at a time. (Long random sequences beside a model: test/permits.)
The clock is ours: call('TIME') in the scripts is replaced, so time stands still between calls and
jumps when the test says so; keys whose expiry is then over are deleted as the server would. So
every time is exact, nothing depends on how fast this machine is, and a minute costs nothing.

Usage: scripts_test.py [--scripts DIR]
"""
import argparse
import os
import random
import re
import struct
import sys
import time

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', part) for part in ('lib', 'permits')]

import on_redlock  # noqa: E402
from on_redlock import (CLUSTER, PREFIX, SCRIPTS, SLACK, STATE, STATE_LEN, Caller, epoch_of, keys_of, ours, owner_of, wire)

import resp
import scripts_alone
from scripts import check_hashes, embedded  # noqa: E402
from sequence import Mismatch, equal  # noqa: E402

EPOCH = epoch_of(1, 'e')
NEXT = epoch_of(2, 'f')
MARKER = b'm' * 16
INBOX = 'hf:rl:inbox:1'


class Case:
    """A node that is part of a cluster, our clock or the server's, and short ways to call."""

    def __init__(self, server, scripts):
        self.server, self.scripts = server, scripts
        self.call = Caller(server, scripts)
        self.redis = self.call.redis
        self.redis('FLUSHALL')
        self.us = int(time.time() * 1e6) + 30 * 86400 * 1000000  # ahead of the server, also when we set it back
        self.pass_ms(0)
        self.setup()

    def setup(self, floor=0, max_ttl=10 ** 9):
        self.call('mark', [CLUSTER], MARKER, 0)
        equal(self.call('install', [CLUSTER], MARKER, EPOCH, b'c' * 16, 3, max_ttl, floor), ['D'])

    def pass_ms(self, ms):
        self.us += ms * 1000
        self.redis('HSET', 'clock', 's', self.us // 1000000, 'u', self.us % 1000000)

    def acquire(self, owner, name='n', attempt=1, mode=0, capacity=1, permits=1, flags=1, proposal=0, tokens=1, ttl=1000,
                delay=0, window=500, stamp=None, start=0, epoch=EPOCH, label='x', inbox=INBOX):
        return self.ask('acquire', name, [epoch, name], owner, attempt, mode, capacity, permits, flags,
                         proposal, tokens, ttl, delay, window, self.us if stamp is None else stamp, start, inbox, label)

    def write(self, owner, t, name='n', attempt=1, epoch=EPOCH):
        return self.ask('write', name, [epoch, name], owner, attempt, t)

    def release(self, owner, name='n', attempt=1, tomb=0, proposal=0):
        return self.ask('release', name, [name], owner, attempt, tomb, proposal)

    def broken(self, owner, name='n', attempt=1, tomb=0, proposal=0):
        return self.ask('break', name, [name], owner, attempt, tomb, proposal)

    def beat(self, owner, name='n', attempt=1, window=500, flags=0, proposal=0, epoch=EPOCH):
        return self.ask('beat', name, [epoch, proposal, name], owner, attempt, window, flags)[0]

    def renew(self, owner, ttl=1000, name='n', attempt=1, token=0, tid=0, block=''):
        return self.ask('renew', name, [name], owner, attempt, ttl, token, tid, block)[0]

    def adopt(self, owner, ttl=0, name='n'):
        return self.ask('adopt', name, [name], owner, ttl)

    def look(self, name='n'):
        return self.ask('look', name, [name])

    def note(self, owner, token, tid, name='n'):
        return self.ask('note', name, [name], owner, token, tid)

    def ask(self, script, name, before, *args):
        """One name. Owners are short in this file, and the same for many names; for the scripts each has one."""
        args = list(before) + [owner_of(name, owner) for owner in args[:1]] + list(args[1:])
        return shortened(self.call(script, [CLUSTER] + keys_of(name)[:1], *args))

    def delete(self, owner, name='n', attempt=1):
        """A release without a script."""
        return self.call.delete(owner_of(name, owner), attempt)

    def who(self, name='n'):
        """The owners that hold, and those that wait."""
        answer = self.look(name)
        if answer == ['N']:
            return [], []
        return sorted(h[0] for h in answer[4]), [w[0] for w in answer[5]]

    def status(self):
        answer = self.call('status', [CLUSTER])
        if len(answer) == 8:  # it also counts leases that are alone
            answer[7] -= sum(key[:1] == b'l' for key in self.redis('HKEYS', CLUSTER))
        return answer

    def counter(self, name='n'):
        value = self.redis('HGET', CLUSTER, *wire(['n' + name]))
        return value and int(struct.unpack('<d', value[:8])[0])

    def set_counter(self, c, name='n'):
        self.redis('HSET', CLUSTER, 'n' + name, struct.pack('<d', c) + (self.redis('HGET', CLUSTER, 'n' + name) or b'')[8:])

    def state(self, name='n'):
        return dict(zip(STATE, struct.unpack('<B15d', self.redis('HGET', keys_of(name)[0], 'm')[:STATE_LEN])))


def shortened(answer):
    if isinstance(answer, list):
        return [shortened(item) for item in answer]
    return answer.split('|')[0] if isinstance(answer, str) and len(answer) == 32 and '|' in answer else answer


def fails(what, call, *args, **named):
    try:
        answer = call(*args, **named)
    except resp.Error as error:
        if what not in str(error):
            raise
        return
    raise Mismatch('%r and not an error: %s' % (answer, what))


# -- counters

def counters(case):
    """Each grant raises the counter by its block, or to the proposal's if that is higher and can be true."""
    equal(case.acquire('a', tokens=10), 10)
    equal(case.release('a'), ['R'])
    equal(case.acquire('a', tokens=10, attempt=2), 20)
    equal(case.acquire('a', tokens=10, attempt=3), 30)  # in the place of the one before
    equal(case.release('a', attempt=3), ['R'])
    at = case.us
    equal(case.acquire('b', tokens=10, proposal=at), at + 9)
    case.release('b')
    equal(case.acquire('b', tokens=5, proposal=at, attempt=2), at + 14)
    case.release('b', attempt=2)
    equal(case.acquire('b', proposal=case.us + 60000001, attempt=3), at + 15)
    case.release('b', attempt=3)
    equal(case.acquire('b', proposal=case.us + 60000000, attempt=4), at + 60000000)
    equal(case.acquire('c', tokens=7, name='other'), 7)
    equal(case.status()[3:], [3, 10 ** 9, at + 61000000, 0, 2])  # the top may be a second above
    # A hand-over raises it as well, by the waiter's block, with the proposal of the releasing client.
    case.acquire('w', tokens=3)
    case.acquire('x', tokens=3)
    equal(case.release('b', attempt=4, proposal=at), ['R'])
    equal(case.beat('w'), ['G', at + 60000003, 3, 500, ''])
    case.pass_ms(61000)
    equal(case.acquire('x', attempt=2, tokens=4, proposal=case.us), case.us + 3)
    for kind in (dict(name='m'), dict(name='s', mode=1, capacity=2, permits=2)):
        case.acquire('a', **kind)
        case.acquire('b', **kind)
        case.pass_ms(100)
        case.release('a', kind['name'], proposal=case.us + 50000000)
        equal((case.counter(kind['name']), case.status()[5]), (case.us + 50000000, case.us + 51000000))
        case.release('b', kind['name'])
        case.pass_ms(10000)
    case.acquire('c', name='m', tokens=5, proposal=case.us + 60000000)
    equal((case.counter('m'), case.status()[5]), (case.us + 60000004, case.us + 61000004))


def tokens_end(case):
    """At 2^53 nothing is granted any more, and nobody is queued for it; a write-back is refused too."""
    limit = 2 ** 53
    case.set_counter(limit - 65)
    equal(case.acquire('a', tokens=65), ['F'])
    equal(case.acquire('a', tokens=64), limit - 1)
    equal(case.acquire('b'), ['F'])
    equal(case.acquire('b', flags=0), ['B', 1001])
    equal(case.write('a', limit), ['F'])
    equal(case.write('a', limit - 1), ['G', limit - 1])
    equal(case.release('a'), ['R'])
    equal(case.acquire('b'), ['F'])
    equal(case.acquire('b', mode=2, capacity=2), ['F'])
    equal(case.status()[5], limit - 1)
    for kind in (dict(name='n1'), dict(name='n2', mode=2, capacity=2, permits=2)):  # who waits already
        case.acquire('a', **kind)
        case.acquire('b', tokens=65, **kind)
        case.set_counter(limit - 65, kind['name'])
        equal(case.release('a', kind['name']), ['R'])
        equal(case.who(kind['name']), ([], ['b']))
        equal(case.beat('b', kind['name'])[:2], ['Q', 0])
        equal(case.release('b', kind['name']), ['N'])
        equal(case.counter(kind['name']), limit - 65)


def floors(case):
    """A name without a field has the floor; idle fields go, and nothing falls by it. (Real dice.)"""
    case.redis('FLUSHALL')
    case.pass_ms(0)
    case.setup(floor=1000)
    equal(case.acquire('a', name='first'), 1001)
    old, held = {}, {}
    for i in range(100):  # fresh: none of them goes (but the first one)
        name = 'old%d' % i
        old[name] = case.acquire('a', name=name, proposal=case.us + i)
        equal(old[name], case.us + i)
        case.release('a', name=name)
    case.acquire('a', name='first', attempt=2)
    equal(case.status()[5:], [case.us + 1000000, min(1001, case.status()[6]), 101])
    case.pass_ms(60001)
    for i in range(300):  # each new one is fresh, and pays with two old ones
        name = 'new%d' % i
        held[name] = case.acquire('b', name=name, proposal=case.us + i)
    left = case.status()[7]
    if left > 340:
        raise Mismatch('%d of 400 counters are left' % left)
    for name, c in held.items():
        equal(case.counter(name), c)
    for name, c in old.items():
        if not (case.counter(name) or case.status()[6]) >= c:
            raise Mismatch('the counter of %s fell' % name)
        if not case.acquire('c', name=name) > c:
            raise Mismatch('a token of %s came twice' % name)
    # A minute later those are idle too: the floor is theirs, and a name that nobody knows is above all of them.
    case.pass_ms(60001)
    for i in range(400):
        case.acquire('d', name='newer%d' % i, proposal=case.us)
    floor = case.status()[6]
    if floor not in held.values():
        raise Mismatch('the floor is %d' % floor)
    for name, c in held.items():
        if not (case.counter(name) or floor) >= c:
            raise Mismatch('the counter of %s fell' % name)
    equal(case.acquire('e', name='unknown'), floor + 1)


def write_backs(case):
    """The counter rises while its caller holds, never falls, and is what the record says."""
    equal(case.write('a', 5), ['N'])
    equal(case.acquire('a', flags=5), 1)
    equal(case.write('a', 50), ['G', 50])
    equal(case.counter(), 50)
    equal(case.write('a', 20), ['G', 50])
    equal(case.write('b', 70), ['N'])
    equal(case.write('a', 70, attempt=2), ['N'])
    equal(case.write('a', 70, epoch=NEXT), ['E', EPOCH.decode('latin-1')])
    equal(case.acquire('a'), ['G', 50, 1, 1000, ''])
    equal(case.look()[4][0][2], 50)
    equal(case.status()[5:7], [1000001, 0])
    equal(case.adopt('a')[4], 50)
    equal(case.renew('a'), 50)  # what it witnesses
    case.pass_ms(1001)
    equal(case.write('a', 70), ['N'])
    equal(case.acquire('b'), 51)


# -- who holds

def slots(case):
    kind = dict(mode=2, capacity=5)
    equal(case.acquire('a', start=3, permits=3, **kind), ['G', 1, 1, 1000, '0,3,4'])
    equal(case.acquire('b', start=0, **kind), ['G', 2, 1, 1000, '1'])
    equal(case.acquire('c', permits=2, flags=0, **kind), ['B', 1001])
    equal(case.acquire('c', start=4, **kind), ['G', 3, 1, 1000, '2'])
    equal(case.acquire('c', start=4, **kind), ['G', 3, 1, 1000, '2'])
    equal(case.acquire('d', start=2, permits=2, **kind)[:2], ['Q', 1001])
    equal(case.release('b'), ['R'])
    equal(case.beat('d')[:2], ['Q', 1001])
    equal(case.release('c'), ['R'])
    equal(case.beat('d'), ['G', 4, 1, 500, '1,2'])
    # A later attempt asks for other slots: it first releases those that it has.
    equal(case.acquire('d', attempt=2, start=1, permits=1, **kind), ['G', 5, 1, 1000, '1'])
    equal(case.acquire('d', attempt=3, start=2, permits=2, **kind), ['G', 6, 1, 1000, '1,2'])
    case.pass_ms(900)
    equal(case.acquire('a', start=3, permits=3, **kind)[3:], [1000, '0,3,4'])
    case.pass_ms(101)
    equal(case.acquire('e', start=4, flags=0, permits=2, **kind), ['G', 7, 1, 1000, '1,2'])
    equal(case.adopt('a'), ['N'])
    fails('too many slots', case.acquire, 'x', mode=2, capacity=10 ** 9, permits=4097, name='big')
    equal(case.acquire('a', mode=2, capacity=5000, permits=4096, name='many')[0], 'G')
    equal(case.acquire('b', mode=2, capacity=5000, permits=904, name='many')[4], ','.join(str(i) for i in range(4096, 5000)))
    fails('too many slots', case.acquire, 'x', mode=2, capacity=5000, permits=4097, name='many')
    equal(case.acquire('x', mode=2, capacity=10 ** 9, permits=2, start=10 ** 9 - 1, name='big')[4], '0,999999999')


def numbered(case):
    """Its client wants to know its slots: look and adopt say so, whichever way it came to hold."""
    kind = dict(mode=2, capacity=3)
    case.acquire('a', flags=1 | 4 | 64, permits=2, **kind)
    case.acquire('b', **kind)
    case.acquire('c', flags=1 | 4 | 16 | 64, **kind)  # while all is taken
    case.acquire('d', flags=1 | 64, permits=3, **kind)
    equal({h[0]: h[5] for h in case.look()[4]}, {'a': 5, 'b': 0})
    equal([w[3] for w in case.look()[5]], [5, 1])
    equal(case.adopt('a')[9:], ['0,1', 1])
    case.release('b')
    equal({h[0]: (h[5], h[12]) for h in case.look()[4]}, {'a': (5, '0,1'), 'c': (21, '2')})
    equal(case.adopt('c')[9:], ['2', 1])
    case.release('a')
    case.release('c')
    equal([h[5] for h in case.look()[4]], [1])
    case.acquire('plain', name='other', flags=5, **kind)
    equal(case.adopt('plain', name='other')[9:], ['0'])


def attempts(case):
    """(owner, attempt) is one acquisition: an earlier attempt takes nothing from a later one."""
    case.acquire('x', name='alone')
    case.release('x', 'alone')
    case.acquire('ab', name='alone', attempt=12)
    for owner, attempt in (('a', 12), ('ab', 1), ('ab', 2), ('ab', 11), ('b', 12)):
        equal(case.release(owner, 'alone', attempt=attempt), ['N'])
        equal(case.release('ab', 'alone', attempt=12), ['R'])
        case.acquire('ab', name='alone', attempt=12)
        equal(case.delete(owner, 'alone', attempt), False)
    equal(case.release('ab', 'alone', attempt=13), ['R'])
    case.acquire('ab', name='alone', attempt=14)
    equal([case.delete('ab', 'alone', 14) for _ in range(2)], [True, False])
    equal(case.acquire('a', attempt=2), 1)
    equal(case.acquire('a', attempt=1), ['X'])
    equal(case.release('a', attempt=1), ['N'])
    equal(case.renew('a', attempt=1), 0)
    equal(case.renew('a', attempt=3), 0)
    equal(case.beat('a', attempt=1), ['N'])
    equal(case.who(), (['a'], []))
    equal(case.acquire('b', attempt=5)[:2], ['Q', 1001])
    equal(case.acquire('b', attempt=4), ['X'])
    equal(case.beat('b', attempt=4), ['N'])
    equal(case.release('b', attempt=4), ['N'])
    equal(case.who(), (['a'], ['b']))
    case.acquire('c', stamp=case.us + 1)
    case.pass_ms(1)
    equal(case.acquire('b', attempt=6, tokens=9)[:2], ['Q', 1000])  # keeps its place
    equal(case.acquire('a', attempt=3), 2)  # a new grant, in the place of the old one
    equal(case.release('a', attempt=4), ['R'])  # whatever was before 4
    equal(case.who(), (['b'], ['c']))
    equal(case.beat('b', attempt=6), ['G', 11, 9, 500, ''])
    equal(case.acquire('c', attempt=2, flags=0), ['B', 501])  # does not wait any more
    equal(case.who(), (['b'], []))
    equal(case.release('c', attempt=2), ['N'])


def tombstones(case):
    equal(case.release('a', attempt=3, tomb=100), ['N'])
    equal(case.acquire('a', attempt=3), ['X'])
    equal(case.acquire('a', attempt=2), ['X'])
    equal(case.release('a', attempt=1, tomb=20), ['N'])  # takes nothing away
    equal(case.acquire('a', attempt=3), ['X'])
    equal(case.acquire('a', attempt=4), 1)
    equal(case.release('a', attempt=4, tomb=100), ['R'])
    equal(case.acquire('a', attempt=4), ['X'])
    case.pass_ms(100)
    equal(case.acquire('a', attempt=4, flags=0), ['X'])
    case.pass_ms(1)
    equal(case.acquire('a', attempt=4, flags=0), 2)
    equal(case.broken('a', attempt=4, tomb=100), ['R'])
    equal(case.acquire('a', attempt=4), ['X'])
    case.pass_ms(101)
    case.acquire('h', ttl=10 ** 6)
    for i in range(1000):
        case.release('t%d' % i, tomb=50)
        case.pass_ms(1)
    case.acquire('a', attempt=9)
    if case.redis('HLEN', keys_of('n')[0]) > 120:
        raise Mismatch('tombstones pile up')
    equal(case.acquire('t999'), ['X'])
    case.pass_ms(200)
    case.acquire('b', flags=0)
    equal(case.redis('HLEN', keys_of('n')[0]), 2)


def stamps(case):
    """The queue is by stamp, as far as that can be believed, then by owner."""
    case.acquire('h')
    us = case.us
    for owner, stamp in (('late', us), ('d', us - 50000), ('c', us - 50000), ('liar', us - 10 ** 9), ('old', us - 100000),
                         ('future', us + 10 ** 9)):
        case.acquire(owner, stamp=stamp)
    equal(case.who()[1], ['liar', 'old', 'c', 'd', 'future', 'late'])
    equal([w[6] - us for w in case.look()[5]], [-100000, -100000, -50000, -50000, 0, 0])
    equal(case.beat('c')[:2], ['Q', 0])
    equal(case.beat('liar')[:2], ['Q', 1001])
    # A request that comes before all waiters, and fits, is granted at once.
    kind = dict(mode=2, capacity=3, name='s')
    case.acquire('h', permits=2, **kind)
    equal(case.acquire('big', permits=2, **kind)[0], 'Q')
    equal(case.acquire('later', stamp=us, **kind)[:2], ['Q', 0])
    equal(case.acquire('before', stamp=us - 5, **kind), ['G', 2, 1, 500, '2'])
    equal(case.acquire('pushy', flags=3, **kind)[0], 'Q')
    case.release('before', name='s')
    equal(case.acquire('pushy', attempt=2, flags=2, **kind)[0], 'G')
    equal(case.acquire('mutex', name='s'), ['M', 2, 3])


def yielding(case):
    """Three hold a name at one of three nodes each; asked to yield, the one with the earliest stamp gets all."""
    us = case.us
    nodes, owners = ['n1', 'n2', 'n3'], ['b', 'a', 'c']
    stamps = {'a': us - 10, 'b': us - 10, 'c': us - 5}
    for i, node in enumerate(nodes):
        for owner in owners[i:] + owners[:i]:
            case.acquire(owner, name=node, stamp=stamps[owner], window=10 ** 6, ttl=10 ** 6)
        equal(case.who(node)[0], [owners[i]])
    for owner in owners:
        for node in nodes:
            case.beat(owner, node, flags=1)
    for node in nodes:
        equal(case.who(node), (['a'], ['b', 'c']))
    c = case.counter('n1')
    equal(case.beat('a', 'n1', flags=1)[:2], ['G', c])  # it yields to nobody, and keeps what it has
    equal(case.counter('n1'), c)
    for node in ('n1', 'n2'):  # unless it is asked to step back, and somebody is there
        equal(case.beat('a', node, flags=3)[0], 'Q')
        equal(case.who(node), (['b'], ['a', 'c']))
        case.release('b', node)
        equal(case.who(node), (['a'], ['c']))
        case.release('c', node)
        equal(case.beat('a', node, flags=3)[0], 'G')
    # It went back to its place; what it gets then is a new grant.
    equal(case.look('n3')[5], [['b', 1, 1, 0, 0, 10 ** 6, us - 10, 'x'], ['c', 1, 1, 0, 0, 10 ** 6, us - 5, 'x']])
    equal(case.counter('n3'), 2)
    # Nobody yields to the dead, or to those of another epoch.
    case.acquire('x', name='m', ttl=10 ** 6)
    case.acquire('w', name='m', stamp=us - 90000, window=5)
    case.pass_ms(6)
    equal(case.beat('x', 'm', flags=1)[0], 'G')
    case.acquire('w', name='m', attempt=2, stamp=us - 90000)
    case.call('seal', [CLUSTER], EPOCH, NEXT)
    case.acquire('x', name='m', attempt=2, epoch=NEXT)
    equal(case.beat('x', 'm', attempt=2, flags=1, epoch=NEXT)[0], 'G')
    equal(case.who('m'), (['x'], []))


def message(inbox):
    return re.sub(rb'\|\w+\.+', b'', inbox.read()[2])


def messages(case):
    inbox = case.server.connect()
    inbox('SUBSCRIBE', INBOX)
    case.acquire('a', delay=50)
    case.acquire('b', tokens=3)
    case.broken('a')
    equal(message(inbox), b'L a 1 1')
    equal(case.acquire('c', flags=0), ['B', 51])
    case.pass_ms(51)
    equal(case.beat('b', window=700), ['G', 4, 3, 700, ''])
    equal(message(inbox), b'G b 1 4 3 700 ')
    kind = dict(mode=2, capacity=3, name='s')
    case.acquire('a', permits=3, **kind)
    case.acquire('b', permits=2, attempt=7, start=2, **kind)
    case.release('a', 's')
    equal(message(inbox), b'G b 7 2 1 500 0,2')
    inbox.close()
    # A message that may not be sent is a lost message, and no script that stops half way.
    case.acquire('w', **kind)
    case.acquire('w2', permits=3, **kind)
    case.redis('ACL', 'SETUSER', 'mute', 'on', 'nopass', '~*', '+@all', 'resetchannels')
    case.redis('AUTH', 'mute', '')
    equal(case.release('b', 's', attempt=7), ['R'])
    equal(case.release('w', 's'), ['R'])
    equal(case.beat('w2', 's')[0], 'G')
    equal(case.broken('w2', 's'), ['R'])
    case.redis('AUTH', 'default', '')


def to_the_millisecond(case):
    """A lease holds up to its deadline, and after that nothing can be done with it, although its record is
    still there."""
    calls = [('adopt', case.adopt, ['a'], ['N']), ('renew', case.renew, ['a', 0], 0), ('beat', case.beat, ['a'], ['N']),
             ('write', case.write, ['a', 7], ['N']), ('break', case.broken, ['a'], ['N']),
             ('release', case.release, ['a'], ['N'])]
    for others in (0, 1):
        for over in (0, 1):
            for script, call, args, bad in calls:
                case.redis('DEL', *keys_of('n'))
                case.acquire('a', flags=5, ttl=100, delay=0)
                if others:
                    case.acquire('b', window=10 ** 6)
                case.pass_ms(100 + over)
                if over and not others:
                    case.redis('DEL', keys_of('n')[0])  # the server's part: it was alone
                answer = call(*args)
                if (answer == bad) != bool(over):
                    raise Mismatch('%s: %r, %d after the end' % (script, answer, over))
    case.redis('DEL', *keys_of('n'))
    case.acquire('a', ttl=100, delay=50)
    case.pass_ms(101)
    equal(case.look()[:4], ['L', 0, 1, 50])
    equal(case.acquire('b', flags=0), ['B', 50])
    case.pass_ms(49)
    equal(case.acquire('b', flags=0), ['B', 1])
    case.pass_ms(1)
    equal(isinstance(case.acquire('b', flags=0), int), True)


def max_ttl(case):
    case.redis('FLUSHALL')
    case.pass_ms(0)
    case.setup(max_ttl=1000)
    for args in (dict(ttl=1001), dict(ttl=900, delay=101), dict(ttl=1, window=1001), dict(ttl=1, window=901, delay=100)):
        equal(case.acquire('a', **args), ['T', 1000])
    equal(case.acquire('a', ttl=900, delay=100, flags=5), 1)
    equal(case.renew('a', 901), 0)
    equal(case.adopt('a', 901), ['N'])
    equal(case.renew('a', 900), 1)
    equal(case.beat('a', window=5000), ['G', 1, 1, 900, ''])
    case.acquire('b', delay=1, ttl=500)
    equal(case.beat('b', window=5000)[0], 'Q')
    case.release('a')
    equal(case.beat('b', window=1)[3], 999)


def epochs(case):
    """Who stood in the queue of another epoch is not granted in this one, and what was granted then is not counted."""
    for name in ('free', 'alone'):  # so that they have counters, and the next client is alone
        case.acquire('a', name=name)
        case.release('a', name)
    e, f = EPOCH.decode('latin-1'), NEXT.decode('latin-1')
    case.acquire('a')
    case.acquire('b')
    equal(case.call('seal', [CLUSTER], NEXT, EPOCH), ['S', 1000001])  # it is there already
    equal(case.call('seal', [CLUSTER], epoch_of(1, 'z'), NEXT), ['E', e])
    fails('only rise', case.call, 'seal', [CLUSTER], EPOCH, epoch_of(0.5, 'z'))
    fails('only rise', case.call, 'seal', [CLUSTER], EPOCH, epoch_of(1, 'Z'))
    equal(case.call('seal', [CLUSTER], EPOCH, NEXT), ['S', 1000001])
    equal(case.call('seal', [CLUSTER], EPOCH, NEXT), ['S', 1000001])
    equal(case.acquire('c'), ['E', f])
    for wrong in (bytes(24), NEXT[:23] + b'g', b'g' + NEXT[1:]):
        equal(case.acquire('c', epoch=wrong), ['E', f])
        equal(case.acquire('c', name='free', epoch=wrong), ['E', f])
    equal(case.write('a', 9), ['E', f])
    equal(case.call('beat', [CLUSTER] + keys_of('n')[:1], EPOCH, 0, 'n', 'b', 1, 500, 0), ['E', f])
    equal(case.write('a', 9, epoch=NEXT), ['N'])
    equal(case.beat('a', epoch=NEXT), ['N'])
    equal(case.beat('b', epoch=NEXT), ['N'])
    equal(case.acquire('a', epoch=NEXT), ['X'])
    equal(case.renew('a'), 1)
    equal(case.acquire('c', epoch=NEXT)[0], 'Q')
    equal(case.beat('c', epoch=NEXT)[:2], ['Q', 1001])  # b, which was before it, does not count
    equal(case.release('a'), ['R'])
    equal(case.who(), (['c'], []))
    equal(case.acquire('b', attempt=2, epoch=NEXT)[0], 'Q')
    equal(case.status()[1], f)
    epoch = NEXT
    for number, kind in ((3, dict(name='m')), (4, dict(name='s', mode=2, capacity=2, permits=2))):
        case.acquire('x', epoch=epoch, **kind)
        case.acquire('y', epoch=epoch, **kind)
        epoch, old = epoch_of(number, 'g'), epoch
        equal(case.call('seal', [CLUSTER], old, epoch)[0], 'S')
        equal(case.acquire('z', epoch=old, **kind), ['E', epoch.decode('latin-1')])
        equal(case.release('x', kind['name']), ['R'])
        equal(case.who(kind['name']), ([], []))
        equal(case.acquire('z', name='alone', epoch=old), ['E', epoch.decode('latin-1')])


def uninitialised(case):
    """A node that has lost what it is part of has no vote; who holds can still go."""
    case.acquire('a', flags=5)
    case.acquire('b')
    case.acquire('c', name='m', mode=2, capacity=2)
    case.redis('DEL', CLUSTER)
    equal(case.status(), ['U', '', 0])
    equal(case.acquire('d', name='new'), ['U'])
    equal(case.acquire('a'), ['U'])
    equal(case.write('a', 5), ['U'])
    equal(case.call('beat', [CLUSTER] + keys_of('n')[:1], EPOCH, 0, 'n', 'b', 1, 500, 0), ['U'])
    equal(case.call('seal', [CLUSTER], EPOCH, NEXT), ['U'])
    equal(case.renew('a'), 1)
    equal(case.adopt('a')[0], 'A')
    equal(case.release('a', tomb=10), ['R'])
    equal(case.who(), ([], ['b']))  # nothing is granted here
    equal(case.broken('c', 'm'), ['R'])
    equal(case.redis('EXISTS', CLUSTER), 0)
    # A marker; then a cluster again, above all that was.
    equal(case.call('install', [CLUSTER], MARKER, EPOCH, b'c' * 16, 3, 1000, 5), ['N'])
    equal(case.call('mark', [CLUSTER], MARKER, 0), ['K', 'm' * 16, 0])
    case.pass_ms(30)
    equal(case.call('mark', [CLUSTER], b'x' * 16, 30), ['K', 'm' * 16, 30])
    case.pass_ms(1)
    equal(case.status(), ['U', 'm' * 16, 31])
    equal(case.call('mark', [CLUSTER], b'x' * 16, 0), ['K', 'm' * 16, 31])
    equal(case.call('mark', [CLUSTER], b'x' * 16, 30), ['K', 'x' * 16, 0])
    equal(case.acquire('a'), ['U'])
    case.pass_ms(-10)
    equal(case.status(), ['U', 'x' * 16, 0])
    equal(case.call('mark', [CLUSTER], b'y' * 16, 30), ['K', 'x' * 16, 0])
    case.pass_ms(5)
    equal(case.status(), ['U', 'x' * 16, 5])  # it is not new for longer than it would be
    equal(case.call('install', [CLUSTER], MARKER, NEXT, b'c' * 16, 3, 10 ** 6, 5), ['N'])
    case.set_counter(3, 'stale')
    equal(case.call('install', [CLUSTER], b'x' * 16, NEXT, b'c' * 16, 3, 10 ** 6, 5), ['D'])
    equal(case.call('install', [CLUSTER], b'x' * 16, NEXT, b'c' * 16, 3, 10 ** 6, 5), ['I'])
    equal(case.call('mark', [CLUSTER], b'x' * 16, 30), ['I'])
    equal(case.status(), ['S', NEXT.decode('latin-1'), 'c' * 16, 3, 10 ** 6, 5, 5, 0])
    equal(case.acquire('s', name='stale', epoch=NEXT), 6)


def dead_heirs(case):
    """Nobody listens to their inboxes: they are passed over, and keep their places; nothing is said to them."""
    listener = case.server.connect()
    listener('SUBSCRIBE', INBOX)

    def queue(name, **kind):
        case.acquire('holder', name=name, **kind)
        for owner in ('dead1', 'dead2', 'deaf'):
            case.acquire(owner, name=name, flags=9, window=5000, stamp=case.us - 9, inbox='hf:rl:inbox:2', **kind)
        case.acquire('living', name=name, flags=9, window=5000, **kind)
        case.pass_ms(101)

    for kind in ({}, dict(mode=2, capacity=2, permits=2)):
        name = 'n%d' % len(kind)
        queue(name, **kind)
        equal(case.release('holder', name), ['R'])
        equal(case.who(name), (['living'], ['dead1', 'dead2', 'deaf']))
        c = case.counter(name)
        for flags in (1, 3):  # none of them is one to give way to: it keeps the same grant
            equal(case.beat('living', name, flags=flags)[:2], ['G', c])
        equal(case.release('living', name), ['R'])
        equal(case.who(name), ([], ['dead1', 'dead2', 'deaf']))  # free, and nobody is there who could be told
        answer = case.acquire('new', name=name, flags=0, **kind)
        equal(answer[0] if kind else answer > 1, 'G' if kind else True)
        equal(case.beat('deaf', name, window=5000)[0], 'Q')  # one that speaks is there, deaf or not
        case.pass_ms(101)
        equal(case.release('new', name), ['R'])
        equal(case.who(name), (['deaf'], ['dead1', 'dead2']))
    queue('at once')
    case.release('holder', 'at once')
    case.release('living', 'at once')
    equal(case.beat('deaf', 'at once', window=5000)[0], 'G')
    case.acquire('holder', 'many')
    for i in range(70):
        case.acquire('dead%02d' % i, 'many', flags=9, window=5000, inbox='hf:rl:inbox:2')
    case.pass_ms(101)
    case.release('holder', 'many')
    equal(case.who('many')[0], ['dead64'])  # a bounded number in one call
    listener.close()


def clock_set_back(case):
    """Nobody has longer than the longest that he can have had; order and counters stay."""
    for kind in (dict(), dict(delay=1)):  # alone, and with a record of its own
        name = 'n%d' % len(kind)
        case.acquire('a', name=name)
        case.release('a', name)
        case.acquire('a', name=name, ttl=3000, window=500, **kind)
        equal(case.redis('EXISTS', keys_of(name)[0]), 1 if kind else 0)
        case.pass_ms(-3600000)
        equal(case.look(name)[4][0][6:8], [0, 3000])
        equal(case.acquire('b', name=name, flags=0), ['B', 3001])
        case.pass_ms(3001)
        equal(case.acquire('b', name=name, flags=0)[0] if kind else case.acquire('b', name=name, flags=0) > 1,
              'B' if kind else True)
        case.pass_ms(3600000)
    case.acquire('a', ttl=5000)
    us = case.us
    for owner in 'bcd':
        case.acquire(owner, stamp=us - ord(owner), window=5000)
    case.release('x', tomb=1000)
    case.pass_ms(-3600000)
    equal(case.acquire('x'), ['X'])
    equal(case.who(), (['a'], ['d', 'c', 'b']))
    case.acquire('z', window=5000)
    equal(case.who(), (['a'], ['d', 'c', 'b', 'z']))
    equal(case.beat('c', window=20000)[:2], ['Q', 0])
    case.pass_ms(1001)
    equal(case.acquire('x', flags=0)[0], 'B')
    case.pass_ms(4000)
    equal(case.beat('c', window=20000, proposal=case.us)[0], 'G')  # a, and d before it, are dead
    equal(case.who(), (['c'], []))
    c = case.counter()
    case.pass_ms(-10 ** 7)
    equal(case.release('c', proposal=case.us), ['R'])
    equal(case.acquire('e', proposal=case.us), c + 1)
    # A lock delay, at most as long as one can be.
    case.acquire('a', name='d', ttl=100, delay=2000)
    case.broken('a', 'd')
    case.pass_ms(-10 ** 7)
    equal(case.look('d'), ['L', 0, 1, 2001, [], []])
    equal(case.acquire('b', name='d', flags=0), ['B', 2001])
    # A little, as it happens, while somebody renews.
    case.acquire('a', name='m', delay=5, ttl=5000)
    case.acquire('b', name='m', window=5000)
    case.pass_ms(-2)
    equal(case.renew('a', 5000, name='m'), 1)
    equal(case.beat('b', 'm')[:2], ['Q', 5001])
    equal(case.release('a', 'm'), ['R'])
    equal(case.who('m'), (['b'], []))


def jumping_clock(case):
    """Whatever the clock does: never more than fit, counters only rise, and those who are dead do not stay."""
    r = random.Random(case.us)
    kinds = {'m': (0, 1), 's': (2, 3), 'rw': (1, 100)}
    last = {}
    for i in range(2000):
        name = r.choice(sorted(kinds))
        mode, capacity = kinds[name]
        owner = 'o%d' % r.randrange(6)
        case.pass_ms(r.choice([0, 0, 1, 30, -1, -30, 300, r.choice([0, 10000, -10000])]))
        op = r.randrange(8)
        if op < 4:
            case.acquire(owner, name, mode=mode, capacity=capacity, permits=r.choice([1, capacity]), ttl=100, window=50,
                         flags=r.randrange(8), proposal=r.choice([0, case.us]), delay=r.choice([0, 0, 20]))
        elif op == 4:
            case.release(owner, name, tomb=r.choice([0, 0, 0, 20]))
        elif op == 5:
            case.beat(owner, name, window=50, flags=r.randrange(4))
        elif op == 6:
            case.renew(owner, 100, name)
        else:
            case.broken(owner, name)
        answer = case.look(name)
        if answer != ['N']:
            if sum(h[4] for h in answer[4]) > answer[2]:
                raise Mismatch('too many hold: %r' % answer)
            taken = [s for h in answer[4] for s in h[12].split(',') if s]
            equal(len(set(taken)), len(taken))
            if max([h[7] for h in answer[4]] + [0]) > 100:
                raise Mismatch('longer than it can be: %r' % answer)
        c = case.counter(name) or 0
        if c < last.get(name, 0):
            raise Mismatch('a counter fell')
        last[name] = c
    for name, (mode, capacity) in kinds.items():
        case.acquire('end', name, mode=mode, capacity=capacity, permits=capacity)
        case.pass_ms(200)
        case.acquire('end', name, attempt=2, mode=mode, capacity=capacity, permits=capacity)
        case.beat('end', name, attempt=2)
        case.pass_ms(200)
        equal(case.beat('end', name, attempt=2)[0], 'G')


# -- the server

def alone(case):
    """A mutex that nobody else wants leaves nothing behind, and costs few calls."""
    case.acquire('a')
    equal(case.release('a'), ['R'])
    equal(sorted(case.redis('KEYS', PREFIX + '*')), [CLUSTER.encode()])
    case.acquire('a', label='l\0\xff ', flags=5, stamp=case.us - 5)
    equal(case.look(), ['L', 0, 1, 0, [['a', 1, case.counter(), 1, 1, 4, 0, 1000, 1000, 0, 0, 0, '', 'l\0\xff ']], []])
    case.note('a', 7, 8)
    case.note('b', 9, 9)
    equal(case.look()[4][0][10:], [7, 8, '', 'l\0\xff '])
    equal(case.release('a'), ['R'])
    equal(case.look(), ['N'])
    for kind in (dict(mode=1, capacity=9, permits=9), dict(mode=2, capacity=2), dict(delay=5)):
        case.acquire('a', **kind)
        equal(case.release('a'), ['R'])
        equal(case.redis('EXISTS', *keys_of('n')), 0)


def few_calls(case):
    """What a mutex that nobody else wants costs."""
    def calls():
        info = case.redis('INFO', 'commandstats').decode()
        return sum(int(n) for n in re.findall(r'calls=(\d+)', info))
    us = int(time.time() * 1e6)
    for attempt, later, few in ((1, 0, None), (2, 10, 4), (3, 2000000, 4), (4, 2000010, 4)):
        before = calls()
        equal(case.acquire('a', proposal=us + later, attempt=attempt, ttl=10 ** 6), us + later)
        middle = calls()
        equal(case.delete('a', attempt=attempt), True)
        if few:
            equal((middle - before - 2, calls() - middle - 1), (few, 1))  # without INFO and EVALSHA


def long_queue(case):
    """The dead do not pile up in a queue that stands still."""
    case.acquire('holder', ttl=10 ** 9, window=5)
    case.acquire('first', window=10 ** 9)
    for i in range(1000):
        case.acquire('w%d' % i, window=5)
        case.pass_ms(1)
        if case.state()['waiters'] > 200:
            raise Mismatch('dead waiters pile up')
    equal(case.who()[1], ['first'] + ['w%d' % i for i in range(995, 1000)])
    case.release('holder')
    equal(case.who()[0], ['first'])
    case.release('first')
    equal(case.who()[0], ['w995'])


def many_at_once(case):
    """More records than a call of Lua takes arguments: they expire, and are promoted, in one script."""
    kind = dict(mode=1, capacity=1 << 30)

    def many(prefix, window):
        case.redis.many([case.call.command('acquire', [CLUSTER] + keys_of('n')[:1], [
            EPOCH, 'n', owner_of('n', '%s%d' % (prefix, i)), 1, 1, 1 << 30, 1, 1, 0, 1, 1000, 0, window, case.us, 0, INBOX, 'x'])
            for i in range(3000)])

    many('h', 500)
    case.acquire('all', permits=1 << 30, window=10 ** 6, stamp=0, **kind)
    many('w', 10 ** 6)
    case.pass_ms(1001)
    equal(case.beat('all')[0], 'G')
    equal([case.state()[k] for k in ('holders', 'taken', 'waiters')], [1, 1 << 30, 3000])
    equal(case.redis('HLEN', keys_of('n')[0]), 2)
    equal(case.release('all'), ['R'])
    equal([case.state()[k] for k in ('holders', 'taken', 'waiters')], [3000, 3000, 0])
    equal(case.redis('HLEN', keys_of('n')[0]), 3001)
    equal(case.redis('EXISTS', *keys_of('n')), 1)


def everything(case, key):
    fields = case.redis('HGETALL', key)
    return dict(zip(fields[::2], fields[1::2]))


def full_server(case):
    """At maxmemory nothing new comes in, and whoever is in can go on and leave."""
    case.acquire('a', flags=5, ttl=5000)
    case.acquire('b')
    for name in ('m1', 'm2', 'm3', 'm4'):
        case.acquire('a', name=name)
    before = [everything(case, key) for key in (keys_of('n')[0], keys_of('m1')[0], CLUSTER)]
    case.redis('CONFIG', 'SET', 'maxmemory', 1)
    try:
        for args in (dict(owner='a', name='new'), dict(owner='c'), dict(owner='b'), dict(owner='c', name='m1'),
                     dict(owner='c', name='new2', mode=2, capacity=2)):
            fails('OOM', case.acquire, **args)
        equal([everything(case, key) for key in (keys_of('n')[0], keys_of('m1')[0], CLUSTER)], before)
        equal(case.redis('EXISTS', *(keys_of('new') + keys_of('new2'))), 0)
        equal(case.beat('b')[0], 'Q')
        equal([case.renew('a', 6000), case.renew('a', 6000, 'm1')], [1, 1])
        equal(case.beat('a', 'm2')[0], 'G')
        equal(case.broken('a', 'm3', tomb=100), ['R'])
        equal(case.release('a', 'm4', tomb=100), ['R'])
        equal(case.adopt('a')[0], 'A')
        equal(case.release('a', tomb=100), ['R'])
        equal(case.who(), (['b'], []))
        equal(case.release('nobody', tomb=100), ['N'])
        equal(case.release('nobody', name='nowhere', tomb=100), ['N'])
        equal(case.broken('b'), ['R'])
        equal(case.look(), ['N'])
        equal(case.call('seal', [CLUSTER], EPOCH, NEXT)[0], 'S')
    finally:
        case.redis('CONFIG', 'SET', 'maxmemory', 0)
    equal(case.acquire('nobody', epoch=NEXT), ['X'])
    equal(case.acquire('nobody', name='nowhere', epoch=NEXT), ['X'])


def another_version(case):
    case.acquire('a', mode=2, capacity=2)
    case.redis('HSET', keys_of('n')[0], 'm', b'\x01' + bytes(112))
    for call in (lambda: case.acquire('a'), lambda: case.release('a'), lambda: case.look()):
        fails('another version', call)
    case.redis('DEL', keys_of('n')[0])
    case.redis('SET', keys_of('n')[0], 'not ours')
    fails('WRONGTYPE', case.acquire, 'a')
    case.redis('HSET', CLUSTER, 'm', b'\x01' + bytes(56), 's', bytes(16))
    for call in (lambda: case.acquire('a', name='x'), lambda: case.release('a', name='x'), case.status,
                 lambda: case.call('mark', [CLUSTER], MARKER, 0), lambda: case.write('a', 1),
                 lambda: case.call('seal', [CLUSTER], EPOCH, NEXT)):
        fails('another version', call)
    equal(case.redis('EXISTS', *keys_of('x')), 0)


def real_clock(case):
    """The server's own clock and expiry: granted for at least the ttl, alone or not."""
    for kind in (dict(), dict(delay=1)):
        case.redis('DEL', *keys_of('n'))
        seconds, us = case.redis('TIME')
        begin = int(seconds) * 1000000 + int(us)
        c = case.acquire('a', ttl=60, proposal=begin, **kind)
        if c < begin:
            raise Mismatch('token %d at %d' % (c, begin))
        case.renew('nobody')
        while True:
            answer = case.acquire('b', flags=0, ttl=100000, **kind)
            if isinstance(answer, int):
                break
            equal(answer[0], 'B')
        end = case.redis('TIME')
        if int(end[0]) * 1000000 + int(end[1]) - begin < 60000:
            raise Mismatch('b was let in before a was over')
        equal(case.renew('a'), 0)
        equal(case.release('a'), ['N'])
        ttl = case.redis('PTTL', keys_of('n')[0])
        if kind and not 0 < ttl <= 100001 + 2 * SLACK:
            raise Mismatch('the key expires in %d ms' % ttl)
        equal(case.release('b'), ['R'])
    # A lone lease that has expired at the server without any call: it can neither be released by a script, nor does it
    # block.
    case.acquire('a', ttl=1)
    time.sleep(0.01)
    equal(case.release('a'), ['N'])
    case.acquire('a', attempt=2, ttl=1)
    time.sleep(0.01)
    equal(case.acquire('b', flags=0) > 0, True)
    equal((case.delete('a', attempt=2), case.delete('b')), (False, True))


def rights(case):
    """A user with no more than the commands that README.md says are needed can do everything, and needs each."""
    listed = re.search(r'```\n(\+eval [^`]*)```', open(os.path.join(SCRIPTS, 'README.md')).read())[1].split()
    used = set(re.findall(r"call\('([A-Z]+)'", ''.join(text for name, text in case.scripts.items() if not name.startswith('plain_'))))
    equal(sorted(right.split('|')[0] for right in listed), sorted(['+eval', '+evalsha'] + ['+' + command.lower() for command in used]))
    case.redis('ACL', 'SETUSER', 'locks', 'on', 'nopass', '~' + PREFIX + '*', 'resetchannels', '&%sinbox:*' % PREFIX,
               '-@all', *listed)
    case.redis('FLUSHALL')
    case.redis('CONFIG', 'RESETSTAT')
    admin, case.call.redis = case.redis, case.server.connect()
    case.call.redis('AUTH', 'locks', '')
    case.call('mark', [CLUSTER], MARKER, 0)
    case.call('install', [CLUSTER], MARKER, EPOCH, b'c' * 16, 3, 10 ** 9, 0)
    case.status()
    for kind in (dict(), dict(mode=2, capacity=2, permits=2, name='s')):
        name = kind.get('name', 'n')
        case.acquire('a', **kind)
        case.release('a', name)
        case.acquire('a', flags=5, attempt=2, **kind)
        case.look(name)
        for owner in 'bcd':
            case.acquire(owner, window=10 ** 6, **kind)
        case.write('a', 50, name, attempt=2)
        case.renew('a', name=name, attempt=2)
        case.adopt('a', name=name)
        case.note('a', 1, 1, name)
        case.beat('b', name)
        case.look(name)
        case.release('a', name, attempt=2)
        case.beat('c', name)
        case.broken('b', name, tomb=5)
        case.release('d', name)
        case.beat('c', name, flags=1)
        case.release('c', name)
    case.acquire('a', 'p')
    case.acquire('b', 'p', flags=9, window=10 ** 6)
    time.sleep(0.2)
    case.release('a', 'p')
    equal(case.who('p'), ([], ['b']))  # there is no listener, and it may check that
    case.call('seal', [CLUSTER], EPOCH, NEXT)
    run = set(re.findall(r'cmdstat_(\w+)[|:]', admin('INFO', 'commandstats').decode()))
    equal({c.lower() for c in used} - run, set())
    case.call.redis.close()


CASES = [counters, tokens_end, floors, write_backs, slots, numbered, attempts, tombstones, stamps, yielding, messages, to_the_millisecond,
         max_ttl, epochs, uninitialised, dead_heirs, clock_set_back, jumping_clock, alone, few_calls, long_queue, many_at_once, full_server,
         another_version, real_clock, rights]
SERVER_OWN = [floors, few_calls, real_clock, rights]  # its own clock, or dice


def embedding(code, scripts, server):
    """Each script has the SHA-1 that the server gives it, and none of their names is another engine's."""
    check_hashes(code, scripts, server)
    if re.search(r'hfi_script_', code):
        raise Mismatch('not all names have the prefix')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--scripts', default=SCRIPTS)
    parser.add_argument('--case')
    options = parser.parse_args()
    scripts, code = embedded(options.scripts, 'redlock_script_')
    changed = ours(scripts)
    dice = {name: s.replace(*reversed(on_redlock.DICE)) for name, s in changed.items()}
    server = resp.Server()
    try:
        embedding(code, scripts, server)
        for case in CASES + scripts_alone.CASES:
            if options.case in (None, case.__name__):
                try:
                    case(Case(server, dice if case is floors else scripts if case in SERVER_OWN else changed))
                except Exception:
                    print('in', case.__name__)
                    raise
    finally:
        server.close()


if __name__ == '__main__':
    try:
        main()
    except Mismatch as error:
        sys.exit('FAILED: %s' % error)
