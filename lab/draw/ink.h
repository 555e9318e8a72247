/* SPDX-License-Identifier: MIT */
/*
 * The pen of the SVG and HTML pictures: colours by name, and the few shapes that they are made of.
 *
 * A colour is a class ("f-ink" fills, "s-ink" strokes); the style sheet gives it its value, for light and for dark grounds. So the same
 * shapes serve a file of their own and a page with a switch. A colour never stands alone: each has a pattern, a mark or a word with it.
 */
#ifndef LAB_INK_H
#define LAB_INK_H

#include "../phrase.h"
#include "boxes.h"
#include "text.h"

#include <stdbool.h>
#include <stdio.h>

enum colour {
    NONE,
    INK,
    MUTED,
    PANEL,
    GROUND,
    BORDER,
    GRID,
    CLIENT_A, /* A to D are together, in this order */
    CLIENT_B,
    CLIENT_C,
    CLIENT_D,
    RED,
    GREEN,
    AMBER,
    ON, /* text on a full bar */
    RED_TINT,
    GREEN_TINT,
    GREY_TINT,
    BAD_GROUND,
    OK_GROUND,
    CODE_GROUND,
    BLUE_TINT,
    COLOURS
};

enum pattern { PLAIN, WAVES, HATCHED, DOTTED, CROSSED, BARRIER, DEAD };

struct pen {
    FILE *out;
    enum lang lang;
    struct boxes *boxes; /* of the panel that is drawn; NULL: nobody asks */
};

/* A number as SVG has it, whatever the locale: num(x).s, tenths at most. */
struct num {
    char s[16];
};
struct num num(double value);
#define N(value) (num(value).s)

/* Colours and fonts: for a file of its own (both grounds by prefers-color-scheme), or as variables of a page. */
void ink_style_svg(FILE *out);
void ink_style_html(FILE *out);
/* <defs> with the patterns; once in a document. */
void ink_patterns(FILE *out);
const char *ink_name(enum colour colour);

enum colour client_colour(int client); /* -1: INK */
enum pattern client_pattern(int client);

void ink_rect(struct pen *pen, struct box box, double radius, enum colour fill, enum pattern how,
              enum colour line, double width, const char *dash);
void ink_line(struct pen *pen, double x1, double y1, double x2, double y2, enum colour colour,
              double width, const char *dash);
/* Closed; `points` as in SVG. */
void ink_polygon(struct pen *pen, const char *points, enum colour fill, enum colour line,
                 double width);

enum anchor { START, MIDDLE, END };

struct font {
    double size;
    enum weight weight;
    enum colour colour;
    bool halo; /* the ground of the panel around the letters: it may cross lines */
};

/* `y` is the base line. `text` is clean. */
void ink_text(struct pen *pen, double x, double y, enum anchor anchor, struct font font,
              const char *text, size_t bytes);
/* The same of any text, cleaned here. Returns its width. */
double ink_say(struct pen *pen, double x, double y, enum anchor anchor, struct font font,
               const char *text);
/* In lines of at most `room`; returns the base line of the line that would come next. */
double ink_wrap(struct pen *pen, double x, double y, double room, double pitch, struct font font,
                const char *text);

/* No more than `most` lines; the rest is left out. */
double ink_wrap_most(struct pen *pen, double x, double y, double room, double pitch,
                     struct font font, const char *text, size_t most);

/* A white number in a black (or red) circle. */
void ink_badge(struct pen *pen, double x, double y, double radius, int number, enum colour fill);
void ink_tick(struct pen *pen, double x, double y, double size, enum colour colour);
void ink_cross(struct pen *pen, double x, double y, double size, enum colour colour);

#endif
