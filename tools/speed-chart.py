#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The five ratios of README.md and docs/speed.md, as data and as a chart:

  speed-chart.py                              draws docs/speed.svg from docs/speed.csv
  speed-chart.py --from BENCH.json DATE TEXT  takes them from a run of `holdfast bench --json`, made on DATE; TEXT says under which conditions
  speed-chart.py --check                      the chart, docs/speed.md, README.md and README.zh-CN.md have the ratios of docs/speed.csv
"""
import csv
import io
import json
import pathlib
import re
import sys
from xml.sax.saxutils import escape

TREE = pathlib.Path(__file__).resolve().parents[1]
DATA, CHART = TREE / "docs/speed.csv", TREE / "docs/speed.svg"
# Measurement, row and baseline of `holdfast bench`; what they are in words.
ROWS = [
    ("handoff", "8 processes, 1 ms: acquisitions", "ticket lock on shared futexes", "Embedded store: 8 processes in turn, 1 ms each", "a bare ticket lock on futexes"),
    ("redis-pair", "acquire+release", "SET NX PX, compare and delete", "Redis: acquire and release", "SET NX PX and compare-and-delete, without a token"),
    ("redis-queue", "16 processes, 1 ms: acquisitions", "raw queue", "Redis: 16 processes in turn, 1 ms each", "a queue in two scripts"),
    ("redlock-pair", "acquire+release, five nodes, with tokens", "SET NX and delete, by hand", "Redlock, five servers: acquire and release", "SET NX PX to all five, without tokens"),
    ("postgres-pair", "acquire+release, mode=lease", "upsert + update, by hand", "PostgreSQL: acquire and release", "an upsert and an update of one row"),
]
FIELDS = ["measurement", "what", "beside", "ours_per_second", "beside_per_second", "ratio", "ratio_low", "ratio_high", "target", "date", "command", "conditions"]


def take(file, date, conditions):
    measured = {each["name"]: each for each in json.loads(pathlib.Path(file).read_text(encoding="utf-8"))["measurements"]}
    out = io.StringIO()
    table = csv.DictWriter(out, FIELDS, lineterminator="\n")
    table.writeheader()
    for name, what, against, words, beside in ROWS:
        row = next(each for each in measured[name]["rows"] if each["what"] == what and each["against"] == against)
        table.writerow({"measurement": name, "what": words, "beside": beside, "ours_per_second": round(row["measured"]), "beside_per_second": round(row["baseline"]),
                        "ratio": f"{row['ratio']:.2f}", "ratio_low": f"{row['ratio_low']:.2f}", "ratio_high": f"{row['ratio_high']:.2f}",
                        "target": row["target"]["at_least"] if row["target"] else "", "date": date, "command": f"holdfast bench {name}", "conditions": conditions})
    DATA.write_text(out.getvalue(), encoding="utf-8")


def rows():
    with open(DATA, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw(table):
    width, left, right, top, step = 560, 20, 72, 76, 70
    height = top + step * len(table) + 14
    scale = (width - left - right) / 1.0
    parts = [f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-labelledby="title">
<title id="title">Speed of Holdfast as a share of the same work by hand: {escape("; ".join(f"{row['what']} {row['ratio']}" for row in table))}</title>
<style>
text {{ font-family: Inter, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; font-size: 16px; fill: #14171c; }}
.paper {{ fill: #ffffff; stroke: #d9dfe6; }} .title {{ font-size: 19px; font-weight: 700; }} .dim {{ font-size: 14px; fill: #566170; }}
.value {{ font-size: 18px; font-weight: 700; font-variant-numeric: tabular-nums; }} .rest {{ fill: #e7ebf0; }} .ours {{ fill: #1268c8; }} .limit {{ stroke: #566170; stroke-dasharray: 3 3; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e9edf2; }} .paper {{ fill: #182028; stroke: #33404c; }} .dim {{ fill: #a0acba; }} .rest {{ fill: #26313b; }} .ours {{ fill: #86c0fb; }} .limit {{ stroke: #a0acba; }}
}}
</style>
<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" class="paper"/>
<text x="{left}" y="34" class="title">Holdfast beside the same work by hand</text>
<text x="{left}" y="56" class="dim">The dashed line is the hand-written loop (1.00). More is better. {escape(table[0]["date"])}</text>
"""]
    for number, row in enumerate(table):
        y = top + step * number
        share = min(float(row["ratio"]), 1.0) * scale
        parts.append(f"""<text x="{left}" y="{y + 16}">{escape(row["what"])}</text>
<text x="{left}" y="{y + 34}" class="dim">of {escape(row["beside"])}</text>
<rect x="{left}" y="{y + 41}" width="{scale:.1f}" height="14" rx="3" class="rest"/>
<rect x="{left}" y="{y + 41}" width="{share:.1f}" height="14" rx="3" class="ours"/>
<text x="{left + scale + 10:.1f}" y="{y + 54}" class="value">{row["ratio"]}</text>
""")
    parts.append(f'<line x1="{left + scale:.1f}" y1="{top + 36}" x2="{left + scale:.1f}" y2="{height - 22}" class="limit"/>\n</svg>\n')
    return "".join(parts)


def section(text, title):
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    return found[1] if found else ""


def check(table):
    wrong = []
    if not CHART.exists() or CHART.read_text(encoding="utf-8") != draw(table):
        wrong.append("docs/speed.svg is not what tools/speed-chart.py draws from docs/speed.csv")
    wanted = [row["ratio"] for row in table]
    for page, title in (("docs/speed.md", "Five ratios"), ("README.md", "Speed"), ("README.zh-CN.md", "速度")):
        lines = section((TREE / page).read_text(encoding="utf-8"), title).splitlines()
        found = [found[1] for line in lines if line.startswith("|") for found in [re.search(r"\|\s*\**(\d\.\d\d)\**\s*\|", line)] if found]
        if found != wanted:
            wrong.append(f"{page}, {title}: its rows have the ratios {', '.join(found) or 'none'}; docs/speed.csv has {', '.join(wanted)}")
    return wrong


def main():
    if sys.argv[1:2] == ["--from"]:
        take(*sys.argv[2:])
    table = rows()
    if sys.argv[1:] == ["--check"]:
        wrong = check(table)
        print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
        raise SystemExit(1 if wrong else 0)
    CHART.write_text(draw(table), encoding="utf-8")


if __name__ == "__main__":
    main()
