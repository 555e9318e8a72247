#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""redis-py's Lock as a peer. Orders and answers: README.md.   redis_py.py redis-py HOST:PORT 1"""
import json
import sys
import time

import redis


def pair(lock, seconds):
    start = time.monotonic()
    count = 0
    while time.monotonic() - start < seconds:
        lock.acquire()
        lock.release()
        count += 1
    return {"took": time.monotonic() - start, "counts": [count], "waits": []}


def queue(lock, seconds, hold_s):
    end = time.monotonic() + seconds
    waits, at = [], []
    while (since := time.monotonic()) < end:
        lock.acquire()
        got = time.monotonic()
        if got < end:
            waits.append(round((got - since) * 1e6))
            at.append(time.time_ns() // 1000)
        while time.monotonic() < got + hold_s:
            pass
        lock.release()
    return {"took": seconds, "counts": [len(waits)], "waits": waits, "at": at}


def main():
    host, port = sys.argv[2].split(":")
    client = redis.Redis(host=host, port=int(port))
    client.ping()
    print("ready", flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        numbers = [float(number) for number in numbers]
        sleep = numbers[2] / 1000 if order == "queue" and numbers[2] else 0.1
        lock = client.lock("redis-py-name", timeout=30, sleep=sleep)
        answer = pair(lock, numbers[0]) if order == "pair" else queue(lock, numbers[0], numbers[1] / 1e6)
        print(json.dumps(answer), flush=True)


main()
