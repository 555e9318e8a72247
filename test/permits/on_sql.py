# SPDX-License-Identifier: MIT
"""
The routines of PostgreSQL and of MariaDB, on a real server (with_server), beside the model; after each
call its answer, what it told others, and all records are compared.

The SQL is the engine's own, unchanged, from its files, with the statements that the engine sends. The clock: PostgreSQL
finds functions of ours before clock_timestamp() and statement_timestamp(); MariaDB runs with --sysdate-is-now, and a
session can set that.
"""
import os
import re
import subprocess
import time

from model import DETACHED, LINGERS, NUMBERED, SEMAPHORE, WAIT
from model_sql import MariaDB, Postgres
from sequence import Mismatch, Sequence, equal

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = os.path.join(HERE, '..', '..', 'src', 'engine')
PREFIX = 'hf_'
END = 'end of the answer'


class Client:
    """One session, in a client program that reads statements and writes rows of text, with `separator` between."""

    def __init__(self, command, separator, mark):
        self.separator, self.mark = separator, mark
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __call__(self, statement):
        self.process.stdin.write(('%s\n%s\n' % (statement, self.mark)).encode())
        self.process.stdin.flush()
        rows = []
        while True:
            line = self.process.stdout.readline().decode('latin-1')
            if line == END + '\n':
                return rows
            if not line or re.match(r'ERROR|psql:.*ERROR', line):
                raise Mismatch('%s: %s' % (statement[:200], line or self.process.wait()))
            rows.append(line[:-1].split(self.separator))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def number(value):
    return int(value) if re.fullmatch(r'-?\d+', value) else value


def numbers(text):
    return [int(v) for v in str(text).split(',')]


class Run(Sequence):
    """What both have in common. Who inherits says how a routine is called."""
    OWNERS = list(range(12))
    INBOXES = [1, 2, 3]  # clients that have a connection that listens
    CLIENTS = INBOXES + [4]
    OPS = (['acquire'] * 30 + ['release'] * 14 + ['cancel'] * 5 + ['beat'] * 14 + ['renew'] * 8 + ['adopt'] * 6 +
           ['refill'] * 5 + ['note'] * 3 + ['break'] * 4 + ['look'] * 3 + ['poke'] * 5 + ['resize'] * 6 + ['sweep'] * 5)

    def __init__(self, sql, model, seed):
        super().__init__(model, seed)
        self.sql = sql
        self.clear()
        model.heard = set(self.INBOXES)
        model.us = 1794815787000000 + self.random.randrange(1000000)
        self.backwards = self.random.choice([0, 0.01])
        self.went_back = False
        self.broken = {}  # how many of an owner's leases were
        self.closed = {}  # as the records had it before
        self.set_clock()

    # -- time

    def ends(self):
        names = self.model.names.values()
        return super().ends() + list(self.model.clients.values()) + [w.since + w.window * 1000 for n in names for w in n.waiters]

    def step_back(self):
        """What is over is taken out first: the clock does not bring it back."""
        if self.random.random() < self.backwards:
            self.set_clock()
            for name in self.NAMES:
                self.op_poke(name, None)
                self.check_messages()
                if self.model.over(self.model.name(name).closed):
                    self.model.name(name).closed = 0
            self.sql('UPDATE %snames SET closed = 0 WHERE closed < %d;' % (PREFIX, self.model.us))
            self.check_all_records()
            self.model.us -= self.random.choice([1, 999, 1001, 2000, 60000, 600000]) * 1000
            self.went_back = True

    # -- calls. An owner is used with one name only, and not again after it was broken: every acquisition has its own.

    def owner_of(self, name, owner):
        if isinstance(owner, str):
            return owner
        return '%016x%016x' % (self.broken.get((name, owner), 0), owner * 16 + self.NAMES.index(name) + 1)

    def agrees(self, answer, expected):
        if super().agrees(answer, expected):
            return True
        if isinstance(expected, int):
            return 1 <= answer <= expected
        if expected[:2] == ['Q', 0]:
            return answer in (['Q', 0] + expected[2:], ['Q', 1] + expected[2:])  # overdue, by what its row says
        # A clock that went back: times too far ahead are cut at the next call, which the records show.
        return (self.went_back and expected[0] == answer[0] == 'G' and answer[:3] == expected[:3] and
                answer[3] <= expected[3])

    def record(self, what, name, *args):
        self.trace.append((what, name) + args)

    def op_acquire(self, name, owner):
        r, owner = self.random, self.owner_of(name, owner)
        n = self.model.name(name)
        known = n.holders.get(owner) or self.model.waiter(n, owner)
        mode, capacity, permits = self.kind_of(name)
        flags = self.flags() | (r.choice([0, 0, LINGERS]) if permits == capacity and mode != SEMAPHORE else 0)  # an exclusive lease
        flags |= known.flags & NUMBERED if known else r.choice([0, NUMBERED]) if mode == SEMAPHORE else 0
        ttl = r.choice([1, 20, 100, 100, 1000, r.choice([1000, 3000000])])
        delay = r.choice([0, 0, 0, 0, 30, r.choice([1000, 300000])])
        window = r.choice([5, 20, 50, 50, 200, r.choice([200, 400000])])
        if known:
            ttl, window = known.ttl, known.window
        args = dict(owner=owner, mode=mode, capacity=capacity, permits=permits, flags=flags,
                    tokens=r.choice([1, 64, 64, 900, 40000 if flags & LINGERS else 900]), ttl=ttl, delay=delay, window=window, attempt=0,
                    inbox=r.choice(self.CLIENTS), label=r.choice(['', 'some label']))
        if known and owner not in n.holders:
            args['inbox'] = known.inbox
        if flags & WAIT and r.random() < 0.5:  # as a client does that lives
            self.op_beat(name, owner, args['inbox'])
        self.record('acquire', name, args)
        answer = self.acquire(name, args, (flags >> 1) & self.SENT_FLAGS | flags & (LINGERS | NUMBERED), bool(known))
        self.check('acquire', answer, self.model.acquire(name, **args))
        if answer[0] == 'G' and flags & NUMBERED and self.numbers != n.holders[owner].numbers:
            raise Mismatch('it has %r and not %r' % (self.numbers, n.holders[owner].numbers))
        if answer[0] == 'B' and self.lingers != self.model.lingers(name):
            raise Mismatch('it lingers: %r' % self.lingers)

    def op_resize(self, name, owner, capacity=None):
        capacity = self.random.choice([0, 0, 0, 0, 1, 2, 3, 4, 6]) if capacity is None else capacity
        self.record('resize', name, capacity)
        row = [number(v) for v in self.call('resize', self.text(name), capacity)[0]]
        self.check('resize', row[:1] if row[0] == 'R' else row, self.model.resize(name, capacity))

    def slots(self, name, owner):
        rows = self.call('slots', self.text(name), self.bytes(owner))
        return numbers(rows[0][0]) if rows else []

    def op_release(self, name, owner):
        owner = self.owner_of(name, owner)
        self.record('release', name, owner)
        answer = self.call('release', self.text(name), self.bytes(owner))[0][0]
        self.check('release', {'R': ['R'], 'L': ['N']}[answer], self.model.release(name, owner))

    def op_cancel(self, name, owner):
        owner = self.owner_of(name, owner)
        self.record('cancel', name, owner)
        row = [number(v) for v in self.call('cancel', self.text(name), self.bytes(owner))[0]]
        self.check('cancel', row if row[0] == 'G' else row[:1], self.model.cancel(name, owner))

    def op_beat(self, name, owner, client=None):
        r = self.random
        client, window = client or r.choice(self.CLIENTS), r.choice([5, 50, 200, 2000, 20000])
        items = [(name, self.owner_of(name, owner))]
        if r.random() < 0.7:
            items += [(k, w.owner) for k, n in self.model.names.items() for w in n.waiters if w.inbox == client]
            items += [(k, o) for k, n in self.model.names.items() for o in n.holders if r.random() < 0.3]
        self.record('beat', client, window, items)
        answers = self.beat(client, window, items)
        for answer, expected in zip(answers, self.model.beat(client, window, items)):
            self.check('beat', answer, expected)
        if len(answers) != len(items):
            raise Mismatch('beat answered %r' % answers)

    def op_renew(self, name, owner):
        r = self.random
        items = [(name, self.owner_of(name, owner), r.choice([1, 30, 100, 1000]))]
        if r.random() < 0.5:
            items += [(k, o, r.choice([30, 100, h.ttl])) for k, n in self.model.names.items() for o, h in n.holders.items()]
        items = sorted({(k, o): (k, o, ttl) for k, o, ttl in items}.values())
        self.record('renew', items)
        for item, answer in zip(items, self.renew(items)):
            self.check('renew', answer, self.model.renew(*item))

    def op_refill(self, name, owner):
        r = self.random
        items = {(k, o): (k, o, r.choice([30, 100, h.ttl]), r.choice([1, 64, 4000, 50000])) for k, n in self.model.names.items()
                 for o, h in n.holders.items() if k == name or r.random() < 0.5}
        if not items or r.random() < 0.1:
            items[name, self.owner_of(name, owner)] = (name, self.owner_of(name, owner), 100, 64)
        items = sorted(items.values())
        self.record('refill', items)
        for item, answer in zip(items, self.refill(items)):
            self.check('refill', answer, self.model.refill(*item))

    def op_adopt(self, name, owner):
        owner, token = self.some_token(name, owner)
        if self.random.random() < 0.3:
            owner = self.random.choice(self.OWNERS)
        owner, ttl = self.owner_of(name, owner), self.random.choice([0, 50, 1000])
        self.record('adopt', name, owner, token, ttl)
        rows = self.call('adopt', self.text(name), self.bytes(owner), token, ttl)
        answer = ['N']
        if rows:
            first, tokens, mode, capacity, permits, ttl_now, delay = [int(v) for v in rows[0]]
            answer = ['A', mode, capacity, permits, first, tokens, ttl_now, delay]
        self.check('adopt', answer, self.model.adopt(name, owner, token, ttl))

    def op_note(self, name, owner):
        holders = self.model.name(name).holders
        owner = self.random.choice(sorted(holders)) if holders else self.owner_of(name, owner)
        token = holders[owner].first + self.random.randrange(holders[owner].tokens) if holders else 7
        if holders and holders[owner].flags & LINGERS and self.random.random() < 0.5:
            token = self.random.randrange(token, self.model.name(name).last + 1)
        tid = self.random.choice([4711, -1])
        self.record('note', name, owner, token, tid)
        self.note(name, owner, token, tid)
        self.model.note(name, owner, token, tid)

    def op_break(self, name, owner):
        _, token = self.some_token(name, owner)
        if self.random.random() < 0.1:
            token = self.model.name(name).last + self.random.choice([0, 1])
        self.record('break', name, token)
        answer = self.call('break', self.text(name), token)[0][0]
        before = set(self.model.name(name).holders)
        self.check('break', {'B': ['R'], 'N': ['N']}[answer], self.model.break_(name, token))
        for gone in before - set(self.model.name(name).holders):
            base = (name, int(gone[16:], 16) // 16)
            self.broken[base] = self.broken.get(base, 0) + 1

    def op_poke(self, name, owner):
        self.record('poke', name)
        self.check('poke', int(self.call('poke', self.text(name))[0][0]), self.model.poke(name))

    def op_sweep(self, name, owner):
        """Mostly after a while. What is over is taken out first, so that what is swept is what was free."""
        if self.random.random() < 0.7:
            self.model.us += self.random.choice([59, 61, 61, 61, 120]) * 1000000
            self.set_clock()
        for each in self.NAMES:
            self.op_poke(each, None)
            self.check_messages()
        self.record('sweep', None)
        for _ in range(2):  # MariaDB goes on where the last one ended
            self.call('sweep', 100000)
        self.check_messages()
        idle, names = self.model.sweep(), self.records()[0]
        for each in idle:
            if each not in names:
                self.model.remove(each)
                self.closed[each] = 0
            elif not self.KEEPS_BROKEN:
                raise Mismatch('%s was not removed' % each)
        self.count('sweep', ['%d of 3' % sum(each not in names for each in self.NAMES)])
        rows = {int(client): int(until) for client, until in self.clients()}
        for client, until in self.model.clients.items():
            if rows.get(client) != until and not until < self.model.us - self.model.IDLE_US:
                raise Mismatch('client %d: %r and not %d' % (client, rows.get(client), until))
        for client, until in rows.items():
            if client not in self.model.clients and not self.model.over(until):
                raise Mismatch('client %d lives' % client)
        self.model.clients = rows

    def op_look(self, name, owner):
        self.record('look', name)
        answer, holders, waiters, sized = ['N'], [], [], False
        for row in self.call('look', self.text(name)):
            kind, _, mode, capacity, closed, token, first, permits, flags, age, left, tid, label = [number(v) for v in row]
            detached, sized = (flags << 1) & DETACHED, flags & 128 > 0
            if kind == 'H':
                holders.append([token, first, permits, detached, max(0, age), left, tid, self.plain(label), []])
            elif kind == 'N':
                equal([token, first, permits], holders[-1][:3])
                holders[-1][-1] = numbers(self.plain(label))
            elif kind == 'W':
                waiters.append([permits, detached, max(0, age), self.plain(label)])
            answer = ['L', mode, capacity, closed, holders, waiters, sized]
        holders.sort()
        self.check('look', answer, self.model.look(name))

    # -- what must hold after each call

    def check_all_records(self):
        names, holders, waiters = self.records()
        for name in self.NAMES:
            self.check_records(name, names.get(name), holders.get(name, {}), waiters.get(name, []))

    def check_records(self, name, row, holders, waiters):
        model, n = self.model, self.model.name(name)

        def must(ok, what):
            if not ok:
                raise Mismatch('%s: %s; %r %r %r' % (name, what, row, holders, waiters))

        if not row:
            must(not n.row, 'it is gone')
            return
        must(n.row, 'it was removed')
        must(row['taken'] == sum(h['permits'] for h in holders.values()), 'permits are counted')
        must(row['sized'] == n.sized, 'its size was set: %r' % n.sized)
        must(row['capacity'] == n.capacity or not (n.sized or n.holders or n.waiters), 'its capacity is %d' % n.capacity)
        must(row['holders'] == len(holders) + n.sized, 'holders are counted')
        must(row['waiters'] == len(waiters), 'waiters are counted')
        must(row['last'] == n.last, 'the last token is %d' % n.last)
        if row['closed'] != n.closed and not (model.over(row['closed']) and model.over(n.closed)):
            cut = model.now + n.delay * 1000 - 1 <= row['closed'] < n.closed
            must(self.went_back and (cut or row['closed'] == self.closed.get(name)), 'closed until %d' % n.closed)
        n.closed = self.closed[name] = row['closed']
        living = {o: h for o, h in holders.items() if not model.over(h['until'])}
        must(sorted(living) == sorted(o for o, h in n.holders.items() if not model.over(h.deadline)), 'who holds')
        for o, h in living.items():
            mine = n.holders[o]
            if h['until'] != mine.deadline:
                must(self.went_back and h['until'] == model.most(mine) < mine.deadline, 'until %d' % mine.deadline)
                mine.deadline = h['until']
            self.check_holder(h, mine, must)
        must(waiters == [(w.owner, w.inbox) for w in n.waiters], 'the queue is %r' % [w.owner for w in n.waiters])

    def check_holder(self, h, mine, must):
        for field, value in (('permits', mine.permits), ('token', mine.first), ('tokens', mine.tokens),
                             ('current', mine.token), ('tid', mine.tid), ('ttl', mine.ttl), ('delay', mine.delay)):
            must(h[field] == value, '%s is %d' % (field, value))
        must(h['slots'] == mine.numbers, 'its numbers are %r' % mine.numbers)

    def finish(self):
        """All that counts ends by itself: then everybody is let in."""
        ends = [e for e in self.ends()]
        self.model.us = max(ends + [self.model.us]) + 3600 * 1000000
        self.set_clock()
        for name in self.NAMES:
            self.op_resize(name, None, 0)
            self.op_poke(name, None)
            self.check_all_records()
            if self.model.name(name).holders or self.call('look', self.text(name)):
                raise Mismatch('%s is still held' % name)


FIELDS = 'permits until token tokens current tid ttl delay'.split()


def by_name(rows, names_columns):
    """Rows that begin with n, h, w: the records of names, of holders, of waiters."""
    names, holders, waiters = {}, {}, {}
    for kind, name, *values in rows:
        name = bytes.fromhex(name).decode()
        if kind == 'n':
            names[name] = dict(zip(names_columns, map(int, values[1:])))
        elif kind == 'h':
            fields = dict(zip(FIELDS, map(int, values[1:9])))
            fields['state'] = values[9]
            fields['slots'] = numbers(values[10]) if values[10] not in ('', 'NULL') else []
            holders.setdefault(name, {})[values[0].lower()] = fields
        else:
            waiters.setdefault(name, []).append((values[0].lower(), int(values[1])))
    return names, holders, waiters


# ---- PostgreSQL -------------------------------------------------------------------------------------------


def postgres_client():
    """psql, through the administrator's socket."""
    return Client(['psql', '-X', '-q', '-A', '-t', '-F', '\x1f', '-h', os.environ['HOLDFAST_TEST_SOCKET'], '-p',
                   os.environ['HOLDFAST_TEST_PORT'], '-U', 'postgres', 'test'], '\x1f', '\\echo ' + END)


def postgres_statements():
    """The common cases of acquire and release as the engine sends them (postgres/call.c). Where they find nothing the function is called."""
    code = open(os.path.join(ENGINE, 'postgres', 'call.c')).read().replace('\\\n', ' ')
    macros = dict(re.findall(r'^#define (\w+) +(.*)$', code, re.M))

    def expand(name):
        parts = re.findall(r'"((?:[^"\\]|\\.)*)"|\b([A-Z_]+)\b', re.sub(r'/\*.*?\*/', '', macros[name]))
        return ''.join(literal if not macro else expand(macro) for literal, macro in parts)

    return [expand(name) % (PREFIX + 'names') for name in ('ACQUIRE_COMMON', 'RELEASE_COMMON')]


POSTGRES_CLOCK = """
CREATE SCHEMA clock;
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT 'epoch'::timestamptz + current_setting('test.us')::int8 * interval '1 microsecond' $$;
CREATE FUNCTION clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT 'epoch'::timestamptz + current_setting('test.us')::int8 * interval '1 microsecond' $$;
SET search_path = clock, public, pg_catalog;
SET test.us = '%d';
SET client_min_messages = error;
""" % (time.time() * 1e6)


def begin_postgres(sources):
    sql, listener = postgres_client(), postgres_client()
    sql(POSTGRES_CLOCK)
    directory = sources or os.path.join(ENGINE, 'postgres', 'sql')
    for file in sorted(os.listdir(directory)):
        if file.endswith('.sql'):
            text = open(os.path.join(directory, file)).read()
            text = re.sub(r'(?m)^[ \t]*--.*\n|[ \t]+-- .*$', '', text)
            text = re.sub(r'@(prefix|version)\b', lambda at: {'prefix': PREFIX, 'version': '1'}[at.group(1)], text)
            sql(re.sub(r'@(\w+)', PREFIX + r'\1', text))
    acquire, release = postgres_statements()
    sql('PREPARE acquire(bytea, bytea, %s, bytea) AS %s;' % (', '.join(['int8'] * 10), acquire))
    sql('PREPARE release(bytea, bytea) AS %s;' % release)
    for client in OnPostgres.CLIENTS:
        sql('LISTEN "%s%d";' % (PREFIX, client))
    for client in OnPostgres.INBOXES:
        listener('SELECT pg_advisory_lock_shared(%d);' % client)

    def end():
        sql.close()
        listener.close()
    return lambda seed: OnPostgres(sql, Postgres(), seed), end


class OnPostgres(Run):
    SENT_FLAGS = 7
    KEEPS_BROKEN = False
    RECORDS = """
        SELECT 'n', encode(name, 'hex'), '', taken, holders, waiters, last, closed, capacity::text,
            (SELECT count(*)::text FROM {0}holders z WHERE z.name = n.name AND z.owner = ''), '', '', '' FROM {0}names n
        UNION ALL SELECT 'h', encode(name, 'hex'), encode(owner, 'hex'), capacity, soon, token, tokens, current, tid::text,
            ttl::text, delay::text, '', '' FROM {0}names WHERE owner IS NOT NULL
        UNION ALL SELECT 'h', encode(name, 'hex'), encode(owner, 'hex'), permits, until, token, tokens, current, tid::text,
            ttl::text, delay::text, '', array_to_string(slots, ',') FROM {0}holders WHERE owner <> ''
        UNION ALL (SELECT 'w', encode(name, 'hex'), encode(owner, 'hex'), client, 0, 0, 0, 0, '', '', '', '', '' FROM {0}waiters
            ORDER BY seq);""".format(PREFIX)

    def clear(self):
        self.sql('TRUNCATE %s;' % ', '.join(PREFIX + t for t in ('names', 'holders', 'waiters', 'clients', 'mail')))

    def clients(self):
        return self.sql('SELECT client, until FROM %sclients;' % PREFIX)

    def set_clock(self):
        self.sql("SET test.us = '%d';" % self.model.us)

    def text(self, name):
        return self.bytes(name.encode().hex())

    def bytes(self, owner):
        return "'\\x%s'::bytea" % owner

    def plain(self, label):
        return bytes.fromhex(label[2:]).decode() if label else ''

    def ask(self, statement):
        """The rows; what was told to others goes to `told`."""
        rows = []
        for row in self.sql(statement):
            told = re.match(r'Asynchronous notification "%s(\d+)" with payload "(.*)" received' % PREFIX, row[0])
            if told:
                self.told.append((int(told.group(1)), told.group(2)))
            elif row != ['']:
                rows.append(row)
        return rows

    def call(self, routine, *args):
        self.told = []
        if routine == 'release':
            rows = self.ask('EXECUTE release(%s);' % ', '.join(map(str, args)))
            if rows:
                return rows
        return self.ask('SELECT * FROM %s%s_1(%s);' % (PREFIX, routine, ', '.join(map(str, args))))

    def acquire(self, name, a, flags, known):
        self.told = []
        args = '(%s, %s, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %s);' % (
            self.text(name), self.bytes(a['owner']), a['mode'], a['capacity'], a['permits'], flags, a['ttl'], a['delay'],
            a['tokens'], a['flags'] & 1, a['window'], a['inbox'], self.bytes(a['label'].encode().hex()))
        if flags & NUMBERED:
            rows = self.ask('SELECT * FROM %sclaim_1%s, NULL);' % (PREFIX, args[:-2]))
        else:
            rows = self.ask('EXECUTE acquire' + args) or self.ask('SELECT * FROM %sacquire_1%s' % (PREFIX, args))
        if flags & NUMBERED and rows[0][0] == 'G':
            self.numbers = numbers(rows[0][4])
            told, self.told = self.told, []
            equal(self.slots(name, a['owner']), self.numbers)
            self.told = told
        row = [number(v) for v in rows[0][:4]]
        self.lingers = row[2] == 1
        return {'G': row, 'Q': ['Q', row[3], row[1]], 'B': ['B', row[3]], 'M': ['M', row[1], row[3]],
                'F': ['F']}[row[0]]

    def beat(self, client, window, items):
        rows = self.call('beat', client, window, self.array([self.text(k) for k, _ in items], 'bytea'),
                         self.array([self.bytes(o) for _, o in items], 'bytea'))
        rows = [[number(v) for v in row[1:]] for row in rows]
        return [['Q', row[3], row[1]] if row[0] == 'Q' else row if row[0] == 'G' else row[:1] for row in rows]

    def array(self, items, kind):
        return 'ARRAY[%s]::%s[]' % (', '.join(map(str, items)), kind)

    def renew(self, items):
        rows = self.call('renew', self.array([self.text(i[0]) for i in items], 'bytea'),
                         self.array([self.bytes(i[1]) for i in items], 'bytea'), self.array([i[2] for i in items], 'int8'))
        return [int(row[1]) for row in rows]

    def refill(self, items):
        rows = self.call('refill', self.array([self.text(i[0]) for i in items], 'bytea'),
                         self.array([self.bytes(i[1]) for i in items], 'bytea'), self.array([i[2] for i in items], 'int8'),
                         self.array([i[3] for i in items], 'int8'))
        return [[int(v) for v in row[1:]] for row in rows]

    def note(self, name, owner, token, tid):
        self.call('note', self.array([self.text(name)], 'bytea'), self.array([self.bytes(owner)], 'bytea'),
                  self.array([token], 'int8'), self.array([tid], 'int8'))

    def check_messages(self):
        if self.told != self.model.sent:
            raise Mismatch('told %r and not %r' % (self.told, self.model.sent))
        self.model.sent = []

    def records(self):
        rows = [row[:2] + row[2:] for row in self.sql(self.RECORDS)]
        return by_name([[r[0], r[1]] + (r[2:10] if r[0] == 'n' else r[2:13]) for r in rows],
                       'taken holders waiters last closed capacity sized'.split())


# ---- MariaDB ----------------------------------------------------------------------------------------------


def mariadb_client():
    return Client(['mariadb', '-N', '-B', '-n', '-S', os.environ['HOLDFAST_TEST_SOCKET'], '-u', 'root', 'test'], '\t',
                  "SELECT '%s';" % END)


def mariadb_schema(directory):
    """As embed.cmake makes it, one statement after the other."""
    create = 'CREATE /*M!100103 OR REPLACE */ PROCEDURE'
    for file in sorted(os.listdir(directory)):
        text = open(os.path.join(directory, file)).read()
        text = re.sub(r'(?m)^[ \t]*--.*\n', '', text).strip().rstrip(';')
        text = text.replace('@NOW@', 'CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)').replace('@ROUTINES@', '1')
        text = re.sub(r'^CREATE PROCEDURE', create, text).replace('~', PREFIX)
        for statement in re.split(r';\n(?=CREATE)', text) if file.startswith('0') else [text]:
            yield statement


def begin_mariadb(sources):
    sql, listener = mariadb_client(), mariadb_client()
    for statement in mariadb_schema(sources or os.path.join(ENGINE, 'mariadb', 'sql')):
        sql('DELIMITER //\n%s//\nDELIMITER ;' % statement)
    for client in OnMariaDB.INBOXES:
        listener("DO GET_LOCK('holdfast.%x', 0);" % client)

    def end():
        sql.close()
        listener.close()
    return lambda seed: OnMariaDB(sql, MariaDB(), seed), end


class OnMariaDB(Run):
    SENT_FLAGS = 3
    KEEPS_BROKEN = True  # the record of a lease that was broken, until its end, so that its client hears of it
    RECORDS = """
        SELECT 'n', HEX(name), '', taken, holders, waiters, token, closed, capacity,
            (SELECT COUNT(*) FROM {0}claims z WHERE z.name = n.name AND z.flags & 128), '', '', '' FROM {0}names n
        UNION ALL SELECT 'h', HEX(name), HEX(x_owner), capacity, x_until, x_token, x_tokens, x_holds, x_tid, x_ttl, x_delay,
            'X', '' FROM {0}names WHERE x_owner <> ''
        UNION ALL SELECT 'h', HEX(name), HEX(owner), permits, until, token, tokens, holds, tid, ttl, delay, state,
            IF(flags & 64, (SELECT GROUP_CONCAT(s.number ORDER BY s.number) FROM {0}slots s WHERE s.name = c.name
              AND s.ticket = c.ticket), '') FROM {0}claims c WHERE state IN ('G', 'H') AND permits > 0
        UNION ALL (SELECT 'w', HEX(name), HEX(owner), client, 0, 0, 0, 0, '', '', '', '', '' FROM {0}claims
            WHERE state = 'W' ORDER BY ticket LIMIT 1000);""".format(PREFIX)

    def clear(self):
        for table in ('names', 'claims', 'clients', 'watches', 'slots'):
            self.sql('DELETE FROM %s%s;' % (PREFIX, table))

    def clients(self):
        return self.sql('SELECT client, until FROM %sclients;' % PREFIX)

    def set_clock(self):
        self.sql('SET timestamp = %d.%06d;' % (self.model.us // 1000000, self.model.us % 1000000))

    def text(self, name):
        return self.bytes(name.encode().hex())

    def bytes(self, owner):
        return "x'%s'" % owner

    def plain(self, label):
        return label

    def call(self, routine, *args):
        return self.sql('CALL %s%s(%s);' % (PREFIX, routine, ', '.join(map(str, args))))

    def acquire(self, name, a, flags, known):
        args = [self.text(name), self.bytes(a['owner']), a['mode'], a['capacity'], a['permits'], flags, a['ttl'], a['delay'],
                a['tokens'], a['flags'] & 1, a['window'], a['inbox'], "'%s'" % a['label']]
        row = self.call(*['claim'] + args + ['NULL'] if flags & NUMBERED else ['acquire'] + args)[0]
        if flags & NUMBERED and row[0] == 'G':
            self.numbers = self.slots(name, a['owner'])
            if not known:
                equal(numbers(row[4]), self.numbers)
        row = [number(v) for v in row[:4]]
        self.lingers = row[2] == 1
        return {'G': row[:4], 'Q': ['Q', row[3], row[1]], 'B': ['B', row[3]], 'M': ['M', row[1], row[3]],
                'F': ['F']}[row[0]]

    def packed(self, items):
        """Of each: the length of the name, the name, the owner, and numbers of 8 bytes."""
        return "x'%s'" % ''.join('%04x' % len(k.encode()) + k.encode().hex() + o + ''.join('%016x' % (v % 2 ** 64) for v in more)
                                 for k, o, *more in items)

    def beat(self, client, window, items):
        text = self.call('beat', client, window, self.packed(items))[0][0]
        rows = [[number(v) for v in item.split(',')] for item in text.split(';') if item]
        return [['Q', row[3], row[1]] if row[0] == 'Q' else row if row[0] == 'G' else row[:1] for row in rows]

    def renew(self, items):
        return [int(c) for c in self.call('renew', self.packed(items))[0][0]]

    def refill(self, items):
        return [[int(v) for v in item.split(',')] for item in self.call('refill', self.packed(items))[0][0].split(';') if item]

    def note(self, name, owner, token, tid):
        self.call('note', self.packed([(name, owner, token, tid)]))

    def check_messages(self):
        self.model.sent = []  # there are no messages: a client reads its claims, which are compared

    def check_holder(self, h, mine, must):
        super().check_holder(h, mine, must)
        must(h['state'] == ('X' if mine.in_row else 'H' if mine.confirmed else 'G'), 'what its client is told of it')

    def records(self):
        return by_name([r[:2] + (r[2:10] if r[0] == 'n' else r[2:13]) for r in self.sql(self.RECORDS)],
                       'taken holders waiters last closed capacity sized'.split())


ENGINES = {'postgres': begin_postgres, 'mariadb': begin_mariadb}
