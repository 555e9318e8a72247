# SPDX-License-Identifier: MIT
# The code of the naive clients and of ours, as C, in each language: shown.awk remarks.txt play/*.c
#
# It is what stands between "shown: NAME" and "shown end" in the files of lab/play. Lines that only note something in the history are left
# out, and so are the indentation and the actor ("me, "). Blocks of one name that follow each other are one. Words of a comment at the end
# of a line have their Chinese in remarks.txt; words that are not in it end the build.
function begin_of(line) { match(line, /^ */); return RLENGTH }
function quoted(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); return "      \"" text "\\n\"\n" }

# "code; /* 5! words */" with the words in Chinese.
function chinese(text,   at, words, before) {
    if (text !~ /\/\* .* \*\/$/)
        return text
    at = match(text, /\/\* [^*]* \*\/$/)
    if (!at)
        return text
    before = substr(text, 1, at + 2)
    words = substr(text, at + 3, length(text) - at - 5)
    sub(/ +$/, "", words)
    if (match(words, /^([0-9]+!?:?|!:?)( +|$)/)) {
        before = before substr(words, 1, RLENGTH)
        words = substr(words, RLENGTH + 1)
    }
    if (words == "" || words in same)
        return text
    if (!(words in translation)) {
        print "shown.awk: no Chinese in remarks.txt: " words > "/dev/stderr"
        missing = 1
        return text
    }
    return before translation[words] " */"
}
function end_block(   i, text) {
    for (i = 0; i < count; i++) {
        text = substr(lines[i], least + 1)
        sub(/^static /, "", text); gsub(/\(struct actor \*me(, )?/, "(", text)
        gsub(/\(me, /, "(", text); gsub(/\(me\)/, "()", text)
        code = code quoted(text)
        code_zh = code_zh quoted(chinese(text))
    }
}
function flush_code() {
    if (name != "")
        printf "    { \"%s\",\n      {\n%s,\n%s      } },\n", name, substr(code, 1, length(code) - 1), code_zh
    code = code_zh = ""
}
BEGIN { print "/* Made by shown.awk: do not edit. */\n#include \"lab.h\"\n#include <string.h>\n"
        print "#pragma GCC diagnostic ignored \"-Woverlength-strings\""
        print "static const struct {\n    const char *name, *text[LANGS];\n} shown[] = {" }
FILENAME ~ /remarks\.txt$/ { at = index($0, " | ")
                             if ($0 ~ /^#/ || !at) next
                             if (substr($0, at + 3) == "=") same[substr($0, 1, at - 1)]; else translation[substr($0, 1, at - 1)] = substr($0, at + 3)
                             next }
/\/\* shown: [a-z0-9-]+ \*\// { next_name = $0; sub(/.*shown: /, "", next_name); sub(/ .*/, "", next_name); on = 1; count = 0; least = 999
                                if (next_name != name) flush_code(); name = next_name; next }
/\/\* shown end \*\// { if (on) end_block(); on = 0; next }
on && $0 !~ /^ *note/ && $0 !~ /^ *$/ { lines[count++] = $0; if (begin_of($0) < least) least = begin_of($0) }
END { flush_code(); print "    { NULL, { NULL } },\n};\n"
      print "const char *shown_code(const char *name, enum lang lang)\n{\n    for (size_t i = 0; name && shown[i].name; i++)"
      print "        if (strcmp(shown[i].name, name) == 0)\n            return shown[i].text[lang];\n    return NULL;\n}"
      exit missing }
