/* SPDX-License-Identifier: MIT */
/* The SVG and HTML of made reports: labels that do not meet, hostile texts, the same bytes twice. draw_browser.py looks at the same
 * files in a browser. */
#include "../unit/unit.h"
#include "draw/chart.h"
#include "draw/code.h"
#include "draw/panel.h"
#include "draw_reports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *drawn(const struct report *report, enum lang lang,
                   void draw(FILE *, const struct report *, enum lang))
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);

    assert_non_null(file);
    draw(file, report, lang);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(strlen(text), bytes); /* no zero byte inside */
    return text;
}

static unsigned times(const char *text, const char *what)
{
    unsigned count = 0;

    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* ---- labels ------------------------------------------------------------------------------------- */

static size_t labels_of(const struct report *report, size_t way, enum lang lang, double width,
                        size_t *ret_dropped)
{
    struct panel *panel = malloc(sizeof *panel);
    FILE *nowhere = fopen("/dev/null", "w");

    assert_true(panel && nowhere);
    panel_init(panel, nowhere, report, way, lang, width, report_end_ms(report));
    scene_layout(panel, 66);
    scene_draw(panel);
    size_t clashes = boxes_clashes(&panel->boxes);
    *ret_dropped = panel->boxes.dropped;
    fclose(nowhere);
    free(panel);
    return clashes;
}

static void labels_do_not_meet(void **state)
{
    static const double widths[] = { 1536, 820, 760, 400 };
    size_t dropped;

    (void)state;
    for (const struct made *made = made_reports(); made->name; made++)
        for (size_t way = 0; way < made->report->ways; way++)
            for (int lang = 0; lang < LANGS; lang++)
                for (size_t i = 0; i < 4; i++)
                    assert_int_equal(
                        labels_of(made->report, way, (enum lang)lang, widths[i], &dropped), 0);
}

static void a_usual_scene_keeps_all_its_labels(void **state)
{
    size_t dropped;

    (void)state;
    for (size_t way = 0; way < 2; way++)
        for (int lang = 0; lang < LANGS; lang++) {
            labels_of(made_report("pause"), way, (enum lang)lang, 760, &dropped);
            assert_int_equal(dropped, 0);
        }
}

static void boxes_know_what_is_hard(void **state)
{
    static struct boxes boxes;
    struct box label = { 10, 10, 20, 10, BOX_LABEL };

    (void)state;
    boxes_init(&boxes, (struct box){ 0, 0, 100, 100, BOX_LABEL });
    assert_true(boxes_cost(&boxes, &label, false) == 0);
    boxes_add(&boxes, BOX_LINE, 15, 0, 1, 100);
    assert_true(boxes_cost(&boxes, &label, false) > 0);
    boxes_add(&boxes, BOX_BAR, 5, 5, 50, 50);
    assert_true(boxes_cost(&boxes, &label, false) < 0);
    assert_true(boxes_cost(&boxes, &label, true) == 0); /* on the bar, which covers the line */
    boxes_add(&boxes, BOX_RULE, 15, 0, 1, 100);
    assert_true(boxes_cost(&boxes, &label, true) > 0);
    label.x = 90; /* sticks out */
    assert_true(boxes_cost(&boxes, &label, true) < 0);
    boxes_add(&boxes, BOX_LABEL, 10, 10, 20, 10);
    boxes_add(&boxes, BOX_LABEL, 29, 19, 20, 10);
    assert_int_equal(boxes_clashes(&boxes), 1);
}

/* ---- what is drawn --------------------------------------------------------------------------------- */

static void a_picture_says_what_happened(void **state)
{
    char *svg = drawn(made_report("pause"), LANG_EN, draw_svg);

    (void)state;
    assert_non_null(strstr(svg, ">late write: 19<"));
    assert_non_null(strstr(svg, ">BROKEN<"));
    assert_non_null(strstr(svg, ">SAFE<"));
    assert_non_null(strstr(svg, ">20 of 20 runs broke<"));
    assert_non_null(strstr(svg, ">0 of 20 runs broke<"));
    assert_non_null(strstr(svg, ">A believes it holds the lock<"));
    assert_null(strstr(svg, ">B believes it holds the lock<")); /* its bar says so */
    assert_non_null(strstr(svg, "url(#p-barrier)"));
    assert_non_null(strstr(svg, "nothing asks for the holder"));
    free(svg);
    svg = drawn(made_report("pause"), LANG_ZH, draw_svg);
    assert_non_null(strstr(svg, ">迟到的写入：19<"));
    assert_non_null(strstr(svg, ">20 次运行，20 次出错<"));
    free(svg);
}

static void what_did_not_reproduce_is_not_called_safe(void **state)
{
    char *svg = drawn(made_report("dense"), LANG_EN, draw_svg);

    (void)state;
    assert_non_null(strstr(svg, ">DID NOT REPRODUCE<"));
    assert_non_null(strstr(svg, ">0 of 3 runs broke, 1 unclear<"));
    free(svg);
    svg = drawn(made_report("nodes"), LANG_EN, draw_svg);
    assert_int_equal(times(svg, ">UNCLEAR<"), 1);
    free(svg);
}

static void many_tries_are_folded(void **state)
{
    char *svg = drawn(made_report("dense"), LANG_EN, draw_svg);

    (void)state;
    assert_non_null(strstr(svg, ">tries 200 times<"));
    assert_in_range(times(svg, "stroke-dasharray=\"2 3\""), 10, 70);
    free(svg);
}

static void hostile_texts_stay_text(void **state)
{
    (void)state;
    for (int lang = 0; lang < LANGS; lang++)
        for (int html = 0; html < 2; html++) {
            char *text = drawn(made_report("evil"), (enum lang)lang, html ? draw_html : draw_svg);
            assert_null(strstr(text, "<script>alert"));
            assert_int_equal(times(text, "<script"), html);
            assert_non_null(strstr(text, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;&#39;"));
            assert_non_null(strstr(text, "\\x1b[31m\\xff\\u202e"));
            for (const char *at = text; *at; at++)
                assert_true((unsigned char)*at >= 0x20 || *at == '\n');
            free(text);
        }
}

static void the_same_report_gives_the_same_bytes(void **state)
{
    (void)state;
    for (const struct made *made = made_reports(); made->name; made++)
        for (int html = 0; html < 2; html++) {
            char *one = drawn(made->report, LANG_EN, html ? draw_html : draw_svg);
            char *two = drawn(made->report, LANG_EN, html ? draw_html : draw_svg);
            assert_string_equal(one, two);
            free(one);
            free(two);
        }
}

static void a_page_loads_nothing_and_has_both_languages(void **state)
{
    char *html = drawn(made_report("pause"), LANG_ZH, draw_html);

    (void)state;
    assert_non_null(strstr(html, "<html lang=\"zh-CN\" data-lang=\"zh\" data-steps=\"5\">"));
    assert_non_null(strstr(html, "default-src 'none'"));
    assert_null(strstr(html, "://"));
    assert_null(strstr(html, " src="));
    assert_non_null(strstr(html, "A is paused."));
    assert_non_null(strstr(html, "A 被暂停。"));
    free(html);
}

static void a_gallery_has_a_page_for_each(void **state)
{
    char dir[] = "/tmp/holdfast-gallery.XXXXXX", path[128], inner[64], failed[256];
    const struct report *reports[] = { made_report("pause"), made_report("plot") };
    static const char *const names[] = { "index.html",      "made-pause.svg", "made-pause.zh.svg",
                                         "made-pause.html", "made-plot.svg",  "made-plot.zh.svg",
                                         "made-plot.html" };
    struct stat found;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(inner, sizeof inner, "%s/new", dir);
    assert_true(draw_gallery(inner, reports, 2, LANG_EN, failed));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", inner, names[i]);
        assert_int_equal(stat(path, &found), 0);
        assert_true(found.st_size > 2000);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(inner), 0); /* nothing else was in it */
    snprintf(inner, sizeof inner, "%s/no/such", dir);
    assert_false(draw_gallery(inner, reports, 2, LANG_EN, failed));
    assert_int_equal(errno, ENOENT);
    assert_string_equal(failed, inner);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- texts, code, numbers --------------------------------------------------------------------------- */

static void texts_are_measured_and_broken(void **state)
{
    const char *next;
    char clean[8];

    (void)state;
    assert_true(text_width("中文", 10, REGULAR) == 20);
    assert_true(text_width("iii", 10, REGULAR) < text_width("mmm", 10, REGULAR));
    assert_true(text_width("0", 10, REGULAR) < text_width("0", 10, BOLD));
    assert_int_equal(text_line("one two", 10, REGULAR, 30, &next), 3);
    assert_string_equal(next, "two");
    assert_int_equal(text_line("一二三，四", 10, REGULAR, 30, &next),
                     6); /* no line begins with ， */
    assert_string_equal(next, "三，四");
    assert_int_equal(text_line("one\ntwo", 10, REGULAR, 999, &next), 3);
    assert_string_equal(next, "two");
    assert_int_equal(text_lines("unbreakable", 10, REGULAR, 1), 11);
    assert_string_equal(text_clean(clean, sizeof clean, "abcdefgh"), "abcd\xe2\x80\xa6");
    assert_string_equal(num(-1.25).s, "-1.3");
    assert_string_equal(num(3).s, "3");
    assert_string_equal(num(-0.01).s, "0");
}

static void code_names_its_steps(void **state)
{
    const char *at = "a(\"/* no */\"); /* 5! late */\nb; /* 3s later */\n  /* 2 alone */\nc(x,\n  "
                     "y); /* 4! */\n";
    struct code_line line;

    (void)state;
    assert_true(code_next(&at, &line));
    assert_int_equal(line.code_bytes, strlen("a(\"/* no */\");"));
    assert_true(line.step == 5 && line.key && line.comment_bytes == 4);
    assert_true(code_next(&at, &line));
    assert_true(line.step == 0 && !line.key && line.comment_bytes == strlen("3s later"));
    assert_true(code_next(&at, &line));
    assert_true(line.alone && line.step == 2);
    assert_true(code_next(&at, &line));
    assert_true(!line.key && code_key(&line, at)); /* its statement ends with the mark */
    assert_true(code_next(&at, &line));
    assert_true(line.step == 4 && line.key);
    assert_false(code_next(&at, &line));
    at = "s =\n  \"one \"\n  \"two\"; /* 4! */\n"; /* lines of a script count for themselves */
    assert_true(code_next(&at, &line) && !code_key(&line, at));
    assert_true(code_next(&at, &line) && !code_key(&line, at));
    assert_true(code_next(&at, &line) && code_key(&line, at));
}

static void figures_are_short(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = { { 0, "0" },          { 0.74, "0.74" }, { 17.5, "17.5" },         { 99.97, "100" },
                  { 9280, "9,280" },   { 43, "43" },     { 1234567, "1,234,567" }, { 2.3, "2.3" },
                  { 0.0123, "0.0123" } };
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        figure(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

static void scales_hold_all_values(void **state)
{
    const struct plot *plot = &made_report("plot")->plot;

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        struct scale scale = scale_of(&plot->chart[c]);
        assert_true(scale_at(&scale, 0) == 0);
        double before = 0;
        for (size_t i = 1; i < 7; i++) { /* the steep ones rise */
            double at = scale_at(&scale, plot->chart[c].series[c ? 0 : 2].mid[i]);
            assert_true(at > 0 && at <= 1);
            assert_true(c == 0 || at > before);
            before = at;
        }
    }
    struct chart none = { .logarithmic = true };
    struct scale scale = scale_of(&none);
    assert_true(scale.high > scale.low);
}

static void steps_cover_the_time(void **state)
{
    static struct panel panel;
    double from, to, end = 0;

    (void)state;
    panel_init(&panel, stdout, made_report("pause"), 0, LANG_EN, 760, 8000);
    for (int step = 1; step <= 5; step++) {
        assert_true(step_span(&panel, step, &from, &to));
        assert_true(from == end && to > from);
        assert_int_equal(step_at(&panel, (from + to) / 2), step);
        end = to;
    }
    assert_true(end == 8000);
    assert_false(step_span(&panel, 6, &from, &to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_do_not_meet),
        cmocka_unit_test(a_usual_scene_keeps_all_its_labels),
        cmocka_unit_test(boxes_know_what_is_hard),
        cmocka_unit_test(a_picture_says_what_happened),
        cmocka_unit_test(what_did_not_reproduce_is_not_called_safe),
        cmocka_unit_test(many_tries_are_folded),
        cmocka_unit_test(hostile_texts_stay_text),
        cmocka_unit_test(the_same_report_gives_the_same_bytes),
        cmocka_unit_test(a_page_loads_nothing_and_has_both_languages),
        cmocka_unit_test(a_gallery_has_a_page_for_each),
        cmocka_unit_test(texts_are_measured_and_broken),
        cmocka_unit_test(code_names_its_steps),
        cmocka_unit_test(figures_are_short),
        cmocka_unit_test(scales_hold_all_values),
        cmocka_unit_test(steps_cover_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
