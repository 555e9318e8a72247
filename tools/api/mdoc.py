# SPDX-License-Identifier: MIT
"""Writing man/man3: the inline text and blocks of mdoc, and a manual page made of them.

markdown.py makes the page of docs/api of the same sources; a part of a page that is added here is added there.
"""
import re

from headers import HEADERS, fields_of, initializer
from pages import sections_after
from text import ASYNC_WORDS, MORE, SPECIAL, WARNING, blocks_of, fill, full_stop, spoken_meanings

OPENING, CLOSING = "([", ".,:;)]?!"


class Mdoc:
    """Inline text and blocks for man/man3."""

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


def mdoc_page(book, page):
    m = Mdoc(book, page.name)
    interface = book.interface
    calls = [interface.entities[name] for name in page.list("calls") if name in interface.entities]
    out = [".\\\" SPDX-License-Identifier: MIT", ".\\\" " + WARNING % page.path, ".Dd " + " ".join(book.overview.list("date")),
           ".Dt %s 3" % page.name.upper(), ".Os Holdfast", ".Sh NAME"]
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


def first_mdoc(m, first):
    return m.inline("**Blocks:** %s. **Callbacks:** %s. **After fork:** %s." % first)


def type_mdoc(book, m, entity):
    out = [".Ss " + ("struct " if entity.kind == "struct" else "enum " if entity.kind == "enum" else "") + entity.name]
    if entity.kind == "function":
        out += m.blocks([("code", ("c", [entity.declaration]))] + blocks_of(entity.comment), first=True)
        return out
    out += m.blocks(blocks_of(entity.comment), first=True)
    init = initializer(book.root, entity.name)
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
