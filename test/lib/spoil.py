# SPDX-License-Identifier: MIT
"""
A proxy that spoils what a server says, in a test's hands: it stands between a client and a real server, prints the port that it
listens on, obeys lines on stdin and answers each with one line:

    spoil K HOW   the K-th answer (or number) from now on (0: none) is spoiled in that way; prints "ok"
    told          prints how many went by since
"""
import os
import socket
import sys
import threading

lock = threading.Lock()
plan = {"left": 0, "how": None, "count": 0}


def turn():
    """How the one that goes by now is spoiled; None: not at all."""
    with lock:
        plan["count"] += 1
        if plan["left"] == 0:
            return None
        plan["left"] -= 1
        return plan["how"] if plan["left"] == 0 else None


def hang_up(*socks):
    for sock in socks:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def forward(client, server):
    """What clients say goes through as it is."""
    try:
        while True:
            data = client.recv(65536)
            if not data:
                break
            server.sendall(data)
    except OSError:
        pass
    hang_up(client, server)


def serve(client, port, converse):
    try:
        server = socket.create_connection(("127.0.0.1", port))
    except OSError:
        client.close()
        return
    for sock in (client, server):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        converse(client, server)
    except Exception:  # an end of the connection, or something that we do not understand: hang up
        pass
    hang_up(client, server)
    client.close()
    server.close()


def begin_forward(client, server):
    threading.Thread(target=forward, args=(client, server), daemon=True).start()


def obey():
    for line in sys.stdin:
        words = line.split()
        with lock:
            if words[0] == "spoil":
                plan.update(left=int(words[1]), how=words[2], count=0)
                print("ok", flush=True)
            else:
                print(plan["count"], flush=True)
    os._exit(0)


def run(port, converse):
    """converse(client, server) is the life of one connection; it calls begin_forward() when it has greeted both."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=obey, daemon=True).start()
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client, port, converse), daemon=True).start()
