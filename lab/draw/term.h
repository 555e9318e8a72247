/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the terminal's picture share. Everything is drawn on cells (see/screen), which are then printed with colours or
 * without. No meaning is in a colour alone: clients differ by pattern, verdicts by mark and word.
 */
#ifndef LAB_TERM_H
#define LAB_TERM_H

#include "../lab.h"
#include "screen/screen.h"

#define TERM_COLUMNS_MIN 80
#define TERM_COLUMNS_MAX 120 /* beyond that, lines become hard to read */
#define TERM_TEXT        1024

/* Styles of cells; colours are in term_text.c. */
enum paint {
    PAINT_INK,
    PAINT_DIM,
    PAINT_PAUSE, /* also what expires */
    PAINT_BAD,
    PAINT_GOOD,
    PAINT_CLIENT, /* of client 0; five more follow */
    PAINT_COUNT = PAINT_CLIENT + 6
};
#define GROUND_HEAD   STYLE_BAR      /* a heading */
#define GROUND_INVERT STYLE_SELECTED /* a verdict */

struct term {
    FILE *out;
    const struct look *look;
    int columns;
    enum lang lang; /* English without UTF-8: nothing else can be shown */
};

/* ---- term_text.c ------------------------------------------------------------------------------ */

/* `text` fit for a terminal: control characters are "?", and without UTF-8 all that is not ASCII is spelled in it. Returns buf. */
char *term_plain(const struct term *term, const char *text, char *buf, size_t size);
int term_width(const struct term *term, const char *text);
/* Cut a label that has no room: "A, token 33" becomes "A". false: it has no such part. */
bool term_shorten(char *label);
/* One of two forms of a character. */
const char *term_glyph(const struct term *term, const char *utf8, const char *ascii);
/* The number of a step, from 1 to 9, and its style. In colours it is a digit on a ground: many fonts have no circled ones of one column. */
const char *term_step(const struct term *term, int step);
int term_step_style(const struct term *term, bool bad);
enum paint term_client(int client);

/* Cells of the terminal's width. Out of memory ends the program. */
void term_screen(const struct term *term, struct screen *screen, int rows);
/* Print rows, and free the cells. */
void term_print(const struct term *term, struct screen *screen);
/* Put a text of ours, made plain. The column behind it. */
int term_put(const struct term *term, struct screen *screen, int row, int col, int style,
             const char *text);

/* The part of `text` that fits into `width` columns, broken where a reader expects it; *ret_len is its length without blanks at its
 * end. Returns where the next line begins. */
const char *term_break(const char *text, int width, size_t *ret_len);
/* A paragraph: the first line begins with `mark` in `mark_style`, all of them `indent` columns to the right. */
void term_paragraph(const struct term *term, const char *mark, int mark_style, int indent,
                    int style, const char *text);

/* ---- pictures ---------------------------------------------------------------------------------- */

/* `end_ms`: of the axis, at least the scene's: ways that are compared have the same one. */
void term_scene(const struct term *term, const struct scene *scene, double end_ms);
/* The code of that name, if there is one. */
void term_code(const struct term *term, const char *name);
void term_plot(const struct term *term, const struct plot *plot);

#endif
