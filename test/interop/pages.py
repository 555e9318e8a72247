#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The code of docs/migrate, run as it is printed: pages.py BUILD [PAGE...]

A block behind a line <!-- try: ENGINE --> is run with a real server of that kind (with_server), one for all such blocks of the page; "file" stands
for none. Blocks of sh, python and sql are run in the order in which they stand, each by a process of its own. Where a block names its server in the
usual way (usual()), the address of the real one is put in. A comment "prints: TEXT" says what the block must print, in this order; it must end with
status 0. (tools/site/check.py runs the shell blocks of other pages; these have Python beside other libraries, SQL, and several servers on one page.)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TREE = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"<!-- try: ([a-z]+) -->\n```(sh|python|sql)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PRINTS = re.compile(r"(?:#|--) prints: (.*)$", re.MULTILINE)
LIMIT_S = 60


def usual(text):
    """The text with the addresses of the servers that with_server has started."""
    url = os.environ.get("HOLDFAST_TEST_URL", "").partition("?")[0]
    ports = re.findall(r"127\.0\.0\.1:(\d+)", url)
    if url.startswith("redis:"):
        text = text.replace("redis.Redis()", f"redis.Redis(port={ports[0]})")
        text = text.replace("redis-cli ", f"redis-cli -p {ports[0]} ")
        text = re.sub(r"redis://127\.0\.0\.1(?=[?\"'\s/]|$)", f"redis://127.0.0.1:{ports[0]}", text)
    if url.startswith("postgresql:"):
        text = re.sub(r"postgresql://127\.0\.0\.1/app", url, text)
    if url.startswith("mariadb:"):
        user = re.match(r"mariadb://([^@]*)@127\.0\.0\.1:\d+/(.*)", url)
        text = text.replace("mariadb://127.0.0.1/app", url)
        text = text.replace("mariadb app", f"mariadb -h 127.0.0.1 -P {ports[0]} -u {user[1]} {user[2]}")
    return text


def run(language, text):
    """(status, output) of one block."""
    text = usual(text)
    if language == "python":
        command = ["/usr/bin/python3", "-W", "error::ResourceWarning", "-c", text]
    elif language == "sql":
        command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", os.environ["HOLDFAST_TEST_URL"].partition("?")[0], "-c", text]
    else:
        command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout


def inside(page, engine):
    """All blocks of one page for one engine, whose server is there."""
    bad = 0
    text = (TREE / page).read_text(encoding="utf-8")
    for found in MARK.finditer(text):
        if found[1] != engine:
            continue
        line = text.count("\n", 0, found.start()) + 2
        status, output = run(found[2], found[3])
        place = 0
        for wanted in PRINTS.findall(found[3]):
            place = output.find(wanted, place)
            if place < 0:
                print(f"{page}:{line}: not printed: {wanted}")
                break
            place += len(wanted)
        if status != 0 or place < 0:
            print(f"{page}:{line}: status {status}, output:\n{output}")
            bad += 1
        else:
            print(f"ok   {page}:{line} ({engine})")
    return bad


def python_of(build):
    """Where Debian's Python finds the binding, which is built if it must be."""
    subprocess.run([TREE / "bindings/python/test.sh", "build"], check=True, env={**os.environ, "HOLDFAST_BUILD": str(build)})
    return str(next((build / "bindings/python/venv/lib").glob("python3*/site-packages")))


def built(build, engine):
    """Is the engine part of this build? The name of with_server is a scheme, or the beginning of one."""
    if engine == "file":
        return True
    said = json.loads(subprocess.check_output([build / "bin/holdfast", "engines", "--json"], text=True))
    return any(each["available"] and any(scheme.startswith(engine) for scheme in each["schemes"].split()) for each in said["engines"])


def main():
    if sys.argv[1] == "--inside":
        sys.exit(1 if inside(sys.argv[2], sys.argv[3]) else 0)
    build = pathlib.Path(sys.argv[1]).resolve()
    pages = sys.argv[2:] or sorted(str(path.relative_to(TREE)) for path in (TREE / "docs/migrate").glob("*.md"))
    bad = tried = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-pages-") as home:
        place = os.environ.get("PAGES_PYTHON") or python_of(build)
        env = {**os.environ, "PATH": f"{build}/bin:{os.environ['PATH']}", "PYTHONPATH": place, "HOME": home}
        env.pop("HOLDFAST_STORE", None)
        for page in pages:
            marks = MARK.findall((TREE / page).read_text(encoding="utf-8"))
            for engine in sorted({mark[0] for mark in marks}):
                if not built(build, engine):
                    print(f"skip {page} ({engine}): not part of this build")
                    continue
                tried += 1
                command = [sys.executable, __file__, "--inside", page, engine]
                if engine != "file":
                    command = [str(build / "bin/test/with_server"), engine, *command]
                bad += subprocess.run(command, env=env, check=False).returncode != 0
    print(f"{tried} pages and servers, {bad} bad")
    sys.exit(1 if bad or not tried else 0)


main()
