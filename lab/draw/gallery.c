/* SPDX-License-Identifier: MIT */
/* A folder with all experiments: for each its pictures and its page, and an index with a card for each. */
#include "html.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

static void verdicts_write(FILE *out, const struct report *report)
{
    fputs("<ul>\n", out);
    for (size_t i = 0; i < report->ways; i++) {
        const struct way *way = &report->experiment->ways[i];
        enum outcome outcome = finding_outcome(way, &report->findings[i]);
        for (int lang = 0; lang < LANGS; lang++) {
            fprintf(out, "<li lang=\"%s\"><span class=\"sign %s\">%s %s</span> <span>",
                    html_lang((enum lang)lang), html_outcome(outcome), html_sign(outcome),
                    outcome_word(outcome, (enum lang)lang));
            html_say(out, phrase(&way->title, (enum lang)lang));
            fputs("</span></li>\n", out);
        }
    }
    fputs("</ul>\n", out);
}

/* Its picture is that of the first way: the one that breaks. */
static void card_write(FILE *out, const struct report *report, struct panel *panel)
{
    static const struct phrase page = PHRASE("Step by step", "逐步查看"),
                               picture = PHRASE("Picture", "图片");
    const char *id = report->experiment->id;

    fprintf(out, "<article class=\"card\"><a class=\"shot\" href=\"%s.html\" tabindex=\"-1\">", id);
    for (int lang = 0; lang < LANGS; lang++) {
        fprintf(out, "<span lang=\"%s\">", html_lang((enum lang)lang));
        if (report->plot.charts)
            html_chart(out, report, 0, (enum lang)lang, false);
        else
            html_scene(out, report, 0, (enum lang)lang, false, panel);
        fputs("</span>", out);
    }
    fprintf(out, "</a>\n<div class=\"words\"><h2><a href=\"%s.html\">", id);
    html_both(out, "span", &report->experiment->title);
    fputs("</a></h2>\n", out);
    verdicts_write(out, report);
    fprintf(out, "<p class=\"links\"><a href=\"%s.html\">", id);
    html_both(out, "span", &page);
    fputs("</a>", out);
    for (int lang = 0; lang < LANGS; lang++) {
        fprintf(out, "<a lang=\"%s\" href=\"%s%s.svg\">%s</a>", html_lang((enum lang)lang), id,
                lang == LANG_ZH ? ".zh" : "", phrase(&picture, (enum lang)lang));
    }
    fputs("</p></div></article>\n", out);
}

static void index_write(FILE *out, const struct report *const *reports, size_t count,
                        enum lang lang, struct panel *panel)
{
    static const struct phrase
        title = PHRASE("What goes wrong with locks", "分布式锁会怎样出错"),
        words = PHRASE("Experiments of holdfast lab: each ran on real servers; a checker read its "
                       "history and decided.",
                       "holdfast lab 的实验：都在真实的服务器上运行，由检查器读取历史并得出结论。");

    html_head(out, &title, lang, 0);
    fputs("<header><div><h1>", out);
    html_both(out, "span", &title);
    fputs("</h1>\n<p class=\"muted\">", out);
    html_both(out, "span", &words);
    fputs("</p></div>\n", out);
    html_tools(out);
    fputs("</header>\n<main class=\"cards\">\n", out);
    for (size_t i = 0; i < count; i++)
        card_write(out, reports[i], panel);
    fputs("</main>\n", out);
    html_foot(out);
}

/* ---- files ------------------------------------------------------------------------------------------ */

/* A file is complete, or the gallery has failed. */
static bool closed(FILE *file)
{
    bool bad = ferror(file) != 0;

    return fclose(file) == 0 && !bad;
}

static FILE *opened(char path[256], const char *dir, const char *name, const char *end)
{
    if (snprintf(path, 256, "%s/%s%s", dir, name, end) >= 256) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return fopen(path, "w");
}

static bool report_files(const char *dir, const struct report *report, enum lang lang,
                         char failed[256])
{
    const char *id = report->experiment->id;
    FILE *file;

    if (!(file = opened(failed, dir, id, ".svg")))
        return false;
    draw_svg(file, report, LANG_EN);
    if (!closed(file) || !(file = opened(failed, dir, id, ".zh.svg")))
        return false;
    draw_svg(file, report, LANG_ZH);
    if (!closed(file) || !(file = opened(failed, dir, id, ".html")))
        return false;
    draw_html(file, report, lang);
    return closed(file);
}

bool draw_gallery(const char *dir, const struct report *const *reports, size_t count,
                  enum lang lang, char failed[256])
{
    FILE *file;

    snprintf(failed, 256, "%s", dir);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!report_files(dir, reports[i], lang, failed))
            return false;
    struct panel *panel = malloc(sizeof *panel);
    if (!panel || !(file = opened(failed, dir, "index", ".html"))) {
        free(panel);
        return false;
    }
    index_write(file, reports, count, lang, panel);
    free(panel);
    return closed(file);
}
