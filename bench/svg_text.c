/* SPDX-License-Identifier: MIT */
/* Text in an SVG; see out.h. */
#include "out.h"

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        default:
            fputc(*text, file);
        }
}

void svg_text(FILE *file, double x, double y, const char *class, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    put_text(file, text);
    fputs("</text>\n", file);
}
