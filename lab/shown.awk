# SPDX-License-Identifier: MIT
# The code of the naive clients and of ours, as C: what stands between "shown: NAME" and "shown end" in the files of lab/play. Lines that only
# note something in the history are left out, and so are the indentation and the actor ("me, ").
function begin_of(line) { match(line, /^ */); return RLENGTH }
function flush_code(   i, text) {
    printf "    { \"%s\",\n", name
    for (i = 0; i < count; i++) {
        text = substr(lines[i], least + 1)
        gsub(/\(me, /, "(", text); gsub(/\(me\)/, "()", text)
        gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text)
        printf "      \"%s\\n\"\n", text
    }
    print "    },"
}
BEGIN { print "/* Made by shown.awk: do not edit. */\n#include \"lab.h\"\n#include <string.h>\n"
        print "#pragma GCC diagnostic ignored \"-Woverlength-strings\""
        print "static const struct {\n    const char *name, *text;\n} shown[] = {" }
/\/\* shown: [a-z0-9-]+ \*\// { name = $0; sub(/.*shown: /, "", name); sub(/ .*/, "", name); on = 1; count = 0; least = 999; next }
/\/\* shown end \*\// { if (on) flush_code(); on = 0; next }
on && $0 !~ /^ *note/ && $0 !~ /^ *$/ { lines[count++] = $0; if (begin_of($0) < least) least = begin_of($0) }
END { print "    { NULL, NULL },\n};\n"
      print "const char *shown_code(const char *name)\n{\n    for (size_t i = 0; name && shown[i].name; i++)"
      print "        if (strcmp(shown[i].name, name) == 0)\n            return shown[i].text;\n    return NULL;\n}" }
