# SPDX-License-Identifier: MIT
"""What the cells say, in words and as the page docs/faults.md."""
import platform
import re
import subprocess


def lost(cell, name):
    ledger = cell[name]
    return ledger["lost"] if ledger else 0


def findings(cell):
    """What went wrong with right clients, each as (word, number). Empty: nothing."""
    right = cell["right"]
    found = []
    for word, number in (("double", right["double_holds"]), ("FENCED LOST", lost(right, "fenced")),
                         ("tokens back", right["tokens_back"]), ("counter", lost(right, "counter")),
                         ("cell", lost(right, "cell")), ("hung", right["hung"]), ("died", right["died"])):
        if number:
            found.append((word, number))
    return found


def caught(cell):
    """By which wrong client the checker was alarmed; None: by none."""
    for wrong in cell["wrong"]:
        if wrong["double_holds"] or lost(wrong, "fenced"):
            return wrong["client"]
    return None


def is_red(cell):
    return "error" in cell or bool(findings(cell))


def is_bug(cell):
    """What no promise can explain."""
    if "error" in cell:
        return True
    right = cell["right"]
    return bool(lost(right, "fenced") or right["hung"] or right["died"] or not right["acquisitions"] or
                (cell["wrong"] and not caught(cell)))


def words(cell):
    """The short text of a cell."""
    if "error" in cell:
        return "NOT RUN: " + cell["error"].strip().splitlines()[-1][:60]
    found = findings(cell)
    if found:
        return "RED: " + ", ".join(f"{word} {number}" for word, number in found)
    if lost(cell["right"], "plain"):
        return f"fence ({lost(cell['right'], 'plain')})"
    return "ok"


# ---- the page ----------------------------------------------------------------------------------------

LEGEND = """\
Each cell is one run on real servers of its own: eight client processes acquire a mutex, a read-write lock, a semaphore of two
and a second mutex, update a counter and a cell of the store, and one kind of fault strikes again and again. Every client logs
what it asked for and for how long it certainly held, by its own validity (`hf_lease_remaining_ms()`). Then a checker reads the
logs.

| text | meaning |
|---|---|
| ok | no two holders at once, no lost update, no token that went back, nobody hung |
| fence (n) | no two holders at once. But n updates without a fence were lost, written by a client that was stopped between its last look at its validity and its write. The fence refused all of them |
| **RED**: double n | n leases were held, by the holder's own validity, at the same time as another one that excludes them |
| **RED**: counter n, cell n | n acknowledged updates of a counter or a cell of the store were lost |
| **RED**: tokens back n | n tokens were not larger than an earlier one, or came twice |
| **RED**: hung n | n clients got no answer within 20 s after the last fault was over |
| - | the fault does not exist there; the reason is below the table |

Updates behind a fence (`hf_guard_claim()`, `hf_guard_set()` in a store that has no faults) that were lost: **{fenced}** of
{fenced_done} in all cells.
"""


def version(command, pattern):
    try:
        text = subprocess.run(command, capture_output=True, text=True).stdout
    except OSError:
        return "not installed"
    found = re.search(pattern, text)
    return found.group(1) if found else "?"


def versions():
    return [("Redis", version(["redis-server", "--version"], r"v=(\S+)")),
            ("memcached", version(["memcached", "--version"], r"(\d\S+)")),
            ("etcd", version(["etcd", "--version"], r"Version: (\S+)")),
            ("ZooKeeper", version(["dpkg-query", "-W", "-f", "${Version}", "libzookeeper-java"], r"([0-9.]+)")),
            ("PostgreSQL", version(["sh", "-c", "/usr/lib/postgresql/*/bin/postgres --version"], r"(\d\S+)")),
            ("MariaDB", version(["mariadbd", "--version"], r"Ver (\S+)")),
            ("Linux", platform.release().split("-")[0])]


def short(cell):
    text = words(cell)
    return "**RED**" + text[3:] if text.startswith("RED") else ("**" + text.split(":")[0] + "**" if text.startswith("NOT") else text)


def heading(matrix, found, command):
    cells = list(found.values())
    run = [c for c in cells if "error" not in c]
    every = [r for c in run for r in [c["right"]] + c["wrong"]]
    dates = sorted(c["date"] for c in cells)
    right = sum(c["right"]["acquisitions"] for c in run)
    lines = ["# The table of faults", "",
             f"Made by `{command}`, from {dates[0]} to {dates[-1]}, with "
             + ", ".join(f"{name} {number}" for name, number in versions()) + ".",
             f"{len(run)} cells, {sum(c['right']['strikes'] for c in run)} faults and {right} acquisitions with right clients; "
             f"{sum(r['acquisitions'] for r in every) - right} more acquisitions with wrong ones.", ""]
    fenced = sum(lost(c["right"], "fenced") for c in run)
    done = sum(c["right"]["fenced"]["done"] for c in run if c["right"]["fenced"])
    lines += LEGEND.format(fenced=fenced, fenced_done=done).splitlines() + [""]
    return lines


def grid(matrix, found):
    """Faults as rows: there are as many, and their names are shorter; the modes in three groups, so that it can be read."""
    modes = list(matrix["modes"])
    groups = [("Embedded, Redis, Redlock", [m for m in modes if m.startswith(("embedded", "redis", "redlock"))]),
              ("memcached, etcd, ZooKeeper", [m for m in modes if m.startswith(("memcached", "etcd", "zoo"))]),
              ("PostgreSQL, MariaDB", [m for m in modes if m.startswith(("postgres", "mariadb"))])]
    lines = []
    for title, some in groups:
        lines += [f"## {title}", "", "| fault | " + " | ".join(some) + " |", "|---" * (len(some) + 1) + "|"]
        for fault in matrix["faults"]:
            row = []
            for mode in some:
                cell = found.get((mode, fault))
                row.append("-" if matrix["modes"][mode][fault] else short(cell) if cell else "not run")
            if any(text != "-" for text in row):
                lines.append(f"| {fault} | " + " | ".join(row) + " |")
        lines.append("")
    return lines


def reasons(matrix):
    why = {}
    for mode, row in matrix["modes"].items():
        for fault, text in row.items():
            if text:
                why.setdefault(text, {}).setdefault(mode, []).append(fault)
    lines = ["## Faults that do not exist", ""]
    for text, where in why.items():
        same = {}
        for mode, faults in where.items():
            same.setdefault(", ".join(faults), []).append(mode)
        lines.append("- " + "; ".join(f"{'; '.join(modes)}: {faults}" for faults, modes in same.items()) + f": {text}.")
    return lines + [""]


def wrong_clients(found):
    run = [c for c in found.values() if c.get("wrong")]
    by = {"validity": [], "early": [], None: []}
    for cell in run:
        by[caught(cell)].append(f"{cell['mode']}, {cell['fault']}")
    lines = ["## Wrong clients", "",
             "So that a zero means something, each cell also runs with a client that breaks a rule on purpose. The first one goes on "
             "after its lease was lost. Where that alarms nobody, because no lease was lost under its holder in that time, "
             "a second one runs that goes on after its own release.", "",
             f"- Goes on after LOST: caught in {len(by['validity'])} of {len(run)} cells.",
             f"- Goes on after its release: caught in {len(by['early'])} of the other {len(run) - len(by['validity'])} cells.",
             f"- Not caught: {'; '.join(sorted(by[None])) if by[None] else 'none'}.", "",
             "Cells where only the second one was caught: " + ("; ".join(sorted(by["early"])) or "none") + ".", ""]
    return lines


def numbers(matrix, found):
    def ledger(one):
        return f"{one['lost']}/{one['done']}" if one else "-"

    lines = ["## Numbers", "",
             "Right clients. Updates: lost/acknowledged. Late: the longest time from the end of a validity (or from the moment when a "
             "stopped client went on) until LOST was told. Recovery: from the end of a fault to the next grant of the mutex, median "
             "and longest; it contains the time for which a holder stays on purpose, 300 ms.", "",
             "| engine and mode | fault | acquisitions | faults | double holds | lost without fence | lost with fence | "
             "counter lost | cell lost | tokens back | LOST told | late, ms | hung | recovery, ms |", "|---" * 14 + "|"]
    for mode, row in matrix["modes"].items():
        for fault in row:
            cell = found.get((mode, fault))
            if not cell or "error" in cell:
                continue
            r = cell["right"]
            back = r["tokens_back"] if r["tokens"] != "none" else "-"
            lines.append(f"| {mode} | {fault} | {r['acquisitions']} | {r['strikes']} | {r['double_holds']} | {ledger(r['plain'])} | "
                         f"{ledger(r['fenced'])} | {ledger(r['counter'])} | {ledger(r['cell'])} | {back} | {r['lost_told']} | "
                         f"{r['lost_late_ms']} | {r['hung']} | {r['recover_ms']}, {r['recover_max_ms']} |")
    return lines + [""]


def explanations(path):
    """The part that people write is kept: from its heading to the next one."""
    try:
        with open(path, encoding="utf-8") as file:
            found = re.search(r"(?ms)^## Red cells\n.*?(?=^## )", file.read())
    except FileNotFoundError:
        found = None
    return (found.group(0) if found else "## Red cells\n\n").rstrip("\n").split("\n") + [""]


def not_run(found):
    errors = [c for c in found.values() if "error" in c]
    if not errors:
        return []
    return ["## Cells that could not be run", ""] + \
           [f"- {c['mode']}, {c['fault']}: {c['error'].strip().splitlines()[-1]}" for c in errors] + [""]


def write(path, matrix, found, command):
    lines = heading(matrix, found, command)
    lines += ["The faults:", ""] + [f"- {name}: {text}." for name, text in matrix["faults"].items()] + [""]
    lines += grid(matrix, found) + explanations(path) + not_run(found) + wrong_clients(found) + reasons(matrix)
    lines += numbers(matrix, found)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip("\n") + "\n")
