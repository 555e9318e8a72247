# SPDX-License-Identifier: MIT
"""
The permit rules, once, in the plainest way: lists that are searched, no counters, no bounds. Five implementations are
judged by this model: the scripts of Redis, those of a Redlock node, the routines of PostgreSQL and of MariaDB, and the
embedded store's C.

`Model` has the rules; Redis follows them as they stand. What another engine rightly does in another way is a parameter, a
name in capitals with the reason beside it, or, where it is more than that (Redlock's counters and epochs), a method of the
engine's own model: model_redlock.py, model_sql.py, model_lmdb.py. Times are ticks (TICK_US microseconds) of one clock, which the test moves: `us`.
"""

AHEAD = 1000  # microseconds: no block of tokens ends so far ahead of the clock
LIMIT = 2 ** 53  # the first number that is no token
DEAF_AFTER = 100  # ms after a waiter has spoken nobody asks whether its inbox is listened to

WAIT, BARGE, DETACHED, HEARD = 1, 2, 4, 8  # flags of an acquire
WATCHED, LINGERS = 16, 32  # of Redis and SQL: it wants to hear that others wait; its process may keep it
NUMBERED = 64  # its permits have numbers
SEMAPHORE = 2  # a mode
AHEAD_LINGERING = 50000  # microseconds: ... of a lease that lingers


class Record:
    numbers = []  # of the permits of a holder that asked for them

    def __init__(self, **fields):
        self.__dict__.update(fields)


class Name:
    def __init__(self, key):
        self.key = key
        self.holders = {}
        self.waiters = []  # in order; the dead stay in this list until the store is seen to have dropped them
        self.tombs = {}
        self.mode = self.capacity = 0
        self.sized = False  # its size was set: `capacity`
        self.shrunk = False  # ... so that more may be held
        self.closed = self.last = 0
        self.delay = 0  # that `closed` is due to
        self.closing = (0, 0)  # by the lock delay of one that is dead and has not been taken out
        self.row = False  # SQL: it has one. It was removed, perhaps: `last` is what it had
        self.thin = False  # Redis: how the server has it, which is the server's affair


class Model:
    """Each public method is one call of the engine: it returns what the engine must answer. `sent` gets the messages."""

    # Ends are kept in ms. (SQL keeps microseconds: it has integers of 64 bits and no reason to round.)
    TICK_US = 1000
    # A time has passed when the clock is beyond it. (The embedded store: when the clock has reached it. Its holders
    # stop relying on a lease before that, by the same clock.)
    OVER_AT_END = False
    # What is handed over lasts for the claim window of the waiter, which must confirm it. (The embedded store knows
    # that the waiter lives, and gives the whole ttl.)
    HANDS_OVER_FOR = 'window'
    SHOWN = DETACHED  # flags of a holder that look tells
    # Of its flags a waiter keeps these. (The embedded store: that it barges, too; see there.)
    KEPT = DETACHED | HEARD | NUMBERED
    # Only live waiters count for "in use as another kind". (SQL: all waiters. Dead ones are removed when it is their
    # turn, not before.)
    DEAD_KEEP_KIND = False
    # A refused try on a name that is closed, and that nobody uses, does not set its kind. (PostgreSQL writes it all
    # the same; only inspection shows that.)
    REFUSED_SETS_KIND = False
    # An empty name is no queue: a refused try on a closed name leaves its dead waiters alone. (Redlock drops them.)
    REFUSED_DROPS_DEAD = False
    # A repeated acquire of the holder raises the longest ttl that it was promised. (SQL does not write it: a claim is
    # repeated with the same ttl only.)
    AGAIN_RAISES_TTL = True
    # A heartbeat or a cancel of a waiter that was granted meanwhile starts its window again. (SQL's beat writes the
    # client's row only, and its cancel answers what is left; MariaDB's extends what was handed over.)
    EXTENDS = True
    # The ttl of a lease is that of its last renewal. (The embedded store keeps the one that it was acquired with.)
    RENEWAL_SETS_TTL = True
    # A break first removes what has expired, even if it then finds nothing. (PostgreSQL leaves that to the next
    # call.)
    BREAK_TURNS = True
    # An acquire hands over before it asks, and again after. (SQL: before only; a waiter that was dead on arrival is
    # found by the next call.)
    TURNS_AFTER = True
    # The answer to a refused try says when something can change. (MariaDB: the caller retries by itself.)
    TELLS_REFUSED = True
    # Inspection shows the lock delay of a lease that has expired and was not removed yet. (MariaDB's shows it after
    # the next call on the name.)
    LOOK_SEES_CLOSING = True

    def __init__(self):
        self.us = 0
        self.names = {}
        self.sent = []
        self.heard = set()  # inboxes (SQL: clients) with a listener

    @property
    def now(self):
        return self.us // self.TICK_US

    def ticks(self, ms):
        return ms * 1000 // self.TICK_US

    def left(self, end):
        """Whole ms until then."""
        return (end - self.now) * self.TICK_US // 1000

    def over(self, end):
        return self.now > end or self.OVER_AT_END and self.now == end

    def name(self, key):
        if key not in self.names:
            self.names[key] = Name(key)
        return self.names[key]

    def tell(self, inbox, text):
        if inbox in self.heard:
            self.sent.append((inbox, text))

    # -- live clients, holders

    def alive(self, waiter):
        """As long as its own heartbeats come. (SQL: those of its client, in one row for all its waiters. The embedded store:
        as long as its process.)"""
        return not self.over(waiter.beat + self.ticks(waiter.window))

    def living(self, n):
        return [w for w in n.waiters if self.alive(w)]

    def waiter(self, n, owner):
        return next((w for w in n.waiters if w.owner == owner), None)

    def taken(self, n):
        return sum(h.permits for h in n.holders.values())

    def fits(self, n, permits):
        return permits <= n.capacity - self.taken(n)

    def open(self, n):
        return self.over(n.closed)

    def expire(self, n):
        for owner, h in list(n.holders.items()):
            if h.deadline is not None and self.over(h.deadline):
                del n.holders[owner]
                if h.delay:
                    n.closing = max(n.closing, (h.deadline + self.ticks(h.delay), h.delay))

    def close(self, n):
        """What a call does that takes the dead out, and does not only see them."""
        self.expire(n)
        if n.closing[0] > n.closed:
            n.closed, n.delay = n.closing
        n.closing = (0, 0)

    def shut(self, n, end, delay):
        if end > n.closed:
            n.closed, n.delay = end, delay

    # -- a clock that was set back

    def back(self, n):
        """Was the clock set back since something of this name was written?"""
        return n.last > self.us + 1000000

    def most(self, h):
        return self.now + self.ticks(max(h.ttl, h.window))

    def shifted(self, n):
        """The end of the lock delay, which is no further ahead than that delay."""
        return min(n.closed, self.now + self.ticks(n.delay)) if self.back(n) else n.closed

    def look_out(self, n):
        """What a call does first that may let others in."""
        n.closed = self.shifted(n)
        self.close(n)
        for h in n.holders.values():
            if self.back(n):
                h.deadline = min(h.deadline, self.most(h))

    # -- tokens

    def ahead(self, want):
        """Of a lease that lingers each acquisition has a token: its blocks may end further ahead."""
        return AHEAD_LINGERING if want.flags & LINGERS else AHEAD

    def block(self, n, tokens, ahead=AHEAD):
        """The first token of a block, and how many it has: it does not run ahead of the clock."""
        token = max(n.last + 1, self.us)
        tokens = max(1, min(tokens, self.us + ahead - token))
        return (token, tokens) if token + tokens <= LIMIT else None

    def take_tokens(self, n, want):
        block = self.block(n, want.tokens, self.ahead(want))
        if block:
            n.last = block[0] + block[1] - 1
        return block

    # -- granting

    def holder(self, n, want, duration, block):
        return Record(deadline=self.now + self.ticks(duration), first=block[0], tokens=block[1], permits=want.permits,
                      delay=want.delay, ttl=want.ttl, since=self.now, flags=want.flags & self.KEPT,
                      window=want.window, token=block[0], tid=0, label=want.label, inbox=want.inbox)

    def grant(self, n, want, duration):
        block = self.take_tokens(n, want)
        if not block:
            return None
        h = self.holder(n, want, duration, block)
        if want.flags & NUMBERED:
            h.numbers = self.numbers(n, want)
        n.holders[want.owner] = h
        assert self.taken(n) <= n.capacity, 'the model itself'
        return h

    def numbers(self, n, want):
        """The lowest that no holder has. (A Redlock node has slots, for every holder.)"""
        used = {number for h in n.holders.values() for number in h.numbers}
        return [number for number in range(len(used) + want.permits) if number not in used][:want.permits]

    def with_numbers(self, h, answer):
        return answer + [h.numbers] if h.numbers else answer

    def deaf(self, waiter):
        return waiter.flags & HEARD and self.now > waiter.beat + self.ticks(DEAF_AFTER) and waiter.inbox not in self.heard

    def heir(self, n):
        """Who is next. One to which nobody listens is passed over and keeps its place. (SQL takes it out: whoever connects
        again asks anew, and a row that stays would be looked at by every turn.)"""
        return next((w for w in self.living(n) if not self.deaf(w)), None)

    def handed(self, n, w, h):
        self.tell(w.inbox, 'G %s %s %d %d %d' % (w.owner, w.attempt, h.first, h.tokens, w.window) +
                  (' %r' % h.numbers if h.numbers else ''))

    def promote(self, n):
        """True: there is room, and those who wait would not hear of it."""
        while True:
            first = self.heir(n)
            if not first and self.open(n) and self.taken(n) < n.capacity:
                return True
            if not first or not self.open(n) or not self.fits(n, first.permits):
                return False
            h = self.grant(n, first, first.window if self.HANDS_OVER_FOR == 'window' else first.ttl)
            if not h:
                return False
            n.waiters.remove(first)
            self.handed(n, first, h)

    # -- answers

    def next(self, n):
        """Ms until something changes by itself. The true one; an engine may say something earlier, but not in the past."""
        if not self.open(n):
            return self.left(n.closed) + 1
        if n.holders:
            return self.left(min(h.deadline for h in n.holders.values())) + 1
        return 0

    def is_first(self, n, owner):
        return self.living(n)[0].owner == owner

    def held_answer(self, h):
        return self.with_numbers(h, ['G', h.first, h.tokens, self.left(h.deadline)])

    def granted_answer(self, h):
        return self.held_answer(h)

    def last_of(self, n):
        return n.last

    def place(self, n, owner):
        if owner in n.holders:
            return self.held_answer(n.holders[owner])
        return ['Q', self.next(n) if self.is_first(n, owner) else 0, self.last_of(n)]

    # -- acquire

    def acquire(self, key, **fields):
        """owner mode capacity permits flags tokens ttl delay window attempt inbox label, and what Redlock adds."""
        want = Record(beat=self.now, since=self.now, **fields)
        n = self.name(key)
        self.look_out(n)
        answer = self.ask(n, want)
        if self.TURNS_AFTER:
            self.promote(n)
        return answer

    def ask(self, n, want):
        replaced = False
        if want.owner in n.holders:
            answer = self.held_again(n, n.holders[want.owner], want)
            if answer:
                return answer
            replaced = True
        if self.tomb_refuses(n, want):
            return ['X']
        mine = self.waiter(n, want.owner)
        if mine:
            answer = self.queued_again(n, mine, want)
            if answer:
                return answer
        overtakes = replaced or self.promote(n)
        overtakes = overtakes or want.flags & BARGE
        if n.sized:
            if want.mode != SEMAPHORE or want.permits > n.capacity:
                return ['M', n.mode, n.capacity]
        elif n.holders or self.counted(n):
            if (want.mode, want.capacity) != (n.mode, n.capacity):
                return ['M', n.mode, n.capacity]
        else:
            serious = self.open(n) or want.flags & WAIT
            if serious or self.REFUSED_SETS_KIND:
                n.mode, n.capacity = want.mode, want.capacity
            if serious or self.REFUSED_DROPS_DEAD:
                n.waiters = []  # dead waiters belonged to the previous kind
        if self.open(n) and self.fits(n, want.permits) and (overtakes or not self.counted(n)):
            h = self.grant(n, want, want.ttl)
            return self.granted_answer(h) if h else ['F']
        if not want.flags & WAIT:
            return ['B', self.next(n) if self.TELLS_REFUSED else 0]
        if not self.tokens_left(n, want):
            return ['F']
        self.enqueue(n, want)
        if self.TURNS_AFTER:
            self.promote(n)
        return self.place(n, want.owner)

    def counted(self, n):
        return n.waiters if self.DEAD_KEEP_KIND else self.living(n)

    def tokens_left(self, n, want):
        return self.block(n, want.tokens, self.ahead(want))

    def enqueue(self, n, want):
        want.flags &= self.KEPT
        n.waiters.append(want)

    def tomb_refuses(self, n, want):
        return want.owner in n.tombs and not self.over(n.tombs[want.owner])

    def held_again(self, n, h, want):
        if self.now + self.ticks(want.ttl) > h.deadline:
            h.deadline = self.now + self.ticks(want.ttl)
            if self.AGAIN_RAISES_TTL:
                h.ttl = max(h.ttl, want.ttl)
        return self.held_answer(h)

    def queued_again(self, n, mine, want):
        self.spoke(mine, want.window)
        mine.attempt = want.attempt
        self.promote(n)
        return self.place(n, want.owner)

    def spoke(self, waiter, window):
        """One that speaks is there, deaf or not; a deaf one is not passed over any more."""
        if self.deaf(waiter):
            waiter.flags &= ~HEARD
        waiter.beat, waiter.window = self.now, window

    # -- the other calls

    def leave(self, n, owner):
        mine = self.waiter(n, owner)
        if mine:
            n.waiters.remove(mine)
        return mine

    def bury(self, n, owner, tomb_ms):
        if tomb_ms:
            n.tombs[owner] = self.now + tomb_ms

    def release(self, key, owner, tomb_ms=0):
        n = self.name(key)
        self.close(n)
        answer = ['R'] if n.holders.pop(owner, None) else ['N']
        if answer == ['N']:
            self.leave(n, owner)
        self.bury(n, owner, tomb_ms)
        self.promote(n)
        return answer

    def cancel(self, key, owner, tomb_ms=0):
        n = self.name(key)
        self.look_out(n)
        if owner in n.holders:
            h = n.holders[owner]
            if self.EXTENDS:
                h.deadline = max(h.deadline, self.now + self.ticks(h.window))
            self.promote(n)
            return self.held_answer(h)
        answer = ['C'] if self.leave(n, owner) else ['N']
        self.bury(n, owner, tomb_ms)
        self.promote(n)
        return answer

    def beat(self, key, owner, window):
        n = self.name(key)
        self.look_out(n)
        if owner in n.holders:
            h = n.holders[owner]
            h.deadline, h.window = max(h.deadline, self.now + self.ticks(window)), max(h.window, window)
            self.promote(n)
            return self.held_answer(h)
        mine = self.waiter(n, owner)
        if mine:
            self.spoke(mine, window)
        self.promote(n)
        return self.place(n, owner) if mine else ['N']

    def renew(self, key, owner, ttl, token=0, tid=0):
        n = self.name(key)
        self.expire(n)
        if owner not in n.holders:
            return 0
        h = n.holders[owner]
        h.deadline = self.now + self.ticks(ttl)
        if self.RENEWAL_SETS_TTL:
            h.ttl = ttl
        self.hold_now(h, token, tid)
        return 1

    def hold_now(self, h, token, tid):
        """A note raises the token that holds now, within its block. (SQL writes what it is told: calls of one client come in
        order; and PostgreSQL notes whole leases only, as only those are passed on.)"""
        if h.token < token < h.first + h.tokens:
            h.token, h.tid = token, tid

    def adopt(self, key, owner, token, ttl):
        n = self.name(key)
        self.expire(n)
        h = n.holders.get(owner)
        if not h or h.first != token or not h.flags & DETACHED:
            return ['N']
        h.ttl = ttl or h.ttl
        h.deadline = self.now + self.ticks(h.ttl)
        return self.with_numbers(h, ['A', n.mode, n.capacity, h.permits, h.first, h.tokens, h.ttl, h.delay])

    def note(self, key, owner, token, tid):
        n = self.name(key)
        self.expire(n)
        if owner in n.holders:
            self.hold_now(n.holders[owner], token, tid)

    def break_(self, key, token):
        n = self.name(key)
        if self.BREAK_TURNS:
            self.look_out(n)
        else:
            self.expire(n)
        owner = next((o for o, h in n.holders.items() if h.token == token), None)
        if owner is None:
            if self.BREAK_TURNS:
                self.promote(n)
            return ['N']
        h = n.holders.pop(owner)
        if h.delay:
            self.shut(n, self.now + self.ticks(h.delay), h.delay)
        self.tell(h.inbox, 'L %s %d' % (owner, h.first))
        self.look_out(n)
        self.promote(n)
        return ['R']

    def resize(self, key, capacity):
        """0: as requests say, when it is free."""
        n = self.name(key)
        self.look_out(n)
        if (n.holders or self.counted(n)) and n.mode != SEMAPHORE:
            self.promote(n)
            return ['M', n.mode, n.capacity]
        n.sized = capacity > 0
        if n.sized:
            n.mode, n.capacity = SEMAPHORE, capacity
            n.shrunk = n.shrunk or self.taken(n) > capacity
        self.promote(n)
        return ['R']

    # -- looking

    def shut_ms(self, n):
        """For how long nobody is let in."""
        ends = [self.shifted(n)] + ([n.closing[0]] if self.LOOK_SEES_CLOSING else [])
        return max([0] + [self.left(end) + 1 for end in ends if not self.over(end)])

    def age(self, since):
        return max(0, -self.left(since) if self.TICK_US == 1000 else (self.now - since) // 1000)

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        waiters = self.living(n)
        closed = self.shut_ms(n)
        if not n.holders and not waiters and not closed and not n.sized:
            return ['N']
        return ['L', n.mode, n.capacity, self.taken(n), closed,
                sorted(self.with_numbers(h, [o, h.token, h.first, h.tokens, h.permits, h.flags & self.SHOWN, self.age(h.since),
                                             self.left(min(h.deadline, self.most(h))), h.ttl, h.delay, h.tid, h.label])
                       for o, h in n.holders.items()),
                [[w.owner, w.permits, w.flags & DETACHED, self.age(w.since), w.ttl, w.label] for w in waiters]
                ] + [1] * n.sized

    # -- what the store must keep

    def counts_until(self, key):
        """Before this its records may not go."""
        n = self.name(key)
        ends = [n.closed, n.closing[0], n.last / self.TICK_US, 0]
        ends += [h.deadline + self.ticks(h.delay) for h in n.holders.values()]
        ends += [w.beat + self.ticks(w.window) for w in self.living(n)]
        ends += list(n.tombs.values())
        return max(ends)


class Redis(Model):
    """The rules as they stand. In the thin form a deadline itself shows that the clock was set back, be it by a millisecond.
    Any token of a lease that lingers breaks it."""
    KEPT = DETACHED | HEARD | WATCHED | LINGERS | NUMBERED
    SHOWN = DETACHED | WATCHED | LINGERS

    def hold_now(self, h, token, tid):
        if h.flags & LINGERS and token == h.token:
            h.tid = tid
        super().hold_now(h, token, tid)

    def break_(self, key, token):
        for h in self.name(key).holders.values():
            if h.flags & LINGERS and h.first <= token < h.first + h.tokens and not self.over(h.deadline):
                return super().break_(key, h.token)
        return super().break_(key, token)

    def look_out(self, n):
        super().look_out(n)
        for h in n.holders.values():
            if n.thin:
                h.deadline = min(h.deadline, self.most(h))
