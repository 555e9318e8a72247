# SPDX-License-Identifier: MIT
"""
Two versions of Holdfast share one store: their commands contend for the same names, wait in one queue, and read what the
other has written. Of every kind of store; of each: exclusion and rising tokens, the order of the queue, handles, cells,
counters, limits, latches.

Usage: compat.py OLD NEW WITH_SERVER [STORE...]     OLD, NEW: the two `holdfast`; STORE: some of them only

What an engine cannot do, it refuses with the same exit code in both versions. The embedded store has changed since db63293:
its control file has another format, so processes of the two refuse each other's store while it is in use, and go on where the
other has ended; and its cells have checksums, so this version goes on with what the old one wrote, and the old one refuses
cells that this one has written.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROUNDS = 12  # of each of four workers
UNSUPPORTED = (65, 70, 77, 78)

# name: the options of its server (None: no server), its features
STORES = {
    'embedded': (None, 'tokens fifo handle'),
    'redis': (['redis'], 'tokens fifo handle'),
    'redis-plain': (['redis', '-q', 'wire=plain'], ''),
    'redis-redisson': (['redis', '-q', 'wire=redisson'], ''),
    'redlock': (['redis', '-R', '3'], 'tokens fifo handle'),
    'memcached': (['memcached'], ''),
    'etcd': (['etcd'], 'tokens fifo handle'),
    'zookeeper': (['zookeeper'], 'tokens fifo'),
    'postgres': (['postgres'], 'tokens fifo handle'),
    'postgres-row': (['postgres', '-m', 'row'], ''),
    'postgres-session': (['postgres', '-m', 'session'], ''),
    'mariadb': (['mariadb'], 'tokens fifo handle'),
    'mariadb-row': (['mariadb', '-m', 'row'], ''),
    'mariadb-session': (['mariadb', '-m', 'session'], ''),
}


class Wrong(Exception):
    pass


def must(ok, what):
    if not ok:
        raise Wrong(what)


class Store:
    """The two commands on one store."""

    def __init__(self, old, new, url, has):
        self.versions = {'old': old, 'new': new}
        self.env = dict(os.environ, HOLDFAST_STORE=url)
        self.has = has
        self.dir = tempfile.mkdtemp(prefix='holdfast-compat-')

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, which, *words, **more):
        return subprocess.Popen([self.versions[which]] + list(words), env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **more)

    def ask(self, which, *words, ok=(0,)):
        """Exit code and output."""
        process = self.start(which, *words)
        out, err = process.communicate(timeout=120)
        if process.returncode not in ok and process.returncode not in UNSUPPORTED:
            raise Wrong('%s %s: exit %d: %s' % (which, ' '.join(words), process.returncode, err.strip()))
        return process.returncode, out.strip()

    def waiters(self, which, name):
        import json
        code, out = self.ask(which, '--json', 'show', name, ok=(0, 1))
        return len(json.loads(out).get('waiters', [])) if code == 0 and out else 0


def exclusion(store, together=True):
    """Four workers, two of each version; nobody is ever in beside another, and tokens rise."""
    critical = ('mkdir "$0/in" || exit 99; echo "$HOLDFAST_TOKEN" >> "$0/tokens"; rmdir "$0/in"')
    loop = 'for i in $(seq %d); do "$1" -q run excl -w 60s -- sh -c \'%s\' "$0" || exit; done' % (ROUNDS, critical)
    workers = []
    for which in ('old', 'new', 'old', 'new'):
        workers.append((which, subprocess.Popen(['sh', '-c', loop, store.dir, store.versions[which]], env=store.env,
                                                stderr=subprocess.PIPE, text=True)))
        if not together:
            workers[-1][1].wait()
    for which, worker in workers:
        _, err = worker.communicate(timeout=300)
        must(worker.returncode == 0, 'a worker of the %s version ended with %d: %s' % (which, worker.returncode, err[-300:]))
    tokens = [line.strip() for line in open(store.path('tokens'))]
    must(len(tokens) == 4 * ROUNDS, '%d times inside and not %d' % (len(tokens), 4 * ROUNDS))
    if 'tokens' in store.has:
        numbers = [int(token) for token in tokens]
        must(numbers == sorted(set(numbers)), 'tokens do not rise: %s' % numbers)
    return '%d times inside%s' % (len(tokens), ', tokens rise' if 'tokens' in store.has else '')


def queue(store):
    """The holder is one of the old version; four wait, by turns of each; they come in order."""
    holder = store.start('old', 'run', 'fifo', '--', 'sh', '-c', 'echo in > "$0/held"; cat > /dev/null', store.dir,
                         stdin=subprocess.PIPE)
    until = time.monotonic() + 60
    while not os.path.exists(store.path('held')):
        must(time.monotonic() < until, 'the holder does not get it')
        time.sleep(0.02)
    waiting = []
    for i, which in enumerate(('new', 'old', 'new', 'old')):
        waiting.append(store.start(which, 'run', 'fifo', '-w', '60s', '--', 'sh', '-c', 'echo %d >> "$0/order"' % i, store.dir))
        for looker in ('old', 'new'):  # both see the queue grow
            while store.waiters(looker, 'fifo') < i + 1:
                must(time.monotonic() < until, '%s does not see %d waiters' % (looker, i + 1))
                time.sleep(0.05)
    holder.stdin.close()
    holder.wait()
    for process in waiting:
        must(process.wait(timeout=60) == 0, 'a waiter: %s' % process.stderr.read())
    order = open(store.path('order')).read().split()
    must(order == ['0', '1', '2', '3'], 'they came in the order %s' % order)
    return 'both see the queue, and it is kept'


def handles(store):
    """A lease that one has taken, the other renews and releases."""
    for taker, giver in (('old', 'new'), ('new', 'old')):
        code, handle = store.ask(taker, 'lock', 'handle', '--ttl', '60s')
        if code:
            must(store.ask(giver, 'lock', 'handle', '--ttl', '60s')[0] == code, 'only one of them has handles')
            return None
        must(store.ask(giver, 'run', 'handle', '-n', '--', 'true', ok=(0, 75))[0] == 75, 'it was not held')
        must(store.ask(giver, 'renew', 'handle', '--lease', handle)[0] == 0, 'not renewed')
        must(store.ask(giver, 'unlock', 'handle', '--lease', handle)[0] == 0, 'not released')
        must(store.ask(taker, 'run', 'handle', '-n', '--', 'true')[0] == 0, 'not free')
    return 'renewed and released by the other'


def cells(store):
    for writer, reader in (('old', 'new'), ('new', 'old')):
        code, version = store.ask(writer, 'cell', 'put', 'cell', 'written by ' + writer)
        if code:
            must(store.ask(reader, 'cell', 'put', 'cell', 'x')[0] == code, 'only one of them has cells')
            return None
        must(store.ask(reader, 'cell', 'get', 'cell')[1] == 'written by ' + writer, 'the bytes are others')
        version = version.split()[-1]
        code, _ = store.ask(reader, 'cell', 'cas', 'cell', 'changed', '--version', version)
        must(code == 0, 'the version that %s wrote is not %s to %s' % (writer, version, reader))
        must(store.ask(writer, 'cell', 'cas', 'cell', 'late', '--version', version, ok=(0, 75))[0] == 75, 'an old version is good')
        must(store.ask(writer, 'cell', 'get', 'cell')[1] == 'changed', 'the change is not seen')
    store.ask('old', 'cell', 'rm', 'cell')
    must(store.ask('new', 'cell', 'get', 'cell', ok=(0, 1))[0] == 1, 'it is still there')
    return 'bytes and versions are shared'


def counters(store):
    expected = 0
    for i, which in enumerate(('old', 'new', 'old', 'new')):
        expected += i + 1
        code, out = store.ask(which, 'counter', 'count', '--add', str(i + 1))
        if code:
            must(i == 0 and store.ask('new', 'counter', 'count', '--add', '1')[0] == code, 'only one of them counts')
            return None
        must(out == str(expected), '%s counts %s and not %d' % (which, out, expected))
    return 'they count together'


def limits(store):
    """Four permits in an hour: two for each, and then no more."""
    for algorithm in ('fixed', 'sliding', 'bucket'):
        words = ['limit', 'limit-' + algorithm, '--rate', '4/1h', '--algorithm=' + algorithm, '-n']
        codes = [store.ask(which, *words, ok=(0, 75))[0] for which in ('old', 'new', 'old', 'new', 'old', 'new')]
        if codes[0] not in (0, 75):
            must(len(set(codes)) == 1, 'only one of them has limits: %s' % codes)
            return None
        must(codes == [0, 0, 0, 0, 75, 75], '%s: %s' % (algorithm, codes))
    return 'they share the permits'


def latches(store):
    code, _ = store.ask('old', 'latch', 'latch', '--count', '2')
    if code:
        must(store.ask('new', 'latch', 'latch', '--count', '2')[0] == code, 'only one of them has latches')
        return None
    must(store.ask('new', 'latch', 'latch', '--wait', '-n', ok=(0, 75))[0] == 75, 'it is open')
    must(store.ask('old', 'latch', 'latch', '--down', '--as', 'a')[0] == 0, 'old does not count')
    must(store.ask('new', 'latch', 'latch', '--down', '--as', 'b')[0] == 0, 'new does not count')
    for which in ('old', 'new'):
        must(store.ask(which, 'latch', 'latch', '--wait', '-w', '20s', ok=(0, 75))[0] == 0, 'not open for ' + which)
    store.ask('new', 'latch', 'latch', '--remove')
    return 'opened together'


def refusal(store):
    """The embedded store in use by one version: the other says so, and touches nothing."""
    for user, other in (('old', 'new'), ('new', 'old')):
        store.ask(user, 'run', 'first', '--', 'true')  # it is this version's from here on
        process = store.start(user, 'run', 'mine', '--', 'sh', '-c', 'echo in > "$0/%s"; cat > /dev/null' % user, store.dir,
                              stdin=subprocess.PIPE)
        while not os.path.exists(store.path(user)):
            must(process.poll() is None, 'the user has ended')
            time.sleep(0.02)
        asked = store.start(other, 'run', 'mine', '-n', '--', 'true')
        _, err = asked.communicate(timeout=60)
        must(asked.returncode in (69, 78) and 'another version' in err, 'exit %d: %s' % (asked.returncode, err))
        process.stdin.close()
        must(process.wait() == 0, 'the user lost its lease')
    return 'refused while the other uses it'


def upgrade(store):
    """The embedded store's cells: this version goes on with what the old one wrote; then the old one refuses them."""
    store.ask('old', 'cell', 'put', 'cell', 'written by old')
    store.ask('old', 'counter', 'count', '--add', '5')
    store.ask('old', 'limit', 'limit', '--rate', '2/1h', '-n')
    store.ask('old', 'latch', 'latch', '--count', '2')
    store.ask('old', 'latch', 'latch', '--down', '--as', 'a')
    must(store.ask('new', 'cell', 'get', 'cell')[1] == 'written by old', 'the bytes are others')
    must(store.ask('new', 'counter', 'count', '--add', '1')[1] == '6', 'the counter is another')
    must([store.ask('new', 'limit', 'limit', '--rate', '2/1h', '-n', ok=(0, 75))[0] for _ in range(2)] == [0, 75],
         'the limit is another')
    must(store.ask('new', 'latch', 'latch', '--down', '--as', 'b')[0] == 0, 'the latch does not count')
    must(store.ask('new', 'latch', 'latch', '--wait', '-w', '20s', ok=(0, 75))[0] == 0, 'the latch is not open')
    must(store.ask('new', 'cell', 'put', 'cell', 'written by new')[0] == 0, 'not written')
    code, out = store.ask('old', 'cell', 'get', 'cell', ok=(0, 69))
    must(code == 69 or out == 'written by new', 'the old version reads %r' % out)
    must(store.ask('new', 'cell', 'get', 'cell')[1] == 'written by new', 'the old version has changed it')
    return 'goes on with cells, counters, limits and latches; the old version %s' % (
        'refuses them then' if code else 'reads them')


def check(name, store):
    parts = [cells, counters, limits, latches]
    if name == 'embedded':
        parts = [lambda s: exclusion(s, together=False), refusal, upgrade]
    else:
        parts = [exclusion] + ([queue] if 'fifo' in store.has else []) + ([handles] if 'handle' in store.has else []) + parts
    for part in parts:
        said = part(store)
        label = part.__name__ if part.__name__ != '<lambda>' else 'exclusion'
        print('%-17s %-10s %s' % (name, label, said or 'neither has them'), flush=True)


def inside(name):
    old, new = os.environ['COMPAT_OLD'], os.environ['COMPAT_NEW']
    home = tempfile.mkdtemp(prefix='holdfast-compat-')
    url = os.environ.get('HOLDFAST_TEST_URL', 'file:' + os.path.join(home, 'store')).replace('{id}', 'compat')
    store = Store(old, new, url, STORES[name][1])
    try:
        check(name, store)
    except Wrong as wrong:
        print('%-17s WRONG: %s' % (name, wrong), flush=True)
        return 1
    finally:
        shutil.rmtree(store.dir, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
    return 0


def main():
    if len(sys.argv) == 3 and sys.argv[1] == '--inside':
        return inside(sys.argv[2])
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    old, new, with_server = map(os.path.abspath, sys.argv[1:4])
    environment = dict(os.environ, COMPAT_OLD=old, COMPAT_NEW=new)
    failed = []
    for name in sys.argv[4:] or STORES:
        command = [sys.executable, '-B', os.path.abspath(__file__), '--inside', name]
        server = STORES[name][0]
        if server:
            command = [with_server] + server + command
        if subprocess.run(command, env=environment).returncode:
            failed.append(name)
    print('%d kinds of store, %s' % (len(sys.argv[4:] or STORES), 'wrong: ' + ' '.join(failed) if failed else 'all shared'))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
