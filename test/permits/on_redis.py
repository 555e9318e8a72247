# SPDX-License-Identifier: MIT
"""
The scripts of the Redis engine, on a real server, beside the model; after each call its answer, the messages it sent,
the records it left and their expiry are compared. The server's clock is a hash that the test writes.
"""
import os
import struct

from model import LINGERS, NUMBERED, SEMAPHORE, WAIT, WATCHED, Redis
from scripts import ScriptSequence, text
from sequence import SLACK, Mismatch, equal

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, '..', '..', 'src', 'engine', 'redis', 'scripts')
PREFIX = 'hf:'
STATE = ('version watched mode capacity taken holders waiters last soon far closed tomb exp wexp sweep').split()
ACQUIRE = 'mode capacity permits flags tokens ttl delay window attempt inbox label'.split()
HELD, FREE, FULL = 5, 6, 7  # the forms of a state
THIN_TTL = 600000  # ms: longer ones are released by the script (release.c)
KEPT = 4 | 8 | 16 | 32  # flags of an acquire that its record keeps
NEVER = 9 * 10 ** 15  # when a name expires whose size was set
OWNED = {'release': 2, 'cancel': 2, 'beat': 2, 'renew': 4, 'adopt': 3, 'note': 3}  # arguments of each, the owner first


def inbox(number):
    return '%sinbox:%016x' % (PREFIX, number)


def raw(owner):
    """An owner of the tests as its 16 bytes."""
    return bytes.fromhex(owner) if len(owner) == 32 else owner.encode().ljust(16, b'.')


def shown(owner):
    """The owner of the tests that these 16 bytes are."""
    owner = owner.encode('latin-1') if isinstance(owner, str) else owner
    return owner.hex() if owner[:8] == bytes(8) else owner.rstrip(b'.').decode()


def numbers(packed):
    packed = packed.encode('latin-1')
    return list(struct.unpack('<%dI' % (len(packed) // 4), packed))


def request(owner, mode, capacity, permits, flags, tokens, ttl, delay, window, attempt, inbox, label):
    """The arguments of an acquire."""
    label = label.encode('latin-1') if isinstance(label, str) else label
    args = [raw(owner) + struct.pack('<IIHB', min(ttl, 2 ** 32 - 1), window, tokens, flags) + bytes.fromhex(inbox[-16:]) +
            struct.pack('<I', attempt) + label]
    if (mode, capacity, permits, delay) != (0, 1, 1, 0) or ttl >= 2 ** 32:
        return args + [tokens, mode, capacity, permits, delay, ttl]
    return args + [tokens] * (tokens > 1)


def parsed(records):
    """The state and the holders of a name, whatever its form: as they are in the full form."""
    m = records[b'm']
    if m[0] == FULL:
        return dict(zip(STATE, struct.unpack('<BB13d', m))), {
            shown(k[1:]): struct.unpack('<11d', v[:88]) for k, v in records.items() if k[:1] == b'h'}
    form, last, exp = struct.unpack('<Bdd', m[:17])
    others = {k: v for k, v in records.items() if k != b'm'}
    if form == HELD and not others:
        form = FREE  # it was released
    if others and (form != HELD or others != {m[25:41]: b''}):
        raise Mismatch('a thin name has other records: %r' % records)
    state = dict.fromkeys(STATE, 0)
    state.update(version=form, last=last, exp=exp)
    if form == FREE:
        return state, {}
    deadline, owner, ttl, window, tokens, flags = struct.unpack('<d16sIIHB', m[17:52])
    first = last - tokens + 1
    state.update(capacity=1, taken=1, holders=1, soon=deadline, far=deadline)
    return state, {shown(owner): (deadline, first, tokens, 1, 0, ttl, first // 1000, flags & KEPT, window, first, 0)}


def records_of(redis, name):
    """The fields of a name; empty: there is none."""
    flat = redis('HGETALL', keys_of(name)[0])
    return dict(zip(flat[::2], flat[1::2]))


def keys_of(name):
    key = '%s{%s}' % (PREFIX, name)
    return [key, key + ':w', key + ':q']


class Caller:
    """The scripts on a connection, loaded, with our clock or the server's."""

    # How many keys of a name a script has, as the client sends them; others have what a test gives.
    KEYS_OF_A_NAME = {**dict.fromkeys(('acquire', 'release', 'cancel', 'beat', 'break', 'look', 'resize'), 3), 'renew': 2}

    def __init__(self, server, scripts, clock):
        self.redis = server.connect()
        self.shas = {}
        for name, source in scripts.items():
            if clock:
                source = source.replace("call('TIME')", "call('HMGET', 'clock', 's', 'u')")
            self.shas[name] = self.redis('SCRIPT', 'LOAD', source).decode()

    def command(self, script, keys, args):
        """As the client would send it, with all keys that the script may touch."""
        args = list(args)
        if script == 'acquire':
            args = request(*args)
        elif script in OWNED:
            for i in range(0, len(args), OWNED[script]):
                args[i] = raw(args[i])
            if script == 'release' and not args[1]:
                args.pop()
        count = self.KEYS_OF_A_NAME.get(script)
        if count:
            keys = [key + end for key in keys if key[-2:] not in (':w', ':q') for end in ('', ':w', ':q')[:count]]
        return ['EVALSHA', self.shas[script], len(keys)] + keys + args

    def __call__(self, script, keys, *args):
        return self.answer(script, args, text(self.redis(*self.command(script, keys, args))))

    def answer(self, script, args, answer):
        """As the model says it."""
        if script == 'acquire' and isinstance(answer, int):
            return ['G', answer, args[5], args[6]]
        if script == 'release':
            return ['R' if answer else 'N']
        if script == 'look' and answer[0] == 'L':
            self.clients = {}
            for part, at in ((answer[5], 11), (answer[6], 5)):
                for item in part:
                    item[0] = shown(item[0])
                    self.clients[item[0]] = inbox(int(item.pop(at).encode('latin-1').hex(), 16))
                    item[at + 1:] = map(numbers, item[at + 1:])
                    item[at - 6 if at > 5 else 2] &= ~1  # numbered
        if script == 'beat':
            return [one if not isinstance(one, list) else self.numbered(one) for one in answer]
        return self.numbered(answer) if isinstance(answer, list) else answer

    def numbered(self, answer):
        """A grant with numbers also says that nobody waits."""
        if answer[0] == 'A':
            answer[8:] = map(numbers, answer[8:])
        if answer[0] == 'G' and len(answer) == 6:
            answer[4:] = [answer[4]] * (answer[4] > 0) + [numbers(answer[5])]
        return answer


class Run(ScriptSequence):
    INBOXES = [inbox(1), inbox(0xfedcba9876543210)]
    KINDS = ScriptSequence.KINDS + [(SEMAPHORE, 1)]  # handed over in a shorter way

    def __init__(self, server, scripts, seed):
        super().__init__(server, Caller(server, scripts, True), Redis(), seed)
        self.attempt = 0
        self.watchers = set()  # owners and their inboxes
        self.calm = seed % 4 < 2  # plain mutexes that few want: names are thin most of the time, and become full now and then
        if self.calm:
            self.kind = dict.fromkeys(self.NAMES, (0, 1))
        self.first_us = self.model.us  # no earlier than that: the server's own clock is behind it
        self.backwards = self.random.choice([0, 0.03 if self.calm else 0.01])

    # -- time

    def step_back(self):
        if self.random.random() < self.backwards:
            self.set_back(self.random.choice([1, 999, 1001, 2000, 60000, 600000]))

    def set_back(self, ms):
        """The server's clock is set back. How much of it a name can notice is the server's affair: it knows of every
        grant and deadline, and perhaps of more."""
        self.set_clock()
        self.expire_keys()
        for name in self.NAMES:
            records = records_of(self.redis, name)
            state = parsed(records)[0] if records else None
            if not (state and state['version'] == HELD and state['soon'] >= self.model.now):
                self.op_release(name, 'nobody', 1)  # remove what has expired: the clock must not bring it back
            self.check_messages()
        self.check_all_records()
        for name in self.NAMES:
            n, records = self.model.name(name), records_of(self.redis, name)
            for waiter in [w for w in n.waiters if not self.model.alive(w)]:
                if not self.redis('HEXISTS', keys_of(name)[1], raw(waiter.owner)):
                    n.waiters.remove(waiter)
            if not records:
                n.last = n.closed = 0  # an idle name is forgotten, and the clock went back as well
                n.tombs = {}
                continue
            for owner, over in list(n.tombs.items()):
                if over < self.model.now:
                    self.redis('HDEL', keys_of(name)[0], b'x' + raw(owner))
                    del n.tombs[owner]
            state = parsed({k: v for k, v in records.items() if k[:1] != b'x'})[0]
            if not n.last <= state['last'] <= max(n.last, self.model.us - 1):
                raise Mismatch('the last token of %s: %r' % (name, state))
            for h in n.holders.values():
                if state['version'] == FULL and h.deadline > state['last'] / 1000 + 1 + max(h.ttl, h.window):
                    raise Mismatch('%s does not know when a deadline was written: %r' % (name, state))
            if state['closed'] not in (n.closed, self.model.shifted(n)) and (n.closed >= self.model.now or state['closed']):
                raise Mismatch('%s is closed until %d: %r' % (name, n.closed, state))
            n.last, n.closed = int(state['last']), int(state['closed'])
        self.model.us = max(self.model.us - ms * 1000, self.first_us)
        self.set_clock()

    # -- calls

    def prepare(self):
        for name, m in zip(self.NAMES, self.redis.many([['HGET', keys_of(name)[0], 'm'] for name in self.NAMES])):
            self.model.name(name).thin = m is not None and m[0] == HELD

    def kind_of(self, name):
        return (0, 1, 1) if self.calm and self.random.random() < 0.99 else super().kind_of(name)

    def flags(self):
        return super().flags() & (~WAIT if self.calm and self.random.random() < 0.7 else 15) | self.random.choice(
            [0, 0, WATCHED, WATCHED | LINGERS])

    def delay(self):
        r = self.random
        return r.choice([0, 0, 0, 0, 30, r.choice([1000, 300000])]) if not self.calm or r.random() < 0.02 else 0

    def tombstone(self):
        r = self.random
        return r.choice([0] * 7 + [40, 40, r.choice([40, 100000])]) if not self.calm or r.random() < 0.1 else 0

    wanted = []

    def said(self, message):
        """As the model says it, which does not say whether others wait."""
        owner, words = shown(message[1:17]), message[17:]
        if message[0] == 'G':
            words = words.split(' ', 6)[1:]
            if len(words) == 6:
                words[5] = repr(numbers(words[5]))
            words = ' ' + ' '.join(words[:4] + words[5:])
        return '%s %s%s' % (message[0], owner, words)

    def heard(self, channel, message):
        if message[0] != 'W':
            return True
        self.wanted = self.wanted + [(channel, message[0] + message[17:], shown(message[1:17]))]
        return False

    def settle(self, name, owner):
        """Whether a dead waiter is still in the server's queue is the server's affair: ask it. One that is
        alive must be there."""
        n = self.model.name(name)
        mine = self.model.waiter(n, owner)
        self.settle_tomb(name, owner)
        if not mine or self.model.alive(mine) and self.random.random() < 0.9:
            return
        there = self.redis('HEXISTS', keys_of(name)[1], raw(owner))
        if not there and self.model.alive(mine):
            raise Mismatch('%s waits for %s and was forgotten' % (owner, name))
        if not there:
            n.waiters.remove(mine)

    def settle_tomb(self, name, owner):
        """A tombstone that the clock's going back made too long is made shorter when somebody looks."""
        n, record = self.model.name(name), self.redis('HGET', keys_of(name)[0], b'x' + raw(owner))
        if owner in n.tombs and record:
            over, ms = struct.unpack('<dd', record)
            if not (over == n.tombs[owner] or self.backwards and over < n.tombs[owner]):
                raise Mismatch('a tombstone until %d and not %d' % (over, n.tombs[owner]))
            n.tombs[owner] = int(over)
        elif owner in n.tombs and self.backwards:
            del n.tombs[owner]

    def check(self, what, answer, expected):
        super().check(what, self.without_others(what, answer), expected)

    def without_others(self, what, answer):
        """Who asked for it is told that others wait, or that a lease lingers which is in the way. scripts_wanted.py has when; here
        it must not be said to anybody else."""
        if what == 'renew' and answer == 2:
            return 1
        if isinstance(answer, list) and answer[:1] == ['G'] and answer[4:5] == [1]:
            if not self.asked_for(WATCHED):
                raise Mismatch('nobody wants to hear that others wait')
            return answer[:4] + answer[5:]
        if isinstance(answer, list) and answer[:1] == ['B'] and answer[2:] == [1]:
            if not self.asked_for(LINGERS):
                raise Mismatch('nobody lingers')
            return answer[:2]
        return answer

    def asked_for(self, flag):
        return any(h.flags & flag for n in self.model.names.values() for h in n.holders.values())

    def check_messages(self):
        super().check_messages()
        self.watchers.update((o, h.inbox) for n in self.model.names.values() for o, h in n.holders.items() if h.flags & WATCHED)
        for channel, letter, owner in self.wanted:
            self.count('wanted', [letter])
            if (owner, channel) not in self.watchers:
                raise Mismatch('%s was told that others wait, on %s' % (owner, channel))
        self.wanted = []

    def agrees(self, answer, expected):
        if not isinstance(expected, list) or expected[0] != 'Q':
            return super().agrees(answer, expected)
        return answer[0] == 'Q' and self.last_agrees(answer, expected) and (
            answer[1] == expected[1] or 1 <= answer[1] <= expected[1])

    def last_agrees(self, answer, expected):
        """Of a "queued": a token that is not smaller than any given, and smaller than any to be given."""
        return len(answer) == 3 and expected[2] <= answer[2] <= max(expected[2], self.model.us - 1)

    def op_acquire(self, name, owner):
        r = self.random
        self.attempt += 1
        kind = self.kind_of(name)
        flags = self.flags() & (~LINGERS if kind[1] != kind[2] else 63)  # only an exclusive lease lingers
        if kind[0] == SEMAPHORE:
            flags |= r.choice([0, NUMBERED, NUMBERED])
        args = kind + (flags, r.choice([1, 1, 1, 64, 64, 1000, r.choice([64, 64 if self.backwards else 60000])]),
                r.choice([1, 20, 100, 100, 1000, r.choice([1000, 3000000])]),
                self.delay(),
                r.choice([5, 20, 50, 50, 200, r.choice([200, 400000])]), self.attempt, r.choice(self.INBOXES + [inbox(0xdeaf)]),
                r.choice(['', 'some label', 'a\x00\xff\r\n b']))
        self.settle(name, owner)
        self.trace.append(('acquire', name, owner) + args)
        thin = self.redis('HGET', keys_of(name)[0], 'm')
        answer = self.call('acquire', keys_of(name), owner, *args)
        expected = self.model.acquire(name, owner=owner, **dict(zip(ACQUIRE, args)))
        waiters = self.model.name(name).waiters
        if answer[:2] == ['Q', 0] and expected[0] == 'Q' and waiters[0].owner != owner and \
                self.last_agrees(answer, expected):
            expected = answer  # the dead before it may not have been noticed yet
        self.check('acquire', answer, expected)
        if thin and thin[0] == HELD:
            self.check_limited(name)

    def check_limited(self, name):
        """Somebody has looked at a name that was thin: nobody holds it for longer than was promised."""
        for owner, record in parsed(records_of(self.redis, name))[1].items():
            if record[0] > self.model.now + max(record[5], record[8]):
                raise Mismatch('%s holds %s until %d' % (owner, name, record[0]))

    def op_release(self, name, owner, tomb=None):
        tomb = tomb or self.tombstone()
        self.settle(name, owner)
        self.trace.append(('release', name, owner, tomb))
        records = records_of(self.redis, name)
        held = records and records[b'm'][0] == HELD and parsed(records)[1].get(owner)
        late = held and not tomb
        # A client that was granted the thin form deletes its field; where that is not there, the script is asked.
        if not tomb and (not held or held[5] <= THIN_TTL) and self.random.random() < 0.5 and self.redis(
                'HDEL', keys_of(name)[0], raw(owner)):
            answer = ['R']
        else:
            answer = self.call('release', keys_of(name), owner, tomb)
        expected = self.model.release(name, owner, tomb)
        # Nobody has taken a thin name since its holder's deadline, and no delay runs: that is released, late or not.
        self.check('release', answer, ['R'] if late else expected)

    def op_cancel(self, name, owner):
        tomb = self.tombstone()
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
        r = self.random
        items = [(name, owner, r.choice([1, 30, 100, 1000]), r.choice([0, r.randrange(1, 2 ** 53)]), 7)]
        if r.random() < 0.5:
            items += [(k, o, r.choice([30, 100, h.ttl]), r.choice([0, h.first, h.token + 1, h.first + h.tokens]), 8)
                      for k, n in self.model.names.items() for o, h in n.holders.items()]
        self.trace.append(('renew', items))
        answers = self.call('renew', [keys_of(item[0])[0] for item in items], *[x for item in items for x in item[1:]])
        for item, answer in zip(items, answers):
            self.check('renew', answer, self.model.renew(*item))

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

    def op_resize(self, name, owner, capacity=None):
        if capacity is None:
            capacity = self.random.choice([0, 0, 1, 3, 4, 5, 8]) if not self.calm or self.random.random() < 0.1 else 0
        self.trace.append(('resize', name, capacity))
        self.check('resize', self.call('resize', keys_of(name), capacity), self.model.resize(name, capacity))

    def op_look(self, name, owner):
        self.trace.append(('look', name))
        answer = self.call('look', keys_of(name))
        if answer[0] == 'L':
            answer[5].sort()
            n = self.model.name(name)
            for owner, client in self.call.clients.items():
                known = n.holders.get(owner) or self.model.waiter(n, owner)
                if not known:
                    raise Mismatch('look shows %s' % owner)
                equal(client, known.inbox)
        self.check('look', answer, self.model.look(name))

    # -- what must hold after each call

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
        state, holders = parsed(records)
        waiters, queue = {shown(k): v for k, v in waiters.items()}, [shown(k) for k in queue]
        form = 'form %s' % {HELD: 'held', FREE: 'free', FULL: 'full'}[state['version']]
        self.counts[form] = self.counts.get(form, 0) + 1

        def must(ok, what):
            if not ok:
                raise Mismatch('%s: %s; %r' % (name, what, state))

        if state['version'] != FULL:
            must(n.capacity in (0, 1) or not holders, 'only a mutex is thin')
            must(not waiters and not queue, 'nobody waits for a thin name')
            must(self.model.over(self.model.shifted(n)), 'no lock delay runs in a thin name')
            must(self.backwards or all(self.model.over(end) for end in n.tombs.values()), 'nobody is buried in a thin name')
        else:
            must(holders or waiters or state['tomb'] or state['closed'] or n.sized, 'a name is thin where nothing else counts')
        self.follow(n, state, holders, waiters, must)
        until = self.model.counts_until(name)
        for key, ttl, end in zip(keys_of(name), ttls, (state['exp'], state['wexp'], state['wexp'])):
            if ttl >= 0:
                must(abs(real + ttl - end) <= 20000, 'the state knows when %s expires (%d)' % (key, real + ttl))
                self.expiry[key] = end
        must(state['holders'] == len(holders), 'holders are counted')
        must(state['taken'] == sum(h[3] for h in holders.values()), 'permits are counted')
        must(state['taken'] <= state['capacity'] or not holders or n.shrunk, 'no more than there are')
        must((state['mode'] == 3) == n.sized and (not n.sized or state['capacity'] == n.capacity), 'its size')
        must(state['waiters'] == len(waiters) == len(queue) and sorted(waiters) == sorted(queue) or
             self.model.now > state['wexp'], 'waiters are counted')
        must(all(state['soon'] <= h[0] for h in holders.values()), 'soon is a lower bound')
        must(all(state['far'] >= h[0] + h[4] for h in holders.values()), 'far is an upper bound')
        must(state['exp'] > until and state['exp'] >= self.model.now, 'the key outlives %d' % until)
        alive = [w for w in n.waiters if self.model.alive(w)]
        must(not alive or state['wexp'] > max(w.beat + w.window for w in alive), 'the queue outlives its waiters')
        must(not alive or state['exp'] >= state['wexp'], 'the name outlives its queue')
        # An idle name does not stay for ever: its ttl covers what it waits for, with some
        # slack.
        latest = max([until, state['wexp'], self.model.now])
        if state['holders'] or state['tomb']:
            latest = max(latest, state['far'])
        must(state['exp'] == NEVER if n.sized else state['exp'] <= latest + 13 * SLACK, 'the key expires some day')
        living = {o for o, h in n.holders.items() if h.deadline >= self.model.now}
        must({k for k, h in holders.items() if h[0] >= self.model.now} == living, 'who holds')
        for w in alive:
            must(w.owner in waiters, 'who waits')
        must(len([k for k in records if k[:1] == b'x']) <= 200, 'tombstones are taken away')

    def follow(self, n, state, holders, waiters, must):
        """After the clock went back: when somebody looks, what is too far ahead becomes what it can be at most."""
        now = self.model.now
        for owner, h in n.holders.items():
            record = holders.get(owner)
            if record and state['version'] == HELD:
                h.since = int(record[6])  # the age of a thin lease is that of its token
            if record and record[0] != h.deadline:
                must(record[0] == self.model.most(h) < h.deadline or h.deadline == self.model.most(h) < record[0],
                     'the deadline of %s: %r and not %r' % (owner, record, h.deadline))
                h.deadline = int(record[0])
        for w in n.waiters:
            beat = struct.unpack('<d', waiters[w.owner][:8])[0] if w.owner in waiters else w.beat
            if beat != w.beat:
                must(now == beat < w.beat, 'the heartbeat of %s: %r' % (w.owner, beat))
                w.beat = int(beat)
        if any(h[0] < now for h in holders.values()):
            return  # nobody has looked yet
        if state['closed'] != n.closed and now <= max(n.closed, state['closed']):
            must(state['closed'] == self.model.shifted(n), 'closed until %d and not %d' % (state['closed'], n.closed))
        n.closed = int(state['closed'])

    OPS = (['acquire'] * 30 + ['release'] * 14 + ['cancel'] * 5 + ['beat'] * 12 + ['renew'] * 8 + ['adopt'] * 3 +
           ['note'] * 3 + ['break'] * 4 + ['look'] * 3 + ['resize'] * 3)

    def finish(self):
        """Everybody has died: nothing of them stays."""
        self.prepare()
        for name in self.NAMES:
            self.op_resize(name, None, 0)
        self.check_messages()
        self.check_all_records()
        last = max(self.model.counts_until(name) for name in self.NAMES)
        for records in (records_of(self.redis, name) for name in self.NAMES):
            if records:  # a lease of many that was shortened may be remembered as long as it was
                last = max(last, parsed(records)[0]['far'])
        self.model.us = int(max(last, self.model.now) + 30 * SLACK) * 1000
        self.set_clock()
        self.expire_keys()
        left = self.redis('KEYS', PREFIX + '*')
        if left:
            raise Mismatch('left behind: %r' % left)
