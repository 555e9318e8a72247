#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the lab's gallery anew: lab-pictures.py HOLDFAST [--from DIR DATE]

Runs every experiment of `holdfast lab`, and writes into docs/lab:

  NAME.svg, zh/NAME.svg    its picture, in English and in Chinese, of the same run
  runs.json                what was seen, and when

and what was seen into docs/lab.md and docs/zh-CN/lab.md, between <!-- seen: NAME --> and <!-- seen end -->. If an experiment does not go
as it should, nothing is written. --from takes a gallery that `holdfast lab --all DIR` has made.
"""
import datetime
import html
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[1]
LANGUAGES = {"en": "en", "zh-CN": "zh"}


def text_of(part):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", part)).split())


def one(pattern, text, what):
    found = re.search(pattern, text, re.S)
    if not found:
        raise SystemExit(f"lab-pictures: {what}: not found in the page of the experiment")
    return text_of(found[1])


def read_page(name, text):
    """What a page of `holdfast lab --all` says."""
    text = re.sub(r"<svg.*?</svg>", "", text, flags=re.S)
    head = text[text.index("<h1>"):text.index("</header>")]
    run = {"experiment": name}
    for language, short in LANGUAGES.items():
        run["title_" + short] = one(f'<h1>.*?<span lang="{language}">(.*?)</span>', head, name)
        run["setting_" + short] = one(f'<p class="muted">.*?<span lang="{language}">(.*?)</span>', head, name)
    run["ways"] = []
    for verdict in re.finditer(r'<div class="verdict (\w+)" lang="en">', text):
        heading = re.findall(r"<h[23]>.*?</h[23]>", text[:verdict.start()], re.S)[-1]
        rest = text[verdict.start():]
        way = {"outcome": verdict[1].upper()}
        for language, short in LANGUAGES.items():
            words = re.search(f'<div class="verdict \\w+" lang="{language}">.*?</div>', rest, re.S)[0]
            way["way_" + short] = one(f'<span lang="{language}">(.*?)</span>', heading, name)
            way["word_" + short] = one(r"<b><span>.</span>(.*?)</b>", words, name)
            way["seen_" + short] = one(r"<p>(.*?)</p>", words, name)
        run["ways"].append(way)
    if not run["ways"]:
        raise SystemExit(f"lab-pictures: {name}: no ways in its page")
    return run


def seen(run, short):
    """The rows of one experiment, as Markdown."""
    words = {"en": ("way", "seen"), "zh": ("做法", "结果")}[short]
    lines = [f"| {words[0]} | {words[1]} |", "|---|---|"]
    for way in run["ways"]:
        word = f"**{way['word_' + short]}**" if way["outcome"] == "BROKEN" else way["word_" + short]
        colon = {"en": ": ", "zh": "："}[short]
        lines.append(f"| {way['way_' + short]} | {word}{colon}{way['seen_' + short]} |".replace("\n", " "))
    return "\n".join(lines)


def write_seen(page, runs, short):
    text = page.read_text(encoding="utf-8")
    by_name = {run["experiment"]: run for run in runs["experiments"]}

    def fill(found):
        if found[1] not in by_name:
            raise SystemExit(f"lab-pictures: {page}: no experiment {found[1]}")
        return f"<!-- seen: {found[1]} -->\n{seen(by_name[found[1]], short)}\n<!-- seen end -->"
    page.write_text(re.sub(r"<!-- seen: (\S+) -->.*?<!-- seen end -->", fill, text, flags=re.S), encoding="utf-8")


def write(gallery, runs):
    out = TREE / "docs/lab"
    (out / "zh").mkdir(parents=True, exist_ok=True)
    for run in runs["experiments"]:
        name = run["experiment"]
        shutil.copyfile(gallery / f"{name}.svg", out / f"{name}.svg")
        shutil.copyfile(gallery / f"{name}.zh.svg", out / "zh" / f"{name}.svg")
    (out / "runs.json").write_text(json.dumps(runs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for page, short in (("docs/lab.md", "en"), ("docs/zh-CN/lab.md", "zh")):
        if (TREE / page).exists():
            write_seen(TREE / page, runs, short)


def main():
    holdfast, *rest = sys.argv[1:]
    names = [each["experiment"] for each in json.loads(subprocess.run([holdfast, "lab", "--json"], capture_output=True, text=True, check=True).stdout)]
    with tempfile.TemporaryDirectory(prefix="holdfast-lab.") as made:
        gallery, date = (pathlib.Path(rest[1]), rest[2]) if rest[:1] == ["--from"] else (pathlib.Path(made), datetime.date.today().isoformat())
        if gallery == pathlib.Path(made) and subprocess.run([holdfast, "lab", "--all", gallery, "--lang", "en"], check=False).returncode:
            raise SystemExit("lab-pictures: an experiment did not go as it should; nothing is written")
        runs = {"date": date, "machine": f"{os.cpu_count()} CPUs, {platform.system()} {platform.machine()}",
                "command": "make lab-pictures", "experiments": [read_page(name, (gallery / f"{name}.html").read_text(encoding="utf-8")) for name in names]}
        write(gallery, runs)


if __name__ == "__main__":
    main()
