# SPDX-License-Identifier: MIT
"""
The scripts of the foreign wire modes: by themselves, against redis-py's own Lock (wire=plain), and
against Redisson's scripts as its RedissonLock.java has them (wire=redisson).
"""
from resp import Error

A, B = '0' * 31 + 'a', '0' * 31 + 'b'
FIELD_A, FIELD_B = '00000000-0000-0000-0000-00000000000a:1', '00000000-0000-0000-0000-00000000000b:1'
LONG, LONGER = 1000000, 2000000

# What Redisson sends (org.redisson.RedissonLock: tryLockInnerAsync, unlockInnerAsync without its latch).
REDISSON_LOCK = """
if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end;
return redis.call('pttl', KEYS[1]);"""
REDISSON_UNLOCK = """
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil; end;
local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); return 0;
else redis.call('del', KEYS[1]); redis.call('publish', KEYS[2], ARGV[1]); return 1; end;"""


def equal(got, expected):
    if got != expected:
        raise AssertionError('%r and not %r' % (got, expected))


def between(low, value, high):
    if not low <= value <= high:
        raise AssertionError('%r is not in %r .. %r' % (value, low, high))


def plain(call):
    redis = call.redis
    equal(call('plain_acquire', ['k'], A, LONG, 0), ['G', LONG])
    equal(redis('GET', 'k'), A.encode())
    between(1, redis('PTTL', 'k'), LONG)
    letter, left = call('plain_acquire', ['k'], B, LONG, 0)
    equal(letter, 'B')
    between(1, left, LONG + 1)
    # the same owner again: the later end
    letter, left = call('plain_acquire', ['k'], A, 1000, 0)
    equal(letter, 'G')
    between(LONG // 2, left, LONG)
    equal(call('plain_acquire', ['k'], A, LONGER, 0), ['G', LONGER])
    between(LONG + 1, redis('PTTL', 'k'), LONGER)
    equal(call('plain_renew', ['k', 'k', 'nowhere'], B, 1, A, LONG, A, LONG), [0, 1, 0])
    between(1, redis('PTTL', 'k'), LONG)
    equal(redis('EXISTS', 'nowhere'), 0)
    letter, value, left = call('plain_look', ['k'])
    equal((letter, value), ('L', A))
    between(1, left, LONG + 1)
    equal(call('plain_release', ['k'], B), 0)
    equal(redis('EXISTS', 'k'), 1)
    equal(call('plain_release', ['k'], A), 1)
    equal(call('plain_release', ['k'], A), 0)
    equal(call('plain_look', ['k']), ['N'])
    # a foreign lock that lost its expiry, and ours
    redis('SET', 'k', 'foreign')
    equal(call('plain_acquire', ['k'], A, LONG, 0), ['B', 0])
    equal(call('plain_look', ['k']), ['L', 'foreign', 0])
    equal(redis('PTTL', 'k'), -1)
    letter, left = call('plain_acquire', ['k'], A, LONG, LONGER)
    equal(letter, 'B')
    between(LONG, left, LONGER + 1)
    letter, left = call('plain_acquire', ['k'], A, LONG, 50 * LONGER)  # once only
    between(LONG, left, LONGER + 1)
    equal(redis('GET', 'k'), b'foreign')
    redis('SET', 'k', A)
    equal(call('plain_acquire', ['k'], A, LONG, 0), ['G', LONG])
    between(1, redis('PTTL', 'k'), LONG)
    # an expired one
    redis('SET', 'k', 'foreign', 'PX', 1)
    while call('plain_acquire', ['k'], A, LONG, 0)[0] == 'B':
        pass
    equal(redis('GET', 'k'), A.encode())


def another_type(call):
    """Is told, and left as it is."""
    redis = call.redis
    for make in (['RPUSH', 'k', 'x'], ['HSET', 'k', A, 'x'], ['ZADD', 'k', 1, A]):
        redis('DEL', 'k')
        redis(*make)
        before = redis('DUMP', 'k')
        equal(call('plain_acquire', ['k'], A, LONG, LONG), ['M'])
        equal(call('plain_look', ['k']), ['M'])
        equal(call('plain_renew', ['k'], A, LONG), [0])
        equal(call('plain_release', ['k'], A), 0)
        equal((redis('DUMP', 'k'), redis('PTTL', 'k')), (before, -1))
    redis('SET', 'k', A)
    equal(call('redisson_acquire', ['k'], A, LONG), ['M'])
    equal(call('redisson_look', ['k']), ['M'])
    equal(call('redisson_renew', ['k'], A, LONG, 1), [0])
    equal(call('redisson_count', ['k'], A, 2, LONG), 0)
    equal(call('redisson_release', ['k'], A, 'c'), 0)
    equal((redis('GET', 'k'), redis('PTTL', 'k')), (A.encode(), -1))


def redisson(call):
    redis = call.redis
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG), ['G', LONG, 1])
    equal(redis('HGETALL', 'k'), [FIELD_A.encode(), b'1'])
    between(1, redis('PTTL', 'k'), LONG)
    equal(call('redisson_acquire', ['k'], FIELD_A, LONGER), ['G', LONGER, 1])  # sent again: counted once
    letter, left, count = call('redisson_acquire', ['k'], FIELD_A, 1000)
    between(LONG, left, LONGER)
    equal(call('redisson_acquire', ['k'], FIELD_B, LONG)[0], 'B')
    equal(call('redisson_renew', ['k', 'k', 'nowhere'], FIELD_B, 1, 1, FIELD_A, LONG, 1, FIELD_A, LONG, 1), [0, 1, 0])
    between(1, redis('PTTL', 'k'), LONG)
    letter, left, field, count = call('redisson_look', ['k'])
    equal((letter, field, count), ('L', FIELD_A, '1'))
    equal(call('redisson_release', ['k'], FIELD_B, 'c'), 0)
    equal(call('redisson_release', ['k'], FIELD_A, 'c'), 1)
    equal(call('redisson_release', ['k'], FIELD_A, 'c'), 0)
    equal(call('redisson_look', ['k']), ['N'])
    # reentrant, as Redisson counts
    equal(call('redisson_count', ['k'], FIELD_A, 2, LONG), 0)  # never made anew
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG), ['G', LONG, 1])
    equal(call('redisson_count', ['k'], FIELD_A, 2, 1), 1)  # nor shortened
    equal(redis('HGET', 'k', FIELD_A), b'2')
    between(2, redis('PTTL', 'k'), LONG)
    equal(call('redisson_count', ['k'], FIELD_A, 3, LONGER), 1)
    between(LONG + 1, redis('PTTL', 'k'), LONGER)
    equal(call('redisson_count', ['k'], FIELD_B, 7, LONGER), 0)
    equal(call('redisson_renew', ['k'], FIELD_A, LONG, 2), [1])
    equal(redis('HGETALL', 'k'), [FIELD_A.encode(), b'2'])
    equal(call('redisson_release', ['k'], FIELD_A, 'c'), 1)  # whatever the count is
    equal(redis('EXISTS', 'k'), 0)
    # without an expiry
    redis('HSET', 'k', FIELD_B, 1)
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG), ['B', 0])
    equal(call('redisson_look', ['k']), ['L', 0, FIELD_B, '1'])


def with_redisson(call, listener):
    """Its scripts and ours, on one lock; its waiters hear our release."""
    redis = call.redis

    def lock(field):
        return redis('EVAL', REDISSON_LOCK, 1, 'k', LONG, field)

    def unlock(field):
        return redis('EVAL', REDISSON_UNLOCK, 2, 'k', channel, 0, LONG, field)

    channel = 'redisson_lock__channel:{k}'
    listener('SUBSCRIBE', channel)
    equal(lock(FIELD_B), None)
    equal(lock(FIELD_B), None)
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG)[0], 'B')
    equal(unlock(FIELD_B), 0)
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG)[0], 'B')
    equal(unlock(FIELD_B), 1)
    equal(listener.read(), [b'message', channel.encode(), b'0'])
    equal(call('redisson_acquire', ['k'], FIELD_A, LONG), ['G', LONG, 1])
    between(1, lock(FIELD_B), LONG)
    equal(unlock(FIELD_B), None)
    equal(call('redisson_release', ['k'], FIELD_A, channel), 1)
    equal(listener.read(), [b'message', channel.encode(), b'0'])  # as its own unlock says it
    equal(lock(FIELD_B), None)


def with_redis_py(call, path):
    """redis-py's Lock and ours exclude one another, and neither releases the other's."""
    try:
        import redis as redis_py
        from redis.exceptions import LockError
    except ImportError:
        print('python3-redis is not there: its Lock was not tried')
        return
    client = redis_py.Redis(unix_socket_path=path)
    lock = client.lock('k', timeout=1000, blocking=False)
    assert lock.acquire()
    letter, left = call('plain_acquire', ['k'], A, LONG, 0)
    equal(letter, 'B')
    between(1, left, 1000001)
    equal(call('plain_release', ['k'], A), 0)
    equal(call('plain_renew', ['k'], A, LONG), [0])
    value = call('plain_look', ['k'])[1]
    equal(value.encode('latin-1'), lock.local.token)
    assert lock.owned() and lock.reacquire()
    lock.release()
    equal(call('plain_acquire', ['k'], A, LONG, 0), ['G', LONG])
    assert not lock.acquire() and lock.locked() and not lock.owned()
    lock.local.token = b'something else'
    try:
        lock.release()
        raise AssertionError('redis-py released our lock')
    except LockError:
        pass
    equal(call('plain_renew', ['k'], A, LONGER), [1])
    equal(call('plain_release', ['k'], A), 1)
    assert lock.acquire()
    equal(call('plain_release', ['k'], lock.local.token), 1)  # break
    assert lock.acquire()
    client.close()


def full_server(call):
    redis = call.redis
    call('plain_acquire', ['p'], A, LONG, 0)
    call('redisson_acquire', ['r'], FIELD_A, LONG)
    redis('CONFIG', 'SET', 'maxmemory', 1)
    try:
        for script, args in (('plain_acquire', [B, LONG, 0]), ('redisson_acquire', [FIELD_B, LONG])):
            try:
                call(script, ['new'], *args)
                raise AssertionError('a full server granted')
            except Error as error:
                if 'OOM' not in str(error):
                    raise
        equal(redis('EXISTS', 'new'), 0)
        equal(call('plain_renew', ['p'], A, LONG), [1])
        equal(call('redisson_renew', ['r'], FIELD_A, LONG, 1), [1])
        equal(call('plain_release', ['p'], A), 1)
        equal(call('redisson_release', ['r'], FIELD_A, 'c'), 1)
    finally:
        redis('CONFIG', 'SET', 'maxmemory', 0)


def run(call, server):
    listener = server.connect()
    for case, args in ((plain, ()), (another_type, ()), (redisson, ()), (with_redisson, (listener,)),
                       (with_redis_py, (server.path,)), (full_server, ())):
        call.redis('FLUSHALL')
        try:
            case(call, *args)
        except Exception:
            print('in foreign', case.__name__)
            raise
    listener.close()
