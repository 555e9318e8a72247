# SPDX-License-Identifier: MIT
"""
Random sequences of calls beside the model that says what must come of each. The same seed makes the same sequence; all
of it is recorded, and kept where it failed.
"""
import os
import random
import tempfile

SLACK = 60000  # ms


class Mismatch(Exception):
    pass


def equal(got, expected):
    if got != expected:
        raise Mismatch('%r and not %r' % (got, expected))


class Sequence:
    """Of one engine, whose class has NAMES, OWNERS, INBOXES, KINDS and OPS, set_clock(), op_...(name, owner),
    check_messages(), check_all_records() and finish()."""
    NAMES = ['a', 'b', 'c']
    OWNERS = ['%032x' % i for i in range(12)]
    KINDS = [(0, 1), (1, 1 << 30), (2, 3), (2, 5)]

    def __init__(self, model, seed):
        self.random = random.Random(seed)
        self.model = model
        self.counts = {}
        self.trace = []
        self.kind = {name: self.random.choice(self.KINDS) for name in self.NAMES}

    def close(self):
        pass

    # -- time

    def ends(self):
        """Moments (ticks) at which something ends."""
        ticks, names = self.model.ticks, list(self.model.names.values())
        ends = [h.deadline + d for n in names for h in n.holders.values() if h.deadline is not None
                for d in (0, ticks(h.delay))]
        ends += [w.beat + ticks(w.window) for n in names for w in n.waiters]
        return ends + [n.closed for n in names]

    def advance(self):
        r, tick = self.random, self.model.TICK_US
        self.model.us += r.choice([0, 1, r.randrange(100), r.randrange(3000), r.randrange(3000), r.randrange(30000),
                                   r.randrange(30000), r.randrange(200000)])
        if r.random() < 0.01:
            self.model.us += r.choice([SLACK, 2 * SLACK, 3 * SLACK, 20 * SLACK]) * 1000
        self.step_back()
        if r.random() < 0.05:  # exactly at the end of something, or just before or after
            ends = [e for e in self.ends() if e * tick > self.model.us]
            if ends:
                self.model.us = r.choice(ends) * tick + r.choice([0, tick - 1, tick, 999])
        self.set_clock()

    def step_back(self):
        """Where the clock may be set back."""

    # -- what to call

    def kind_of(self, name):
        """Mostly the one that the name has."""
        r = self.random
        if r.random() < 0.03:
            self.kind[name] = r.choice(self.KINDS)
        mode, capacity = self.kind[name] if r.random() < 0.97 else r.choice(self.KINDS)
        permits = r.choice([1, capacity]) if mode == 1 else r.choice([1, 1, 1, capacity, r.randint(1, capacity)])
        return mode, capacity, permits

    def flags(self):
        r = self.random
        return r.choice([1, 1, 1, 0]) + r.choice([0, 0, 0, 0, 2]) + r.choice([0, 0, 4]) + r.choice([0, 8])

    def some_token(self, name, owner):
        """An owner, and mostly a token that belongs to its lease."""
        r = self.random
        holders = self.model.name(name).holders
        if not holders or r.random() < 0.1:
            return owner, r.randrange(1, 2 ** 53)
        owner = r.choice(sorted(holders))
        h = holders[owner]
        return owner, r.choice([h.first, h.token, h.token, h.token, h.token + 1, h.first + h.tokens, h.first - 1])

    def some_owner(self, op, name):
        """Mostly one whom the call concerns."""
        r, n = self.random, self.model.name(name)
        owner = r.choice(self.OWNERS)
        if op == 'release' and r.random() < 0.7:
            owner = r.choice(sorted(n.holders) or [owner])
        if op == 'cancel' and r.random() < 0.5:
            owner = r.choice([w.owner for w in n.waiters] or [owner])
        return owner

    def step(self):
        if self.random.random() < 0.6:
            self.advance()
        op = self.random.choice(self.OPS)
        name = self.random.choice(self.NAMES)
        owner = self.some_owner(op, name)
        self.prepare()
        self.trace.append(('clock', self.model.us))
        getattr(self, 'op_' + op)(name, owner)
        self.check_messages()
        self.check_all_records()

    def prepare(self):
        pass

    # -- what it must be

    def count(self, what, expected):
        kind = '%s %s' % (what, expected[0] if isinstance(expected, list) else min(expected, 1) if isinstance(expected, int) else expected)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def check(self, what, answer, expected):
        self.count(what, expected)
        if not self.agrees(answer, expected):
            raise Mismatch('%s answered %r and not %r' % (what, answer, expected))

    def agrees(self, answer, expected):
        """The moment at which a waiter is to look again may be earlier than the true one, but not in the past."""
        if answer == expected:
            return True
        return (isinstance(expected, list) and isinstance(answer, list) and expected[0] in ('Q', 'B') and
                answer[0] == expected[0] and 1 <= answer[1] <= expected[1] and answer[2:] == expected[2:])


def keep(engine, seed, trace):
    path = os.path.join(tempfile.gettempdir(), 'permits-%s-%d.txt' % (engine, seed))
    with open(path, 'w') as out:
        for line in trace:
            print(*map(repr, line), file=out)
    return path


def run_sequences(engine, begin, steps_each, seed, count):
    """So many sequences of so many steps, each made by begin(seed)."""
    counts, steps = {}, 0
    for one in range(seed, seed + count):
        run = begin(one)
        try:
            for step in range(steps_each):
                run.step()
            run.finish()
        except Exception:
            print('%s: seed %d, step %d; all of it is in %s, the last are' % (
                engine, one, step, keep(engine, one, run.trace)))
            for line in run.trace[-20:]:
                print('   ', *map(repr, line))
            print('again: PERMITS_SEED=%d PERMITS_SEQUENCES=1' % one)
            raise
        finally:
            run.close()
        steps += steps_each
        for what, number in run.counts.items():
            counts[what] = counts.get(what, 0) + number
    print('%s: seeds %d to %d, %d calls: %s' % (engine, seed, seed + count - 1, steps, ', '.join(
        '%s %d' % item for item in sorted(counts.items()))))
