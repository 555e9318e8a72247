# SPDX-License-Identifier: MIT
"""
Breaks one rule after the other, in copies of the five implementations, and sees the model catch each.

Usage: mutants.py BUILD [ENGINE]     BUILD: a build folder, whose test servers are used. Not part of make test.
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
    ('redis', 'a block of tokens runs ahead of the clock', 'common.lua', 'if first + count > us + AHEAD then', 'if false then'),
    ('redis', 'a name opens while its lock delay runs', 'common.lua', 'while waiters > 0 and now > closed and taken',
     'while waiters > 0 and taken'),
    ('redis', 'a barge is refused', 'acquire.lua', 'if now > closed and permits <= capacity - taken and (',
     'if now > closed and permits <= capacity - taken and waiters == 0 and ('),
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
    ('mariadb', 'a break has no lock delay', 'break.sql', 'IF v_delay > 0 THEN', 'IF v_delay > 10000000 THEN'),
    ('mariadb', 'a dead waiter is granted', 'settle.sql', 'IF GREATEST(v_alive, v_since + v_window * 1000) < v_us OR', 'IF'),
    ('mariadb', 'a lease that has expired is renewed', 'renew.sql', "state IN ('G', 'H') AND until >= v_us FOR UPDATE",
     "state IN ('G', 'H') FOR UPDATE"),
    ('mariadb', 'somebody else is adopted', 'adopt.sql', "WHERE name = p_name AND x_owner = '';", 'WHERE name = p_name;'),
    ('mariadb', 'a shortened block is counted whole', 'settle.sql', 'v_token = v_first + v_tokens - 1', 'v_token = v_first'),
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
        if len(sys.argv) > 2 and engine != sys.argv[2]:
            continue
        found = caught(build, engine, *change)
        print('%-9s %-50s %s' % (engine, what, 'caught: ' + found[:140] if found else 'NOT CAUGHT'), flush=True)
        missed += not found
    return 1 if missed else 0


if __name__ == '__main__':
    sys.exit(main())
