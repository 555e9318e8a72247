/* SPDX-License-Identifier: MIT */
/* The styles of `holdfast top`: a state or a role each; curses.c has their colours. */
#ifndef TOP_STYLE_H
#define TOP_STYLE_H

enum style {
    STYLE_INK,
    STYLE_DIM,
    STYLE_HELD,
    STYLE_WANTED,
    STYLE_RISK,
    STYLE_LOST, /* inverted */
    STYLE_DEADLOCK,
    STYLE_P99,
    STYLE_GOOD,
    STYLE_COUNT
};

#endif
