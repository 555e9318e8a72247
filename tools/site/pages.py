# SPDX-License-Identifier: MIT
"""The Markdown of the tree, for the site and for the checks: which files there are, what stands in them, where links lead.

One parser for both: CommonMark with tables, as Git hosts have it, and their rule for the names of headings. So a link that
holds here holds there.
"""
import fnmatch
import functools
import html
import os
import pathlib
import re
import urllib.parse

from markdown_it import MarkdownIt

TREE = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "bench", "bindings", "cli", "debian", "examples", "lab", "model", "see", "src", "test")
LEFT_OUT = {"node_modules", "target", "build"}
TAG = re.compile(r"<(?P<name>[a-zA-Z][\w-]*)(?P<rest>(?:\s[^<>]*)?)>")
ATTRIBUTE = re.compile(r"""(?P<before>\s(?P<name>href|src|srcset)=)(?P<quote>["'])(?P<value>.*?)(?P=quote)""")


class Mistake(Exception):
    pass


@functools.lru_cache(None)
def parser():
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def markdown_files(tree):
    """Paths of all Markdown in the tree, relative to it."""
    found = [path for path in tree.glob("*.md")]
    for folder in FOLDERS:
        for top, dirs, files in os.walk(tree / folder):
            dirs[:] = [each for each in dirs if each not in LEFT_OUT and not each.startswith(".")]
            found += [pathlib.Path(top) / each for each in files if each.endswith(".md")]
    return sorted(str(path.relative_to(tree)) for path in found)


def plain(inline):
    """The text of an inline token, as a reader sees it."""
    return "".join(each.content if each.type in ("text", "code_inline") else plain(each) if each.type == "image" else " "
                   if each.type in ("softbreak", "hardbreak") else "" for each in inline.children or ())


class Names:
    """How a Git host names headings: small letters, no punctuation, hyphens for blanks; a repeated name gets a number."""

    def __init__(self):
        self.seen = {}

    def of(self, text):
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        number = self.seen.get(name, 0)
        self.seen[name] = number + 1
        return f"{name}-{number}" if number else name


class Page:
    """One Markdown file: `tokens`, its `title`, its `headings` (level, name, text) and `anchors`."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.tokens = parser().parse(text)
        self.headings = []
        names = Names()
        for token, inline in zip(self.tokens, self.tokens[1:]):
            if token.type == "heading_open":
                text = plain(inline).strip()
                name = names.of(text)
                token.attrSet("id", name)
                self.headings.append((int(token.tag[1]), name, text))
        self.title = next((text for level, _, text in self.headings if level == 1), path)
        self.anchors = {name for _, name, _ in self.headings}
        for content in self.raw_html():
            self.anchors |= set(re.findall(r"""\s(?:id|name)=["']([^"']+)["']""", content))

    @property
    def chinese(self):
        return is_chinese(self.path)

    def raw_html(self):
        for token in self.tokens:
            if token.type == "html_block":
                yield token.content
            for each in token.children or ():
                if each.type == "html_inline":
                    yield each.content

    def links(self):
        """Everything that this page points to: (line, kind, target, text); kind is link or image, an image's text is its alt."""
        for token in self.tokens:
            line = token.map[0] + 1 if token.map else 0
            for at, each in enumerate(token.children or ()):
                if each.type == "link_open":
                    yield line, "link", each.attrGet("href"), ""
                elif each.type == "image":
                    yield line, "image", each.attrGet("src"), plain(each)
            for content in [token.content] if token.type == "html_block" else [each.content for each in token.children or () if each.type == "html_inline"]:
                for tag in TAG.finditer(content):
                    for attribute in ATTRIBUTE.finditer(tag["rest"]):
                        kind = "link" if attribute["name"] == "href" else "image"
                        alt = re.search(r"""\salt=["'](.*?)["']""", tag["rest"])
                        text = alt[1] if alt else "of the picture's <img>" if tag["name"] == "source" else ""
                        for value in attribute["value"].split(",") if attribute["name"] == "srcset" else [attribute["value"]]:
                            yield line, kind, html.unescape(value.split()[0] if value.split() else ""), text

    def blocks(self):
        """Code: (line, language, text, how it runs or None, the file to save it as or None). See check.py."""
        run = save = None
        for token in self.tokens:
            if token.type == "html_block":
                found = re.match(r"\s*<!--\s*(run|save)(?::\s*([^\s>]+(?:\s*-R\s*\d+)?))?\s*-->\s*$", token.content)
                run = (found[2] or "file") if found and found[1] == "run" else None
                save = found[2] if found and found[1] == "save" else None
                continue
            if token.type == "fence":
                words = token.info.split()
                yield token.map[0] + 1, words[0] if words else "", token.content, run, save
            run = save = None


def is_chinese(path):
    return path == "README.zh-CN.md" or path.startswith("docs/zh-CN/")


def read_pages(tree):
    return {path: Page(path, (tree / path).read_text(encoding="utf-8")) for path in markdown_files(tree)}


def is_external(target):
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target) is not None or target.startswith("//")


def resolve(path, target):
    """A relative link of a file: (path in the tree, anchor). A path that leaves the tree begins with ../"""
    target, _, anchor = target.partition("#")
    target = urllib.parse.unquote(target)
    if not target:
        return path, urllib.parse.unquote(anchor)
    return os.path.normpath(os.path.join(os.path.dirname(path), target)), urllib.parse.unquote(anchor)


# ---- navigation ----------------------------------------------------------------------------------------

class Entry:
    def __init__(self, path, label, deep):
        self.path, self.label, self.deep = path, label, deep


def read_navigation(pages, text=None):
    """[(title, class, [Entry])], without pages that are not there; and those, and pages of docs/ that stand nowhere."""
    if text is None:
        text = (pathlib.Path(__file__).parent / "navigation.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"#( |$)", line)]
    named = {re.sub(r"^> ", "", line).split(" | ")[0] for line in lines if not line.startswith("##")}
    sections, missing, used = [], [], set()
    for line in lines:
        if line.startswith("## "):
            title, _, kind = line[3:].rpartition(" ") if line.endswith((" zh", " developers")) else (line[3:], "", "")
            sections.append((title, kind, []))
            continue
        deep = line.startswith("> ")
        path, _, label = re.sub(r"^> ", "", line).partition(" | ")
        paths = [path]
        if "*" in path:
            paths = sorted(each for each in pages if fnmatch.fnmatchcase(each, path) and each.count("/") == path.count("/") and each not in named | used)
        elif path not in pages:
            if not path.endswith("/README.md") or path == "docs/README.md":
                missing.append(path)
            continue
        for each in paths:
            used.add(each)
            sections[-1][2].append(Entry(each, label or pages[each].title, deep))
    lost = sorted(path for path in pages if path.startswith("docs/") and path not in used)
    rest = [path for path in pages if path not in used and not path.startswith("docs/")]
    developers = next(entries for _, kind, entries in sections if kind == "developers")
    developers += [Entry(path, os.path.dirname(path) if path.endswith("/README.md") else path, True) for path in rest]
    return [each for each in sections if each[2]], missing, lost
