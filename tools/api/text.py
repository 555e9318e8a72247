# SPDX-License-Identifier: MIT
"""What a text is made of, in a comment of a header as in man/api: paragraphs, lists, code, and words that are marked up.

Also the sentences that are the same on every page. Nothing here knows mdoc or Markdown: those are mdoc.py and markdown.py.
"""
import re

# The first line of a call's comment.
FIRST = re.compile(r"Blocks: (.*?)\. Callbacks: (.*?)\. After fork: (.*?)\.(?:\s|$)", re.S)


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


def status_list(text):
    """- HF_BUSY, HF_TIMEOUT: text"""
    found = {}
    for kind, content in blocks_of(text):
        for item in content if kind == "list" else []:
            names, _, said = item.partition(": ")
            for name in names.split(", "):
                found[name] = said
    return found


# A word that is marked up: a call, a constant, a page of the manual, code, a parameter.
SPECIAL = re.compile(
    r"(?P<code>`[^`]+`)|(?P<strong>\*\*[^*]+\*\*)|(?P<em>\*[a-z][a-z -]*[a-z]\*)"
    r"|(?P<page>(?<![\w.-])(?:holdfast(?:-[a-z-]+)?|libholdfast|[a-z_]+)\([1-8]\))"
    r"|(?P<call>\bhf_[a-z0-9_]+\(\))|(?P<constant>\bHF_\*_INIT|\bHF_[A-Z0-9_]+\*?)|(?P<type>\bhf_[a-z0-9_]+\b)"
    r"|(?P<setting>\b[a-z_]+=[A-Za-z0-9_]*)"
    r"|(?P<name>\*?\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:\[[*a-z_]+\])?|\b[a-z]+\[[a-z]\]|\*(?:lease|err|seq)\b|\b[a-z]+->[a-z_]+)")


def fill(text, first="", rest="", width=120):
    """Breaks lines at spaces, but not in code or links."""
    words, line, lines = re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", text), first, []
    for word in words:
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line.rstrip())
            line = rest
        line += ("" if line in (first, rest) else " ") + word
    return "\n".join(lines + [line.rstrip()])


def spoken_meanings(meanings):
    """One text for each call; the first letter is large unless it begins a name."""
    texts = {}
    for where, said in meanings:
        texts[where] = "%s; %s" % (texts[where].rstrip("."), said) if where in texts else said
    return [where + ": " + said if where else said if re.match(r"[a-z]+[_\[]", said) else said[:1].upper() + said[1:]
            for where, said in texts.items() if said]


def full_stop(text):
    return text if re.search(r"[.!?]\)?$", text) else text + "."


ASYNC_WORDS = ("Each begins the call of the same name and returns at once; `done` is called once, later, from hf_store_process(). "
               "See hf_store_fd(3).")
MORE = "A call may also return another status of the table in libholdfast(3), with the meaning that it has there."

WARNING = "Generated by tools/api from include/holdfast and man/api/%s: edit those, then run `make api`."
