# SPDX-License-Identifier: MIT
"""redlock-py, a Redlock on redis-py, as a worker: worker_redlock_py.py PORT[,PORT...]. The commands are those of worker.c."""
import logging
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redlock import MultipleRedlockException, Redlock


def redlock(nodes, wait_ms):
    return Redlock(nodes, retry_count=1 + wait_ms // 5 if wait_ms else 1, retry_delay=0.005)


def acquire(nodes, name, wait_ms, ttl_ms):
    try:
        lock = redlock(nodes, wait_ms).lock(name, abs(ttl_ms))
    except MultipleRedlockException:  # it raises if a node is gone, also where the others did not grant it
        lock = False
    return (lock, "OK") if lock else (None, "TIMEOUT" if wait_ms else "BUSY")


def release(nodes, lock):
    """It does not say whether it held anything: ask the nodes before."""
    held = 0
    for node in nodes:
        try:
            held += node.get(lock.resource) == lock.key
        except redis.RedisError:
            pass
    try:
        redlock(nodes, 0).unlock(lock)
    except MultipleRedlockException:
        pass
    return "OK" if held > len(nodes) // 2 else "LOST"


def raise_number(path):
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.0002)
    with open(path, "w") as file:
        file.write(f"{number + 1}\n")


def hammer(nodes, name, path, count):
    for _ in range(count):
        lock = None
        for _ in range(20000):
            lock, _said = acquire(nodes, name, 0, 10000)
            if lock:
                break
            time.sleep(0.005)
        if not lock:
            return "TIMEOUT"
        raise_number(path)
        release(nodes, lock)
    return "OK"


def main():
    logging.disable(logging.CRITICAL)  # a node that is gone is no news here
    # A node that is gone must answer so at once: it has no vote.
    nodes = [redis.Redis(port=int(port), retry=Retry(NoBackoff(), 0)) for port in sys.argv[1].split(",")]
    lock = None
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "acquire":
            lock, status = acquire(nodes, rest[0], int(rest[1]), int(rest[2]))
        elif word == "release":
            status = release(nodes, lock)
        elif word == "extend":
            status = "cannot"
        else:
            status = hammer(nodes, rest[0], rest[1], int(rest[2]))
        print(status, flush=True)


main()
