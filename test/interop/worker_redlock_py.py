# SPDX-License-Identifier: MIT
"""redlock-py, a Redlock on redis-py, as a worker: worker_redlock_py.py PORT[,PORT...]. The commands are those of worker.c."""
import logging
import sys
import time

import redis
from redlock import MultipleRedlockException, Redlock


def redlock(ports, wait_ms):
    nodes = [{"host": "127.0.0.1", "port": int(port)} for port in ports.split(",")]
    made = Redlock(nodes, retry_count=1 + wait_ms // 5 if wait_ms else 1, retry_delay=0.005)
    return made


def acquire(ports, name, wait_ms, ttl_ms):
    manager = redlock(ports, wait_ms)
    try:
        lock = manager.lock(name, abs(ttl_ms))
    except MultipleRedlockException:  # it raises if a node is gone, also where the others did not grant it
        lock = False
    return (lock, "OK") if lock else (None, "TIMEOUT" if wait_ms else "BUSY")


def release(ports, lock):
    """It does not say whether it held anything: ask the nodes before."""
    held = 0
    for port in ports.split(","):
        try:
            held += redis.Redis(port=int(port)).get(lock.resource) == lock.key
        except redis.RedisError:
            pass
    try:
        redlock(ports, 0).unlock(lock)
    except MultipleRedlockException:
        pass
    return "OK" if held > len(ports.split(",")) // 2 else "LOST"


def raise_number(path):
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.0002)
    with open(path, "w") as file:
        file.write(f"{number + 1}\n")


def hammer(ports, name, path, count):
    for _ in range(count):
        lock = None
        for _ in range(20000):
            lock, _said = acquire(ports, name, 0, 10000)
            if lock:
                break
            time.sleep(0.005)
        if not lock:
            return "TIMEOUT"
        raise_number(path)
        release(ports, lock)
    return "OK"


def main():
    logging.disable(logging.CRITICAL)  # a node that is gone is no news here
    ports = sys.argv[1]
    lock = None
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "acquire":
            lock, status = acquire(ports, rest[0], int(rest[1]), int(rest[2]))
        elif word == "release":
            status = release(ports, lock)
        elif word == "extend":
            status = "cannot"
        else:
            status = hammer(ports, rest[0], rest[1], int(rest[2]))
        print(status, flush=True)


main()
