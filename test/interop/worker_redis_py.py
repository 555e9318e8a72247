# SPDX-License-Identifier: MIT
"""redis-py's Lock as a worker: worker_redis_py.py PORT. The commands are those of worker.c."""
import sys
import time

import redis
from redis.exceptions import LockError


def acquire(client, name, wait_ms, ttl_ms):
    lock = client.lock(name, timeout=abs(ttl_ms) / 1000, sleep=0.005)
    got = lock.acquire(blocking=wait_ms > 0, blocking_timeout=wait_ms / 1000 if wait_ms else None)
    return (lock, "OK") if got else (None, "TIMEOUT" if wait_ms else "BUSY")


def raise_number(path):
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.0002)
    with open(path, "w") as file:
        file.write(f"{number + 1}\n")


def hammer(client, name, path, count):
    for _ in range(count):
        lock, status = acquire(client, name, 120000, 10000)
        if not lock:
            return status
        raise_number(path)
        lock.release()
    return "OK"


def release(lock):
    try:
        lock.release()
        return "OK"
    except LockError:
        return "LOST"


def main():
    client = redis.Redis(port=int(sys.argv[1]))
    lock = None
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "acquire":
            lock, status = acquire(client, rest[0], int(rest[1]), int(rest[2]))
        elif word == "release":
            status = release(lock)
        else:
            status = hammer(client, rest[0], rest[1], int(rest[2]))
        print(status, flush=True)


main()
