#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A program around the code of a page of docs/migrate: page_code.py PAGE LANGUAGE FRAME >PROGRAM

A line "@@ N" of FRAME becomes the Nth block of LANGUAGE in the page; each block must be used. The URL of a server in a block becomes the variable
url, and its address the variable address, which FRAME has.
"""
import pathlib
import re
import sys

page, language, frame = sys.argv[1:]
blocks = re.findall(rf"^```{language}\n(.*?)^```$", pathlib.Path(page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
used = set()


def block(found):
    used.add(int(found[1]))
    text = blocks[int(found[1]) - 1]
    text = text.replace('"127.0.0.1:6379"', "address")
    return re.sub(r'"(?:redis|zk)://[^"?]*(\?[^"]*)?"', lambda url: f'(url + "{url[1] or ""}")', text)


text = re.sub(r"^\s*@@ (\d+)\n", block, pathlib.Path(frame).read_text(encoding="utf-8"), flags=re.MULTILINE)
if used != set(range(1, len(blocks) + 1)):
    sys.exit(f"{page}: it has {len(blocks)} blocks of {language}, {frame} uses {sorted(used)}")
sys.stdout.write(text)
