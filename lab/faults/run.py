#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the cells of the table of faults, and write the table.

    run.py LAB RESULTS [--mode TEXT]... [--fault NAME]... [--cell MODE/FAULT]... [--seconds S] [--wrong-seconds S] [--jobs N]
           [--again]
    run.py LAB RESULTS --table docs/faults.md --command TEXT

LAB is build/bin/test/faults_lab. RESULTS is a file with one JSON object a line. A cell that is in it is not run again
(--again: it is), so that a run that was interrupted goes on where it was. --mode takes a part of a row's name, like "redis";
--fault the name of a fault, or the beginning of one. Exit status 1: a cell shows what no promise explains (table.is_bug()).
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import table

LIMIT_S = 420  # a cell that takes longer is stuck
LONG = {"failover": 2.0, "server-kill": 1.3, "server-wipe": 1.3}  # these need longer for each strike


def parse():
    p = argparse.ArgumentParser(description="the table of faults")
    p.add_argument("lab")
    p.add_argument("results")
    p.add_argument("--mode", "--engine", action="append", default=[])
    p.add_argument("--fault", action="append", default=[])
    p.add_argument("--cell", action="append", default=[])
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--wrong-seconds", type=float, default=4)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--again", action="store_true")
    p.add_argument("--table")
    p.add_argument("--command", default="make faults")
    return p.parse_args()


def load(path):
    """The last result of each cell."""
    found = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                cell = json.loads(line)
                found[cell["mode"], cell["fault"]] = cell
    return found


def wanted(matrix, args):
    for mode, row in matrix["modes"].items():
        if args.mode and not any(mode == text or text in mode.split(",")[0] for text in args.mode):
            continue
        for fault, why in row.items():
            if args.cell and f"{mode}/{fault}" not in args.cell:
                continue
            if not why and (not args.fault or any(fault.startswith(text) for text in args.fault)):
                yield mode, fault


def run_cell(args, mode, fault):
    longer = LONG.get(fault, 1)
    command = [args.lab, "cell", mode, fault, str(args.seconds * longer), str(args.wrong_seconds * longer)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode == 0:
            cell = json.loads(done.stdout)
            cell["stderr"] = done.stderr[-2000:]
            return cell
        why = done.stderr[-2000:] or f"exit status {done.returncode}"
    except subprocess.TimeoutExpired as late:
        why = f"not done after {LIMIT_S} s: " + (late.stderr or b"").decode(errors="replace")[-1000:]
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"mode": mode, "fault": fault, "date": date, "error": why}


def main():
    args = parse()
    matrix = json.loads(subprocess.run([args.lab, "list"], capture_output=True, text=True, check=True).stdout)
    found = load(args.results)
    found = {cell: result for cell, result in found.items() if matrix["modes"].get(cell[0], {}).get(cell[1]) == ""}
    if args.table:
        table.write(args.table, matrix, found, args.command)
        return 0
    cells = [cell for cell in wanted(matrix, args) if args.again or cell not in found]
    lock = threading.Lock()
    bad = 0
    if args.cell and len(cells) != len(args.cell):
        sys.exit("no such cell: --cell")
    print(f"{len(cells)} cells, {args.jobs} at a time", flush=True)

    def one(cell):
        nonlocal bad
        result = run_cell(args, *cell)
        with lock:
            with open(args.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{result['date']}  {result['mode']:24}{result['fault']:15}{table.words(result)}", flush=True)
            bad += table.is_bug(result)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, cells))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
