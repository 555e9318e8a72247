# SPDX-License-Identifier: MIT
"""finding_zh.py ROOT: every sentence that a doctor says has its Chinese in src/util/finding_zh.def, with the same values, and nothing else
is there. The sentences are the formats of hfi_report() and what core and the command say; their values are {}."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
LITERAL = r'"((?:[^"\\]|\\.)*)"'
SPEC = re.compile(r"%[-+0-9.*]*(?:ll|l|z)?[a-zA-Z]")
# Values that are a word of the language's grammar, or a name.
GRAMMAR = {"", "s", "is", "are", "has", "have", "lives", "live", "it", "one", "plain", "redisson", "EVAL", "EVALSHA", "Redis", "Valkey", "?", "0", "."}
# Parts of sentences that are in MADE as a whole.
GRAMMAR |= {"NOSPACE", "CORRUPT", "no new lease and no new lock until space is made (compact, defrag, disarm)", "etcd itself is not sound", "does not know this master"}
# Forms of which only the values matter: the text of an error, or of a server.
BARE = {"{}", "{}: {}", "PING: {}", "TIME: {}", "INFO: {}"}
# Sentences that no format of hfi_report() has as a whole.
MADE = ["private to {}: other users have other stores (holdfast init --group GROUP DIR makes one to share)",
        "shared by {} and the members of {}: each of them can run code as each other", "{} is {} on this server: connections that hold leases have it switched off",
        "users other than the owner may read or write the file {}, which has the password: chmod 600", "not created yet: the first lock creates it",
        "not created yet, and this user cannot create it: {}", "MySQL (untested) {}", "{}: does not know this master",
        "NOSPACE: no new lease and no new lock until space is made (compact, defrag, disarm)", "CORRUPT: etcd itself is not sound",
        "TIME: no right to know (ACL SETUSER ... +config|get +info)"]
VERBS = ("join.c",)  # steps of `redlock join`, which are no findings


def unquoted(text):
    return text.replace('\\"', '"').replace("\\\\", "\\")


def arguments(text):
    """Of a call, from behind its bracket."""
    parts, depth, at = [""], 0, 0
    while True:
        quoted = re.match(LITERAL, text[at:])
        if quoted:
            parts[-1] += quoted[0]
            at += len(quoted[0])
            continue
        char = text[at]
        if char == ")" and depth == 0:
            return parts
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
        at += 1


def literal(text, macros):
    found = re.finditer(LITERAL + r"|\b(PRI[a-z]\d+|[A-Z][A-Z_0-9]+)\b", text)
    return "".join(unquoted(one[1]) if one[1] is not None else "u" if one[2].startswith("PRI") else macros.get(one[2], "") for one in found)


def form(text):
    text = SPEC.sub("{}", text).replace("%%", "%").replace("{}:{}", "{}")
    return re.sub(r"(\{\})+", "{}", text)


def branches(text):
    """A format may be chosen by ?:."""
    if "?" not in re.sub(LITERAL, "", text):
        return [text]
    return [part for part in re.split(r"[?:](?=\s*\")", text)[1:]]


def sentences():
    found, values = set(MADE), set()
    for path in sorted((ROOT / "src/engine").glob("*/*.c")):
        if path.name in VERBS:
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        macros = {one[1]: "".join(map(unquoted, re.findall(LITERAL, one[2]))) for one in re.finditer(r"#define (\w+)\s+((?:" + LITERAL + r"\s*)+)", text)}
        if path.parent.name == "lmdb":
            macros.update(LMDB_OLD_DEFAULT="%s", LMDB_SITE_FILE="%s")
        for call in re.finditer(r"\bhfi_report\(", text):
            parts = arguments(text[call.end():])
            if len(parts) < 4 or "format" in parts[3] and '"' not in parts[3]:
                continue
            words = [w for part in parts[4:] for w in chosen(part, macros)]
            tails = [w for w in words if w.startswith((";", ", ", ":")) and not w.startswith(": leases")]
            for branch in branches(parts[3]):
                one = form(literal(branch, macros))
                if one in BARE or not one:
                    continue
                if tails or "a cluster's node" in "".join(words):
                    found.update(ends(one, tails))
                else:
                    found.add(one)
            values.update(w for w in words if w not in tails)
    ranges = re.sub(r"/\*.*?\*/", "", (ROOT / "src/engine/etcd/version.c").read_text(), flags=re.S)
    for why in re.findall(r"HF_CHECK_LEVEL_(?:BAD|WARNING),\s*((?:" + LITERAL + r"\s*)+)", ranges):
        found.add("{}: etcd {}: " + "".join(map(unquoted, re.findall(LITERAL, why[0]))))
    found.discard("{}: etcd {}: {}")
    return found, values


def chosen(part, macros):
    """What a value may say: the literals behind ? and :, joined where they are adjacent."""
    bare = re.sub(r"strcmp\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+\([^()]*(?:\([^()]*\)[^()]*)*\)", "f", part)
    return [literal(one, macros) for one in re.findall(r"[?:]\s*((?:" + LITERAL + r"\s*)+)", bare) for one in [one[0]]]


def ends(one, tails):
    """A sentence whose last value, or whose value before the last comma, is a part of the sentence or nothing."""
    for tail in ["", *tails]:
        if "cluster's node" in tail:
            yield one.replace("{}, up", tail.strip() and "{}" + tail + ", up")
        elif one.startswith("maxmemory-policy {}: {} it evicts leases{}"):
            yield one.replace("leases{}", "leases" + tail)
        elif one.endswith("{}") and not one.endswith(" {}"):
            yield one[:-2] + tail
        else:  # two values that touch are one {}
            yield one + tail if one.endswith(" {}") else one


def main():
    table = re.findall(r"^(FINDING|VALUE)\(" + LITERAL + ", " + LITERAL + r"\)$", (ROOT / "src/util/finding_zh.def").read_text(), re.M)
    english = [unquoted(one[1]) for one in table if one[0] == "FINDING"]
    said = {unquoted(one[1]) for one in table if one[0] == "VALUE"}
    wrong = [f"twice: {one}" for one in set(english) if english.count(one) > 1]
    for kind, source, target in table:
        numbers = {int(number) for number in re.findall(r"\{(\d)\}", target)}
        if numbers and max(numbers) > source.count("{}"):
            wrong.append(f"more values than there are: {source}")
        if not re.search(r"[\u4e00-\u9fff]", target) and re.search(r"[a-z]{3}", re.sub(r"\{\d\}|PostgreSQL|etcd", "", target)):
            wrong.append(f"no Chinese: {source}")
    found, values = sentences()
    wrong += [f"no Chinese for: {one}" for one in sorted(found - set(english))]
    wrong += [f"nobody says: {one}" for one in sorted(set(english) - found)]
    wrong += [f"no Chinese for the value: {one}" for one in sorted(values - said - GRAMMAR - {w for w in values if w.strip() == "MySQL (untested)"})]
    print("\n".join(wrong))
    print(f"{len(english)} sentences, {len(said)} values")
    sys.exit(bool(wrong))


main()
