/* SPDX-License-Identifier: MIT */
#include "code.h"

#include <string.h>

static size_t trimmed(const char *text, size_t bytes)
{
    while (bytes && (text[bytes - 1] == ' ' || text[bytes - 1] == '\t' || text[bytes - 1] == '\r'))
        bytes--;
    return bytes;
}

/* Where the comment at the end of a line begins, outside of strings; `bytes` if there is none. */
static size_t comment_at(const char *line, size_t bytes)
{
    bool quoted = false;

    for (size_t i = 0; i + 1 < bytes; i++) {
        if (line[i] == '\\')
            i++;
        else if (line[i] == '"')
            quoted = !quoted;
        else if (!quoted && line[i] == '/' && (line[i + 1] == '*' || line[i + 1] == '/'))
            return i;
    }
    return bytes;
}

/* "5! words": the step, and the words. */
static void name_step(struct code_line *line)
{
    size_t i = 0;
    int step = 0;

    while (i < line->comment_bytes && line->comment[i] >= '0' && line->comment[i] <= '9' && i < 2)
        step = step * 10 + (line->comment[i++] - '0');
    if (!i)
        return;
    bool key = i < line->comment_bytes && line->comment[i] == '!';
    i += key;
    bool colon = i < line->comment_bytes && line->comment[i] == ':';
    i += colon;
    if (i < line->comment_bytes && line->comment[i] != ' ' && !key && !colon)
        return; /* "3s later" is no step */
    while (i < line->comment_bytes && line->comment[i] == ' ')
        i++;
    line->step = step;
    line->key = key;
    line->comment += i;
    line->comment_bytes -= i;
}

bool code_next(const char **at, struct code_line *ret_line)
{
    const char *line = *at;
    size_t bytes = strcspn(line, "\n");

    if (!*line)
        return false;
    *at = line + bytes + (line[bytes] == '\n');
    bytes = trimmed(line, bytes);
    size_t begin = comment_at(line, bytes), end = bytes;
    *ret_line = (struct code_line){ .code = line, .code_bytes = trimmed(line, begin) };
    if (begin == bytes)
        return true;
    bool block = line[begin + 1] == '*';
    if (block && (end < begin + 4 || memcmp(line + end - 2, "*/", 2) != 0)) {
        ret_line->code_bytes = bytes; /* it goes on, or code follows: shown as it is */
        return true;
    }
    begin += 2;
    end -= block ? 2 : 0;
    while (begin < end && line[begin] == ' ')
        begin++;
    ret_line->comment = line + begin;
    ret_line->comment_bytes = trimmed(line + begin, end - begin);
    ret_line->alone =
        trimmed(line, ret_line->code_bytes) == strspn(line, " \t") || ret_line->code_bytes == 0;
    name_step(ret_line);
    return true;
}

bool code_key(const struct code_line *line, const char *at)
{
    struct code_line next = *line;

    for (int i = 0; i < 4 && !next.key; i++)
        if (next.alone || next.comment || !next.code_bytes ||
            next.code[strspn(next.code, " \t")] == '"' || /* a line of a script counts for itself */
            strchr(";{}=", next.code[next.code_bytes - 1]) || !code_next(&at, &next))
            return false;
    return next.key;
}
