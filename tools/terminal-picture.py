#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draw docs/terminal.svg from a real run: terminal-picture.py HOLDFAST OUT.svg

Three machines and one Redis server: web-1 has a lock; web-2 waits for it, gets it and is killed; web-3 gets it after that; and a write
of the killed one that arrives late is refused. Every line in the picture is what these commands printed. Two things are not as on a
screen: the wait line of web-2, which the command erases when it gets the lock, is kept; and the titles, the colours and the arrow are
drawn.

The machines are namespaces on this one (unshare: host name, processes, mounts, a loopback of their own) with a user named ops, so that
neither the name nor a user of this machine gets into the picture. Each step is typed when the one before it has printed what it
should. Pids, tokens and times differ from run to run; the layout does not. Needs redis-server, unshare(1), ip(8), and root or the
right to make user namespaces.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from xml.sax.saxutils import escape

INSIDE = "HOLDFAST_PICTURE_INSIDE"
LIMIT = 30  # seconds for one step

# What the machines run: it writes to the resource, says under which token, and ends when it is told to.
UPGRADE = """#!/bin/sh
holdfast guard site --set "$1" && echo "$1 is written, token $HOLDFAST_TOKEN"
read -r _ <"$GATES/$1"
"""

# ---- the run -----------------------------------------------------------------------------------


class Machine:
    """An interactive shell on a terminal of its own, in namespaces with this host name."""

    def __init__(self, name, columns, env):
        self.name, self.raw, self.seen = name, "", 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env, PS1="$ ", TERM="xterm", HISTFILE="")
            os.execvp("unshare", ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c",
                                  f"hostname {name}; exec bash --norc --noprofile --noediting -i"])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.expect(r"\$ $")

    def expect(self, pattern):
        """Wait until this is printed after all that was expected before."""
        end = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.raw[self.seen:])):
            if time.monotonic() > end:
                sys.exit(f"{self.name}: no {pattern!r} in {self.raw!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                self.raw += os.read(self.fd, 65536).decode()
        self.seen += match.end()
        return match

    def type(self, line):
        os.write(self.fd, (line + "\n").encode())
        self.expect(re.escape(line) + r"\r\n")

    def run(self, line):
        """Type it, and wait for the prompt."""
        self.type(line)
        self.expect(r"(^|\n)\$ $")

    def forget(self):
        self.raw, self.seen = "$ ", 2

    def lines(self, keep_wait_line=False):
        """What the terminal showed; of a wait line, which is drawn again each second, at most its last state."""
        shown = []
        for line in self.raw.split("\n"):
            states = [state for state in line.replace("\x1b[K", "").split("\r") if state]
            waits = [state for state in states if state.startswith("waiting for ")]
            shown += waits[-1:] if keep_wait_line else []
            shown += [state for state in states if state not in waits][-1:]
        return [line for line in shown if line.strip() != "$"]


def perform(holdfast, directory):
    """Returns the lines of the three terminals, and the tokens of the last two holders."""
    os.mkdir(f"{directory}/bin")
    os.symlink(holdfast, f"{directory}/bin/holdfast")
    with open(f"{directory}/bin/upgrade", "w") as script:
        script.write(UPGRADE)
    os.chmod(f"{directory}/bin/upgrade", 0o755)
    for version in "2.14", "2.15", "2.16":
        os.mkfifo(f"{directory}/{version}")

    def end(version):
        with open(f"{directory}/{version}", "w") as gate:
            gate.write("go\n")

    env = {"PATH": f"{directory}/bin:{os.environ['PATH']}", "GATES": directory, "HOLDFAST_CONFIG": "/dev/null", "NO_COLOR": "1"}
    web1, web2, web3 = (Machine(f"web-{i + 1}", columns, env) for i, columns in enumerate(COLUMNS))
    for machine in web1, web2, web3:
        machine.run("export HOLDFAST_STORE=redis://db")
    web3.forget()

    web1.type("holdfast run deploy -- upgrade 2.14")
    web1.expect(r"token \d+\r\n")
    web2.type("holdfast run --ttl 3s deploy -- upgrade 2.15")
    web2.expect("upgrade for 2s; position 1 of 1")
    web3.run("holdfast ls")

    end("2.14")
    web1.expect(r"\$ $")
    killed = web2.expect(r"token (\d+)\r\n").group(1)
    web3.type(f"{'holdfast run deploy -- upgrade 2.16':66}   # web-2 is killed: its lease ends by its ttl")
    web3.expect(r"held by ops@web-2\S+ upgrade for ")
    # In this namespace of processes there is no other one.
    victim = subprocess.run(["pgrep", "-f", "^holdfast run --ttl"], capture_output=True, text=True, check=True)
    os.kill(int(victim.stdout), signal.SIGKILL)
    web2.expect(r"Killed[^\n]*\n")
    after = web3.expect(r"token (\d+)\r\n").group(1)
    end("2.16")
    web3.expect(r"\$ $")
    web3.run(f"{f'holdfast guard site --token {killed} --set 2.15; echo $?':66}   # a write of web-2 arrives late")
    return [web1.lines(), web2.lines(keep_wait_line=True), web3.lines()], killed, after


def stage(holdfast, out):
    """In namespaces of our own: a host named db, a user named ops, a Redis server on the port that needs no mention."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-picture.") as directory:
        for name, text in ("passwd", "ops:x:0:0::/:/bin/sh\n"), ("hosts", "127.0.0.1 localhost db\n"):
            with open(f"{directory}/{name}", "w") as file:
                file.write(text)
            subprocess.run(["mount", "--bind", f"{directory}/{name}", f"/etc/{name}"], check=True)
        server = subprocess.Popen(["redis-server", "--bind", "127.0.0.1", "--save", "", "--dir", directory],
                                  stdout=subprocess.PIPE, text=True)
        while "Ready to accept connections" not in (line := server.stdout.readline()):
            if not line:
                sys.exit("the Redis server does not start")
        svg = draw(*perform(holdfast, directory))
        server.terminate()
        server.wait()
    with open(out, "w") as file:
        file.write(svg)


# ---- the picture -------------------------------------------------------------------------------

COLUMNS = 41, 74, 118  # of the terminals; the two upper ones stand side by side
CHAR, ROW, PAD, HEADER, GAP = 8, 20, 16, 34, 14
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
SANS = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
TITLES = "web-1 has the lock", "web-2 waits for it, gets it, and is killed", \
    "web-3 sees who holds it, gets it after the killed one, and a late write is refused"
STYLE = f"""
    text {{ font: 13px {MONO}; fill: #d3dbe4; white-space: pre; }}
    .title {{ font: 13px {SANS}; }} .badge {{ font: 700 11px {SANS}; fill: #0d141c; }}
    .prompt {{ fill: #5fd39a; }} .typed {{ fill: #ffffff; font-weight: 700; }} .note {{ fill: #95a1af; }}
    .wait {{ fill: #ffcc4d; }} .bad {{ fill: #ff8f86; }} .old {{ fill: #d9a5f3; }} .new {{ fill: #86c0fb; }}"""


def pieces(line, killed, after):
    """The line in runs of one style: (first column, text, class)."""
    tokens = {killed: "old", after: "new"}
    ground, runs, column = "", [], 0
    if line.startswith("$ "):
        runs.append((0, "$", "prompt"))
        line, column, ground = line[2:], 2, "typed"
        line, mark, note = line.partition(" # ")
        if mark:
            runs.append((column + len(line) + 1, mark.strip() + " " + note, "note"))
    elif line.startswith("waiting for "):
        ground = "wait"
    elif line.startswith(("holdfast: ", "Killed", "76")):
        ground = "bad"
    elif line.startswith("NAME "):
        ground = "note"
    for part in re.split(rf"({killed}|{after})", line):
        text = part.strip()
        if text:
            runs.append((column + len(part) - len(part.lstrip()), text, tokens.get(text, ground)))
        column += len(part)
    return runs


def terminal(number, x, y, columns, rows, lines, tokens):
    """One window. textLength keeps the columns with any font that the reader's machine has."""
    width, height = int(2 * PAD + columns * CHAR), HEADER + 2 * PAD + rows * ROW - 4
    title = TITLES[number - 1]
    out = [f'<rect x="{x}.5" y="{y}.5" width="{width - 1}" height="{height - 1}" rx="10" fill="#0d141c" stroke="#394655"/>',
           f'<path d="M{x + 1} {y + HEADER}v-{HEADER - 11}a10 10 0 0 1 10-10h{width - 22}a10 10 0 0 1 10 10v{HEADER - 11}z" fill="#1b2531"/>',
           f'<circle cx="{x + PAD + 9}" cy="{y + 17}" r="9" fill="#86c0fb"/>',
           f'<text class="badge" x="{x + PAD + 9}" y="{y + 21}" text-anchor="middle">{number}</text>',
           f'<text class="title" x="{x + PAD + 27}" y="{y + 22}">{escape(title)}</text>']
    for row, line in enumerate(lines):
        for column, text, style in pieces(line, *tokens):
            out.append(f'<text{f" class={chr(34)}{style}{chr(34)}" if style else ""} x="{x + PAD + column * CHAR}" '
                       f'y="{y + HEADER + PAD + 10 + row * ROW}" textLength="{len(text) * CHAR}" lengthAdjust="spacingAndGlyphs" '
                       f'xml:space="preserve">{escape(text)}</text>')
    return "\n".join(out), width, height


def draw(terminals, killed, after):
    tokens, upper = (killed, after), max(len(lines) for lines in terminals[:2])
    left, width, height = terminal(1, 0, 0, COLUMNS[0], upper, terminals[0], tokens)
    right, more, _ = terminal(2, width + GAP, 0, COLUMNS[1], upper, terminals[1], tokens)
    total = width + GAP + more
    below, _, lower = terminal(3, 0, height + GAP, (total - 2 * PAD) / CHAR, len(terminals[2]), terminals[2], tokens)
    # From what web-1 printed last to what web-2 printed when it was woken.
    begin = PAD + len(terminals[0][-1]) * CHAR + 6, HEADER + PAD + 6 + (len(terminals[0]) - 1) * ROW
    end = width + GAP + PAD - 5, HEADER + PAD + 6 + 3 * ROW
    arrow = (f'<path d="M{begin[0]} {begin[1]}C{begin[0] + 40} {begin[1]} {end[0] - 40} {end[1]} {end[0] - 7} {end[1]}" fill="none" '
             f'stroke="#5fd39a" stroke-width="2"/><path d="M{end[0]} {end[1]}l-9-5v10z" fill="#5fd39a"/>'
             f'<text class="title" style="fill:#5fd39a;font-weight:600" x="{PAD + 21 * CHAR}" y="{end[1] + 5}">the release hands it over</text>')
    spoken = escape(" / ".join(f"{title}: " + "; ".join(lines) for title, lines in zip(TITLES, terminals)))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height + GAP + lower}" \
viewBox="0 0 {total} {height + GAP + lower}" role="img" aria-labelledby="t d">
<!-- Made by tools/terminal-picture.py from a real run; "make pictures" makes it again. -->
<title id="t">Three machines and one lock on Redis</title>
<desc id="d">{spoken}</desc>
<style>{STYLE}
</style>
{left}
{right}
{below}
{arrow}
</svg>
"""


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n")[0])
    binary, picture = (os.path.abspath(path) for path in sys.argv[1:])
    if os.environ.get(INSIDE):
        stage(binary, picture)
    else:
        os.environ[INSIDE] = "1"
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", *user, "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child",
                              sys.executable, "-B", __file__, binary, picture])
