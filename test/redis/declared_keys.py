# SPDX-License-Identifier: MIT
"""declared_keys.py LEAST COMMAND...: run COMMAND inside with_server, and see by MONITOR that no script touches a key that it has not
declared. Dragonfly, and some proxies, refuse such a script. At least LEAST different scripts must have run.

Redis feeds a monitor with a script first and then with the commands of it, one after the other, since it runs one script at a time."""
import os
import re
import socket
import subprocess
import sys
import threading

WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
LINE = re.compile(rb"^\+[0-9.]+ \[[0-9]+ (lua|[^\]]*)\] (.*)$")
END = b"declared_keys.py: the end"
NONE = {b"TIME", b"PUBLISH", b"PUBSUB", b"PING", b"SCRIPT", b"REPLICATE_COMMANDS", b"WAIT", b"INFO"}
ALL = {b"DEL", b"UNLINK"}
# Redlock's nodes sweep names that they come across, and ask whether such a name exists. A refusal does no harm (common.lua, ended).
NONE |= {b"EXISTS"}


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port))
    return connection, connection.makefile("rb")


class Monitor(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.wrong, self.scripts, self.calls, self.complete = port, {}, set(), 0, False
        self.connection, self.lines = connect(port)
        self.connection.sendall(b"MONITOR\r\n")
        if self.lines.readline() != b"+OK\r\n":
            sys.exit("no MONITOR")

    def run(self):
        script, declared = b"", set()
        for line in self.lines:
            found = LINE.match(line.rstrip(b"\r\n"))
            if not found:
                continue
            words = WORD.findall(found[2])
            command = words[0].upper()
            if found[1] != b"lua":
                if command in (b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO"):
                    script, count = words[1], int(words[2])
                    declared = set(words[3:3 + count])
                    self.scripts.add(script)
                elif command == b"ECHO" and words[1] == END:
                    self.complete = True
                    return
                continue
            self.calls += 1
            if command in NONE:
                continue
            for key in words[1:] if command in ALL else words[1:2]:
                if key not in declared:
                    self.wrong.setdefault((script[:60], command), key)

    def end(self):
        connection, answers = connect(self.port)
        connection.sendall(b'*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n' % (len(END), END))
        answers.readline()
        self.join(60)


def main():
    least, command = int(sys.argv[1]), sys.argv[2:]
    ports = [int(port) for port in re.findall(r"127\.0\.0\.1:([0-9]+)", os.environ["HOLDFAST_TEST_URL"])]
    monitors = [Monitor(port) for port in ports]
    for monitor in monitors:
        monitor.start()
    status = subprocess.run(command, check=False).returncode
    for monitor in monitors:
        monitor.end()
        for (script, name), key in monitor.wrong.items():
            print(f"undeclared: {name.decode()} {key.decode()} in {script.decode()}")
    scripts = set().union(*(monitor.scripts for monitor in monitors))
    print(f"{len(scripts)} scripts, {sum(monitor.calls for monitor in monitors)} commands of theirs")
    if status or any(monitor.wrong or not monitor.complete for monitor in monitors) or len(scripts) < least:
        sys.exit(f"command {status}, complete: {all(monitor.complete for monitor in monitors)}, scripts: {len(scripts)} of {least}")


main()
