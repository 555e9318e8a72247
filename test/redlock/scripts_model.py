# SPDX-License-Identifier: MIT
"""
One node's rules once more, in the plainest way: lists that are searched, no counters, no bounds.
Times are in ms (`now`) and microseconds (`us`) of one clock, which the test moves.
"""

LIMIT = 2 ** 53


class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Name:
    def __init__(self):
        self.holders = {}
        self.waiters = []  # in order; the dead stay in this list until the server is seen to have dropped them
        self.tombs = {}  # owner -> highest attempt, end
        self.mode = self.capacity = 0
        self.closed = 0


class Model:
    """Each method is one script: it returns what the script must answer. `sent` gets the messages."""

    def __init__(self):
        self.us = 0
        self.sent = []
        self.pick = []  # the names that a prune will look at
        self.marker = None  # marker, since
        self.lose()

    def lose(self):
        self.names = {}
        self.epoch = self.cluster = None
        self.top = self.floor = 0
        self.counters = {}
        self.marker = None

    @property
    def now(self):
        return self.us // 1000

    def name(self, key):
        return self.names.setdefault(key, Name())

    # -- rules

    def living(self, n):
        return [w for w in n.waiters if self.now <= w.beat + w.window and w.epoch == self.epoch]

    def waiter(self, n, owner):
        return next((w for w in n.waiters if w.owner == owner), None)

    def taken(self, n):
        return sum(h.permits for h in n.holders.values())

    def expire(self, n):
        for owner, h in list(n.holders.items()):
            if self.now > h.deadline:
                del n.holders[owner]
                if h.delay:
                    n.closed = max(n.closed, h.deadline + h.delay)
        n.tombs = {o: t for o, t in n.tombs.items() if self.now <= t[1]}

    def counter(self, key):
        return self.counters.get(key, self.floor)

    def next_counter(self, key, tokens, proposal):
        if proposal > self.us + 60000000 and proposal + tokens - 1 > self.top:
            proposal = 0
        c = max(self.counter(key) + tokens, proposal + tokens - 1)
        return c if c < LIMIT else None

    def raise_counter(self, key, tokens, proposal):
        c = self.next_counter(key, tokens, proposal)
        if c is None:
            return None
        new = key not in self.counters
        self.counters[key] = c
        self.raise_top(c)
        if new:
            self.added.append(key)
        return c

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

    def fits(self, n, permits):
        if n.mode == 0:
            return not n.holders
        if n.mode == 1:
            if permits == 1:
                return all(h.permits == 1 for h in n.holders.values())
            return not n.holders
        return permits <= n.capacity - self.taken(n)

    def slots(self, n, permits, start):
        if n.mode != 2:
            return ''
        busy = {int(s) for h in n.holders.values() for s in h.slots.split(',')}
        order = [(start + i) % n.capacity for i in range(n.capacity)]
        return ','.join(str(s) for s in sorted([s for s in order if s not in busy][:permits]))

    def grant(self, key, n, want, duration, proposal):
        c = self.raise_counter(key, want.tokens, proposal)
        if c is None:
            return None
        h = Record(deadline=self.now + duration, ttl=want.ttl, window=want.window, c=c, held=0, tid=0,
                   tokens=want.tokens, permits=want.permits, delay=want.delay, since=self.now, flags=want.flags,
                   attempt=want.attempt, stamp=want.stamp, start=want.start, limit=self.max_ttl, epoch=self.epoch,
                   inbox=want.inbox, slots=self.slots(n, want.permits, want.start), label=want.label)
        n.holders[want.owner] = h
        return h

    def promote(self, key, n, proposal):
        if self.epoch is None:
            return
        while True:
            first = next(iter(self.living(n)), None)
            if not first or self.now <= n.closed or not self.fits(n, first.permits):
                return
            h = self.grant(key, n, first, first.window, proposal)
            if not h:
                return
            n.waiters.remove(first)
            self.sent.append((first.inbox, 'G %s %d %d %d %d %s' % (first.owner, first.attempt, h.c, h.tokens,
                                                                    first.window, h.slots)))

    def enqueue(self, n, w):
        n.waiters.append(w)
        n.waiters.sort(key=lambda w: (w.stamp, w.owner))

    def believed(self, stamp, at):
        return min(max(stamp, at - 100000), at)

    def next(self, n):
        """The true one; a script may answer something earlier, but not in the past."""
        if self.now <= n.closed:
            return n.closed - self.now + 1
        if n.holders:
            return min(h.deadline for h in n.holders.values()) - self.now + 1
        return 0

    def held(self, h):
        return ['G', h.c, h.tokens, h.deadline - self.now, h.slots]

    def place(self, key, n, owner):
        if owner in n.holders:
            return self.held(n.holders[owner])
        first = self.living(n)[0].owner == owner
        return ['Q', self.next(n) if first else 0, self.counter(key)]

    # -- scripts

    def acquire(self, key, epoch, owner, attempt, mode, capacity, permits, flags, proposal, tokens, ttl, delay, window,
                stamp, start, inbox, label):
        if self.epoch is None:
            return ['U']
        if epoch != self.epoch:
            return ['E', self.epoch.decode('latin-1')]
        if max(ttl, window) + delay > self.max_ttl:
            return ['T', self.max_ttl]
        n = self.name(key)
        self.added = []
        self.expire(n)
        reply = self._acquire(key, n, owner, mode, capacity, flags, proposal, Record(
            owner=owner, attempt=attempt, permits=permits, tokens=tokens, ttl=ttl, delay=delay, window=window,
            stamp=stamp, start=start, inbox=inbox, label=label, flags=flags & 4, since=self.now, beat=self.now,
            epoch=epoch))
        self.promote(key, n, proposal)
        self.prune()
        return reply

    def _acquire(self, key, n, owner, mode, capacity, flags, proposal, want):
        if n.tombs.get(owner, (0, 0))[0] >= want.attempt:
            return ['X']
        h = n.holders.get(owner)
        mine = self.waiter(n, owner)
        replaced = False
        if h:
            if h.attempt > want.attempt or h.attempt == want.attempt and h.epoch != self.epoch:
                return ['X']
            if h.attempt == want.attempt:
                if self.now + want.ttl > h.deadline:
                    h.deadline, h.ttl = self.now + want.ttl, max(h.ttl, want.ttl)
                return self.held(h)
            del n.holders[owner]
            replaced = True
        if mine:
            if mine.attempt > want.attempt:
                return ['X']
            n.waiters.remove(mine)
            if flags & 1 and (mode, capacity) == (n.mode, n.capacity):
                want.stamp, want.since = mine.stamp, mine.since
                self.enqueue(n, want)
                self.promote(key, n, proposal)
                return self.place(key, n, owner)
        if not replaced:
            self.promote(key, n, proposal)
        if not n.holders and not self.living(n):
            if self.now > n.closed or flags & 1:
                n.mode, n.capacity = mode, capacity
            n.waiters = []  # whoever died in the queue belonged to the kind before
        elif (mode, capacity) != (n.mode, n.capacity):
            return ['M', n.mode, n.capacity]
        if self.now > n.closed and self.fits(n, want.permits) and (flags & 2 or replaced or not self.living(n)):
            h = self.grant(key, n, want, want.ttl, proposal)
            if not h:
                return ['F']
            return ['G', h.c, h.tokens, want.ttl, h.slots] if mode == 2 else h.c
        if not flags & 1:
            return ['B', self.next(n)]
        if self.next_counter(key, want.tokens, proposal) is None:
            return ['F']
        want.stamp = self.believed(want.stamp, self.us)
        self.enqueue(n, want)
        self.promote(key, n, proposal)
        return self.place(key, n, owner)

    def write(self, key, epoch, owner, attempt, t):
        if self.epoch is None:
            return ['U']
        if epoch != self.epoch:
            return ['E', self.epoch.decode('latin-1')]
        n = self.name(key)
        self.expire(n)
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

    def _end(self, key, owner, attempt, tomb_ms, proposal, broken):
        n = self.name(key)
        self.added = []
        self.expire(n)
        reply = ['N']
        h, mine = n.holders.get(owner), self.waiter(n, owner)
        if h and h.attempt <= attempt:
            del n.holders[owner]
            reply = ['R']
            if broken:
                if h.delay:
                    n.closed = max(n.closed, self.now + h.delay)
                self.sent.append((h.inbox, 'L %s %d %d' % (owner, h.attempt, h.c)))
        elif mine and mine.attempt <= attempt:
            n.waiters.remove(mine)
        if tomb_ms:
            old = n.tombs.get(owner, (0, 0))
            n.tombs[owner] = (max(attempt, old[0]), max(self.now + tomb_ms, old[1]))
        self.promote(key, n, proposal)
        self.prune()
        return reply

    def release(self, key, owner, attempt, tomb_ms, proposal):
        return self._end(key, owner, attempt, tomb_ms, proposal, False)

    def break_(self, key, owner, attempt, tomb_ms, proposal):
        return self._end(key, owner, attempt, tomb_ms, proposal, True)

    def beat(self, key, proposal, owner, attempt, window, flags):
        """One of its items; the caller has seen to the epoch."""
        n = self.name(key)
        self.added = []
        self.expire(n)
        reply = self._beat(key, n, proposal, owner, attempt, window, flags)
        self.promote(key, n, proposal)
        self.prune()
        return reply

    def _beat(self, key, n, proposal, owner, attempt, window, flags):
        h, mine = n.holders.get(owner), self.waiter(n, owner)
        if h and h.attempt == attempt and h.epoch == self.epoch:
            window = min(window, self.max_ttl - h.delay)
            stamp = self.believed(h.stamp, h.since * 1000 + 999)
            first = next(iter(self.living(n)), None)
            if flags & 1 and first and (flags & 2 or (first.stamp, first.owner) < (stamp, owner)):
                del n.holders[owner]
                if flags & 2:
                    self.promote(key, n, proposal)
                self.enqueue(n, Record(
                    owner=owner, attempt=attempt, permits=h.permits, tokens=h.tokens, ttl=h.ttl, delay=h.delay,
                    window=window, stamp=stamp, start=h.start, inbox=h.inbox, label=h.label, flags=h.flags,
                    since=h.since, beat=self.now, epoch=h.epoch))
                self.promote(key, n, proposal)
                return self.place(key, n, owner)
            h.deadline = max(h.deadline, self.now + window)
            h.window = max(h.window, window)
            return self.held(h)
        if mine and mine.attempt == attempt and mine.epoch == self.epoch:
            mine.beat, mine.window = self.now, min(window, self.max_ttl - mine.delay)
            self.promote(key, n, proposal)
            return self.place(key, n, owner)
        return ['N']

    def renew(self, key, owner, attempt, ttl, token, tid):
        n = self.name(key)
        self.expire(n)
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
        self.expire(n)
        h = n.holders.get(owner)
        if not h or not h.flags & 4 or (ttl or h.ttl) + h.delay > h.limit:
            return ['N']
        h.ttl = ttl or h.ttl
        h.deadline = self.now + h.ttl
        return ['A', n.mode, n.capacity, h.permits, h.c, h.tokens, h.attempt, h.ttl, h.delay, h.slots]

    def note(self, key, owner, token, tid):
        n = self.name(key)
        self.expire(n)
        h = n.holders.get(owner)
        if h:
            self.hold_now(h, token, tid)

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        waiters = [w for w in n.waiters if self.now <= w.beat + w.window]
        closed = n.closed - self.now + 1 if self.now <= n.closed else 0
        if not n.holders and not waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, closed,
                sorted([o, h.attempt, h.c, h.tokens, h.permits, h.flags, self.now - h.since, h.deadline - self.now,
                        h.ttl, h.delay, h.held, h.tid, h.slots, h.label] for o, h in n.holders.items()),
                [[w.owner, w.attempt, w.permits, w.flags, self.now - w.since, w.ttl, w.stamp, w.label]
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

    # -- what the server must keep

    def counts_until(self, key):
        """Before this its key may not expire."""
        n = self.name(key)
        ends = [n.closed, 0]
        ends += [h.deadline + h.delay for h in n.holders.values()]
        ends += [w.beat + w.window for w in self.living(n)]
        ends += [t[1] for t in n.tombs.values()]
        return max(ends)
