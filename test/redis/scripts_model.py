# SPDX-License-Identifier: MIT
"""
The permit rules once more, in the plainest way: lists that are searched, no counters, no bounds.
Times are in ms (`now`) and microseconds (`us`) of one clock, which the test moves.
"""

AHEAD = 1000  # microseconds: no block of tokens ends so far ahead of the clock


class Record:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Name:
    def __init__(self):
        self.holders = {}  # owner -> deadline first tokens permits delay ttl since flags window token tid label inbox
        self.waiters = []  # in order; the dead stay in this list until the server is seen to have dropped them
        self.tombs = {}
        self.mode = self.capacity = 0
        self.closed = self.last = 0
        self.tokens_given = set()


class Model:
    """Each method is one script: it returns what the script must answer. `sent` gets the messages."""

    def __init__(self):
        self.us = 0
        self.names = {}
        self.sent = []

    @property
    def now(self):
        return self.us // 1000

    def name(self, key):
        return self.names.setdefault(key, Name())

    # -- rules

    def alive(self, waiter):
        return self.now <= waiter.beat + waiter.window

    def living(self, n):
        return [w for w in n.waiters if self.alive(w)]

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

    def block(self, n, tokens):
        """The first token of a block, and how many it has: it does not run ahead of the clock."""
        token = max(n.last + 1, self.us)
        tokens = max(1, min(tokens, self.us + AHEAD - token))
        return (token, tokens) if token + tokens <= 2 ** 53 else None

    def grant(self, n, owner, want, duration):
        block = self.block(n, want.tokens)
        if not block:
            return None
        token, tokens = block
        n.last = token + tokens - 1
        n.holders[owner] = h = Record(
            deadline=self.now + duration, first=token, tokens=tokens, permits=want.permits, delay=want.delay,
            ttl=want.ttl, since=self.now, flags=want.flags, window=want.window, token=token, tid=0,
            label=want.label, inbox=want.inbox)
        assert self.taken(n) <= n.capacity, 'the model itself'
        return h

    def promote(self, n):
        while True:
            first = next(iter(self.living(n)), None)
            if not first or self.now <= n.closed or first.permits > n.capacity - self.taken(n):
                return
            h = self.grant(n, first.owner, first, first.window)
            if not h:
                return
            n.waiters.remove(first)
            self.sent.append((first.inbox, 'G %s %s %d %d %d' % (first.owner, first.attempt, h.first, h.tokens,
                                                                 first.window)))

    def next(self, n):
        """The true one; a script may answer something earlier, but not in the past."""
        if self.now <= n.closed:
            return n.closed - self.now + 1
        if n.holders:
            return min(h.deadline for h in n.holders.values()) - self.now + 1
        return 0

    def place(self, n, owner):
        if owner in n.holders:
            h = n.holders[owner]
            return ['G', h.first, h.tokens, h.deadline - self.now]
        first = self.living(n)[0].owner == owner
        return ['Q', self.next(n) if first else 0]

    # -- scripts

    def acquire(self, key, owner, mode, capacity, permits, flags, tokens, ttl, delay, window, attempt, inbox, label):
        n = self.name(key)
        self.expire(n)
        if owner in n.holders:
            h = n.holders[owner]
            h.deadline = max(h.deadline, self.now + ttl)
            self.promote(n)
            return ['G', h.first, h.tokens, h.deadline - self.now]
        if n.tombs.get(owner, 0) >= self.now:
            self.promote(n)
            return ['X']
        mine = self.waiter(n, owner)
        if mine:
            mine.beat, mine.window, mine.attempt = self.now, window, attempt
            self.promote(n)
            return self.place(n, owner)
        self.promote(n)
        if n.holders or self.living(n):
            if (mode, capacity) != (n.mode, n.capacity):
                return ['M', n.mode, n.capacity]
        elif self.now > n.closed or flags & 1:
            n.mode, n.capacity = mode, capacity
            n.waiters = []  # whoever died in the queue belonged to the kind before
        want = Record(owner=owner, beat=self.now, window=window, permits=permits, tokens=tokens, ttl=ttl, delay=delay,
                      flags=flags & 4, since=self.now, attempt=attempt, inbox=inbox, label=label)
        if self.now > n.closed and permits <= n.capacity - self.taken(n) and (flags & 2 or not self.living(n)):
            h = self.grant(n, owner, want, ttl)
            return ['G', h.first, h.tokens, ttl] if h else ['F']
        if not flags & 1:
            return ['B', self.next(n)]
        if not self.block(n, tokens):
            return ['F']
        n.waiters.append(want)
        return self.place(n, owner)

    def _leave(self, n, owner):
        mine = self.waiter(n, owner)
        if mine:
            n.waiters.remove(mine)
        return mine

    def release(self, key, owner, tomb_ms):
        n = self.name(key)
        self.expire(n)
        reply = ['R'] if n.holders.pop(owner, None) else ['N']
        if reply == ['N']:
            self._leave(n, owner)
        if tomb_ms:
            n.tombs[owner] = self.now + tomb_ms
        self.promote(n)
        return reply

    def cancel(self, key, owner, tomb_ms):
        n = self.name(key)
        self.expire(n)
        if owner in n.holders:
            h = n.holders[owner]
            h.deadline = max(h.deadline, self.now + h.window)
            self.promote(n)
            return ['G', h.first, h.tokens, h.deadline - self.now]
        reply = ['C'] if self._leave(n, owner) else ['N']
        if tomb_ms:
            n.tombs[owner] = self.now + tomb_ms
        self.promote(n)
        return reply

    def beat(self, key, owner, window):
        n = self.name(key)
        self.expire(n)
        if owner in n.holders:
            h = n.holders[owner]
            h.deadline = max(h.deadline, self.now + window)
            self.promote(n)
            return ['G', h.first, h.tokens, h.deadline - self.now]
        mine = self.waiter(n, owner)
        if mine:
            mine.beat, mine.window = self.now, window
        self.promote(n)
        return self.place(n, owner) if mine else ['N']

    def renew(self, key, owner, ttl, token, tid):
        n = self.name(key)
        self.expire(n)
        if owner not in n.holders:
            return 0
        n.holders[owner].deadline, n.holders[owner].ttl = self.now + ttl, ttl
        self._hold_now(n.holders[owner], token, tid)
        return 1

    def _hold_now(self, h, token, tid):
        if h.token < token < h.first + h.tokens:
            h.token, h.tid = token, tid

    def adopt(self, key, owner, token, ttl):
        n = self.name(key)
        self.expire(n)
        h = n.holders.get(owner)
        if not h or h.first != token or not h.flags & 4:
            return ['N']
        h.ttl = ttl or h.ttl
        h.deadline = self.now + h.ttl
        return ['A', n.mode, n.capacity, h.permits, h.first, h.tokens, h.ttl, h.delay]

    def note(self, key, owner, token, tid):
        n = self.name(key)
        self.expire(n)
        if owner in n.holders:
            self._hold_now(n.holders[owner], token, tid)

    def break_(self, key, token):
        n = self.name(key)
        self.expire(n)
        for owner, h in n.holders.items():
            if h.token == token:
                break
        else:
            self.promote(n)
            return ['N']
        del n.holders[owner]
        if h.delay:
            n.closed = max(n.closed, self.now + h.delay)
        self.sent.append((h.inbox, 'L %s %d' % (owner, h.first)))
        self.promote(n)
        return ['R']

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        waiters = self.living(n)
        closed = n.closed - self.now + 1 if self.now <= n.closed else 0
        if not n.holders and not waiters and not closed:
            return ['N']
        return ['L', n.mode, n.capacity, self.taken(n), closed,
                sorted([o, h.token, h.first, h.tokens, h.permits, h.flags, max(0, self.now - h.since),
                        h.deadline - self.now, h.ttl, h.delay, h.tid, h.label] for o, h in n.holders.items()),
                [[w.owner, w.permits, w.flags, max(0, self.now - w.since), w.ttl, w.label] for w in waiters]]

    # -- what the server must keep

    def counts_until(self, key):
        """Before this its key may not expire."""
        n = self.name(key)
        ends = [n.closed, n.last / 1000, 0]
        ends += [h.deadline + h.delay for h in n.holders.values()]
        ends += [w.beat + w.window for w in self.living(n)]
        ends += list(n.tombs.values())
        return max(ends)
