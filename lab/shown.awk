# SPDX-License-Identifier: MIT
# The code of the naive clients and of ours, as C: what stands between "shown: NAME" and "shown end" in the files of lab/play. Lines that only
# note something in the history are left out, and so are the indentation and the actor ("me, "). Blocks of one name that follow each other are one.
function begin_of(line) { match(line, /^ */); return RLENGTH }
function end_block(   i, text) {
    for (i = 0; i < count; i++) {
        text = substr(lines[i], least + 1)
        sub(/^static /, "", text); gsub(/\(struct actor \*me(, )?/, "(", text)
        gsub(/\(me, /, "(", text); gsub(/\(me\)/, "()", text)
        gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text)
        code = code "      \"" text "\\n\"\n"
    }
}
function flush_code() { if (name != "") printf "    { \"%s\",\n%s    },\n", name, code; code = "" }
BEGIN { print "/* Made by shown.awk: do not edit. */\n#include \"lab.h\"\n#include <string.h>\n"
        print "#pragma GCC diagnostic ignored \"-Woverlength-strings\""
        print "static const struct {\n    const char *name, *text;\n} shown[] = {" }
/\/\* shown: [a-z0-9-]+ \*\// { next_name = $0; sub(/.*shown: /, "", next_name); sub(/ .*/, "", next_name); on = 1; count = 0; least = 999
                                if (next_name != name) flush_code(); name = next_name; next }
/\/\* shown end \*\// { if (on) end_block(); on = 0; next }
on && $0 !~ /^ *note/ && $0 !~ /^ *$/ { lines[count++] = $0; if (begin_of($0) < least) least = begin_of($0) }
END { flush_code(); print "    { NULL, NULL },\n};\n"
      print "const char *shown_code(const char *name)\n{\n    for (size_t i = 0; name && shown[i].name; i++)"
      print "        if (strcmp(shown[i].name, name) == 0)\n            return shown[i].text;\n    return NULL;\n}" }
