# SPDX-License-Identifier: MIT
"""The permit rules (model.py) as the embedded store has them."""
from model import BARGE, DETACHED, NUMBERED, Model, Record


class Lmdb(Model):
    """
    The embedded store. Whoever waits or holds is a process of this machine, and its death is seen: no heartbeats, no
    windows, no tombstones, and a lease may have no end. Tokens are numbers of the whole store, in the order of grants
    (`first` is None until the store has told it). A waiter that barges is not handed the name: it is told to look, and
    whoever is first takes it; here everybody looks before anything else happens, so it comes to the same.
    """
    OVER_AT_END = True
    HANDS_OVER_FOR = 'ttl'
    KEPT = DETACHED | BARGE | NUMBERED
    RENEWAL_SETS_TTL = False

    def __init__(self):
        super().__init__()
        self.queued = set()  # owners that have waited

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

    def block(self, n, tokens, ahead=0):
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
            answer[8:] = answer[8] if len(answer) > 8 else []  # its numbers
            del answer[5]  # earlier local passes are not known: the rest of its block is not used
        self.settle()
        return answer

    def resize(self, key, capacity):
        answer = super().resize(key, capacity)[:1]
        self.settle()
        return answer

    def look(self, key):
        n = self.name(key)
        self.expire(n)
        closed = max([0] + [end - self.now for end in (n.closed, n.closing[0]) if not self.over(end)])
        if not n.holders and not n.waiters and not closed and not n.sized:
            return ['N']
        return ['L', n.mode, n.capacity, self.taken(n), closed, int(n.sized),
                sorted([o, h.token, h.first, h.permits, 1 if h.flags & DETACHED else 0, self.now - h.since,
                        -1 if h.deadline is None else h.deadline - self.now, h.tid] + h.numbers for o, h in n.holders.items()),
                [[w.owner, i + 1, w.permits, self.now - w.since] for i, w in enumerate(n.waiters)]]
