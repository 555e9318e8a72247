#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
One node of Redlock: the short form of a lone mutex holder (src/engine/redlock/scripts/state.lua) does what the rules say.

The models in *.pml and the simulator take a node as rules over a holder, a queue, tombstones and a counter. Here these
rules (class Rules) run beside what a node stores (class Stored): a counter's field that also has the lease, a field for
each lease that is not released, and the full form. Every order of calls is tried, breadth first, with late copies and
calls of older attempts (any call may come at any time), a clock that goes back, seals and the pruning of idle counters.
After every step both must be in the same state, and must have given the same answer. So what was proved of the rules holds.

One answer may differ: a release of a lease whose deadline has passed and that nobody has taken says that it released it.

A mutant is the same with one rule left out, and must be caught.

Usage: node.py [--large]
"""
import sys
from collections import namedtuple

OWNERS, ATTEMPTS = 'AB', (1, 2)
TTL, WINDOW, TOMB, IDLE = 2, 3, 2, 2  # ticks
TOKENS = 5 if '--large' in sys.argv[1:] else 3  # counters beyond this are not looked at

Holder = namedtuple('Holder', 'owner attempt c end epoch')
Waiter = namedtuple('Waiter', 'owner attempt beat epoch')
Node = namedtuple('Node', 'holder waiters tombs')  # tombs: (owner, highest attempt, end)
EMPTY = Node(None, (), ())


class Rules:
    """What a call does to a holder, a queue and tombstones. c: the counter. Each returns (node, c, answer)."""

    @staticmethod
    def expire(node, now):
        holder = node.holder if node.holder and now <= node.holder.end else None
        return Node(holder, tuple(w for w in node.waiters if now <= w.beat + WINDOW),
                    tuple(t for t in node.tombs if now <= t[2]))

    @staticmethod
    def promote(node, c, now, epoch):
        waiters = node.waiters
        while not node.holder and waiters:
            first, waiters = waiters[0], waiters[1:]
            if first.epoch == epoch:
                c += 1
                node = node._replace(holder=Holder(first.owner, first.attempt, c, now + WINDOW, epoch))
        return node._replace(waiters=waiters), c

    @staticmethod
    def acquire(node, c, now, epoch, owner, attempt, asked, wait):
        if asked != epoch:
            return node, c, 'E'
        node = Rules.expire(node, now)
        holder = node.holder
        node, c = Rules.promote(node, c, now, epoch) if not (holder and holder.owner == owner) else (node, c)
        holder = node.holder
        if any(t[0] == owner and attempt <= t[1] for t in node.tombs):
            return node, c, 'X'
        if holder and holder.owner == owner:
            if holder.attempt > attempt or holder.attempt == attempt and holder.epoch != epoch:
                return node, c, 'X'
            if holder.attempt == attempt:
                return node._replace(holder=holder._replace(end=max(holder.end, now + TTL))), c, ('G', holder.c)
            c += 1
            return node._replace(holder=Holder(owner, attempt, c, now + TTL, epoch)), c, ('G', c)
        mine = [w for w in node.waiters if w.owner == owner]
        if mine and mine[0].attempt > attempt:
            return node, c, 'X'
        if mine and not wait:
            node = node._replace(waiters=tuple(w for w in node.waiters if w.owner != owner))
        if not holder and not node.waiters:
            c += 1
            return node._replace(holder=Holder(owner, attempt, c, now + TTL, epoch)), c, ('G', c)
        if not wait:
            return node, c, 'B'
        new = Waiter(owner, attempt, now, epoch)
        waiters = tuple(new if w.owner == owner else w for w in node.waiters) if mine else node.waiters + (new,)
        return node._replace(waiters=waiters), c, 'Q'

    @staticmethod
    def release(node, c, now, epoch, owner, attempt, tomb=0):
        node, answer = Rules.expire(node, now), 0
        if node.holder and node.holder.owner == owner and node.holder.attempt <= attempt:
            node, answer = node._replace(holder=None), 1
        node = node._replace(waiters=tuple(w for w in node.waiters if not (w.owner == owner and w.attempt <= attempt)))
        if tomb:
            old = [t for t in node.tombs if t[0] == owner]
            new = (owner, max([attempt] + [t[1] for t in old]), max([now + tomb] + [t[2] for t in old]))
            node = node._replace(tombs=tuple(sorted([t for t in node.tombs if t[0] != owner] + [new])))
        node, c = Rules.promote(node, c, now, epoch)
        return node, c, answer

    @staticmethod
    def write(node, c, now, epoch, owner, attempt, asked, t):
        holder = node.holder
        if asked != epoch:
            return node, c, 'E'
        if not holder or now > holder.end or holder[:2] != (owner, attempt) or holder.epoch != epoch:
            return node, c, 'N'
        c = max(c, t)
        return node._replace(holder=holder._replace(c=c)), c, ('G', c)

    @staticmethod
    def renew(node, c, now, epoch, owner, attempt):
        holder = node.holder
        if not holder or now > holder.end or holder[:2] != (owner, attempt):
            return node, c, 0
        return node._replace(holder=holder._replace(end=now + TTL)), c, holder.c


class Stored:
    """
    field: None, or (c, mark, lease): mark 'free', 'thin' or 'full'; lease: a Holder whose c is the field's own.
    out: the leases (owner, attempt) that are not released, of the thin form. full: a Node, where it is written out.
    """

    def __init__(self, field=None, out=frozenset(), full=None, floor=0, bad=None):
        self.field, self.out, self.full, self.floor, self.bad = field, out, full, floor, bad

    def key(self):
        return self.field, self.out, self.full, self.floor

    def copy(self):
        return Stored(self.field, self.out, self.full, self.floor, self.bad)

    def counter(self):
        return self.field[0] if self.field else self.floor

    def lease(self, now):
        """The thin lease, if it is there and lives."""
        if not self.field or self.field[1] != 'thin':
            return None
        lease = self.field[2]
        if lease[:2] not in self.out:
            return None
        end = lease.end
        if self.bad != 'no limit after the clock went back':
            end = min(end, now + max(TTL, WINDOW))
        if now > end:
            return None
        return lease._replace(c=self.field[0], end=end)

    def seen(self, now):
        """What the rules would have."""
        if self.full is not None and self.field and self.field[1] != 'full':
            raise AssertionError('a full name whose field does not say so')
        return self.full if self.full is not None else Node(self.lease(now), (), ())

    def acquire(self, now, epoch, owner, attempt, asked, wait):
        field = self.field
        if field and (asked == epoch or self.bad == 'no epoch in the short way') and (
                field[1] == 'free' or
                field[1] == 'full' and self.bad == 'a full name is overlooked' or
                field[1] == 'thin' and (field[2][:2] not in self.out or self.bad == 'released is not asked')):
            c = field[0] + (0 if self.bad == 'the counter stands still' else 1)
            self.field = (c, 'thin', Holder(owner, attempt, c, now + TTL, asked))
            self.out |= {(owner, attempt)}
            return 'G', c
        return self.by_rules(now, epoch, Rules.acquire, owner, attempt, asked, wait)

    def delete(self, owner, attempt):
        """HDEL: a release without a script."""
        if (owner, attempt) in self.out:
            self.out -= {(owner, attempt)}
            return 1
        return 0

    def by_rules(self, now, epoch, rule, *args):
        """All other scripts: as if it were written out. A name that has a key keeps it until nothing counts any more."""
        if rule in (Rules.acquire, Rules.write) and args[2] != epoch:
            return 'E'
        node, lease = self.full, self.lease(now)
        if node is None:
            node = Node(lease, (), ())
            if self.bad == 'written out with a new deadline' and lease:
                node = Node(lease._replace(end=now + TTL), (), ())
            if self.bad == 'written out without its holder':
                node = EMPTY
        if self.field and self.field[1] == 'thin' and self.bad != 'a dead lease leaves its field':
            self.out -= {self.field[2][:2]}
        elif self.field and self.field[1] == 'thin' and lease:
            self.out -= {lease[:2]}
        was = self.counter()
        node, c, answer = rule(node, was, now, epoch, *args)
        known = self.field is not None or c != was
        if node == EMPTY or (self.bad == 'tombstones are forgotten' and not node.holder and not node.waiters):
            self.full = None
            self.field = (c, 'free', None) if known else None
        elif self.full is None and not node.waiters and not node.tombs and node.holder and known:
            self.full = None
            self.field = (c, 'thin', node.holder._replace(c=c))
            self.out |= {node.holder[:2]}
        elif self.bad == 'waiters do not mark the field' and self.field and self.field[1] == 'thin' and lease:
            self.full, self.field = node, (c, 'thin', lease)
            self.out |= {lease[:2]}
        else:
            self.full = node
            self.field = (c, 'full', None) if known else None
        return answer

    def prune(self, now):
        """An idle counter goes, and the floor rises to it."""
        if not self.field or self.field[0] + IDLE > now:
            return False
        if self.bad != 'pruning takes all':
            if self.lease(now) or self.full is not None:
                return False
        if self.field[1] == 'thin' and self.bad != 'pruning leaves the lease':
            self.out -= {self.field[2][:2]}
        self.floor = max(self.floor, self.field[0]) if self.bad != 'the floor stays' else self.floor
        self.field = None
        return True


def agree(rules, stored, now):
    """Compare what lives: expired records and tombstones may be gone, or still be there."""
    node, c = rules
    return living(node, now) == living(stored.seen(now), now) and c == stored.counter()


def living(node, now):
    return Rules.expire(back(node, now), now)


def back(node, now):
    """A call finds that the clock went back: a holder has at most its ttl or window from now on."""
    holder = node.holder and node.holder._replace(end=min(node.holder.end, now + max(TTL, WINDOW)))
    return node._replace(holder=holder)


def calls():
    for owner in OWNERS:
        for attempt in ATTEMPTS:
            for wait in (False, True):
                for asked in (1, 2):
                    yield 'acquire', (owner, attempt, asked, wait)
            yield 'delete', (owner, attempt)
            yield 'release', (owner, attempt, 0)
            yield 'release', (owner, attempt, TOMB)
            yield 'renew', (owner, attempt)
            for t in (2, 3):
                yield 'write', (owner, attempt, 1, t)
    yield 'tick', ()
    yield 'back', ()
    yield 'seal', ()
    yield 'prune', ()


def step(state, name, args, bad):
    """-> the next state, or None: not possible. Raises AssertionError."""
    node, c, stored, now, epoch, backs = state
    stored = Stored(*stored, bad)
    answer = expected = None
    if name == 'tick':
        now += 1
    elif name == 'back':
        if backs == 0 or now < 2:
            return None
        if stored.full is not None:  # the full form keeps `seen`, and is set right by rewind()
            return None
        if node.holder and now > node.holder.end:  # it would live again, at a node that has not looked since: nobody else had it
            return None
        now, backs = now - 2, backs - 1
    elif name == 'seal':
        if epoch == 2:
            return None
        epoch = 2
    elif name == 'prune':
        if not stored.prune(now):
            return None
    elif name == 'delete':
        answer = stored.delete(*args)
        if answer == 1:
            exact = node.holder and node.holder[:2] == args
            assert exact or not living(node, now).holder, 'a release of what another holds'
            assert exact, 'released what was not held'
            node = node._replace(holder=None)
            assert not node.waiters, 'a release without a hand-over'
    else:
        if name not in ('acquire', 'write') or args[2] == epoch:
            node = back(node, now)
        node, c, expected = getattr(Rules, name)(node, c, now, epoch, *args)
        answer = (stored.acquire(now, epoch, *args) if name == 'acquire' else
                  stored.by_rules(now, epoch, getattr(Rules, name), *args))
        assert answer == expected, 'answers %r and not %r' % (answer, expected)
    assert agree((node, c), stored, now), 'another state: %r %r, %r' % (node, c, stored.key())
    return node, c, stored.key(), now, epoch, backs


def search(ticks, backs, bad=None):
    """-> (number of states, None or the way to a violation)"""
    first = (EMPTY, 0, (None, frozenset(), None, 0), 0, 1, backs)
    before, level = {first: None}, [first]
    moves = list(calls())
    while level:
        following = []
        for state in level:
            for name, args in moves:
                try:
                    after = step(state, name, args, bad)
                except AssertionError as error:
                    way = ['%s%r: %s' % (name, args, error)]
                    while before[state]:
                        state, done = before[state]
                        way.append(done)
                    return len(before), way[::-1]
                if after is None or after in before or after[3] > ticks or after[1] > TOKENS:
                    continue
                before[after] = (state, '%s%r' % (name, args))
                following.append(after)
        level = following
    return len(before), None


MUTANTS = ['released is not asked', 'a full name is overlooked', 'no epoch in the short way', 'the counter stands still',
           'written out with a new deadline', 'written out without its holder', 'a dead lease leaves its field',
           'tombstones are forgotten', 'waiters do not mark the field', 'pruning takes all', 'pruning leaves the lease',
           'the floor stays', 'no limit after the clock went back']


def main():
    large = '--large' in sys.argv[1:]
    count, way = search(6 if large else 3, 1)
    if way:
        sys.exit('VIOLATION\n' + '\n'.join(way))
    print("one node: %d states, exhausted" % count, flush=True)
    for bad in MUTANTS:
        count, way = search(6 if large else 4, 1, bad)
        if not way:
            sys.exit('the mutant "%s" was not caught in %d states' % (bad, count))
        print('%-40s caught after %6d states: %s' % (bad, count, way[-1]), flush=True)


if __name__ == '__main__':
    main()
