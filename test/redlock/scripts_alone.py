# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: names that are judged each by itself in one call, and notes of local passes.
"""
import re
import struct

import on_redlock
import resp
from on_redlock import CLUSTER, epoch_of, keys_of, owner_of
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
                                    *[v for n in 'xyz' for v in (n, owner_of(n, 'a'), 1, 1000, 0, 0, '')])
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


def watching(case):
    """Holders that watch are told that others wait, and that nobody does any more; the others are not, and cost nothing."""
    inbox = case.server.connect()
    inbox('SUBSCRIBE', 'hf:rl:inbox:1')

    def said():
        inbox.socket.sendall(inbox.pack(['PING']))
        messages = []
        while True:
            reply = inbox.read()
            if reply[0] == b'pong':
                return messages
            messages.append(re.sub(r'\|\w+\.+', '', reply[2].decode()))

    for delay in (0, 5):  # alone when the first waiter comes, or not
        begin(case)
        c = case.acquire('a', flags=17, delay=delay)
        case.acquire('b', flags=1)
        equal(said(), ['W a 1 1'])
        case.acquire('c', flags=1)
        equal((said(), case.renew('a')), ([], [c, 1]))
        case.release('c')
        equal(case.beat('b')[0], 'Q')
        equal(said(), ['W a 1 1'])
        case.release('b')
        equal((said(), case.renew('a')), (['W a 1 0'], c))
        case.acquire('b', flags=1, window=50)
        equal(said(), ['W a 1 1'])
        case.pass_ms(51)  # b is dead
        equal(case.renew('a'), c)
        equal(said(), ['W a 1 0'])
        equal(case.release('a'), ['R'])
        # The heir is told with its grant, if it watches and others wait.
        for watches in (17, 1):
            case.acquire('h', flags=17, attempt=watches, delay=delay)
            case.acquire('w', flags=watches, attempt=watches, delay=delay)
            case.acquire('x', flags=1, attempt=watches, delay=delay)
            equal(said(), ['W h %d 1' % watches])
            case.release('h', attempt=watches)
            equal([m.split()[:2] for m in said()], [['G', 'w'], ['W', 'w']][:2 if watches == 17 else 1])
            case.release('x', attempt=watches)
            equal(said(), ['W w 17 0'][:watches // 17])
            case.release('w', attempt=watches)
        # Asking.
        equal(case.ask('ask', 'n', ['n', 'words']), -1)
        case.acquire('a', attempt=3, delay=delay)
        equal((case.ask('ask', 'n', ['n', 'words']), said()), (0, []))
        case.release('a', attempt=3)
        case.acquire('a', attempt=4, flags=17, delay=delay)
        equal((case.ask('ask', 'n', ['n', '17 words']), said()), (1, ['A a 4 :17 words']))
        case.release('a', attempt=4)
    inbox.close()


def lingering(case):
    """A try that meets a holder that lingers is told so. A renewal raises the counter for a further block, where the record
    witnesses what the client thinks."""
    for kind in (dict(), dict(delay=5), dict(mode=1, capacity=9, permits=9)):
        begin(case)
        c = case.acquire('a', flags=49, tokens=8, proposal=case.us, **kind)
        equal(c, case.us + 7)
        if 'delay' not in kind and 'mode' not in kind:
            equal(case.renew('a', block=struct.pack('<ddd', 0, c, c + 10)), c + 10)  # alone
            c += 10
            equal((case.redis('EXISTS', keys_of('n')[0]), case.counter()), (0, c))
        equal((case.acquire('b', flags=0, **kind)[0], case.call.lingers), ('B', 1))
        equal(case.renew('a', block=struct.pack('<ddd', 0, c, c + 100)), c + 100)
        equal(case.counter(), c + 100)
        equal(case.look()[4][0][2:4], [c + 100, c + 100 - case.us + 1])  # the first token is the same
        equal(case.renew('a', block=struct.pack('<ddd', 0, c, c + 200)), c + 100)  # not what it witnesses
        equal(case.renew('a', block=struct.pack('<ddd', c + 100, c + 150, c + 200)), c + 200)  # it had missed one
        equal(case.renew('a', block=struct.pack('<ddd', 0, c + 200, 2 ** 53)), c + 200)
        equal(case.renew('b', block=struct.pack('<ddd', 0, c + 200, c + 300)), 0)
        equal(case.status()[5] >= c + 200, True)
        case.acquire('w', **kind)
        equal((case.acquire('b', flags=0, **kind)[0], case.call.lingers), ('B', 0))  # a waiter stands there
        equal(case.renew('a', block=struct.pack('<ddd', 0, c + 200, c + 300)), [c + 300, 1])
        case.release('w')
        case.call('seal', [CLUSTER], case.redis('HGET', CLUSTER, 'm')[1:25], epoch_of(7, 'z'))
        equal(case.renew('a', block=struct.pack('<ddd', 0, c + 300, c + 400)), c + 300)  # another epoch
        case.release('a')
        equal(case.acquire('b', flags=0, epoch=epoch_of(7, 'z'), **kind) > c + 300, True)
        if not kind:  # the same of a lease that is alone
            case.release('b')
            c = case.acquire('c', flags=49, epoch=epoch_of(7, 'z'))
            case.call('seal', [CLUSTER], epoch_of(7, 'z'), epoch_of(8, 'z'))
            equal(case.renew('c', block=struct.pack('<ddd', 0, c, c + 400)), c)


CASES = [lingering, watching, renewed_alone, beats_alone, notes_travel, said_after_it_is_stored]
