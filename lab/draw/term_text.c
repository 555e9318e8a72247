/* SPDX-License-Identifier: MIT */
/* Texts and cells on their way to a terminal: made harmless, broken into lines, coloured. Widths are wcwidth(3)'s. */
#include "term.h"

#include "util/text.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- texts -------------------------------------------------------------------------------------- */

const char *term_glyph(const struct term *term, const char *utf8, const char *ascii)
{
    return term->look->utf8 ? utf8 : ascii;
}

const char *term_step(const struct term *term, int step)
{
    static const char *const circled[] = { "①", "②", "③", "④", "⑤", "⑥", "⑦", "⑧", "⑨" };
    static const char *const digits[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9" };

    if (step < 1 || step > 9)
        return "?";
    return term->look->utf8 && !term->look->color ? circled[step - 1] : digits[step - 1];
}

int term_step_style(const struct term *term, bool bad)
{
    return (bad ? PAINT_BAD : PAINT_INK) | STYLE_BOLD | (term->look->color ? GROUND_INVERT : 0);
}

enum paint term_client(int client)
{
    return client < 0 ? PAINT_INK : (enum paint)(PAINT_CLIENT + client % 6);
}

/* How ASCII spells what our texts use beside it. */
static const char *spelled(const char *at)
{
    static const char *const table[][2] = {
        { "…", "..." }, { "→", "->" }, { "←", "<-" }, { "×", "x" }, { "≥", ">=" }, { "≤", "<=" },
        { "≠", "!=" },  { "–", "-" },  { "—", "-" },  { "’", "'" }, { "“", "\"" }, { "”", "\"" },
        { "µ", "u" },   { "·", "-" },  { "é", "e" },  { "−", "-" },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(at, table[i][0], strlen(table[i][0])) == 0)
            return table[i][1];
    return "?";
}

bool term_shorten(char *label)
{
    static const char *const ends[] = { ",", "，", " (", "（", ":", "：", " with " };
    char *first = NULL;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *at = strstr(label, ends[i]);

        if (at && at != label && (!first || at < first))
            first = at;
    }
    if (first)
        *first = 0;
    return first;
}

static const char *behind(const char *at)
{
    if (*at)
        at++;
    while (*at && ((unsigned char)*at & 0xc0) == 0x80)
        at++;
    return at;
}

char *term_plain(const struct term *term, const char *text, char *buf, size_t size)
{
    char clean[TERM_TEXT];
    size_t used = 0;

    snprintf(clean, sizeof clean, "%s", text);
    hfi_disarm(clean, false);
    if (term->look->utf8) {
        snprintf(buf, size, "%s", clean);
        return buf;
    }
    buf[0] = 0;
    for (const char *at = clean; *at; at = behind(at)) {
        char one[2] = { *at, 0 };
        const char *as = (unsigned char)*at < 0x80 ? one : spelled(at);

        if (used + strlen(as) + 1 > size)
            break;
        strcpy(buf + used, as);
        used += strlen(as);
    }
    return buf;
}

/* The width of the character at `at`, and its length in bytes. */
static int width_at(const char *at, size_t *ret_len)
{
    mbstate_t state = { 0 };
    wchar_t wide;
    size_t len = mbrtowc(&wide, at, strlen(at), &state);
    int width = len == (size_t)-1 || len == (size_t)-2 ? -1 : wcwidth(wide);

    *ret_len = width < 0 ? (size_t)(behind(at) - at) : len;
    return width < 0 ? 1 : width;
}

static int width_of(const char *text, size_t len)
{
    int width = 0;

    for (size_t at = 0, one; at < len; at += one)
        width += width_at(text + at, &one);
    return width;
}

int term_width(const struct term *term, const char *text)
{
    char plain[TERM_TEXT];

    term_plain(term, text, plain, sizeof plain);
    return width_of(plain, strlen(plain));
}

/* ---- lines -------------------------------------------------------------------------------------- */

static bool one_of(const char *at, const char *set)
{
    size_t len = (size_t)(behind(at) - at);

    for (; *set; set = behind(set))
        if ((size_t)(behind(set) - set) == len && memcmp(at, set, len) == 0)
            return true;
    return false;
}

/* May a line end before the character at `at`? Chinese may be broken everywhere but at its punctuation. */
static bool may_break(const char *before, const char *at)
{
    size_t len;

    if (*at == ' ')
        return true;
    if (*before == ' ')
        return true;
    if (one_of(at, "，。、；：！？）」』》”’") || one_of(before, "（「『《“‘"))
        return false;
    return width_at(before, &len) == 2 || width_at(at, &len) == 2;
}

const char *term_break(const char *text, int width, size_t *ret_len)
{
    const char *end = NULL, *before = NULL, *at = text;
    int used = 0;

    while (*at) {
        size_t len;
        int wide = width_at(at, &len);

        if (before && may_break(before, at))
            end = at;
        if (used + wide > width && *at != ' ')
            break;
        used += wide;
        before = at;
        at += len;
    }
    if (!*at || !end) /* the rest, or a word that is longer than a line */
        end = at > text ? at : behind(text);
    *ret_len = (size_t)(end - text);
    while (*ret_len > 0 && text[*ret_len - 1] == ' ')
        --*ret_len;
    while (*end == ' ')
        end++;
    return end;
}

void term_paragraph(const struct term *term, const char *mark, int mark_style, int indent,
                    int style, const char *text)
{
    char plain[TERM_TEXT];
    const char *at = term_plain(term, text, plain, sizeof plain);

    do {
        struct screen line;
        char part[TERM_TEXT];
        size_t len;
        const char *next = term_break(at, term->columns - indent, &len);

        memcpy(part, at, len);
        part[len] = 0;
        term_screen(term, &line, 1);
        term_put(term, &line, 0, 0, mark_style, mark);
        term_put(term, &line, 0, indent, style, part);
        term_print(term, &line);
        mark = "";
        at = next;
    } while (*at);
}

/* ---- cells -------------------------------------------------------------------------------------- */

void term_screen(const struct term *term, struct screen *screen, int rows)
{
    if (!screen_init(screen, rows, term->columns, term->look->utf8)) {
        fprintf(stderr, "holdfast: out of memory\n");
        exit(70);
    }
}

int term_put(const struct term *term, struct screen *screen, int row, int col, int style,
             const char *text)
{
    char plain[TERM_TEXT];

    term_plain(term, text, plain, sizeof plain);
    return screen_say(screen, row, col, screen->cols, style, "%s", plain);
}

/* The palette of the live page, as near as 256 colours come; -1: the terminal's own. */
static const short dark[PAINT_COUNT] = { -1, 246, 221, 203, 78, 111, 215, 171, 80, 180, 150 };
static const short light[PAINT_COUNT] = { -1, 241, 94, 124, 22, 26, 130, 54, 30, 95, 58 };

static void print_style(const struct term *term, int style)
{
    const bool is_light = term->look->light;
    const short color = (is_light ? light : dark)[(style & STYLE_MASK) % PAINT_COUNT];

    fputs("\033[0", term->out);
    if (style & STYLE_BOLD)
        fputs(";1", term->out);
    if ((style & STYLE_GROUND) == GROUND_INVERT)
        fputs(";7", term->out);
    if (color >= 0)
        fprintf(term->out, ";38;5;%d", color);
    if ((style & STYLE_GROUND) == GROUND_HEAD)
        fprintf(term->out, ";48;5;%d", is_light ? 253 : 237);
    fputc('m', term->out);
}

static void print_row(const struct term *term, const struct cell *cells, int count)
{
    int style = 0;

    while (count > 0 && strcmp(cells[count - 1].text, " ") == 0 &&
           !(term->look->color && (cells[count - 1].style & STYLE_GROUND)))
        count--;
    for (int i = 0; i < count; i++) {
        if (term->look->color && cells[i].style != style) {
            style = cells[i].style;
            print_style(term, style);
        }
        fputs(cells[i].text, term->out);
    }
    if (style)
        fputs("\033[0m", term->out);
    fputc('\n', term->out);
}

void term_print(const struct term *term, struct screen *screen)
{
    for (int row = 0; row < screen->rows; row++)
        print_row(term, screen->cells + (ptrdiff_t)row * screen->cols, screen->cols);
    screen_done(screen);
}
