/* SPDX-License-Identifier: MIT */
/*
 * Widths are those of Inter, in thousandths of the size: other fonts of a system (Helvetica, Segoe UI, Roboto) are as wide or narrower.
 * A Chinese character is as wide as the size.
 */
#include "text.h"

#include <stdint.h>
#include <string.h>

/* From ' ' to '~', regular. */
static const unsigned short widths[] = {
    281, 278, 403, 631, 638, 812, 639, 222, 362, 362, 500, 659, 280, 460, 276, 357, 625, 464, 605,
    636, 642, 608, 624, 571, 616, 624, 276, 280, 659, 659, 659, 507, 936, 676, 651, 727, 719, 598,
    587, 743, 740, 264, 543, 652, 562, 889, 753, 761, 635, 761, 639, 638, 642, 741, 676, 949, 642,
    665, 625, 362, 357, 362, 469, 452, 497, 564, 621, 558, 621, 582, 361, 609, 591, 237, 237, 544,
    237, 869, 585, 597, 609, 609, 372, 523, 364, 581, 557, 812, 540, 557, 541, 362, 327, 362, 659
};

#define BAD UINT32_MAX

/* The character at `text`; *ret_bytes: its length. BAD: a byte that begins none. */
static uint32_t character(const char *text, size_t *ret_bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint32_t c = length < 2 ? s[0] : s[0] & (0x7fU >> length);

    *ret_bytes = 1;
    if (length == 0 || s[0] > 0xf4)
        return BAD;
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return BAD;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (c < least[length] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return BAD;
    *ret_bytes = length;
    return c;
}

/* Not to be seen, or not allowed in XML. */
static bool invisible(uint32_t c)
{
    return (c < 0x20 && c != '\n') || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c & 0xfffe) == 0xfffe;
}

char *text_clean(char *out, size_t room, const char *in)
{
    size_t used = 0;

    while (*in) {
        size_t bytes;
        uint32_t c = character(in, &bytes);
        char shown[16];
        if (c == BAD)
            snprintf(shown, sizeof shown, "\\x%02x", (unsigned)(unsigned char)*in);
        else if (invisible(c))
            snprintf(shown, sizeof shown, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        else
            snprintf(shown, sizeof shown, "%.*s", (int)bytes, in);
        size_t length = strlen(shown);
        if (used + length + 4 > room) { /* an ellipsis has 3 bytes */
            memcpy(out + used, "\xe2\x80\xa6", 3);
            used += 3;
            break;
        }
        memcpy(out + used, shown, length);
        used += length;
        in += bytes;
    }
    out[used] = 0;
    return out;
}

/* Characters that take a square in Chinese text. */
static bool wide(uint32_t c)
{
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) ||
           (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) || c >= 0x1f300;
}

static double advance(uint32_t c, enum weight weight)
{
    static const double factor[] = { 1.0, 1.04, 1.06, 1.0 };

    if (wide(c))
        return 1.0;
    if (weight == MONO)
        return 0.603;
    if (c >= ' ' && c <= '~')
        return widths[c - ' '] / 1000.0 * factor[weight];
    return (c == 0xb7 || c == 0x2019     ? 0.29
            : c == 0x2026 || c >= 0x2190 ? 1.0
                                         : 0.7) *
           factor[weight];
}

double text_width_n(const char *text, size_t bytes, double size, enum weight weight)
{
    double width = 0;

    for (size_t at = 0; at < bytes && text[at];) {
        size_t length;
        uint32_t c = character(text + at, &length);
        width += advance(c, weight);
        at += length;
    }
    return width * size;
}

double text_width(const char *text, double size, enum weight weight)
{
    return text_width_n(text, strlen(text), size, weight);
}

/* Closing punctuation does not begin a line, opening does not end one. */
static bool closes(uint32_t c)
{
    static const uint32_t set[] = { 0xff0c, 0x3002, 0xff1a, 0xff1b, 0xff01, 0xff1f, 0xff09,
                                    0x3001, 0x201d, 0x2019, 0x300b, 0x300d, 0x2026 };

    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++)
        if (set[i] == c)
            return true;
    return c < 0x80 && c && strchr(",.:;!?)]", (int)c) != NULL;
}

static bool opens(uint32_t c)
{
    return c == 0xff08 || c == 0x201c || c == 0x300a || c == 0x300c || c == '(' || c == '[';
}

size_t text_line(const char *text, double size, enum weight weight, double room,
                 const char **ret_next)
{
    size_t at = 0, fits = 0; /* fits: the last place where the line may end */
    double width = 0;
    uint32_t before = 0;

    while (text[at] && text[at] != '\n') {
        size_t bytes;
        uint32_t c = character(text + at, &bytes);
        bool between = at && (c == ' ' || ((wide(c) || wide(before)) && before != ' ' &&
                                           !closes(c) && !opens(before)));
        if (between)
            fits = at;
        width += advance(c, weight) * size;
        if (width > room && at && c != ' ')
            break;
        before = c;
        at += bytes;
    }
    if (!text[at] || text[at] == '\n' || !fits)
        fits = at; /* all of it, or a word that is longer than a line */
    const char *next = text + fits;
    while (*next == ' ')
        next++;
    if (*next == '\n')
        next++;
    *ret_next = next;
    while (fits > 1 && text[fits - 1] == ' ')
        fits--;
    return fits;
}

size_t text_lines(const char *text, double size, enum weight weight, double room)
{
    size_t lines = 0;

    for (; *text; lines++)
        text_line(text, size, weight, room, &text);
    return lines;
}

void text_escape(FILE *out, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && text[i]; i++) {
        switch (text[i]) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            putc(text[i], out);
        }
    }
}
