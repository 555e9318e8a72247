# SPDX-License-Identifier: MIT
"""
The scripts of one Redlock node, on a real server, beside the model; after each call its answer, the messages it sent,
the records it left and their expiry are compared. The server's clock is a hash that the test writes, its dice a list.
"""
import collections
import os
import struct

from model_redlock import Redlock
from scripts import ScriptSequence, text
from sequence import SLACK, Mismatch, equal

HERE = os.path.dirname(os.path.abspath(__file__))

SCRIPTS = os.path.join(HERE, '..', '..', 'src', 'engine', 'redlock', 'scripts')
PREFIX = 'hf:rl:'
CLUSTER = PREFIX + 'cluster'
STATE = 'version mode capacity taken holders waiters soon far closed tomb exp wexp sweep seen watched lingers'.split()
STATE_LEN = 121
HOLDER = ('deadline ttl window c held tid tokens permits delay since flags attempt stamp start limit '
          'inbox_len slots_len').split()
WAITER = 'beat window permits tokens ttl delay flags since attempt stamp start inbox_len'.split()
ACQUIRE = ('epoch owner attempt mode capacity permits flags proposal tokens ttl delay window stamp start inbox '
           'label').split()

# Where the tests take the place of the server: its clock and its dice.
TIME = "call('TIME')", "call('HMGET', 'clock', 's', 'u')"
DICE = ("call('HRANDFIELD', ckey, 2, 'WITHVALUES')",
        "(function() local names, some = call('LRANGE', 'pick', 0, -1), {} for i = 1, #names do "
        "local value = call('HGET', ckey, names[i]) "
        "if value then some[#some + 1] = names[i] some[#some + 1] = value end end return some end)()")


def ours(scripts):
    """The scripts with a clock and dice that are the test's."""
    for script, (text, _), times in (('acquire', TIME, 2), ('acquire', DICE, 1), ('mark', TIME, 1)):
        equal((script, text, scripts[script].count(text)), (script, text, times))
    changed = {}
    for name, source in scripts.items():
        for old, new in (TIME, DICE):
            source = source.replace(old, new)
        changed[name] = source
    return changed


def keys_of(name):
    key = '%s{%s}' % (PREFIX, name.replace('%', '%25').replace('{', '%7B').replace('}', '%7D'))
    return wire([key, key + ':w', key + ':q'])


def owner_of(name, owner):
    """An owner has one name, whatever a test calls it."""
    return ('%s|%s' % (owner, name)).ljust(32, '.')[:32]


def wire(args):
    return [a.encode('latin-1') if isinstance(a, str) else a for a in args]


class Caller:
    """The scripts on a connection, loaded."""

    def __init__(self, server, scripts):
        self.redis = server.connect()
        self.shas = {name: self.redis('SCRIPT', 'LOAD', source).decode() for name, source in scripts.items()}

    def command(self, script, keys, args):
        if script == 'acquire':
            args = request_of(*args)
        if script in ('acquire', 'release', 'break', 'look', 'beat', 'renew'):  # those that know the queue
            keys = wire(keys)
            keys = keys[:1] + [key + end for key in keys[1:] if key[-2:] not in (b':w', b':q') for end in (b'', b':w', b':q')]
        return ['EVALSHA', self.shas[script], len(keys)] + list(keys) + wire(args)

    def __call__(self, script, keys, *args):
        answer = text(self.redis(*self.command(script, keys, args)))
        if script == 'acquire' and isinstance(answer, list) and answer[0] == 'B':
            self.lingers = answer.pop()
        if script == 'release':  # a bare number; R and N as of break
            return {1: ['R'], 0: ['N']}[answer]
        return answer

    def delete(self, owner, attempt):
        """A release without a script, of a lease that is alone."""
        return self.redis('HDEL', CLUSTER, lease_name(owner, attempt)) == 1


def lease_name(owner, attempt):
    return b'l' + struct.pack('<I', attempt) + owner.encode()


def request_of(epoch, name, owner, attempt, mode, capacity, permits, flags, proposal, tokens, ttl, delay, window, stamp, start,
               inbox, label, last=bytes(37)):
    """The arguments of an acquire."""
    request = (b'\3' + epoch + lease_name(owner, attempt) + struct.pack('<B5d', flags, ttl, window, tokens, proposal, stamp) +
               last + bytes([len(inbox)]) + wire([inbox + label])[0])
    if (mode, delay) == (0, 0):
        return ['n' + name, request]
    return ['n' + name, request, struct.pack('<5d', mode, capacity, permits, delay, start)]


def epoch_of(number, letter):
    return struct.pack('<d', number) + letter.encode() * 16


def holder_of(record):
    h = dict(zip(HOLDER, struct.unpack('<15d2I', record[:128])))
    at = 152 + h['inbox_len']
    h.update(epoch=record[128:152], inbox=text(record[152:at]), slots=text(record[at:at + h['slots_len']]),
             label=text(record[at + h['slots_len']:]))
    return h


def waiter_of(record):
    w = dict(zip(WAITER, struct.unpack('<11dI', record[:92])))
    at = 116 + w['inbox_len']
    w.update(epoch=record[92:116], inbox=text(record[116:at]), label=text(record[at:]))
    return w


def alone_of(field, limit):
    """The holder of a name who is alone, as it would be written out."""
    c, deadline, since = struct.unpack('<3d', field[:24])
    attempt, = struct.unpack('<I', field[50:54])
    flags, ttl, window, tokens, _, stamp = struct.unpack('<B5d', field[86:127])
    inbox_len = field[164]
    h = dict(deadline=deadline, ttl=ttl, window=window, c=c, held=0, tid=0, tokens=tokens, permits=1, delay=0,
             since=since, flags=flags & ~3, attempt=attempt, stamp=stamp, start=0, limit=limit,
             epoch=field[25:49], inbox=text(field[165:165 + inbox_len]), slots='', label=text(field[165 + inbox_len:]))
    return field[54:86].decode(), h


class Run(ScriptSequence):
    NAMES = ['a', 'b{%}', 'c d\xff\x00']
    IDLE = ['idle%d' % i for i in range(4)]  # names of which there are counters only
    OWNERS = ['%031x' % (i * 0x111111111111111) for i in range(12)]  # and the number of the name: an owner has one
    INBOXES = ['hf:rl:inbox:1', 'hf:rl:inbox:2 with a space']
    KINDS = [(0, 1), (0, 1), (1, 1 << 30), (2, 3), (2, 5)]

    def __init__(self, server, scripts, seed):
        super().__init__(server, Caller(server, scripts), Redlock(), seed)
        self.attempts = collections.defaultdict(lambda: 1)
        self.forms = {}  # the fields of counters
        self.alone = {}  # name -> (attempt, owner): its lease is alone, and not released
        self.number = 0
        self.epochs = [epoch_of(0, 'x')]
        self.setup()

    def setup(self):
        marker = bytes(self.random.randrange(256) for _ in range(16))
        self.op('mark', marker, 1)
        self.number += 1
        self.epochs.append(epoch_of(self.number, self.random.choice('abc')))
        if self.model.marker:
            marker = self.model.marker[0]
        self.op('install', marker, self.epochs[-1], b'c' * 16, 3, self.random.choice([2000, 400000, 4000000]),
                self.random.choice([0, 7, self.model.us - 70000000, self.model.us + 5000000]))

    def op(self, script, *args):
        """One of those that have the cluster's key only."""
        self.trace.append((script,) + args)
        answer = self.call(script, [CLUSTER], *args)
        if script == 'status' and len(answer) == 8:  # it also counts leases that are alone
            answer[7] -= sum(key[:1] == b'l' for key in self.redis('HKEYS', CLUSTER))
        self.check(script, answer, getattr(self.model, script)(*args))

    # -- time

    def ends(self):
        return super().ends() + [t[1] for n in self.model.names.values() for t in n.tombs.values()]

    # -- calls

    def settle(self, name, owner):
        """Whether a dead waiter is still in the server's queue is the server's affair: ask it. One that is
        alive must be there."""
        n = self.model.name(name)
        mine = self.model.waiter(n, owner)
        alive = mine in self.model.living(n)
        if not mine or alive and self.random.random() < 0.9:
            return
        there = self.redis('HEXISTS', keys_of(name)[1], owner)
        if not there and alive:
            raise Mismatch('%s waits for %s and was forgotten' % (owner, name))
        if not there:
            n.waiters.remove(mine)

    def count(self, what, expected):
        super().count(what, 'c' if expected and what in ('acquire', 'renew') and not isinstance(expected, list) else expected)

    def some_epoch(self):
        return self.epochs[-1] if self.random.random() < 0.97 else self.random.choice(self.epochs)

    def proposal(self):
        r, us = self.random, self.model.us
        return r.choice([us, us, us, us - r.randrange(3000), us + r.randrange(3000), 0, us + 60000000, us + 60000001,
                         us - 100000000])

    def attempt_of(self, name, owner):
        """Mostly the one that is known there, sometimes another."""
        r, n = self.random, self.model.name(name)
        known = n.holders.get(owner) or self.model.waiter(n, owner)
        if known and r.random() < 0.9:
            return known.attempt
        return max(1, self.attempts[owner] + r.choice([0, 0, 0, -1, -2]))

    def op_acquire(self, name, owner):
        r = self.random
        mode, capacity, permits = self.kind_of(name)
        if r.random() < 0.3:
            self.attempts[owner] += 1
        us, attempt = self.model.us, self.attempt_of(name, owner)
        if owner in self.model.name(name).holders and r.random() < 0.3:  # which replaces the one that holds
            attempt = self.attempts[owner] = max(attempt, self.attempts[owner]) + 1
        args = (self.some_epoch(), owner, attempt, mode, capacity, permits, self.flags(), self.proposal(),
                r.choice([1, 64, 64, 1000]), r.choice([1, 20, 100, 100, 1000, r.choice([1000, 3000000])]),
                r.choice([0, 0, 0, 0, 30, r.choice([1000, 300000])]),
                r.choice([5, 20, 50, 50, 200, r.choice([200, 400000])]),
                r.choice([us, us - r.randrange(100000), us - 200000, us - 100000, us + 50000, 0]),
                r.randrange(capacity), r.choice(self.INBOXES + ['hf:rl:inbox:deaf']),
                r.choice(['', 'some label', 'a\x00\xff\r\n b']))
        self.settle(name, owner)
        self.trace.append(('acquire', name) + args)
        answer = self.call('acquire', [CLUSTER] + keys_of(name)[:1], args[0], name, *args[1:], self.guess(name))
        expected = self.model.acquire(name, **dict(zip(ACQUIRE, args)))
        waiters = self.model.name(name).waiters
        if isinstance(answer, list) and answer[:2] == ['Q', 0] and expected[0] == 'Q' and answer[2:] == expected[2:] and len(waiters) > 1:
            expected = answer  # the dead before it may not have been noticed yet, and it may be the first by its stamp
        self.check('acquire', answer, expected)

    def guess(self, name):
        """Which lease the client takes for the last one: it may be wrong, or not released."""
        form = self.forms.get(name, b'')
        return form[49:86] if len(form) > 9 and self.random.random() < 0.8 else bytes(37)

    def op_write(self, name, owner):
        h = self.model.name(name).holders.get(owner)
        c = self.model.counter(name)
        args = (self.some_epoch(), owner, self.attempt_of(name, owner),
                self.random.choice([c, c + 1, c + 1000, c - 1, 1, 2 ** 53]) if h else c + 5)
        self.trace.append(('write', name) + args)
        self.check('write', self.call('write', [CLUSTER] + keys_of(name)[:1], args[0], name, *args[1:]),
                   self.model.write(name, *args))

    def end_args(self, name, owner):
        r = self.random
        self.settle(name, owner)
        return (owner, self.attempt_of(name, owner), r.choice([0] * 7 + [40, 40, r.choice([40, 100000])]),
                self.proposal())

    def op_release(self, name, owner):
        args = self.end_args(name, owner)
        self.trace.append(('release', name) + args)
        if not args[2] and self.random.random() < 0.7:
            holders = self.model.name(name).holders
            mine = owner in holders and holders[owner].attempt == args[1]
            if self.call.delete(owner, args[1]):
                # It may have ended: then nobody has taken it since.
                if mine and holders[owner].deadline >= self.model.now:
                    self.check('release', ['R'], self.model.release(name, *args))
                else:
                    equal(([h.deadline >= self.model.now for h in holders.values()], args[1:2] + (owner,)),
                          ([False] * len(holders), self.alone.pop(name)))
                return
        self.check('release', self.call('release', [CLUSTER] + keys_of(name)[:1], name, *args),
                   self.model.release(name, *args))

    def op_break(self, name, owner):
        args = self.end_args(name, owner)
        self.trace.append(('break', name) + args)
        self.check('break', self.call('break', [CLUSTER] + keys_of(name)[:1], name, *args),
                   self.model.break_(name, *args))

    def op_beat(self, name, owner):
        """Of one, or of all that wait or hold anywhere."""
        r = self.random
        beats = [(name, owner, r.choice([5, 20, 50, 50, 200]))]
        if r.random() < 0.5:
            beats = [(k, w.owner, w.window) for k, n in self.model.names.items() for w in n.waiters]
            beats += [(k, o, h.window) for k, n in self.model.names.items() for o, h in n.holders.items()
                      if r.random() < 0.3]
            r.shuffle(beats)
        if not beats:
            return
        beats = [(k, o, self.attempt_of(k, o), window, r.choice([0, 1, 3])) for k, o, window in beats]
        for b in beats:
            self.settle(b[0], b[1])
        epoch, proposal = self.some_epoch(), self.proposal()
        self.trace.append(('beat', epoch, proposal, beats))
        keys = [CLUSTER] + [keys_of(b[0])[0] for b in beats]
        answers = self.call('beat', keys, epoch, proposal, *[x for b in beats for x in b])
        if self.model.epoch is None or epoch != self.model.epoch:
            now = self.model.epoch
            self.check('beat', answers, ['E', now.decode('latin-1')] if now else ['U'])
            return
        if len(answers) != len(beats):
            raise Mismatch('beat answered %r' % answers)
        for b, answer in zip(beats, answers):
            n = self.model.name(b[0])
            waiter = self.model.waiter(n, b[1])
            mine = waiter and waiter.attempt == b[2] and waiter.epoch == self.model.epoch
            if mine and waiter not in self.model.living(n) and answer == ['N']:
                n.waiters.remove(waiter)  # dropped by the beat before
            self.check('beat', answer, self.model.beat(b[0], proposal, *b[1:]))

    def op_renew(self, name, owner):
        r = self.random
        items = [(name, owner, r.choice([1, 30, 100, 1000, 5000000]))]
        if r.random() < 0.5:
            items += [(k, o, r.choice([30, 100, h.ttl])) for k, n in self.model.names.items()
                      for o, h in n.holders.items()]
        items = [(k, o, self.attempt_of(k, o), t, r.choice([0, r.randrange(2 ** 53)]), 42) for k, o, t in items]
        self.trace.append(('renew', items))
        answers = self.call('renew', [CLUSTER] + [keys_of(i[0])[0] for i in items], *[x for i in items for x in i + ('',)])
        for item, answer in zip(items, answers):
            self.check('renew', answer, self.model.renew(*item))

    def op_adopt(self, name, owner):
        ttl = self.random.choice([0, 50, 1000, 5000000])
        self.trace.append(('adopt', name, owner, ttl))
        self.check('adopt', self.call('adopt', [CLUSTER] + keys_of(name)[:1], name, owner, ttl), self.model.adopt(name, owner, ttl))

    def op_note(self, name, owner):
        token = self.random.randrange(2 ** 53)
        self.trace.append(('note', name, owner, token))
        self.model.note(name, owner, token, 4711)
        self.check('note', self.call('note', [CLUSTER] + keys_of(name)[:1], name, owner, token, 4711), ['D'])

    def op_look(self, name, owner):
        self.trace.append(('look', name))
        n = self.model.name(name)
        for w in list(n.waiters):
            if w not in self.model.living(n):
                self.settle(name, w.owner)
        answer = self.call('look', [CLUSTER] + keys_of(name)[:1], name)
        if answer[0] == 'L':
            answer[4].sort()
        self.check('look', answer, self.model.look(name))

    def op_cluster(self, name, owner):
        """Epochs pass, data is lost."""
        r = self.random
        what = r.choice(['status', 'seal', 'seal', 'mark', 'install', 'lose', 'idle', 'idle'])
        if what == 'status':
            self.op('status')
        elif what == 'mark':
            self.op('mark', b'm' * 16, r.choice([0, 50]))
        elif what == 'install':
            self.op('install', b'm' * 16, self.epochs[-1], b'c' * 16, 3, 1000, 5)
        elif what == 'seal':
            last = self.epochs[-1][8:9].decode()  # epochs only rise: by number, then by id
            letter = r.choice('abcdef')
            self.number += r.choice([0, 1]) if letter >= last else 1
            new = epoch_of(self.number, letter)
            expected = r.choice([self.epochs[-1], self.epochs[-1], r.choice(self.epochs)])
            self.op('seal', expected, new)
            if self.model.epoch == new and new != self.epochs[-1]:
                self.epochs.append(new)
        elif what == 'idle' and self.model.epoch:
            self.op_idle(r.choice(self.IDLE))
        elif what == 'lose' and r.random() < 0.2:
            self.redis('DEL', CLUSTER, *[key for n in self.NAMES + self.IDLE for key in keys_of(n)])
            self.expiry = {}
            self.model.lose()
            self.trace.append(('lose',))
            self.op_acquire(name, owner)
            self.op_write(name, owner)
            self.op('status')
            self.op('seal', self.epochs[-1], epoch_of(9, 'z'))
            self.setup()

    def op_idle(self, name):
        """A name that is used once: its counter goes again some day."""
        owner = name.ljust(32, 'o')
        args = (self.epochs[-1], owner, 1, 0, 1, 1, 0, self.proposal(), 1, 1000, 0, 50, 0, 0, 'i', '')
        self.trace.append(('acquire', name) + args)
        keys = [CLUSTER] + keys_of(name)[:1]
        self.check('acquire', self.call('acquire', keys, args[0], name, *args[1:]),
                   self.model.acquire(name, **dict(zip(ACQUIRE, args))))
        self.check('release', self.call('release', keys, name, owner, 1, 0, 0), self.model.release(name, owner, 1, 0, 0))

    # -- what must hold after each call

    def check_all_records(self):
        commands = [['HGETALL', CLUSTER], ['PTTL', CLUSTER]]
        for name in self.NAMES:
            key, wkey, qkey = keys_of(name)
            commands += [['HGETALL', key], ['HGETALL', wkey], ['ZRANGE', qkey, 0, -1, 'WITHSCORES'],
                         ['PEXPIRETIME', key], ['PEXPIRETIME', wkey], ['PEXPIRETIME', qkey]]
        replies = self.redis.many(commands)
        self.check_cluster(replies[0], replies[1])
        for i, name in enumerate(self.NAMES):
            self.check_records(name, *replies[6 * i + 2:6 * i + 8])

    def check_cluster(self, fields, ttl):
        fields = dict(zip(fields[::2], fields[1::2]))
        model, expected = self.model, {}
        if model.epoch:
            expected[b'm'] = b'\3' + model.epoch + model.cluster + struct.pack('<4d', model.n, model.max_ttl, model.top, model.floor)
        for name, c in model.counters.items():
            expected[wire(['n' + name])[0]] = struct.pack('<d', c)
        if model.marker:
            expected[b'k'] = model.marker[0] + struct.pack('<d', model.marker[1])
        self.forms = {k[1:].decode('latin-1'): v for k, v in fields.items() if k[:1] == b'n'}
        self.alone = {}
        for name, field in self.forms.items():
            if len(field) > 9 and fields.pop(field[49:86], None) is not None:
                self.alone[name] = struct.unpack('<I', field[50:54]) + (field[54:86].decode(),)
        if {k: v[:8] if k[:1] == b'n' else v for k, v in fields.items()} != expected:
            raise Mismatch('the cluster is %r and not %r' % (fields, expected))
        if fields and ttl != -1:
            raise Mismatch('the counters expire')

    def check_records(self, name, records, waiters, queue, *ends):
        model, n = self.model, self.model.name(name)
        if -1 in ends:
            raise Mismatch('a key of %s does not expire: %r' % (name, ends))
        records = dict(zip(records[::2], records[1::2]))
        waiters = dict(zip(waiters[::2], waiters[1::2]))
        queue = list(zip(queue[::2], [float(x) for x in queue[1::2]]))
        until = model.counts_until(name)
        living = {o: h.__dict__ for o, h in n.holders.items() if h.deadline >= model.now}
        form = self.forms.get(name, b'')
        if name in self.alone:
            owner, h = alone_of(form, model.max_ttl)
            if records or waiters or queue or not ({owner: h} == living or not living and h['deadline'] < model.now) or until > h['deadline']:
                raise Mismatch('%s: %r is alone, and not %r' % (name, h, living))
            return
        if records and form and len(form) != 9:
            raise Mismatch('%s has a key, and its counter does not say so' % name)
        if not records:
            if until >= model.now or waiters or queue:
                raise Mismatch('%s is gone' % name)
            return

        def must(ok, what):
            if not ok:
                raise Mismatch('%s: %s; %r' % (name, what, state))

        state = m = records[b'm']
        state = dict(zip(STATE, struct.unpack('<B15d', m[:STATE_LEN])))
        holders = {k[1:].decode(): holder_of(v) for k, v in records.items() if k[:1] == b'h'}
        queued = {k.decode(): waiter_of(v) for k, v in waiters.items()}
        for key, end, known in zip(keys_of(name), ends, (state['exp'], state['wexp'], state['wexp'])):
            if end >= 0:
                must(end == known, 'the state knows when %s expires (%d)' % (key, end))
                self.expiry[key] = end
        must(state['version'] == 3, 'version')
        must(state['holders'] == len(holders), 'holders are counted')
        must(state['taken'] == sum(h['permits'] for h in holders.values()), 'permits are counted')
        must(state['taken'] <= state['capacity'] or not holders, 'no more than there are')
        used = [s for s in text(m[STATE_LEN:]).split(',') if s]
        must(sorted(used) == sorted(s for h in holders.values() for s in h['slots'].split(',') if s), 'slots')
        must(len(set(used)) == len(used) and all(0 <= int(s) < state['capacity'] for s in used), 'slots once')
        must(state['waiters'] == len(queued) == len(queue) and
             [(k.decode(), v) for k, v in queue] == sorted(((o, w['stamp']) for o, w in queued.items()),
                                                          key=lambda x: (x[1], x[0])) or
             model.now > state['wexp'], 'waiters are counted, and in order')
        must(all(state['soon'] <= h['deadline'] for h in holders.values()), 'soon is a lower bound')
        must(all(state['far'] >= h['deadline'] + h['delay'] for h in holders.values()), 'far is an upper bound')
        must(state['exp'] > until and state['exp'] >= model.now, 'the key outlives %d' % until)
        must(state['seen'] <= model.now, 'the clock')
        alive = model.living(n)
        must(not alive or state['wexp'] > max(w.beat + w.window for w in alive), 'the queue outlives its waiters')
        must(not alive or state['exp'] >= state['wexp'], 'the name outlives its queue')
        # An idle name does not stay for ever: its ttl covers what it waits for, with some
        # slack.
        latest = max([until, state['wexp'], model.now])
        if state['holders'] or state['tomb']:
            latest = max(latest, state['far'])
        must(state['exp'] <= latest + 13 * SLACK, 'the key expires some day')
        must(state['holders'] or state['waiters'] or state['tomb'] or state['closed'] >= state['seen'],
             'a name that nobody uses is gone')

        def same(record, expected, leave_out):
            record = {k: v for k, v in record.items() if k not in leave_out}
            must(record == {k: v for k, v in expected.items() if k in record},
                 'a record is %r and not %r' % (record, expected))

        must({o for o, h in holders.items() if h['deadline'] >= model.now} == set(living), 'who holds')
        for o, h in living.items():
            same(holders[o], h, ('inbox_len', 'slots_len'))
        for w in alive:
            must(w.owner in queued, 'who waits')
            same(queued[w.owner], w.__dict__, ('inbox_len',))
        tombs = {k[1:].decode(): struct.unpack('<3d', v)[:2] for k, v in records.items() if k[:1] == b'x'}
        expected = {o: t for o, t in n.tombs.items() if t[1] >= model.now}
        must({o: t for o, t in tombs.items() if t[1] >= model.now} == expected, 'tombstones are %r' % expected)
        must(len(tombs) <= 200, 'tombstones are taken away')

    OPS = (['acquire'] * 30 + ['release'] * 12 + ['beat'] * 12 + ['renew'] * 7 + ['write'] * 6 + ['adopt'] * 3 +
           ['note'] * 2 + ['break'] * 4 + ['look'] * 3 + ['cluster'] * 2)

    def some_owner(self, op, name):
        r, n = self.random, self.model.name(name)
        owner = r.choice(self.OWNERS) + str(self.NAMES.index(name))
        if op in ('release', 'break', 'write', 'adopt', 'note') and r.random() < 0.7 or op == 'acquire' and r.random() < 0.15:
            owner = r.choice(sorted(n.holders) or [owner])
        elif op in ('release', 'beat') and r.random() < 0.5:
            owner = r.choice([w.owner for w in n.waiters] or [owner])
        return owner

    def prepare(self):
        self.model.pick = self.random.sample(self.IDLE + self.NAMES, 2)
        self.redis('DEL', 'pick')
        self.redis('RPUSH', 'pick', *wire(['n' + p for p in self.model.pick]))
        self.model.kept = {p for p in self.model.pick if self.kept(p)}

    def kept(self, name):
        """Does anything of this name count, or is there a key of it?"""
        field = self.redis('HGET', CLUSTER, *wire(['n' + name])) or b''
        kept = self.redis('EXISTS', keys_of(name)[0]) if len(field) <= 9 else (
            self.redis('HEXISTS', CLUSTER, field[49:86]) and struct.unpack('<d', field[8:16])[0] >= self.model.now)
        if not kept and self.model.counts_until(name) >= self.model.now:
            raise Mismatch('%s is in use, and may be pruned' % name)
        return kept

    def finish(self):
        """Everybody has died: nothing of them stays but counters."""
        last = max(self.model.counts_until(name) for name in self.NAMES)
        for state in self.redis.many([['HGET', keys_of(name)[0], 'm'] for name in self.NAMES]):
            if state:  # a lease of many that was shortened may be remembered as long as it was
                last = max(last, dict(zip(STATE, struct.unpack('<B15d', state[:STATE_LEN])))['far'])
        self.model.us = int(max(last, self.model.now) + 30 * SLACK) * 1000
        self.set_clock()
        self.expire_keys()
        left = self.redis('KEYS', PREFIX + '{*')
        if left:
            raise Mismatch('left behind: %r' % left)
