# SPDX-License-Identifier: MIT
"""The permit rules (model.py) as a Redlock node has them."""
from model import DETACHED, LIMIT, WAIT, Model, Record


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
        self.kept = set()  # those of them that it must leave
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
                if other in self.counters and other not in self.kept | {key} and self.counters[other] < self.us - 60000000:
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
