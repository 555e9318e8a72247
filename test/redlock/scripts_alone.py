# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: names that are judged each by itself in one call, and notes of local passes.
"""
import on_redlock
import resp
from on_redlock import CLUSTER, keys_of, owner_of
from sequence import Mismatch, equal


def spoilers(case, name):
    """What somebody else may have done to the keys of a name."""
    keys = keys_of(name)
    yield 'WRONGTYPE ', lambda: (case.redis('DEL', keys[0]), case.redis('SET', keys[0], 'not ours'))
    yield 'by another version of Holdfast', lambda: case.redis('HSET', keys[0], 'm', b'\x01' + bytes(112))
    yield 'by another version of Holdfast', lambda: case.redis('HSET', keys[0], 'm', b'\x04' + bytes(16))


def dumps(case, name):
    return [(case.redis('DUMP', key), case.redis('PEXPIRETIME', key)) for key in keys_of(name)]


def is_error(answer, words):
    if not isinstance(answer, resp.Error) or words not in str(answer):
        raise Mismatch('%r and not %r' % (answer, words))


def begin(case):
    case.redis('FLUSHALL')
    case.pass_ms(0)
    case.setup()


def renewed_alone(case):
    for delay in (3, 5):  # written out: a lease that is alone has no key of its own
        for place in range(3):
            for words, spoil in spoilers(case, 'xyz'[place]):
                begin(case)
                for name in 'xyz':
                    case.acquire('a', name=name, delay=delay)
                spoil()
                before = dumps(case, 'xyz'[place])
                case.pass_ms(500)
                answers = case.call('renew', [CLUSTER] + [keys_of(n)[0] for n in 'xyz'],
                                    *[v for n in 'xyz' for v in (n, owner_of(n, 'a'), 1, 1000, 0, 0)])
                is_error(answers[place], words)
                for i, name in enumerate('xyz'):
                    if i != place:
                        equal(answers[i], case.counter(name))
                        equal(case.look(name)[4][0][7], 1000)
                equal(dumps(case, 'xyz'[place]), before)


def beats_alone(case):
    more = [('WRONGTYPE ', lambda key=key: (case.redis('DEL', keys_of('y')[key]), case.redis('SET', keys_of('y')[key], 'x')))
            for key in (1, 2)]
    for words, spoil in list(spoilers(case, 'y')) + more:
        begin(case)
        for name in 'xyz':
            case.acquire('a', name=name, ttl=100, delay=300)
            case.acquire('b', name=name, window=10000)
        spoil()
        before = dumps(case, 'y')
        case.pass_ms(200)  # a is dead
        args = [v for n in 'yxz' for v in (n, owner_of(n, 'b'), 1, 10000, 0)]
        answers = case.call('beat', [CLUSTER] + [keys_of(n)[0] for n in 'yxz'], case.redis('HGET', CLUSTER, 'm')[1:25], 0, *args)
        is_error(answers[0], words)
        equal([a[0] for a in answers[1:]], ['Q', 'Q'])
        equal(dumps(case, 'y'), before)


def notes_travel(case):
    """A note that was lost travels with the next renewal; neither goes back; a full server takes both."""
    for delay in (0, 5):
        begin(case)
        first = case.acquire('a', tokens=10, delay=delay)
        if isinstance(first, list):
            first = first[1]
        case.redis('CONFIG', 'SET', 'maxmemory', 1)
        try:
            equal(case.renew('a', token=first - 5, tid=7), first)
            equal(case.look()[4][0][10:12], [first - 5, 7])
            equal(case.renew('a', token=first - 6, tid=8), first)
            equal(case.renew('a'), first)
            case.note('a', first - 7, 9)
            equal(case.look()[4][0][10:12], [first - 5, 7])
            case.note('a', first - 4, 9)
            equal(case.look()[4][0][10:12], [first - 4, 9])
        finally:
            case.redis('CONFIG', 'SET', 'maxmemory', 0)
    for words, spoil in spoilers(case, 'x'):
        begin(case)
        for name in 'xy':
            case.acquire('a', name=name, tokens=10, delay=5)
        spoil()
        before = dumps(case, 'x')
        equal(case.call('note', [CLUSTER] + [keys_of(n)[0] for n in 'xy'], *[v for n in 'xy' for v in (n, owner_of(n, 'a'), 5, 6)]), ['D'])
        equal(case.look('y')[4][0][10:12], [5, 6])
        equal(dumps(case, 'x'), before)


def said_after_it_is_stored(case):
    """The state is damaged (a slot that nobody has), and a script stops at its second grant: nobody was told of a vote
    that is not stored."""
    listener = case.server.connect()
    listener('SUBSCRIBE', 'hf:rl:inbox:3')
    kind = dict(mode=2, capacity=2)
    for end in (case.release, case.broken):
        begin(case)
        case.acquire('a', permits=2, **kind)
        for owner in 'bc':
            case.acquire(owner, window=5000, inbox='hf:rl:inbox:3', **kind)
        key = keys_of('n')[0]
        case.redis('HSET', key, 'm', case.redis('HGET', key, 'm') + b',01')
        try:
            raise Mismatch('%r' % end('a'))
        except resp.Error as error:
            is_error(error, 'slots and permits do not agree')
        listener.socket.sendall(listener.pack(['PING']))
        equal(listener.read()[0], b'pong')
        case.pass_ms(5001)
        equal(case.acquire('e', flags=0, permits=2, **kind)[0], 'G')
    listener.close()


CASES = [renewed_alone, beats_alone, notes_travel, said_after_it_is_stored]
