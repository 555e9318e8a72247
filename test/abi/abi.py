#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""abi.py [--record] SOURCE LIBRARY CC: is the public interface as it was recorded?

It lists, for this platform: every public struct with its size and the offset and size of each member, every value of an enum,
every numeric macro, every declaration, and the symbols that the library exports. The list is compared with
test/abi/PLATFORM.txt; --record writes it anew (`make abi-record`), so that a change of the interface is a change of that file
and deliberate.
"""
import os
import platform
import re
import subprocess
import sys
import tempfile

HEADERS = ["holdfast", "primitives", "redis", "observe"]


def preprocess(cc, include):
    text = "".join("#include <holdfast/%s.h>\n" % name for name in HEADERS)
    return subprocess.run([cc, "-E", "-P", "-x", "c", "-std=c11", "-I" + include, "-"], input=text,
                          capture_output=True, text=True, check=True).stdout


def members(body):
    names = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.match(r"[^(]*\(\*(\w+)\)\s*\(", declaration)
        if pointer:
            names.append(pointer.group(1))
            continue
        for declarator in declaration.split(","):
            names.append(re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", declarator).group(1))
    return names


def macros(include):
    names = []
    for header in HEADERS:
        with open(os.path.join(include, "holdfast", header + ".h"), encoding="utf-8") as file:
            text = re.sub(r"\\\n", " ", file.read())
        for name, value in re.findall(r"^#define (HF_\w+)[ \t]+(\S.*)$", text, re.M):
            if not name.endswith("_INIT") and name not in ("HF_API", "HF_USE"):
                names.append(name)
    return sorted(set(names))


def program(text, include):
    """A program that prints what only a compiler knows."""
    lines = ["#include <stdio.h>", "#include <stddef.h>"]
    lines += ["#include <holdfast/%s.h>" % name for name in HEADERS]
    lines.append("int main(void)\n{")
    for name, body in sorted(re.findall(r"typedef struct (hf_\w+) \{(.*?)\} \1;", text, re.S)):
        lines.append('printf("struct %s size %%zu\\n", sizeof(%s));' % (name, name))
        for member in members(body):
            lines.append('printf("  %s.%s at %%zu size %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));'
                         % (name, member, name, member, name, member))
    for name, body in sorted(re.findall(r"typedef enum (hf_\w+) \{(.*?)\} \1;", text, re.S)):
        lines.append('printf("enum %s size %%zu\\n", sizeof(%s));' % (name, name))
        for value in re.findall(r"\b(HF_\w+)", re.sub(r"=[^,}]*", "", body)):
            lines.append('printf("  %s = %%lld\\n", (long long)%s);' % (value, value))
    for name in macros(include):
        lines.append('printf("macro %s = %%llu\\n", (unsigned long long)(%s));' % (name, name))
    lines.append("return 0;\n}")
    return "\n".join(lines) + "\n"


def run_program(cc, source, include):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "abi.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        binary = os.path.join(directory, "abi")
        subprocess.run([cc, "-std=c11", "-I" + include, "-o", binary, path], check=True)
        return subprocess.run([binary], capture_output=True, text=True, check=True).stdout


def declarations(text):
    text = re.sub(r"__attribute__\(\([^()]*(\([^()]*\))?[^()]*\)\)", "", text)
    lines = set()
    for part in re.split(r"[;{}]", text):
        declaration = " ".join(part.split())
        if re.match(r"(typedef )?[\w* ]*\bhf_\w+ ?\(", declaration):
            lines.add("declares " + declaration)
    return "".join(line + "\n" for line in sorted(lines))


def symbols(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = sorted({line.split()[-1].split("@")[0] for line in out.splitlines() if re.search(r" hf_", line)})
    return "".join("exports %s\n" % name for name in names)


def main():
    arguments = sys.argv[1:]
    record = arguments[:1] == ["--record"]
    source, library, cc = arguments[1:] if record else arguments
    include = os.path.join(source, "include")
    text = preprocess(cc, include)
    now = run_program(cc, program(text, include), include) + declarations(text) + symbols(library)
    path = os.path.join(source, "test", "abi",
                        "%s-%s.txt" % (platform.system().lower(), platform.machine()))
    if record:
        with open(path, "w", encoding="utf-8") as file:
            file.write(now)
        return 0
    if not os.path.exists(path):
        print("nothing is recorded for this platform: %s" % path)
        return 0
    with open(path, encoding="utf-8") as file:
        before = file.read()
    if now == before:
        return 0
    old, new = before.splitlines(), now.splitlines()
    for line in old:
        if line not in set(new):
            print("was: " + line)
    for line in new:
        if line not in set(old):
            print("is:  " + line)
    print("The public interface has changed. If that is meant: make abi-record, and say so in CHANGES.md.")
    return 1


sys.exit(main())
