#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Peers beside Holdfast and a client by hand, on one server at a time, in alternating rounds.

run.py BUILD DIR SECONDS [GROUP...]: DIR is where install.sh put the peers; peers.json and peers.svg go there too.
A group is a server: redis, redlock, postgres, etcd, zookeeper. README.md has the orders that a peer understands.
"""
import json
import os
import statistics
import subprocess
import sys

from draw import draw

HOLD_US = 1000
TASKS = 16
PAIR_ROUNDS = 7
QUEUE_ROUNDS = 3
HERE = os.path.dirname(os.path.abspath(__file__))


class Peer:
    """A program of a peer: how it is started, and how many tasks a process of it has in a queue."""

    def __init__(self, name, argv, tasks=1, retries=(0,), env=None, queue_name=None):
        self.name, self.argv, self.tasks, self.retries, self.env = name, argv, tasks, retries, env or {}
        self.queue_name = queue_name or name
        self.workers = []

    def start(self, tasks):
        worker = subprocess.Popen([*self.argv, str(tasks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, **self.env}, text=True)
        self.workers.append(worker)
        return worker

    def order(self, workers, line):
        for worker in workers:
            worker.stdin.write(line + "\n")
            worker.stdin.flush()
        return [json.loads(self.read(worker)) for worker in workers]

    def read(self, worker):
        line = worker.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {worker.wait()}")
        return line

    def end(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()
        self.workers = []


def servers(build, group):
    """The server of a group, as arguments of with_server."""
    kind = {"redlock": ["redis", "-R", "5"]}.get(group, [group])
    return [os.path.join(build, "bin/test/with_server"), *kind]


def peers(build, place, group, url):
    """Those of a group; the first is the client by hand, if there is one."""
    ours = os.path.join(build, "bin/peer_ours")
    hosts = url.split("://")[1].split("?")[0].split("/")[0]
    ports = ",".join(host.split(":")[1] for host in hosts.split(","))
    go = os.path.join(place, "go/peer")
    java = ["java", "-XX:+UseSerialGC", "-Xmx192m", "-cp",
            f"{place}/java:{read(place, 'java/classpath')}", "Peer"]
    holdfast = Peer("Holdfast", [ours, "holdfast", url])
    redsync = Peer("redsync", [go, "redsync", hosts], 4, (0, 1))
    rslock = Peer("rslock", [f"{place}/rslock/target/release/peer-rslock", "rslock", hosts], 4, (0, 1))
    node = Peer("node-redlock", ["node", f"{HERE}/node_redlock.js", "node-redlock", hosts], 1, (0, 1),
                {"NODE_PATH": f"{place}/node/node_modules"})
    redis_py = Peer("redis-py", [f"{place}/python/bin/python", f"{HERE}/redis_py.py", "redis-py", hosts], 1, (0, 1))
    plain = url.split("?")[0]
    return {
        "redis": lambda: [Peer("SET NX, by hand", [ours, "raw-redis", ports], queue_name="raw queue, by hand"), holdfast,
                          redsync, rslock, redis_py, Peer("redisson", [*java, "redisson", hosts], 8),
                          Peer("redisson-fair", [*java, "redisson-fair", hosts], 8)],
        "redlock": lambda: [Peer("SET NX to five, by hand", [ours, "raw-redlock", ports],
                                 queue_name="raw queue on one of five"), holdfast, redsync, rslock, node],
        "postgres": lambda: [Peer("advisory lock, by hand", [ours, "raw-advisory", plain]),
                             Peer("Holdfast, mode=session", [ours, "holdfast", url + "&mode=session"]),
                             Peer("Holdfast, mode=lease", [ours, "holdfast", url + "&mode=lease"]),
                             Peer("pgx", [go, "pgx", plain], 4)],
        "etcd": lambda: [Peer("etcd-go", [go, "etcd", hosts], 4), holdfast],
        "zookeeper": lambda: [Peer("create and delete, by hand", [ours, "raw-zk", hosts], queue_name="the recipe, by hand"),
                              holdfast, Peer("curator", [*java, "curator", hosts], 8)],
    }[group]()


def read(place, name):
    try:
        with open(os.path.join(place, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def jain(counts):
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / (len(counts) * squares) if squares else 0


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else None


def hand_offs(answers):
    """How often the name went to another task than before."""
    order = sorted((at, worker, task) for worker, answer in enumerate(answers)
                   for at, task in zip(answer["at"] or [], answer.get("task") or [0] * len(answer["at"] or [])))
    return sum(after[1:] != before[1:] for before, after in zip(order, order[1:]))


def ready(peer, workers, skipped):
    """False: it does not start; that is said, and it is left out."""
    try:
        for worker in workers:
            peer.read(worker)
        return True
    except RuntimeError as error:
        skipped[peer.name] = str(error)
        peer.end()
        return False


def pairs(group, seconds, skipped):
    rates = {}
    running = [(peer, [peer.start(1)]) for peer in group]
    running = [(peer, workers) for peer, workers in running if ready(peer, workers, skipped)]
    for number in range(PAIR_ROUNDS + 1):
        for peer, workers in running if number % 2 else reversed(running):
            answer = peer.order(workers, f"pair {seconds / 2}")[0]
            if number > 0:  # the first warms up
                rates.setdefault(peer.name, []).append(sum(answer["counts"]) / answer["took"])
    for peer, _ in running:
        peer.end()
    return rates


def queues(group, seconds, skipped):
    found = {}
    running = [(peer, [peer.start(peer.tasks) for _ in range(TASKS // peer.tasks)])
               for peer in group if peer.name not in skipped]
    running = [(peer, workers) for peer, workers in running if ready(peer, workers, skipped)]
    for number in range(QUEUE_ROUNDS):
        for peer, workers in running if number % 2 else reversed(running):
            for retry in peer.retries:
                answers = peer.order(workers, f"queue {seconds * 2} {HOLD_US} {retry}")
                counts = [count for answer in answers for count in answer["counts"]]
                waits = [wait for answer in answers for wait in answer["waits"] or []]
                name = peer.queue_name + (f", tries each {retry} ms" if retry else "")
                found.setdefault(name, []).append({
                    "rate": hand_offs(answers) / answers[0]["took"], "acquisitions": sum(counts) / answers[0]["took"],
                    "jain": jain(counts),
                    "starved": sum(count == 0 for count in counts),
                    "p50_ms": (quantile(waits, 0.5) or 0) / 1000, "p99_ms": (quantile(waits, 0.99) or 0) / 1000})
    for peer, _ in running:
        peer.end()
    return found


def ratios(rates, base):
    """Medians of the ratios within rounds."""
    return {name: statistics.median(a / b for a, b in zip(own, rates[base]) if b) for name, own in rates.items()}


def measure(build, place, group, seconds, unavailable):
    url = os.environ["HOLDFAST_TEST_URL"].replace("{id}", "peers")
    skipped = {}
    there = []
    for peer in peers(build, place, group, url):
        if peer.name.removesuffix("-fair") in unavailable:
            skipped[peer.name] = unavailable[peer.name.removesuffix("-fair")]
        else:
            there.append(peer)
    rates = pairs(there, seconds, skipped)
    queued = queues(there, seconds, skipped)
    base = next(iter(peer.name for peer in there if peer.name in rates), None)
    queue_base = next(iter(peer.queue_name for peer in there if peer.queue_name in queued), None)
    by_rate = ratios(rates, base)
    by_queue = ratios({name: [each["rate"] for each in own] for name, own in queued.items()}, queue_base)
    return {
        "group": group, "base": base, "queue_base": queue_base, "skipped": skipped,
        "pair": {name: {"rate": statistics.median(own), "ratio": by_rate[name]} for name, own in rates.items()},
        "queue": {name: {"ratio": by_queue[name],
                         **{key: statistics.median(each[key] for each in own) for key in own[0]}}
                  for name, own in queued.items()},
    }


def show(result):
    print(f"\n{result['group']}: acquire and release, one task")
    for name, own in sorted(result["pair"].items(), key=lambda item: -item[1]["ratio"]):
        print(f"  {name:34} {own['rate']:10.0f} /s  {own['ratio']:5.2f} of {result['base']}")
    print(f"{result['group']}: {TASKS} tasks want one name, held 1 ms: hand-overs to another task")
    for name, own in sorted(result["queue"].items(), key=lambda item: -item[1]["ratio"]):
        print(f"  {name:34} {own['rate']:10.0f} /s  {own['ratio']:5.2f}  p50 {own['p50_ms']:8.1f} ms  "
              f"p99 {own['p99_ms']:8.1f} ms  Jain {own['jain']:.2f}  starved {own['starved']:.0f}")
    for name, why in result["skipped"].items():
        print(f"  skipped: {name}: {why}")


def main():
    if sys.argv[1] == "--inside":  # with_server has started the server of this group
        build, place, seconds, group = sys.argv[2:6]
        print(json.dumps(measure(build, place, group, float(seconds), dict(
            line.split(": ", 1) for line in read(place, "skipped").splitlines()))))
        return 0
    build, place, seconds = sys.argv[1:4]
    results = []
    for group in sys.argv[4:] or ["redis", "redlock", "postgres", "etcd", "zookeeper"]:
        done = subprocess.run([*servers(build, group), sys.executable, os.path.abspath(__file__), "--inside", build, place,
                               seconds, group], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            print(f"\n{group}: failed with status {done.returncode}")
            continue
        results.append(json.loads(done.stdout.splitlines()[-1]))
        show(results[-1])
    with open(os.path.join(place, "peers.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    with open(os.path.join(place, "peers.svg"), "w", encoding="utf-8") as file:
        file.write(draw(results))
    print(f"\n{place}/peers.svg, peers.json")
    return 0 if results else 1


if __name__ == "__main__":
    sys.exit(main())
