/* SPDX-License-Identifier: MIT */
/* Cells. Widths are wcwidth(3)'s, so the locale must be set. */
#include "screen.h"

#include "util/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

bool screen_init(struct screen *screen, int rows, int cols, bool utf8)
{
    rows = rows < 1 ? 1 : rows;
    cols = cols < 1 ? 1 : cols;
    *screen = (struct screen){ rows, cols, utf8,
                               calloc((size_t)rows * (size_t)cols, sizeof(struct cell)) };
    if (screen->cells)
        screen_clear(screen);
    return screen->cells;
}

void screen_done(struct screen *screen)
{
    free(screen->cells);
    screen->cells = NULL;
}

static struct cell *cell_at(struct screen *screen, int row, int col)
{
    if (row < 0 || row >= screen->rows || col < 0 || col >= screen->cols)
        return NULL;
    return &screen->cells[row * screen->cols + col];
}

void screen_clear(struct screen *screen)
{
    for (int i = 0; i < screen->rows * screen->cols; i++)
        screen->cells[i] = (struct cell){ " ", 0 };
}

/* ---- glyphs: what stands in one cell or in two -------------------------------------------------- */

struct glyph {
    const char *text;
    size_t len;
    int width;
};

/*
 * The next one of a text that is UTF-8 (hfi_quote_name() made it). A character that this locale does not know is "?": that is
 * rare, for without UTF-8 the text was escaped further. A combining mark belongs to the character before.
 */
static const char *next_glyph(const char *at, struct glyph *ret_glyph)
{
    mbstate_t state = { 0 };
    wchar_t wide;
    size_t n = mbrtowc(&wide, at, strlen(at), &state);
    int width = n == (size_t)-1 || n == (size_t)-2 ? -1 : wcwidth(wide);

    if (width < 0) {
        *ret_glyph = (struct glyph){ "?", 1, 1 };
        at++;
        while (((unsigned char)*at & 0xc0) == 0x80)
            at++;
        return at;
    }
    *ret_glyph = (struct glyph){ at, n, width };
    at += n;
    while (*at) {
        memset(&state, 0, sizeof state);
        n = mbrtowc(&wide, at, strlen(at), &state);
        if (n == 0 || n > 8 || wcwidth(wide) != 0)
            break;
        if (ret_glyph->len + n < CELL_BYTES) /* a heap of marks is cut */
            ret_glyph->len += n;
        at += n;
    }
    return at;
}

/* Escaped, and without UTF-8 in ASCII: as \xNN. The caller frees it. */
static char *quoted(const struct screen *screen, const void *bytes, size_t len)
{
    char *text = malloc(4 * len + 4), *ascii, *to;

    if (!text)
        return NULL;
    hfi_quote_name(bytes, len, text, 4 * len + 4);
    if (screen->utf8)
        return text;
    ascii = malloc(4 * strlen(text) + 1);
    if (!ascii) {
        free(text);
        return NULL;
    }
    to = ascii;
    for (const char *at = text; *at; at++)
        to += (unsigned char)*at < 0x80 ? sprintf(to, "%c", *at)
                                        : sprintf(to, "\\x%02x", (unsigned char)*at);
    *to = 0;
    free(text);
    return ascii;
}

static int width_of(const char *text)
{
    struct glyph glyph;
    int width = 0;

    while (*text) {
        text = next_glyph(text, &glyph);
        width += glyph.width ? glyph.width : 1;
    }
    return width;
}

int screen_width(const struct screen *screen, const void *bytes, size_t len)
{
    char *text = quoted(screen, bytes, len);
    int width = text ? width_of(text) : 0;

    free(text);
    return width;
}

static void put_glyph(struct screen *screen, int row, int col, int style, const struct glyph *glyph)
{
    struct cell *cell = cell_at(screen, row, col);
    size_t len = glyph->len < CELL_BYTES ? glyph->len : CELL_BYTES - 1;

    if (!cell || (glyph->width > 1 && !cell_at(screen, row, col + 1)))
        return;
    /* A mark with nothing before it would go to a neighbour's cell. */
    memset(cell, 0, sizeof *cell);
    memcpy(cell->text + (glyph->width == 0), glyph->text, glyph->width ? len : len - 1);
    if (glyph->width == 0)
        memcpy(cell->text, "?", 2);
    cell->style = (uint8_t)style;
    if (glyph->width > 1)
        *cell_at(screen, row, col + 1) = (struct cell){ "", (uint8_t)style };
}

/* Draw glyphs of `text` from the one at column `skip` on, while they fit into `width`. */
static int put_run(struct screen *screen, int row, int col, int width, int style, const char *text,
                   int skip)
{
    struct glyph glyph;
    int at = 0, used = 0;

    while (*text) {
        int wide;

        text = next_glyph(text, &glyph);
        wide = glyph.width ? glyph.width : 1;
        if (at >= skip) {
            if (used + wide > width)
                break;
            put_glyph(screen, row, col + used, style, &glyph);
            used += wide;
        }
        at += wide;
    }
    return used;
}

static int put_text(struct screen *screen, int row, int col, int width, int style, enum cut cut,
                    const char *text)
{
    struct glyph dots = { screen->utf8 ? "…" : "~", screen->utf8 ? strlen("…") : 1, 1 };
    int all = width_of(text), left, used;

    if (width > screen->cols - col)
        width = screen->cols - col;
    if (width <= 0)
        return 0;
    if (all <= width)
        return put_run(screen, row, col, width, style, text, 0);
    left = cut == CUT_MIDDLE ? width / 2 : width - 1;
    used = put_run(screen, row, col, left, style, text, 0);
    put_glyph(screen, row, col + used, style, &dots);
    used++;
    if (cut == CUT_MIDDLE)
        used += put_run(screen, row, col + used, width - used, style, text, all - (width - used));
    return used;
}

int screen_bytes(struct screen *screen, int row, int col, int width, int style, enum cut cut,
                 const void *bytes, size_t len)
{
    char *text = quoted(screen, bytes, len);
    int used = text ? put_text(screen, row, col, width, style, cut, text) : 0;

    free(text);
    return used;
}

int screen_text(struct screen *screen, int row, int col, int width, int style, const char *text)
{
    return screen_bytes(screen, row, col, width, style, CUT_END, text, strlen(text));
}

int screen_say(struct screen *screen, int row, int col, int width, int style, const char *format,
               ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return col + put_text(screen, row, col, width, style, CUT_END, text);
}

void screen_right(struct screen *screen, int row, int col, int width, int style, const char *text)
{
    int wide = width_of(text);

    put_text(screen, row, col + (wide < width ? width - wide : 0), width, style, CUT_END, text);
}

void screen_ground(struct screen *screen, int row, int col, int width, int ground)
{
    for (int i = 0; i < width; i++) {
        struct cell *cell = cell_at(screen, row, col + i);

        if (cell)
            cell->style = (uint8_t)((cell->style & ~STYLE_GROUND) | ground);
    }
}

char *screen_row(const struct screen *screen, int row, char *buf, size_t size)
{
    size_t used = 0;

    for (int col = 0; col < screen->cols; col++) {
        const char *text = screen->cells[row * screen->cols + col].text;
        size_t len = strlen(text);

        if (used + len + 1 > size)
            break;
        memcpy(buf + used, text, len);
        used += len;
    }
    while (used > 0 && buf[used - 1] == ' ')
        used--;
    buf[used] = 0;
    return buf;
}
