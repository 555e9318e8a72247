# SPDX-License-Identifier: MIT
"""The permit rules (model.py) as PostgreSQL's and MariaDB's routines have them."""
from model import DETACHED, HEARD, LINGERS, NUMBERED, Model


class Sql(Model):
    """
    What PostgreSQL's routines and MariaDB's have in common. Every call that changes a name first settles it (`turn`): takes
    out what is over, and hands over. A waiter is kept by its client's row, not by heartbeats of its own. There are no
    tombstones: a call that was not answered is not sent again on another connection. `inbox` is the client's number.
    A lease that lingers has its first block, and further ones up to the last token of the name: any of them breaks it.
    """
    KEPT = DETACHED | HEARD | LINGERS | NUMBERED
    TICK_US = 1
    DEAD_KEEP_KIND = True
    AGAIN_RAISES_TTL = False
    EXTENDS = False
    TURNS_AFTER = False
    # A cancel of a granted request hands the name over if possible. (MariaDB's changes nothing then.)
    CANCEL_TURNS = True

    IDLE_US = 60000000
    RESIZE_RAISES = False  # MariaDB does not ask whether the name has a row already; the clock is beyond the floor

    def __init__(self):
        super().__init__()
        self.clients = {}
        self.floor = 0  # no name that was removed had a token above it

    # -- rows that come and go

    def idle(self):
        return self.us - self.IDLE_US

    def sweep(self):
        """The names that may be removed now."""
        return [k for k, n in self.names.items() if n.row and not n.holders and not n.waiters and
                not n.sized and n.last < self.idle() and n.closed < self.idle()]

    def remove(self, key):
        n = self.name(key)
        n.row, n.closed, n.delay, n.closing = False, 0, 0, (0, 0)
        self.floor = max(self.floor, self.idle())

    def made(self, key, resizes=False):
        """A name that has no row gets one, which begins above all tokens that it may have had."""
        n = self.name(key)
        if not n.row or resizes and self.RESIZE_RAISES:
            n.last, n.row = max(n.last, self.floor), True

    def acquire(self, key, **fields):
        self.made(key)
        return super().acquire(key, **fields)

    def back(self, n):
        return False  # seen by each record's own end (Sequence.follow), not by the name's last token

    def tell(self, inbox, text):
        self.sent.append((inbox, text))

    def alive(self, waiter):
        return waiter.inbox in self.clients and not self.over(self.clients[waiter.inbox])

    def deaf(self, waiter):
        return waiter.flags & HEARD and waiter.inbox not in self.heard

    def with_numbers(self, h, answer):
        return answer  # only those of a grant at once; a client that was handed something asks. The records have them

    def in_row(self, n, want):
        """A holder of all permits stands in the row of the name, unless a size was set or it has numbers."""
        return want.permits == n.capacity and not n.sized and not want.flags & NUMBERED

    def resize(self, key, capacity):
        if capacity:
            self.made(key, resizes=True)
        answer = super().resize(key, capacity)
        if answer == ['R'] and capacity:
            for h in self.name(key).holders.values():
                self.moved(h)
        return answer

    def moved(self, h):
        """Out of the row of the name."""
        h.in_row = False

    def searches(self, n):
        """Are the dead looked for, at the head of the queue?"""
        return True

    def heir(self, n):
        while n.waiters and self.searches(n):
            if self.alive(n.waiters[0]) and not self.deaf(n.waiters[0]):
                return n.waiters[0]
            n.waiters.pop(0)
        return None

    def handed(self, n, w, h):
        self.tell(w.inbox, 'G %s %d %d %d' % (w.owner, h.first, h.tokens, w.window))

    def look_out(self, n):
        self.close(n)
        self.promote(n)

    def queued_again(self, n, mine, want):
        return self.place(n, want.owner)

    def release(self, key, owner):
        answer = super().release(key, owner)
        self.look_out(self.name(key))
        return answer

    def cancel(self, key, owner):
        n = self.name(key)
        self.expire(n)
        held, answer = n.holders.get(owner), ['N']
        if held:
            self.stretch(n, held)
            answer = self.held_answer(held)
        elif self.leave(n, owner):
            answer = ['C']
        if not held or self.CANCEL_TURNS:
            self.look_out(n)
        return answer

    def stretch(self, n, h):
        """A cancel found that it was granted."""

    def beat(self, client, window, items):
        """The client lives, and all its waiters with it; and what became of each of these?"""
        self.clients[client] = self.now + self.ticks(window)
        return [self.beaten(self.name(key), owner) for key, owner in items]

    def beaten(self, n, owner):
        self.expire(n)
        if self.waiter(n, owner):
            return ['Q', max(1, self.next(n)) if self.looks_after(n, owner) else 0, n.last]
        return self.held_answer(n.holders[owner]) if owner in n.holders else ['N']

    def looks_after(self, n, owner):
        """Is it the one that must see to it that the name is handed over in time? Nobody who lives is before it."""
        return next((w.owner for w in n.waiters if self.alive(w) or w.owner == owner), None) == owner

    def lingers(self, key):
        """What a try is told that was refused."""
        n = self.name(key)
        return not n.waiters and any(h.flags & LINGERS for h in n.holders.values())

    def refill(self, key, owner, ttl, tokens):
        there, n = self.renew(key, owner, ttl), self.name(key)
        h = n.holders.get(owner)
        block = there and h.flags & LINGERS and self.block(n, tokens, self.ahead(h))
        if not block:
            return [there, 0, 0]
        n.last = block[0] + block[1] - 1
        return [there, block[0], block[1]]

    def break_(self, key, token):
        n = self.name(key)
        for h in n.holders.values():
            if h.flags & LINGERS and h.first <= token <= n.last and not self.over(h.deadline):
                token = h.token
        return super().break_(key, token)

    def poke(self, key):
        n = self.name(key)
        self.look_out(n)
        return self.next(n)

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        waiters, closed = self.living(n), self.shut_ms(n)
        if not n.holders and not waiters and not closed and not n.sized:
            return ['N']
        return ['L', n.mode, n.capacity, closed,
                sorted([h.token, h.first, h.permits, h.flags & DETACHED, self.age(h.since),
                        self.left(min(h.deadline, self.most(h))), h.tid, h.label, h.numbers] for h in n.holders.values()),
                [[w.permits, w.flags & DETACHED, self.age(w.since), w.label] for w in waiters], n.sized]


class Postgres(Sql):
    REFUSED_SETS_KIND = True
    BREAK_TURNS = False

    def searches(self, n):
        return self.open(n) and self.taken(n) < n.capacity  # a turn ends where nobody can be let in

    def holder(self, n, want, duration, block):
        h = super().holder(n, want, duration, block)
        h.ttl = max(want.ttl, duration)  # one column: the longest that was promised
        h.in_row = self.in_row(n, want)
        if h.in_row:
            n.delay = h.delay
        return h

    def most(self, h):
        return self.now + self.ticks(h.ttl)

    def look_out(self, n):
        # A lock delay that begins now ends a microsecond early: one that is as far ahead as the delay itself is taken
        # for one that a clock wrote which was set back since.
        n.closed = min(n.closed, self.now + self.ticks(n.delay) - 1)
        super().look_out(n)

    def shut(self, n, end, delay):
        n.closed, n.delay = max(n.closed, end), max(n.delay, delay)

    def is_first(self, n, owner):
        return len(n.waiters) == 1  # the others learn of it by their heartbeats

    def looks_after(self, n, owner):
        return next((w.owner for w in self.living(n)), None) == owner  # the first that lives, and no other

    def hold_now(self, h, token, tid):
        pass  # not with a renewal

    def note(self, key, owner, token, tid):
        n = self.name(key)
        self.expire(n)
        h = n.holders.get(owner)
        if h and h.in_row and (
                h.first <= token < h.first + h.tokens or h.flags & LINGERS and h.first <= token <= n.last):
            h.token, h.tid = token, tid


class MariaDB(Sql):
    RESIZE_RAISES = True
    TELLS_REFUSED = False
    LOOK_SEES_CLOSING = False
    CANCEL_TURNS = False

    def alive(self, waiter):
        # Also for a window after it came: its client's first beat may be on its way.
        return super().alive(waiter) or not self.over(waiter.since + self.ticks(waiter.window))

    def searches(self, n):
        return self.taken(n) < n.capacity  # as in PostgreSQL; also where it is closed

    def deaf(self, waiter):
        return waiter.inbox not in self.heard  # every client has its lock, which shows that it lives

    def holder(self, n, want, duration, block):
        h = super().holder(n, want, duration, block)
        h.confirmed = True
        return h

    def handed(self, n, w, h):
        super().handed(n, w, h)
        h.confirmed = False

    def most(self, h):
        return self.now + self.ticks(max(h.ttl, 0 if h.in_row else h.window))

    def grant(self, n, want, duration):
        h = super().grant(n, want, duration)
        if h:
            h.in_row = self.in_row(n, want) and not self.waiter(n, want.owner)  # granted at once: it has no window
        return h

    def moved(self, h):
        if h.in_row:
            h.window = 0
        super().moved(h)

    def held_again(self, n, h, want):
        h.confirmed = True
        return super().held_again(n, h, want)

    def queued_again(self, n, mine, want):
        mine.since, mine.window, mine.inbox = self.now, want.window, want.inbox
        return super().queued_again(n, mine, want)

    def is_first(self, n, owner):
        return n.waiters[0].owner == owner

    def stretch(self, n, h):
        if not h.in_row:
            h.deadline = max(h.deadline, self.now + self.ticks(h.window))

    def poke(self, key):
        answer = super().poke(key)
        return answer if self.name(key).waiters else 0  # nobody to come for

    def renew(self, key, owner, ttl):
        answer = super().renew(key, owner, ttl, None)
        if answer:
            self.name(key).holders[owner].confirmed = True
        return answer

    def adopt(self, key, owner, token, ttl):
        answer = super().adopt(key, owner, token, ttl)
        if answer != ['N']:
            self.name(key).holders[owner].confirmed = True
        return answer

    def hold_now(self, h, token, tid):
        if token is not None:
            h.token, h.tid = token, tid
