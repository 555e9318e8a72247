#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the documents' site: build.py DIR [--source URL] [--tree DIR]

DIR gets plain HTML that works from a disk (file://), from any path of any server, and offline: every link is relative, nothing is
fetched from elsewhere, and the search is a script beside the pages. What it replaces is a directory that this program made.

--source URL: where the files of the tree can be looked at, as https://host/project/blob/main. Links to source files lead there;
without it they are text, so that no link is dead.
"""
import argparse
import html
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages as tree_pages  # noqa: E402
from pages import ATTRIBUTE, TAG, Mistake  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MARK = ".holdfast-site"
WORDS = {
    "en": {"search": "Search", "contents": "On this page", "pages": "Pages", "previous": "Previous", "next": "Next", "other": "中文",
           "other_title": "这一页的中文版", "other_home": "中文文档", "copy": "Copy", "copied": "Copied", "none": "Nothing found for", "manual": "Manual pages",
           "skip": "Skip to the text", "version": "Version", "keys": "to search", "results": "results"},
    "zh-CN": {"search": "搜索", "contents": "本页内容", "pages": "页面", "previous": "上一页", "next": "下一页", "other": "English",
              "other_title": "This page in English", "other_home": "Documents in English", "copy": "复制", "copied": "已复制", "none": "没有找到", "manual": "手册页（英文）",
              "skip": "跳到正文", "version": "版本", "keys": "搜索", "results": "条结果"},
}
LANGUAGES = {"sh": "bash", "shell": "bash", "console": "console", "crontab": "bash", "caddy": "nginx", "dockerfile": "docker", "promql": "text", "js": "javascript"}
WIDE = {"docs/lab.md", "docs/zh-CN/lab.md", "docs/faults.md"}


# ---- where a file of the tree is in the site ----------------------------------------------------------

def site_path(path):
    special = {"README.md": "index.html", "docs/README.md": "contents.html", "README.zh-CN.md": "zh-CN/index.html", "docs/zh-CN/README.md": "zh-CN/contents.html"}
    if path in special:
        return special[path]
    if re.fullmatch(r"man/(man\d/)?[^/]+\.[1-9]", path):
        return f"man/{os.path.basename(path)}.html"
    at = path[len("docs/"):] if path.startswith("docs/") else path if path.startswith("bindings/") else "tree/" + path
    if at.endswith(".md"):
        at = at[:-len("README.md")] + "index.html" if at.endswith("/README.md") else at[:-len(".md")] + ".html"
    return at


def other_language(path):
    """The same page in the other language, whether there is one or not."""
    if path == "README.md":
        return "README.zh-CN.md"
    if path == "README.zh-CN.md":
        return "README.md"
    if path.startswith("docs/zh-CN/"):
        return "docs/" + path[len("docs/zh-CN/"):]
    return "docs/zh-CN/" + path[len("docs/"):] if path.startswith("docs/") else ""


# ---- one page ---------------------------------------------------------------------------------------

class Site:
    def __init__(self, tree, out, source):
        self.tree, self.out, self.source = tree, out, source.rstrip("/")
        self.pages = tree_pages.read_pages(tree)
        self.sections, self.missing, self.lost = tree_pages.read_navigation(self.pages)
        files = [*(tree / "man").glob("*.[1-9]"), *(tree / "man").glob("man?/*.[1-9]")]
        self.manual = sorted((str(path.relative_to(tree)) for path in files), key=os.path.basename)
        # "hf_acquire_async.3" -> "hf_acquire.3.html": a page has every name of its section NAME.
        self.called = {os.path.basename(path): os.path.basename(path) + ".html" for path in self.manual}
        for path in self.manual:
            names = (tree / path).read_text(encoding="utf-8").partition(".Sh NAME")[2].partition(".Nd")[0]
            for name in re.findall(r"^\.Nm (\S+)", names, re.M):
                self.called.setdefault(name + path[-2:], os.path.basename(path) + ".html")
        self.assets = set()
        self.found = {"en": [], "zh-CN": []}
        self.version = re.sub(r"[^0-9.]", "", subprocess.run([tree / "tools/version.sh"], capture_output=True, text=True, check=True).stdout)
        # Pages in the order of the navigation, by language: previous and next go along it.
        self.order = {"en": [], "zh-CN": []}
        for _, kind, entries in self.sections:
            if kind != "developers":
                self.order["zh-CN" if kind == "zh" else "en"] += [(entry.path, entry.label) for entry in entries]

    def href(self, here, target):
        """From one page of the site to another, both as paths in the site."""
        return os.path.relpath(target, os.path.dirname(here) or ".")

    def lead(self, page, target):
        """Where a link of a page leads in the site; None: nowhere."""
        here = site_path(page.path)
        if tree_pages.is_external(target):
            return target
        path, anchor = tree_pages.resolve(page.path, target)
        anchor = "#" + anchor if anchor else ""
        if path == page.path:
            return anchor or os.path.basename(here)
        folder = path.rstrip("/") + "/README.md"
        if path in self.pages or path in self.manual:
            return self.href(here, site_path(path)) + anchor
        if path == "man":
            return self.href(here, "man/index.html")
        if path == "docs":
            folder = "docs/README.md"
        if folder in self.pages:
            return self.href(here, site_path(folder)) + anchor
        if path.endswith((".svg", ".png", ".csv", ".json")) and (self.tree / path).is_file():
            self.assets.add(path)
            return self.href(here, site_path(path))
        return f"{self.source}/{path}{anchor}" if self.source and not path.startswith("../") else None

    def body(self, page):
        text = tree_pages.parser().renderer.render(self.code(page.tokens), tree_pages.parser().options, {})

        def tag(match):
            def attribute(found):
                values = [each.split(maxsplit=1) for each in found["value"].split(",")] if found["name"] == "srcset" else [[found["value"]]]
                values = [" ".join([self.lead(page, html.unescape(each[0])) or "", *each[1:]]) for each in values if each]
                return f'{found["before"]}"{html.escape(", ".join(values))}"'
            rest = ATTRIBUTE.sub(attribute, match["rest"])
            if match["name"] == "a" and ' href=""' in rest:
                return '<a class="file">'
            if match["name"] == "img" and " loading=" not in rest:
                rest = ' loading="lazy"' + self.size(page, html.unescape(match["rest"])) + rest
            return f"<{match['name']}{rest}>"
        text = TAG.sub(tag, text)
        text = re.sub(r"(<h[2-6] id=\"([^\"]*)\">)(.*?)(</h[2-6]>)", r'\1\3<a class="anchor" href="#\2" aria-label="#\2">#</a>\4', text)
        text = text.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
        return faults(text) if page.path == "docs/faults.md" else text

    def size(self, page, rest):
        """The size of a picture, so that the text below it does not move when it comes."""
        source = re.search(r'\ssrc="([^"]*)"', rest)
        path = self.tree / tree_pages.resolve(page.path, source[1])[0] if source and not tree_pages.is_external(source[1]) else None
        if " width=" in rest or not path or path.suffix != ".svg" or not path.is_file():
            return ""
        found = re.search(r'<svg[^>]*? width="([\d.]+)" height="([\d.]+)"', path.read_text(encoding="utf-8")[:1000])
        return f' width="{float(found[1]):.0f}" height="{float(found[2]):.0f}"' if found else ""

    def code(self, tokens):
        """Fences become coloured HTML; everything else stays."""
        for token in tokens:
            if token.type == "fence":
                word = (token.info.split() or [""])[0]
                token.type, token.content = "html_block", self.colour(word, token.content)
        return tokens

    def colour(self, word, text):
        try:
            lexer = get_lexer_by_name(LANGUAGES.get(word, word or "text"), stripnl=False)
        except ClassNotFound:
            lexer = get_lexer_by_name("text", stripnl=False)
        return f'<div class="code" data-language="{html.escape(word)}"><pre tabindex="0"><code>{highlight(text, lexer, HtmlFormatter(nowrap=True))}</code></pre></div>\n'

    # ---- around the text

    def navigation(self, here, path, zh):
        order = sorted(self.sections, key=lambda section: (section[1] != "zh") if zh else 0)
        lines = []
        last = [title for title, kind, _ in order if not kind][-1]
        for title, kind, entries in order:
            inside = any(entry.path == path for entry in entries)
            opened = " open" if inside or (kind == "zh" if zh else title == "Start") else ""
            label = title + (' <span class="lang">Chinese</span>' if kind == "zh" and not zh else "")
            lines.append(f'<details{opened}{" lang=zh-CN" if kind == "zh" else ""}><summary>{label}</summary><ul>')
            for deep, group in itertools.groupby(entries, lambda entry: entry.deep):
                group = list(group)
                many = len(group) > 12  # the calls of the C interface: closed, unless one of them is read
                if many:
                    lines.append(f'<li><details{" open" if any(entry.path == path for entry in group) else ""}><summary>{len(group)} pages</summary><ul>')
                for entry in group:
                    current = ' aria-current="page"' if entry.path == path else ""
                    inner = ' class="deep"' if deep and not many else ""
                    lines.append(f'<li{inner}><a href="{self.href(here, site_path(entry.path))}"{current}>{html.escape(entry.label)}</a></li>')
                if many:
                    lines.append("</ul></details></li>")
            lines.append("</ul></details>")
            if kind == "zh" if zh else title == last:
                current = ' aria-current="page"' if here == "man/index.html" else ""
                lines.append(f'<p class="top"><a href="{self.href(here, "man/index.html")}"{current}>{WORDS["zh-CN" if zh else "en"]["manual"]}</a></p>')
        return "\n".join(lines)

    def switch(self, here, path, words):
        other = other_language(path)
        if other in self.pages:
            return f'<a class="switch" href="{self.href(here, site_path(other))}" lang="{"en" if path.startswith(("docs/zh-CN/", "README.zh")) else "zh-CN"}" title="{words["other_title"]}">{words["other"]}</a>'
        zh = tree_pages.is_chinese(path)
        home = "README.md" if zh else "README.zh-CN.md"
        if home not in self.pages:
            return ""
        return f'<a class="switch" href="{self.href(here, site_path(home))}" lang="{"en" if zh else "zh-CN"}" title="{words["other_home"]}">{words["other"]}</a>'

    def neighbours(self, here, path, words, zh):
        order = self.order["zh-CN" if zh else "en"]
        at = next((i for i, (each, _) in enumerate(order) if each == path), None)
        if at is None:
            return ""
        links = []
        for way, index in (("previous", at - 1), ("next", at + 1)):
            if 0 <= index < len(order):
                links.append(f'<a class="{way}" rel="{"prev" if way == "previous" else "next"}" href="{self.href(here, site_path(order[index][0]))}">'
                             f'<span>{words[way]}</span>{html.escape(order[index][1])}</a>')
        return f'<nav class="neighbours" aria-label="{words["previous"]}, {words["next"]}">{"".join(links)}</nav>'

    def write(self, here, path, title, body, headings, zh=False):
        language = "zh-CN" if zh else "en"
        words = WORDS[language]
        root = self.href(here, ".")
        levels = (2, 3) if sum(level in (2, 3) for level, _, _ in headings) <= 40 else (2,)
        items = "".join(f'<li class="l{level}"><a href="#{name}">{html.escape(text)}</a></li>' for level, name, text in headings if level in levels)
        several = len(re.findall("<li", items)) > 1
        wide = " wide" if path in WIDE else ""
        toc = f'<aside class="toc"><nav aria-label="{words["contents"]}"><p>{words["contents"]}</p><ul>{items}</ul></nav></aside>' if several and not wide else ""
        short = f'<details class="toc-short"><summary>{words["contents"]}</summary><ul>{items}</ul></details>' if several else ""
        short_at = body.find("</h1>") + 5 if "</h1>" in body else 0
        page = f"""<!DOCTYPE html>
<html lang="{language}" data-root="{root}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}{"" if title.startswith("Holdfast") else " · Holdfast"}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{root}/site.css">
<script>window.words = {json.dumps({key: words[key] for key in ("search", "copy", "copied", "none", "keys", "results")}, ensure_ascii=False)};</script>
<script src="{root}/site.js" defer></script>
</head>
<body class="{'zh' if zh else 'en'}{wide}">
<a class="skip" href="#text">{words["skip"]}</a>
<header>
<a class="home" href="{self.href(here, "zh-CN/index.html" if zh and "README.zh-CN.md" in self.pages else "index.html")}">Holdfast</a><span class="version">{self.version}</span>
<div class="search" id="search" role="search"></div>
{self.switch(here, path, words)}
</header>
<div class="frame">
<details class="pages"><summary>{words["pages"]}</summary></details>
<nav class="side" aria-label="{words["pages"]}">
{self.navigation(here, path, zh)}
</nav>
<main id="text">
<article>
{body[:short_at]}{short}{body[short_at:]}
</article>
{self.neighbours(here, path, words, zh)}
</main>
{toc}
</div>
</body>
</html>
"""
        file = self.out / here
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page, encoding="utf-8")
        self.index(here, title, body, zh, path)

    # ---- search: a section of a page is one entry

    def index(self, here, title, body, zh, path):
        weight = kind(path)
        text = re.sub(r'<a class="anchor".*?</a>', "", body)
        parts = re.split(r"<h[1-3]([^>]*)>(.*?)</h[1-3]>", text, flags=re.S)
        entries = [("", title, parts[0])] if stripped(parts[0]) else []
        for attributes, heading, content in zip(parts[1::3], parts[2::3], parts[3::3]):
            name = re.search(r' id="([^"]*)"', attributes)
            entries.append((name[1] if name and stripped(heading) != title else "", heading, content))
        for name, heading, content in entries:
            self.found["zh-CN" if zh else "en"].append([here, name, title, stripped(heading), stripped(content), weight])

    # ---- all of it

    def reference(self, found):
        """A link of one manual page to another, or its text, if that is not a page of ours."""
        page = self.called.get(found[1])
        return f'<a class="Xr" href="{page}">{found[2]}</a>' if page else f'<span class="Xr">{found[2]}</span>'

    def manual_pages(self):
        listed = {}
        for path in self.manual:
            base = os.path.basename(path)
            text = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,man=%N.%S.html", self.tree / path], capture_output=True, text=True, check=True).stdout
            here = site_path(path)
            text = re.sub(r'<table class="(head|foot)">.*?</table>\n?', "", text, flags=re.S)
            text = re.sub(r'<a class="Xr" href="([^"]*)\.html">(.*?)</a>', self.reference, text, flags=re.S)
            text = re.sub(r'<(/?)h2\b', r"<\1h3", text)
            text = re.sub(r'<(/?)h1\b', r"<\1h2", text)
            headings = []
            for level, name, content in re.findall(r'<h([23])[^>]* id="([^"]*)"[^>]*>(.*?)</h[23]>', text, flags=re.S):
                words = stripped(content)
                headings.append((int(level), name, words.capitalize() if words.isupper() else words))
            what = re.search(r'<span class="Nd">(.*?)</span>', text, flags=re.S)
            name, section = base.rsplit(".", 1)
            listed.setdefault(section, []).append((base, f"{name}({section})", stripped(what[1]) if what else ""))
            self.write(here, path, f"{name}({section})", f"<h1>{html.escape(name)}({section})</h1>\n{text}", headings)
        kinds = {"1": "Commands", "3": "The library", "5": "Files", "7": "Subjects", "8": "Services"}
        body = ["<h1>Manual pages</h1>", "<p>The same pages that <code>man</code> shows after the installation.</p>"]
        for section, rows in sorted(listed.items()):
            body.append(f'<h2 id="s{section}">{kinds.get(section, "Section " + section)}</h2><div class="table"><table class="manuals">')
            body += [f'<tr><td><a href="{base}.html">{html.escape(title)}</a></td><td>{html.escape(what)}</td></tr>' for base, title, what in rows]
            body.append("</table></div>")
        self.write("man/index.html", "man", "Manual pages", "\n".join(body), [(2, f"s{section}", kinds.get(section, section)) for section in sorted(listed)])

    def build(self):
        if self.out.exists():
            if any(self.out.iterdir()) and not (self.out / MARK).exists():
                raise Mistake(f"{self.out}: is there, and this program did not make it")
            shutil.rmtree(self.out)
        self.out.mkdir(parents=True)
        (self.out / MARK).touch()
        for page in self.pages.values():
            self.write(site_path(page.path), page.path, page.title, self.body(page), page.headings, page.chinese)
        self.manual_pages()
        for path in self.assets:
            target = self.out / site_path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.tree / path, target)
        for language, entries in self.found.items():
            text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
            (self.out / f"search-{language}.js").write_text(f"window.found = window.found || {{}}; window.found[{json.dumps(language)}] = {text};\n", encoding="utf-8")
        for each in ("site.css", "site.js"):
            shutil.copyfile(HERE / each, self.out / each)


def kind(path):
    """What a page is, for the order of what is found: a guide, an engine's page, a manual page, a call, or a text for developers."""
    if path.startswith(("docs/api/", "man/man3/")):
        return "call"
    if path.startswith("man/"):
        return "manual"
    if path.startswith("docs/engines/"):
        return "engine"
    return "guide" if path.startswith(("docs/", "bindings/", "README")) and path != "docs/decisions.md" else "developer"


def faults(text):
    """Cells of the table of faults: a mark that is seen from afar, and what was counted, a line each."""
    def cell(match):
        if match[1] in ("ok", "-"):
            return f'<td class="{"fine" if match[1] == "ok" else "none"}">{"<b>✓</b> ok" if match[1] == "ok" else "–"}</td>'
        if match[2]:
            return f'<td class="fence"><b>▲</b> fence <small>{match[2]}</small></td>'
        return '<td class="red"><b>✗</b> red' + "".join(f"<small>{each}</small>" for each in match[3].split(", ")) + "</td>"
    body = re.compile(r"<td>(ok|-|fence \((\d+)\)|<strong>RED</strong>: ([^<]*))</td>")
    return re.sub(r"<table>\s*<thead>\s*<tr>\s*<th>fault</th>.*?</table>",
                  lambda table: body.sub(cell, table[0]).replace("<table>", '<table class="faults">'), text, flags=re.S)


def stripped(text):
    text = re.sub(r"</(p|li|td|th|div|pre|h\d|dt|dd|tr)>|<br\s*/?>", " ", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<!--.*?-->", "", text, flags=re.S))).split())


def main():
    arguments = argparse.ArgumentParser(description="Builds the documents' site.")
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--source", default="")
    arguments.add_argument("--tree", type=pathlib.Path, default=tree_pages.TREE)
    given = arguments.parse_args()
    start = time.monotonic()
    try:
        site = Site(given.tree.resolve(), given.out, given.source)
        if site.lost:
            raise Mistake("not in tools/site/navigation.txt: " + ", ".join(site.lost))
        site.build()
    except (Mistake, OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"docs: {error}")
    if site.missing:
        print("docs: in the navigation, but not there: " + ", ".join(site.missing))
    print(f"docs: {given.out}/index.html: {len(site.pages)} documents, {len(site.manual)} manual pages ({time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
