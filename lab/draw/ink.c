/* SPDX-License-Identifier: MIT */
#include "ink.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

struct num num(double value)
{
    struct num text;
    double limited = value > 1e8 ? 1e8 : value < -1e8 ? -1e8 : value == value ? value : 0;
    long tenths = lround(limited * 10);
    unsigned size = (unsigned)(tenths < 0 ? -tenths : tenths);

    int length = snprintf(text.s, sizeof text.s, "%s%u", tenths < 0 ? "-" : "", size / 10);
    if (size % 10) {
        text.s[length] = '.';
        text.s[length + 1] = (char)('0' + size % 10);
        text.s[length + 2] = 0;
    }
    return text;
}

enum colour client_colour(int client)
{
    return client < 0 ? INK : (enum colour)(CLIENT_A + client % 4);
}

enum pattern client_pattern(int client)
{
    static const enum pattern patterns[] = { PLAIN, HATCHED, DOTTED, CROSSED };

    return client < 0 ? PLAIN : patterns[client % 4];
}

/* A pattern has a colour only if clients have it; see ink_patterns(). */
static void fill(struct pen *pen, enum colour colour, enum pattern how)
{
    static const char *const names[] = { "", "waves", "hatch", "dots", "cross", "barrier", "dead" };

    if (how == PLAIN && colour == NONE)
        fputs(" fill=\"none\"", pen->out);
    else if (how == PLAIN)
        fprintf(pen->out, " class=\"f-%s", ink_name(colour));
    else
        fprintf(pen->out, " fill=\"url(#p-%s)\"", names[how]);
}

/* After fill(): the class attribute may be open. */
static void stroke(struct pen *pen, bool open, enum colour colour, double width, const char *dash)
{
    if (colour == NONE || width <= 0) {
        fputs(open ? "\"" : "", pen->out);
        return;
    }
    fprintf(pen->out, open ? " s-%s\"" : " class=\"s-%s\"", ink_name(colour));
    fprintf(pen->out, " stroke-width=\"%s\"", N(width));
    if (dash)
        fprintf(pen->out, " stroke-dasharray=\"%s\"", dash);
}

void ink_rect(struct pen *pen, struct box box, double radius, enum colour colour, enum pattern how,
              enum colour line, double width, const char *dash)
{
    fprintf(pen->out, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"", N(box.x), N(box.y),
            N(box.w > 0 ? box.w : 0), N(box.h > 0 ? box.h : 0));
    if (radius > 0)
        fprintf(pen->out, " rx=\"%s\"", N(radius));
    fill(pen, colour, how);
    stroke(pen, how == PLAIN && colour != NONE, line, width, dash);
    fputs("/>\n", pen->out);
}

void ink_line(struct pen *pen, double x1, double y1, double x2, double y2, enum colour colour,
              double width, const char *dash)
{
    fprintf(pen->out, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\"", N(x1), N(y1), N(x2), N(y2));
    stroke(pen, false, colour, width, dash);
    fputs("/>\n", pen->out);
}

void ink_polygon(struct pen *pen, const char *points, enum colour colour, enum colour line,
                 double width)
{
    fprintf(pen->out, "<polygon points=\"%s\"", points);
    fill(pen, colour, PLAIN);
    stroke(pen, colour != NONE, line, width, NULL);
    fputs("/>\n", pen->out);
}

void ink_text(struct pen *pen, double x, double y, enum anchor anchor, struct font font,
              const char *text, size_t bytes)
{
    static const char *const anchors[] = { "", " text-anchor=\"middle\"", " text-anchor=\"end\"" };
    static const char *const weights[] = { "", " w6", " w7", " mono" };

    if (!bytes)
        return;
    fprintf(pen->out, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" class=\"f-%s%s%s\"%s", N(x), N(y),
            N(font.size), ink_name(font.colour), weights[font.weight], font.halo ? " halo" : "",
            anchors[anchor]);
    fputs(font.weight == MONO ? " xml:space=\"preserve\">" : ">", pen->out);
    text_escape(pen->out, text, bytes);
    fputs("</text>\n", pen->out);
}

double ink_say(struct pen *pen, double x, double y, enum anchor anchor, struct font font,
               const char *text)
{
    char clean[CLEAN_ROOM];

    text_clean(clean, sizeof clean, text);
    ink_text(pen, x, y, anchor, font, clean, strlen(clean));
    return text_width(clean, font.size, font.weight);
}

double ink_wrap_most(struct pen *pen, double x, double y, double room, double pitch,
                     struct font font, const char *text, size_t most)
{
    char clean[CLEAN_ROOM];

    for (const char *at = text_clean(clean, sizeof clean, text), *next; *at && most; at = next) {
        size_t bytes = text_line(at, font.size, font.weight, room, &next);
        ink_text(pen, x, y, START, font, at, bytes);
        y += pitch;
        most--;
    }
    return y;
}

double ink_wrap(struct pen *pen, double x, double y, double room, double pitch, struct font font,
                const char *text)
{
    return ink_wrap_most(pen, x, y, room, pitch, font, text, SIZE_MAX);
}

void ink_badge(struct pen *pen, double x, double y, double radius, int number, enum colour colour)
{
    char text[12];

    snprintf(text, sizeof text, "%d", number);
    fprintf(pen->out,
            "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" class=\"f-%s s-panel\" stroke-width=\"2\"/>",
            N(x), N(y), N(radius), ink_name(colour));
    ink_text(pen, x, y + radius * 0.46, MIDDLE,
             (struct font){ radius * 1.25, BOLD, colour == INK ? PANEL : ON, false }, text,
             strlen(text));
}

static void strokes(struct pen *pen, const char *path, enum colour colour, double width)
{
    fprintf(pen->out,
            "<path d=\"%s\" fill=\"none\" class=\"s-%s\" stroke-width=\"%s\" "
            "stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
            path, ink_name(colour), N(width));
}

void ink_tick(struct pen *pen, double x, double y, double size, enum colour colour)
{
    char path[160];

    snprintf(path, sizeof path, "M%s %sL%s %sL%s %s", N(x - size), N(y), N(x - size * 0.3),
             N(y + size * 0.7), N(x + size), N(y - size * 0.7));
    strokes(pen, path, colour, size / 2.3);
}

void ink_cross(struct pen *pen, double x, double y, double size, enum colour colour)
{
    char path[160];
    double s = size * 0.8;

    snprintf(path, sizeof path, "M%s %sL%s %sM%s %sL%s %s", N(x - s), N(y - s), N(x + s), N(y + s),
             N(x - s), N(y + s), N(x + s), N(y - s));
    strokes(pen, path, colour, size / 2.3);
}
