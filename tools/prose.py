#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""House rules for English that a user reads: prose.py [FILE...]

Without files: all documents, man pages, comments of public headers, and the string literals of the command, of the library and of
the lab. The rules are in tools/prose.rules, exceptions with a reason in tools/prose.allow. Two rules are here: a sentence has at most
MOST_WORDS words, and an error text has no full stop. Prints FILE:LINE: what is wrong, and exits with 1 if there is anything.
"""
import fnmatch
import os
import re
import subprocess
import sys

MOST_WORDS = 40
HERE = os.path.dirname(os.path.abspath(__file__))
CJK = re.compile('[\u3000-\u9fff\uff00-\uffef]')

# What is read, in which way. A pattern with ! leaves out.
SOURCES = [
    ('markdown', 'README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGES.md docs/*.md bindings/*.md examples/README.md'
                 ' man/api/*.md !docs/decisions.md !docs/api/* !docs/zh-CN/* !*.zh-CN.md !*/node_modules/* !*/target/*'),
    ('man', 'man/*.[1-9] !man/man3/*'), # man3 and docs/api: made of the headers
    ('header', 'include/*.h bindings/cpp/include/*.hpp'),
    ('literal', 'cli/*.c src/*.c see/*.c see/page/*.js lab/play/*.c lab/draw/*.c lab/main.c lab/run.c'),
]


def tracked():
    out = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], stdout=subprocess.PIPE, check=True, text=True).stdout
    return [name for name in out.splitlines() if os.path.isfile(name)]


def kind_of(name):
    for kind, patterns in SOURCES:
        words = patterns.split()
        if any(fnmatch.fnmatch(name, word) for word in words if word[0] != '!') and \
           not any(fnmatch.fnmatch(name, word[1:]) for word in words if word[0] == '!'):
            return kind
    return None


def table(name):
    """Lines of fields that two or more spaces separate; # begins a comment line."""
    with open(os.path.join(HERE, name), encoding='utf-8') as file:
        return [re.split(r'\s{2,}', line.strip()) for line in file if line.strip() and line[0] != '#']


# Each reader yields (line, text, is_sentence): text without code, of one paragraph, item or literal.

def markdown(text):
    fenced, start, words = False, 0, []
    for number, line in enumerate(text.splitlines() + [''], 1):
        if number > 1 and re.match(r'## 0\.1\.0', line):
            return
        if line.lstrip().startswith('```'):
            fenced = not fenced
            line = ''
        elif fenced:
            continue
        is_row = line.lstrip().startswith('|')
        if not line.strip() or is_row or re.match(r'\s*([-*#>]|\d+\.) ?', line):
            if words:
                yield start, ' '.join(words), True
            words = []
        if is_row:
            for cell in line.split('|'):
                yield number, plain(cell), False
        elif line.strip():
            start = start if words else number
            words.append(plain(line))


def plain(line):
    line = re.sub(r'<!--.*?-->', '', line)
    line = re.sub(r'`[^`]*`', lambda code: f'CODE{code.start()}', line)
    line = re.sub(r'!?\[([^]]*)\]\([^)]*\)', r'\1', line)
    return re.sub(r'\*\*|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)|^\s*([-*#>]+|\d+\.) *', '', line).strip()


def man(text):
    literal, start, words = False, 0, []
    for number, line in enumerate(text.splitlines() + ['.Pp'], 1):
        if re.match(r'\.Bd .*-(literal|unfilled)', line):
            literal = True
        literal = literal and not line.startswith('.Ed')
        if literal or line.startswith('.\\"') or re.match(r'\.(Dd|Dt|Os|Bl|El|Bd|Ed|Fn|Ft|Fd|In|Fo|Fa|Fc|Nd|Xr)\b', line):
            continue
        if re.match(r'\.(Pp|It|Sh|Ss|Bd)\b', line):
            if words:
                yield start, ' '.join(words), True
            words = []
            continue
        start = start if words else number
        if line.startswith('.'):
            # Names and code are one word each; what follows a macro's arguments is punctuation.
            end = re.search(r'( [.,:;)])+$', line)
            line = f'CODE{number}' + (end.group(0).replace(' ', '') if end else '')
        words.append(re.sub(r'\\f.|\\&|\\\(..', '', line))


def header(text):
    for comment in re.finditer(r'/\*.*?\*/|(?:^[ \t]*///?[^\n]*\n)+', text, re.S | re.M):
        body = re.sub(r'^[ \t]*(/\*+|\*+/|\*|///?)|\*/', '', comment.group(0), flags=re.M)
        number = text.count('\n', 0, comment.start()) + 1
        for part in re.split(r'\n[ \t]*\n|\n[ \t]*- ', body):
            yield number, re.sub(r'\s+', ' ', plain(part)).strip(), True
            number += part.count('\n') + 1


def literal(text):
    bare = re.sub(r'/\*.*?\*/|^\s*//.*?$', lambda comment: '\n' * comment.group(0).count('\n'), text, flags=re.S | re.M)
    for found in re.finditer(r'(?:"(?:[^"\\\n]|\\.)*"(?:\s*PRI\w+)?\s*)+|`[^`]*`', bare):
        said = ''.join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found.group(0))) or found.group(0).strip('`')
        before = bare[max(0, found.start() - 400):found.start()].rpartition(';')[2]
        if ' ' in said and not re.search(r'^[#\s]*include|SELECT |INSERT |UPDATE |CREATE |[{};]$', said):
            yield bare.count('\n', 0, found.start()) + 1, said.replace('\\n', '\n').replace('\\"', '"'), False
            if re.search(r'\b(hfi_error_set|say|die|usage_error)\($|_error\([^;]*$|hfi_error_set\([^;]*$', before) \
               and re.search(r'[a-z)]\.$', said) and said.count('. ') == 0:
                yield bare.count('\n', 0, found.start()) + 1, '\0an error text has no full stop at its end: ' + said, False


def main(names):
    rules = [(re.compile(pattern), why) for pattern, why in table('prose.rules')]
    allowed = [(entry, [0]) for entry in table('prose.allow')]
    found = 0
    for name in names or tracked():
        kind = kind_of(name)
        if not kind:
            continue
        with open(name, encoding='utf-8') as file:
            text = file.read()
        wrong = []
        if kind == 'markdown':
            wrong += [(number, 'a space at the end of the line', '') for number, line in enumerate(text.splitlines(), 1) if line != line.rstrip()]
        for number, said, is_text in globals()[kind](text):
            if CJK.search(said):
                continue
            if said.startswith('\0'):
                wrong.append((number, said[1:], said))
                continue
            wrong += [(number, f'"{hit.group(0).strip()[:60]}": {why}', said) for rule, why in rules for hit in rule.finditer(said)]
            for sentence in re.split(r'(?<=[.!?:;])\s+', said) if is_text else []:
                if len(sentence.split()) > MOST_WORDS:
                    wrong.append((number, f'a sentence of {len(sentence.split())} words: {sentence[:60]}...', sentence))
        for number, what, said in wrong:
            for (where, part, *_), used in allowed:
                if fnmatch.fnmatch(name, where) and part in said:
                    used[0] += 1
                    break
            else:
                print(f'{name}:{number}: {what}')
                found += 1
    for (where, part, *_), used in allowed:
        if not names and not used[0]:
            print(f'tools/prose.allow: allows nothing any more: {where}: {part}')
            found += 1
    return 1 if found else 0


sys.exit(main(sys.argv[1:]))
