/* SPDX-License-Identifier: MIT */
/* Small text work. Pure: no locale, no heap, no errno. */
#include "util/text.h"

#include "holdfast/holdfast.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- durations and numbers ----------------------------------------------- */

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60 * 1000 }, { "h", 3600 * 1000 }, { "d", 24 * 3600 * 1000 },
};

const char *hfi_parse_duration(const char *text, int64_t *ret_ms)
{
    const char *at = text;
    int64_t number = 0;

    if (*at == 0)
        return "is empty: give a number and a unit, like 500ms or 10s";
    if (*at == '-')
        return "must not be negative";
    if (!is_digit(*at))
        return "is not a duration: give a number and a unit, like 500ms or 10s";

    for (; is_digit(*at); at++)
        if (number <= HF_DURATION_MAX_MS) /* beyond that more digits cannot change the answer */
            number = number * 10 + (*at - '0');

    if (*at == 0)
        return "needs a unit: ms, s, m, h or d";

    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(at, units[i].name) != 0)
            continue;
        if (number > HF_DURATION_MAX_MS / units[i].ms)
            return "is too long: at most 3650d";
        *ret_ms = number * units[i].ms;
        return NULL;
    }
    return "has an unknown unit: use ms, s, m, h or d, without a space or a fraction";
}

char *hfi_format_duration(int64_t ms, char *buf, size_t size)
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    uint64_t s = left / 1000, m = s / 60, h = m / 60, d = h / 24;

    if (size == 0)
        return buf;

    if (s == 0)
        snprintf(buf, size, "%s%" PRIu64 "ms", sign, left);
    else if (s < 10 && left % 1000 >= 100)
        snprintf(buf, size, "%s%" PRIu64 ".%" PRIu64 "s", sign, s, left % 1000 / 100);
    else if (m == 0)
        snprintf(buf, size, "%s%" PRIu64 "s", sign, s);
    else if (h == 0 && s % 60)
        snprintf(buf, size, "%s%" PRIu64 "m%" PRIu64 "s", sign, m, s % 60);
    else if (h == 0)
        snprintf(buf, size, "%s%" PRIu64 "m", sign, m);
    else if (d == 0 && m % 60)
        snprintf(buf, size, "%s%" PRIu64 "h%" PRIu64 "m", sign, h, m % 60);
    else if (d == 0)
        snprintf(buf, size, "%s%" PRIu64 "h", sign, h);
    else if (h % 24)
        snprintf(buf, size, "%s%" PRIu64 "d%" PRIu64 "h", sign, d, h % 24);
    else
        snprintf(buf, size, "%s%" PRIu64 "d", sign, d);
    return buf;
}

const char *hfi_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (*text == 0)
        return "is empty: give a number";
    if (*text == '-')
        return "must not be negative";

    for (const char *at = text; *at; at++) {
        if (!is_digit(*at))
            return "is not a number";
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return "is too large";
    }

    if (value < min)
        return "is too small";
    if (value > max)
        return "is too large";
    *ret_value = value;
    return NULL;
}

/* ---- globs ---------------------------------------------------------------- */

/*
 * Match one byte against the pattern's element at *at, which is not a star, and
 * move *at behind that element. A class that never closes is a plain '[', and a
 * backslash at the end is itself.
 */
static bool match_class(const unsigned char *pattern, size_t len, size_t *at, unsigned char byte)
{
    size_t i = *at + 1;
    bool invert = i < len && (pattern[i] == '!' || pattern[i] == '^');
    bool found = false;
    size_t first = i + invert;

    for (i = first; i < len && (pattern[i] != ']' || i == first); i++) {
        unsigned char low, high;

        if (pattern[i] == '\\' && i + 1 < len)
            i++;
        low = high = pattern[i];
        if (i + 2 < len && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
            i += 2;
            if (pattern[i] == '\\' && i + 1 < len)
                i++;
            high = pattern[i];
        }
        found |= byte >= low && byte <= high;
    }

    if (i >= len) {
        *at += 1;
        return byte == '[';
    }
    *at = i + 1;
    return found != invert;
}

static bool match_one(const unsigned char *pattern, size_t len, size_t *at, unsigned char byte)
{
    switch (pattern[*at]) {
    case '?':
        *at += 1;
        return true;
    case '[':
        return match_class(pattern, len, at, byte);
    case '\\':
        if (*at + 1 < len)
            *at += 1;
        break;
    default:
        break;
    }
    *at += 1;
    return pattern[*at - 1] == byte;
}

/* Only the last star is ever retried: what an earlier one could still take, the last can too. So
 * the time is at most pattern_len * len. */
bool hfi_glob_match(const unsigned char *pattern, size_t pattern_len, const unsigned char *text,
                    size_t len)
{
    size_t p = 0, t = 0, after_star = 0, star_text = 0;
    bool star = false;

    while (t < len) {
        size_t next = p;

        if (p < pattern_len && pattern[p] == '*') {
            star = true;
            after_star = ++p;
            star_text = t;
            if (p == pattern_len)
                return true; /* whatever follows */
        } else if (p < pattern_len && match_one(pattern, pattern_len, &next, text[t])) {
            p = next;
            t++;
        } else if (star) {
            p = after_star;
            t = ++star_text;
        } else {
            return false;
        }
    }

    while (p < pattern_len && pattern[p] == '*')
        p++;
    return p == pattern_len;
}

/* ---- names for people ------------------------------------------------------ */

/* Control, invisible and bidirectional characters: with them a name could look like another one on
 * a terminal. */
static bool is_unseen(uint32_t c)
{
    return (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff0 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

/* The bytes of the character at `at`, which is not ASCII; 0: it is not UTF-8. */
static size_t decode(const unsigned char *at, size_t len, uint32_t *ret_c)
{
    static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint32_t c = at[0];
    size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

    if (c < 0xc2 || c > 0xf4 || n > len)
        return 0;

    c &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3fu);
    }
    *ret_c = c;
    return c < smallest[n] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff ? 0 : n;
}

/* The number of bytes at `at` that make one printable character; 0: it is not printable. */
static size_t printable(const unsigned char *at, size_t len)
{
    uint32_t c;
    size_t n;

    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f && at[0] != '\\';
    n = decode(at, len, &c);
    return n && is_unseen(c) ? 0 : n;
}

char *hfi_quote_name(const void *name, size_t len, char *buf, size_t size)
{
    const unsigned char *bytes = name;
    size_t used = 0, cut = 0; /* cut: the last place where "..." still fits behind */

    if (size == 0)
        return buf;

    for (size_t i = 0; i < len;) {
        size_t n = printable(bytes + i, len - i);
        size_t need = n ? n : 4;

        if (used + sizeof "..." <= size)
            cut = used;
        if (used + need + 1 > size) {
            snprintf(buf + cut, size - cut, "...");
            return buf;
        }
        if (n) {
            memcpy(buf + used, bytes + i, n);
        } else {
            memcpy(buf + used, "\\x", 2);
            buf[used + 2] = "0123456789abcdef"[bytes[i] >> 4];
            buf[used + 3] = "0123456789abcdef"[bytes[i] & 15];
        }
        used += need;
        i += n ? n : 1;
    }
    buf[used] = 0;
    return buf;
}

void hfi_disarm(char *text, bool lines)
{
    unsigned char *at = (unsigned char *)text, *to = at;
    size_t left = strlen(text);

    while (left > 0) {
        size_t n = *at == '\\' || (lines && *at == '\n') ? 1 : printable(at, left);

        if (n > 0) {
            memmove(to, at, n);
            to += n;
        } else {
            *to++ = *at == '\n' || *at == '\r' || *at == '\t' ? ' ' : '?';
            n = 1;
        }
        at += n;
        left -= n;
    }
    *to = 0;
}

/* ---- JSON ------------------------------------------------------------------ */

size_t hfi_json_unseen(const void *text, size_t len, char ret_escape[HFI_JSON_ESCAPE])
{
    const unsigned char *at = text;
    uint32_t c;
    size_t n = len > 0 && at[0] >= 0x80 ? decode(at, len, &c) : 0;

    if (n == 0 || !is_unseen(c))
        return 0;
    if (c < 0x10000)
        snprintf(ret_escape, HFI_JSON_ESCAPE, "\\u%04x", (unsigned)c & 0xffff);
    else
        snprintf(ret_escape, HFI_JSON_ESCAPE, "\\u%04x\\u%04x",
                 0xd800 + ((unsigned)(c - 0x10000) >> 10 & 0x3ff), 0xdc00 + ((unsigned)c & 0x3ff));
    return n;
}

/* ---- hex -------------------------------------------------------------------- */

void hfi_hex(const void *bytes, size_t len, char *ret_text)
{
    const unsigned char *from = bytes;

    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = "0123456789abcdef"[from[i] >> 4];
        ret_text[2 * i + 1] = "0123456789abcdef"[from[i] & 15];
    }
    ret_text[2 * len] = 0;
}

static int nibble(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hfi_unhex(const char *text, size_t text_len, void *ret_bytes, size_t len)
{
    unsigned char *to = ret_bytes;

    if (text_len / 2 != len || text_len % 2)
        return false;
    for (size_t i = 0; i < text_len; i++)
        if (nibble(text[i]) < 0)
            return false;

    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)(nibble(text[2 * i]) * 16 + nibble(text[2 * i + 1]));
    return true;
}

/* ---- likeness ----------------------------------------------------------------- */

#define WORD_MAX 32 /* longer words have no close relatives */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

size_t hfi_edit_distance(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t cost[WORD_MAX + 1][WORD_MAX + 1];

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return HFI_FAR;

    for (size_t i = 0; i <= a_len; i++)
        for (size_t j = 0; j <= b_len; j++) {
            size_t other;

            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            other = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = min3(cost[i - 1][j] + 1, cost[i][j - 1] + 1, other);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = min3(cost[i][j], cost[i - 2][j - 2] + 1, cost[i][j]);
        }
    return cost[a_len][b_len];
}
