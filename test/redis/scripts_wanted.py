# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: holders that want to hear that others wait, and leases that linger.
"""
from on_redis import FULL, HELD, inbox, keys_of, raw, shown
from scripts import text
from sequence import Mismatch, equal

WATCHED, LINGERS = 16, 16 + 32
HOLDER, OTHER = inbox(7), inbox(8)


def heard(listener):
    """What has been said since, as (letter, owner, words)."""
    listener.socket.sendall(listener.pack(['PING']))
    said = []
    while True:
        message = text(listener.read())
        if message[0] == 'pong':
            return said
        said.append((message[2][0], shown(message[2][1:17]), message[2][17:].split()))


def with_listener(case, do):
    listener = case.server.connect()
    listener('SUBSCRIBE', HOLDER)
    listener('SUBSCRIBE', OTHER)
    try:
        do(listener)
    finally:
        listener.close()


def wanted(case):
    """The first waiter, in the call that queues it, and its heartbeats; that nobody waits any more. Nothing for whoever did not
    ask for it."""
    def do(listener):
        for kind in (dict(), dict(delay=5), dict(mode=2, capacity=2, permits=2)):
            for flags in (0, WATCHED):
                case.redis('FLUSHALL')
                case.pass_ms(0)
                equal(case.acquire('a', flags=1 | flags, ttl=5000, inbox=HOLDER, **kind)[0], 'G')
                equal(heard(listener), [])
                case.acquire('b', inbox=OTHER, window=9000, **kind)
                yes = [('W', 'a', ['1'])] if flags else []
                equal(heard(listener), yes)
                case.acquire('c', inbox=OTHER, window=9000, **kind)
                equal(heard(listener), [])
                equal(case.call('beat', keys_of('n') * 2, 'b', 9000, 'c', 9000)[0][0], 'Q')
                equal(heard(listener), yes)
                equal(case.call('renew', keys_of('n')[:1], 'a', 5000, 0, 0), [2 if flags else 1])
                equal(case.call('cancel', keys_of('n'), 'b', 0), ['C'])
                equal(heard(listener), [])
                equal(case.call('cancel', keys_of('n'), 'c', 0), ['C'])
                equal(heard(listener), [('W', 'a', ['0'])] if flags else [])
                equal(case.call('renew', keys_of('n')[:1], 'a', 5000, 0, 0), [1])
                case.acquire('d', inbox=OTHER, window=100, **kind)  # it dies
                equal(heard(listener), yes)
                equal(case.call('renew', keys_of('n')[:1], 'a', 5000, 0, 0), [2 if flags else 1])
                case.pass_ms(101)
                equal(case.call('renew', keys_of('n')[:1], 'a', 5000, 0, 0), [1])
                case.call('cancel', keys_of('n'), 'x', 0)
                case.acquire('e', inbox=OTHER, window=9000, **kind)
                case.release('a')
                heard(listener)
                case.acquire('f', inbox=OTHER, flags=1, **kind)
    with_listener(case, do)


def behind_a_grant(case):
    """A grant says whether others wait behind it: in the message, in the answer to a heartbeat, a cancel and a copy."""
    def do(listener):
        for kind in (dict(), dict(mode=2, capacity=2, permits=2)):
            for flags in (0, WATCHED):
                for others in (0, 1):
                    case.redis('FLUSHALL')
                    case.pass_ms(0)
                    case.acquire('a', **kind)
                    case.acquire('b', flags=1 | flags, inbox=OTHER, window=9000, attempt=3, **kind)
                    if others:
                        case.acquire('c', window=9000, **kind)
                    equal(case.release('a'), ['R'])
                    said = heard(listener)
                    equal([m[:2] for m in said], [('G', 'b')])
                    tail = ['1'] if flags and others else []
                    equal(said[0][2][4:], tail)
                    for answer in (case.call('beat', keys_of('n'), 'b', 9000)[0], case.call('cancel', keys_of('n'), 'b', 0),
                                   case.acquire('b', flags=1 | flags, ttl=9000, **kind)):
                        equal(answer[4:], [1] if tail else [])
    with_listener(case, do)


def behind_a_fresh_grant(case):
    """The call that queues the first waiter may have granted the name just before, to a waiter whose holder had died. That one is
    told too, behind its grant."""
    def do(listener):
        for kind in (dict(), dict(delay=0, mode=2, capacity=2, permits=2)):
            for flags in (0, WATCHED):
                case.redis('FLUSHALL')
                case.pass_ms(0)
                case.acquire('a', ttl=100, **kind)
                case.acquire('b', flags=1 | flags, inbox=HOLDER, window=9000, **kind)
                case.pass_ms(101)
                equal(case.acquire('c', inbox=OTHER, window=9000, **kind)[0], 'Q')
                said = heard(listener)
                equal([m[:2] for m in said], [('G', 'b')] + [('W', 'b')] * (flags > 0))
                equal(said[-1][2][-1], '1' if flags else '9000')
    with_listener(case, do)


def tries(case):
    """A try that meets a lease that lingers is told so, unless somebody waits there already."""
    for kind in (dict(), dict(delay=5), dict(mode=1, capacity=1 << 30, permits=1 << 30)):
        for flags, tail in ((0, []), (WATCHED, []), (LINGERS, [1])):
            case.redis('FLUSHALL')
            case.pass_ms(0)
            case.acquire('a', flags=flags, ttl=1000, **kind)
            equal(case.acquire('b', flags=0, **kind), ['B', 1001] + tail)
            case.acquire('w', flags=1, **kind)
            equal(case.acquire('b', flags=0, **kind)[2:], [])
            case.call('cancel', keys_of('n'), 'w', 0)
            equal(case.acquire('b', flags=0, **kind)[2:], tail)


def further_tokens(case):
    """A renewal gives a further block to a lease: above all before, near the clock; the lease stays one, and any of its tokens
    breaks it if it lingers."""
    for flags, ahead in ((WATCHED, 1000), (LINGERS, 50000)):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', flags=flags, tokens=60000, ttl=5000)
        equal((token[0], token[2], case.redis('HGET', keys_of('n')[0], 'm')[0]), ('G', ahead, HELD))
        token, highest = token[1], token[1] + ahead - 1
        for _ in range(3):
            case.pass_ms(20)
            answer = case.call('renew', keys_of('n')[:1], 'a', '5000:1000', 0, 0)[0]
            equal(answer[0], 1)
            if not answer[1] > highest:
                raise Mismatch('%r after %d' % (answer, highest))
            highest = answer[1] + answer[2] - 1
            if not highest < case.us + ahead or answer[2] < 1:
                raise Mismatch('%r at %d' % (answer, case.us))
        holder = case.look()[5][0]
        equal(holder[1:4], [token, token, highest - token + 1])
        case.call('note', keys_of('n')[:1], 'a', highest, 5)
        equal(case.look()[5][0][1], highest)
        equal(case.call('renew', keys_of('n')[:1], 'b', '5000:1000', 0, 0), [0])
        for other, broken in ((token - 1, 'N'), (highest + 1, 'N'), (token + 1, 'R' if flags == LINGERS else 'N')):
            equal(case.call('break', keys_of('n'), other), [broken])
        if flags != LINGERS:
            equal(case.call('break', keys_of('n'), highest), ['R'])
        if case.acquire('b')[1] <= highest:
            raise Mismatch('a token twice')


def idle(case):
    """That a lease lingers idle is a note with its own token."""
    token = case.acquire('a', flags=LINGERS, tokens=10)[1]
    case.call('note', keys_of('n')[:1], 'a', token, -1)
    equal([case.look()[5][0][i] for i in (1, 10)], [token, -1])
    case.call('note', keys_of('n')[:1], 'a', token + 1, 99)
    equal([case.look()[5][0][i] for i in (1, 10)], [token + 1, 99])


def asked(case):
    """The holders that want to hear are asked, in either form; nothing changes."""
    def do(listener):
        key = keys_of('n')[:1]
        equal(case.call('ask', key, 'please'), -1)
        for kind, form in ((dict(), HELD), (dict(delay=5), FULL)):
            for flags, answer in ((0, 0), (WATCHED, 1)):
                case.redis('FLUSHALL')
                case.pass_ms(0)
                case.acquire('a', flags=flags, ttl=100, inbox=HOLDER, **kind)
                before = case.redis('HGETALL', key[0])
                equal(before[1][0] if before[0] == b'm' else before[3][0], form)
                equal(case.call('ask', key, '77 host 5'), answer)
                equal(heard(listener), [('A', 'a', ['77', 'host', '5'])] if answer else [])
                equal(case.redis('HGETALL', key[0]), before)
                case.pass_ms(101)
                equal(case.call('ask', key, 'too late'), -1)
                equal(heard(listener), [])
    with_listener(case, do)


def quiet(case):
    """Names without such a holder send nothing and store nothing more."""
    case.acquire('a', inbox=HOLDER)
    equal(case.state()['watched'], 0)
    case.acquire('b', inbox=OTHER)
    equal(case.state()['watched'], 0)
    equal(raw('a') in case.redis('HGET', keys_of('n')[0], 'm'), False)


CASES = [wanted, behind_a_grant, behind_a_fresh_grant, tries, further_tokens, idle, asked, quiet]
