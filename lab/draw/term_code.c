/* SPDX-License-Identifier: MIT */
/*
 * The code of a way, below its picture. A comment at the end of a line that begins with the number of a step, or with "!", is about the
 * picture (lab/README.md): it is printed with the step's sign, before the line if it does not fit behind it.
 */
#include "term.h"

#include <ctype.h>
#include <string.h>

#define MARGIN 3 /* columns: the line at the left */

struct line {
    char code[TERM_TEXT], remark[TERM_TEXT];
    int indent;
    int step; /* 0: none */
    bool bad; /* it breaks here, or protects */
};

/* Take the remark off the code. */
static void part(struct line *line)
{
    char *comment = strstr(line->code, "/* "), *end, *text;

    if (!comment)
        return;
    text = comment + 3;
    line->step = isdigit((unsigned char)*text) ? *text++ - '0' : 0;
    line->bad = *text == '!';
    if (line->bad)
        text++;
    if (*text == ':')
        text++;
    end = strstr(text, "*/");
    if ((line->step == 0 && !line->bad) || (*text != ' ') || !end || end[2]) {
        line->step = 0;
        line->bad = false;
        return;
    }
    while (end > text && end[-1] == ' ')
        end--;
    snprintf(line->remark, sizeof line->remark, "%.*s", (int)(end - text), text);
    while (comment > line->code && comment[-1] == ' ')
        comment--;
    *comment = 0;
}

static int draw_remark(const struct term *term, struct screen *screen, int col,
                       const struct line *line)
{
    int style = line->bad ? PAINT_BAD : PAINT_DIM;
    const char *text = line->remark + strspn(line->remark, " ");
    char plain[TERM_TEXT];

    if (line->step > 0)
        col = screen_say(screen, 0, col, 2, term_step_style(term, line->bad), "%s",
                         term_step(term, line->step)) +
              1;
    term_plain(term, text, plain, sizeof plain);
    return screen_say(screen, 0, col, term->columns - col, style, "%s", plain);
}

static void begin_line(const struct term *term, struct screen *screen)
{
    term_screen(term, screen, 1);
    screen_say(screen, 0, 1, 1, PAINT_DIM, "%s", term_glyph(term, "│", "|"));
}

/* Code that is wider than the terminal goes on in the next line. */
static void print_line(const struct term *term, const struct line *line)
{
    bool remark = line->step > 0 || line->bad;
    int width = term_width(term, line->code);
    bool fits = MARGIN + width + 4 + term_width(term, line->remark) <= term->columns;
    char plain[TERM_TEXT], *at = term_plain(term, line->code, plain, sizeof plain);
    int col = MARGIN;
    struct screen screen;

    if (remark && !fits) {
        begin_line(term, &screen);
        draw_remark(term, &screen, MARGIN + line->indent, line);
        term_print(term, &screen);
    }
    do {
        size_t len;
        const char *next = term_break(at, term->columns - col, &len);

        begin_line(term, &screen);
        col = screen_say(&screen, 0, col, term->columns - col, PAINT_INK, "%.*s", (int)len, at);
        if (remark && fits)
            draw_remark(term, &screen, col + 2, line);
        term_print(term, &screen);
        at = plain + (next - plain);
        col = MARGIN + line->indent + 8;
    } while (*at);
}

void term_code(const struct term *term, const char *name)
{
    const char *at = name ? shown_code(name, term->lang) : NULL;

    while (at && *at) {
        size_t len = strcspn(at, "\n");
        struct line line = { .indent = (int)strspn(at, " ") };

        snprintf(line.code, sizeof line.code, "%.*s", (int)(len < 400 ? len : 400), at);
        part(&line);
        print_line(term, &line);
        at += len + (at[len] == '\n');
    }
}
