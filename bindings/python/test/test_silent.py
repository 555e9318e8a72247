# SPDX-License-Identifier: MIT
"""A server that stops answering: the main thread waits no longer than it was told to, and signals reach it."""

import os
import signal
import socket
import threading
import time
import unittest
from typing import Any, List
from urllib.parse import urlsplit

import holdfast

from bed import LONG, StoreTest, is_server

ANSWER = 5  # seconds: op_timeout= of a store, after which it believes that no answer comes


class Relay:
    """Between a store and its server. hush(): from now on nothing arrives any more."""

    def __init__(self, host: str, port: int) -> None:
        self.to = (host, port)
        self.open = threading.Event()
        self.open.set()
        self.sockets: List[socket.socket] = [socket.create_server(("127.0.0.1", 0))]
        self.port = self.sockets[0].getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def hush(self) -> None:
        self.open.clear()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.sockets[0].accept()
            except OSError:
                return
            far = socket.create_connection(self.to)
            self.sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pump, args=(one, other), daemon=True).start()

    def pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while True:
                data = one.recv(65536)
                self.open.wait()
                if not data:
                    break
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        self.open.set()
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()


@unittest.skipUnless(is_server(), "the embedded store has no server")
class Silent(StoreTest):
    def setUp(self) -> None:
        super().setUp()
        parts = urlsplit(self.url)
        self.assertEqual(parts.scheme, "redis")
        assert parts.hostname is not None
        self.relay = Relay(parts.hostname, parts.port or 6379)
        self.addCleanup(self.relay.close)
        self.through = holdfast.open(self.url.replace(parts.netloc, f"127.0.0.1:{self.relay.port}"))
        self.addCleanup(self.through.close, release=True)
        with self.through.lock("x"):
            pass
        self.relay.hush()

    def test_wait_of_the_main_thread(self) -> None:
        began = time.monotonic()
        with self.assertRaises((holdfast.Timeout, holdfast.Unknown)):
            self.through.lock("x", wait=1).acquire()
        took = time.monotonic() - began
        self.assertTrue(1 <= took < ANSWER - 1, f"it took {took:.1f} s")

    def test_all_of_the_main_thread(self) -> None:
        began = time.monotonic()
        with self.assertRaises((holdfast.Timeout, holdfast.Unknown, holdfast.Unavailable)):
            self.through.all([self.through.lock("x"), self.through.lock("y")], wait=1).acquire()
        self.assertLess(time.monotonic() - began, ANSWER - 1)

    def test_signal(self) -> None:
        class Interrupt(Exception):
            pass

        def handler(number: int, frame: Any) -> None:
            raise Interrupt

        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        began = time.monotonic()
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with self.assertRaises(Interrupt):
            self.through.lock("x").acquire()
        self.assertLess(time.monotonic() - began, ANSWER - 1)

    def test_cancel(self) -> None:
        """It ends what goes on after the try, too."""
        cancel = holdfast.Cancel()
        timer = threading.Timer(0.1, cancel.fire)
        timer.start()
        began = time.monotonic()
        with self.assertRaises((holdfast.Cancelled, holdfast.Unknown)):
            self.through.lock("x", cancel=cancel).acquire()
        self.assertLess(time.monotonic() - began, ANSWER - 1)

    def test_close_with_many_leases(self) -> None:
        """Closing waits for the server once, and not once for each lease."""
        self.relay.open.set()
        store = holdfast.open(f"redis://127.0.0.1:{self.relay.port}?op_timeout=1s&connect_timeout=500ms")
        leases = [store.lock(f"x{i}").acquire() for i in range(40)]
        self.relay.hush()
        began = time.monotonic()
        store.close(release=True)
        self.assertLess(time.monotonic() - began, 20)  # of forty
        self.assertTrue(all(lease.lost for lease in leases))

    def test_goes_on_when_the_server_is_back(self) -> None:
        """A try that was cut short is no failure: the wait goes on, and nothing of it is left behind."""
        timer = threading.Timer(1, self.relay.open.set)
        timer.start()
        self.through.lock("x", wait=LONG).acquire().release()
        self.await_free("x")
