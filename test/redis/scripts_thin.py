# SPDX-License-Identifier: MIT
"""
Cases of scripts_test.py: a name that one plain mutex holder has to itself is thin; what makes it full, what makes it thin again,
and what must be the same before and after.
"""
import resp
from on_redis import FREE, FULL, HELD, SLACK, inbox, keys_of, parsed, raw, records_of
from sequence import Mismatch, equal

LONG = 2 ** 32 + 5  # ms: does not fit into a thin record


def form(case, name='n'):
    records = records_of(case.redis, name)
    return parsed(records)[0]['version'] if records else None


def alone(case, name='n'):
    """No key and no field but the state."""
    equal(case.redis('HLEN', keys_of(name)[0]), 1)
    equal(case.redis('EXISTS', *keys_of(name)[1:]), 0)


def forms(case):
    """What is thin, and what is not."""
    for kind, expected in ((dict(), HELD), (dict(flags=0), HELD), (dict(flags=5), HELD), (dict(flags=15), HELD),
                           (dict(tokens=1000), HELD), (dict(ttl=2 ** 32 - 1), HELD), (dict(label='y' * 127), HELD),
                           (dict(ttl=LONG), FULL), (dict(delay=1), FULL), (dict(mode=2, capacity=2), FULL),
                           (dict(mode=2, capacity=1), FULL), (dict(mode=1, capacity=1 << 30), FULL)):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        for _ in range(2):  # a new name, and a known one
            equal((kind, case.acquire('a', **kind)[0], form(case)), (kind, 'G', expected))
            equal(case.release('a'), ['R'])
            equal((kind, form(case)), (kind, FREE))
            alone(case)
            case.pass_ms(1)


def refused(case):
    """Whatever is refused leaves it thin, and changes nothing."""
    token = case.acquire('a')[1]
    before = case.redis('HGETALL', keys_of('n')[0])
    equal(case.acquire('b', flags=0), ['B', 1001])
    equal(case.acquire('b', flags=0, delay=5), ['B', 1001])
    equal(case.acquire('b', mode=2, capacity=2), ['M', 0, 1])
    equal(case.release('b'), ['N'])
    equal(case.call('cancel', keys_of('n'), 'b', 0), ['N'])
    equal(case.call('beat', keys_of('n'), 'b', 500), [['N']])
    equal(case.call('renew', keys_of('n')[:1], 'b', 500, 0, 0), [0])
    equal(case.call('adopt', keys_of('n')[:1], 'b', token, 500), ['N'])
    equal(case.call('break', keys_of('n'), token + 1), ['N'])
    equal(case.call('note', keys_of('n')[:1], 'b', token, 1), ['D'])
    equal(case.redis('HGETALL', keys_of('n')[0]), before)


def inflated(case):
    """The first waiter makes it full: the same holder, tokens, age and end. All that is known of it stays so."""
    for label in ('', 'mine'):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', flags=5, tokens=10, ttl=5000, window=700, inbox=inbox(7), label=label)[1]
        case.pass_ms(1000)
        thin = case.look()
        equal(thin[5], [['a', token, token, 10, 1, 4, 1000, 4000, 5000, 0, 0, label]])
        equal(case.acquire('b', flags=1, window=300000), ['Q', 4001, max(token + 9, case.us - 1)])
        equal(form(case), FULL)
        equal(case.look()[:6], thin[:6])
        equal(case.call.clients['a'], inbox(7))
        case.pass_ms(4000)
        equal([h[0] for h in case.look()[5]], ['a'])
        equal(case.acquire('c', flags=0)[0], 'B')
        case.pass_ms(1)
        answer = case.call('beat', keys_of('n'), 'b', 300000)[0]
        equal(answer[0], 'G')
        if answer[1] <= token + 9:
            raise Mismatch('a token that was given already')
        equal(case.release('b'), ['R'])
        equal(form(case), FREE)
        alone(case)


def by_every_call(case):
    """What else makes it full, and that its release makes it thin."""
    calls = {'again': lambda token: equal(case.acquire('a', ttl=3000)[:2], ['G', token]),
             'cancel': lambda token: equal(case.call('cancel', keys_of('n'), 'a', 0)[:2], ['G', token]),
             'beat': lambda token: equal(case.call('beat', keys_of('n'), 'a', 500)[0][:2], ['G', token]),
             'note': lambda token: equal(case.call('note', keys_of('n')[:1], 'a', token + 1, 9), ['D']),
             'renew': lambda token: equal(case.call('renew', keys_of('n')[:1], 'a', 2000, token + 1, 9), [1]),
             'long': lambda token: equal(case.call('renew', keys_of('n')[:1], 'a', LONG, 0, 0), [1]),
             'adopt': lambda token: equal(case.call('adopt', keys_of('n')[:1], 'a', token, 0)[:5], ['A', 0, 1, 1, token]),
             'tomb': lambda token: equal(case.release('x', tomb=50), ['N'])}
    for what, call in calls.items():
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', flags=5, tokens=10)[1]
        call(token)
        equal((what, form(case)), (what, FULL))
        equal([h[0] for h in case.look()[5]], ['a'])
        equal(case.acquire('b', flags=0)[0], 'B')
        case.pass_ms(51)
        equal(case.release('a'), ['R'])
        if what == 'tomb':
            case.acquire('y', flags=0)  # somebody looks, and finds it over
            case.release('y')
        equal((what, form(case)), (what, FREE))
        alone(case)


def kept_full(case):
    """A tombstone or a lock delay that runs keeps a name full: a late copy is refused, and nobody is let in early."""
    case.acquire('a')
    equal(case.release('a', tomb=100), ['R'])
    equal(form(case), FULL)
    equal(case.acquire('a'), ['X'])
    equal(case.acquire('b')[0], 'G')
    equal(case.release('b'), ['R'])
    equal(case.acquire('a'), ['X'])
    case.pass_ms(101)
    equal(case.acquire('a')[0], 'G')
    equal(case.release('a'), ['R'])
    equal(form(case), FREE)
    case.acquire('a', 'd', delay=1000)
    equal(case.call('break', keys_of('d'), case.look('d')[5][0][1]), ['R'])
    equal(form(case, 'd'), FULL)
    equal(case.acquire('b', 'd', flags=0), ['B', 1001])
    case.pass_ms(1001)
    equal(case.acquire('b', 'd', flags=0)[0], 'G')
    equal(case.release('b', 'd'), ['R'])
    equal(form(case, 'd'), FREE)
    alone(case, 'd')


def taken_over(case):
    """A dead holder is succeeded in place, with a larger token, also in the same microsecond and after the clock was set back;
    and what it does then is for nothing."""
    for back in (0, 600000):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', tokens=10, ttl=1)[1]
        case.us += 2 if not back else 2000
        case.pass_ms(2 - back)
        if back:
            equal(case.acquire('b', flags=0), ['B', 501])  # its window is the longer promise
            equal(form(case), HELD)
            case.pass_ms(501)
        answer = case.acquire('b', tokens=1)
        equal(answer[0], 'G')
        equal(form(case), HELD)
        if answer[1] <= token + 9:
            raise Mismatch('%d after %d' % (answer[1], token + 9))
        equal(case.release('a'), ['N'])
        equal(case.call('renew', keys_of('n')[:1], 'a', 500, 0, 0), [0])
        equal([h[0] for h in case.look()[5]], ['b'])
        if case.state()['exp'] <= answer[1] / 1000:
            raise Mismatch('the last token may be forgotten before its time')
    # Nobody has looked meanwhile: released is released.
    case.pass_ms(5000)
    equal(case.release('b'), ['R'])
    equal(case.release('b'), ['N'])


def remembered(case):
    """The last token outlives the release, but not for the time of a long ttl; expiry is set once in a while only."""
    token = case.acquire('a', ttl=1)[1]
    case.release('a')
    equal(case.acquire('b')[1], token + 1)  # in the same microsecond
    case.release('b')
    set_to = case.redis('PEXPIRETIME', keys_of('n')[0])
    for _ in range(20):
        case.pass_ms(1000)
        case.acquire('a')
        case.release('a')
    equal(case.redis('PEXPIRETIME', keys_of('n')[0]), set_to)
    for ttl in (700000, 2 ** 32 - 1):
        equal(case.acquire('a', ttl=ttl)[0], 'G')
        equal(case.redis('PEXPIRETIME', keys_of('n')[0]) > case.us // 1000 + ttl, True)
        equal(case.release('a'), ['R'])
        equal(case.redis('PEXPIRETIME', keys_of('n')[0]) <= case.us // 1000 + 2 * SLACK + 1, True)
        equal(case.state()['exp'], case.redis('PEXPIRETIME', keys_of('n')[0]))


def on_a_full_server(case):
    """Thin names are released, renewed, cancelled and broken at maxmemory, and nobody comes in or makes one full."""
    for name in 'abcdef':
        case.acquire('a', name, ttl=5000)
    tokens = {name: case.look(name)[5][0][1] for name in 'abcdef'}
    case.acquire('a', 'long', ttl=700000)
    before = {name: case.redis('HGETALL', keys_of(name)[0]) for name in 'abcdef'}
    case.redis('CONFIG', 'SET', 'maxmemory', 1)
    try:
        for kind in (dict(flags=0), dict(flags=1), dict(owner='a', flags=1), dict(name='new')):
            try:
                answer = case.acquire(**dict(dict(owner='b', name='a'), **kind))
                if answer[0] != 'B':
                    raise Mismatch('a full server answered %r to %r' % (answer, kind))
            except resp.Error as error:
                if 'OOM' not in str(error):
                    raise
        equal({name: case.redis('HGETALL', keys_of(name)[0]) for name in 'abcdef'}, before)
        equal(case.redis('EXISTS', *keys_of('a')), 1)
        equal(case.release('a', 'a'), ['R'])
        equal(case.release('a', 'long'), ['R'])
        equal(form(case, 'a'), FREE)
        equal(case.call('renew', [keys_of('b')[0], keys_of('c')[0]], *['a', 6000, 0, 0] * 2), [1, 1])
        equal(case.call('cancel', keys_of('c'), 'a', 0)[0], 'G')
        equal(case.release('a', 'd', tomb=100), ['R'])
        equal(case.call('break', keys_of('e'), tokens['e']), ['R'])
        equal(form(case, 'e'), FREE)
        equal(case.call('beat', keys_of('f'), 'a', 500)[0][0], 'G')
    finally:
        case.redis('CONFIG', 'SET', 'maxmemory', 0)
    equal(case.acquire('a', 'd'), ['X'])


def told_when_broken(case):
    """The holder of a thin name hears of its end: its inbox is made of its client's id."""
    listener = case.server.connect()
    listener('SUBSCRIBE', inbox(0x0123456789abcdef))
    token = case.acquire('a', tokens=5, inbox=inbox(0x0123456789abcdef))[1]
    equal(case.call('break', keys_of('n'), token), ['R'])
    equal(listener.read()[2], b'La'.ljust(17, b'.') + b' %d' % token)
    equal(form(case), FREE)
    listener.close()


def delete(case, owner='a', name='n'):
    """How a client releases what it was granted in the thin form."""
    return case.redis('HDEL', keys_of(name)[0], raw(owner))


def released_by_hdel(case):
    """Without its field a thin lease is over for every call, and the name keeps its last token."""
    calls = {'acquire': lambda token: equal(case.acquire('b')[:2], ['G', max(token + 1, case.us)]),
             'again': lambda token: equal(case.acquire('a')[:2], ['G', max(token + 1, case.us)]),
             'try': lambda token: equal(case.acquire('b', flags=0)[:2], ['G', max(token + 1, case.us)]),
             'kind': lambda token: equal(case.acquire('b', mode=2, capacity=2)[:2], ['G', max(token + 1, case.us)]),
             'delay': lambda token: equal(case.acquire('b', delay=5)[:2], ['G', max(token + 1, case.us)]),
             'release': lambda token: equal(case.release('a'), ['N']),
             'tomb': lambda token: equal(case.release('a', tomb=50), ['N']),
             'cancel': lambda token: equal(case.call('cancel', keys_of('n'), 'a', 0), ['N']),
             'beat': lambda token: equal(case.call('beat', keys_of('n'), 'a', 500), [['N']]),
             'renew': lambda token: equal(case.call('renew', keys_of('n')[:1], 'a', 500, 0, 0), [0]),
             'adopt': lambda token: equal(case.call('adopt', keys_of('n')[:1], 'a', token, 500), ['N']),
             'note': lambda token: equal(case.call('note', keys_of('n')[:1], 'a', token + 1, 1), ['D']),
             'ask': lambda token: equal(case.call('ask', keys_of('n')[:1], 'x'), -1),
             'break': lambda token: equal(case.call('break', keys_of('n'), token), ['N']),
             'look': lambda token: equal(case.look(), ['N'])}
    for what, call in calls.items():
        case.redis('FLUSHALL')
        case.pass_ms(0)
        token = case.acquire('a', flags=5)[1]
        equal((what, delete(case), delete(case)), (what, 1, 0))
        call(token)
        if what == 'tomb':
            equal(case.acquire('a'), ['X'])
        equal((what, [h for h in case.look()[5:6] if 'a' in [o[0] for o in h] and what != 'again']), (what, []))
        case.release('a')
        case.release('b')
        case.pass_ms(51)
        answer = case.acquire('c', flags=0)
        equal((what, answer[0], answer[1] > token), (what, 'G', True))


def hdel_finds_nothing(case):
    """Once a name is full, or its lease has lapsed and was taken over, there is no field: the script must be asked."""
    case.acquire('a')
    case.acquire('b')
    equal((delete(case), case.look()[5][0][0]), (0, 'a'))
    equal(case.release('a'), ['R'])
    equal((delete(case, 'b'), case.look()[5][0][0]), (0, 'b'))  # granted by hand-over: full
    equal(case.release('b'), ['R'])
    for kind in (dict(), dict(mode=2, capacity=2)):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        case.acquire('a', ttl=1)
        case.pass_ms(2)
        equal(case.acquire('b', **kind)[0], 'G')
        equal((delete(case), [h[0] for h in case.look()[5]]), (0, ['b']))


def stale_queue(case):
    """Keys of a queue that should not be there (an operator's, or one half of what was evicted) do not stop a first waiter."""
    for left in (1, 2):
        case.redis('FLUSHALL')
        case.pass_ms(0)
        case.acquire('a')
        case.acquire('b')
        case.acquire('c')
        kept = case.redis('DUMP', keys_of('n')[left])
        case.redis('DEL', *keys_of('n'))
        case.acquire('a')
        case.redis('RESTORE', keys_of('n')[left], 0, kept)
        equal(case.acquire('b')[0], 'Q')
        equal([w[0] for w in case.look()[6]], ['b'])
        equal([h[0] for h in case.look()[5]], ['a'])
        equal(case.release('a'), ['R'])
        equal([h[0] for h in case.look()[5]], ['b'])


CASES = [forms, refused, inflated, by_every_call, kept_full, taken_over, remembered, on_a_full_server, told_when_broken,
         released_by_hdel, hdel_finds_nothing, stale_queue]
