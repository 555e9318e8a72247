/* SPDX-License-Identifier: MIT */
/*
 * What `holdfast lab` prints, of reports that are made up: in 80 columns and more, in both languages, without colours and without UTF-8,
 * with crowds and with hostile texts. A column is what a terminal shows: Chinese takes two of them.
 */
#include "term_scenes.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <wchar.h>
/* cmocka wants these before it */
#include <cmocka.h>

static struct report report;
static struct look look;
static char *text;       /* what was printed */
static char *lines[400]; /* its lines */
static int line_count;

const char *shown_code(const char *name, enum lang lang)
{
    (void)lang;
    return strcmp(name, "naive") == 0 ? "if (locked) /* 1 it is ours */\n"
                                        "    printf(\"\\n\"); /* 2! */\n"
                                        "    write_something_long(with, many, parameters); "
                                        "/* ! a remark that has no room behind the code */\n"
                                        "    /* 2 plain words */ f(a_word, another_word, "
                                        "a_third_word, a_fourth_word, a_fifth_word);\n"
                                      : NULL;
}

static int setup(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_ALL, "C.UTF-8"));
    look = (struct look){ .lang = LANG_EN, .columns = 80, .utf8 = true };
    pause_report(&report);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    for (int i = 0; i < line_count; i++)
        free(lines[i]);
    line_count = 0;
    return 0;
}

static void draw(void)
{
    size_t size;
    FILE *out;

    teardown(NULL);
    out = open_memstream(&text, &size);
    draw_terminal(out, &report, &look);
    fclose(out);
    for (char *at = text; *at && line_count < 400; at += strcspn(at, "\n") + 1)
        lines[line_count++] = strndup(at, strcspn(at, "\n"));
}

static wchar_t next(const char **at)
{
    mbstate_t state = { 0 };
    wchar_t wide;
    size_t len = mbrtowc(&wide, *at, strlen(*at), &state);

    assert_true(len > 0 && len < 8);
    *at += len;
    return wide;
}

static int width_of(const char *line)
{
    int width = 0;

    while (*line) {
        int wide = wcwidth(next(&line));

        assert_true(wide >= 0);
        width += wide;
    }
    return width;
}

/* The column where `what` stands in a line for the first time from column `from` on; -1: nowhere. */
static int column_of(const char *line, const char *what, int from)
{
    for (const char *at = strstr(line, what); at; at = strstr(at + 1, what)) {
        char *before = strndup(line, (size_t)(at - line));
        int column = width_of(before);

        free(before);
        if (column >= from)
            return column;
    }
    return -1;
}

/* The line of the picture of way `way` that begins with this title, or the `below`th after it. */
static const char *lane(int way, const char *title, int below)
{
    for (int i = 0; i < line_count; i++)
        if (strncmp(lines[i] + 1, title, strlen(title)) == 0 && lines[i][0] == ' ' && way-- == 0)
            return lines[i + below];
    fail_msg("no lane %s in:\n%s", title, text);
    return NULL;
}

static bool says(const char *what)
{
    return strstr(text, what);
}

static int widest(void)
{
    int most = 0;

    for (int i = 0; i < line_count; i++)
        most = width_of(lines[i]) > most ? width_of(lines[i]) : most;
    return most;
}

/* The lines from the lane `from` to the lane `to` all have `what` in this column, but where a lane has something of its own. */
static void assert_upright(int way, const char *from, const char *to, const char *what, int column)
{
    int seen = 0;

    for (int below = 1; lane(way, from, below) != lane(way, to, 0); below++) {
        const char *line = lane(way, from, below);

        if (column_of(line, what, column) == column)
            seen++;
        else
            assert_true(column_of(line, "█", 0) >= 0 || column_of(line, "▒", 0) >= 0);
    }
    assert_true(seen > 0);
}

/* ---- tests ------------------------------------------------------------------------------------------- */

static void strokes_stand_at_their_moment_and_connect_lanes(void **state)
{
    static const char *const titles[LANGS][3] = { { "client A", "client B", "resource" },
                                                  { "客户端 A", "客户端 B", "资源" } };

    (void)state;
    for (int lang = 0; lang < LANGS; lang++) {
        const char *a = titles[lang][0], *b = titles[lang][1], *resource = titles[lang][2];
        int column, begin, end;

        look.lang = (enum lang)lang;
        draw();
        column = column_of(lane(0, resource, 0), "╋", 0); /* the wrong write */
        assert_true(column > 0);
        assert_upright(0, a, resource, "┃", column);
        /* It stands at 6.5 of 8 seconds, between the ticks of 6 and 7. */
        begin = column_of(lane(0, a, -1), "6s", 0);
        end = column_of(lane(0, a, -1), "7s", 0);
        assert_in_range(column, begin + (end - begin) / 3, end - (end - begin) / 3);
        column = column_of(lane(0, resource, 0), "┷", 0); /* A reads */
        assert_upright(0, a, resource, "┊", column);
        column = column_of(lane(0, resource, 0), "┻", 0); /* B writes */
        assert_upright(0, b, resource, "│", column);
    }
}

static void clients_differ_without_colours(void **state)
{
    (void)state;
    draw();
    assert_true(column_of(lane(0, "client A", 0), "█", 0) >= 0);
    assert_int_equal(column_of(lane(0, "client A", 0), "▒", 0), -1);
    assert_true(column_of(lane(0, "client B", 0), "▒", 0) >= 0);
    assert_int_equal(column_of(lane(0, "client B", 0), "█", 0), -1);
    /* The server's lane has A's lease, its end, and B's lease from then on. */
    assert_true(column_of(lane(0, "lock server", 0), "█┃▒", 0) > 0);
    assert_true(column_of(lane(0, "lock server", 0), " lease of A ", 0) > 0);
    assert_true(column_of(lane(0, "client A", 0), "░ paused (SIGSTOP), 5.4s ░", 0) > 0);
    assert_null(strchr(text, '\033'));
}

static void expiry_and_answers_are_joined_to_their_lane(void **state)
{
    int column;

    (void)state;
    draw();
    column = column_of(lane(0, "lock server", 0), "┃", 0);
    assert_int_equal(column_of(lane(0, "lock server", -1), "┌ lease expires", 0), column);
    column = column_of(lane(0, "resource", 0), "╋", 0);
    assert_int_equal(column_of(lane(0, "resource", 1), "└ accepted", 0), column);
    assert_true(column_of(lane(0, "client A", 1), "late write: 19 ┃", 0) > 0);
    /* A refused write ends before the resource. */
    column = column_of(lane(1, "resource", -1), "╳", 0);
    assert_true(column > 0);
    assert_int_equal(column_of(lane(1, "resource", 1), "refused: 33 < 34 ┘", 0), column - 17);
    assert_int_equal(column_of(lane(1, "resource", 0), "╋", 0), -1);
}

static void values_stand_on_their_line(void **state)
{
    (void)state;
    draw();
    assert_true(column_of(lane(0, "resource", 0), "━ 20 ━", 0) > 0);
    assert_true(column_of(lane(0, "resource", 0), "━ 19 ━", 0) > 0);
    assert_true(column_of(lane(0, "resource", 0), "╍ 19 ╍", 0) > 0);
    assert_int_equal(column_of(lane(1, "resource", 0), "╍", 0), -1);
    assert_true(strncmp(lane(0, "resource", 1), " stock", 6) == 0);
}

static void no_line_is_too_wide(void **state)
{
    (void)state;
    for (int lang = 0; lang < LANGS; lang++)
        for (int columns = 10; columns < 300; columns += 7) {
            int room = columns < 80 ? 80 : columns > 120 ? 120 : columns;

            look.lang = (enum lang)lang;
            look.columns = columns;
            draw();
            assert_in_range(widest(), room - 2, room);
        }
}

static void without_utf8_it_is_ascii_and_english(void **state)
{
    (void)state;
    look.utf8 = false;
    look.lang = LANG_ZH;
    draw();
    for (const char *at = text; *at; at++)
        assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
    assert_true(says("SET ... NX PX 3000"));
    assert_true(says("x BROKEN  2 sold, but the stock"));
    assert_true(column_of(lane(0, "lock server", 0), "#|%", 0) > 0);
    assert_true(says("+ accepted"));
}

static void verdicts_say_what_was_not_expected(void **state)
{
    (void)state;
    draw();
    assert_true(says(" ✗ BROKEN  2 sold, but the stock went from 20 to 19.\n"));
    assert_true(says(" ✓ SAFE  2 sold, the stock went from 20 to 18.\n"));
    report.findings[0].verdict.broken = false;
    report.findings[1].verdict.broken = true;
    draw();
    assert_true(says(" ? NOT THIS TIME "));
    assert_true(says("was not reproduced"));
    assert_true(says("It must not break."));
    report.findings[1].verdict.unclear = true;
    draw();
    assert_true(says(" ? UNCLEAR "));
    assert_false(says("It must not break."));
}

static void it_says_how_often(void **state)
{
    (void)state;
    draw();
    assert_true(says("How often it broke: Naive 20 of 20 runs, Holdfast 0 of 20.\n"));
    report.findings[1].unclear = 2;
    draw();
    assert_true(says("Holdfast 0 of 20 (2 unclear)."));
    report.findings[0].runs = report.findings[1].runs = 1;
    draw();
    assert_true(says("Each way ran once"));
    assert_false(says("How often"));
}

static void steps_and_code(void **state)
{
    (void)state;
    draw();
    assert_true(says("\n① A gets the lock and reads 20.\n② A is paused"));
    assert_true(column_of(lane(0, "client A", 0), "②", 0) > 0);
    assert_false(says("printf"));
    look.code = true;
    draw();
    assert_true(says(" │ if (locked)  ① it is ours\n │     printf(\"\\n\");  ②\n"));
    assert_true(says(" │     a remark that has no room behind the code\n"
                     " │     write_something_long(with, many, parameters);\n"));
    assert_true(
        says(" │     /* 2 plain words */ f(a_word, another_word, a_third_word, a_fourth_word,\n"
             " │             a_fifth_word);\n"));
}

static void hostile_texts_are_harmless(void **state)
{
    (void)state;
    look.color = true;
    strcpy(report.server, "evil \033[5m\a server");
    strcpy(report.findings[0].verdict.text[0], "\033]0;title\007 and \xff\xfe bytes\r\n");
    strcpy(report.findings[0].scene.arrows[0].label[0], "\033[31m\xe2\x80\xae reads");
    strcpy(report.findings[0].scene.bars[1].label[0], "\033c\t");
    draw();
    assert_false(says("\033[5m"));
    assert_false(says("\033]"));
    assert_false(says("\033c"));
    assert_false(says("\033[31m"));
    assert_false(says("\xe2\x80\xae"));
    for (const char *at = text; *at; at++)
        assert_true((unsigned char)*at >= ' ' || *at == '\n' || *at == '\033');
}

static void colours_change_nothing_else(void **state)
{
    char *plain, *to;
    static char colored[1 << 16];

    (void)state;
    draw();
    plain = strdup(text);
    look.color = true;
    draw();
    assert_true(says("\033[0;1;7;38;5;203m ✗ BROKEN "));
    to = colored;
    for (const char *at = text; *at; at++)
        if (*at == '\033')
            at = strchr(at, 'm');
        else
            *to++ = *at;
    /* The picture itself; headings have a ground in place of a line, and steps in place of a circle. */
    for (int i = 0; i < 3; i++) {
        static const char *const lanes[] = { "\n lock server", "\n client B", "\n resource" };
        const char *from = strstr(plain, lanes[i]);
        char *line = strndup(from, strcspn(from + 1, "\n") + 1);

        assert_non_null(strstr(colored, line));
        free(line);
    }
    assert_non_null(strstr(colored, "\n1 A gets the lock"));
    free(plain);
}

static void crowds_are_folded(void **state)
{
    static struct lane lanes[LANES_MAX + 1];
    struct scene *scene = &report.findings[0].scene;
    int rows = 0;

    (void)state;
    for (int i = 0; i < LANES_MAX; i++)
        lanes[i] =
            (struct lane){ i % 3 == 2 ? LANE_RESOURCE : LANE_CLIENT,
                           PHRASE("a participant with a long name", "名字很长很长很长的参与者"),
                           PHRASE(NULL, NULL) };
    scene->lanes = lanes;
    scene->lane_count = LANES_MAX;
    while (scene->arrow_count < SCENE_ARROWS) {
        int i = (int)scene->arrow_count;

        LABEL(add_arrow(scene, (enum arrow_kind)(i % 8), i % LANES_MAX, (i + 4) % LANES_MAX,
                        i * 33.0),
              "a label that needs room", "需要很多地方的标签");
    }
    while (scene->bar_count < SCENE_BARS) {
        int i = (int)scene->bar_count;

        LABEL(add_bar(scene, (enum bar_kind)(i % 7), i % LANES_MAX, i % 7, i * 50.0, i * 50.0 + i),
              "busy, and more", "忙，等等");
    }
    while (scene->mark_count < SCENE_MARKS) {
        int i = (int)scene->mark_count;

        scene->marks[scene->mark_count++] =
            (struct mark){ (enum mark_kind)(i % 4), i % LANES_MAX, i * 170.0, { "mark", "标记" } };
    }
    for (int lang = 0; lang < LANGS; lang++) {
        look.lang = (enum lang)lang;
        draw();
        assert_true(widest() <= 80);
        for (rows = 0; strstr(lines[rows], "✗") != lines[rows] + 1; rows++)
            ;
        assert_true(rows < 9 * 7 + 10);
        assert_true(says(lang == LANG_EN ? "accepted" : "被接受"));
    }
}

static void several_servers_get_one_stroke(void **state)
{
    static const struct lane lanes[] = {
        { LANE_CLIENT, PHRASE("client A", ""), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("node 1", ""), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("node 2", ""), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("node 3", ""), PHRASE(NULL, NULL) },
    };
    struct scene *scene = &report.findings[0].scene;
    int column;

    (void)state;
    *scene = (struct scene){ .end_ms = 1000, .lanes = lanes, .lane_count = 4, .high_lane = -1 };
    add_bar(scene, BAR_LEASE, 1, 0, 0, 500);
    add_bar(scene, BAR_LEASE, 2, 0, 0, 500);
    for (int node = 1; node <= 3; node++) /* the third has no lease of it */
        add_arrow(scene, ARROW_LET, 0, node, 500)->client = 0;
    report.ways = 1;
    draw();
    column = column_of(lane(0, "node 2", -1), "▾", 0);
    assert_true(column > 0);
    assert_int_equal(column_of(lane(0, "node 1", -1), "┊", 0), column);
    assert_int_equal(column_of(lane(0, "node 3", -1), "▾", 0), -1);
    assert_int_equal(column_of(lane(0, "node 3", -1), "┊", 0), -1);
}

static void a_client_asks_for_one_of_several_locks(void **state)
{
    static const struct lane lanes[] = {
        { LANE_CLIENT, PHRASE("client A", ""), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("goods", ""), PHRASE(NULL, NULL) },
        { LANE_SERVER, PHRASE("money", ""), PHRASE(NULL, NULL) },
    };
    struct scene *scene = &report.findings[0].scene;

    (void)state;
    *scene = (struct scene){ .end_ms = 1000, .lanes = lanes, .lane_count = 3, .high_lane = -1 };
    add_bar(scene, BAR_WAITS, 0, 0, 400, 900);
    add_arrow(scene, ARROW_ASK, 0, 2, 100)->client = 0; /* granted at once: nothing to see */
    add_arrow(scene, ARROW_ASK, 0, 2, 400)->client = 0;
    report.ways = 1;
    draw();
    assert_int_equal(column_of(lane(0, "money", -1), "▾", 0),
                     column_of(lane(0, "client A", 0), "┄", 0));
    scene->lane_count = 2; /* with a single server the line of the wait says it */
    scene->arrows[1].to = 1;
    draw();
    assert_int_equal(column_of(lane(0, "goods", -1), "▾", 0), -1);
}

static void ways_that_are_compared_have_one_axis(void **state)
{
    (void)state;
    report.findings[1].scene.end_ms = 11000;
    draw();
    assert_string_equal(lane(0, "client A", -1), lane(1, "client A", -1));
    assert_true(column_of(lane(0, "client A", -1), "10s", 0) > 0);
    report.findings[1].scene.end_ms = 40000; /* the first would be too small */
    draw();
    assert_string_not_equal(lane(0, "client A", -1), lane(1, "client A", -1));
}

static void answers_do_not_cover_each_other(void **state)
{
    struct scene *scene = &report.findings[0].scene;

    (void)state;
    LABEL(add_arrow(scene, ARROW_WRONG, 0, 3, 6000), "late write: 18", "迟到的写入：18");
    LABEL(add_arrow(scene, ARROW_WRONG, 0, 3, 6250), "late write: 17", "迟到的写入：17");
    draw();
    for (const char *at = strstr(text, "accepte"); at; at = strstr(at + 1, "accepte"))
        assert_int_equal(strncmp(at, "accepted", 8), 0);
}

static void a_long_note_goes_on_below(void **state)
{
    struct way ways[3] = { pause_ways[0], pause_ways[1], pause_ways[2] };
    struct experiment experiment = pause_experiment;

    (void)state;
    ways[0].note.in[LANG_EN] =
        "a note that needs more room than the rest of its line has in eighty "
        "columns";
    experiment.ways = ways;
    report.experiment = &experiment;
    draw();
    assert_true(says(" NAIVE  a note that needs more room than the rest of its line has in eighty\n"
                     "        columns ───"));
}

/* Capitals among Chinese are names and parameters: "wire=redisson" is to be copied. */
static void a_chinese_heading_keeps_its_case(void **state)
{
    struct way ways[3] = { pause_ways[0], pause_ways[1], pause_ways[2] };
    struct experiment experiment = pause_experiment;

    (void)state;
    ways[0].title = (struct phrase)PHRASE("Ours, sync=1", "Holdfast，sync=1");
    experiment.ways = ways;
    report.experiment = &experiment;
    draw();
    assert_true(says(" OURS, SYNC=1  "));
    look.lang = LANG_ZH;
    draw();
    assert_true(says(" Holdfast，sync=1  "));
}

static void a_write_keeps_its_label(void **state)
{
    (void)state;
    /* No room but over the stroke of a read, which is seen in another row. */
    report.findings[0].scene.arrows[1].at_ms = 4000;
    report.findings[0].scene.arrows[2].at_ms = 4700;
    report.findings[0].scene.arrows[3].at_ms = 5200;
    draw();
    assert_true(column_of(lane(0, "client B", 2), "writes 19 │", 0) > 0 ||
                column_of(lane(0, "client B", 1), "writes 19 │", 0) > 0);
    assert_true(says("┊"));
    assert_int_equal(column_of(lane(0, "client B", 1), "┊", 20),
                     column_of(lane(0, "resource", 0), "┷", 20));
}

static void the_same_report_looks_the_same(void **state)
{
    char *first;

    (void)state;
    draw();
    first = strdup(text);
    draw();
    assert_string_equal(first, text);
    free(first);
}

static void chinese_lines_do_not_begin_with_punctuation(void **state)
{
    static const char *const marks[] = { "，", "。", "；", "）" };

    (void)state;
    look.lang = LANG_ZH;
    for (look.columns = 80; look.columns < 120; look.columns++) {
        draw();
        for (int i = 0; i < line_count; i++)
            for (int j = 0; j < 4; j++)
                assert_int_not_equal(
                    strncmp(lines[i] + strspn(lines[i], " "), marks[j], strlen(marks[j])), 0);
    }
}

/* ---- curves -------------------------------------------------------------------------------------------- */

static void make_plot(struct plot *plot, size_t points)
{
    *plot = (struct plot){ .charts = 2,
                           .points = points,
                           .x_title = PHRASE("traders at once", "同时交易者") };
    plot->chart[0].title = (struct phrase)PHRASE("Sales a second", "每秒成交");
    plot->chart[0].note = (struct phrase)PHRASE("higher is better", "越高越好");
    plot->chart[1].title = (struct phrase)PHRASE("Retries for each sale", "每次成交的重试次数");
    plot->chart[1].logarithmic = true;
    for (size_t i = 0; i < points; i++)
        plot->x[i] = (double)(1 << i);
    for (size_t i = 0; i < 2; i++) {
        plot->chart[i].series_count = 2;
        for (size_t j = 0; j < 2; j++) {
            struct series *series = &plot->chart[i].series[j];

            *series = (struct series){ .way = (int)j,
                                       .title = PHRASE("one lock", "一把锁"),
                                       .count = points - j };
            for (size_t k = 0; k < series->count; k++)
                series->mid[k] = series->low[k] = series->high[k] =
                    i == 0 ? 1000.0 * (double)(k + 1) : 0.25 * (double)(k * k);
        }
    }
    plot->chart[0].series[0].high[1] = 2900;
    strcpy(plot->chart[0].series[1].note[0], "9280/s: the server is busy");
    strcpy(plot->checked[0], "Nothing was sold twice.");
}

static void curves_are_bars_with_figures(void **state)
{
    (void)state;
    make_plot(&report.plot, 5);
    draw();
    assert_int_equal(widest(), 80);
    assert_true(says(" Sales a second  higher is better"));
    assert_true(says("(logarithmic scale)"));
    assert_true(column_of(lane(0, "traders at once", 0), "16", 0) > 0);
    /* The last point of the second way was not measured. */
    assert_true(says("1000        2000        3000        4000        5000\n"));
    assert_true(says("1000        2000        3000        4000           -\n"));
    assert_true(says("2000-2900"));
    assert_true(says("9280/s: the server is busy"));
    assert_true(says("Nothing was sold twice."));
    /* Figures stand below their point, and a larger one has a higher bar. */
    assert_int_equal(column_of(lane(0, "one lock", 1), "5000", 0) + 2,
                     column_of(lane(0, "traders at once", 0), "16", 0));
    assert_true(column_of(lane(0, "one lock", -1), "██████", 0) > 60);
    assert_true(column_of(lane(0, "one lock", 0), "▃▃▃▃▃▃", 0) < 30);
}

static void curves_fit_in_all_looks(void **state)
{
    (void)state;
    for (size_t points = 1; points <= POINTS_MAX; points++)
        for (int i = 0; i < 4; i++) {
            look.lang = i & 1 ? LANG_ZH : LANG_EN;
            look.utf8 = i & 2;
            make_plot(&report.plot, points);
            draw();
            assert_true(widest() <= 80);
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(strokes_stand_at_their_moment_and_connect_lanes),
        TEST(clients_differ_without_colours),
        TEST(expiry_and_answers_are_joined_to_their_lane),
        TEST(values_stand_on_their_line),
        TEST(no_line_is_too_wide),
        TEST(without_utf8_it_is_ascii_and_english),
        TEST(verdicts_say_what_was_not_expected),
        TEST(it_says_how_often),
        TEST(steps_and_code),
        TEST(hostile_texts_are_harmless),
        TEST(colours_change_nothing_else),
        TEST(crowds_are_folded),
        TEST(several_servers_get_one_stroke),
        TEST(a_client_asks_for_one_of_several_locks),
        TEST(ways_that_are_compared_have_one_axis),
        TEST(answers_do_not_cover_each_other),
        TEST(a_long_note_goes_on_below),
        TEST(a_chinese_heading_keeps_its_case),
        TEST(a_write_keeps_its_label),
        TEST(the_same_report_looks_the_same),
        TEST(chinese_lines_do_not_begin_with_punctuation),
        TEST(curves_are_bars_with_figures),
        TEST(curves_fit_in_all_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
