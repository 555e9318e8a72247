# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: permits with numbers, and semaphores whose size is set. (test/permits has long sequences of both.)
"""
import struct

from on_redis import FREE, FULL, HELD, NEVER, inbox, keys_of, records_of, shown
from scripts import text
from sequence import Mismatch, equal

NUMBERED = 64
SEMAPHORE = dict(mode=2, capacity=4)


def resize(case, capacity, name='n'):
    return case.call('resize', keys_of(name), capacity)


def numbers_are_given(case):
    """The lowest that are free, by every way to a grant; and they stay."""
    token = case.acquire('a', flags=5 | NUMBERED, permits=2, **SEMAPHORE)
    equal(token[4:], [[0, 1]])
    equal(case.acquire('a', flags=5 | NUMBERED, permits=2, **SEMAPHORE)[4:], [[0, 1]])
    equal(len(case.acquire('plain', **SEMAPHORE)), 4)  # has none, and takes none
    equal(case.acquire('b', flags=1 | NUMBERED, **SEMAPHORE)[4:], [[2]])
    for owner, permits in (('c', 2), ('d', 1)):
        equal(case.acquire(owner, flags=1 | NUMBERED, permits=permits, window=5000, **SEMAPHORE)[0], 'Q')
    listener = case.server.connect()
    listener('SUBSCRIBE', inbox(1))
    equal(case.call('renew', keys_of('n')[:1], 'a', 1000, token[1], 7), [1])
    equal(case.call('adopt', keys_of('n')[:1], 'a', token[1], 1000)[8:], [[0, 1]])
    equal({h[0]: h[12:] for h in case.look()[5]}, {'a': [[0, 1]], 'b': [[2]], 'plain': []})
    equal(case.look()[5][0][11], 'x')  # the label is behind the numbers
    case.release('a')
    said = text(listener.read())[2]
    equal((shown(said[1:17]), said[17:].split(' ', 6)[5:]), ('c', ['0', '\0\0\0\0\1\0\0\0']))
    equal(case.call('beat', keys_of('n'), 'c', 5000)[0][4:], [[0, 1]])
    case.release('plain')
    equal(case.call('cancel', keys_of('n'), 'd', 0)[4:], [[3]])
    case.call('break', keys_of('n'), case.call('beat', keys_of('n'), 'c', 5000)[0][1])
    equal(case.acquire('e', flags=NUMBERED, **SEMAPHORE)[4:], [[0]])
    case.pass_ms(1001)  # b and e have died
    equal(case.acquire('f', flags=NUMBERED, permits=3, **SEMAPHORE)[4:], [[0, 1, 2]])
    listener.close()


def numbers_of_one(case):
    """A semaphore of one permit is handed over by the rules, and not as a mutex is."""
    kind = dict(mode=2, capacity=1)
    equal(case.acquire('a', flags=1 | NUMBERED, **kind)[4:], [[0]])
    case.acquire('b', flags=1 | NUMBERED, **kind)
    case.release('a')
    equal(case.call('beat', keys_of('n'), 'b', 5000)[0][4:], [[0]])


def numbers_of_several_names(case):
    """Each name of a call begins anew."""
    for name in ('n', 'm'):
        case.acquire('a', name, flags=1 | NUMBERED, permits=4, ttl=100, **SEMAPHORE)
        case.acquire(name, name, flags=1 | NUMBERED, permits=2, window=5000, **SEMAPHORE)
    case.pass_ms(101)
    equal([one[4:] for one in case.call('beat', keys_of('n') + keys_of('m'), 'n', 5000, 'm', 5000)], [[[0, 1]], [[0, 1]]])


def numbers_cost_others_nothing(case):
    """Who asks for none has the same records and answers as ever."""
    for flags in (1, 1 | NUMBERED):
        case.redis('DEL', *keys_of('n'))
        case.acquire('a', flags=flags, permits=3, **SEMAPHORE)
        equal(len([v for k, v in records_of(case.redis, 'n').items() if k[:1] == b'h'][0]), 97 + (12 if flags > 1 else 0))


def size_is_set(case):
    """While it is free and while it is in use; waiters that fit are granted in the call, in order."""
    equal(resize(case, 2), ['R'])
    equal(case.look(), ['L', 2, 2, 0, 0, [], [], 1])
    equal(case.state()['exp'], NEVER)
    equal(case.redis('PTTL', keys_of('n')[0]) > NEVER / 2, True)
    for other in (dict(), dict(mode=1, capacity=1 << 30), dict(mode=2, capacity=5, permits=3), dict(delay=5)):
        for flags in (0, 1):
            equal(case.acquire('x', flags=flags, **other), ['M', 2, 2])
    equal(case.acquire('a', **SEMAPHORE)[0], 'G')
    equal(case.acquire('b', mode=2, capacity=9)[0], 'G')
    for owner, permits in (('c', 1), ('d', 2), ('e', 1)):
        equal(case.acquire(owner, permits=permits, window=50000, **SEMAPHORE)[0], 'Q')
    equal(resize(case, 4), ['R'])
    answer = case.look()
    equal((answer[1:4], sorted(h[0] for h in answer[5]), [w[0] for w in answer[6]]), ([2, 4, 3], ['a', 'b', 'c'], ['d', 'e']))
    equal(resize(case, 4), ['R'])  # a second copy
    equal(resize(case, 1), ['R'])
    equal(case.acquire('d', permits=2, window=50000, **SEMAPHORE)[0], 'Q')  # in the queue: it waits on
    equal(case.acquire('f', permits=2, **SEMAPHORE), ['M', 2, 1])
    for owner in 'abc':
        equal(case.release(owner), ['R'])
    answer = case.look()
    equal((answer[1:4], [h[0] for h in answer[5]], [w[0] for w in answer[6]]), ([2, 1, 0], [], ['d', 'e']))
    equal(resize(case, 2), ['R'])
    equal([h[0] for h in case.look()[5]], ['d'])
    equal(case.release('d'), ['R'])
    equal([h[0] for h in case.look()[5]], ['e'])
    equal(case.release('e'), ['R'])
    equal(case.look(), ['L', 2, 2, 0, 0, [], [], 1])
    case.pass_ms(10 ** 9)
    equal(case.acquire('g', mode=2, capacity=7, permits=2)[0], 'G')
    case.pass_ms(1001)
    equal(case.acquire('h', mode=2, capacity=7, permits=2)[0], 'G')


def size_of_one(case):
    """It is handed over by the rules, and not as a mutex is: its key stays."""
    resize(case, 1)
    case.acquire('a', **SEMAPHORE)
    case.acquire('b', window=5000, **SEMAPHORE)
    equal(case.release('a'), ['R'])
    equal((case.look()[5][0][0], case.state()['exp']), ('b', NEVER))
    equal(case.release('b'), ['R'])
    equal(case.look(), ['L', 2, 1, 0, 0, [], [], 1])


def size_is_set_no_more(case):
    """A free name is free again, and its tokens go on; one in use keeps its size until then."""
    resize(case, 2)
    token = case.acquire('a', tokens=1000, mode=2, capacity=1)[1]
    case.release('a')
    equal(resize(case, 0), ['R'])
    equal((case.look(), case.state()['version']), (['N'], FREE))
    if case.redis('PTTL', keys_of('n')[0]) > 10 ** 9:
        raise Mismatch('it is kept for ever')
    if case.acquire('b')[1] <= token:
        raise Mismatch('its tokens went back')
    equal((resize(case, 3), case.state()['version']), (['M', 0, 1], HELD))
    equal((resize(case, 0), case.state()['version']), (['M', 0, 1], HELD))
    case.pass_ms(1001)  # it has died
    equal((resize(case, 3), case.state()['version']), (['R'], FULL))
    equal(case.redis('HLEN', keys_of('n')[0]), 1)
    equal(case.redis('HDEL', keys_of('n')[0], b'b'.ljust(16, b'.')), 0)
    case.acquire('c', mode=2, capacity=1)
    equal(resize(case, 0), ['R'])
    equal(case.acquire('d', mode=2, capacity=3)[0], 'G')
    equal(case.acquire('e', mode=2, capacity=5), ['M', 2, 3])
    case.release('c')
    case.release('d')
    equal((case.look(), case.state()['version']), (['N'], FREE))
    equal(resize(case, 0, 'never seen'), ['R'])
    equal(case.redis('EXISTS', *keys_of('never seen')), 0)


def size_among_kinds(case):
    """In use as another kind: nothing changes. A lock delay alone is no use, and runs on."""
    case.acquire('r', 'rw', mode=1, capacity=1 << 30)
    before = records_of(case.redis, 'rw')
    equal((resize(case, 3, 'rw'), records_of(case.redis, 'rw')), (['M', 1, 1 << 30], before))
    case.acquire('a', 'd', delay=5000)
    case.pass_ms(1001)
    equal(resize(case, 2, 'd'), ['R'])
    equal(case.look('d'), ['L', 2, 2, 0, 5000, [], [], 1])
    equal(case.acquire('b', 'd', flags=0, mode=2, capacity=2)[0], 'B')
    case.pass_ms(5000)
    equal(case.acquire('b', 'd', flags=0, mode=2, capacity=2)[0], 'G')
    case.release('b', 'd')
    equal(sorted(records_of(case.redis, 'd')), [b'm'])


def numbers_beyond_a_smaller_size(case):
    """What is held keeps its numbers; a new grant has those below the size."""
    for i in range(4):
        case.acquire('abcd'[i], flags=NUMBERED, **SEMAPHORE)
    resize(case, 2)
    equal(case.acquire('e', flags=1 | NUMBERED, window=50000, **SEMAPHORE)[0], 'Q')
    for owner in 'bac':
        equal(case.call('beat', keys_of('n'), 'e', 50000)[0][0], 'Q')
        case.release(owner)
    equal(sorted((h[0], h[12]) for h in case.look()[5]), [('d', [3]), ('e', [0])])


def hostile_sizes(case):
    """A damaged record does not give numbers for ever."""
    case.acquire('a', flags=NUMBERED, **SEMAPHORE)
    key = keys_of('n')[0]
    record = [v for k, v in records_of(case.redis, 'n').items() if k[:1] == b'h'][0]
    case.redis('HSET', key, b'h' + b'a'.ljust(16, b'.'), record[:24] + struct.pack('<d', 1e9) + record[32:])
    try:
        case.acquire('b', flags=NUMBERED, **SEMAPHORE)
        raise Mismatch('it was not noticed')
    except Exception as error:
        if 'too short' not in str(error):
            raise


CASES = [numbers_are_given, numbers_of_one, numbers_of_several_names, numbers_cost_others_nothing, size_is_set, size_of_one, size_is_set_no_more, size_among_kinds,
         numbers_beyond_a_smaller_size, hostile_sizes]
