/* SPDX-License-Identifier: MIT */
/*
 * The code of a way, below its picture. Comments stand in a column of their own if there is room, else below their line. A line that is
 * marked with "!" is red where it is the mistake, and green where it protects.
 */
#include "code.h"
#include "panel.h"

#include <math.h>
#include <string.h>

#define PITCH 18.0
#define INSET 14.0
#define GLYPH 0.603 /* of the size: a letter of a fixed font */

struct block {
    struct panel *panel;
    double room, size;
    double comment; /* x of the column of comments, from the left of the code */
    bool draw, key; /* key: the statement of this line is marked */
    double y;
};

static void clean_copy(char *out, size_t room, const char *text, size_t bytes)
{
    char raw[1024];
    size_t used = 0;

    for (size_t i = 0; text && i < bytes && used + 5 < sizeof raw; i++) {
        if (text[i] == '\t') {
            memcpy(raw + used, "    ", 4);
            used += 4;
        } else {
            raw[used++] = text[i];
        }
    }
    raw[used] = 0;
    text_clean(out, room, raw);
}

static double code_width(const struct code_line *line, double size)
{
    char clean[1200];

    clean_copy(clean, sizeof clean, line->code, line->code_bytes);
    return text_width(clean, size, MONO);
}

static double comment_width(const struct code_line *line)
{
    char clean[1200];

    clean_copy(clean, sizeof clean, line->comment, line->comment_bytes);
    return text_width(clean, 11.5, REGULAR) + (line->step ? 19 : 0);
}

/* The column of comments stands behind the longest line whose comment still fits there. */
static struct block block_of(struct panel *panel, const char *code, bool draw)
{
    struct block block = { .panel = panel, .draw = draw, .size = 12 };
    double widest = 1;
    struct code_line line;

    block.room = panel->width - 2 * panel->pad - 2 * INSET;
    for (const char *at = code; code_next(&at, &line);)
        if (!line.alone)
            widest = fmax(widest, code_width(&line, block.size));
    if (widest > block.room)
        block.size = fmax(9.5, 12 * block.room / widest);
    for (const char *at = code; code_next(&at, &line);) {
        double width = code_width(&line, block.size) + 18;
        if (!line.alone && (line.comment || line.step) &&
            width + comment_width(&line) <= block.room)
            block.comment = fmax(block.comment, width);
    }
    return block;
}

/* A badge for the step, and the words; returns the y below. */
static double comment_draw(struct block *block, const struct code_line *line, double x, double y)
{
    struct pen *pen = &block->panel->pen;
    char clean[1200];
    double room = block->room - x, left = block->panel->pad + INSET + x;

    clean_copy(clean, sizeof clean, line->comment, line->comment_bytes);
    if (line->step) {
        if (block->draw)
            ink_badge(pen, left + 7, y - 4, 7, line->step,
                      line->key && block->panel->way->breaks ? RED : INK);
        left += 19;
        room -= 19;
    }
    struct font font = { 11.5, REGULAR, MUTED, false };
    for (const char *at = clean, *next; *at; at = next, y += PITCH - 2) {
        size_t bytes = text_line(at, font.size, font.weight, room, &next);
        if (block->draw)
            ink_text(pen, left, y, START, font, at, bytes);
    }
    return clean[0] ? y : y + PITCH - 2;
}

static void line_draw(struct block *block, const struct code_line *line)
{
    struct pen *pen = &block->panel->pen;
    enum colour key = block->panel->way->breaks ? RED : GREEN;
    struct font font = { block->size, MONO, block->key ? key : INK, false };
    char clean[1200];
    double left = block->panel->pad + INSET, first = block->y, end = 0;

    clean_copy(clean, sizeof clean, line->code, line->code_bytes);
    for (const char *at = clean, *next; *at; at = next) {
        double in = at > clean ? 8 * GLYPH * block->size : 0;
        size_t bytes = text_line(at, block->size, MONO, block->room - in, &next);
        size_t spaces = strspn(at, " ");
        end = in + text_width_n(at, bytes, block->size, MONO);
        if (block->draw && block->key && bytes > spaces) {
            double x = in + (double)spaces * GLYPH * block->size;
            ink_rect(pen, (struct box){ left + x - 4, block->y - 13, end - x + 8, 18, 0 }, 3,
                     key == RED ? RED_TINT : GREEN_TINT, PLAIN, NONE, 0, NULL);
        }
        if (block->draw)
            ink_text(pen, left + in, block->y, START, font, at, bytes);
        block->y += PITCH;
    }
    if (line->code_bytes == 0)
        block->y += PITCH / 2;
    if (!line->comment_bytes && !line->step)
        return;
    double column = fmax(block->comment, end + 18);
    if (column + comment_width(line) <= block->room)
        comment_draw(block, line, column, block->y - PITCH);
    else if (end + 18 + comment_width(line) <= block->room)
        comment_draw(block, line, end + 18, block->y - PITCH);
    else
        block->y = comment_draw(block, line, 28, block->y) + 2;
    block->y = fmax(block->y, first + PITCH);
}

static void alone_draw(struct block *block, const struct code_line *line)
{
    double indent = (double)strspn(line->code, " ") * GLYPH * block->size;

    block->y = comment_draw(block, line, indent, block->y) + 2;
}

/* Lay it out from y; draw only if asked. Returns the y below. */
static double code_flow(struct panel *panel, double y, bool draw)
{
    const char *code = panel->way->shown ? shown_code(panel->way->shown, panel->pen.lang) : NULL;
    struct code_line line;

    if (!code)
        return y;
    struct block block = block_of(panel, code, draw);
    block.y = y + 20;
    for (const char *at = code; code_next(&at, &line);) {
        if (draw)
            fputs("<g>", panel->pen.out);
        block.key = code_key(&line, at);
        if (line.alone)
            alone_draw(&block, &line);
        else
            line_draw(&block, &line);
        if (draw)
            fputs("</g>\n", panel->pen.out);
    }
    return block.y - 4;
}

double code_height(const struct panel *panel)
{
    struct panel *same = (struct panel *)panel; /* nothing is drawn */

    return code_flow(same, 0, false);
}

void code_draw(struct panel *panel, double y, double height)
{
    if (height <= 0 || code_height(panel) <= 0)
        return;
    ink_rect(&panel->pen, (struct box){ panel->pad, y, panel->width - 2 * panel->pad, height, 0 },
             8, CODE_GROUND, PLAIN, BORDER, 1, NULL);
    code_flow(panel, y, true);
}
