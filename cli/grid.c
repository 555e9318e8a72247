/* SPDX-License-Identifier: MIT */
/* Tables for people: see grid.h. */
#include "grid.h"

#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define GAP 2 /* between columns */

static void add_row(struct grid *grid, va_list list)
{
    if (grid->rows == grid->room) {
        grid->room = grid->room ? 2 * grid->room : 16;
        grid->cells = realloc(grid->cells, grid->room * grid->columns * sizeof *grid->cells);
        if (!grid->cells) {
            say_error("out of memory");
            exit(EXIT_INTERNAL);
        }
    }
    for (size_t i = 0; i < grid->columns; i++)
        grid->cells[grid->rows * grid->columns + i] = must_strdup(va_arg(list, const char *));
    grid->rows++;
}

void grid_begin(struct grid *grid, ...)
{
    va_list list, count;

    *grid = (struct grid){ 0 };
    va_start(list, grid);
    va_copy(count, list);
    while (va_arg(count, const char *))
        grid->columns++;
    va_end(count);
    add_row(grid, list);
    va_end(list);
}

void grid_row(struct grid *grid, ...)
{
    va_list list;

    va_start(list, grid);
    add_row(grid, list);
    va_end(list);
}

/* Our texts are UTF-8 whatever the locale says; C.UTF-8 is part of the C library. */
size_t width_of(const char *text)
{
    static int ready;
    size_t width = 0;
    mbstate_t state = { 0 };

    if (!ready)
        ready = setlocale(LC_CTYPE, "C.UTF-8") ? 1 : -1;

    while (*text) {
        wchar_t c;
        size_t len = mbrtowc(&c, text, MB_CUR_MAX, &state);
        int columns;

        if (len == (size_t)-1 || len == (size_t)-2)
            return width + strlen(text);
        columns = wcwidth(c);
        width += columns > 0 ? (size_t)columns : 0;
        text += len;
    }
    return width;
}

/* Cut `text` to `columns`, with "..." at its end. */
static void cut(char *text, size_t columns)
{
    size_t len = strlen(text);

    if (columns < 4 || width_of(text) <= columns)
        return;
    while (len > 0 && width_of(text) > columns - 3) {
        do
            len--;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80);
        text[len] = 0;
    }
    if (len > 0)
        strcat(text, "..."); /* at least three bytes were cut off */
}

static void print_row(const struct grid *grid, size_t row, const size_t *widths)
{
    for (size_t i = 0; i < grid->columns; i++) {
        const char *cell = grid->cells[row * grid->columns + i];
        size_t pad = widths[i] - width_of(cell) + GAP;

        fputs(cell, stdout);
        if (i + 1 < grid->columns)
            printf("%*s", (int)pad, "");
    }
}

void grid_end(struct grid *grid, const struct cli *cli)
{
    size_t widths[GRID_COLUMNS_MAX] = { 0 };
    size_t before = 0;
    struct winsize size = { 0 };
    bool tty = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

    for (size_t row = 0; row < grid->rows; row++)
        for (size_t i = 0; i < grid->columns; i++) {
            size_t width = width_of(grid->cells[row * grid->columns + i]);

            if (width > widths[i])
                widths[i] = width;
        }
    for (size_t i = 0; i + 1 < grid->columns; i++)
        before += widths[i] + GAP;

    for (size_t row = 0; row < grid->rows; row++) {
        if (tty && size.ws_col > before)
            cut(grid->cells[row * grid->columns + grid->columns - 1], size.ws_col - before);
        if (row == 0)
            fputs(tone(cli, TONE_HEAD), stdout);
        print_row(grid, row, widths);
        printf("%s\n", row == 0 ? tone(cli, TONE_OFF) : "");
    }

    grid_drop(grid);
}

void grid_drop(struct grid *grid)
{
    for (size_t i = 0; i < grid->rows * grid->columns; i++)
        free(grid->cells[i]);
    free(grid->cells);
    *grid = (struct grid){ .cells = NULL };
}
