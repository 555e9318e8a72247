#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the documents:

  check.py links [TREE]            every relative link, #anchor and picture of every Markdown file is there; pictures have an alt text;
                                   every page of docs/ stands in the navigation
  check.py blocks BUILD [TREE]     verbs and options of `holdfast` in code exist; shell, C, C++, Python, JSON and YAML blocks parse;
                                   the gallery of the lab has every experiment
  check.py run BUILD [PAGE...]     runs the blocks that say so, each page in a directory and with a store of its own; output is compared
  check.py site DIR                every link of the built site leads somewhere, and nothing comes from elsewhere

Which blocks run is said by a comment before them:

  <!-- run -->             on an embedded store
  <!-- run: redis -->      beside a server that with_server starts; its URL stands for every URL of that engine in the page
  <!-- save: FILE -->      saves the block as FILE, for the blocks that run after it

A ```sh block must end with 0; warnings of `holdfast doctor` do not count. In a ```console block the output is compared: digits stand for any digits, "..." and "…" for anything.
"""
import datetime
import html.parser
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages as tree_pages  # noqa: E402

SHELL = {"sh", "bash", "shell"}
LIMIT_S = 240
wrongs = []


def wrong(place, text):
    wrongs.append(f"{place}: {text}")


# ---- links --------------------------------------------------------------------------------------------

def check_links(tree):
    pages = tree_pages.read_pages(tree)
    for page in pages.values():
        for line, kind, target, text in page.links():
            place = f"{page.path}:{line}"
            if kind == "image" and not text.strip():
                wrong(place, f"picture {target} has no alt text")
            if not target:
                wrong(place, "an empty link")
            if not target or tree_pages.is_external(target):
                continue
            path, anchor = tree_pages.resolve(page.path, target)
            if path.startswith(".."):
                wrong(place, f"link to {target} leaves the tree")
            elif not (tree / path).exists():
                wrong(place, f"link to {target}: no such file")
            elif anchor and path in pages and anchor not in pages[path].anchors:
                wrong(place, f"link to {target}: {path} has no heading #{anchor}")
    _, missing, lost = tree_pages.read_navigation(pages)
    for path in lost:
        wrong(path, "stands nowhere in tools/site/navigation.txt")
    for path in missing:
        wrong("tools/site/navigation.txt", f"{path} is not there")


# ---- what blocks of code say ------------------------------------------------------------------------------

BEFORE = re.compile(r"(?:^|[;&|({!`]|\$\(|--|(?:^|\s)(?:sudo|exec|time|env|if|then|while|until|do|else|nice|command|xargs|\*|root|\w+=\S*)|ExecStart(?:Pre)?=\S*?|"
                    r"timeout \S+|chrt -r \d+|[\"'])\s*(?:\S*/)?$")


def words_of(text):
    """The words of a command up to its end; quoted ones are one word."""
    word, words, quote, text_len, i = None, [], None, len(text), 0
    while i < text_len:
        char = text[i]
        if quote:
            if char == quote:
                quote = None
            else:
                word += char
        elif char in "'\"":
            quote, word = char, word or ""
        elif text.startswith("$(", i):
            depth, begin = 0, i
            while i < text_len:
                depth += text[i] == "("
                depth -= text[i] == ")"
                if depth == 0 and text[i] == ")":
                    break
                i += 1
            word = (word or "") + text[begin:i + 1]
        elif char.isspace():
            if word is not None:
                words.append(word)
            word = None
        elif char in "|;&)<>`" or (char == "#" and word is None):
            break
        else:
            word = (word or "") + char
        i += 1
    return words + ([word] if word is not None else [])


class Command:
    """The built command: its verbs, and the options of each."""

    def __init__(self, program):
        self.program, self.known, self.unknown = program, {}, set()
        self.verbs = set(re.findall(r"^  ([a-z][a-z-]*) ", self.help([]), re.M)) | {"help"}
        self.general = self.options("run")

    def help(self, words):
        return subprocess.run([self.program, "help", *words], capture_output=True, text=True, check=True).stdout

    def options(self, verb):
        if verb not in self.known:
            text = self.help([verb])
            if "[ARG...]" in text.splitlines()[0]:  # a program of its own
                done = subprocess.run([self.program, verb, "--help"], capture_output=True, text=True)
                text += done.stdout
                if done.returncode:  # and not built: nobody knows its options
                    self.unknown.add(verb)
            self.known[verb] = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
        return self.known[verb]

    def judge(self, words):
        """What is wrong with the words after `holdfast`; None: nothing."""
        i = 0
        while i < len(words) and words[i].startswith("-"):
            if words[i].split("=")[0] not in self.general | {"--version", "--help"}:
                return f"holdfast has no option {words[i]}"
            i += 2 if words[i] in ("-S", "--store", "--open-timeout") else 1
        if i >= len(words) or not re.fullmatch(r"[a-z][a-z-]*", words[i]):
            return None  # a placeholder: VERB, ..., $verb
        verb = words[i]
        if verb not in self.verbs:
            return f"holdfast has no verb {verb}"
        for word in words[i + 1:]:
            if word == "--":
                break
            option = word.split("=")[0] if word.startswith("--") else word[:2]
            if re.fullmatch(r"--[a-z][\w-]*|-[a-zA-Z]", option) and option not in self.options(verb) and verb not in self.unknown:
                return f"holdfast {verb} has no option {option}"
        return None


def joined(text):
    return re.sub(r"\\\n\s*", " ", text)


def commands_of(language, text):
    """The commands of a block, as text for a shell."""
    if language != "console":
        return text
    return "".join(command + "\n" for _, command, _ in session(text))


def session(text):
    """A block of a terminal: (line, command, output lines) for each prompt. A command goes on after \\, or in lines that begin with '> '."""
    steps, goes_on = [], False
    for number, line in enumerate(text.splitlines()):
        if steps and (goes_on or line.startswith("> ")):
            steps[-1][1] += "\n" + line.removeprefix("> ")
        elif line.startswith(("$ ", "# ")):
            steps.append([number, line[2:], []])
        elif steps:
            steps[-1][2].append(line)
            continue
        else:
            continue
        goes_on = line.endswith("\\")
    return steps


def check_commands(command, place, text):
    for line in joined(text).splitlines():
        for found in re.finditer(r"(?<![\w.@-])holdfast(?=\s|$)", line):
            if BEFORE.search(line[:found.start()].rstrip(" \t") + (" " if line[:found.start()].endswith((" ", "\t")) else "")):
                fault = command.judge(words_of(line[found.end():]))
                if fault:
                    wrong(place, fault)


def tried(place, what, words, text):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode:
        first = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()][:3]
        wrong(place, f"{what}: " + "; ".join(first))


def check_block(tree, command, place, language, text):
    if not language and re.search(r"^\$ ", text, re.M):
        language = "console"
    if language in SHELL | {"console", "crontab", "ini", "systemd"}:
        check_commands(command, place, commands_of(language, text))
    for found in re.finditer(r"\[\s*\"?holdfast\"?\s*,([^\]]*)\]", text):  # a list of words, in YAML or in a Containerfile
        fault = command.judge([word.strip().strip("\"'") for word in found[1].split(",")])
        if fault:
            wrong(place, fault)
    if language in SHELL | {"console"}:
        tried(place, "bash -n", ["bash", "-n"], commands_of(language, text))
    elif language == "c" and re.search(r"\bmain\(", text):
        tried(place, "C", ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{tree}/include", "-xc", "-"], text)
    elif language in ("cpp", "c++") and re.search(r"\bmain\(", text):
        tried(place, "C++", ["c++", "-std=c++17", "-Wall", "-Wextra", "-fsyntax-only", f"-I{tree}/include", f"-I{tree}/bindings/cpp/include", "-xc++", "-"], text)
    elif language == "python":
        try:
            compile(text, place, "exec", dont_inherit=True, flags=0x2000)  # await at the top is fine
        except SyntaxError as error:
            wrong(place, f"Python: {error}")
    elif language == "json":
        try:
            json.loads(text)
        except ValueError as error:
            wrong(place, f"JSON: {error}")
    elif language in ("yaml", "yml"):
        import yaml
        try:
            list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            wrong(place, "YAML: " + " ".join(str(error).split()))


def check_blocks(build, tree):
    command = Command(build / "bin/holdfast")
    check_lab(build, tree)
    for page in tree_pages.read_pages(tree).values():
        for line, language, text, _, _ in page.blocks():
            check_block(tree, command, f"{page.path}:{line}", language, text)
        for token in page.tokens:
            for each in token.children or ():
                if each.type == "code_inline" and each.content.startswith("holdfast ") and page.path not in ("docs/decisions.md", "CONTRIBUTING.md"):
                    fault = command.judge(words_of(each.content[len("holdfast"):]))
                    if fault:
                        wrong(f"{page.path}:{token.map[0] + 1 if token.map else 0}", f"`{each.content}`: {fault}")


def check_lab(build, tree):
    """Every experiment has its picture and its section in both galleries, which say when the run was."""
    listed = subprocess.run([build / "bin/holdfast", "lab", "--json"], capture_output=True, text=True)
    if listed.returncode:
        return  # a build without the lab
    names = [each["experiment"] for each in json.loads(listed.stdout)]
    runs = json.loads((tree / "docs/lab/runs.json").read_text(encoding="utf-8"))
    day = datetime.date.fromisoformat(runs["date"])
    for page, pictures, date in (("docs/lab.md", "lab", f"{day.day} {day:%B} {day.year}"), ("docs/zh-CN/lab.md", "../lab/zh", f"{day.year} 年 {day.month} 月 {day.day} 日")):
        text = (tree / page).read_text(encoding="utf-8")
        for name in names:
            if f"<!-- seen: {name} -->" not in text or f"]({pictures}/{name}.svg)" not in text:
                wrong(page, f"the experiment {name} has no section with a picture")
        if date not in text:
            wrong(page, f"does not say that its run was on {date}")


# ---- blocks that run ----------------------------------------------------------------------------------------

SCHEMES = {"redis": "redis", "redlock": "redlock", "postgres": "postgresql", "mariadb": "(?:mariadb|mysql)", "etcd": "etcd", "zookeeper": "zk", "memcached": "memcached"}


# The doctor's warnings are about the test's server: they are no failure of a page.
WARNINGS = """holdfast() {
    local status=0
    command holdfast "$@" || status=$?
    case " $* " in *" doctor "*) [ $status -ne 1 ] || status=0 ;; esac
    return $status
}"""


def alike(text):
    """Output, without what differs from run to run."""
    text = re.sub(r"[a-z][a-z+]*://[^\s'\"]+", "URL", text)
    text = re.sub(r"\d+(\.\d+)?(h|m|s|ms|us|µs)\b(\d+(m|s)\b)?", "TIME", text)
    return " ".join(re.sub(r"[0-9]+", "N", text).split())


def matches(expected, seen):
    pattern = ".*".join(re.escape(part.strip()) for part in re.split(r"\.\.\.|…", alike(expected)))
    return re.fullmatch(r"\s*" + pattern.replace(r"\ ", r"\s+") + r"\s*", alike(seen), re.S) is not None


def script_of(blocks):
    """All blocks of a page that run, as one script; and what is expected after each mark."""
    lines, expected = [WARNINGS], {}
    for line, language, text, run, save in blocks:
        if save:
            lines.append(f"cat >{shlex.quote(save)} <<'END OF BLOCK'\n{text}END OF BLOCK")
        if not run:
            continue
        if language == "console":
            for offset, command, output in session(text):
                mark = str(line + 1 + offset)
                expected[mark] = (command, "\n".join(output), None)
                lines.append(f"{command}\n__status=$?; printf '\\n@@%s %s\\n' {mark} $__status; (exit $__status)")
        else:
            mark = str(line)
            expected[mark] = (text.strip().splitlines()[0], None, 0)
            lines.append(f"set -e\n{text}\nset +e; printf '\\n@@%s 0\\n' {mark}")
    return "\n".join(lines) + "\n", expected


def run_page(page, build, engine):
    script, expected = script_of(list(page.blocks()))
    with tempfile.TemporaryDirectory(prefix="holdfast-docs.") as place:
        (pathlib.Path(place) / "work").mkdir()
        (pathlib.Path(place) / "script").write_text(script, encoding="utf-8")
        (pathlib.Path(place) / "holdfast.pc").write_text(
            f"Name: holdfast\nDescription: the build\nVersion: 0\nCflags: -I{tree_pages.TREE}/include\nLibs: -L{build}/lib -lholdfast -Wl,-rpath,{build}/lib\n", encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("HOLDFAST_", "LC_"))}
        environment |= {"HOME": place, "PATH": f"{build}/bin:{environment['PATH']}", "PKG_CONFIG_PATH": place, "HOLDFAST_STORE": f"file:{place}/store", "LANG": "C.UTF-8",
                        "PYTHONDONTWRITEBYTECODE": "1"}
        words = [sys.executable, "-B", __file__, "inner", f"{place}/script", engine]
        if engine != "file":
            words = [f"{build}/bin/test/with_server", *shlex.split(engine), *words]
        process = subprocess.Popen(words, cwd=f"{place}/work", env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", start_new_session=True)
        try:
            output = process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            output = process.communicate()[0] + f"\n(ended after {LIMIT_S} s)"
        try:  # what a block has left in the background
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    judge_run(page, expected, output)


def judge_run(page, expected, output):
    rest = output
    for mark, (command, text, status) in expected.items():
        found = re.search(rf"(?s)^(.*?)\n@@{mark} (\d+)\n", rest)
        place = f"{page.path}:{mark}"
        if not found:
            wrong(place, f"`{command}` did not come to its end:\n" + "\n".join("    " + line for line in rest.strip().splitlines()[-12:]))
            return
        rest = rest[found.end():]
        if found[2] in ("64", "126", "127") or (status is not None and int(found[2]) != status):
            wrong(place, f"`{command}` ended with {found[2]}:\n    " + found[1].strip())
        elif text and not matches(text, found[1]):
            wrong(place, f"`{command}` prints something else:\n" + "\n".join("    " + line for line in found[1].strip().splitlines()))


def inner(script, engine):
    """Within with_server: the page's URLs become the server's."""
    path = pathlib.Path(script)
    url = os.environ.get("HOLDFAST_TEST_URL", "").replace("{id}", "docs")
    if engine != "file":
        scheme = SCHEMES["redlock" if "-R" in engine else engine]
        path.write_text(re.sub(scheme + r"://[^\s'\"?)]+(\?)?", lambda found: url + (("&" if "?" in url else "?") if found[1] else ""), path.read_text(encoding="utf-8")), encoding="utf-8")
    os.execvp("bash", ["bash", "-o", "pipefail", script])


def run_pages(build, names):
    count = 0
    for page in tree_pages.read_pages(tree_pages.TREE).values():
        runs = {run for *_, run, _ in page.blocks() if run}
        if not runs or (names and page.path not in names):
            continue
        if len(runs) > 1:
            wrong(page.path, f"blocks of one page run on one kind of store: {', '.join(sorted(runs))}")
            continue
        run_page(page, build, runs.pop())
        count += 1
    if not count:
        wrong("check.py run", "no page has a block that runs")
    return count


# ---- the built site -------------------------------------------------------------------------------------------

class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.names, self.fetched = [], set(), []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        for key in ("href", "src"):
            if given.get(key) is not None:
                self.links.append(given[key])
                if tag != "a":
                    self.fetched.append(given[key])
        for each in (given.get("srcset") or "").split(","):
            if each.strip():
                self.links.append(each.split()[0])
                self.fetched.append(each.split()[0])


def check_site(site):
    found = {}
    for file in sorted(site.rglob("*.html")):
        parser = Links()
        parser.feed(file.read_text(encoding="utf-8"))
        found[file.resolve()] = parser
    for file, parser in found.items():
        place = file.relative_to(site.resolve())
        for link in parser.fetched:
            if tree_pages.is_external(link) and not link.startswith("data:"):
                wrong(place, f"{link} comes from elsewhere")
        for link in parser.links:
            if tree_pages.is_external(link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / urllib.parse.unquote(path)).resolve() if path else file
            if not target.is_file():
                wrong(place, f"link to {link}: no such file")
            elif anchor and target in found and urllib.parse.unquote(anchor) not in found[target].names:
                wrong(place, f"link to {link}: no such place")
    for name in ("site.css", "site.js"):
        for link in re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", (site / name).read_text(encoding="utf-8")):
            wrong(name, f"{link} comes from elsewhere")
    if not found:
        wrong(site, "no pages")


def main():
    what, *rest = sys.argv[1:] or ["help"]
    if what == "links":
        check_links(pathlib.Path(rest[0]).resolve() if rest else tree_pages.TREE)
    elif what == "blocks" and rest:
        check_blocks(pathlib.Path(rest[0]).resolve(), pathlib.Path(rest[1]).resolve() if rest[1:] else tree_pages.TREE)
    elif what == "run" and rest:
        count = run_pages(pathlib.Path(rest[0]).resolve(), rest[1:])
        print(f"docs: {count} pages ran")
    elif what == "inner":
        inner(*rest)
    elif what == "site" and rest:
        check_site(pathlib.Path(rest[0]))
    else:
        raise SystemExit(__doc__)
    for text in wrongs:
        print(text, file=sys.stderr)
    raise SystemExit(1 if wrongs else 0)


if __name__ == "__main__":
    main()
