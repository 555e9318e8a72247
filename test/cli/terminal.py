# SPDX-License-Identifier: MIT
"""What `holdfast run` does on a terminal. Each function is one scenario; tty.bats calls them by name.

A scenario starts a program on a pseudo terminal, types, and looks at what it prints and at the
states of processes. Whatever does not happen within LIMIT seconds is a failure.
"""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

LIMIT = 60


class Terminal:
    def __init__(self, *argv, env=()):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(dict(env), TERM="xterm", PS1="prompt> ")
            os.execvp(argv[0], argv)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        """Take in what is printed for at most so long; False: the terminal is closed."""
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            self.seen += data.decode(errors="replace")
            return bool(data)
        return True

    def expect(self, pattern):
        """Wait for it, and forget everything up to its end."""
        end = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < end, f"no {pattern!r} in {self.seen!r}"
            assert self.read(0.1) or re.search(pattern, self.seen), f"no {pattern!r} in {self.seen!r}"
        self.seen = self.seen[match.end():]
        return match

    def status(self):
        """The wait status of the program on the terminal."""
        end = time.monotonic() + LIMIT
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0.1) and select.select([self.fd], [], [], 0)[0]:
                    pass
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, f"it does not end: {self.seen!r}"
            self.read(0.05)


def shell():
    """An interactive bash, with job control, that is ready."""
    terminal = Terminal("bash", "--norc", "--noprofile", "-i")
    terminal.expect("prompt> ")
    return terminal


def until(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def state(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]


def show(name):
    import json
    return json.loads(subprocess.check_output(["holdfast", "show", name, "--json"]))


def is_free(name):
    return not show(name)["holders"]


def wait_for_file(path):
    until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, f"no {path}")
    return open(path).read().strip()


HOLD = "echo $$ >child.tmp; mv child.tmp child; exec sleep 1000"


def reads():
    """The command can read from the terminal."""
    t = Terminal("holdfast", "run", "x", "--", "sh", "-c", "read line; echo got $line")
    t.type("hello\n")
    t.expect("got hello")
    assert t.status() == 0


def ctrl_c():
    """Ctrl-C ends the command, and us by the same signal; the name is free."""
    t = Terminal("holdfast", "run", "x", "--", "sh", "-c", HOLD)
    wait_for_file("child")
    t.type("\x03")
    assert t.status() == -signal.SIGINT
    assert is_free("x")


def ctrl_c_handled():
    """A command that handles Ctrl-C goes on, and its status counts."""
    t = Terminal("holdfast", "run", "x", "--", "sh", "-c",
                 "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    t.expect("ready")
    t.type("\x03")
    t.expect("caught")
    assert t.status() == 7


def ctrl_c_while_waiting():
    """Ctrl-C while we wait leaves the queue."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    t = Terminal("holdfast", "run", "x", "--", "touch", "started")
    until(lambda: show("x")["waiters"], "does not wait")
    t.type("\x03")
    assert t.status() == -signal.SIGINT
    assert not show("x")["waiters"] and not os.path.exists("started")
    holder.terminate()
    holder.wait()


def ctrl_c_in_loops():
    """Ctrl-C ends the loop of a script around us, in bash and in dash, as without us."""
    for sh in "bash", "dash":
        if os.path.exists("child"):
            os.unlink("child")
        t = Terminal(sh, "-c", f"for i in 1 2 3; do holdfast run x -- sh -c '{HOLD}'; echo next; done; echo after")
        wait_for_file("child")
        t.type("\x03")
        assert t.status() == -signal.SIGINT, sh
        assert "next" not in t.seen and "after" not in t.seen, t.seen


def exit_code_in_shell():
    """A shell shows 130 after Ctrl-C."""
    t = shell()
    t.type(f"holdfast run x -- sh -c '{HOLD}'\n")
    wait_for_file("child")
    t.type("\x03")
    t.expect("prompt> ")
    t.type("echo code=$?\n")
    t.expect("code=130")


def ctrl_z():
    """Ctrl-Z stops the command and us; fg continues both, and the command has the terminal again."""
    t = shell()
    t.type("holdfast run x -- sh -c 'echo $$ >child; read a; echo first $a; read b; echo second $b'\n")
    child = wait_for_file("child")
    t.type("one\n")
    t.expect("first one")
    t.type("\x1a")
    t.expect("Stopped")
    until(lambda: state(child) == "T", "the command is not stopped")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid), "holdfast"], text=True).strip()
    until(lambda: state(run) == "T", "run is not stopped")
    assert not is_free("x")
    t.type("fg\n")
    until(lambda: state(child) != "T" and state(run) != "T", "not continued")
    t.type("two\n")
    t.expect("second two")
    t.expect("prompt> ")
    assert is_free("x")


def ctrl_z_script():
    """Ctrl-Z stops a script around us too: else its shell would seem to hang."""
    t = shell()
    t.type(f"dash -c \"holdfast run x -- sh -c '{HOLD}'; touch after\"\n".replace("$$", "\\$\\$"))
    child = wait_for_file("child")
    t.type("\x1a")
    t.expect("Stopped")
    t.type("fg\n")
    until(lambda: state(child) != "T", "not continued")
    t.type("\x03")
    t.expect("prompt> ")
    assert not os.path.exists("after")


def ctrl_z_while_waiting():
    """Ctrl-Z while we wait leaves the queue; fg queues again."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    t = shell()
    t.type("holdfast -q run x -- echo it is mine\n")
    until(lambda: show("x")["waiters"], "does not wait")
    t.type("\x1a")
    t.expect("Stopped")
    assert not show("x")["waiters"]
    t.type("fg\n")
    until(lambda: show("x")["waiters"], "does not wait again")
    holder.terminate()
    holder.wait()
    t.expect("[\r\n]it is mine")


def orphaned_ctrl_z():
    """Where nobody could continue us, Ctrl-Z stops nothing, as without us."""
    t = Terminal("holdfast", "run", "x", "--", "sh", "-c", "echo ready; read line; echo got $line")
    t.expect("ready")
    t.type("\x1a")
    time.sleep(0.3)
    t.type("hello\n")
    t.expect("got hello")
    assert t.status() == 0


def pipeline_reader():
    """In a pipeline the command gets the terminal when it first wants it."""
    t = shell()
    t.type("holdfast run x -- sh -c 'echo ready; read l </dev/tty; echo got $l' | cat\n")
    t.expect("[\r\n]ready")
    t.type("hello\n")
    t.expect("got hello")
    t.expect("prompt> ")


def pipeline_pager():
    """... so that a pager behind us can use it."""
    t = shell()
    t.type("holdfast run x -- sh -c 'echo $$ >child; while [ ! -e typed ]; do sleep 0.02; done' |"
           " sh -c 'read l </dev/tty; touch typed; cat; echo typed $l'\n")
    wait_for_file("child")
    time.sleep(0.3)
    t.type("hello\n")
    t.expect("typed hello")
    t.expect("prompt> ")


def pipeline_ctrl_c():
    """Ctrl-C in a pipeline ends the command too."""
    t = shell()
    t.type(f"holdfast run x -- sh -c '{HOLD}' | cat\n")
    child = wait_for_file("child")
    t.type("\x03")
    t.expect("prompt> ")
    until(lambda: not os.path.exists(f"/proc/{child}"), "the command lives")
    until(lambda: is_free("x"), "not free")


def background():
    """In the background a command that reads stops the job; fg lets it read."""
    t = shell()
    t.type("holdfast run x -- sh -c 'read l; echo got $l' &\n")
    t.expect("prompt> ")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid)], text=True).strip()
    until(lambda: state(run) == "T", "run is not stopped")
    t.type("\n")
    t.expect("Stopped")
    t.type("fg\n")
    until(lambda: state(run) != "T", "not continued")
    t.type("hello\n")
    t.expect("got hello")


def nested():
    """Two runs deep, the innermost command has the terminal; Ctrl-Z and fg work through both."""
    t = shell()
    t.type("holdfast run x -- holdfast run x -- sh -c 'echo $$ >child; read l; echo got $l'\n")
    child = wait_for_file("child")
    t.type("\x1a")
    t.expect("Stopped")
    until(lambda: state(child) == "T", "not stopped")
    t.type("fg\n")
    until(lambda: state(child) != "T", "not continued")
    t.type("hello\n")
    t.expect("got hello")


def wait_line():
    """What we wait for: holder, age, position; updated, and erased in the end."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--label", "the \033[31mholder", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    first = subprocess.Popen(["holdfast", "run", "x", "--label", "first", "--", "sh", "-c",
                              "while [ ! -e go ]; do sleep 0.02; done"])
    until(lambda: show("x")["waiters"], "does not wait")
    t = Terminal("holdfast", "run", "x", "--", "echo", "mine")
    age = t.expect(r"waiting for 'x', held by the \\x1b\[31mholder for (\d+m?s); position 2 of 2").group(1)
    t.expect(rf"for (?!{age};)\d+m?s; position 2 of 2")  # the age is alive
    holder.terminate()
    t.expect(r"held by first for \d+m?s; position 1 of 1")
    open("go", "w").close()
    t.expect(r"\r\x1b\[Kmine")
    assert t.status() == 0
    holder.wait()
    first.wait()


def connecting_line():
    """A server that is away: the terminal says what is waited for, and is clean again in the end."""
    t = Terminal("holdfast", "-S", "redis://ada:secret@127.0.0.1:1", "run", "-w", "2s", "x", "--", "true")
    t.expect("connecting to redis://")
    assert t.status() == 69
    t.expect("Connection refused")
    assert "secret" not in t.seen
    t = Terminal("holdfast", "-q", "-S", "redis://127.0.0.1:1", "run", "-w", "1s", "x", "--", "true")
    assert t.status() == 69
    assert "connecting" not in t.seen, t.seen


def wait_line_quiet():
    """With -q there is no line."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    t = Terminal("holdfast", "-q", "run", "x", "--", "echo", "mine")
    until(lambda: show("x")["waiters"], "does not wait")
    time.sleep(0.3)
    holder.terminate()
    holder.wait()
    assert t.status() == 0
    assert t.seen == "mine\r\n", repr(t.seen)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
