# SPDX-License-Identifier: MIT
"""Reading the public headers: each declaration, struct, constant and status, with its comment.

read_header() fills an Interface, which knows nothing of pages. The rest here shows one Entity of it: its fields, its initializer,
its declaration in C.
"""
import os
import re

HEADERS = ["holdfast", "primitives", "redis", "observe"]
# Internal to the headers, or explained in libholdfast(3).
NOT_CONSTANTS = re.compile(r"HF_(API|USE|INIT|STATUS_(MAP|ENUM)|\w+_INIT|VERSION_(MAJOR|MINOR|PATCH))$")


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


def fields_of(entity):
    for declaration, said, heading in entity.fields:
        name = re.search(r"(\w+)(?:\[.*?\])?\)?(?:\(.*\))?$", declaration.split(" = ")[0])
        if re.match(r"(const )?\w+ \*?reserved\b", declaration) or declaration == "size_t size" and not said:
            continue
        yield declaration, name.group(1) if name else declaration, said, heading


def initializer(root, name):
    with_init = "HF_%s_INIT" % name[3:].upper()
    for header in HEADERS:
        with open(os.path.join(root, "include", "holdfast", header + ".h"), encoding="utf-8") as file:
            if "#define %s " % with_init in file.read():
                return with_init
    return None


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
