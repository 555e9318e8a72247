# SPDX-License-Identifier: MIT
"""
The embedded store, in a program of ours that has the engine's own C (lmdb_driver.c), beside the model; after each call
its answer, what was granted by it, and the whole store are compared. The program's clock is what the test says.
"""
import os
import shutil
import subprocess
import tempfile

from model import DETACHED, NUMBERED, SEMAPHORE
from model_lmdb import Lmdb
from sequence import Mismatch, Sequence


class Driver:
    def __init__(self):
        base = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.dir = tempfile.mkdtemp(prefix='holdfast-permits-', dir=base)
        self.process = subprocess.Popen([os.environ['PERMITS_DRIVER'], os.path.join(self.dir, 'store')],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, *words):
        """The lines of the answer, as lists of words."""
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.process.stdout.readline()
            if line == '.\n':
                return lines
            if not line or line.startswith('FAILED'):
                raise Mismatch('the driver: %s' % (line.strip() or self.process.wait()))
            lines.append([int(w) if w.lstrip('-').isdigit() else w for w in line.split()])

    def close(self):
        self.process.stdin.close()
        ended = self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
        if ended:
            raise Mismatch('the driver ended with %d' % ended)


class Run(Sequence):
    """An owner is the number of an acquisition: each has its own."""
    OPS = (['acquire'] * 34 + ['release'] * 16 + ['cancel'] * 6 + ['renew'] * 10 + ['adopt'] * 5 + ['pass'] * 6 + ['break'] * 6 +
           ['resize'] * 3)
    TTLS = [0, 0, 10, 20, 100, 100, 1000, 3000000]

    def __init__(self, seed):
        super().__init__(Lmdb(), seed)
        self.driver = Driver()
        self.model.us = 1000000000 + self.random.randrange(1000000)
        self.next_owner = 0
        self.held = {}  # owner -> name: leases that this process has not released, expired or not
        self.highest = 0  # token
        self.set_clock()

    def close(self):
        self.driver.close()

    def ends(self):
        return [e for e in super().ends() if e]

    def ask(self, *words):
        self.trace.append(words)
        answer, *self.lines = self.driver(*words)
        return answer

    def set_clock(self):
        self.model.us -= self.model.us % 1000
        self.ask('clock', self.model.now)
        self.model.settle()
        self.check_all_records()

    def some_owner(self, op, name):
        return None

    def one_of(self, owners, chance=1):
        owners = sorted(owners)
        return self.random.choice(owners) if owners and self.random.random() < chance else None

    # -- calls

    def op_acquire(self, name, _):
        r = self.random
        mode, capacity, permits = self.kind_of(name)
        flags = self.flags() & 7
        if mode == SEMAPHORE:
            flags |= r.choice([0, NUMBERED, NUMBERED])
        ttl = r.choice(self.TTLS[2:] if flags & DETACHED else self.TTLS)
        delay = r.choice([0, 0, 0, 0, 30, r.choice([1000, 300000])])
        tokens = r.choice([1, 1, 65, 1000])
        self.next_owner += 1
        owner = self.next_owner
        answer = self.ask('acquire', name, owner, mode, capacity, permits, flags, tokens, ttl, delay)
        expected = self.model.acquire(name, owner=owner, mode=mode, capacity=capacity, permits=permits, flags=flags,
                                      tokens=tokens, ttl=ttl, delay=delay, window=0, inbox=None, label=str(owner))
        if answer[0] == 'G':
            self.lines.insert(0, ['granted', owner] + answer[1:])
        self.check('acquire', answer[:1], expected)

    def op_release(self, name, _):
        owner = self.one_of(self.held)
        if owner is not None:
            answer = self.ask('release', owner)
            self.check('release', answer, self.model.release(self.held.pop(owner), owner))

    def op_cancel(self, name, _):
        owner = self.one_of([w.owner for w in self.model.name(name).waiters])
        if owner is not None:
            self.check('cancel', self.ask('cancel', owner), self.model.cancel(name, owner))

    def op_renew(self, name, _):
        r = self.random
        some = [(o, r.choice([10, 30, 100, 1000])) for o in sorted(self.held) if r.random() < 0.5 and o in self.timed()]
        if some:
            answers = self.ask('renew', *[word for item in some for word in item])
            for (owner, ttl), answer in zip(some, answers):
                self.check('renew', answer, self.model.renew(self.held[owner], owner, ttl))

    def timed(self):
        """Those that have an end: core renews no others."""
        return [o for o, name in self.held.items()
                if o not in self.model.name(name).holders or self.model.name(name).holders[o].deadline is not None]

    def op_adopt(self, name, _):
        holders = self.model.name(name).holders
        owner = self.one_of([o for o in holders if o in self.held])
        if owner is None:
            return
        token = holders[owner].first  # here the token is only a hint, and the owner decides
        ttl = self.random.choice([0, 50, 1000])
        answer = self.ask('adopt', name, owner, token, ttl)
        self.check('adopt', answer, self.model.adopt(name, owner, token, ttl))

    def op_pass(self, name, _):
        holders = self.model.name(name).holders
        owner = self.one_of([o for o in holders if o in self.held])
        if owner is None:
            return
        token = holders[owner].first + self.random.randrange(holders[owner].tokens)
        self.ask('pass', owner, token, 4711)
        self.model.note(name, owner, token, 4711)

    def op_resize(self, name, _, capacity=None):
        if capacity is None:
            capacity = self.random.choice([0, 0, 1, 3, 4, 5, 8])
        self.check('resize', self.ask('resize', name, capacity), self.model.resize(name, capacity))

    def op_break(self, name, _):
        _, token = self.some_token(name, None)
        before = dict(self.model.name(name).holders)
        answer = self.ask('break', name, token)
        granted = [line for line in self.lines if line[0] == 'granted']
        self.check('break', answer, self.model.break_(name, token))
        for owner in set(before) - set(self.model.name(name).holders):
            if not before[owner].flags & DETACHED:
                self.ask('lost', owner)
                self.lines = granted + self.lines

    # -- what must hold after each call

    def check_messages(self):
        pass

    def check_grants(self):
        """Tokens are the store's: above all that were given before, and in the order of the queue."""
        new = sorted((line[2], line[1], line[3], line[4], line[5:]) for line in self.lines if line[0] == 'granted')
        for token, owner, tokens, sent, numbers in new:
            name, h = next(((k, n.holders[owner]) for k, n in self.model.names.items() if owner in n.holders), (None, None))
            if not h or h.first is not None:
                raise Mismatch('%d was granted %d' % (owner, token))
            if token <= self.highest or tokens != h.tokens or sent != self.model.now:
                raise Mismatch('%d was granted %d to %d at %d, after %d' % (owner, token, token + tokens - 1, sent, self.highest))
            if any(o < owner and h.first is None and h.since == self.model.now for o, h in self.model.name(name).holders.items()
                   if o in self.model.queued):
                raise Mismatch('%d was granted before one that stood before it' % owner)
            if numbers != h.numbers:
                raise Mismatch('%d was granted the slots %r and not %r' % (owner, numbers, h.numbers))
            h.first = h.token = token
            self.highest = token + tokens - 1
            self.held[owner] = name
        for n in self.model.names.values():
            for owner, h in n.holders.items():
                if h.first is None:
                    raise Mismatch('%d was not granted' % owner)

    def prepare(self):
        self.lines = None

    def check_all_records(self):
        if self.lines is None:
            return  # there was nothing to call
        self.check_grants()
        got = {}
        for line in self.lines:
            if line[0] == 'name':
                current = got[line[1]] = ['L'] + line[2:] + [[], []]
            elif line[0] == 'holder':
                current[6].append(line[1:])
            elif line[0] == 'waiter':
                current[7].append(line[1:])
        for name in self.NAMES:
            answer = got.get(name, ['N'])
            if answer[0] == 'L':
                answer[6].sort()
            expected = self.model.look(name)
            if answer != expected:
                raise Mismatch('%s is %r and not %r' % (name, answer, expected))

    def finish(self):
        """Whoever holds gives it back, until nobody waits."""
        for name in self.NAMES:
            self.op_resize(name, None, 8)  # else a waiter may ask for more than there is
            self.check_all_records()
        while self.held:
            owner = min(self.held)
            self.check('release', self.ask('release', owner), self.model.release(self.held.pop(owner), owner))
            self.check_all_records()
            if not self.held and any(n.waiters for n in self.model.names.values()):
                self.model.us += 400000 * 1000
                self.set_clock()


def begin(sources):
    if sources:
        raise SystemExit('lmdb: compile another driver')
    return Run, lambda: None
