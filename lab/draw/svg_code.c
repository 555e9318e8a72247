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
    size_t widest;  /* line, in columns */
    bool column;    /* comments beside the code */
    double comment; /* x of it */
    bool draw;
    double y;
};

static void clean_copy(char *out, size_t room, const char *text, size_t bytes)
{
    char raw[1024];
    size_t used = 0;

    for (size_t i = 0; i < bytes && used + 5 < sizeof raw; i++) {
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

static double columns(const char *text, size_t bytes)
{
    char clean[1200];

    clean_copy(clean, sizeof clean, text, bytes);
    return text_width(clean, 1, MONO) / GLYPH;
}

static struct block block_of(struct panel *panel, const char *code, bool draw)
{
    struct block block = { .panel = panel, .draw = draw };
    double widest = 1, comment = 0, both = 0;
    struct code_line line;

    for (const char *at = code; code_next(&at, &line);) {
        if (!line.alone)
            widest = fmax(widest, columns(line.code, line.code_bytes));
        if (!line.alone && (line.comment_bytes || line.step))
            comment = fmax(comment, columns(line.comment, line.comment_bytes) + 4);
        both = widest + comment + 2;
    }
    block.room = panel->width - 2 * panel->pad - 2 * INSET;
    double fits = block.room / (12 * GLYPH);
    block.size = widest <= fits ? 12 : fmax(9.5, 12 * fits / widest);
    block.column = both <= fits;
    block.comment = (widest + 3) * GLYPH * 12;
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
    return y;
}

static void line_draw(struct block *block, const struct code_line *line)
{
    struct pen *pen = &block->panel->pen;
    enum colour key = block->panel->way->breaks ? RED : GREEN;
    struct font font = { block->size, MONO, line->key ? key : INK, false };
    char clean[1200];
    double left = block->panel->pad + INSET, first = block->y;
    bool indent = false;

    clean_copy(clean, sizeof clean, line->code, line->code_bytes);
    for (const char *at = clean, *next; *at; at = next) {
        double in = indent ? 8 * GLYPH * block->size : 0;
        size_t bytes = text_line(at, block->size, MONO, block->room - in, &next);
        size_t spaces = strspn(at, " ");
        if (block->draw && line->key && bytes > spaces) {
            double width = text_width_n(at + spaces, bytes - spaces, block->size, MONO);
            double x = left + in + (double)spaces * GLYPH * block->size;
            ink_rect(pen, (struct box){ x - 4, block->y - 13, width + 8, 18, 0 }, 3,
                     key == RED ? RED_TINT : GREEN_TINT, PLAIN, NONE, 0, NULL);
        }
        if (block->draw)
            ink_text(pen, left + in, block->y, START, font, at, bytes);
        block->y += PITCH;
        indent = true;
    }
    if (line->code_bytes == 0)
        block->y += PITCH / 2;
    if (!line->comment_bytes && !line->step)
        return;
    if (block->column)
        block->y = fmax(block->y, comment_draw(block, line, block->comment, first) + 2);
    else
        block->y = comment_draw(block, line, (double)strspn(clean, " ") * GLYPH * block->size + 14,
                                block->y) + 2;
}

static void alone_draw(struct block *block, const struct code_line *line)
{
    double indent = (double)strspn(line->code, " ") * GLYPH * block->size;

    block->y = comment_draw(block, line, indent, block->y) + 2;
}

/* Lay it out from y; draw only if asked. Returns the y below. */
static double code_flow(struct panel *panel, double y, bool draw)
{
    const char *code = panel->way->shown ? shown_code(panel->way->shown) : NULL;
    struct code_line line;

    if (!code)
        return y;
    struct block block = block_of(panel, code, draw);
    block.y = y + 20;
    for (const char *at = code; code_next(&at, &line);) {
        if (draw)
            fprintf(panel->pen.out, "<g class=\"%s c%d\">", line.step ? "s" : "", line.step);
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
    if (height <= 0)
        return;
    ink_rect(&panel->pen, (struct box){ panel->pad, y, panel->width - 2 * panel->pad, height, 0 },
             8, CODE_GROUND, PLAIN, BORDER, 1, NULL);
    code_flow(panel, y, true);
}
