/* SPDX-License-Identifier: MIT */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OPTION_COLUMN 28 /* where the texts of options begin; help.c */
#define USAGE         "usage: holdfast "

int wrap_columns(void)
{
    struct winsize size;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void wrap_words(FILE *to, const char *text, int from, int columns)
{
    int at = from;

    while (*text) {
        int len = (int)strcspn(text, " \n");

        if (columns > 0 && at > from && at + 1 + len > columns) {
            fprintf(to, "\n%*s", from, "");
            at = from;
        }
        at += fprintf(to, "%s%.*s", at > from ? " " : "", len, text);
        text += len;
        text += strspn(text, " \n");
    }
    fputc('\n', to);
}

/* Where the text of a line begins that goes on below: behind two spaces or more, or where options have theirs. 0: at the left. */
static int text_column(const char *line, int len)
{
    int at = (int)strspn(line, " ");

    if (strncmp(line, USAGE, strlen(USAGE)) == 0)
        return (int)strlen(USAGE);
    if (at > 0 && line[at] == '-' && len > OPTION_COLUMN && line[OPTION_COLUMN - 1] == ' ')
        return OPTION_COLUMN;
    for (int i = at; i + 2 < len; i++)
        if (line[i] == ' ' && line[i + 1] == ' ')
            return i + (int)strspn(line + i, " ");
    return at;
}

/* Does the next line belong to what began in `column`? */
static bool goes_on(const char *next, int column)
{
    int len = (int)strcspn(next, "\n"), indent = (int)strspn(next, " ");

    return len > 0 && indent == column && next[indent] != '-' && text_column(next, len) == column;
}

void wrap_help(FILE *to, const char *text, int columns)
{
    while (*text) {
        int len = (int)strcspn(text, "\n"), column = text_column(text, len);
        bool alone = strncmp(text, USAGE, strlen(USAGE)) == 0;
        const char *end = text + len + (text[len] == '\n');
        char *words;

        while (len > 0 && !alone && goes_on(end, column))
            end += strcspn(end, "\n") + (end[strcspn(end, "\n")] == '\n');
        if (len < column)
            column = len;
        fprintf(to, "%.*s", column, text);
        words = strndup(text + column, (size_t)(end - text - column));
        if (!words)
            abort();
        wrap_words(to, words, column, columns);
        free(words);
        text = end;
    }
}
