# SPDX-License-Identifier: MIT
"""Reading the pages of man/api, and what each page says together with the headers.

A Page is one file; the Book has all of them and the Interface, and knows on which page a call is. What is wrong goes to
problem(), and the program fails at its end.

A file of man/api:

    # hf_acquire: acquire a lock      the name of the page and what it is about
    calls: hf_acquire                 asynchronous forms come by themselves
    types: hf_acquire_request         structs, enums and callback types to list
    constants: HF_FLAG_*              macros to list
    comments: counters                comments of this section of a header that belong to no declaration
    see: hf_release holdfast(1)

    Paragraphs, "- " lists and ``` blocks. Calls, constants and names with an underscore are marked up by themselves.

    ## hf_acquire()                   more about this call, after its comment in the header
    ## A title                        a section of its own, after the calls
    ## Return values                  "- HF_BUSY: what to do", instead of what libholdfast.md says for all pages
    ## Example                        C that compiles by itself; a whole program is run too
"""
import os
import re

from headers import HEADERS, Interface, read_header
from text import FIRST, blocks_of, split_statuses, status_list

problems = []


def problem(text):
    problems.append(text)


class Page:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            head, _, body = file.read().partition("\n\n")
        self.path = os.path.basename(path)
        self.fields = {}
        title, *rest = head.split("\n")
        self.name, _, self.brief = title[2:].partition(": ")
        for line in rest:
            key, _, value = line.partition(": ")
            self.fields[key] = value.split() if key != "comments" else value.split(", ")
        self.sections, name = {"": ""}, ""
        code = False
        for line in body.split("\n"):
            code ^= line.startswith("```")
            if line.startswith("## ") and not code:
                name = line[3:].strip()
                self.sections[name] = ""
            else:
                self.sections[name] += line + "\n"

    def list(self, key):
        return self.fields.get(key, [])


class Book:
    """All pages, and what is common to them."""

    def __init__(self, root):
        self.root, self.interface = root, Interface()
        for header in HEADERS:
            read_header(self.interface, root, header)
        directory = os.path.join(root, "man", "api")
        self.pages = {}
        for name in sorted(os.listdir(directory)):
            if name.endswith(".md"):
                page = Page(os.path.join(directory, name))
                if page.name + ".md" != name:
                    problem("man/api/%s: its title names another page: %s" % (name, page.name))
                self.pages[page.name] = page
        self.overview = self.pages["libholdfast"]
        self.actions = status_list(self.overview.sections["Statuses"])
        self.groups = []  # (title, pages)
        for line in self.overview.sections["Pages"].strip().split("\n"):
            title, _, names = line.partition(": ")
            self.groups.append((title, names.split()))
        self.owner = {}
        for page in self.pages.values():
            for call in list(page.list("calls")):
                form = call + "_async"
                if form in self.interface.entities:
                    page.fields["calls"].append(form)
        for page in self.pages.values():
            for call in page.list("calls"):
                if call in self.owner:
                    problem("%s() has two pages: %s and %s" % (call, self.owner[call], page.name))
                self.owner[call] = page.name

    def page_of(self, call):
        return self.owner.get(call)

    def constants(self, page):
        found = []
        for pattern in page.list("constants"):
            names = [name for name in self.interface.entities
                     if re.fullmatch(pattern.replace("*", r"\w*"), name) and self.interface.entities[name].kind == "macro"]
            if not names:
                problem("man/api/%s: no constant %s" % (page.path, pattern))
            found += [self.interface.entities[name] for name in names if self.interface.entities[name] not in found]
        return found

    def spoken(self, page):
        """For each call, or calls that share a comment: (names, first line, blocks, asynchronous?), and all statuses."""
        parts, statuses = [], {}
        groups = []
        for name in page.list("calls"):
            entity = self.interface.entities.get(name)
            if entity is None:
                continue
            asynchronous = name.endswith("_async")
            if groups and groups[-1][1].comment == entity.comment and groups[-1][2] == asynchronous and entity.comment:
                groups[-1][0].append(name)
            else:
                groups.append(([name], entity, asynchronous))
        several = len([1 for group in groups if not group[2] and group[1].result == "hf_status"]) > 1
        for names, entity, asynchronous in groups:
            first = FIRST.match(entity.comment)
            rest = entity.comment[first.end():] if first else entity.comment
            kept = []
            # Those of primitives.h share one comment, which hf_store_fd(3) shows.
            if asynchronous and any(name in self.interface.results for name in names) or "What a result has" in rest:
                rest = ""
            for kind, content in blocks_of(rest):
                if kind == "para":
                    content, items = split_statuses(content, self.interface.statuses)
                    for found, said in items:
                        for status in found:
                            where = ", ".join(name + "()" for name in names) if several or asynchronous else ""
                            statuses.setdefault(status, []).append((where, said))
                if content:
                    kept.append((kind, content))
            parts.append((names, first.groups() if first else None, kept, asynchronous))
        common = []
        for title in page.list("comments"):
            for text in self.interface.comments.get(title, []):
                for kind, content in blocks_of(text):
                    if kind == "para":
                        content, items = split_statuses(content, self.interface.statuses)
                        for found, said in items:
                            for status in found:
                                statuses.setdefault(status, []).insert(0, ("", said))
                    if content:
                        common.append((kind, content))
        return common, parts, statuses

    def returns(self, page, statuses):
        """[(statuses, [(call, meaning)], what to do)], in the order of the header."""
        own = status_list(page.sections.get("Return values", ""))
        for name in own:
            if name not in self.interface.statuses:
                problem("man/api/%s: %s is no status" % (page.path, name))
        found = []
        for status in self.interface.statuses:
            if status in statuses or status in own:
                said = self.actions.get(status, "")
                default = said.partition(" -> ")
                meanings = statuses.get(status) or [("", default[0])]
                row = (meanings, own.get(status, default[2]))
                same = [entry for entry in found if entry[1:] == row]
                if same:
                    same[0][0].append(status)
                else:
                    found.append(([status],) + row)
        return found

    def result_of(self, call):
        """What the result of an asynchronous form of primitives.h has, as a sentence."""
        said = self.interface.results.get(call)
        if not said:
            return ""
        names = [declaration.split()[-1].lstrip("*") for declaration, _, _ in self.interface.entities["hf_result"].fields]
        return "The result has " + re.sub(r"(?<!the )\b(%s)\b" % "|".join(names), r"`\1`", said) + "."


def sections_after(page):
    for title, text in page.sections.items():
        if title and not re.match(r"hf_\w+\(\)$", title) and title not in ("Return values", "Example", "Pages", "Statuses"):
            yield title, text
