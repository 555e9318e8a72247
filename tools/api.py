#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The manual pages of the C interface, and docs/api, from one source: api.py [--check] [DIR]

Source: the public headers (declarations, structs, constants, and the comment of each) and man/api/*.md, one file for each
page, with what is longer than a header should carry. Output: man/man3/*.3 and docs/api/*.md, which are committed. --check
writes nothing and fails if a file is not what the source says. Both fail if a call has no page or two, if a text names a
call, a constant or a page that does not exist, or if a page has no example. DIR is another source tree.

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
import sys

HEADERS = ["holdfast", "primitives", "redis", "observe"]
# Internal to the headers, or explained in libholdfast(3).
NOT_CONSTANTS = re.compile(r"HF_(API|USE|INIT|STATUS_(MAP|ENUM)|\w+_INIT|VERSION_(MAJOR|MINOR|PATCH))$")
problems = []


def problem(text):
    problems.append(text)


# ---- reading the headers ----------------------------------------------------------------------------------

class Entity:
    def __init__(self, name, kind, comment, header):
        self.name, self.kind, self.comment, self.header = name, kind, comment, header
        self.declaration = self.result = self.arguments = self.value = None
        self.fields = []


class Interface:
    def __init__(self):
        self.entities, self.comments, self.statuses, self.results = {}, {}, {}, {}

    def of_kind(self, kind):
        return [entity for entity in self.entities.values() if entity.kind == kind]


def comment_text(raw):
    """The text of a comment, without stars; inner indentation stays."""
    lines = raw.strip()[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\*( |$)", "", line) if index else line.strip()
                     for index, line in enumerate(lines)).strip("\n").rstrip()


def members(body, separator):
    """(declaration, its comment, a heading before it) for each member of a struct or enum."""
    found, ahead, end_of_last = [], "", None
    for part in re.finditer(r"/\*.*?\*/|[^%s/]+%s?|/" % (separator, separator), body, re.S):
        text = part.group(0)
        if not text.strip():
            if "\n" in text:
                end_of_last = None
            continue
        if text.startswith("/*"):
            words = " ".join(comment_text(text).split())
            if end_of_last is not None and "\n" not in body[end_of_last:part.start()]:
                found[-1][1] = words
            else:
                ahead = words
            continue
        declaration = re.sub(r"\* (?=\w)", "*", " ".join(text.strip().rstrip(separator).split()))
        found.append([declaration, "", ahead])
        ahead = ""
        end_of_last = part.end() if text.rstrip().endswith(separator) else part.start() + len(text.rstrip())
    for member in found:  # a comment before the member is its own, if it has no other
        if member[2] and not member[1]:
            member[1], member[2] = member[2], ""
    return found


def read_header(interface, root, header):
    with open(os.path.join(root, "include", "holdfast", header + ".h"), encoding="utf-8") as file:
        text = file.read()
    section, ahead, shared = "", None, None
    position = 0
    pattern = re.compile(
        r"(?P<section>/\* -{4,} (?P<title>.*?) -{4,} \*/\n)|(?P<comment>/\*.*?\*/)|(?P<blank>\n[ \t]*\n)"
        r"|(?P<macro>#define[ \t]+(?P<macro_name>HF_\w+)(?P<macro_rest>(?:\\\n|/\*.*?\*/|[^\n])*))"
        r"|(?P<other>#[^\n]*)"
        r"|(?P<record>typedef (?P<record_kind>struct|enum) (?P<record_name>hf_\w+) \{(?P<body>.*?)\} (?P=record_name);)"
        r"|(?P<opaque>typedef struct hf_\w+ (?P<opaque_name>hf_\w+);)"
        r"|(?P<function>typedef (?P<function_text>[^;{]*?(?P<function_name>hf_\w+_fn)\([^;]*\));)"
        r"|(?P<call>HF_API\s+(?:HF_USE\s+)?(?P<call_text>[^;]*);)", re.S)
    for match in iter(lambda: pattern.search(text, position), None):
        position = match.end()
        what = match.lastgroup if match.group("section") is None else "section"
        for name in ("section", "comment", "blank", "macro", "other", "record", "opaque", "function", "call"):
            if match.group(name) is not None:
                what = name
                break
        if what == "blank":
            if ahead is not None:
                interface.comments.setdefault(section, []).append(ahead)
            ahead = shared = None
            position = match.end() - 1  # the newline may begin the next blank line
        elif what == "section":
            section, ahead, shared = match.group("title"), None, None
        elif what == "comment":
            ahead, shared = comment_text(match.group("comment")), None
        elif what == "macro":
            name, rest = match.group("macro_name"), match.group("macro_rest")
            if name == "HF_STATUS_MAP":
                for status, said in re.findall(r'X\((\w+), \d+,\s+"([^"]*)"\)', rest):
                    interface.statuses["HF_" + status] = said
            if not NOT_CONSTANTS.match(name):
                own = re.search(r"/\*.*?\*/", rest, re.S)
                entity = Entity(name, "macro", " ".join(comment_text(own.group(0)).split()) if own else ahead or "", header)
                entity.value = " ".join(re.sub(r"/\*.*?\*/|\\\n", " ", rest, flags=re.S).split())
                interface.entities[name] = entity
            ahead = None
        elif what == "record":
            name, kind = match.group("record_name"), match.group("record_kind")
            entity = Entity(name, kind, ahead or "", header)
            entity.fields = members(match.group("body"), ";" if kind == "struct" else ",")
            interface.entities[name] = entity
            ahead = None
        elif what == "opaque":
            interface.entities.setdefault(match.group("opaque_name"), Entity(match.group("opaque_name"), "opaque", ahead or "", header))
            ahead = None
        elif what == "function":
            entity = Entity(match.group("function_name"), "function", ahead or "", header)
            entity.declaration = "typedef " + " ".join(match.group("function_text").split()) + ";"
            interface.entities[entity.name] = entity
            ahead = None
        elif what == "call":
            if ahead is not None:
                shared, ahead = ahead, None
            declaration = " ".join(match.group("call_text").split())
            result, name, arguments = re.match(r"(.*?)\b(hf_\w+)\((.*)\)$", declaration).groups()
            said = shared or ""
            entity = Entity(name, "call", said, header)
            entity.result, entity.declaration = result.strip(), declaration + ";"
            entity.arguments = [part.strip() for part in arguments.split(",")]
            interface.entities[name] = entity
    # What hf_X_async() finds: a table in the comment that those of primitives.h share.
    for names, said in re.findall(r"^ \*   ([a-z_]+(?:, [a-z_]+)*) {2,}(\S.*)$", text, re.M):
        for name in names.split(", "):
            interface.results["hf_" + name + "_async"] = said


FIRST = re.compile(r"Blocks: (.*?)\. Callbacks: (.*?)\. After fork: (.*?)\.(?:\s|$)", re.S)


# ---- a text: paragraphs, lists and code -------------------------------------------------------------------

def blocks_of(text):
    """[(kind, content)]: para, code (lines) or list (texts)."""
    found, lines = [], text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip():
            index += 1
        elif line.startswith("```"):
            end = next(i for i in range(index + 1, len(lines)) if lines[i].startswith("```"))
            found.append(("code", (line[3:].strip(), lines[index + 1:end])))
            index = end + 1
        elif line.startswith("  "):
            taken = []
            while index < len(lines) and (lines[index].startswith("  ") or not lines[index].strip()):
                taken.append(lines[index][2:])
                index += 1
            while not taken[-1].strip():
                taken.pop()
            found.append(("code", ("", taken)))
        elif line.startswith("- "):
            items = []
            while index < len(lines) and lines[index].strip():
                if lines[index].startswith("- "):
                    items.append(lines[index][2:])
                else:
                    items[-1] += " " + lines[index].strip()
                index += 1
            found.append(("list", items))
        else:
            taken = []
            while index < len(lines) and lines[index].strip() and not re.match(r"  |- |```", lines[index]):
                taken.append(lines[index].strip())
                index += 1
            found.append(("para", " ".join(taken)))
    return found


STATUS_ITEM = r"HF_[A-Z_]+(?: \([^()]*(?:\(\)[^()]*)?\))?(?:, HF_[A-Z_]+(?: \([^()]*(?:\(\)[^()]*)?\))?)*:"


def split_statuses(paragraph, statuses):
    """What a paragraph says of statuses ("HF_BUSY: ..." at the beginning of a sentence), and the rest."""
    starts = [match.start(1) for match in re.finditer(r"(?:^|(?<=[.)] ))(%s) " % STATUS_ITEM, paragraph)]
    starts = [start for start in starts if re.match(r"HF_[A-Z_]+", paragraph[start:]).group(0) in statuses]
    if not starts:
        return paragraph, []
    items = []
    for start, end in zip(starts, starts[1:] + [len(paragraph)]):
        head, said = re.match(r"(%s) (.*)" % STATUS_ITEM, paragraph[start:end].strip(), re.S).groups()
        names = re.findall(r"HF_[A-Z_]+", re.sub(r" \([^,]*\)(?=[,:])", "", head))
        condition = re.search(r"\((.*)\):$", head) if len(names) == 1 else None
        items.append((names, ("with " + condition.group(1) + ": " if condition else "") + said))
    return paragraph[:starts[0]].strip(), items


# A word that is marked up: a call, a constant, a page of the manual, code, a parameter.
SPECIAL = re.compile(
    r"(?P<code>`[^`]+`)|(?P<strong>\*\*[^*]+\*\*)|(?P<em>\*[a-z][a-z -]*[a-z]\*)"
    r"|(?P<page>(?<![\w.-])(?:holdfast(?:-[a-z-]+)?|libholdfast|[a-z_]+)\([1-8]\))"
    r"|(?P<call>\bhf_[a-z0-9_]+\(\))|(?P<constant>\bHF_\*_INIT|\bHF_[A-Z0-9_]+\*?)|(?P<type>\bhf_[a-z0-9_]+\b)"
    r"|(?P<setting>\b[a-z_]+=[A-Za-z0-9_]*)"
    r"|(?P<name>\*?\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\[[*a-z_]+\])?|\b[a-z]+\[[a-z]\]|\*(?:lease|err|seq)\b|\b[a-z]+->[a-z_]+)")


class Markdown:
    """Inline text and blocks for docs/api."""

    def __init__(self, book, page):
        self.book, self.page = book, page

    def plain(self, text):
        return re.sub(r"([*<\[\]\\])", r"\\\1", text)

    def word(self, match):
        text = match.group(0)
        kind = match.lastgroup
        if kind == "code":
            return text
        if kind in ("strong", "em"):
            return text
        if kind == "call":
            page = self.book.page_of(text[:-2])
            return "[`%s`](%s.md)" % (text, page) if page and page != self.page else "`%s`" % text
        if kind == "page":
            name = text[:-3]
            if name == "libholdfast":
                return "[%s](README.md)" % text
            if text.endswith("(3)") and self.book.page_of(name):
                return "[%s](%s.md)" % (text, self.book.page_of(name))
            return text
        return "`%s`" % text

    def inline(self, text):
        out, position = [], 0
        for match in SPECIAL.finditer(text):
            out += [self.plain(text[position:match.start()]), self.word(match)]
            position = match.end()
        return "".join(out + [self.plain(text[position:])])

    def cell(self, text):
        return self.inline(text).replace("|", "\\|")

    def blocks(self, blocks):
        out = []
        for kind, content in blocks:
            if kind == "para":
                out.append(fill(self.inline(content)))
            elif kind == "code":
                out.append("```%s\n%s\n```" % (content[0] or "text", "\n".join(content[1])))
            else:
                out.append("\n".join(fill(self.inline(item), "- ", "  ") for item in content))
        return "\n\n".join(out)


def fill(text, first="", rest="", width=120):
    """Breaks lines at spaces, but not in code or links."""
    words, line, lines = re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", text), first, []
    for word in words:
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line.rstrip())
            line = rest
        line += ("" if line in (first, rest) else " ") + word
    return "\n".join(lines + [line.rstrip()])


OPENING, CLOSING = "([", ".,:;)]?!"


class Mdoc:
    """The same for manual pages."""

    def __init__(self, book, page):
        self.book, self.page = book, page

    def escape(self, text):
        return text.replace("\\", "\\e").replace("`", "\\(ga")

    def argument(self, text):
        text = self.escape(text).replace('"', "\\(dq")
        if text in OPENING + CLOSING or re.match(r"[A-Z][a-z]$|[A-Z][a-z]\w?$", text):
            text = "\\&" + text
        return '"%s"' % text if re.search(r"\s", text) or not text else text

    def macro(self, match):
        text, kind = match.group(0), match.lastgroup
        if kind == "code":
            return ["Li", self.argument(text[1:-1])]
        if kind == "strong":
            return ["Sy", self.argument(text[2:-2])]
        if kind == "em":
            return ["Em", self.argument(text[1:-1])]
        if kind == "call":
            page = self.book.page_of(text[:-2])
            return ["Xr", text[:-2], "3"] if page and page != self.page else ["Fn", text[:-2]]
        if kind == "page":
            return ["Xr", text[:-3], text[-2]]
        return [{"constant": "Dv", "type": "Vt", "name": "Fa", "setting": "Li"}[kind], self.argument(text)]

    def inline(self, text):
        """Lines of roff."""
        lines, plain = [], ""

        def flush():
            nonlocal plain
            sentences = re.split(r"(?<=[.!?]) (?=\S)|(?<=[.!?]\)) (?=\S)", plain)
            for line in "\n".join(fill(sentence, width=110) for sentence in sentences).split("\n"):
                if line.strip():
                    lines.append(re.sub(r"^([.'])", r"\\&\1", self.escape(line.strip())))
            plain = ""

        position = 0
        matches = list(SPECIAL.finditer(text))
        while matches:
            match = matches.pop(0)
            before = text[position:match.start()]
            glued = re.search(r"\S+$", before)
            head = glued.group(0) if glued else ""
            plain += before[:len(before) - len(head)]
            flush()
            parts = []
            if head and not all(c in OPENING for c in head):
                parts += ["No", self.argument(head), "Ns"]
                head = ""
            macro = self.macro(match)
            parts += [macro[0]] + list(head) + macro[1:]
            position = match.end()
            # What follows without a space belongs to the same line, also another word that is marked up.
            while True:
                tail = re.match(r"\S*", text[position:]).group(0)
                inner = matches[0].start() - position if matches and matches[0].start() < position + len(tail) else None
                piece = tail if inner is None else tail[:inner]
                if piece and all(c in CLOSING for c in piece) and inner is None:
                    parts += list(piece)
                elif piece:
                    parts += ["Ns", "No", self.argument(piece)]
                position += len(piece)
                if inner is None:
                    break
                following = matches.pop(0)
                parts += ["Ns"] + self.macro(following)
                position = following.end()
            lines.append("." + " ".join(parts))
        plain += text[position:]
        flush()
        return lines

    def blocks(self, blocks, first=False):
        lines = []
        for kind, content in blocks:
            if kind == "para":
                lines += ([] if first else [".Pp"]) + self.inline(content)
            elif kind == "code":
                lines += [".Bd -literal -offset indent"] + [self.code(line) for line in content[1]] + [".Ed"]
            else:
                lines += [".Bl -bullet -compact"] if not lines or first else [".Pp", ".Bl -bullet -compact"]
                for item in content:
                    lines += [".It"] + self.inline(item)
                lines.append(".El")
            first = False
        return lines

    def code(self, line):
        return re.sub(r"^([.'])", r"\\&\1", line.replace("\\", "\\e").replace("\t", "        "))


# ---- a page -----------------------------------------------------------------------------------------------

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


def status_list(text):
    """- HF_BUSY, HF_TIMEOUT: text"""
    found = {}
    for kind, content in blocks_of(text):
        for item in content if kind == "list" else []:
            names, _, said = item.partition(": ")
            for name in names.split(", "):
                found[name] = said
    return found


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

    # ---- what must be true

    def check(self):
        calls = {entity.name for entity in self.interface.of_kind("call")}
        for call in sorted(calls - set(self.owner)):
            problem("%s(): no page (see man/api)" % call)
        for call in sorted(set(self.owner) - calls):
            problem("man/api/%s.md: %s() is in no header" % (self.owner[call], call))
        listed = [name for _, names in self.groups for name in names]
        for name in sorted(set(self.pages) - set(listed) - {"libholdfast"}):
            problem("man/api/libholdfast.md: nothing about the page %s" % name)
        for name in sorted(set(listed) - set(self.pages)):
            problem("man/api/libholdfast.md: there is no page %s" % name)
        for status in sorted(set(self.interface.statuses) ^ set(self.actions)):
            problem("man/api/libholdfast.md: the list of statuses and the header differ in %s" % status)
        known = set(self.interface.entities) | set(self.interface.statuses)
        for entity in self.interface.entities.values():
            known.update(re.findall(r"HF_\w+", " ".join(field[0] for field in entity.fields)))
        with_init = set()
        for header in HEADERS:
            with open(os.path.join(self.root, "include", "holdfast", header + ".h"), encoding="utf-8") as file:
                with_init.update(re.findall(r"#define (HF_\w+)", file.read()))
        known |= with_init
        texts = [("man/api/" + page.path, "\n".join(page.sections.values())) for page in self.pages.values()]
        texts += [(entity.header + ".h", entity.comment) for entity in self.interface.entities.values()]
        for place, text in texts:
            for call in set(re.findall(r"\bhf_[a-z0-9_]+(?=\()", text)) - calls:
                if call + "_t" not in known and not call.endswith("_fn"):
                    problem("%s: %s() is in no header" % (place, call))
            for constant in set(re.findall(r"\bHF_[A-Z0-9_]+\b(?!\*)", text)):
                if constant not in known and not constant.endswith("_"):
                    problem("%s: %s is in no header" % (place, constant))
        for page in self.pages.values():
            for name in page.list("types"):
                if name not in self.interface.entities:
                    problem("man/api/%s: there is no type %s" % (page.path, name))
            for name in page.list("comments"):
                if name not in self.interface.comments:
                    problem("man/api/%s: no header has such a section: %s" % (page.path, name))
            for name in page.list("see"):
                if not re.search(r"\([1-8]\)$", name) and name not in self.owner:
                    problem("man/api/%s: see: there is no page %s" % (page.path, name))
            if "Example" not in page.sections and page is not self.overview:
                problem("man/api/%s: no example" % page.path)
            for title in page.sections:
                call = re.match(r"(hf_\w+)\(\)$", title)
                if call and call.group(1) not in page.list("calls"):
                    problem("man/api/%s: %s is not of this page" % (page.path, title))
        # Pages written by hand, and documents, may name only calls that there are.
        for place in self.others():
            with open(os.path.join(self.root, place), encoding="utf-8") as file:
                text = file.read()
            found = re.findall(r"^\.Fn (hf_\w+)|\b(hf_[a-z0-9_]+)\(", text, re.M)
            for call in sorted({one or other for one, other in found} - calls):
                problem("%s: %s() is in no header" % (place, call))
        # Where a header has several types under one comment, or none, is its own affair; but each struct is on a page.
        shown = {name for page in self.pages.values() for name in page.list("types")}
        for entity in self.interface.entities.values():
            if entity.kind in ("struct", "enum", "function") and entity.name not in shown and entity.name != "hf_status":
                problem("%s is on no page (types: in man/api)" % entity.name)

    def others(self):
        for directory, pattern in (("man", r".*\.[1-9]$"), ("docs", r".*\.md$"), (".", r"README.*\.md$")):
            for name in sorted(os.listdir(os.path.join(self.root, directory))):
                if re.match(pattern, name) and name != "decisions.md":  # which names what was rejected
                    yield os.path.join(directory, name)

    # ---- what a page says

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


ASYNC_WORDS = ("Each begins the call of the same name and returns at once; `done` is called once, later, from hf_store_process(). "
               "See hf_store_fd(3).")
MORE = "Every call may also return a status that libholdfast(3) lists for all of them."


def fields_of(entity):
    for declaration, said, heading in entity.fields:
        name = re.search(r"(\w+)(?:\[.*?\])?\)?(?:\(.*\))?$", declaration.split(" = ")[0])
        if re.match(r"(const )?\w+ \*?reserved\b", declaration) or declaration == "size_t size" and not said:
            continue
        yield declaration, name.group(1) if name else declaration, said, heading


def initializer(book, name):
    with_init = "HF_%s_INIT" % name[3:].upper()
    for header in HEADERS:
        with open(os.path.join(book.root, "include", "holdfast", header + ".h"), encoding="utf-8") as file:
            if "#define %s " % with_init in file.read():
                return with_init
    return None


def sections_after(page):
    for title, text in page.sections.items():
        if title and not re.match(r"hf_\w+\(\)$", title) and title not in ("Return values", "Example", "Pages", "Statuses"):
            yield title, text


def declaration_text(entity):
    """One declaration in C, broken at 90 columns."""
    line = entity.declaration
    if len(line) <= 90:
        return line
    head, rest = line.split("(", 1)
    lines, now = [], head + "("
    indent = " " * len(now)
    for argument in rest[:-2].split(", "):
        piece = argument + ", "
        if len(now) + len(piece) > 91 and now.strip() and not now.endswith("("):
            lines.append(now.rstrip())
            now = indent
        now += piece
    return "\n".join(lines + [now[:-2] + ");"])


WARNING = "Generated by tools/api.py from include/holdfast and man/api/%s: edit those, then run `make api`."


def mdoc_page(book, page):
    m = Mdoc(book, page.name)
    interface = book.interface
    calls = [interface.entities[name] for name in page.list("calls") if name in interface.entities]
    out = [".\\\" SPDX-License-Identifier: MIT", ".\\\" " + WARNING % page.path, ".Dd " + " ".join(book.overview.list("date")),
           ".Dt %s 3" % page.name.upper(), ".Os", ".Sh NAME"]
    names = [entity.name for entity in calls] or [page.name]
    out += [".Nm %s ," % name for name in names[:-1]] + [".Nm " + names[-1], ".Nd " + page.brief]
    if page is book.overview:
        return overview_mdoc(book, page, m, out)
    out += [".Sh LIBRARY", ".Li pkg-config --cflags --libs holdfast", ".Sh SYNOPSIS",
            ".In holdfast/%s.h" % calls[0].header]
    for entity in calls:
        out += [".Ft " + m.argument(entity.result), ".Fo " + entity.name]
        out += [".Fa " + m.argument(argument) for argument in entity.arguments] + [".Fc"]
    common, parts, statuses = book.spoken(page)
    out.append(".Sh DESCRIPTION")
    intro = common + blocks_of(page.sections[""])
    out += m.blocks(intro, first=True)
    began = bool(intro)
    for names, first, blocks, asynchronous in parts:
        if asynchronous:
            continue
        out.append(".Ss " + ", ".join(name + "()" for name in names))
        more = [block for name in names for block in blocks_of(page.sections.get(name + "()", ""))]
        out += m.blocks(blocks + more, first=True)
        if first:
            out += ([".Pp"] if blocks + more else []) + first_mdoc(m, first)
    forms = [part for part in parts if part[3]]
    if forms:
        out.append(".Ss Asynchronous forms")
        out += m.inline(ASYNC_WORDS)
        out += [".Bl -tag -width Ds"]
        for names, first, blocks, _ in forms:
            for name in names:
                more = blocks_of(page.sections.get(name + "()", ""))
                out.append(".It Fn " + name)
                if book.result_of(name):
                    more = [("para", book.result_of(name))] + more
                out += m.blocks((blocks if name == names[-1] else []) + more, first=True) or m.inline("As the blocking form.")
        out.append(".El")
    for title, text in sections_after(page):
        out.append(".Ss " + title)
        out += m.blocks(blocks_of(text), first=True)
    for name in page.list("types"):
        out += type_mdoc(book, m, interface.entities[name])
    constants = book.constants(page)
    if constants:
        out += [".Ss Constants", ".Bl -tag -width Ds"]
        for entity in constants:
            out.append(".It Dv " + entity.name + ("" if re.match(r"\(UINT64_C\(1\) <<", entity.value) or not entity.value
                                                  else " Pq Li %s" % m.argument(entity.value)))
            out += m.blocks(blocks_of(entity.comment), first=True)
        out.append(".El")
    returned = book.returns(page, statuses)
    if returned:
        out += [".Sh RETURN VALUES", ".Bl -tag -width HF_UNAVAILABLE"]
        for names, meanings, action in returned:
            out.append(".It Dv " + " , ".join(names))
            texts = spoken_meanings(meanings) + ([action] if action else [])
            for index, text in enumerate(texts):
                out += ([".Pp"] if index else []) + m.inline(full_stop(text))
        out += [".El", ".Pp"] + m.inline(MORE)
    example = blocks_of(page.sections.get("Example", ""))
    if example:
        out += [".Sh EXAMPLES"] + m.blocks(example, first=True)
    out += see_also(page, m)
    return "\n".join(out) + "\n"


def spoken_meanings(meanings):
    """One text for each call; the first letter is large unless it begins a name."""
    texts = {}
    for where, said in meanings:
        texts[where] = "%s; %s" % (texts[where].rstrip("."), said) if where in texts else said
    return [where + ": " + said if where else said if re.match(r"[a-z]+[_\[]", said) else said[:1].upper() + said[1:]
            for where, said in texts.items() if said]


def full_stop(text):
    return text if re.search(r"[.!?]\)?$", text) else text + "."


def first_mdoc(m, first):
    return m.inline("**Blocks:** %s. **Callbacks:** %s. **After fork:** %s." % first)


def type_mdoc(book, m, entity):
    out = [".Ss " + ("struct " if entity.kind == "struct" else "enum " if entity.kind == "enum" else "") + entity.name]
    if entity.kind == "function":
        out += m.blocks([("code", ("c", [entity.declaration]))] + blocks_of(entity.comment), first=True)
        return out
    out += m.blocks(blocks_of(entity.comment), first=True)
    init = initializer(book, entity.name)
    if init:
        out += ([".Pp"] if entity.comment else []) + m.inline("Begin with %s; a field that is zero means its default." % init
                                                              if "_request" in entity.name or "_options" in entity.name or "_item" in entity.name
                                                              else "Begin with %s." % init)
    out.append(".Bl -tag -width Ds -compact")
    for declaration, name, said, heading in fields_of(entity):
        if heading:
            out += [".El", ".Pp"] + m.inline(full_stop(heading)) + [".Bl -tag -width Ds -compact"]
        out.append(".It " + ("Dv " + name if entity.kind == "enum" else ("Li " if "," in declaration else "Fa ") + m.argument(declaration)))
        out += m.inline(said)
    out.append(".El")
    if ".Bl -tag -width Ds -compact" == out[-2]:
        out = out[:-2]
    return [line for index, line in enumerate(out)
            if not (line == ".Bl -tag -width Ds -compact" and out[index + 1:index + 2] == [".El"])
            and not (line == ".El" and out[index - 1:index] == [".Bl -tag -width Ds -compact"])]


def see_also(page, m):
    names = [name if re.search(r"\(\d\)$", name) else name + "(3)" for name in page.list("see")]
    if page.name != "libholdfast":
        names.append("libholdfast(3)")
    names = sorted(set(names), key=lambda name: (name[-2], name))
    return [".Sh SEE ALSO"] + [".Xr %s %s%s" % (name[:-3], name[-2], " ," if name != names[-1] else "") for name in names]


def overview_mdoc(book, page, m, out):
    out += [".Sh LIBRARY", ".Li pkg-config --cflags --libs holdfast", ".Sh SYNOPSIS"]
    out += [".In holdfast/%s.h" % header for header in HEADERS] + [".Sh DESCRIPTION"]
    out += m.blocks(blocks_of(page.sections[""]), first=True)
    for title, text in sections_after(page):
        out.append(".Ss " + title)
        out += m.blocks(blocks_of(text), first=True)
    out += [".Sh PAGES", "A page is found by the name of each of its calls.", ".Bl -tag -width Ds -compact"]
    for title, names in book.groups:
        out.append(".It " + title)
        pages = [".Xr %s 3" % name for name in names]
        out += [line + " ," for line in pages[:-1]] + [pages[-1]]
    out += [".El", ".Sh RETURN VALUES", "These statuses mean the same in all calls.", "The page of a call says what is special there.",
            ".Bl -tag -width HF_UNAVAILABLE -compact"]
    for status in book.interface.statuses:
        meaning, _, action = book.actions.get(status, "").partition(" -> ")
        out += [".It Dv " + status] + m.inline(full_stop(meaning) + (" " + action if action else ""))
    out.append(".El")
    out += [".Sh EXAMPLES"] + m.blocks(blocks_of(page.sections["Example"]), first=True)
    return "\n".join(out + see_also(page, m)) + "\n"


def markdown_page(book, page):
    m = Markdown(book, page.name)
    interface = book.interface
    calls = [interface.entities[name] for name in page.list("calls") if name in interface.entities]
    out = ["<!-- %s -->" % (WARNING % page.path), "# " + page.name]
    if page is book.overview:
        return overview_markdown(book, page, m, out)
    out.append("%s. In a terminal: `man %s`. [All calls](README.md)." % (m.inline(page.brief[0].upper() + page.brief[1:]), page.name))
    out.append("```c\n#include <holdfast/%s.h>\n\n%s\n```" % (calls[0].header, "\n".join(declaration_text(entity) for entity in calls)))
    common, parts, statuses = book.spoken(page)
    out.append(m.blocks(common + blocks_of(page.sections[""])))
    for names, first, blocks, asynchronous in parts:
        if asynchronous:
            continue
        out.append("## " + ", ".join(name + "()" for name in names))
        more = [block for name in names for block in blocks_of(page.sections.get(name + "()", ""))]
        out.append(m.blocks(blocks + more))
        if first:
            out.append(m.inline("**Blocks:** %s. **Callbacks:** %s. **After fork:** %s." % first))
    forms = [part for part in parts if part[3]]
    if forms:
        out += ["## Asynchronous forms", fill(m.inline(ASYNC_WORDS))]
        items = []
        for names, first, blocks, _ in forms:
            for name in names:
                said = (book.result_of(name) + " ").lstrip()
                more = (blocks if name == names[-1] else []) + blocks_of(page.sections.get(name + "()", ""))
                said += " ".join(content for kind, content in more if kind == "para")
                items.append(fill("`%s()`: %s" % (name, m.inline(said or "as the blocking form.")), "- ", "  "))
        out.append("\n".join(items))
    for title, text in sections_after(page):
        out += ["## " + title, m.blocks(blocks_of(text))]
    for name in page.list("types"):
        out += type_markdown(book, m, interface.entities[name])
    constants = book.constants(page)
    if constants:
        rows = ["| `%s` | %s | %s |" % (entity.name, "" if re.match(r"\(UINT64_C\(1\) <<", entity.value) or not entity.value
                                        else "`%s`" % entity.value, m.cell(" ".join(entity.comment.split()))) for entity in constants]
        out += ["## Constants", "| constant | value | meaning |\n|---|---|---|\n" + "\n".join(rows)]
    returned = book.returns(page, statuses)
    if returned:
        rows = []
        for names, meanings, action in returned:
            texts = spoken_meanings(meanings)
            rows.append("| %s | %s | %s |" % (", ".join("`%s`" % name for name in names), "<br>".join(m.cell(full_stop(text)) for text in texts if text), m.cell(action)))
        out += ["## Return values", "| status | meaning | what to do |\n|---|---|---|\n" + "\n".join(rows), fill(m.inline(MORE))]
    if "Example" in page.sections:
        out += ["## Example", m.blocks(blocks_of(page.sections["Example"]))]
    names = [name if re.search(r"\(\d\)$", name) else name + "(3)" for name in page.list("see")]
    if names:
        out += ["## See also", ", ".join(m.inline(name) for name in names)]
    return "\n\n".join(part for part in out if part) + "\n"


def type_markdown(book, m, entity):
    out = ["## " + ("struct " if entity.kind == "struct" else "enum " if entity.kind == "enum" else "") + entity.name]
    if entity.kind == "function":
        return out + ["```c\n%s\n```" % entity.declaration, m.blocks(blocks_of(entity.comment))]
    out.append(m.blocks(blocks_of(entity.comment)))
    init = initializer(book, entity.name)
    if init:
        out.append("Begin with `%s`." % init)
    rows = []
    for declaration, name, said, heading in fields_of(entity):
        if heading:
            rows.append("| **%s** | |" % m.cell(heading.rstrip(".")))
        rows.append("| `%s` | %s |" % (name if entity.kind == "enum" else declaration, m.cell(said)))
    out.append("| %s | meaning |\n|---|---|\n" % ("value" if entity.kind == "enum" else "field") + "\n".join(rows))
    return out


def overview_markdown(book, page, m, out):
    out[1] = "# The C interface, call by call"
    out.append("For a C developer who looks something up. The guide is [c-api.md](../c-api.md). The same text is in manual pages: `man hf_acquire`.")
    out.append(m.blocks(blocks_of(page.sections[""])))
    out.append("## Pages")
    rows = []
    for title, names in book.groups:
        for name in names:
            calls = [call for call in book.pages[name].list("calls") if not call.endswith("_async")]
            rows.append("| %s | [%s](%s.md) | %s | %s |" % (title if name == names[0] else "", name, name, m.cell(book.pages[name].brief),
                                                        " ".join("`%s`" % call for call in calls if call != name)))
    out.append("| group | page | what for | further calls |\n|---|---|---|---|\n" + "\n".join(rows))
    for title, text in sections_after(page):
        out += ["## " + title, m.blocks(blocks_of(text))]
    rows = []
    for status, said in book.interface.statuses.items():
        meaning, _, action = book.actions.get(status, "").partition(" -> ")
        rows.append("| `%s` | %s | %s | %s |" % (status, m.cell(said), m.cell(full_stop(meaning)), m.cell(action)))
    out += ["## Statuses", "| status | text | meaning | what to do |\n|---|---|---|---|\n" + "\n".join(rows)]
    out += ["## Example", m.blocks(blocks_of(page.sections["Example"]))]
    return "\n\n".join(part for part in out if part) + "\n"


# ---- all of it --------------------------------------------------------------------------------------------

def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    root = (arguments[1:] if check else arguments) or [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")]
    root = root[0]
    book = Book(root)
    book.check()
    wanted = {}
    for page in book.pages.values():
        wanted[os.path.join("man", "man3", page.name + ".3")] = mdoc_page(book, page)
        name = "README" if page is book.overview else page.name
        wanted[os.path.join("docs", "api", name + ".md")] = markdown_page(book, page)
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
    for text in dict.fromkeys(problems):
        print(text, file=sys.stderr)
    return 1 if problems else 0


sys.exit(main())
