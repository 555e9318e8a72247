/* SPDX-License-Identifier: MIT */
/* A screen on a terminal, by ncurses, which sends only what differs. */
#ifndef TOP_CURSES_H
#define TOP_CURSES_H

#include "screen/screen.h"
#include "style.h"

/* Take the terminal. `color`: if the terminal has any. false, after a message: it cannot be used. */
bool curses_begin(bool color);
/* Give it back as it was. May be called twice. */
void curses_end(void);
void curses_size(int *ret_rows, int *ret_cols);
void curses_show(const struct screen *screen);
void curses_other_theme(void);
/* The next key: a character or enum ui_key; -1: none. */
int curses_key(void);
/* The terminal was resized: take its new size. */
void curses_resize(void);

#endif
