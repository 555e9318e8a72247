#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A feed for the page: the events of /api/v1/watch with as many names as asked for, invented. feed.py [NAMES [PORT]]

It exists for the one thing that no real store does on demand: 10,000 names and 1,000 waiters that change all the time. What the page
shows is tested with the real server (page.py); this feed tests only that the page stays fluent. It prints its port.
"""
import http.server
import json
import pathlib
import random
import sys
import threading
import time

PAGE = pathlib.Path(__file__).resolve().parents[2] / "see" / "page"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"
CHANGED = 200  # rows that change four times a second
WAITERS = 1000
HOSTS = ["web-1", "web-2", "app-3", "app-7", "db-1", "jobs-2", "mail-1", "media-2"]
PROGRAMS = ["worker", "resize", "search", "imap", "backup.sh", "release 2.14.1", "ffmpeg"]


def now():
    return int(time.time() * 1000)


def holder(rand):
    pid = rand.randrange(700, 32000)
    return {"label": f"app@{rand.choice(HOSTS)}:{pid} {rand.choice(PROGRAMS)}", "pid": pid, "permits": 1, "detached": False}


def make_row(i, rand):
    since = now() - rand.choice([18, 92, 310, 1400, 24000, 372000])
    semaphore = i % 50 == 7
    waiters = 9 if i % 91 == 0 else 0
    state = "wanted" if waiters else "held"
    return {"key": f"k{i:05d}", "name": f"shard/{i:05d}", "kind": "semaphore" if semaphore else "mutex", "capacity": 5 if semaphore else 1,
            "taken": 5 if semaphore else 1, "state": state, "waiters": waiters, "since": str(since), "until": str(now() + 30000), "lost_at": None,
            "token": str(1794789100000000 + i), "holder": holder(rand), "more_holders": 4 if semaphore else 0, "p50": "14", "p99": "400000",
            "handovers": [rand.randrange(0, 9) for _ in range(24)], "closed_until": None}


class Feed:
    def __init__(self, names):
        self.rand = random.Random(7)
        self.rows = [make_row(i, self.rand) for i in range(names)]

    def total(self):
        wanted = sum(1 for row in self.rows if row["state"] == "wanted")
        return {"names": len(self.rows), "waiters": WAITERS, "deadlock": 0, "at_risk": 0, "lost": 0, "wanted": wanted,
                "held": len(self.rows) - wanted, "idle": 0, "waiting": 0}

    def change(self):
        changed = self.rand.sample(self.rows, min(CHANGED, len(self.rows)))
        for row in changed:
            row["since"], row["holder"], row["token"] = str(now()), holder(self.rand), str(int(row["token"]) + 1000)
            row["handovers"] = row["handovers"][1:] + [self.rand.randrange(0, 9)]
        return changed

    def graph(self):
        nodes = [{"id": str(i), "label": f"app@web-1:{i} worker {i}", "pid": i, "has": [{"name": f"shard/{i:05d}", "token": str(i)}] if i < 100 else []}
                 for i in range(WAITERS)]
        edges = [{"from": str(i), "to": str(i % 100), "name": f"shard/{i % 100:05d}", "since": str(now() - i * 100)} for i in range(100, WAITERS)]
        return {"store": "0", "nodes": nodes, "edges": edges, "circles": [], "folded": 0}

    def history(self):
        return [{"at": str(now() - 1000 * (900 - i)), "handovers": 1100 + self.rand.randrange(200), "wait_p50": 0.9, "wait_p99": 212.0 + i % 40,
                 "hold_p50": 14.0, "hold_p99": 5400.0, "away": 400 < i < 440} for i in range(900)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/api/v1/watch":
            self.watch()
            return
        file = PAGE / ("index.html" if path == "/" else path[1:])
        body = file.read_bytes() if "/" not in path[1:] and file.is_file() else None
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", TYPES.get(file.suffix, "text/plain"))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())

    def watch(self):
        feed = self.server.feed
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.event("hello", {"version": "feed", "now": str(now()), "rights": {"break": False, "lease": False}, "stores": [
                {"id": "0", "name": "shop", "location": "redis://10.0.0.4", "engine": "redis", "waiters_tracked": True, "tokens": True}]})
            self.event("state", {"store": "0", "up": True, "since": str(now()), "next_try": None, "text": None, "latency_us": 400})
            self.event("names", {"store": "0", "reset": True, "total": feed.total(), "set": feed.rows, "gone": []})
            self.event("graph", feed.graph())
            self.event("history", {"store": "0", "reset": True, "interval_ms": 1000, "points": feed.history()})
            while True:
                time.sleep(0.25)
                self.event("names", {"store": "0", "reset": False, "total": feed.total(), "set": feed.change(), "gone": []})
                self.wfile.flush()
        except OSError:
            pass  # the page went away


def serve(names, port=0):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.feed = Feed(names)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    running = serve(int(sys.argv[1]) if len(sys.argv) > 1 else 10000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(running.server_address[1], flush=True)
    threading.Event().wait()
