/* SPDX-License-Identifier: MIT */
/* What was found, in a word, a sign, a colour and a sentence. A naive way that did not break is neither broken nor shown to be safe. */
#include "panel.h"

#include <math.h>
#include <string.h>

enum outcome finding_outcome(const struct way *way, const struct finding *finding)
{
    if (finding->verdict.unclear)
        return UNCLEAR;
    if (finding->verdict.broken)
        return BROKEN;
    return way->breaks ? NOT_BROKEN : SAFE;
}

const char *outcome_word(enum outcome outcome, enum lang lang)
{
    static const struct phrase words[] = {
        [BROKEN] = PHRASE("BROKEN", "出错"),
        [SAFE] = PHRASE("SAFE", "安全"),
        [UNCLEAR] = PHRASE("UNCLEAR", "不明"),
        [NOT_BROKEN] = PHRASE("DID NOT REPRODUCE", "这次没出错"),
    };

    return phrase(&words[outcome], lang);
}

enum colour outcome_colour(enum outcome outcome)
{
    return outcome == BROKEN ? RED : outcome == SAFE ? GREEN : MUTED;
}

void finding_runs(const struct finding *finding, enum lang lang, char *out, size_t room)
{
    static const char *const unclear[] = { ", %u unclear", "，%u 次不明" };

    out[0] = 0;
    if (finding->runs <= 1)
        return;
    int length = lang == LANG_ZH
                     ? snprintf(out, room, "%u 次运行，%u 次出错", finding->runs, finding->broke)
                     : snprintf(out, room, "%u of %u runs broke", finding->broke, finding->runs);
    if (finding->unclear && length > 0 && (size_t)length < room)
        snprintf(out + length, room - (size_t)length, unclear[lang], finding->unclear);
}

double verdict_draw(struct panel *panel, double y)
{
    struct pen *pen = &panel->pen;
    enum outcome outcome = finding_outcome(panel->way, panel->finding);
    enum colour colour = outcome_colour(outcome);
    const char *word = outcome_word(outcome, pen->lang);
    double width = panel->width - 2 * panel->pad, x = panel->pad;
    double tab = text_width(word, 13, BOLD) + 46;
    char runs[96], clean[600];

    finding_runs(panel->finding, pen->lang, runs, sizeof runs);
    text_clean(clean, sizeof clean, panel->finding->verdict.text[pen->lang]);
    double aside = runs[0] ? text_width(runs, 12, REGULAR) + 14 : 0;
    struct font font = { 13.5, SEMI, INK, false };
    double room = width - tab - 24 - aside;
    size_t lines = text_lines(clean, font.size, font.weight, room);
    double height = 36 + (lines > 1 ? (double)(lines - 1) * 17 : 0);
    ink_rect(pen, (struct box){ x, y, width, height, 0 }, 8,
             outcome == BROKEN ? RED_TINT
             : outcome == SAFE ? GREEN_TINT
                               : GREY_TINT,
             PLAIN, colour, 1.5, NULL);
    ink_rect(pen, (struct box){ x, y, tab, height, 0 }, 8, colour, PLAIN, NONE, 0, NULL);
    ink_rect(pen, (struct box){ x + tab - 8, y, 8, height, 0 }, 0, colour, PLAIN, NONE, 0, NULL);
    double middle = y + height / 2;
    if (outcome == BROKEN)
        ink_cross(pen, x + 20, middle, 5, ON);
    else if (outcome == SAFE)
        ink_tick(pen, x + 20, middle, 6, ON);
    else
        ink_text(pen, x + 20, middle + 5, MIDDLE, (struct font){ 15, BOLD, ON, false }, "?", 1);
    ink_text(pen, x + 34, middle + 4.7, START, (struct font){ 13, BOLD, ON, false }, word,
             strlen(word));
    ink_wrap(pen, x + tab + 12, y + 23, room, 17, font, clean);
    if (runs[0])
        ink_text(pen, x + width - 12, middle + 4.5, END, (struct font){ 12, REGULAR, MUTED, false },
                 runs, strlen(runs));
    return y + height;
}
