#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two workers, a token, a loss: workers.py [URL]. Without a URL: an embedded store in a temporary folder."""

import sys
import tempfile
import threading
import time
from typing import List

import holdfast


class Program:
    """What both workers know. Each step waits for the one before by an event, never by sleeping a while."""

    def __init__(self, store: holdfast.Store) -> None:
        self.store = store
        self.page = store.guard("page")
        self.first_wrote = threading.Event()
        self.first_lost = threading.Event()
        self.second_wrote = threading.Event()
        self.first_refused = threading.Event()
        self.token = 0

    def on_event(self, event: holdfast.Event, text: str) -> None:
        """Comes on a thread of the library."""
        if event == holdfast.Event.LOST:
            print("first: lost report", flush=True)
            self.first_lost.set()

    def first(self) -> None:
        lease = self.store.lock("report", on_event=self.on_event).acquire()
        self.token = lease.fence()
        print(f"first: holds report, token {self.token}", flush=True)
        self.page.claim(self.token)
        self.page.set(self.token, b"by first")
        print("first: wrote page", flush=True)
        self.first_wrote.set()
        self.second_wrote.wait()
        try:  # it does not look whether it still holds the lock
            self.page.set(self.token, b"by first, too late")
        except holdfast.Fenced:
            print("first: refused, a newer token was used", flush=True)
        self.first_refused.set()
        try:
            lease.release()
        except holdfast.Lost:
            pass

    def second(self) -> None:
        # strict: it waits in the store, where inspection sees it, and not in a queue of this process.
        with self.store.lock("report", strict=True, label="second") as lease:
            self.first_lost.wait()
            print(f"second: holds report, token {lease.fence()}", flush=True)
            self.page.claim(lease)
            self.page.set(lease, b"by second")
            print("second: wrote page", flush=True)
            self.second_wrote.set()
            self.first_refused.wait()
        print("second: released", flush=True)

    def is_waiting(self) -> bool:
        return any(waiter.label == "second" for entry in self.store.inspect("report").entries for waiter in entry.waiters)

    def run(self) -> None:
        threads: List[threading.Thread] = [threading.Thread(target=self.first), threading.Thread(target=self.second)]
        threads[0].start()
        self.first_wrote.wait()
        threads[1].start()
        while not self.is_waiting():
            time.sleep(0.001)
        self.store.break_lease("report", self.token)  # as an operator would
        for thread in threads:
            thread.join()
        with self.store.lock("report") as lease:
            print("page:", (self.page.claim(lease) or b"").decode(), flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        with holdfast.open(sys.argv[1]) as store:
            Program(store).run()
        return
    with tempfile.TemporaryDirectory() as folder, holdfast.open("file:" + folder) as store:
        Program(store).run()


if __name__ == "__main__":
    main()
