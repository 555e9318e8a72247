#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Numbers that no sane server says: between a client and a real Redis or etcd, one number of whose answers becomes an extreme one.

    extreme.py redis|etcd SERVER_PORT

It prints the port that it listens on, then obeys lines on stdin and answers each with one line:

    spoil K NUMBER   the K-th number from now on (0: none) goes out as NUMBER; prints "ok"
    told             prints how many numbers went by since
"""
import os
import re
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
sys.dont_write_bytecode = True

from spoil import begin_forward, run, turn  # noqa: E402


def extreme(number):
    return (turn() or number.decode()).encode()


class Stream:
    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def more(self):
        got = self.sock.recv(65536)
        if not got:
            raise EOFError
        self.data += got

    def until(self, mark):
        while mark not in self.data:
            self.more()
        at = self.data.index(mark) + len(mark)
        out, self.data = self.data[:at], self.data[at:]
        return out

    def take(self, size):
        while len(self.data) < size:
            self.more()
        out, self.data = self.data[:size], self.data[size:]
        return out


def redis(stream, send):
    """One reply; of RESP2 and RESP3."""
    line = stream.until(b"\r\n")
    kind, rest = line[:1], line[1:-2]
    if kind == b":":
        send(b":" + extreme(rest) + b"\r\n")
        return
    send(line)
    if kind in b"$=!" and int(rest) >= 0:
        text = stream.take(int(rest) + 2)
        if text[:2] in (b"G ", b"L "):  # a message: its last numbers are numbers
            words = text[:-2].split(b" ")
            words[3:] = [extreme(word) for word in words[3:]]
            text = b" ".join(words) + b"\r\n"
            text = text if len(text) == int(rest) + 2 else text[:int(rest)].ljust(int(rest), b"9") + b"\r\n"
        send(text)
    elif kind in b"*>~" and rest != b"-1":
        for _ in range(int(rest)):
            redis(stream, send)
    elif kind == b"%":
        for _ in range(2 * int(rest)):
            redis(stream, send)


def etcd(stream, send):
    """One response. Streams (chunked) go through as they are."""
    head = stream.until(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *(\d+)", head)
    if not found:
        send(head)
        while True:
            if not stream.data:
                stream.more()
            send(stream.take(len(stream.data)))
    body = stream.take(int(found.group(1)))
    body = re.sub(rb'"((?!cluster_id|member_id|raft_term)\w+)":"(-?\d+)"', lambda m: b'"' + m.group(1) + b'":"' + extreme(m.group(2)) + b'"', body)
    send(head[:found.start(1)] + str(len(body)).encode() + head[found.end(1):] + body)


def converse(client, server):
    stream = Stream(server)
    begin_forward(client, server)
    while True:
        {"redis": redis, "etcd": etcd}[sys.argv[1]](stream, client.sendall)


run(int(sys.argv[2]), converse)
