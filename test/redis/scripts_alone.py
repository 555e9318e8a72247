# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: names that are judged each by itself in one call, names of another version, and queues of
which the server has evicted a part.
"""
import struct

import resp
from on_redis import FULL, SLACK, Caller, inbox, keys_of, raw
from sequence import Mismatch, equal

SPOILT = ('kind', 'version', 'next', 'short')


def spoil(case, name, how):
    """What somebody else may have done to the key of a name that `a` holds."""
    key = keys_of(name)[0]
    if how == 'kind':
        case.redis('DEL', key)
        case.redis('SET', key, 'not ours')
    elif how == 'version':
        case.redis('HSET', key, 'm', b'\x01' + bytes(104))
    elif how == 'next':
        case.redis('HSET', key, 'm', b'\x08' + bytes(61))
    elif case.redis('HGET', key, 'm')[0] == FULL:  # damage
        case.redis('HSET', key, b'h' + raw('a'), b'x')
    else:
        case.redis('HSET', key, 'm', case.redis('HGET', key, 'm')[:30])


WORDS = {'kind': 'WRONGTYPE ', 'version': 'ERR this name was written by another version of Holdfast',
         'next': 'ERR this name was written by another version of Holdfast', 'short': 'data string too short'}


def everything(case):
    """All that is in the server, with every expiry, but for the clock."""
    found = {}
    for key in sorted(case.redis('KEYS', '*')):
        if key != b'clock':
            kind = case.redis('TYPE', key)
            found[key] = (case.redis('DUMP', key), case.redis('PEXPIRETIME', key), kind)
    return found


def is_error(answer, words):
    if not isinstance(answer, resp.Error) or words not in str(answer):
        raise Mismatch('%r and not %r' % (answer, words))


def renewed_alone(case):
    """One bad key of a renewal is its own affair, wherever it stands in the call, and is not touched."""
    for how in SPOILT:
        for place in range(3):
            case.redis('FLUSHALL')
            case.pass_ms(0)
            names = ['x', 'y', 'z']
            for name in names:
                case.acquire('a', name=name, ttl=1000)
            spoil(case, names[place], how)
            before = everything(case)
            case.pass_ms(500)
            answers = case.call('renew', [keys_of(n)[0] for n in names], *['a', 1000, 0, 0] * 3)
            is_error(answers[place], WORDS[how])
            equal([a for i, a in enumerate(answers) if i != place], [1, 1])
            key = keys_of(names[place])[0].encode()
            equal(everything(case)[key], before[key])
            case.pass_ms(600)  # the old ends are past
            equal([case.look(n)[5][0][7] for i, n in enumerate(names) if i != place], [400, 400])


def beats_alone(case):
    """The same of heartbeats: of any of the three keys, also where somebody has died meanwhile."""
    spoilers = [lambda: spoil(case, 'y', 'kind'), lambda: spoil(case, 'y', 'version'), lambda: spoil(case, 'y', 'next')]
    for key, other in ((1, ['SET']), (2, ['SET'])):
        spoilers.append(lambda key=key: (case.redis('DEL', keys_of('y')[key]),
                                         case.redis('SET', keys_of('y')[key], 'x')))
    for spoiler in spoilers:
        case.redis('FLUSHALL')
        case.pass_ms(0)
        for name in 'xyz':
            case.acquire('a', name=name, ttl=100, delay=300)
            case.acquire('b', name=name, window=10000)
        spoiler()
        before = everything(case)
        case.pass_ms(200)  # a is dead
        answers = case.call('beat', [k for n in 'yxz' for k in keys_of(n)], *['b', 10000] * 3)
        if not isinstance(answers[0], resp.Error):
            raise Mismatch('%r for a spoilt name' % answers[0])
        equal([a[0] for a in answers[1:]], ['Q', 'Q'])
        after = everything(case)
        for key in keys_of('y'):
            equal(after.get(key.encode()), before.get(key.encode()))


def notes_alone(case):
    for how in SPOILT:
        case.redis('FLUSHALL')
        case.pass_ms(0)
        tokens = {name: case.acquire('a', name=name, tokens=10)[1] for name in 'xyz'}
        spoil(case, 'x', how)
        before = everything(case)[keys_of('x')[0].encode()]
        equal(case.call('note', [keys_of(n)[0] for n in 'xyz'],
                        *[v for n in 'xyz' for v in ('a', tokens[n] + 1, 7)]), ['D'])
        equal(everything(case)[keys_of('x')[0].encode()], before)
        equal([case.look(n)[5][0][1] - tokens[n] for n in 'yz'], [1, 1])


def server_refuses(case):
    """What the server says of itself is for the whole call: the client looks for another server then."""
    for name in 'xy':
        case.acquire('a', name=name)
    spoil(case, 'x', 'version')
    case.redis('REPLICAOF', '127.0.0.1', '1')
    try:
        for script, keys, args in (('renew', [keys_of(n)[0] for n in 'xy'], ['a', 1000, 0, 0] * 2),
                                   ('beat', keys_of('x') + keys_of('y'), ['a', 500] * 2)):
            try:
                answer = case.call(script, keys, *args)
                raise Mismatch('a replica answered %r' % answer)
            except resp.Error as error:
                if 'READONLY' not in str(error):
                    raise
    finally:
        case.redis('REPLICAOF', 'NO', 'ONE')


def two_versions(case):
    """A rolling upgrade: clients of two versions on one server. Each refuses the other's names, and nobody's lease
    ends by it."""
    other = Caller(case.server, {name: source.replace('HELD, FREE, FULL = 5, 6, 7', 'HELD, FREE, FULL = 12, 13, 14')
                                 for name, source in case.scripts.items()}, True)
    case.acquire('a', name='old', ttl=1000)
    case.acquire('w', name='old', window=10000)
    ask = lambda call, name, owner: call('acquire', keys_of(name), owner, 0, 1, 1, 1, 1, 1000, 0, 500, 1, inbox(1), 'x')
    equal(ask(other, 'new', 'n')[0], 'G')
    calls = [('acquire', [0, 1, 1, 1, 1, 1000, 0, 500, 1, inbox(1), 'x']), ('acquire', [0, 1, 1, 0, 1, 1000, 0, 500, 1, inbox(1), 'x']),
             ('release', [0]), ('release', [100]), ('cancel', [0])]
    for _ in range(5):
        case.pass_ms(600)
        for call, name, owner in ((other, 'old', 'a'), (other, 'old', 'n'), (case.call, 'new', 'n'), (case.call, 'new', 'a')):
            before = everything(case)
            for script, args in calls:
                try:
                    answer = call(script, keys_of(name), owner, *args)
                    raise Mismatch('%s of another version answered %r' % (script, answer))
                except resp.Error as error:
                    if 'by another version of Holdfast' not in str(error):
                        raise
            for args in ([], [1]):
                try:
                    answer = call('break' if args else 'look', keys_of(name), *args)
                    raise Mismatch('%r' % answer)
                except resp.Error as error:
                    if 'by another version of Holdfast' not in str(error):
                        raise
            equal(everything(case), before)
        # In one call with names of the other version: the holder of each goes on.
        keys = [keys_of('old')[0], keys_of('new')[0]]
        for call, owner, mine in ((case.call, 'a', 0), (other, 'n', 1)):
            answers = call('renew', keys, *[owner, 1000, 0, 0] * 2)
            equal(answers[mine], 1)
            is_error(answers[1 - mine], 'another version')
        answers = case.call('beat', keys_of('new') + keys_of('old'), *['w', 10000] * 2)
        is_error(answers[0], 'another version')
        equal(answers[1][0], 'Q')
    equal(case.release('a', 'old'), ['R'])
    equal(case.look('old')[5][0][0], 'w')
    equal(other('release', keys_of('new'), 'n', 0), ['R'])


def another_version(case):
    """Whatever form another version has given a state: no script takes it for ours, or for damage, or touches it."""
    for state in (b'\x01' + bytes(104), b'\x08' + bytes(61), b'\x08' + bytes(16), b'\x02' + bytes(63), b'\x00', b''):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', flags=5)[1]
        case.redis('HSET', keys_of('n')[0], 'm', state)
        before = everything(case)
        for call in (lambda: case.acquire('a'), lambda: case.acquire('b'), lambda: case.acquire('b', flags=0),
                     lambda: case.release('a'), lambda: case.release('a', tomb=9), lambda: case.release('b'),
                     lambda: case.call('cancel', keys_of('n'), 'a', 0), lambda: case.look(),
                     lambda: case.call('break', keys_of('n'), token),
                     lambda: case.call('adopt', keys_of('n')[:1], 'a', token, 0)):
            try:
                raise Mismatch('%r for %r' % (call(), state))
            except resp.Error as error:
                is_error(error, 'by another version of Holdfast')
        is_error(case.call('renew', keys_of('n')[:1], 'a', 1000, 0, 0)[0], 'by another version of Holdfast')
        is_error(case.call('beat', keys_of('n'), 'a', 1000)[0], 'by another version of Holdfast')
        equal(case.call('note', keys_of('n')[:1], 'a', token, 1), ['D'])
        equal(everything(case), before)


def said_after_it_is_stored(case):
    """A waiter's record is damaged, and the script stops there: nobody was told of a grant that is not stored, and
    permits of those that are gone come back."""
    listener = case.server.connect()
    listener('SUBSCRIBE', inbox(1))
    kind = dict(mode=2, capacity=2)
    for call in (lambda token: case.release('a'), lambda token: case.call('break', keys_of('n'), token),
                 lambda token: case.call('beat', keys_of('n'), 'b', 5000)[0],
                 lambda token: case.call('cancel', keys_of('n'), 'other', 0), lambda token: case.acquire('d', **kind)):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', permits=2, inbox=inbox(2), **kind)[1]
        for owner in 'bc':
            case.acquire(owner, window=5000, **kind)
        case.redis('HSET', keys_of('n')[1], raw('c'), struct.pack('<dd', case.us // 1000, 5000))
        for ms in (0, 1001):  # a holds; it is dead
            case.pass_ms(ms)
            try:
                answer = call(token)
            except resp.Error as error:
                answer = error
            if isinstance(answer, resp.Error):
                break
        is_error(answer, 'data string too short')
        listener.socket.sendall(listener.pack(['PING']))
        equal(listener.read()[0], b'pong')
        case.redis('HDEL', keys_of('n')[1], raw('c'))
        case.pass_ms(5001)
        equal(case.acquire('e', flags=0, permits=2, **kind)[0], 'G')
    listener.close()


def late_heartbeat(case):
    """A queue whose time is over is gone, also for the heartbeat of one that is in it."""
    case.acquire('a', ttl=10 ** 9)
    case.acquire('b')
    case.pass_ms(500 + SLACK + 1)
    equal(case.call('beat', keys_of('n'), 'b', 500), [['N']])
    equal(case.redis('EXISTS', *keys_of('n')[1:]), 0)


def evicted(case):
    """A server that may evict takes one key of a queue: nobody is stuck for it, and no key stays for ever."""
    # By the common case; by the rules; by the rules while nobody may be granted (a lock delay).
    for kind in (dict(), dict(mode=2, capacity=3, permits=2), dict(delay=1000)):
        for gone in (1, 2):
            for ask in (1, 0):  # a newcomer, or nobody, finds it first
                case.redis('FLUSHALL')
                case.pass_ms(0)
                token = case.acquire('a', ttl=10 ** 6, **kind)[1]
                if 'delay' in kind:
                    equal(case.call('break', keys_of('n'), token), ['R'])
                for owner in 'bcd':
                    case.acquire(owner, window=50000, **kind)
                case.redis('DEL', keys_of('n')[gone])
                if ask:
                    equal(case.acquire('e', window=5000, **kind)[0], 'Q')
                    case.call('beat', keys_of('n'), 'e', 5000)  # gives the new keys an expiry
                    for owner in 'bcd':  # told at once: newcomers could keep the list from ever being empty
                        equal(case.call('beat', keys_of('n'), owner, 50000), [['N']])
                        equal(case.acquire(owner, window=50000, **kind)[0], 'Q')
                    if gone == 2:
                        equal([w[0] for w in case.look()[6]], list('ebcd'))
                for key in keys_of('n')[1:]:
                    if case.redis('PTTL', key) == -1:
                        raise Mismatch('%s does not expire' % key)
                if 'delay' in kind:
                    case.pass_ms(1001)
                else:
                    equal(case.release('a'), ['R'])
                waiting, got = set('bcde' if ask else 'bcd'), []
                for _ in range(20):  # as clients do: a heartbeat, and a new acquire if it was forgotten
                    for owner in sorted(waiting):
                        answer = case.call('beat', keys_of('n'), owner, 50000)[0]
                        if answer == ['N']:
                            answer = case.acquire(owner, window=50000, **kind)
                        if answer[0] == 'G':
                            got.append(owner)
                            waiting.remove(owner)
                            equal(case.release(owner), ['R'])
                equal(sorted(got), sorted('bcde' if ask else 'bcd'))
                case.pass_ms(20 * SLACK)
                equal(case.acquire('z', flags=0, **kind)[0], 'G')


CASES = [renewed_alone, beats_alone, notes_alone, server_refuses, two_versions, another_version, said_after_it_is_stored,
         late_heartbeat, evicted]
