# SPDX-License-Identifier: MIT
"""What must be true of the sources: each call has one page, and a text names only calls, constants and pages that exist.

Nothing is written here, and check() reports all that it finds, not the first.
"""
import os
import re

from headers import HEADERS
from pages import problem


def check(book):
    calls = {entity.name for entity in book.interface.of_kind("call")}
    for call in sorted(calls - set(book.owner)):
        problem("%s(): no page (see man/api)" % call)
    for call in sorted(set(book.owner) - calls):
        problem("man/api/%s.md: %s() is in no header" % (book.owner[call], call))
    listed = [name for _, names in book.groups for name in names]
    for name in sorted(set(book.pages) - set(listed) - {"libholdfast"}):
        problem("man/api/libholdfast.md: nothing about the page %s" % name)
    for name in sorted(set(listed) - set(book.pages)):
        problem("man/api/libholdfast.md: there is no page %s" % name)
    for status in sorted(set(book.interface.statuses) ^ set(book.actions)):
        problem("man/api/libholdfast.md: the list of statuses and the header differ in %s" % status)
    known = set(book.interface.entities) | set(book.interface.statuses)
    for entity in book.interface.entities.values():
        known.update(re.findall(r"HF_\w+", " ".join(field[0] for field in entity.fields)))
    with_init = set()
    for header in HEADERS:
        with open(os.path.join(book.root, "include", "holdfast", header + ".h"), encoding="utf-8") as file:
            with_init.update(re.findall(r"#define (HF_\w+)", file.read()))
    known |= with_init
    texts = [("man/api/" + page.path, "\n".join(page.sections.values())) for page in book.pages.values()]
    texts += [(entity.header + ".h", entity.comment) for entity in book.interface.entities.values()]
    for place, text in texts:
        for call in set(re.findall(r"\bhf_[a-z0-9_]+(?=\()", text)) - calls:
            if call + "_t" not in known and not call.endswith("_fn"):
                problem("%s: %s() is in no header" % (place, call))
        for constant in set(re.findall(r"\bHF_[A-Z0-9_]+\b(?!\*)", text)):
            if constant not in known and not constant.endswith("_"):
                problem("%s: %s is in no header" % (place, constant))
    for page in book.pages.values():
        for name in page.list("types"):
            if name not in book.interface.entities:
                problem("man/api/%s: there is no type %s" % (page.path, name))
        for name in page.list("comments"):
            if name not in book.interface.comments:
                problem("man/api/%s: no header has such a section: %s" % (page.path, name))
        for name in page.list("see"):
            if not re.search(r"\([1-8]\)$", name) and name not in book.owner:
                problem("man/api/%s: see: there is no page %s" % (page.path, name))
        if "Example" not in page.sections and page is not book.overview:
            problem("man/api/%s: no example" % page.path)
        for title in page.sections:
            call = re.match(r"(hf_\w+)\(\)$", title)
            if call and call.group(1) not in page.list("calls"):
                problem("man/api/%s: %s is not of this page" % (page.path, title))
    # Pages written by hand, and documents, may name only calls that there are.
    for place in others(book.root):
        with open(os.path.join(book.root, place), encoding="utf-8") as file:
            text = file.read()
        found = re.findall(r"^\.Fn (hf_\w+)|\b(hf_[a-z0-9_]+)\(", text, re.M)
        for call in sorted({one or other for one, other in found} - calls):
            problem("%s: %s() is in no header" % (place, call))
    # Where a header has several types under one comment, or none, is its own affair; but each struct is on a page.
    shown = {name for page in book.pages.values() for name in page.list("types")}
    for entity in book.interface.entities.values():
        if entity.kind in ("struct", "enum", "function") and entity.name not in shown and entity.name != "hf_status":
            problem("%s is on no page (types: in man/api)" % entity.name)


def others(root):
    for directory, pattern in (("man", r".*\.[1-9]$"), ("docs", r".*\.md$"), (".", r"README.*\.md$")):
        for name in sorted(os.listdir(os.path.join(root, directory))):
            if re.match(pattern, name) and name != "decisions.md":  # which names what was rejected
                yield os.path.join(directory, name)
