/* SPDX-License-Identifier: MIT */
/*
 * Lines of cells with styles: what `holdfast top` and `holdfast lab` draw on before anything is on a terminal. Pure.
 *
 * Whatever text comes in, a cell holds one printable character with its combining marks, or a part of an escape (\x1b) in
 * plain ASCII: no byte of a name or label reaches the terminal as a control sequence.
 */
#ifndef SEE_SCREEN_H
#define SEE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A style is a number up to STYLE_MASK whose meaning and colour its user knows (0: plain); beside it: */
#define STYLE_BOLD     0x20 /* heavier */
#define STYLE_SELECTED 0x40 /* on the ground of the chosen row */
#define STYLE_BAR      0x80 /* on the ground of a heading */
#define STYLE_ALARM    0xc0 /* both: on the ground of the alarm */
#define STYLE_GROUND   0xc0
#define STYLE_MASK     0x1f

#define CELL_BYTES 20 /* a character and a few combining marks */
struct cell {
    char text[CELL_BYTES]; /* "": the right half of a wide character */
    uint8_t style;
};

struct screen {
    int rows, cols;
    bool utf8; /* else ASCII only */
    struct cell *cells;
};

/*
 * Take the locale of the environment: does its terminal show UTF-8? One whose name says so but that is not installed (a small machine
 * to which somebody came by ssh, with the LANG of his own) is replaced by C.UTF-8, a part of the C library.
 */
bool screen_locale(void);

/* false: out of memory. */
bool screen_init(struct screen *screen, int rows, int cols, bool utf8);
void screen_done(struct screen *screen);
void screen_clear(struct screen *screen);

enum cut { CUT_END, CUT_MIDDLE };
/*
 * Text at a place, at most `width` columns wide; a longer one is cut with "…". Anything that is no printable text is escaped.
 * The number of columns that were used. Places outside of the screen are left out.
 */
int screen_bytes(struct screen *screen, int row, int col, int width, int style, enum cut cut,
                 const void *bytes, size_t len);
int screen_text(struct screen *screen, int row, int col, int width, int style, const char *text);
/* The same, formatted: for texts of ours. The column behind it. */
__attribute__((format(printf, 6, 7))) int screen_say(struct screen *screen, int row, int col,
                                                     int width, int style, const char *format, ...);
/* To the right of these columns. */
void screen_right(struct screen *screen, int row, int col, int width, int style, const char *text);
/* Give a part of a row a ground (STYLE_SELECTED, ...). */
void screen_ground(struct screen *screen, int row, int col, int width, int ground);
/* How many columns would it take? */
int screen_width(const struct screen *screen, const void *bytes, size_t len);
/* The text of a row, without blanks at its end; for tests and --once. */
char *screen_row(const struct screen *screen, int row, char *buf, size_t size);

#endif
