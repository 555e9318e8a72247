/* SPDX-License-Identifier: MIT */
/* Marks, ages and clients as people read them. */
#include "ui.h"

#include "util/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *ui_mark(const struct screen *screen, enum see_state state)
{
    static const char *const marks[SEE_STATES] = { "↻", "▲", "✗", "◆", "●", "○", "◌" };
    static const char *const ascii[SEE_STATES] = { "@", "!", "x", "*", "=", ".", "-" };

    return screen->utf8 ? marks[state] : ascii[state];
}

int ui_state_style(enum see_state state)
{
    static const int styles[SEE_STATES] = { STYLE_DEADLOCK, STYLE_RISK, STYLE_INK, STYLE_WANTED,
                                            STYLE_HELD,     STYLE_DIM,  STYLE_DIM };

    return styles[state];
}

const char *ui_age(int64_t ms)
{
    static char ring[8][32];
    static unsigned next;
    char *buf = ring[next++ % 8];

    return ms < 0 ? "-" : hfi_format_duration(ms, buf, sizeof ring[0]);
}

char *ui_shell_word(const void *bytes, size_t len, char buf[UI_SHELL_MAX])
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";
    const unsigned char *from = bytes;
    size_t used = 0;
    bool quoted = len == 0 || from[0] == '-';

    if (len > 512) /* longer than any name */
        len = 512;
    for (size_t i = 0; i < len; i++)
        quoted = quoted || from[i] == 0 || !strchr(plain, from[i]);
    if (quoted)
        used += (size_t)snprintf(buf, UI_SHELL_MAX, "$'");
    for (size_t i = 0; i < len; i++)
        used += (size_t)snprintf(
            buf + used, UI_SHELL_MAX - used,
            from[i] >= 0x20 && from[i] < 0x7f && from[i] != '\'' && from[i] != '\\' ? "%c"
                                                                                    : "\\x%02x",
            from[i]);
    snprintf(buf + used, UI_SHELL_MAX - used, quoted ? "'" : "");
    return buf;
}

/* The library's own label is "user@host:pid program": "program" and "host:pid". */
static bool is_default(const char *label, const char **ret_host, size_t *ret_len)
{
    const char *at = strchr(label, '@'), *space = strchr(label, ' '), *colon;

    if (!at || (space && space < at))
        return false;
    colon = strchr(at, ':');
    if (!colon || !isdigit((unsigned char)colon[1]))
        return false;
    *ret_len = strspn(colon + 1, "0123456789") + (size_t)(colon - at);
    *ret_host = at + 1;
    return !label[(size_t)(at + 1 - label) + *ret_len] || space == at + 1 + *ret_len;
}

void ui_client(const char *label, int64_t pid, char *ret_what, size_t what_size, char *ret_where,
               size_t where_size)
{
    const char *host;
    size_t len;

    if (is_default(label, &host, &len)) {
        snprintf(ret_what, what_size, "%s", host[len] ? host + len + 1 : "");
        snprintf(ret_where, where_size, "%.*s", (int)len, host);
        return;
    }
    snprintf(ret_what, what_size, "%s", label);
    if (pid > 0)
        snprintf(ret_where, where_size, ":%" PRId64, pid);
    else
        snprintf(ret_where, where_size, "%s", "");
}

int ui_draw_client(struct screen *screen, int row, int col, int width, int style, const char *label,
                   int64_t pid)
{
    char what[HF_LABEL_MAX + 1], where[HF_LABEL_MAX + 32];
    int what_cols, where_cols, used;

    ui_client(label, pid, what, sizeof what, where, sizeof where);
    what_cols = screen_width(screen, what, strlen(what));
    where_cols = screen_width(screen, where, strlen(where));
    if (what_cols + where_cols + (what_cols && where_cols) > width) {
        what_cols = width - where_cols - 1;
        if (what_cols < 2)
            what_cols = 0;
    }
    used = what_cols ? screen_text(screen, row, col, what_cols, style, what) : 0;
    if (used && where_cols)
        used++;
    return used + screen_text(screen, row, col + used, width - used,
                              used ? (style & ~STYLE_BOLD) : style, where);
}
