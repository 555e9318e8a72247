# SPDX-License-Identifier: MIT
"""
The permit rules, once, in the plainest way: lists that are searched, no counters, no bounds. Five implementations are
judged by this model: the scripts of Redis, those of a Redlock node, the routines of PostgreSQL and of MariaDB, and the
embedded store's C.

`Model` has the rules. What an engine rightly does in another way is a parameter of it, a name in capitals with the
reason beside it, or, where it is more than a parameter (Redlock's counters and epochs), a method of the engine's class
below. Times are ticks (TICK_US microseconds) of one clock, which the test moves: `us`.
"""

AHEAD = 1000  # microseconds: no block of tokens ends so far ahead of the clock
LIMIT = 2 ** 53  # the first number that is no token
DEAF_AFTER = 100  # ms after a waiter has spoken nobody asks whether its inbox is listened to

WAIT, BARGE, DETACHED, HEARD = 1, 2, 4, 8  # flags of an acquire


class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Name:
    def __init__(self, key):
        self.key = key
        self.holders = {}
        self.waiters = []  # in order; the dead stay in this list until the store is seen to have dropped them
        self.tombs = {}
        self.mode = self.capacity = 0
        self.closed = self.last = 0
        self.delay = 0  # that `closed` is due to
        self.closing = (0, 0)  # by the lock delay of one that is dead and has not been taken out


class Model:
    """Each public method is one call of the engine: it returns what the engine must answer. `sent` gets the messages."""

    # Ends are kept in ms. (SQL keeps microseconds: it has integers of 64 bits and no reason to round.)
    TICK_US = 1000
    # A time is over when the clock is past it. (The embedded store: when the clock has come to it. Its holders stop
    # counting on a lease before, by the same clock.)
    OVER_AT_END = False
    # What is handed over lasts for the claim window of the waiter, which must confirm it. (The embedded store knows
    # that the waiter lives, and gives the whole ttl.)
    HANDS_OVER_FOR = 'window'
    # A waiter lives as long as its own heartbeats come. (SQL: those of its client, in one row for all its waiters. The
    # embedded store: as long as its process.)
    LIVES_BY = 'heartbeat'
    # Of its flags a waiter keeps these. (The embedded store: that it barges, too; see there.)
    KEPT = DETACHED | HEARD
    # A waiter to which nobody listens is passed over and keeps its place. (SQL takes it out: whoever connects again
    # asks anew, and a row that stays would be looked at by every turn.)
    UNHEARD = 'passed over'
    # Of what counts as "in use as another kind": waiters that live. (SQL: those that are there. The dead are taken out
    # when it is their turn, not searched for.)
    DEAD_KEEP_KIND = False
    # A refused try on a name that is closed, and that nobody uses, does not set its kind. (PostgreSQL writes it all
    # the same; nobody can tell but by a look.)
    REFUSED_SETS_KIND = False
    # An empty name is no queue: a refused try on a closed name leaves its dead waiters alone. (Redlock drops them.)
    REFUSED_DROPS_DEAD = False
    # A repeated acquire of the holder raises the longest ttl that it was promised. (SQL does not write it: a claim is
    # repeated with the same ttl only.)
    AGAIN_RAISES_TTL = True
    # A heartbeat or a cancel of one that was granted meanwhile makes its window begin again. (SQL's beat writes the
    # client's row only, and its cancel answers what is left; MariaDB's extends what was handed over.)
    EXTENDS = True
    # The ttl of a lease is that of its last renewal. (The embedded store keeps the one that it was acquired with.)
    RENEWAL_SETS_TTL = True
    # A note raises the token that holds now, within its block. (SQL writes what it is told: calls of one client come
    # in order, and PostgreSQL notes whole leases only, as only those are passed on.)
    NOTE = 'raises'
    # A break looks first what is over, also if it finds nothing. (PostgreSQL leaves that to the next call.)
    BREAK_TURNS = True
    # An acquire looks whose turn it is before it asks, and again after. (SQL: before; a queue that nobody could enter
    # has no turn, and one who came dead is found by the next call.)
    TURNS_AFTER = True
    # A refused try is told when something can change. (MariaDB: the caller comes back by itself.)
    TELLS_REFUSED = True
    # A look tells of the lock delay of a lease that has expired and was not taken out yet. (MariaDB's tells of it
    # once something has settled the name.)
    LOOK_SEES_CLOSING = True

    def __init__(self):
        self.us = 0
        self.names = {}
        self.sent = []
        self.heard = set()  # inboxes (SQL: clients) that somebody listens to

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

    # -- who lives, who holds

    def alive(self, waiter):
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

    def block(self, n, tokens):
        """The first token of a block, and how many it has: it does not run ahead of the clock."""
        token = max(n.last + 1, self.us)
        tokens = max(1, min(tokens, self.us + AHEAD - token))
        return (token, tokens) if token + tokens <= LIMIT else None

    def take_tokens(self, n, want):
        block = self.block(n, want.tokens)
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
        h = n.holders[want.owner] = self.holder(n, want, duration, block)
        assert self.taken(n) <= n.capacity, 'the model itself'
        return h

    def deaf(self, waiter):
        return waiter.flags & HEARD and self.now > waiter.beat + self.ticks(DEAF_AFTER) and waiter.inbox not in self.heard

    def heir(self, n):
        """Who is next. Whoever must be taken out before that is."""
        return next((w for w in self.living(n) if not self.deaf(w)), None)

    def handed(self, n, w, h):
        self.tell(w.inbox, 'G %s %s %d %d %d' % (w.owner, w.attempt, h.first, h.tokens, w.window))

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
        return ['G', h.first, h.tokens, self.left(h.deadline)]

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
        if n.holders or self.counted(n):
            if (want.mode, want.capacity) != (n.mode, n.capacity):
                return ['M', n.mode, n.capacity]
        else:
            serious = self.open(n) or want.flags & WAIT
            if serious or self.REFUSED_SETS_KIND:
                n.mode, n.capacity = want.mode, want.capacity
            if serious or self.REFUSED_DROPS_DEAD:
                n.waiters = []  # whoever died in the queue belonged to the kind before
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
        return self.block(n, want.tokens)

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
        return ['A', n.mode, n.capacity, h.permits, h.first, h.tokens, h.ttl, h.delay]

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
        if not n.holders and not waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, self.taken(n), closed,
                sorted([o, h.token, h.first, h.tokens, h.permits, h.flags & DETACHED, self.age(h.since),
                        self.left(min(h.deadline, self.most(h))), h.ttl, h.delay, h.tid, h.label]
                       for o, h in n.holders.items()),
                [[w.owner, w.permits, w.flags & DETACHED, self.age(w.since), w.ttl, w.label] for w in waiters]]

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
    """The rules as they stand."""


class Redlock(Model):
    """
    One node of several. Its tokens are counters, which the client raises to those of the other nodes (`proposal`), and
    which live in epochs: a node that lost its data belongs to none until it was healed. One owner makes several
    attempts, of which a later one replaces an earlier one. The queue is in the order of the clients' stamps, which the
    nodes share. A semaphore's permits are numbered, so that a majority agrees on each.
    """
    REFUSED_DROPS_DEAD = True

    def __init__(self):
        super().__init__()
        self.pick = []  # the names that a prune will look at
        self.added = []
        self.proposal = 0
        self.lose()

    def lose(self):
        self.names = {}
        self.epoch = self.cluster = self.marker = None
        self.top = self.floor = 0
        self.counters = {}

    def back(self, n):
        return False  # deadlines of a majority count: one node's clock that goes back costs patience and nothing else

    # -- counters in place of tokens by the clock

    def counter(self, key):
        return self.counters.get(key, self.floor)

    def last_of(self, n):
        return self.counter(n.key)

    def next_counter(self, key, tokens):
        proposal = self.proposal
        if proposal > self.us + 60000000 and proposal + tokens - 1 > self.top:
            proposal = 0
        c = max(self.counter(key) + tokens, proposal + tokens - 1)
        return c if c < LIMIT else None

    def tokens_left(self, n, want):
        return self.next_counter(n.key, want.tokens) is not None

    def take_tokens(self, n, want):
        c = self.next_counter(n.key, want.tokens)
        if c is None:
            return None
        if n.key not in self.counters:
            self.added.append(n.key)
        self.counters[n.key] = c
        self.raise_top(c)
        return c, want.tokens

    def raise_top(self, c):
        if c > self.top:
            self.top = min(c + 1000000, LIMIT - 1)

    def prune(self):
        """At the end of a call on a name: what its new field pays for."""
        for key in self.added:
            for other in self.pick:
                if other in self.counters and other != key and self.counters[other] < self.us - 60000000:
                    self.floor = max(self.floor, self.counters.pop(other))
        self.added = []

    # -- rules

    def alive(self, waiter):
        return super().alive(waiter) and waiter.epoch == self.epoch

    def expire(self, n):
        super().expire(n)
        n.closed, n.closing = max(n.closed, n.closing[0]), (0, 0)
        n.tombs = {o: t for o, t in n.tombs.items() if not self.over(t[1])}

    def fits(self, n, permits):
        if n.mode == 2:
            return super().fits(n, permits)
        if n.mode == 1 and permits == 1:
            return all(h.permits == 1 for h in n.holders.values())
        return not n.holders

    def slots(self, n, permits, start):
        if n.mode != 2:
            return ''
        busy = {int(s) for h in n.holders.values() for s in h.slots.split(',')}
        order = [(start + i) % n.capacity for i in range(n.capacity)]
        return ','.join(str(s) for s in sorted([s for s in order if s not in busy][:permits]))

    def holder(self, n, want, duration, block):
        return Record(deadline=self.now + duration, ttl=want.ttl, window=want.window, c=block[0], held=0, tid=0,
                      tokens=want.tokens, permits=want.permits, delay=want.delay, since=self.now,
                      flags=want.flags & self.KEPT, attempt=want.attempt, stamp=want.stamp, start=want.start,
                      limit=self.max_ttl, epoch=self.epoch, inbox=want.inbox,
                      slots=self.slots(n, want.permits, want.start), label=want.label)

    def handed(self, n, w, h):
        self.tell(w.inbox, 'G %s %d %d %d %d %s' % (w.owner, w.attempt, h.c, h.tokens, w.window, h.slots))

    def promote(self, n):
        return False if self.epoch is None else super().promote(n)

    def believed(self, stamp, at):
        return min(max(stamp, at - 100000), at)

    def enqueue(self, n, want, stamp=None):
        want.stamp = self.believed(want.stamp, self.us) if stamp is None else stamp
        super().enqueue(n, want)
        n.waiters.sort(key=lambda w: (w.stamp, w.owner))

    def held_answer(self, h):
        return ['G', h.c, h.tokens, self.left(h.deadline), h.slots]

    def granted_answer(self, h):
        return self.held_answer(h) if h.slots else h.c

    # -- calls

    def wrong_epoch(self, epoch):
        if self.epoch is None:
            return ['U']
        return ['E', self.epoch.decode('latin-1')] if epoch != self.epoch else None

    def acquire(self, key, epoch, proposal, **fields):
        wrong = self.wrong_epoch(epoch)
        if wrong:
            return wrong
        if max(fields['ttl'], fields['window']) + fields['delay'] > self.max_ttl:
            return ['T', self.max_ttl]
        self.proposal = proposal
        answer = super().acquire(key, epoch=epoch, **fields)
        self.prune()
        return answer

    def tomb_refuses(self, n, want):
        return n.tombs.get(want.owner, (0, 0))[0] >= want.attempt

    def held_again(self, n, h, want):
        if h.attempt > want.attempt or h.attempt == want.attempt and h.epoch != self.epoch:
            return ['X']
        if h.attempt == want.attempt:
            return super().held_again(n, h, want)
        if not self.tomb_refuses(n, want):
            del n.holders[want.owner]
        return None

    def queued_again(self, n, mine, want):
        if mine.attempt > want.attempt:
            return ['X']
        n.waiters.remove(mine)
        if want.flags & WAIT and (want.mode, want.capacity) == (n.mode, n.capacity):
            want.since = mine.since
            self.enqueue(n, want, mine.stamp)
            self.promote(n)
            return self.place(n, want.owner)
        return None

    def write(self, key, epoch, owner, attempt, t):
        wrong = self.wrong_epoch(epoch)
        if wrong:
            return wrong
        n = self.name(key)
        self.close(n)
        h = n.holders.get(owner)
        if not h or h.attempt != attempt or h.epoch != epoch:
            return ['N']
        if t >= LIMIT:
            return ['F']
        if t > self.counter(key):
            self.counters[key] = t
            self.raise_top(t)
        h.c = self.counter(key)
        return ['G', h.c]

    def end(self, key, owner, attempt, tomb_ms, proposal, broken):
        n = self.name(key)
        self.proposal = proposal
        self.close(n)
        answer = ['N']
        h, mine = n.holders.get(owner), self.waiter(n, owner)
        if h and h.attempt <= attempt:
            del n.holders[owner]
            answer = ['R']
            if broken:
                if h.delay:
                    n.closed = max(n.closed, self.now + h.delay)
                self.tell(h.inbox, 'L %s %d %d' % (owner, h.attempt, h.c))
        elif mine and mine.attempt <= attempt:
            n.waiters.remove(mine)
        if tomb_ms:
            old = n.tombs.get(owner, (0, 0))
            n.tombs[owner] = (max(attempt, old[0]), max(self.now + tomb_ms, old[1]))
        self.promote(n)
        self.prune()
        return answer

    def release(self, key, owner, attempt, tomb_ms, proposal):
        return self.end(key, owner, attempt, tomb_ms, proposal, False)

    def break_(self, key, owner, attempt, tomb_ms, proposal):
        return self.end(key, owner, attempt, tomb_ms, proposal, True)

    def beat(self, key, proposal, owner, attempt, window, flags):
        """One of its items; the caller has seen to the epoch."""
        n = self.name(key)
        self.proposal = proposal
        self.close(n)
        answer = self.beaten(n, owner, attempt, window, flags)
        self.promote(n)
        self.prune()
        return answer

    def beaten(self, n, owner, attempt, window, flags):
        h, mine = n.holders.get(owner), self.waiter(n, owner)
        if h and h.attempt == attempt and h.epoch == self.epoch:
            window = min(window, self.max_ttl - h.delay)
            stamp = self.believed(h.stamp, h.since * 1000 + 999)
            first = self.heir(n)
            if flags & 1 and first and (flags & 2 or (first.stamp, first.owner) < (stamp, owner)):
                del n.holders[owner]
                if flags & 2:
                    self.promote(n)
                self.enqueue(n, Record(
                    owner=owner, attempt=attempt, permits=h.permits, tokens=h.tokens, ttl=h.ttl, delay=h.delay,
                    window=window, start=h.start, inbox=h.inbox, label=h.label, flags=h.flags,
                    since=h.since, beat=self.now, epoch=h.epoch), stamp)
                self.promote(n)
                return self.place(n, owner)
            h.deadline = max(h.deadline, self.now + window)
            h.window = max(h.window, window)
            return self.held_answer(h)
        if mine and mine.attempt == attempt and mine.epoch == self.epoch:
            self.spoke(mine, min(window, self.max_ttl - mine.delay))
            self.promote(n)
            return self.place(n, owner)
        return ['N']

    def renew(self, key, owner, attempt, ttl, token, tid):
        n = self.name(key)
        self.close(n)
        h = n.holders.get(owner)
        if not h or h.attempt != attempt or ttl + h.delay > h.limit:
            return 0
        h.deadline, h.ttl = self.now + ttl, ttl
        self.hold_now(h, token, tid)
        return h.c

    def hold_now(self, h, token, tid):
        if token > h.held:
            h.held, h.tid = token, tid

    def adopt(self, key, owner, ttl):
        n = self.name(key)
        self.close(n)
        h = n.holders.get(owner)
        if not h or not h.flags & DETACHED or (ttl or h.ttl) + h.delay > h.limit:
            return ['N']
        h.ttl = ttl or h.ttl
        h.deadline = self.now + h.ttl
        return ['A', n.mode, n.capacity, h.permits, h.c, h.tokens, h.attempt, h.ttl, h.delay, h.slots]

    def look(self, key):
        n = self.name(key)
        self.close(n)
        waiters = [w for w in n.waiters if super(Redlock, self).alive(w)]  # of every epoch
        closed = self.shut_ms(n)
        if not n.holders and not waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, closed,
                sorted([o, h.attempt, h.c, h.tokens, h.permits, h.flags & DETACHED, self.now - h.since,
                        h.deadline - self.now, h.ttl, h.delay, h.held, h.tid, h.slots, h.label]
                       for o, h in n.holders.items()),
                [[w.owner, w.attempt, w.permits, w.flags & DETACHED, self.now - w.since, w.ttl, w.stamp, w.label]
                 for w in waiters]]

    # -- what the node is part of

    def status(self):
        if self.epoch:
            return ['S', self.epoch.decode('latin-1'), self.cluster.decode('latin-1'), self.n, self.max_ttl, self.top,
                    self.floor, len(self.counters)]
        if self.marker:
            return ['U', self.marker[0].decode('latin-1'), self.now - self.marker[1]]
        return ['U', '', 0]

    def mark(self, marker, overwrite):
        if self.epoch:
            return ['I']
        if not self.marker or overwrite and self.now - self.marker[1] > overwrite:
            self.marker = (marker, self.now)
        return ['K', self.marker[0].decode('latin-1'), self.now - self.marker[1]]

    def install(self, marker, epoch, cluster, n, max_ttl, floor):
        if self.epoch:
            return ['I']
        if not self.marker or self.marker[0] != marker:
            return ['N']
        self.epoch, self.cluster, self.n, self.max_ttl = epoch, cluster, n, max_ttl
        self.top = self.floor = floor
        self.counters, self.marker = {}, None
        return ['D']

    def seal(self, expected, new):
        if self.epoch is None:
            return ['U']
        if self.epoch not in (expected, new):
            return ['E', self.epoch.decode('latin-1')]
        self.epoch = new
        return ['S', self.top]

    def counts_until(self, key):
        n = self.name(key)
        ends = [n.closed, 0]
        ends += [h.deadline + h.delay for h in n.holders.values()]
        ends += [w.beat + w.window for w in self.living(n)]
        ends += [t[1] for t in n.tombs.values()]
        return max(ends)


class Sql(Model):
    """
    What PostgreSQL's routines and MariaDB's have in common. Every call that changes a name first settles it (`turn`): takes
    out what is over, and hands over. A waiter is kept by its client's row, not by heartbeats of its own. There are no
    tombstones: a call that was not answered is not sent again on another connection. `inbox` is the client's number.
    """
    TICK_US = 1
    LIVES_BY = 'client'
    UNHEARD = 'dropped'
    DEAD_KEEP_KIND = True
    AGAIN_RAISES_TTL = False
    EXTENDS = False
    NOTE = 'writes'
    TURNS_AFTER = False
    # A cancel of what was granted settles the name. (MariaDB's has nothing to change then.)
    CANCEL_TURNS = True

    def __init__(self):
        super().__init__()
        self.clients = {}

    def back(self, n):
        return False  # seen by each record's own end (Sequence.follow), not by the name's last token

    def tell(self, inbox, text):
        self.sent.append((inbox, text))

    def alive(self, waiter):
        return waiter.inbox in self.clients and not self.over(self.clients[waiter.inbox])

    def deaf(self, waiter):
        return waiter.flags & HEARD and waiter.inbox not in self.heard

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

    def poke(self, key):
        n = self.name(key)
        self.look_out(n)
        return self.next(n)

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        waiters, closed = self.living(n), self.shut_ms(n)
        if not n.holders and not waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, closed,
                sorted([h.token, h.first, h.permits, h.flags & DETACHED, self.age(h.since),
                        self.left(min(h.deadline, self.most(h))), h.tid, h.label] for h in n.holders.values()),
                [[w.permits, w.flags & DETACHED, self.age(w.since), w.label] for w in waiters]]


class Postgres(Sql):
    REFUSED_SETS_KIND = True
    BREAK_TURNS = False

    def searches(self, n):
        return self.open(n) and self.taken(n) < n.capacity  # a turn ends where nobody can be let in

    def holder(self, n, want, duration, block):
        h = super().holder(n, want, duration, block)
        h.ttl = max(want.ttl, duration)  # one column: the longest that was promised
        if h.permits == n.capacity:
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
        return len(n.waiters) == 1  # the others hear of it from their beats

    def looks_after(self, n, owner):
        return next((w.owner for w in self.living(n)), None) == owner  # the first that lives, and no other

    def hold_now(self, h, token, tid):
        pass  # not with a renewal

    def note(self, key, owner, token, tid):
        n = self.name(key)
        self.expire(n)
        h = n.holders.get(owner)
        if h and h.permits == n.capacity and h.first <= token < h.first + h.tokens:
            h.token, h.tid = token, tid


class MariaDB(Sql):
    TELLS_REFUSED = False
    LOOK_SEES_CLOSING = False
    CANCEL_TURNS = False

    def alive(self, waiter):
        # Also for a window after it came: its client's first beat may be on its way.
        return super().alive(waiter) or not self.over(waiter.since + self.ticks(waiter.window))

    def deaf(self, waiter):
        return waiter.inbox not in self.heard  # every client has the lock by which it is found

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
            h.in_row = h.permits == n.capacity and not self.waiter(n, want.owner)  # granted at once: it has no window
        return h

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


class Lmdb(Model):
    """
    The embedded store. Whoever waits or holds is a process of this machine, and its death is seen: no heartbeats, no
    windows, no tombstones, and a lease may have no end. Tokens are numbers of the whole store, in the order of grants
    (`first` is None until the store has told it). A waiter that barges is not handed the name: it is told to look, and
    whoever is first takes it; here everybody looks before anything else happens, so it comes to the same.
    """
    OVER_AT_END = True
    HANDS_OVER_FOR = 'ttl'
    LIVES_BY = 'process'
    UNHEARD = None
    KEPT = DETACHED | BARGE
    RENEWAL_SETS_TTL = False

    def __init__(self):
        super().__init__()
        self.queued = set()  # who has waited

    def settle(self):
        """Time has passed, and every waiter has looked."""
        for n in self.names.values():
            self.look_out(n)
            self.promote(n)

    def back(self, n):
        return False  # the clock of the machine's boot

    def alive(self, waiter):
        return True

    def deaf(self, waiter):
        return False

    def tell(self, inbox, text):
        pass

    def take_tokens(self, n, want):
        return None, want.tokens

    def block(self, n, tokens):
        return True

    def holder(self, n, want, duration, block):
        return Record(deadline=self.now + want.ttl if want.ttl else None, first=None, tokens=want.tokens,
                      permits=want.permits, delay=want.delay, ttl=want.ttl, since=self.now, flags=want.flags,
                      token=None, tid=0, label=want.label, inbox=None)

    def handed(self, n, w, h):
        pass

    def enqueue(self, n, want):
        super().enqueue(n, want)
        self.queued.add(want.owner)

    def next(self, n):
        return 0

    def held_answer(self, h):
        return ['G']

    def place(self, n, owner):
        return ['G'] if owner in n.holders else ['Q']

    def ask(self, n, want):
        return super().ask(n, want)[:1]

    def renew(self, key, owner, ttl):
        answer = super().renew(key, owner, ttl, None)
        self.settle()
        return answer

    def hold_now(self, h, token, tid):
        if token is not None and not h.flags & DETACHED and h.tokens > 1:
            h.token, h.tid = token, tid

    def adopt(self, key, owner, token, ttl):
        answer = super().adopt(key, owner, token, ttl)
        if answer[0] == 'A':
            del answer[5]  # whoever has passed it on before is not known: the rest of its block is not used
        self.settle()
        return answer

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        closed = max([0] + [end - self.now for end in (n.closed, n.closing[0]) if not self.over(end)])
        if not n.holders and not n.waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, self.taken(n), closed,
                sorted([o, h.token, h.first, h.permits, 1 if h.flags & DETACHED else 0, self.now - h.since,
                        -1 if h.deadline is None else h.deadline - self.now, h.tid] for o, h in n.holders.items()),
                [[w.owner, i + 1, w.permits, self.now - w.since] for i, w in enumerate(n.waiters)]]
