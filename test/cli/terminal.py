# SPDX-License-Identifier: MIT
"""What `holdfast run` does on a terminal. Each function is one scenario; tty.bats calls them by name.

A scenario starts a program on a pseudo terminal, types, and looks at what it prints and at the
states of processes. Whatever does not happen within LIMIT seconds is a failure.
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


def ctrl_c_while_away():
    """Ctrl-C while the lease is yielded ends the waiting and the command; without it the command has the terminal again."""
    for typed in False, True:
        for path in "child", "status":
            if os.path.exists(path):
                os.unlink(path)
        t = Terminal("sh", "-c", "exec holdfast run x --yield-signal USR2 --status-fd 9 -- "
                     "sh -c 'echo $$ >child; read line; echo got $line; read line' 9>status")
        wait_for_file("child")
        other = subprocess.Popen(["holdfast", "run", "x", "-w", "60s", "--", "sleep", "1000"])
        until(lambda: '"wanted"' in open("status").read(), "not wanted")
        os.kill(t.pid, signal.SIGUSR2)
        until(lambda: '"yielded"' in open("status").read(), "not yielded")
        if typed:
            t.type("\x03")
            assert t.status() == 76
            assert not show("x")["waiters"]
        other.terminate()
        other.wait()
        if not typed:
            until(lambda: '"granted"' in open("status").read(), "not granted")
            t.type("hello\n")
            t.expect("got hello")
            t.type("\x03")
            assert t.status() == -signal.SIGINT
        until(lambda: is_free("x"), "still held")


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


def stop_output(t):
    """Ctrl-S: from now on a write to the terminal blocks."""
    number = struct.unpack("I", fcntl.ioctl(t.fd, 0x80045430, b"\0" * 4))[0]  # TIOCGPTN
    slave = os.open(f"/dev/pts/{number}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    t.type("\x13")
    until(lambda: not select.select([], [slave], [], 0)[1], "Ctrl-S does not stop the output")
    os.close(slave)


def break_lock(name):
    token = show(name)["holders"][0]["token"]
    subprocess.run(["holdfast", "break", name, "--token", str(token)], check=True)


def ctrl_s_loss():
    """Ctrl-S does not keep the command from being ended, nor us from ending."""
    t = Terminal("holdfast", "run", "x", "--", "sh", "-c",
                 "trap 'echo term >got; exit 0' TERM; echo ready; exec 2>/dev/null; while :; do sleep 0.05; done")
    t.expect("ready")
    stop_output(t)
    break_lock("x")
    wait_for_file("got")
    assert t.status() == 76
    assert is_free("x")


def ctrl_s_waiting():
    """A run that waits under Ctrl-S starts its command when it gets the lock."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    t = Terminal("holdfast", "-v", "run", "x", "--", "sh", "-c", "echo yes >started; exec sleep 1000")
    t.expect("waiting for 'x'")
    stop_output(t)
    time.sleep(1.2)  # the line is drawn once a second
    holder.terminate()
    holder.wait()
    wait_for_file("started")
    t.type("\x11")
    t.expect("acquired 'x'")
    t.type("\x03")
    assert t.status() == -signal.SIGINT


def tstp_in_vfork():
    """SIGTSTP: a command that no signal stops at the moment has SIGSTOP pending, and that is enough for us to stop."""
    t = shell()
    t.type(f"holdfast run --ttl 60s x -- {os.environ['HOLDFAST_BUILD']}/bin/test/cli_vforks\n")
    child = wait_for_file("child")
    until(lambda: state(child) == "D", "not in vfork")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid), "holdfast"], text=True).strip()
    os.kill(int(run), signal.SIGTSTP)
    until(lambda: state(run) == "T", "run is not stopped")
    assert state(child) == "D"
    t.expect("Stopped")
    t.type("fg\n")
    wait_for_file("over")
    t.type("\x03")
    t.expect("prompt> ")


STUBBORN = ("trap \"\" TSTP; setsid sh -c \"echo \\$\\$ >other; while :; do echo >>alive; sleep 0.02; done\" & "
            "echo $$ >child; while :; do echo >>alive; sleep 0.02; done")


def tstp_ignored():
    """SIGTSTP: we stop only when the command has, also one that ignores it, and what has left its session."""
    t = shell()
    t.type(f"holdfast run --ttl 60s x -- sh -c '{STUBBORN}'\n")
    child, other = wait_for_file("child"), wait_for_file("other")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid), "holdfast"], text=True).strip()
    os.kill(int(run), signal.SIGTSTP)
    until(lambda: state(run) == "T", "run is not stopped")
    # D: in vfork(2), whose child is stopped; SIGSTOP is pending.
    assert state(child) in "TD", "run is stopped, and its command is not"
    assert state(other) in "TD", "run is stopped, and something that its command started is not"
    size = os.path.getsize("alive")
    time.sleep(0.3)
    assert os.path.getsize("alive") == size, "run is stopped, and its command goes on"
    t.expect("Stopped")
    t.type("fg\n")
    until(lambda: os.path.getsize("alive") > size and state(run) != "T", "not continued")
    t.type("\x03")
    t.expect("prompt> ")
    os.kill(int(other), signal.SIGKILL)


def stopped_past_lease():
    """A lease that ran out while we were stopped: the command is not continued but ended."""
    t = shell()
    t.type(f"holdfast run --ttl 2s x -- sh -c '{STUBBORN}'\n")
    child, other = wait_for_file("child"), wait_for_file("other")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid), "holdfast"], text=True).strip()
    os.kill(int(run), signal.SIGTSTP)
    t.expect("Stopped")
    until(lambda: is_free("x"), "the lease does not run out")
    before = os.path.getsize("alive")
    t.type("fg\n")
    t.expect("prompt> ")
    t.type("echo code=$?\n")
    t.expect("code=76")
    until(lambda: not os.path.exists(f"/proc/{other}"), "something lives on")
    assert os.path.getsize("alive") == before, "the command was continued without its lease"


def tstp_then_cont():
    """SIGCONT right behind SIGTSTP: it must not be lost while we look whether everything has stopped."""
    t = shell()
    t.type("holdfast run --ttl 60s x -- sh -c 'echo $$ >child; exec sleep 1000' &\n")
    child = wait_for_file("child")
    run = subprocess.check_output(["pgrep", "-P", str(t.pid), "holdfast"], text=True).strip()
    for i in range(25):
        os.kill(int(run), signal.SIGTSTP)
        time.sleep(i % 5 * 0.001)
        os.kill(int(run), signal.SIGCONT)
        time.sleep(0.1)  # a stop that comes late has come by then, mostly
        until(lambda: state(run) != "T" and state(child) != "T", f"round {i}: stopped, though it was continued")
    os.kill(int(run), signal.SIGKILL)


def background_wait():
    """A run that waits in the background draws nothing."""
    holder = subprocess.Popen(["holdfast", "run", "x", "--", "sleep", "1000"])
    until(lambda: not is_free("x"), "not held")
    t = shell()
    t.type("holdfast run x -- true &\n")
    until(lambda: show("x")["waiters"], "does not wait")
    end = time.monotonic() + 2.5  # the line is drawn once a second
    while time.monotonic() < end:
        t.read(0.1)
    assert "waiting for" not in t.seen, t.seen
    holder.terminate()
    holder.wait()
    until(lambda: is_free("x") and not show("x")["waiters"], "not over")
    while select.select([t.fd], [], [], 0.2)[0]:
        t.read(0)
    assert "waiting for" not in t.seen and "\r\x1b[K" not in t.seen.split("&\r\n", 1)[-1].split("prompt", 1)[0], t.seen


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


# ---- completion: names that a shell would obey, each with a letter of its own ------------------------------

HOSTILE = [b"a$(touch PWNED)", b"b`touch PWNED`", b"c two  words", b"d'quote\"s", b"e\nline", b"f*[x]?{1,2}",
           b"g;touch PWNED", b"h:with:colons=and@ats", b"i\xff\xfe", b"j!bang", b"k\\back", b"l~ # & | <> (touch PWNED)",
           b"m${HOME}%s", b"n\x1b[31mred"]
SHOW = "while [ $# -gt 0 ]; do printf '<'; printf %s \"$1\" | od -An -tx1 | tr -d ' \\n'; printf '>'; shift; done; echo"


def lock_hostile():
    for name in HOSTILE + [b"-dash"]:
        option = [b"--name=" + name] if name.startswith(b"-") else [name]
        subprocess.run([b"holdfast", b"lock", b"--ttl", b"300s", *option], check=True, stdout=subprocess.DEVNULL)
    with open("bin/args", "w") as script:
        script.write("#!/bin/sh\n" + SHOW + "\n")
    os.chmod("bin/args", 0o755)


def completes(t, typed, *words):
    """Type it, TAB and Enter: `args` gets these words."""
    t.type("args " + typed + "\t")
    end = time.monotonic() + LIMIT
    enter = time.monotonic() + 0.2
    wanted = "".join("<" + word.hex() + ">" for word in words)
    while not (match := re.search(r"((?:<[0-9a-f]*>)+)\r?\n", t.seen)):
        assert time.monotonic() < end, f"no answer to {typed!r}: {t.seen!r}"
        if time.monotonic() > enter:  # again after a while: a shell may throw away what is typed while it completes
            t.type("\n")
            enter = time.monotonic() + 3
        t.read(0.05)
    assert match.group(1) == wanted, f"{typed!r}: {match.group(1)}, not {wanted}: {t.seen!r}"
    t.seen = t.seen[match.end():]
    assert not os.path.exists("PWNED"), f"TAB after {typed!r} executed a name"


def lists(t, typed):
    """TAB where many fit: nothing is executed."""
    t.type("args " + typed + "\t\t")
    time.sleep(1)
    t.read(1)
    t.type("\x03")
    time.sleep(0.2)
    t.type("\x15echo list''ed\n")
    t.expect("listed")
    assert not os.path.exists("PWNED"), f"TAB after {typed!r} executed a name"


def completion_bash():
    """bash completes names of any bytes, and executes none."""
    lock_hostile()
    t = Terminal("bash", "--norc", "--noprofile", "-i", env={"LC_ALL": "C.UTF-8"})
    t.expect("prompt> ")
    t.type("bind 'set completion-query-items 1000'; bind 'set page-completions off'; source <(holdfast completion bash); complete -o default -F _holdfast args; echo lo''aded\n")
    t.expect("loaded")
    lists(t, "show ")
    lists(t, "break ")
    for name in HOSTILE:
        completes(t, "show " + chr(name[0]), b"show", name)
    completes(t, "show h:w", b"show", HOSTILE[7])
    completes(t, "show h:with:colons=a", b"show", HOSTILE[7])
    completes(t, "show c\\ t", b"show", HOSTILE[2])
    completes(t, "show 'c t", b"show", HOSTILE[2])
    completes(t, 'show "a', b"show", HOSTILE[0])
    completes(t, 'show "b', b"show", HOSTILE[1])
    completes(t, "show 'd", b"show", HOSTILE[3])
    completes(t, "run --also a", b"run", b"--also", HOSTILE[0])
    completes(t, "show --name=-d", b"show", b"--name=-dash")
    completes(t, "show --name -d", b"show", b"--name", b"-dash")
    token = str(show("c two  words")["holders"][0]["token"]).encode()
    completes(t, "break c\\ two\\ \\ words --token ", b"break", b"c two  words", b"--token", token)
    completes(t, "break 'c two  words' --token=", b"break", b"c two  words", b"--token=" + token)
    completes(t, "-S memc", b"-S", b"memcached://")
    completes(t, "-S memcached:/", b"-S", b"memcached://")


def completion_zsh():
    """zsh likewise."""
    lock_hostile()
    t = Terminal("zsh", "-f", "-i", env={"LC_ALL": "C.UTF-8"})
    t.type("PS1='prompt> '; unsetopt zle_bracketed_paste; bindkey -e; LISTMAX=10000; autoload -U compinit; compinit -u -D; "
           "source <(holdfast completion zsh); compdef _holdfast args; echo lo''aded\n")
    t.expect("loaded")
    lists(t, "show ")
    for name in HOSTILE:
        completes(t, "show " + chr(name[0]), b"show", name)
    completes(t, "show h:w", b"show", HOSTILE[7])
    completes(t, "show 'c t", b"show", HOSTILE[2])
    completes(t, 'show "a', b"show", HOSTILE[0])
    completes(t, "run --also a", b"run", b"--also", HOSTILE[0])
    token = str(show("c two  words")["holders"][0]["token"]).encode()
    completes(t, "break 'c two  words' --token ", b"break", b"c two  words", b"--token", token)
    completes(t, "-S memc", b"-S", b"memcached://")


def completion_fish():
    """fish likewise; it completes nothing that is no text."""
    lock_hostile()
    t = Terminal("fish", "--no-config", "-i", env={"LC_ALL": "C.UTF-8"})
    t.type("function fish_prompt; echo 'prompt> '; end; holdfast completion fish | source; complete -c args -w holdfast; echo lo''aded\n")
    t.expect("[\r\n]loaded|loaded[\r\n]")
    lists(t, "show ")
    for name in HOSTILE:
        completes(t, "show " + chr(name[0]), b"show", name)
    completes(t, "run --also a", b"run", b"--also", HOSTILE[0])
    token = str(show("c two  words")["holders"][0]["token"]).encode()
    completes(t, "break 'c two  words' --token ", b"break", b"c two  words", b"--token", token)
    completes(t, "-S memc", b"-S", b"memcached://")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
