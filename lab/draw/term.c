/* SPDX-License-Identifier: MIT */
/*
 * What `holdfast lab` prints: what is played, each way with its picture and its verdict, the steps, and why. How wide, in which
 * colours and with which characters is the look's. Deterministic: the same report looks the same.
 */
#include "term.h"

#include <ctype.h>
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

static void print_head(const struct term *term, const struct report *report);
static void print_way(const struct term *term, const struct report *report, size_t index);
static void print_verdict(const struct term *term, const struct way *way,
                          const struct finding *finding);
static void print_steps(const struct term *term, const struct experiment *experiment);
static void print_why(const struct term *term, const struct report *report);
static void print_counts(const struct term *term, const struct report *report, int indent);

void draw_terminal(FILE *out, const struct report *report, const struct look *look)
{
    struct term term = { out, look, look->columns, look->utf8 ? look->lang : LANG_EN };

    if (term.columns < TERM_COLUMNS_MIN)
        term.columns = TERM_COLUMNS_MIN;
    if (term.columns > TERM_COLUMNS_MAX)
        term.columns = TERM_COLUMNS_MAX;

    print_head(&term, report);
    if (report->plot.charts > 0)
        term_plot(&term, &report->plot);
    for (size_t i = 0; i < report->ways; i++)
        print_way(&term, report, i);
    print_steps(&term, report->experiment);
    print_why(&term, report);
}

static const char *say(const struct term *term, const char *en, const char *zh)
{
    return term->lang == LANG_ZH ? zh : en;
}

static void print_head(const struct term *term, const struct report *report)
{
    const char *setting = phrase(&report->experiment->setting, term->lang);
    char text[TERM_TEXT];

    term_paragraph(term, "", 0, 0, PAINT_INK | STYLE_BOLD,
                   phrase(&report->experiment->title, term->lang));
    snprintf(text, sizeof text, "%s%s%s", report->server,
             *report->server && *setting ? say(term, "; ", "；") : "", setting);
    if (*text)
        term_paragraph(term, "", 0, 0, PAINT_DIM, text);
}

/* ---- a way --------------------------------------------------------------------------------------- */

/* On a ground of its own; without colours a line follows it. A long note goes on below. */
static void print_heading(const struct term *term, const struct way *way)
{
    const char *title = phrase(&way->title, term->lang);
    char upper[TERM_TEXT], head[TERM_TEXT], plain[TERM_TEXT];
    const char *note = term_plain(term, phrase(&way->note, term->lang), plain, sizeof plain);
    size_t i;
    int begin;

    for (i = 0; title[i] && i + 1 < sizeof upper; i++)
        upper[i] =
            (char)(term->lang == LANG_EN && (unsigned char)title[i] < 0x80 ? toupper(title[i])
                                                                           : title[i]);
    upper[i] = 0;
    term_plain(term, upper, head, sizeof head);
    begin = 1 + term_width(term, head) + 2;
    if (begin > term->columns / 2)
        begin = term->columns / 2;
    do {
        struct screen screen;
        size_t len;
        const char *next = term_break(note, term->columns - begin - 1, &len);
        int col;

        term_screen(term, &screen, 1);
        screen_say(&screen, 0, 1, begin - 2, PAINT_INK | STYLE_BOLD, "%s", head);
        col =
            screen_say(&screen, 0, begin, term->columns - begin, PAINT_INK, "%.*s", (int)len, note);
        for (col++; !*next && !term->look->color && col < term->columns; col++)
            screen_say(&screen, 0, col, 1, PAINT_DIM, "%s", term_glyph(term, "─", "-"));
        screen_ground(&screen, 0, 0, term->columns, GROUND_HEAD);
        term_print(term, &screen);
        head[0] = 0;
        note = next;
    } while (*note);
}

/* All ways on one axis, so that they can be compared; unless one is much longer, and the others could not be read. */
static double end_of(const struct report *report, size_t index)
{
    double own = report->findings[index].scene.end_ms, all = own;

    for (size_t i = 0; i < report->ways; i++)
        if (report->findings[i].scene.end_ms > all)
            all = report->findings[i].scene.end_ms;
    return all <= 1.5 * own ? all : own;
}

static void print_way(const struct term *term, const struct report *report, size_t index)
{
    const struct way *way = &report->experiment->ways[index];
    const struct finding *finding = &report->findings[index];
    const char *text = phrase(&report->plot.texts[index], term->lang);

    fputc('\n', term->out);
    print_heading(term, way);
    if (report->plot.charts == 0)
        term_scene(term, &finding->scene, end_of(report, index));
    else if (*text)
        term_paragraph(term, "", 0, 1, PAINT_INK, text);
    print_verdict(term, way, finding);
    if (term->look->code)
        term_code(term, way->shown);
}

/* The figures in colour, and whatever else a way that surprises has to say. */
static void print_verdict(const struct term *term, const struct way *way,
                          const struct finding *finding)
{
    const struct verdict *verdict = &finding->verdict;
    int paint = PAINT_GOOD;
    const char *word = say(term, "SAFE", "安全"), *mark = term_glyph(term, "✓", "+");
    char head[64], text[TERM_TEXT];

    if (verdict->unclear) {
        paint = PAINT_PAUSE;
        word = say(term, "UNCLEAR", "不明");
        mark = "?";
    } else if (verdict->broken) {
        paint = PAINT_BAD;
        word = say(term, "BROKEN", "出错");
        mark = term_glyph(term, "✗", "x");
    } else if (way->breaks) {
        paint = PAINT_PAUSE;
        word = say(term, "NOT THIS TIME", "这次没出错");
        mark = "?";
    }
    snprintf(head, sizeof head, " %s %s ", mark, word);
    snprintf(text, sizeof text, "%s%s", verdict->text[term->lang],
             verdict->unclear ? ""
             : verdict->broken && !way->breaks
                 ? say(term, " It must not break.", "这种做法本不该出错。")
             : !verdict->broken && way->breaks
                 ? say(term, " It should have broken: the experiment was not reproduced.",
                       "本应出错：这次没有重现。")
                 : "");
    term_paragraph(term, head, paint | STYLE_BOLD | GROUND_INVERT, term_width(term, head) + 1,
                   PAINT_INK, text);
}

/* ---- below the pictures --------------------------------------------------------------------------------- */

static void print_steps(const struct term *term, const struct experiment *experiment)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        const char *text = phrase(&experiment->steps[i], term->lang);
        char mark[16];

        if (!*text)
            break;
        if (i == 0)
            fputc('\n', term->out);
        snprintf(mark, sizeof mark, "%s", term_step(term, i + 1));
        term_paragraph(term, mark, term_step_style(term, false), 2, PAINT_INK, text);
    }
}

static void print_why(const struct term *term, const struct report *report)
{
    const char *word = say(term, "Why  ", "为什么  ");
    int indent = term_width(term, word);

    fputc('\n', term->out);
    term_paragraph(term, word, PAINT_INK | STYLE_BOLD, indent, PAINT_INK,
                   phrase(&report->experiment->why, term->lang));
    print_counts(term, report, indent);
}

/* How often each way broke, if it was played more than once; else how to find out. */
static void print_counts(const struct term *term, const struct report *report, int indent)
{
    const char *between = say(term, ", ", "，");
    char text[TERM_TEXT], unclear[64];
    size_t used;
    unsigned most = 0;

    used =
        (size_t)snprintf(text, sizeof text, "%s", say(term, "How often it broke: ", "出错次数："));
    for (size_t i = 0; i < report->ways && used < sizeof text; i++) {
        const struct finding *finding = &report->findings[i];
        const char *title = phrase(&report->experiment->ways[i].title, term->lang);

        most = finding->runs > most ? finding->runs : most;
        unclear[0] = 0;
        if (finding->unclear > 0)
            snprintf(unclear, sizeof unclear, "%s%u%s", say(term, " (", "（"), finding->unclear,
                     say(term, " unclear)", " 次不明）"));
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s %u%s%u%s%s",
                             i == 0 ? "" : between, title, finding->broke, say(term, " of ", "/"),
                             finding->runs, i == 0 ? say(term, " runs", " 次") : "", unclear);
    }
    if (most == 0 || (most == 1 && report->plot.charts > 0))
        return; /* curves have rounds of their own */
    if (most == 1)
        snprintf(text, sizeof text, "%s",
                 say(term, "Each way ran once; --repeat 20 counts how often it breaks.",
                     "每种做法只运行了一次；--repeat 20 可统计出错的次数。"));
    else if (used < sizeof text)
        snprintf(text + used, sizeof text - used, "%s", say(term, ".", "。"));
    term_paragraph(term, "", 0, indent, PAINT_DIM, text);
}

/* ---- the look -------------------------------------------------------------------------------------------- */

/* COLORFGBG, where a terminal says so: "0;15" is dark on light. */
static bool ground_is_light(void)
{
    const char *says = getenv("COLORFGBG");
    const char *ground = says ? strrchr(says, ';') : NULL;

    return ground && (strcmp(ground, ";7") == 0 || strcmp(ground, ";15") == 0);
}

/* Where characters of ambiguous width take two columns, nothing would line up. */
static bool draws_lines(void)
{
    return screen_locale() && wcwidth(L'█') == 1 && wcwidth(L'①') == 1;
}

void look_init(struct look *look)
{
    const char *no_color = getenv("NO_COLOR"), *name = getenv("TERM");
    struct winsize size;

    *look = (struct look){ .columns = TERM_COLUMNS_MIN, .utf8 = draws_lines() };
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        look->columns = size.ws_col;
    look->color =
        !(no_color && *no_color) && name && strcmp(name, "dumb") != 0 && isatty(STDOUT_FILENO);
    look->light = ground_is_light();
}
