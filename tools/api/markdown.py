# SPDX-License-Identifier: MIT
"""Writing docs/api: the inline text and blocks of Markdown, and a page of docs/api made of them.

mdoc.py makes the manual page of the same sources; a part of a page that is added here is added there.
"""
import re

from headers import declaration_text, fields_of, initializer
from pages import sections_after
from text import ASYNC_WORDS, MORE, SPECIAL, WARNING, blocks_of, fill, full_stop, spoken_meanings


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
    init = initializer(book.root, entity.name)
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
