/* SPDX-License-Identifier: MIT */
/*
 * A report as a page: pictures with steps to walk through, code beside them, both languages. Each picture is there twice for each
 * language, for a large and for a small screen, with labels placed for its width.
 */
#include "chart.h"
#include "code.h"
#include "html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 820.0
#define SMALL 400.0

/* ---- steps ---------------------------------------------------------------------------------------- */

static int step_count(const struct report *report)
{
    int count = 0;

    while (count < STEPS_MAX && phrase(&report->experiment->steps[count], LANG_EN)[0])
        count++;
    return report->plot.charts ? 0 : count;
}

static void badge(FILE *out, int step, bool bad)
{
    fprintf(out, "<span class=\"badge%s\">%d</span>", bad ? " bad" : "", step);
}

static void steps_write(FILE *out, const struct report *report)
{
    fputs("<ol class=\"steps\">\n", out);
    for (int i = 0; i < step_count(report); i++) {
        fprintf(out, "<li data-step=\"%d\">", i + 1);
        badge(out, i + 1, step_bad(report, i + 1));
        html_both(out, "span", &report->experiment->steps[i]);
        fputs("</li>\n", out);
    }
    fputs("</ol>\n", out);
}

/* The bar at the bottom: back, what happens now, next. */
static void walk_write(FILE *out, const struct report *report)
{
    static const struct phrase back = PHRASE("‹ Back", "‹ 上一步"),
                               next = PHRASE("Next ›", "下一步 ›"),
                               whole = PHRASE("Whole picture", "完整图"),
                               start =
                                   PHRASE("Walk through it step by step: buttons or arrow keys.",
                                          "一步一步看：点按钮，或用左右方向键。");

    fputs("<nav class=\"walk\"><button data-go=\"-1\">", out);
    html_both(out, "span", &back);
    fputs("</button>\n<p aria-live=\"polite\"><span data-step=\"0\">", out);
    html_both(out, "span", &start);
    fputs("</span>", out);
    for (int i = 0; i < step_count(report); i++) {
        fprintf(out, "<span data-step=\"%d\" hidden><b>%d</b>&ensp;", i + 1, i + 1);
        html_both(out, "span", &report->experiment->steps[i]);
        fputs("</span>", out);
    }
    fputs("</p>\n<button data-go=\"1\">", out);
    html_both(out, "span", &next);
    fputs("</button><button data-go=\"0\">", out);
    html_both(out, "span", &whole);
    fputs("</button></nav>\n", out);
}

/* ---- a way ------------------------------------------------------------------------------------------- */

void html_scene(FILE *out, const struct report *report, size_t way, enum lang lang, bool large,
                struct panel *panel)
{
    panel_init(panel, out, report, way, lang, large ? LARGE : SMALL, report_end_ms(report));
    panel->pad = 2;
    scene_layout(panel, 22);
    fprintf(out, "<svg class=\"scene\" role=\"img\" viewBox=\"0 0 %s %s\"><title>", N(panel->width),
            N(panel->bottom + 6));
    html_say(out, phrase(&panel->way->title, lang));
    fputs("</title>\n", out);
    scene_draw(panel);
    fputs("</svg>", out);
}

static void picture_write(FILE *out, const struct report *report, size_t way, enum lang lang,
                          bool large, struct panel *panel)
{
    fprintf(out, "<figure class=\"picture %s\" lang=\"%s\">", large ? "large" : "small",
            html_lang(lang));
    html_scene(out, report, way, lang, large, panel);
    fputs("</figure>\n", out);
}

static void code_of(FILE *out, const struct way *way, enum lang lang)
{
    const char *code = way->shown ? shown_code(way->shown, lang) : NULL;
    struct code_line line;

    if (!code)
        return;
    fprintf(out, "<pre tabindex=\"0\" lang=\"%s\">", html_lang(lang));
    for (const char *at = code; code_next(&at, &line);) {
        const char *class = !code_key(&line, at) ? "" : way->breaks ? " wrong" : " guard";
        char text[1024];
        fprintf(out, "<span class=\"line%s\"", class);
        if (line.step)
            fprintf(out, " data-step=\"%d\"", line.step);
        fputc('>', out);
        snprintf(text, sizeof text, "%.*s", (int)line.code_bytes, line.code);
        html_say(out, text);
        if (line.step)
            badge(out, line.step, line.key && way->breaks);
        if (line.comment_bytes) {
            snprintf(text, sizeof text, "%.*s", (int)line.comment_bytes, line.comment);
            fprintf(out, "<span class=\"note\">%s", line.step || line.alone ? "" : "    ");
            html_say(out, text);
            fputs("</span>", out);
        }
        fputs("</span>", out);
    }
    fputs("</pre>\n", out);
}

static void code_write(FILE *out, const struct way *way)
{
    for (int lang = 0; lang < LANGS; lang++)
        code_of(out, way, (enum lang)lang);
}

static void verdict_write(FILE *out, const struct report *report, size_t way)
{
    const struct finding *finding = &report->findings[way];
    enum outcome outcome = finding_outcome(&report->experiment->ways[way], finding);

    for (int lang = 0; lang < LANGS; lang++) {
        char runs[96];
        fprintf(out, "<div class=\"verdict %s\" lang=\"%s\"><b><span>%s</span>%s</b><p>",
                html_outcome(outcome), html_lang((enum lang)lang), html_sign(outcome),
                outcome_word(outcome, (enum lang)lang));
        html_say(out, finding->verdict.text[lang]);
        finding_runs(finding, (enum lang)lang, runs, sizeof runs);
        fprintf(out, "</p>%s%s%s</div>\n", runs[0] ? "<i>" : "", runs, runs[0] ? "</i>" : "");
    }
}

static void way_write(FILE *out, const struct report *report, size_t way, struct panel *panel)
{
    const struct way *w = &report->experiment->ways[way];

    fputs("<section class=\"way\"><h2>", out);
    html_both(out, "span", &w->title);
    html_both(out, "small", &w->note);
    fputs("</h2>\n<div class=\"cols\"><div class=\"picture\">\n", out);
    for (int lang = 0; lang < LANGS; lang++)
        for (int large = 0; large < 2; large++)
            picture_write(out, report, way, (enum lang)lang, large == 1, panel);
    fputs("</div>\n", out);
    code_write(out, w);
    fputs("</div>\n", out);
    verdict_write(out, report, way);
    fputs("</section>\n", out);
}

/* ---- a plot ------------------------------------------------------------------------------------------- */

void html_chart(FILE *out, const struct report *report, size_t chart, enum lang lang, bool large)
{
    double width = !large ? SMALL : report->plot.charts == 1 ? 1400 : chart ? 640 : 800;
    double height = chart_height(report, chart, lang, width);
    struct pen pen = { out, lang, NULL };

    fprintf(out, "<svg role=\"img\" viewBox=\"-1 -1 %s %s\">", N(width + 2), N(height + 2));
    chart_draw(&pen, report, chart, width, height);
    fputs("</svg>", out);
}

static void chart_write(FILE *out, const struct report *report, size_t chart, enum lang lang,
                        bool large)
{
    fprintf(out, "<figure class=\"picture %s\" lang=\"%s\">", large ? "large" : "small",
            html_lang(lang));
    html_chart(out, report, chart, lang, large);
    fputs("</figure>\n", out);
}

static void plot_write(FILE *out, const struct report *report)
{
    static const struct phrase word = PHRASE("Code", "代码");
    const struct plot *plot = &report->plot;

    fprintf(out, "<div class=\"charts%s\">\n", plot->charts > 1 ? " two" : "");
    for (size_t i = 0; i < plot->charts && i < CHARTS_MAX; i++) {
        fputs("<div class=\"picture\">\n", out);
        for (int lang = 0; lang < LANGS; lang++)
            for (int large = 0; large < 2; large++)
                chart_write(out, report, i, (enum lang)lang, large == 1);
        fputs("</div>\n", out);
    }
    fputs("</div>\n<div class=\"texts\">\n", out);
    for (size_t i = 0; i < report->ways; i++) {
        const struct way *way = &report->experiment->ways[i];
        struct pen pen = { out, LANG_EN, NULL };
        fputs("<div><h3><svg width=\"16\" height=\"16\" viewBox=\"0 0 16 16\">", out);
        mark_shape(&pen, way_trait(report, (int)i), 8, 8, 5);
        fputs("</svg>", out);
        html_both(out, "span", &way->title);
        fputs("</h3>\n", out);
        if (i < SERIES_MAX)
            html_both(out, "p", &plot->texts[i]);
        verdict_write(out, report, i);
        if (way->shown && shown_code(way->shown, LANG_EN)) {
            fputs("<details><summary>", out);
            html_both(out, "span", &word);
            fputs("</summary>\n", out);
            code_write(out, way);
            fputs("</details>\n", out);
        }
        fputs("</div>\n", out);
    }
    fputs("</div>\n", out);
    const struct phrase checked = { { plot->checked[LANG_EN], plot->checked[LANG_ZH] } };
    html_both(out, "p", &checked);
}

/* ---- the page ------------------------------------------------------------------------------------------- */

static void head_write(FILE *out, const struct report *report)
{
    char setting[LANGS][700];

    for (int lang = 0; lang < LANGS; lang++)
        report_setting(report, (enum lang)lang, setting[lang], sizeof setting[lang]);
    const struct phrase both = { { setting[LANG_EN], setting[LANG_ZH] } };
    const struct phrase language = PHRASE("", " --lang zh");
    fputs("<header><div><h1>", out);
    html_both(out, "span", &report->experiment->title);
    fputs("</h1>\n<p class=\"muted\">", out);
    html_both(out, "span", &both);
    fprintf(out, "</p><code class=\"command\">$ holdfast lab %s", report->experiment->id);
    html_both(out, "span", &language);
    fputs("</code></div>\n", out);
    html_tools(out);
    fputs("</header>\n", out);
}

void draw_html(FILE *out, const struct report *report, enum lang lang)
{
    static const struct phrase word = PHRASE("Why", "原因");
    struct panel *panel = malloc(sizeof *panel);

    if (!panel)
        return;
    html_head(out, &report->experiment->title, lang, step_count(report));
    head_write(out, report);
    fputs("<main>\n", out);
    if (step_count(report))
        steps_write(out, report);
    if (report->plot.charts)
        plot_write(out, report);
    for (size_t i = 0; !report->plot.charts && i < report->ways; i++)
        way_write(out, report, i, panel);
    fputs("<section class=\"why\"><h2>", out);
    html_both(out, "span", &word);
    fputs("</h2>\n", out);
    html_both(out, "p", &report->experiment->why);
    fputs("<p class=\"muted\">", out);
    html_both(out, "span", &checker_words);
    fputs("</p></section>\n</main>\n", out);
    if (step_count(report))
        walk_write(out, report);
    html_foot(out);
    free(panel);
}
