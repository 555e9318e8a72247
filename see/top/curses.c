/* SPDX-License-Identifier: MIT */
/* The one file that knows ncurses. Colours are the palette of the live page, as near as 256 colours come. */
#include "curses.h"

#include "ui.h"

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#define DEFAULT (-1)

struct palette {
    short styles[STYLE_COUNT];
    short selected, bar, alarm, paper;
};

static const struct palette dark = { .styles = { [STYLE_INK] = DEFAULT,
                                                 [STYLE_DIM] = 246,
                                                 [STYLE_HELD] = 111,
                                                 [STYLE_WANTED] = 171,
                                                 [STYLE_RISK] = 221,
                                                 [STYLE_LOST] = DEFAULT,
                                                 [STYLE_DEADLOCK] = 203,
                                                 [STYLE_P99] = 215,
                                                 [STYLE_GOOD] = 78 },
                                     .selected = 17,
                                     .bar = 237,
                                     .alarm = 52 };
static const struct palette light = { .styles = { [STYLE_INK] = DEFAULT,
                                                  [STYLE_DIM] = 241,
                                                  [STYLE_HELD] = 26,
                                                  [STYLE_WANTED] = 54,
                                                  [STYLE_RISK] = 94,
                                                  [STYLE_LOST] = DEFAULT,
                                                  [STYLE_DEADLOCK] = 124,
                                                  [STYLE_P99] = 130,
                                                  [STYLE_GOOD] = 22 },
                                      .selected = 153,
                                      .bar = 253,
                                      .alarm = 224 };
/* Eight colours: grounds are inverted or none. */
static const struct palette few = { .styles = { [STYLE_INK] = DEFAULT,
                                                [STYLE_DIM] = DEFAULT,
                                                [STYLE_HELD] = COLOR_BLUE,
                                                [STYLE_WANTED] = COLOR_MAGENTA,
                                                [STYLE_RISK] = COLOR_YELLOW,
                                                [STYLE_LOST] = DEFAULT,
                                                [STYLE_DEADLOCK] = COLOR_RED,
                                                [STYLE_P99] = COLOR_YELLOW,
                                                [STYLE_GOOD] = COLOR_GREEN },
                                    .selected = DEFAULT,
                                    .bar = DEFAULT,
                                    .alarm = DEFAULT };

static bool begun, colored, is_light;

static short pair_of(int style, int ground)
{
    return (short)(1 + (ground >> 6) * STYLE_COUNT + style);
}

static void make_pairs(void)
{
    const struct palette *palette = COLORS < 256 ? &few : is_light ? &light : &dark;
    const short grounds[] = { DEFAULT, palette->selected, palette->bar, palette->alarm };

    if (!colored)
        return;
    for (int ground = 0; ground < 4; ground++)
        for (int style = 0; style < STYLE_COUNT; style++)
            init_pair(pair_of(style, ground << 6), palette->styles[style], grounds[ground]);
}

/* COLORFGBG, where a terminal says so: "15;0" is light on dark. */
static bool ground_is_light(void)
{
    const char *says = getenv("COLORFGBG");
    const char *ground = says ? strrchr(says, ';') : NULL;

    return ground && (strcmp(ground, ";7") == 0 || strcmp(ground, ";15") == 0);
}

/* Is it known, and can its cursor be moved? newterm(3) takes a "dumb" one, and all lines end up in one. */
static bool can_draw(void)
{
    int error;
    const char *move = setupterm(NULL, STDOUT_FILENO, &error) == OK ? tigetstr("cup") : NULL;

    return move && (intptr_t)move != -1;
}

bool curses_begin(bool color)
{
    const char *term = getenv("TERM");

    if (!can_draw() || !newterm(NULL, stdout, stdin)) {
        fprintf(stderr, "holdfast: this terminal cannot be used (TERM=%s); --once needs none\n",
                term ? term : "");
        return false;
    }
    begun = true;
    set_escdelay(50);
    raw(); /* Ctrl-C is a key, so that the terminal is given back in order */
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    colored = color && has_colors();
    is_light = ground_is_light();
    if (colored) {
        start_color();
        use_default_colors();
        make_pairs();
    }
    return true;
}

void curses_end(void)
{
    if (begun)
        endwin();
    begun = false;
}

void curses_size(int *ret_rows, int *ret_cols)
{
    getmaxyx(stdscr, *ret_rows, *ret_cols);
}

void curses_resize(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
    clearok(curscr, TRUE);
}

void curses_other_theme(void)
{
    is_light = !is_light;
    make_pairs();
    clearok(curscr, TRUE);
}

static attr_t attributes_of(uint8_t style)
{
    int kind = style & STYLE_MASK, ground = style & STYLE_GROUND;
    attr_t attributes = style & STYLE_BOLD ? A_BOLD : 0;

    if (kind == STYLE_LOST)
        attributes |= A_REVERSE;
    if (!colored || COLORS < 256) {
        if (kind == STYLE_DIM)
            attributes |= A_DIM;
        if (ground)
            attributes |= A_REVERSE;
        if (ground && kind == STYLE_DIM)
            attributes &= ~(attr_t)A_DIM;
    }
    return attributes;
}

void curses_show(const struct screen *screen)
{
    int rows, cols;

    curses_size(&rows, &cols);
    erase();
    for (int row = 0; row < screen->rows && row < rows; row++)
        for (int col = 0; col < screen->cols && col < cols; col++) {
            const struct cell *cell = &screen->cells[row * screen->cols + col];

            if (!cell->text[0])
                continue;
            attr_set(attributes_of(cell->style),
                     colored ? pair_of(cell->style & STYLE_MASK, cell->style & STYLE_GROUND) : 0,
                     NULL);
            mvaddstr(row, col, cell->text); /* ERR in the last cell: the cursor cannot go on */
        }
    attr_set(A_NORMAL, 0, NULL);
    refresh();
}

int curses_key(void)
{
    wint_t key;

    switch (get_wch(&key)) {
    case ERR:
        return -1;
    case KEY_CODE_YES:
        switch (key) {
        case KEY_UP:
            return UI_UP;
        case KEY_DOWN:
            return UI_DOWN;
        case KEY_PPAGE:
            return UI_PAGE_UP;
        case KEY_NPAGE:
            return UI_PAGE_DOWN;
        case KEY_HOME:
            return UI_HOME;
        case KEY_END:
            return UI_END;
        case KEY_BACKSPACE:
        case KEY_DC:
            return UI_BACKSPACE;
        case KEY_ENTER:
            return UI_ENTER;
        default:
            return 0;
        }
    default:
        return key == 27                    ? UI_ESCAPE
               : key == '\r' || key == '\n' ? UI_ENTER
               : key == '\t'                ? UI_TAB
               : key == 8 || key == 127     ? UI_BACKSPACE
                                            : (int)key;
    }
}
