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


def varint(data, at):
    """The number there, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 128:
            return value, at


def encoded(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def fields(data):
    """(number of the field, its type, its value) of a whole message; None: it is none."""
    at, out = 0, []
    try:
        while at < len(data):
            key, at = varint(data, at)
            value, end = varint(data, at)
            if key >> 3 == 0 or key & 7 not in (0, 2) or key & 7 == 2 and end + value > len(data):
                return None
            if key & 7 == 2:
                value, end = data[end:end + value], end + value
            out.append((key, value))
            at = end
    except IndexError:
        return None
    return out


def spoilt(data, header):
    """The message with each of its numbers asked about. Those of a response's header but the revision are not used."""
    out = b""
    for key, value in fields(data):
        if key & 7 == 0:
            out += encoded(key) + encoded(int(extreme(str(value).encode())) if not header or key >> 3 == 3 else value)
            continue
        inner = fields(value) if value else None
        if inner is not None and not value.isascii():
            value = spoilt(value, header is None and key >> 3 == 1)
        out += encoded(key) + encoded(len(value)) + value
    return out


def etcd(stream, send):
    """One frame of HTTP/2. A frame that is not one whole message of gRPC goes through as it is."""
    head = stream.take(9)
    payload = stream.take(int.from_bytes(head[:3], "big"))
    whole = head[3] == 0 and not head[4] & 8 and payload[:1] == b"\0" and int.from_bytes(payload[1:5], "big") == len(payload) - 5
    if whole and fields(payload[5:]) is not None:
        message = spoilt(payload[5:], None)
        payload = b"\0" + len(message).to_bytes(4, "big") + message
    send(len(payload).to_bytes(3, "big") + head[3:] + payload)


def converse(client, server):
    stream = Stream(server)
    begin_forward(client, server)
    while True:
        {"redis": redis, "etcd": etcd}[sys.argv[1]](stream, client.sendall)


run(int(sys.argv[2]), converse)
