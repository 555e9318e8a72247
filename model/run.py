#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the models with spin and say what was seen.

    run.py [GROUP...]      the runs of make test: token heal start linger token-mutants heal-mutants linger-mutants; all of
                           them by default
    run.py --large [TEXT]  the larger searches of make model; those with TEXT in their name
    run.py --trail NAME    one run by its name, and if an assertion fails the way there, step by step

A model as it is must hold; a mutant must be caught, by the assertion that the table below names for it. One line for
each, and a last one that counts. The exit status is 1 if anything came out otherwise.
"""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MB = 1800
LARGE_MB = 10000
SAMPLE_MINUTES = 10

# What an assertion is called here, by how it reads in a model.
ASSERTIONS = {
    "order": r"\.t>q\[\d\]\.after",
    "unique": r"\.t!=q\[",
    "exclusion": r"\.phase==5",
    "accepted": r">=accepted",
    "update": r"version==",
    "renewal": r"\.saw<q\[\d\]\.t",
    "capacity": r"\(phase\[1\]==2\)",
    "agreement": r"epoch\[",
    # linger.pml numbers what must hold
    "double hold": r"bad!=1\b",
    "foreign release": r"bad!=2\b",
    "not ours": r"bad!=3\b",
    "token order": r"bad!=4\b",
    "unfair": r"bad!=5\b",
    "leak": r"bad!=6\b",
    "false busy": r"bad!=7\b",
    "long wait": r"bad!=8\b",
}
TOKENS = ("order", "unique")

Run = namedtuple("Run", "name group model flags caught_by how", defaults=(None, "full"))


def mutant(name, model, flags, caught_by=TOKENS, how="full"):
    caught_by = (caught_by,) if isinstance(caught_by, str) else caught_by
    group = "token-mutants" if model == "token" else "linger-mutants" if model == "linger" else "heal-mutants"
    return Run("mutant " + name, group, model, flags, caught_by, how)


RUNS = [
    Run("token", "token", "token", "-DK=4"),
    Run("token, renewal", "token", "token", "-DRENEW -DK=4"),
    Run("token, replies on their way", "token", "token", "-DSLOTS -DK=2"),
    Run("heal, one loss, two healers", "heal", "heal", "-DLOSSES=1 -DHEALERS=2 -DK=2"),
    Run("heal, two losses, one healer", "heal", "heal", "-DLOSSES=2 -DHEALERS=1 -DK=2"),
    Run("heal, loss after a heal", "heal", "heal", "-DAGAIN -DK=2"),
    Run("heal, five nodes, two lost", "start", "heal", "-DN=5 -DHEALERS=1 -DK=2 -DQUIET -DNUMBERS=1"),
    Run("start", "start", "start", "-DK=2"),
    Run("semaphore as slots", "start", "slots", "", how="breadth"),
    Run("read-write by majority", "start", "slots", "-DRW", how="breadth"),

    Run("linger", "linger", "linger", "-DROUNDS=1"),
    Run("linger, two threads each", "linger", "linger", "-DROUNDS=1 -DTHREADS1=2"),
    Run("linger, tries", "linger", "linger", "-DROUNDS=1 -DTRIES"),
    Run("linger, one crash", "linger", "linger", "-DROUNDS=1 -DCRASHES=1"),
    Run("linger, one lost message", "linger", "linger", "-DROUNDS=1 -DLOSSES=1 -DBOUND=6"),
    Run("linger, one cancel", "linger", "linger", "-DROUNDS=1 -DCANCELS=1"),

    mutant("no write-back", "token", "-DMUTANT_NO_WRITE_BACK -DK=3"),
    mutant("unconditional write-back", "token", "-DMUTANT_WB_ANYONE -DK=3"),
    mutant("write-back ignores the returned counter", "token", "-DMUTANT_WB_DEAF -DK=3"),
    mutant("minority quorum", "token", "-DMUTANT_MINORITY -DK=3"),
    mutant("replies counted instead of nodes", "token", "-DMUTANT_COUNT_REPLIES -DK=3"),
    mutant("a counter that saturates", "token", "-DMUTANT_SATURATE -DK=3"),
    mutant("an owner id used twice", "token", "-DMUTANT_OWNER_TWICE -DK=3"),
    mutant("plain mutual exclusion", "token", "-DMUTANT_PLAIN -DK=3", "exclusion"),
    mutant("resource read before claim", "token", "-DMUTANT_READ_FIRST -DK=3", "update"),
    mutant("resource that does not check", "token", "-DMUTANT_UNCHECKED -DK=3", ("accepted", "update")),
    mutant("renewal that re-creates", "token", "-DRENEW -DMUTANT_RENEW_CREATES -DK=3", "renewal"),
    mutant("renewal that does not compare counters", "token", "-DRENEW -DMUTANT_RENEW_BLIND -DK=3", "renewal"),

    mutant("semaphore by majority", "slots", "-DMUTANT_SEMAPHORE", "capacity", "breadth"),

    mutant("data loss that votes on", "heal", "-DMUTANT_LOSS_VOTES -DLOSSES=1 -DHEALERS=1 -DK=3"),
    mutant("heal without sealing", "heal", "-DMUTANT_NO_SEAL -DLOSSES=1 -DHEALERS=1 -DK=3"),
    mutant("seal of a majority of the intact", "heal", "-DMUTANT_SEAL_INTACT -DN=5 -DHEALERS=1 -DK=2 -DQUIET -DNUMBERS=1"),
    mutant("epoch that is only a number", "heal", "-DMUTANT_EPOCH_NUMBER -DAGAIN -DK=2"),
    mutant("install without marker", "heal", "-DMUTANT_NO_MARKER -DAGAIN -DK=2"),
    mutant("marker sent again", "heal", "-DMUTANT_MARKER_AGAIN -DAGAIN -DK=2"),
    mutant("replies kept across an epoch change", "heal", "-DMUTANT_KEEP_REPLIES -DLOSSES=1 -DHEALERS=1 -DK=3"),
    mutant("floor without +1, id kept", "heal", "-DNO_PLUS_ONE -DKEEP_ID -DLOSSES=1 -DHEALERS=1 -DK=3"),
    mutant("naive start", "start", "-DMUTANT_NAIVE_START -DK=2"),
    mutant("start without a second round", "start", "-DMUTANT_START_UNCONFIRMED -DK=2", "agreement", "breadth"),
    mutant("start initialises without marker", "start", "-DMUTANT_START_NO_MARKER -DK=2", ("agreement",) + TOKENS),
    mutant("start claims again with its marker", "start", "-DMUTANT_CLAIM_AGAIN -DK=2"),
    mutant("one id for all starts", "start", "-DMUTANT_START_ONE_ID -DK=2"),
]

RUNS += [
    mutant("recall forgotten while held", "linger", "-DMUTANT_RECALL_HELD -DROUNDS=1", "long wait"),
    mutant("recall forgotten before the grant", "linger", "-DMUTANT_RECALL_EARLY -DROUNDS=1", "long wait"),
    mutant("grant silent about others", "linger", "-DMUTANT_GRANT_SILENT -DROUNDS=1", "long wait"),
    mutant("idle take without the clock", "linger", "-DMUTANT_TAKE_WITHOUT_CLOCK -DROUNDS=2", "not ours"),
    mutant("recall leaves the slot idle", "linger", "-DMUTANT_RECALL_LEAVES_IDLE -DROUNDS=1", ("foreign release", "not ours")),
    mutant("release by process", "linger", "-DMUTANT_RELEASE_BY_PROCESS -DROUNDS=2", "foreign release"),
    mutant("refill of an earlier claim", "linger", "-DMUTANT_OLD_REFILL -DROUNDS=2", "token order"),
    mutant("tokens beyond the block", "linger", "-DMUTANT_BEYOND_BLOCK -DROUNDS=1", "token order"),
    mutant("refill does not raise the last token", "linger", "-DMUTANT_REFILL_NOT_RAISED -DROUNDS=1", "token order"),
    mutant("try answered BUSY at once", "linger", "-DMUTANT_TRY_BUSY -DTRIES -DROUNDS=1", "false busy"),
    mutant("hand-over counted from arrival", "linger", "-DMUTANT_HANDOVER_ARRIVAL -DROUNDS=1", "double hold"),
    mutant("renewal counted from its answer", "linger", "-DMUTANT_RENEW_ARRIVAL -DROUNDS=1", "double hold"),
    mutant("grant that crosses a cancel is dropped", "linger", "-DMUTANT_CANCEL_DROPS -DCANCELS=1 -DROUNDS=1", "leak"),
    mutant("passed on although wanted", "linger", "-DMUTANT_PASS_WANTED -DROUNDS=2", "unfair"),
    mutant("an owner id used twice by a process", "linger", "-DMUTANT_OWNER_TWICE -DROUNDS=2", ("foreign release", "token order")),
    mutant("renewal wipes out a recall", "linger", "-DMUTANT_RENEWAL_CLEARS -DROUNDS=1", "long wait"),
    mutant("heartbeat does not repeat a recall", "linger", "-DMUTANT_BEAT_SILENT -DLOSSES=1 -DROUNDS=1 -DBOUND=6", "long wait"),
    mutant("lingers although wanted", "linger", "-DMUTANT_LINGER_WANTED -DROUNDS=1", "long wait"),
]

LARGE = [
    Run("linger, two rounds", "large", "linger", "-DROUNDS=2"),
    Run("linger, one pause", "large", "linger", "-DROUNDS=1 -DPAUSES=1 -DBOUND=4"),
    Run("linger, acquires may be late", "large", "linger", "-DROUNDS=1 -DLATE -DBOUND=4"),
    Run("token", "large", "token", "-DK=6"),
    Run("token, renewal", "large", "token", "-DRENEW -DK=5"),
    Run("token, replies on their way", "large", "token", "-DSLOTS -DK=3"),
    Run("heal, one loss, two healers", "large", "heal", "-DLOSSES=1 -DHEALERS=2 -DK=3"),
    Run("heal, two losses, one healer", "large", "heal", "-DLOSSES=2 -DHEALERS=1 -DK=3"),
    Run("heal, loss after a heal", "large", "heal", "-DAGAIN -DK=3"),
    Run("heal, two losses, two healers", "large", "heal", "-DLOSSES=2 -DHEALERS=2 -DK=2", how="sample"),
    Run("heal, five nodes, two lost", "large", "heal", "-DN=5 -DHEALERS=2 -DK=3", how="sample"),
    Run("heal, renewal", "large", "heal", "-DRENEW -DLOSSES=1 -DHEALERS=1 -DK=3"),
    Run("mutant renewal counts an empty node", "large", "heal",
        "-DRENEW -DMUTANT_RENEW_UNINIT -DLOSSES=1 -DHEALERS=1 -DK=3", ("renewal",)),
    Run("heal, id kept", "large", "heal", "-DKEEP_ID -DLOSSES=1 -DHEALERS=1 -DK=3"),
    Run("heal, floor without +1", "large", "heal", "-DNO_PLUS_ONE -DLOSSES=1 -DHEALERS=1 -DK=3"),
    Run("start", "large", "start", "-DK=3"),
    Run("start, three starters", "large", "start", "-DSTARTERS=3 -DK=2", how="sample"),
]

def build(run, where, extra):
    """Make pan, the search for one model, in the directory `where`."""
    source = os.path.join(HERE, run.model + ".pml")
    made = subprocess.run(["spin", "-a", *run.flags.split(), source], cwd=where, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if made.returncode != 0 or "rror" in made.stdout:
        sys.exit(f"{run.name}: spin: {made.stdout}")
    # For a mutant compiling takes longer than searching; for the small runs of linger.pml too, ten times as long.
    level = "-O0" if run.caught_by or (run.model == "linger" and run.group != "large") else "-O2"
    memory = LARGE_MB if run.group == "large" else MEMORY_MB
    subprocess.run(["gcc", level, "-w", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={memory}", *extra, "-o", "pan", "pan.c"],
                   cwd=where, check=True)


def search(run, where, extra=(), options=()):
    """Returns what pan printed."""
    build(run, where, extra)
    done = subprocess.run(["./pan", "-m20000", *options], cwd=where, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def number(pattern, text):
    found = re.search(pattern, text)
    return int(float(found.group(1))) if found else -1


def grouped(n):
    return f"{n:,}".replace(",", " ")


def silent_steps(where, out):
    """Kinds of steps that never happened, by what they would have printed. A model in which something cannot happen
    would hold for lack of it; one node or client of several that are alike may be idle, a kind of step may not."""
    with open(os.path.join(where, "pan.t"), encoding="utf-8") as table:
        there = Counter(re.findall(r"printf\('(.*?)\\\\n'", table.read()))
    unreached = Counter(re.findall(r"printf\('(.*?)\\n'", out))
    return [step for step in there if unreached[step] >= there[step]]


def judge(run, out, never=()):
    """Returns (came out as it should, what to say)."""
    states = number(r"([\d.e+]+) states, stored", out)
    depth = number(r"depth reached (\d+)", out)
    errors = number(r"errors: (\d+)", out)
    violated = re.search(r"assertion violated (.*) \(at depth (\d+)\)", out)
    if violated:
        name = next((n for n, how in ASSERTIONS.items() if re.search(how, violated.group(1))), violated.group(1))
        at = f"at depth {violated.group(2)}, {grouped(states)} states: {name}"
        if run.caught_by is None:
            return False, f"VIOLATED {at}"
        if name in run.caught_by:
            return True, f"caught {at}"
        return False, f"caught for another reason than {' or '.join(run.caught_by)}, {at}"
    if errors != 0 or states <= 0:
        return False, "NO RESULT\n" + out
    cut = re.search(r"max search depth too small|reached -DMEMLIM|Search not completed", out)
    if run.caught_by is not None:
        return False, f"SURVIVED {grouped(states)} states"
    seen = f"{grouped(states)} states, depth {depth}"
    if never:
        return False, f"{seen}, NEVER SEEN: " + "; ".join(sorted(never))
    if run.how == "sample":
        return True, f"{seen}, sampled (bitstate, hash factor {number(r'hash factor: ([0-9.e+]+)', out)}), ok"
    if cut:
        return False, f"{seen}, NOT EXHAUSTED ({cut.group(0)})"
    return True, f"{seen}, exhausted, ok"


def perform(run):
    where = tempfile.mkdtemp(prefix="holdfast-model.")
    try:
        if run.how == "sample":
            out = search(run, where, ["-DBITSTATE"], ["-w34", "-k3", f"-Q{SAMPLE_MINUTES}"])
        elif run.how == "breadth":
            out = search(run, where, ["-DBFS"], ["-w22"])
        else:
            out = search(run, where, ["-DCOLLAPSE"] if run.group == "large" else [], ["-w20" if run.caught_by else "-w23"])
        good, text = judge(run, out, silent_steps(where, out))
    finally:
        shutil.rmtree(where)
    print(f"{run.name}: {text}", flush=True)
    return good


def trail(name):
    """For token the shortest way, by breadth first; the others are too broad for that."""
    run = next((r for r in RUNS + LARGE if r.name in (name, "mutant " + name)), None)
    if run is None:
        sys.exit(f"no run is called {name}")
    run = run._replace(group="large")
    with tempfile.TemporaryDirectory(prefix="holdfast-model.") as where:
        good, text = judge(run, search(run, where, ["-DBFS"] if run.model == "token" or run.how == "breadth" else []))
        print(f"{run.name}: {text}")
        if "violated" not in text.lower() and "caught" not in text:
            return good
        told = subprocess.run(["spin", "-T", "-B", "-k", run.model + ".pml.trail", *run.flags.split(),
                               os.path.join(HERE, run.model + ".pml")], cwd=where, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        print(told)
        return good


def main(words):
    if words[:1] == ["--trail"] and len(words) == 2:
        return 0 if trail(words[1]) else 1
    if words[:1] == ["--large"] and len(words) <= 2:
        runs = [r for r in LARGE if words[1:] == [] or words[1] in r.name]
    else:
        groups = {r.group for r in RUNS}
        if not set(words) <= groups:
            sys.exit(__doc__)
        runs = [r for r in RUNS if not words or r.group in words]
    good = [perform(r) for r in runs]
    models = sum(r.caught_by is None for r, ok in zip(runs, good) if ok)
    mutants = sum(r.caught_by is not None for r, ok in zip(runs, good) if ok)
    cost = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{models} models hold, {mutants} mutants caught, {good.count(False)} wrong; "
          f"{cost.ru_utime + cost.ru_stime:.0f} s of CPU, {cost.ru_maxrss // 1024} MB at most")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
