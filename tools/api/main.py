#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages of the C interface, and docs/api, from one source: main.py [--check] [DIR]

Source: the public headers (declarations, structs, constants, and the comment of each) and man/api/*.md, one file for each
page, with what is longer than a header should carry; pages.py says how such a file looks. Output: man/man3/*.3 and
docs/api/*.md, which are committed. --check writes nothing and fails if a file is not what the source says. Both fail if a
call has no page or two, if a text names a call, a constant or a page that does not exist, or if a page has no example. DIR
is another source tree. Exit status: 0, 1 if something is wrong, 64 for wrong arguments.

The path of a source: headers.py and pages.py read, text.py takes a text apart, consistency.py checks, mdoc.py and
markdown.py write. This file has the arguments and the files of the output.
"""
import os
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the tree

from consistency import check as check_sources  # noqa: E402
from markdown import markdown_page  # noqa: E402
from mdoc import mdoc_page  # noqa: E402
from pages import Book, problem, problems  # noqa: E402

USAGE = "usage: tools/api/main.py [--check] [DIR]"
EX_USAGE = 64


def parse(arguments):
    """(check?, the source tree), or None."""
    check, trees = False, []
    for argument in arguments:
        if argument == "--check":
            check = True
        elif argument.startswith("-"):
            return None
        else:
            trees.append(argument)
    if len(trees) > 1:
        return None
    return check, trees[0] if trees else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def output(book):
    """{path: text} of every file that the sources make."""
    wanted = {}
    for page in book.pages.values():
        wanted[os.path.join("man", "man3", page.name + ".3")] = mdoc_page(book, page)
        name = "README" if page is book.overview else page.name
        wanted[os.path.join("docs", "api", name + ".md")] = markdown_page(book, page)
    return wanted


def bring_up_to_date(root, wanted, check):
    """Writes the files that differ and removes those that no page makes; with check, reports them only."""
    for directory in (os.path.join("man", "man3"), os.path.join("docs", "api")):
        os.makedirs(os.path.join(root, directory), exist_ok=True)
        for name in sorted(os.listdir(os.path.join(root, directory))):
            path = os.path.join(directory, name)
            if path not in wanted:
                if check:
                    problem("%s: no page of man/api makes this file" % path)
                else:
                    os.unlink(os.path.join(root, path))
    for path, text in sorted(wanted.items()):
        there = None
        if os.path.exists(os.path.join(root, path)):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                there = file.read()
        if there == text:
            continue
        if check:
            problem("%s is not what the headers and man/api say: run `make api`" % path)
        else:
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)


def main():
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    parsed = parse(sys.argv[1:])
    if parsed is None:
        print(USAGE, file=sys.stderr)
        return EX_USAGE
    check, root = parsed
    if not os.path.isdir(os.path.join(root, "man", "api")):
        print("%s is no source tree: it has no man/api\n%s" % (root, USAGE), file=sys.stderr)
        return EX_USAGE
    book = Book(root)
    check_sources(book)
    bring_up_to_date(root, output(book), check)
    for text in dict.fromkeys(problems):
        print(text, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
