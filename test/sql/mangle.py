#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
A server that answers in the wrong shape: between a client and a real PostgreSQL or MariaDB, which it spoils one answer of.

    mangle.py postgres|mariadb SERVER_PORT

It prints the port that it listens on, then obeys lines on stdin and answers each with one line:

    spoil K HOW   the K-th answer with columns from now on (0: none) goes out spoiled; prints "ok"
    told          prints how many answers with columns went by since

HOW: none fewer more null types empty rows huge long least. Everything else goes through untouched.
"""
import os
import struct
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
sys.dont_write_bytecode = True

from spoil import begin_forward, run, turn  # noqa: E402


def spoil(how, columns, rows, server):
    """Columns are opaque to us but for what `server` does with them; a value is bytes, or None for NULL."""
    if how == "none":
        return [], [[] for _ in rows] or [[]]
    if how == "fewer":
        return columns[:-1], [row[:-1] for row in rows]
    if how == "more":
        return columns + columns[-1:], [row + row[-1:] for row in rows]
    if how == "null":
        return columns, [[None] * len(columns) for _ in rows or [[]]]
    if how == "types":
        return [server.other_type(c) for c in columns], rows
    if how == "empty":
        return columns, []
    if how == "rows":
        return columns, (rows or [[None] * len(columns)]) * 3
    if how == "huge":
        return columns, [[server.extreme(c, v, True) for c, v in zip(columns, row)] for row in rows]
    if how == "least":
        return columns, [[server.extreme(c, v, False) for c, v in zip(columns, row)] for row in rows]
    if how == "long":
        return columns, [[v if v is None else b"A" * 70000 for v in row] for row in rows]
    raise ValueError(how)


def take(sock, size):
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


# ---- PostgreSQL ---------------------------------------------------------------------------------------------------------

class Postgres:
    INT8, TEXT = 20, 25

    @staticmethod
    def other_type(column):
        name, tail = column
        kind, = struct.unpack_from("!i", tail, 6)
        return name, tail[:6] + struct.pack("!i", Postgres.TEXT if kind == Postgres.INT8 else Postgres.INT8) + tail[10:]

    @staticmethod
    def extreme(column, value, largest):
        kind, = struct.unpack_from("!i", column[1], 6)
        form, = struct.unpack_from("!h", column[1], 16)
        number = 2**63 - 1 if largest else -2**63
        if value is None or kind != Postgres.INT8:
            return value if value is None or largest else b""
        return struct.pack("!q", number) if form else str(number).encode()

    @staticmethod
    def message(kind, body):
        return kind + struct.pack("!i", len(body) + 4) + body

    @staticmethod
    def parse_columns(body):
        columns, at = [], 2
        for _ in range(struct.unpack_from("!h", body)[0]):
            end = body.index(0, at) + 1
            columns.append((body[at:end], body[end:end + 18]))
            at = end + 18
        return columns

    @staticmethod
    def parse_row(body):
        row, at = [], 2
        for _ in range(struct.unpack_from("!h", body)[0]):
            size, = struct.unpack_from("!i", body, at)
            row.append(None if size < 0 else body[at + 4:at + 4 + size])
            at += 4 + max(size, 0)
        return row

    def greet(self, client, server):
        while True:
            head = take(client, 8)
            size, code = struct.unpack("!ii", head)
            if code in (80877103, 80877104):  # TLS, GSS: no
                client.sendall(b"N")
                continue
            server.sendall(head + take(client, size - 8))
            return

    def answers(self, client, server):
        columns, rows = None, []
        while True:
            kind = take(server, 1)
            body = take(server, struct.unpack("!i", take(server, 4))[0] - 4)
            if kind == b"T":
                columns, rows = self.parse_columns(body), []
                continue
            if kind == b"D" and columns is not None:
                rows.append(self.parse_row(body))
                continue
            if columns is not None:
                how = turn()
                if how:
                    columns, rows = spoil(how, columns, rows, self)
                out = self.message(b"T", struct.pack("!h", len(columns)) + b"".join(n + t for n, t in columns))
                for row in rows:
                    out += self.message(b"D", struct.pack("!h", len(row)) + b"".join(
                        struct.pack("!i", -1) if v is None else struct.pack("!i", len(v)) + v for v in row))
                client.sendall(out)
                columns = None
            client.sendall(self.message(kind, body))


# ---- MariaDB ------------------------------------------------------------------------------------------------------------

def length(value):
    if value < 251:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + struct.pack("<H", value)
    return b"\xfd" + struct.pack("<I", value)[:3]


class Maria:
    LONGLONG, VAR_STRING = 8, 253

    def __init__(self):
        self.sequence = 0

    @staticmethod
    def kind(column):
        return column[-6]

    def other_type(self, column):
        other = self.VAR_STRING if self.kind(column) == self.LONGLONG else self.LONGLONG
        return column[:-6] + bytes([other]) + column[-5:]

    def extreme(self, column, value, largest):
        if value is None or self.kind(column) != self.LONGLONG:
            return value if value is None or largest else b""
        return str(2**63 - 1 if largest else -2**63).encode()

    @staticmethod
    def parse_row(body):
        row, at = [], 0
        while at < len(body):
            first = body[at]
            at += 1
            if first == 0xfb:
                row.append(None)
                continue
            wide = {0xfc: 2, 0xfd: 3, 0xfe: 8}.get(first, 0)
            size = int.from_bytes(body[at:at + wide], "little") if wide else first
            at += wide
            row.append(body[at:at + size])
            at += size
        return row

    def packet(self, sock):
        size = int.from_bytes(take(sock, 3), "little")
        sequence = take(sock, 1)[0]
        return sequence, take(sock, size)

    def send(self, sock, body):
        sock.sendall(struct.pack("<I", len(body))[:3] + bytes([self.sequence & 255]) + body)
        self.sequence += 1

    def greet(self, client, server):
        for _ in range(20):
            sequence, body = self.packet(server)
            self.sequence = sequence
            self.send(client, body)
            if body[0] in (0x00, 0xff) and sequence > 0:
                return
            if body[0] == 1 and len(body) == 2 and body[1] == 3:
                continue
            sequence, body = self.packet(client)
            self.sequence = sequence
            self.send(server, body)

    def answers(self, client, server):
        while True:
            self.sequence = 1
            more = True
            sequence, body = self.packet(server)  # of the next command
            while more:
                more = self.answer(client, server, body)
                if more:
                    body = self.packet(server)[1]

    def answer(self, client, server, body):
        """One result. True: another follows it."""
        if body[0] in (0x00, 0xff):
            self.send(client, body)
            if body[0] == 0xff:
                return False
            return bool(self.status_of_ok(body) & 8)
        columns = [self.packet(server)[1] for _ in range(body[0])]
        self.packet(server)  # EOF
        rows = []
        while True:
            last = self.packet(server)[1]
            if last[0] == 0xff or (last[0] == 0xfe and len(last) < 9):
                break
            rows.append(self.parse_row(last))
        how = turn()
        if how:
            columns, rows = spoil(how, columns, rows, self)
        if columns:
            self.send(client, length(len(columns)))
            for column in columns:
                self.send(client, column)
            self.send(client, b"\xfe\x00\x00\x02\x00")
            for row in rows:
                self.send(client, b"".join(b"\xfb" if v is None else length(len(v)) + v for v in row))
            self.send(client, last)
        else:  # no columns: that is an OK here
            self.send(client, b"\x00\x00\x00" + (last[3:5] if last[0] == 0xfe else b"\x02\x00") + b"\x00\x00")
        return last[0] == 0xfe and bool(last[3] & 8)

    @staticmethod
    def status_of_ok(body):
        at = 1
        for _ in range(2):
            first = body[at]
            at += 1 + {0xfc: 2, 0xfd: 3, 0xfe: 8}.get(first, 0)
        return int.from_bytes(body[at:at + 2], "little")


# ---- both ---------------------------------------------------------------------------------------------------------------

def converse(client, server):
    side = {"postgres": Postgres, "mariadb": Maria}[sys.argv[1]]()
    side.greet(client, server)
    begin_forward(client, server)
    side.answers(client, server)


run(int(sys.argv[2]), converse)
