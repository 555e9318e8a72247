/* SPDX-License-Identifier: MIT */
/* Text in pictures: made harmless, measured and broken into lines without a font at hand. Pure. */
#ifndef LAB_TEXT_H
#define LAB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum weight { REGULAR, SEMI, BOLD, MONO };

#define CLEAN_ROOM 4096

/* Copy `in` as UTF-8 that a reader can see: a control character becomes \x1b, a byte that is no text \xff, a character that turns the
 * direction of writing \u202e. Newlines stay. What does not fit ends with an ellipsis. Returns `out`. */
char *text_clean(char *out, size_t room, const char *in);

/* Width of a clean text in the unit of `size`. An estimate for the fonts of the style sheet, rather too wide than too narrow. */
double text_width(const char *text, double size, enum weight weight);
double text_width_n(const char *text, size_t bytes, double size, enum weight weight);

/* The longest begin of a clean text that fits on a line of `room` and may end there; never empty while there is text. Sets *ret_next to
 * the begin of the next line (spaces and a newline between them are skipped). Returns its bytes. */
size_t text_line(const char *text, double size, enum weight weight, double room,
                 const char **ret_next);
/* How many lines that makes. */
size_t text_lines(const char *text, double size, enum weight weight, double room);

/* A clean text as content or attribute of XML and HTML. */
void text_escape(FILE *out, const char *text, size_t bytes);

#endif
