/* SPDX-License-Identifier: MIT */
/* Text for people in lines that are not longer than a terminal, broken between words. */
#ifndef CLI_WRAP_H
#define CLI_WRAP_H

#include <stdbool.h>
#include <stdio.h>

/* The columns of standard output; 0: it is no terminal. */
int wrap_columns(void);
/* The words of `text`, from column `from` on, where lines after the first begin too; columns 0: one line. */
void wrap_words(FILE *to, const char *text, int from, int columns);
/* A help text: paragraphs are filled, tables of two columns keep their columns. */
void wrap_help(FILE *to, const char *text, int columns);

#endif
