# SPDX-License-Identifier: MIT
"""
Every order of events, for a few clients of one name on Redis: a search through all states, breadth first. The server in it is the
real one: each step runs the engine's own scripts on a redis-server (once for each state of the name, call and time). The clients
are modelled, after src/engine/redis/acquire.c, message.c and heartbeat.c.

What can happen, in any order: a client asks, as a waiter or a try; sends its acquire again, and then gives up its first copy, which
may still arrive; gives up; sends a heartbeat; renews; releases. Acquires, renewals, releases and grant messages arrive at any later
time, or never; every answer may be lost. A release is a plain HDEL, and the script where that found nothing. A client that does nothing any more has crashed. Time passes; the server's clock is set
back; a lease is broken.

What is judged, in every state: at most one lease is valid by its client's clock; each valid lease is in the store; tokens grow; a
living waiter does not wait for a name that nobody holds, after a call that could grant it; an owner with a tombstone gets
nothing; a renewal revives nothing; a thin name has no other record and key; no deadline is further ahead than was promised.

Usage: thin.py [--scripts DIR] [--long] [mutants [WORDS]]     mutants: break one rule after the other (the scripts' are those of
test/permits/mutants.py), and see that each is found. Prints the states of each world; the path to the first bad one, if any.

In place of the search of the design, which modelled the scripts too. Without lock delays, lost data and failover (test/permits,
test/redis/failover.c).
"""
import argparse
import os
import shutil
import struct
import sys
import tempfile
import time
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, '..', part) for part in ('lib', 'permits')]

import resp  # noqa: E402
from mutants import MUTANTS  # noqa: E402
from on_redis import FULL, HELD, SCRIPTS, inbox, keys_of, parsed, raw, request, shown  # noqa: E402
from scripts import embedded  # noqa: E402

TICK = 1000  # ms
TTL, WINDOW, TOMB = 2, 2, 3  # ticks
BACK = 3  # ... by which the clock is set back
START = 2000000000  # the server's clock at first, in seconds
KEYS = keys_of('n')
OWNERS = ['a', 'b', 'c']
NEW, ASK, QUEUE, HOLD, DONE = range(5)

Client = namedtuple('Client', 'phase wait attempt copy sent first unsure past heard valid token renews buried')
State = namedtuple('State', 'time back name clients net top broken moved')
World = namedtuple('World', 'clients ticks tries resend renews back brk ttl window', defaults=(TTL, WINDOW))

# Clients that do it wrong.
CLIENT_MUTANTS = LATE, NO_TOMB = ('validity counts from the arrival of a message', 'no tombstone when unsure')


class Bad(Exception):
    """A property does not hold."""


class Name:
    """The name on the server: a step is one script call on one of its states, remembered."""

    def __init__(self, server, scripts):
        self.redis = server.connect()
        self.shas, self.states, self.ids, self.steps, self.seen = {}, [], {}, {}, {}
        for name in ('acquire', 'release', 'cancel', 'beat', 'renew', 'break'):
            source = scripts[name].replace("call('TIME')", "call('HMGET', 'clock', 's', 'u')")
            source = source.replace("redis.pcall('PUBLISH',", "call('RPUSH', 'said',").replace(
                "call('PEXPIREAT',", "call('HSET', 'expiry',")
            self.shas[name] = self.redis('SCRIPT', 'LOAD', source)
        self.empty = self.id_of(((), (), (), ()))

    def id_of(self, state):
        if state not in self.ids:
            self.ids[state] = len(self.states)
            self.states.append(state)
        return self.ids[state]

    def step(self, state, now, script, *args):
        """The state after it, the answer, and the grants that it has told: (owner, attempt, token)."""
        key = (state, now, script, args)
        if key not in self.steps:
            self.steps[key] = self.run(*key)
        return self.steps[key]

    def run(self, state, now, script, args):
        name, waiters, queue, expiry = self.states[state]
        kept = {key for key, at in expiry if float(at) >= now * TICK + START * 1000}
        commands = [['FLUSHDB'], ['HSET', 'clock', 's', START + now * TICK // 1000, 'u', 0]]
        for key, verb, parts in zip(KEYS, ('HSET', 'HSET', 'RPUSH'), (name, waiters, queue)):
            if parts and key.encode() in kept:
                commands.append([verb, key] + list(parts))
        if script == 'HDEL':
            commands.append(['HDEL', KEYS[0]] + list(args))
        else:
            commands.append(['EVALSHA', self.shas[script], 3] + KEYS + list(args))
        commands += [['HGETALL', KEYS[0]], ['HGETALL', KEYS[1]], ['LRANGE', KEYS[2], 0, -1], ['HGETALL', 'expiry'],
                     ['LRANGE', 'said', 0, -1]]
        answer, name, waiters, queue, moved, said = self.redis.many(commands)[-6:]
        if isinstance(answer, resp.Error):
            raise Bad('%s: %s' % (script, answer))
        expiry = dict(expiry)
        expiry.update(zip(moved[::2], moved[1::2]))
        expiry = tuple(sorted((k, expiry[k]) for k, there in zip((k.encode() for k in KEYS), (name, waiters, queue))
                              if there and k in expiry))
        grants = []
        for text in said[1::2]:
            if text[:1] == b'G':
                attempt, token = text[17:].split()[:2]
                grants.append((OWNERS.index(shown(text[1:17])), int(attempt), int(token)))
        return self.id_of((pairs(name), pairs(waiters), tuple(queue), expiry)), answer, tuple(grants)

    def look(self, state):
        """The form, the holders (owner: deadline, first token) and the waiters (owner: alive until), in ticks and tokens."""
        if state not in self.seen:
            name, waiters, queue, expiry = self.states[state]
            records = dict(zip(name[::2], name[1::2]))
            form, holders = 0, {}
            if records:
                form = records[b'm'][0]
                if form != FULL and len(records) > 1 and (form, [k for k in records if k != b'm']) != (HELD, [records[b'm'][25:41]]):
                    raise Bad('a record beside a thin name')
                holders = {OWNERS.index(o): (h[0] / TICK - START * 1000 / TICK, int(h[1])) for o, h in parsed(records)[1].items()}
                if form != FULL and (waiters or queue):
                    raise Bad('a queue beside a thin name')
            self.seen[state] = form, holders, {OWNERS.index(shown(o)): alive(w) for o, w in zip(waiters[::2], waiters[1::2])}
        return self.seen[state]


def pairs(flat):
    """Fields of a hash, in one order."""
    return tuple(x for pair in sorted(zip(flat[::2], flat[1::2])) for x in pair)


def alive(waiter):
    beat, window = struct.unpack('<dd', waiter[:16])
    return (beat + window) / TICK - START * 1000 / TICK


class Search:
    def __init__(self, name, world, mutant=None):
        self.name, self.world, self.mutant = name, world, mutant
        new = Client(NEW, True, 0, 0, 0, 0, False, 0, 0, -1, 0, world.renews, -99)
        self.first = State(0, 0, name.empty, (new,) * world.clients, frozenset(), 0, False, False)

    # -- the server

    def call(self, s, script, *args, owner=None):
        """The state after a script call, and its answer."""
        now = s.time - s.back
        _, before, _ = self.name.look(s.name)
        state, answer, grants = self.name.step(s.name, now, script, *args)
        form, holders, waiters = self.name.look(state)
        top, net = s.top, s.net
        for who, (deadline, token) in holders.items():
            if who not in before or before[who][1] != token:
                if token <= top:
                    raise Bad('token %d after %d' % (token, top))
                top = token
                if now <= s.clients[who].buried:
                    raise Bad('%s is granted although it was buried' % OWNERS[who])
        grants_on = script != 'renew' and (script, answer) != ('HDEL', 0)  # what could have granted it
        if grants_on and not any(now <= deadline for deadline, _ in holders.values()) and any(
                now <= end for end in waiters.values()):
            raise Bad('nobody holds it, and somebody waits')
        if any(now <= deadline and who in waiters for who, (deadline, _) in holders.items()):
            raise Bad('it waits for itself')
        if script == 'acquire':
            for deadline, _ in holders.values():
                slack = 0 if form == HELD else 1  # a second is not noticed in the full form (state.lua)
                if deadline > now + max(self.world.ttl, self.world.window) + slack:
                    raise Bad('a deadline further ahead than was promised')
        if script == 'renew' and answer[0] and not (owner in before and now <= before[owner][0]):
            raise Bad('a renewal revives')
        for who, attempt, token in grants:
            net = net | {('G', who, attempt, token)}
        return s._replace(name=state, net=net, top=max(top, s.top)), answer

    # -- a client

    def put(self, s, i, **changes):
        clients = list(s.clients)
        clients[i] = c = clients[i]._replace(**changes)
        if c.phase == DONE:  # nothing that it knew matters any more
            clients[i] = Client(DONE, True, 0, 0, 0, 0, False, 0, 0, -1, 0, 0, c.buried)
        net = frozenset(n for n in s.net if n[0] != 'G' or n[1] != i or c.phase in (ASK, QUEUE) and n[2] >= c.attempt and n[3] > c.past)
        return s._replace(clients=tuple(clients), net=net)

    def ask(self, s, i, **changes):
        attempt = s.clients[i].attempt + 1
        s = self.put(s, i, phase=ASK, attempt=attempt, copy=0, sent=s.time, first=s.time, **changes)
        return s._replace(net=s.net | {('A', i, attempt, 0, s.clients[i].wait)})

    def hold(self, s, i, token, valid):
        return self.put(s, i, phase=HOLD, token=token, valid=valid)

    def end(self, s, i, unsure):
        """It releases, at some time."""
        return self.put(s, i, phase=DONE)._replace(net=s.net | {('X' if unsure else 'D', i, unsure)})

    def granted(self, s, i, answer, sent):
        if isinstance(answer, int):
            return self.hold(s, i, answer, sent + self.world.ttl)
        return self.hold(s, i, answer[1], sent + answer[3] // TICK)

    def tomb(self, unsure):
        return TOMB * TICK if unsure and self.mutant != NO_TOMB else None

    def cancel(self, s, i, unsure):
        """Both outcomes of giving up: with an answer, and without."""
        after, answer = self.call(s, 'cancel', raw(OWNERS[i]), self.tomb(unsure) or 0)
        if unsure and answer[0] != b'G':
            after = self.put(after, i, buried=s.time - s.back + TOMB)
        yield 'the cancel is not answered', self.end(after, i, True)
        if answer[0] == b'G':
            yield 'cancel: granted', self.granted(after, i, answer, s.time)
        else:
            yield 'cancel: gone', self.put(after, i, phase=DONE)

    def arrives(self, s, n):
        """What is on its way arrives."""
        kind, i = n[:2]
        c, name = s.clients[i], OWNERS[i]
        s = s._replace(net=s.net - {n})
        if kind == 'G':
            heard = s.time if self.mutant == LATE else c.first if c.phase == ASK else c.heard
            if n[2] == c.attempt and n[3] > c.past and s.time <= heard + self.world.window:
                yield 'message to %s' % name, self.hold(s, i, n[3], heard + self.world.window)
        elif kind == 'D':
            after, deleted = self.call(s, 'HDEL', raw(name))
            yield 'HDEL of %s: %d' % (name, deleted), after if deleted else after._replace(net=after.net | {('X', i, False)})
        elif kind == 'X':
            tomb = self.tomb(n[2])
            after, _ = self.call(s, 'release', raw(name), *[tomb] if tomb else [])
            yield 'release of %s' % name, self.put(after, i, buried=s.time - s.back + TOMB) if n[2] else after
        elif kind == 'R':
            after, answer = self.call(s, 'renew', raw(name), self.world.ttl * TICK, 0, 0, owner=i)
            yield 'renewal of %s, unanswered' % name, after
            if c.phase == HOLD and c.renews == n[2] and s.time <= c.valid:
                change = dict(valid=n[3] + self.world.ttl) if answer[0] else dict(phase=DONE)
                yield 'renewal of %s' % name, self.put(after, i, **change)
        else:
            yield from self.asked(s, i, n)

    def asked(self, s, i, n):
        c, name = s.clients[i], OWNERS[i]
        args = request(name, 0, 1, 1, 1 if n[4] else 0, 1, self.world.ttl * TICK, 0, self.world.window * TICK, n[2], inbox(i + 1), '')
        after, answer = self.call(s, 'acquire', *args)
        yield 'acquire of %s, unanswered' % name, after
        if c.phase != ASK or (c.attempt, c.copy) != n[2:4]:
            return
        letter = b'G' if isinstance(answer, int) else answer[0]
        said = '%s is answered %s' % (name, letter.decode())
        if letter == b'G':
            yield said, self.granted(after, i, answer, c.sent)
        elif letter == b'Q' and c.copy:
            yield said + ', and asks again', self.ask(after, i)
        elif letter == b'Q':
            yield said, self.put(after, i, phase=QUEUE, heard=c.sent, past=answer[2])
        elif letter == b'B' and c.unsure:
            yield from self.cancel(after, i, True)
        elif letter == b'B':
            yield said, self.put(after, i, phase=DONE)
        else:
            yield said, self.end(after, i, True)

    def acts(self, s, i):
        c, name = s.clients[i], OWNERS[i]
        if c.phase == NEW:
            yield name + ' asks', self.ask(s, i)
            if self.world.tries:
                yield name + ' tries', self.ask(s, i, wait=False)
        if c.phase == ASK and c.copy == 0 and self.world.resend and c.attempt == 1:
            yield name + ' asks, a second copy', self.put(s, i, copy=1, sent=s.time, unsure=True)._replace(
                net=s.net | {('A', i, c.attempt, 1, c.wait)})
        if c.phase in (ASK, QUEUE):
            yield from ((name + ' gives up; ' + what, after) for what, after in self.cancel(s, i, c.unsure or c.phase == ASK))
        if c.phase == QUEUE:
            after, answer = self.call(s, 'beat', raw(name), self.world.window * TICK)
            answer = answer[0]
            yield name + ' beats, unanswered', after
            if answer[0] == b'Q':
                yield name + ' beats', self.put(after, i, heard=s.time, past=answer[2])
            elif answer[0] == b'G':
                yield name + ' beats, and is granted', self.granted(after, i, answer, s.time)
            elif c.attempt < 3:
                yield name + ' beats, and was forgotten', self.ask(after, i)
        if c.phase == HOLD:
            yield name + ' releases', self.end(s, i, c.unsure)
            if c.renews and s.time <= c.valid:
                yield name + ' renews', self.put(s, i, renews=c.renews - 1)._replace(net=s.net | {('R', i, c.renews - 1, s.time)})

    # -- all of it

    def judge(self, s):
        valid = [i for i, c in enumerate(s.clients) if c.phase == HOLD and s.time <= c.valid]
        if len(valid) > 1:
            raise Bad('two hold it')
        _, holders, _ = self.name.look(s.name)
        for i in valid:
            if holders.get(i, (0, 0))[1] != s.clients[i].token or s.time - s.back > holders[i][0]:
                raise Bad('%s holds it, and the store does not know' % OWNERS[i])

    def nexts(self, s):
        for n in s.net:
            yield from self.arrives(s, n)
        for i in range(len(s.clients)):
            yield from self.acts(s, i)
        if s.time < self.world.ticks:
            yield 'time passes', s._replace(time=s.time + 1)
        if self.world.back and not s.moved:
            yield 'the clock is set back', s._replace(back=s.back + BACK, moved=True)
        if self.world.brk and not s.broken:
            for i, (deadline, token) in self.name.look(s.name)[1].items():
                after, _ = self.call(s, 'break', token)
                yield 'break', self.put(after, i, phase=DONE)._replace(broken=True)  # it hears that, or finds it out

    def run(self):
        """The number of states; Bad, with the way there."""
        came, level = {hash(self.first): None}, [self.first]
        while level:
            following = []
            for s in level:
                last = hash(s)
                try:
                    for what, after in self.nexts(s):
                        key = hash(after)
                        if key in came:
                            continue
                        came[key] = (hash(s), what)
                        last = key
                        self.judge(after)
                        following.append(after)
                        last = hash(s)
                except Bad as bad:
                    raise Bad('%s\n  %s' % (bad, '\n  '.join(self.path(came, last))))
            level = following
        return len(came)

    @staticmethod
    def path(came, key):
        steps = []
        while came.get(key):
            key, what = came[key]
            steps.append(what)
        return reversed(steps)


#  clients, ticks, tries, resend, renews, clock back, break (ttl, window)
WORLDS = [World(2, 2, 0, 0, 0, 0, 1), World(2, 2, 0, 0, 0, 0, 0, 2, 1), World(2, 1, 1, 1, 0, 0, 0), World(2, 2, 0, 0, 0, 1, 0),
          World(2, 3, 0, 0, 1, 0, 0)]
LONG = [World(2, 2, 0, 1, 0, 0, 0, 1, 1), World(2, 2, 0, 0, 1, 1, 0), World(2, 3, 0, 0, 0, 1, 0),
        World(2, 4, 0, 0, 0, 0, 0), World(2, 2, 1, 1, 0, 0, 0), World(2, 3, 0, 0, 1, 0, 1)]

LONG_FOR_MUTANTS = 3

# Mutants of the scripts that concern what this search does not have: blocks, lock delays, barging, detached leases, lost data, waiters
# that nobody hears, and a message that outlives two windows (test/redis/network_late.c). And the limit of a deadline that is the ttl
# alone: nothing that leaves a name thin makes a deadline of the window.
ELSEWHERE = ('ttl alone', 'another kind', 'block', 'lock delay', 'barge', 'detached', 'client', 'without the clock', 'over waiters', 'queued answer')


def search(server, scripts, worlds, mutant=None):
    name = Name(server, embedded(scripts, 'hfi_script_')[0])
    for world in worlds:
        begun, before = time.monotonic(), len(name.steps)
        count = Search(name, world, mutant).run()
        if not mutant:
            print('%s: %d states, %d script calls, %.1f s' % (
                ' '.join('%s=%d' % pair for pair in world._asdict().items()), count, len(name.steps) - before, time.monotonic() - begun),
                flush=True)


def caught(server, mutant, file=None, old=None, new=None):
    with tempfile.TemporaryDirectory() as tmp:
        scripts = os.path.join(tmp, 'scripts')
        shutil.copytree(SCRIPTS, scripts)
        if file:
            path = os.path.join(scripts, file)
            source = open(path).read()
            if old not in source:
                raise SystemExit('%s: %s is not as it was' % (mutant, file))
            with open(path, 'w') as out:
                out.write(source.replace(old, new))
        try:
            search(server, scripts, WORLDS + LONG[:LONG_FOR_MUTANTS], mutant)
        except Bad as bad:
            return str(bad).splitlines()[0]
    return None


def break_it(server, words):
    mutants = [(m,) for m in CLIENT_MUTANTS] + [m[1:] for m in MUTANTS if m[0] == 'redis' and not any(w in m[1] for w in ELSEWHERE)]
    missed = 0
    for mutant in mutants:
        if words in mutant[0]:
            how = caught(server, *mutant)
            missed += not how
            print('%s: %s' % (mutant[0], how or 'NOT CAUGHT'), flush=True)
    return missed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--scripts', default=SCRIPTS)
    parser.add_argument('--long', action='store_true')
    parser.add_argument('mutants', nargs='*')
    options = parser.parse_args()
    server = resp.Server()
    try:
        if options.mutants[:1] == ['mutants']:
            sys.exit(1 if break_it(server, ' '.join(options.mutants[1:])) else 0)
        search(server, options.scripts, WORLDS + LONG if options.long else WORLDS)
    finally:
        server.close()


if __name__ == '__main__':
    try:
        main()
    except Bad as bad:
        sys.exit('FAILED: %s' % bad)
