# SPDX-License-Identifier: MIT
"""
Breaks one rule after the other, in copies of the five implementations, and sees the model catch each.

Usage: mutants.py BUILD [ENGINE [WORDS]]     BUILD: a build folder, whose test servers are used. WORDS: only mutants whose
description has them. Not part of make test.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..')
SOURCES = {'redis': 'redis/scripts', 'redlock': 'redlock/scripts', 'postgres': 'postgres/sql', 'mariadb': 'mariadb/sql',
           'lmdb': 'lmdb'}

# engine, what it does wrong, file, text, text in place of it
MUTANTS = [
    ('redis', 'a lease counts for a millisecond less', 'common.lua', 'if now > deadline then', 'if now >= deadline then'),
    ('redis', 'a block of tokens runs ahead of the clock', 'common.lua', 'if first + count > us + ahead then', 'if false then'),
    ('redis', 'a name opens while its lock delay runs', 'common.lua', 'while waiters > 0 and now > closed and taken',
     'while waiters > 0 and taken'),
    ('redis', 'a barge is refused', 'acquire.lua', 'if now > closed and permits <= capacity - taken and (',
     'if now > closed and permits <= capacity - taken and waiters == 0 and ('),
    ('redis', 'a release does not compare owners', 'release.lua', 'if not got[2] then return 0 end',
     'owner = sub(state, REQUEST_AT, REQUEST_AT + 15)'),
    ('redis', 'a thin release forgets the name', 'release.lua', "call('HDEL', name, owner)\n    if", "call('DEL', name)\n    if"),
    ('redis', 'a thin lease holds without its field', 'acquire.lua', "if form == HELD and call('HEXISTS', name, (unpack('c16', state, REQUEST_AT))) == 0 then",
     'if false then'),
    ('redis', 'a thin lease holds without its field, for the other calls', 'common.lua', "call('HEXISTS', name, (unpack('c16', state, REQUEST_AT))) == 0 then",
     'false then'),
    ('redis', 'a thin grant without its field', 'acquire.lua', ".. request, sub(request, 1, 16), '')", '.. request)'),
    ('redis', 'the field of a lapsed lease stays', 'acquire.lua', "    if lapsed and lapsed ~= sub(request, 1, 16) then call('HDEL', name, lapsed) end\n    if moved", '    if moved'),
    ('redis', 'a lapsed lease that comes again loses its field', 'acquire.lua', 'if lapsed and lapsed ~= sub(request, 1, 16) then', 'if lapsed then'),
    ('redis', 'the field of a lapsed lease stays beside another kind', 'acquire.lua', "    if lapsed then call('HDEL', name, lapsed) end\n    version", '    version'),
    ('redis', 'the field stays when a waiter inflates', 'acquire.lua', "            call('HDEL', name, sub(inflated[1], 2))\n", ''),
    ('redis', 'the field stays when a holder inflates', 'acquire.lua', "    call('HDEL', name, sub(inflated[1], 2))\nend", 'end'),
    ('redis', 'the field stays when another call inflates', 'common.lua', "call('HDEL', name, sub(field, 2))", "call('HDEL', name, '')"),
    ('redis', 'a thin name expires with its lease', 'acquire.lua',
     'if exp < need or exp > need + 10 * SLACK then exp, moved = math.ceil(need + SLACK), true end\n    call(',
     'exp, moved = math.ceil(deadline), true\n    call('),
    ('redis', 'a thin token without the clock', 'acquire.lua', 'block and block + 0 or 1, block, us', 'block and block + 0 or 1, block, 1'),
    ('redis', 'a thin token without the last one', 'acquire.lua', 'if token <= last then token = last + 1 end', ''),
    ('redis', 'inflating drops the holder', 'acquire.lua', "call('HSET', name, 'm', state, inflated[1], inflated[2])\n            call",
     "call('HSET', name, 'm', state)\n            call"),
    ('redis', 'deflating over a tombstone', 'common.lua', 'waiters == 0 and tomb == 0 and now > closed', 'waiters == 0 and now > closed'),
    ('redis', 'deflating over waiters', 'common.lua', 'holders == 0 and waiters == 0 and tomb', 'holders == 0 and tomb'),
    ('redis', 'deflating over a lock delay', 'common.lua', 'waiters == 0 and tomb == 0 and now > closed', 'waiters == 0 and tomb == 0'),
    ('redis', 'a release deflates over a tombstone', 'release.lua', 'if holders == 1 and tomb == 0 and now > closed then',
     'if holders == 1 and now > closed then'),
    ('redis', 'a release deflates over a lock delay', 'release.lua', 'if holders == 1 and tomb == 0 and now > closed then',
     'if holders == 1 and tomb == 0 then'),
    ('redis', 'a thin lease is over early', 'acquire.lua', 'if now > soon then\n', 'if now >= soon then\n'),
    ('redis', 'no limit of a thin deadline after the clock went back', 'acquire.lua', 'if soon > most then', 'if false then'),
    ('redis', 'that limit is the ttl alone', 'acquire.lua', 'now + (ttl > window and ttl or window)', 'now + ttl'),
    ('redis', 'that limit is the ttl alone, when inflated', 'thin.lua', 'now + math.max(ttl, window)', 'now + ttl'),
    ('redis', 'a resend gets a new token', 'acquire.lua', "if inflated[1] == 'h' .. owner then", 'if false then'),
    ('redis', 'a thin renewal does not compare owners', 'renew.lua', 'if holder ~= owner or now > deadline', 'if now > deadline'),
    ('redis', 'a thin renewal revives', 'renew.lua', 'if holder ~= owner or now > deadline', 'if holder ~= owner'),
    ('redis', 'a tombstone is not written on a thin name', 'release.lua', 'if form == HELD and not tomb_ms then', 'if form == HELD then'),
    ('redis', 'the last token is not carried when inflated', 'acquire.lua', 'if us - 1 > last then last = us - 1 end\n    if inflated',
     'last = 0\n    if inflated'),
    ('redis', 'the last token is not carried when deflated', 'common.lua', "pack('<Bdd', FREE, last, exp)", "pack('<Bdd', FREE, 0, exp)"),
    ('redis', 'the window in place of the deadline when inflated', 'thin.lua', "pack(HOLDER, deadline, first", "pack(HOLDER, now + window, first"),
    ('redis', 'a thin grant over a full name', 'acquire.lua', 'if thin == FREE and not kind then', 'if thin ~= HELD and not kind then'),
    ('redis', 'a queue beside a thin name', 'acquire.lua', 'state = pack(STATE, FULL, watched, mode, capacity, taken, holders, waiters, last,\n            soon',
     'state = inflated and state or pack(STATE, FULL, watched, mode, capacity, taken, holders, waiters, last,\n            soon'),
    ('redis', 'a thin block is told whole where it was cut', 'acquire.lua', 'if asked == block then return token end', 'do return token end'),
    ('redis', 'a detached lease is not when inflated', 'thin.lua', 'flags - flags % DETACHED, window', '0, window'),
    ('redis', 'the client is forgotten when inflated', 'thin.lua', 'window, first, 0, client)', "window, first, 0, '01234567')"),
    ('redis', 'a queued answer without the last token', 'common.lua', "return { 'Q', next_change(), last }", "return { 'Q', next_change(), 0 }"),
    ('redis', 'numbers: those of others are overlooked', 'common.lua', 'flags % 2 == NUMBERED and own or 0', '0'),
    ('redis', 'numbers: those in use are given again', 'common.lua', 'if not used[lowest] then', 'if true then'),
    ('redis', 'numbers: not the lowest', 'common.lua', 'used, lowest = {}, 0', 'used, lowest = {}, 1'),
    ('redis', 'numbers: a heir of a semaphore of one has none', 'release.lua', ' and wflags % 2 ~= NUMBERED then', ' then'),
    ('redis', 'numbers: a waiter forgets that it wants them', 'acquire.lua', 'kept = kept + NUMBERED end', 'kept = kept + (wait and 0 or NUMBERED) end'),
    ('redis', 'size: a free name is forgotten', 'common.lua', 'if idle and not sized then', 'if idle then'),
    ('redis', 'size: a release makes it thin', 'release.lua', 'if waiters == 0 and now <= deadline and mode ~= SIZED then', 'if waiters == 0 and now <= deadline then'),
    ('redis', 'size: a free name takes any kind', 'acquire.lua', ' and mode ~= SIZED then', ' then'),
    ('redis', 'size: more permits are queued', 'acquire.lua', 'if want_mode ~= mode or permits > capacity then', 'if want_mode ~= mode then'),
    ('redis', 'size: another kind is queued', 'acquire.lua', 'if want_mode ~= mode or permits > capacity then', 'if permits > capacity then'),
    ('redis', 'size: the key expires', 'common.lua', 'moved, exp = exp ~= NEVER, NEVER', 'exp = NEVER'),
    ('redis', 'size: waiters that fit wait on', 'resize.lua', 'promote()\nif dirty', 'if dirty'),
    ('redis', 'size: in use as another kind', 'resize.lua', 'and mode ~= SEMAPHORE then', 'and false then'),
    ('redis', 'size: 0 does nothing', 'resize.lua', 'sized, dirty = false, true', ''),
    ('redis', 'size: a lock delay is forgotten', 'common.lua', "closed, fields = 0, {}", "closed = 0"),
    ('redlock', 'a lock delay begins when somebody looks', 'common.lua', 'n.closed = ended + delay end',
     'n.closed = now + delay end'),
    ('redlock', 'stamps of long ago are believed', 'acquire.lua', 'n.believe(stamp, us), start', 'stamp, start'),
    ('redlock', 'a lease that is not released is overlooked', 'acquire.lua',
     "call('HEXISTS', ckey, sub(home[2], 50, 86)) == 0)", 'true)'),
    ('redlock', 'a guess is believed', 'acquire.lua', 'not home[3] and sub(home[2], 50, 86) == last', 'sub(home[2], 50, 86) == last'),
    ('redlock', 'a name that has a key is overlooked', 'acquire.lua',
     '#home[2] ~= 9 and string.find(home[1], sub(request, 1, 25), 1, true) == 1 and\n    (#home[2] == 8',
     'string.find(home[1], sub(request, 1, 25), 1, true) == 1 and\n    (#home[2] <= 9'),
    ('redlock', 'idle counters go although somebody holds', 'common.lua', 'c < us - IDLE and n.ended(some[i], some[i + 1])',
     'c < us - IDLE'),
    ('redlock', 'a lease that is granted again is taken for a dead one', 'common.lua', 'if n.stale and n.stale ~= lease then',
     'if n.stale then'),
    ('redlock', 'a lease that is written out has a new deadline', 'common.lua',
     'if deadline > most then deadline = most end', 'deadline = now + ttl'),
    ('redlock', 'an attempt that replaces another is queued', 'acquire.lua', 'or replaced or n.waiters == 0',
     'or n.waiters == 0'),
    ('postgres', 'a lease counts for a microsecond less', '23_turn.sql', 't > n.soon THEN', 't >= n.soon THEN'),
    ('postgres', 'the next one that fits overtakes the first', '23_turn.sql',
     'EXIT WHEN w.permits > n.capacity - n.taken OR t <= n.closed', 'EXIT WHEN t <= n.closed'),
    ('postgres', 'a hand-over lasts for the ttl', '23_turn.sql', 'first, w.tokens, w.span, w.ttl', 'first, w.tokens, w.ttl, w.ttl'),
    ('postgres', 'whoever comes overtakes', '30_acquire.sql', '(p_flags & 1 = 1 OR n.waiters = 0)', 'true'),
    ('postgres', 'a lease that is not detached is adopted', '36_adopt.sql', 'OR n.flags & 2 = 0 THEN', 'THEN'),
    ('postgres', 'lingers: a further block does not count', '33_refill.sql', 'SET last = o_token + o_tokens - 1', 'SET last = last'),
    ('postgres', 'lingers: a further block is as long as asked for', '33_refill.sql', 'least(p_tokens[i], greatest', 'greatest(p_tokens[i], least'),
    ('postgres', 'lingers: a heir has a block of the others', '23_turn.sql', '@ahead_1(w.flags)', '@ahead_1(0)'),
    ('postgres', 'lingers: a try is told although others wait', '30_acquire.sql', ' AND n.waiters = 0 THEN 1', ' THEN 1'),
    ('postgres', 'lingers: a token of nobody breaks', '37_break.sql', 'AND n.last) THEN', 'AND n.last + 1) THEN'),
    ('postgres', 'lingers: later tokens are not noted', '38_note.sql', 'AND p_tokens[i] <= x.last', 'AND p_tokens[i] < x.token'),
    ('postgres', 'sweep: a name that is made again forgets its tokens', '30_acquire.sql', 'IF fresh THEN', 'IF false THEN'),
    ('postgres', 'sweep: what was removed is not remembered', '41_sweep.sql', 'CASE WHEN removed > 0 THEN idle ELSE 0 END', '0'),
    ('postgres', 'sweep: a name that is held goes', '41_sweep.sql', 'AND c.holders = 0 AND c.waiters', 'AND c.waiters'),
    ('postgres', 'sweep: a name goes while its lock delay runs', '41_sweep.sql', ' AND c.closed < idle AND', ' AND'),
    ('postgres', 'sweep: a name goes at once', '41_sweep.sql', 't - 60000000', 't'),
    ('postgres', 'sweep: clients that live go', '41_sweep.sql', 'WHERE c.until < idle', 'WHERE true'),
    ('mariadb', 'sweep: a name that is made again forgets its tokens', 'fresh.sql', 'IF v_floor > 0 THEN', 'IF FALSE THEN'),
    ('mariadb', 'sweep: what was removed is not remembered', 'sweep.sql', 'IF v_count > 0 THEN', 'IF FALSE THEN'),
    ('mariadb', 'sweep: a name that is held goes', 'sweep.sql', 'AND holders = 0 AND waiters', 'AND waiters'),
    ('mariadb', 'sweep: a name goes while its lock delay runs', 'sweep.sql', ' AND closed < v_idle', ''),
    ('mariadb', 'sweep: clients that live go', 'sweep.sql', '`~clients` WHERE until < v_idle', '`~clients` WHERE TRUE'),
    ('postgres', 'numbers: those in use are given again', '22_hold.sql',
     'EXCEPT SELECT unnest(h.slots) FROM @holders h WHERE h.name = p_name ORDER BY 1', 'ORDER BY 1'),
    ('postgres', 'numbers: not the lowest', '22_hold.sql', 'generate_series(0, (SELECT', 'generate_series(1, 1 + (SELECT'),
    ('postgres', 'size: a claim for more is queued', '30_acquire.sql', '(p_permits > n.capacity OR NOT @sized_1(p_name))', 'NOT @sized_1(p_name)'),
    ('postgres', 'size: waiters that fit wait on', '42_resize.sql', 'n.capacity := p_capacity;\n        n := @turn_1(n);', 'n.capacity := p_capacity;'),
    ('postgres', 'size: a holder of all stays in the row', '42_resize.sql', 'IF n.owner IS NOT NULL THEN', 'IF false THEN'),
    ('postgres', 'size: who takes all is in the row', '22_hold.sql', 'n.capacity AND n.holders = 0 AND', 'n.capacity AND'),
    ('mariadb', 'numbers: those of whom was handed something are given again', 'number.sql', "c.state IN ('G', 'H')", "c.state = 'H'"),
    ('mariadb', 'numbers: a heir of the short way has none', 'release.sql', 'token > 0 OR flags & 64', 'token > 0'),
    ('mariadb', 'size: a claim for more is queued', 'acquire_any.sql', '(p_permits > v_capacity\n      OR NOT', '(NOT'),
    ('mariadb', 'size: waiters that fit wait on', 'resize.sql', "  CALL `~settle`(p_name, v_rings);\n  COMMIT;\n  CALL `~ring`(v_rings);\n  SELECT 'R'",
     "  COMMIT;\n  CALL `~ring`(v_rings);\n  SELECT 'R'"),
    ('mariadb', 'a break has no lock delay', 'break.sql', 'IF v_delay > 0 THEN', 'IF v_delay > 10000000 THEN'),
    ('mariadb', 'a dead waiter is granted', 'settle.sql', 'IF GREATEST(v_alive, v_since + v_window * 1000) < v_us OR', 'IF'),
    ('mariadb', 'a lease that has expired is renewed', 'renew_one.sql', "state IN ('G', 'H') AND until >= v_us FOR UPDATE",
     "state IN ('G', 'H') FOR UPDATE"),
    ('mariadb', 'somebody else is adopted', 'adopt.sql', "WHERE name = p_name AND x_owner = '';", 'WHERE name = p_name;'),
    ('mariadb', 'a shortened block is counted whole', 'settle.sql', 'v_token = v_first + v_tokens - 1', 'v_token = v_first'),
    ('mariadb', 'lingers: a further block ends too late', 'refill.sql', 'v_us + 50000 - v_first', 'v_us + 50001 - v_first'),
    ('mariadb', 'lingers: a further block does not count', 'refill.sql', 'SET token = v_first + v_tokens - 1', 'SET token = token'),
    ('mariadb', 'lingers: a heir has a block of the others', 'settle.sql', 'IF(v_flags & 32, 50000, 1000)', '1000'),
    ('mariadb', 'lingers: a heir of the short way has a block of the others', 'release.sql', 'IF(flags & 32, 50000, 1000)', '1000'),
    ('mariadb', 'lingers: a try is told although others wait', 'acquire_any.sql', 'v_waiters = 0 AND EXISTS', 'EXISTS'),
    ('mariadb', 'lingers: a token of nobody breaks', 'break.sql', 'BETWEEN v_x_token AND v_token', 'BETWEEN v_x_token AND v_token + 1'),
    ('mariadb', 'lingers: whoever is renewed gets tokens', 'refill.sql', ' AND flags & 32));', '));'),
    ('lmdb', 'whoever comes overtakes', 'acquire.c', '(rec.waiters == 0 || claim->flags & HFI_CLAIM_BARGE)', 'true'),
    ('lmdb', 'an expired lease leaves no lock delay', 'holders.c', 'if (unclean && copy.lock_delay_ms > 0)',
     'if (unclean && copy.lock_delay_ms > 100000000)'),
    ('lmdb', 'a reader that fits overtakes a writer', 'holders.c',
     '        if (!lmdb_fits(rec->capacity, rec->taken, w.permits))\n            break;',
     '        if (!lmdb_fits(rec->capacity, rec->taken, w.permits)) {\n            ticket++;\n            continue;\n        }'),
    ('lmdb', 'a renewal re-creates', 'release.c', '(rc == 0 && lmdb_past(t, h.deadline_ms))) {\n        item->status',
     '(rc == 0 && false)) {\n        item->status'),
]


def compiled(build, directory, out):
    """The driver with other sources of the engine: by the compiler's command line of the real one."""
    listing = subprocess.run(['ninja', '-C', build, '-t', 'commands', 'permits_lmdb'], check=True, capture_output=True,
                             text=True).stdout.splitlines()
    command = next(line for line in listing if 'lmdb_driver.c' in line).split(' -o ')[0].split(' -MD ')[0]
    command = command[command.index('cc '):] if 'ccache' in command else command
    sources = glob.glob(os.path.join(directory, '*.c')) + [os.path.join(HERE, 'lmdb_driver.c')]
    subprocess.run('%s -w -o %s %s -L%s/lib -Wl,-rpath,%s/lib -lholdfast -llmdb -lpthread %s' % (
        command, out, ' '.join(sources), build, build, ' '.join(glob.glob(build + '/lib/libhfi_kit.a') or
                                                                 glob.glob(build + '/**/libhfi_kit.a', recursive=True))),
        shell=True, check=True, cwd=build)


def caught(build, engine, file, old, new):
    with tempfile.TemporaryDirectory() as tmp:
        directory = os.path.join(tmp, os.path.basename(SOURCES[engine]))
        shutil.copytree(os.path.join(ROOT, 'src', 'engine', SOURCES[engine]), directory)
        path = os.path.join(directory, file)
        text = open(path).read()
        if text.count(old) == 0:
            sys.exit('%s has no %r any more' % (file, old))
        open(path, 'w').write(text.replace(old, new, 1))
        command = [sys.executable, '-B', os.path.join(HERE, 'permits_test.py'), engine]
        environment = dict(os.environ, PERMITS_SEQUENCES='25')
        if engine == 'lmdb':
            environment['PERMITS_DRIVER'] = os.path.join(tmp, 'driver')
            compiled(build, directory, environment['PERMITS_DRIVER'])
        else:
            command += ['--sources', directory]
        if engine in ('postgres', 'mariadb'):
            command = [os.path.join(build, 'bin', 'test', 'with_server'), engine, '-o',
                       'sysdate-is-now=1' if engine == 'mariadb' else 'fsync=off'] + command
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        said = (run.stdout + run.stderr).strip().splitlines()[-1]
        return said if run.returncode and said.startswith('FAILED') else None


def main():
    build, missed = os.path.abspath(sys.argv[1]), 0
    for engine, what, *change in MUTANTS:
        if len(sys.argv) > 2 and engine != sys.argv[2] or len(sys.argv) > 3 and sys.argv[3] not in what:
            continue
        found = caught(build, engine, *change)
        print('%-9s %-50s %s' % (engine, what, 'caught: ' + found[:140] if found else 'NOT CAUGHT'), flush=True)
        missed += not found
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
