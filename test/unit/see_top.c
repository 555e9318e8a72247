/* SPDX-License-Identifier: MIT */
/* What `holdfast top` draws, without a terminal: at 80x24, 120x40 and 40x10, with hostile names, and what keys do. */
#include "see_views.h"

#include "top/ui.h"

#include <locale.h>

static struct see_model model;
static struct views views;
static struct ui ui;
static struct screen screen;
static struct see_source_info info = {
    .name = "shop", .location = "redis://10.0.0.4", .engine = "redis", .opened = true
};
static char text[64 * 1024];

static int setup(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_ALL, "C.UTF-8"));
    see_model_init(&model);
    views_clear(&views);
    ui_init(&ui);
    ui.infos = &info;
    ui.store_count = 1;
    assert_true(screen_init(&screen, 24, 80, true));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ui_done(&ui);
    screen_done(&screen);
    see_model_done(&model);
    views_clear(&views);
    return 0;
}

static void size(int rows, int cols, bool utf8)
{
    screen_done(&screen);
    assert_true(screen_init(&screen, rows, cols, utf8));
}

static void show(int64_t now_ms)
{
    assert_true(see_model_update(&model, &views.view, NULL, now_ms));
    views_clear(&views);
}

/* All lines, each with its line feed. */
static const char *draw(int64_t now_ms)
{
    size_t used = 0;

    ui_refresh(&ui, &model, now_ms);
    ui_draw(&ui, &screen);
    for (int row = 0; row < screen.rows; row++) {
        screen_row(&screen, row, text + used, sizeof text - used - 2);
        used += strlen(text + used);
        text[used++] = '\n';
    }
    text[used] = 0;
    for (size_t i = 0; i < used; i++)
        assert_true(text[i] == '\n' || (unsigned char)text[i] >= 0x20);
    return text;
}

static void has(const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("no '%s' in:\n%s", wanted, text);
}

static void has_not(const char *unwanted)
{
    if (strstr(text, unwanted))
        fail_msg("'%s' in:\n%s", unwanted, text);
}

/* The style of the first cell of a row that has this text. */
static int cell_style(int row, const char *wanted)
{
    for (int col = 0; col < screen.cols; col++)
        if (strcmp(screen.cells[row * screen.cols + col].text, wanted) == 0)
            return screen.cells[row * screen.cols + col].style & STYLE_MASK;
    fail_msg("no cell '%s' in row %d", wanted, row);
    return -1;
}

static void set_or_unset(const char *variable, const char *value)
{
    if (value)
        setenv(variable, value, 1);
    else
        unsetenv(variable);
}

static int line_of(const char *wanted)
{
    const char *at = strstr(text, wanted);
    int line = 0;

    if (!at)
        fail_msg("no '%s' in:\n%s", wanted, text);
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    return line;
}

static void type(const char *word)
{
    while (*word)
        assert_int_equal(ui_key(&ui, (unsigned char)*word++, NOW), UI_NOTHING);
}

static void fill(void)
{
    struct hfi_entry *entry = views_name(&views, "deploy");

    views_hold(entry, 1794788786763162, "ada@ci-3:18320 release 2.14.1", 372000, 26000)->watched =
        true;
    for (uint64_t i = 0; i < 7; i++)
        views_wait(entry, 50 + i, "eve@ci-1:20041 hotfix", 358000 - (int64_t)i * 1000);
    views_hold(views_name(&views, "nightly"), 1794783637001182, "backup.sh", 5520000, -1);
    views_hold(views_name(&views, "shard/0041"), 1794789157452880, "worker", 310, -1);
}

static void test_list(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    has("holdfast top  ● shop redis://10.0.0.4");
    has("3 names  7 wait");
    assert_int_equal(line_of("  NAME "), 3);
    assert_int_equal(line_of("◆ deploy "), 4);
    has(" 6m12s    7  release 2.… ci-3:18320 …763162");
    has("● nightly ");
    has("1h32m    -  backup.sh :100");
    has("310ms");
    assert_int_equal(line_of("/ filter  s sort  g graph"), 23);
    has_not("held by");
}

static void test_sizes(void **state)
{
    (void)state;
    fill();
    show(NOW);
    size(40, 120, true);
    draw(NOW);
    has("1794788786763162");
    has("release 2.14.1 ci-3:18320");
    size(10, 40, true);
    draw(NOW);
    has("◆ deploy ");
    has("6m12s    7");
    has_not("release");
    for (int rows = 1; rows < 12; rows++)
        for (int cols = 1; cols < 60; cols += 3) { /* whatever a window is dragged to */
            size(rows, cols, rows % 2);
            ui.open = cols % 2;
            ui.page = (enum ui_page)(cols % 4);
            draw(NOW);
        }
}

static void test_open(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    ui_key(&ui, UI_ENTER, NOW);
    draw(NOW);
    has("◆ deploy ─");
    has("7 wait ─");
    has("held by release 2.14.1 ci-3:18320 for 6m12s, listens");
    has("26s of 26s");
    has("1  hotfix");
    has("waits 5m58s");
    has("… 3 more wait");
    ui_key(&ui, UI_DOWN, NOW);
    draw(NOW);
    has("● nightly ─");
    has("nobody waits");
    ui_key(&ui, UI_ESCAPE, NOW);
    draw(NOW);
    has_not("nobody waits");
}

/* No byte of a name or label reaches the terminal as it is, and widths are those of the terminal. */
static void test_hostile(void **state)
{
    static const char zalgo[] = "z\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81"
                                "\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81";

    (void)state;
    views_hold(views_bytes(&views, "\x1b]0;x\a\x1b[2J", 10), 1,
               "l\x1b[31m\x9b"
               "1m",
               1000, -1);
    views_hold(views_bytes(&views, "\xcc\x81mark", 6), 2,
               "\xe2\x80\xae"
               "evil",
               1000, -1);
    views_hold(views_bytes(&views, "n\0ul\n", 5), 3, "%s%n", 1000, -1);
    views_hold(views_name(&views, zalgo), 4, zalgo, 1000, -1);
    views_hold(views_name(&views, "\xe9\x83\xa8\xe7\xbd\xb2"), 5, "x", 1000, -1);
    views_hold(views_bytes(&views, "\xff\xfe", 2), 6, "x", 1000, -1);
    show(NOW);
    size(24, 120, true);
    draw(NOW);
    has("\\x1b]0;x\\x07\\x1b[2J");
    has("l\\x1b[31m\\x9b1m");
    has("\\xe2\\x80\\xaeevil");
    has("n\\x00ul\\x0a");
    has("%s%n");
    has("\\xff\\xfe");
    has("部署");
    for (int row = 0; row < screen.rows; row++)
        for (int col = 0; col < screen.cols; col++)
            assert_true(strlen(screen.cells[row * screen.cols + col].text) < CELL_BYTES);
    /* The two wide characters take four columns: the column behind is where it is for others. */
    for (int row = 5, kind = 0; row < 10; row++) {
        for (kind = 0; strcmp(screen.cells[3 * 120 + kind].text, "K") != 0; kind++)
            ;
        assert_string_equal(screen.cells[row * 120 + kind].text, "m");
    }
    ui_key(&ui, UI_ENTER, NOW);
    draw(NOW);
    size(24, 80, false);
    draw(NOW);
    for (const char *c = text; *c; c++)
        assert_true((unsigned char)*c < 0x80);
    has("= ");
    has("\\xe9\\x83");
}

static void test_empty(void **state)
{
    (void)state;
    draw(NOW);
    has("looking...");
    show(NOW);
    draw(NOW);
    has("Nobody holds or waits for anything.");
    has("Try: holdfast run");
    fill();
    show(NOW);
    ui_key(&ui, '/', NOW);
    ui_key(&ui, 'f', NOW);
    ui_key(&ui, 'o', NOW);
    ui_key(&ui, 'o', NOW);
    draw(NOW);
    has("No name has 'foo'");
    has("0 of 3");
    ui_key(&ui, UI_ESCAPE, NOW);
    draw(NOW);
    has("deploy");
    see_model_absent(&model, "/srv/locks", NOW);
    draw(NOW);
    has("There is no store yet at");
}

static void test_away(void **state)
{
    (void)state;
    fill();
    show(NOW);
    see_model_away(&model, NOW + 1000, "Connection refused", NOW + 17000);
    draw(NOW + 13000);
    has("redis has not answered for 12s; trying again in 4s");
    has("310ms"); /* ages stop */
    has("Connection refused");
    /* In 80 columns there is room for why: what stands in the line above is not said again. */
    see_model_away(&model, NOW + 1000, "open redis://10.0.0.4: 10.0.0.4:6379: Connection refused",
                   NOW + 17000);
    draw(NOW + 13000);
    has("trying again in 4s  10.0.0.4:6379:");
    ui.once = true;
    draw(NOW + 13000);
    has(" redis does not answer  10.0.0.4:6379: Connection refused");
    has_not("trying");
}

/* No error yet, but no answer either. */
static void test_late(void **state)
{
    (void)state;
    fill();
    show(NOW);
    see_model_asked(&model, NOW + 1000);
    draw(NOW + 1000 + SEE_LATE_MS);
    has_not("has not answered");
    draw(NOW + 6000);
    has("redis has not answered for 5s; trying again now");
    has("310ms");
    see_model_away(&model, NOW + 7000, "gone", NOW + 9000);
    draw(NOW + 8000);
    has("redis has not answered for 7s; trying again in 1s");
    fill();
    show(NOW + 9000);
    draw(NOW + 9000);
    has_not("has not answered");
    /* A question that was to be answered later; and one more, while the first is open. */
    see_model_asked(&model, NOW + 20000);
    draw(NOW + 20000 + SEE_LATE_MS);
    has_not("has not answered");
    see_model_asked(&model, NOW + 24000);
    draw(NOW + 24000);
    has("redis has not answered for 4s");
    see_model_latency(&model, 100); /* an answer */
    draw(NOW + 24000);
    has_not("has not answered");
    see_model_asked(&model, NOW + 30000);
    see_model_asked(&model, NOW + 25000); /* asked before it was due */
    draw(NOW + 29000);
    has("redis has not answered for 4s");
}

/* What is typed is seen, whatever else there is to say; a list that is short is shown from its first row. */
static void test_filter(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    has("3 names  7 wait");
    ui_key(&ui, UI_ENTER, NOW);
    ui_key(&ui, UI_ESCAPE, NOW);
    for (int i = 0; i < 5; i++) {
        ui_key(&ui, 's', NOW);
        draw(NOW);
        assert_int_equal(line_of(" deploy ") + line_of(" nightly ") + line_of(" shard/0041 "),
                         4 + 5 + 6);
    }
    has("Sorted by trouble");
    ui_key(&ui, '/', NOW);
    type("night");
    draw(NOW);
    has("filter night_  1 of 3");
    has("1 of 3 names");
    see_model_away(&model, NOW, "gone", NOW + 1000);
    draw(NOW);
    has("filter night_");
    ui_key(&ui, UI_ESCAPE, NOW);
    ui.glob = "x*";
    draw(NOW + 7000);
    has("No name matches 'x*'");
    has("0 of 3 names");
}

/* Scrolled to the end of a page, and not beyond; the key that shows all keys is always there. */
static void test_page_end(void **state)
{
    (void)state;
    size(15, 60, true);
    ui_key(&ui, '?', NOW);
    draw(NOW);
    has("? keys");
    has_not("idle: kept");
    for (int i = 0; i < 100; i++)
        ui_key(&ui, UI_DOWN, NOW);
    draw(NOW);
    assert_int_equal(line_of("idle: kept"), 13);
    ui_key(&ui, UI_UP, NOW);
    draw(NOW);
    has_not("idle: kept");
    ui_key(&ui, UI_END, NOW);
    draw(NOW);
    assert_int_equal(line_of("idle: kept"), 13);
}

static void test_no_waiters(void **state)
{
    (void)state;
    fill();
    views.view.waiters_tracked = false;
    info.engine = "memcached";
    show(NOW);
    draw(NOW);
    ui_key(&ui, UI_ENTER, NOW);
    draw(NOW);
    has("memcached cannot list waiters");
    ui_key(&ui, 'g', NOW);
    draw(NOW);
    has("memcached cannot list waiters");
    info.engine = "redis";
}

/* While the cursor is in the list its rows keep their places. */
static void test_no_jump(void **state)
{
    struct hfi_entry *entry;

    (void)state;
    views_hold(views_name(&views, "b"), 1, "x", 0, -1);
    views_hold(views_name(&views, "c"), 2, "x", 0, -1);
    show(NOW);
    draw(NOW);
    ui_key(&ui, UI_DOWN, NOW);
    draw(NOW);
    views_hold(views_name(&views, "a"), 3, "x", 0, -1);
    views_hold(views_name(&views, "b"), 1, "x", 0, -1);
    entry = views_name(&views, "c");
    views_hold(entry, 2, "x", 0, -1);
    views_wait(entry, 9, "w", 0);
    show(NOW + 100);
    draw(NOW + 100);
    has("1 change");
    assert_int_equal(line_of("● b "), 4);
    assert_int_equal(line_of("◆ c "), 5);
    has_not("● a ");
    draw(NOW + UI_SETTLE_MS + 1);
    assert_int_equal(line_of("◆ c "), 4);
    assert_int_equal(line_of("● a "), 5);
    assert_int_equal(ui.cursor, 0); /* it went with its row */
    has_not("change");
}

static void test_break(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    ui_key(&ui, 'b', NOW);
    draw(NOW);
    has("End the lease of deploy, token 1794788786763162");
    has("release 2.14.1");
    has("The next of 7 waiters gets it");
    type("deplo");
    assert_int_equal(ui_key(&ui, UI_ENTER, NOW), UI_NOTHING);
    draw(NOW);
    has("That is not the name: nothing was broken.");
    ui_key(&ui, 'b', NOW);
    type("deployq");
    ui_key(&ui, UI_BACKSPACE, NOW);
    assert_int_equal(ui_key(&ui, UI_ENTER, NOW), UI_BREAK);
    assert_int_equal(ui.token, 1794788786763162);
    ui_key(&ui, 'b', NOW);
    type("deploy");
    ui_key(&ui, UI_ESCAPE, NOW);
    assert_int_equal(ui.input, INPUT_NONE);
    ui.may_break = false;
    ui_key(&ui, 'b', NOW);
    assert_int_equal(ui.input, INPUT_NONE);
    draw(NOW);
    has("cannot break a lease");
}

/* The name may change hands while its name is typed: the lease that was shown is meant. */
static void test_break_is_exact(void **state)
{
    (void)state;
    views_hold(views_name(&views, "x"), 41, "first", 0, -1);
    show(NOW);
    draw(NOW);
    ui_key(&ui, 'b', NOW);
    views_hold(views_name(&views, "x"), 42, "second", 0, -1);
    show(NOW + 10);
    draw(NOW + 10);
    type("x");
    assert_int_equal(ui_key(&ui, UI_ENTER, NOW), UI_BREAK);
    assert_int_equal(ui.token, 41);
}

static void test_circle(void **state)
{
    static const char *const names[] = { "ledger", "order", "stock" };
    static const char *const labels[] = { "settle", "checkout", "restock" };
    struct see_circle *circle = calloc(1, sizeof *circle);

    (void)state;
    assert_non_null(circle);
    for (uint64_t i = 0; i < 3; i++) {
        struct hfi_entry *entry = views_name(&views, names[i]);

        views_hold(entry, 71 + i, labels[i], 48000, -1);
        views_wait(entry, 71 + (i + 2) % 3, labels[(i + 2) % 3], 47000);
    }
    show(NOW);
    circle->count = 3;
    circle->since_ms = NOW - 47000;
    circle->links = calloc(3, sizeof *circle->links);
    assert_non_null(circle->links);
    for (size_t i = 0; i < 3; i++) {
        struct see_link *link = &circle->links[i];

        *link = (struct see_link){ .token = 71 + i, .session = 71 + i, .since_ms = NOW - 47000 };
        strcpy(link->label, labels[i]);
        link->name_len = strlen(names[(i + 1) % 3]);
        memcpy(link->name, names[(i + 1) % 3], link->name_len);
        views_row(&model, names[i])->state = SEE_DEADLOCK;
    }
    model.circles = circle;
    model.circle_count = 1;
    draw(NOW);
    has("↻ DEADLOCK for 47s: settle → checkout → restock → settle");
    has("g shows it");
    assert_int_equal(line_of("↻ ledger"), 4);
    ui_key(&ui, 'g', NOW);
    draw(NOW);
    has("circle of 3, for 47s");
    has("1  settle has ledger");
    has("waits 47s for order, which 2 has");
    has("holdfast break -S shop ledger --token 71");
    info.name = ""; /* a store that was given by its URL */
    draw(NOW);
    info.name = "shop";
    has("holdfast break -S redis://10.0.0.4 ledger --token 71");
    size(24, 40, true); /* too narrow for all of it: no part of a command */
    draw(NOW);
    has_not("holdfast break");
    has("open what 1 has, and press b");
}

/* The last line: what the keys do now. */
static void test_foot(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    has("b break");
    has("q quit  ? keys");
    size(12, 40, true);
    draw(NOW);
    has("q quit  ? keys");
    size(24, 80, true);
    info.caps = HF_CAP_BREAK;
    ui.may_break = true;
    ui_key(&ui, UI_ENTER, NOW);
    ui_key(&ui, 'b', NOW);
    draw(NOW);
    has("Esc back");
    has_not("/ filter");
}

/* A page that goes on below says so. */
static void test_more_lines(void **state)
{
    (void)state;
    ui_key(&ui, '?', NOW);
    draw(NOW);
    has(" more: Page Down");
    ui_key(&ui, UI_END, NOW);
    draw(NOW);
    has_not("more: Page Down");
    has("idle: kept, but not in use");
}

/* What was never seen is not known: no number, no "nobody". An outage is red, in place of a healthy store's green. */
static void test_nothing_is_known(void **state)
{
    (void)state;
    draw(NOW);
    has("holdfast top  - shop");
    has("- names");
    has("- waits");
    has_not("0 name");
    see_model_away(&model, NOW, "open redis://10.0.0.4: Connection refused", NOW + 1000);
    draw(NOW);
    has("holdfast top  ✗ shop");
    has("- names");
    has_not("0 names");
    ui_key(&ui, 'g', NOW);
    draw(NOW);
    has("It is not known who waits: redis does not answer.");
    has_not("Nobody");
    assert_int_equal(cell_style(0, "✗"), STYLE_DEADLOCK);
}

static void test_an_outage_later(void **state)
{
    (void)state;
    fill();
    show(NOW);
    draw(NOW);
    has("holdfast top  ● shop");
    assert_int_equal(cell_style(0, "●"), STYLE_GOOD);
    see_model_away(&model, NOW + 1000, "Connection refused", NOW + 2000);
    draw(NOW + 1000);
    has("holdfast top  ✗ shop");
    has("3 names"); /* what was true then, as the line of the alarm says */
    ui_key(&ui, 'g', NOW);
    draw(NOW + 1000);
    has("It is not known who waits now: redis does not answer.");
    has_not("Nobody waits");
}

/* There is no store yet: nothing is wrong, and nothing is there. */
static void test_no_store_yet(void **state)
{
    (void)state;
    see_model_absent(&model, "/nonexistent/locks", NOW);
    draw(NOW);
    has("holdfast top  ◌ shop");
    assert_int_equal(cell_style(0, "◌"), STYLE_DIM);
}

/* The locale of the terminal: one that says UTF-8 and is not installed is taken at its word. */
static void test_locale(void **state)
{
    static const struct {
        const char *all, *ctype, *lang;
        bool utf8;
    } cases[] = {
        { NULL, NULL, "xx_XX.UTF-8", true },    { NULL, NULL, "xx_XX.utf8@euro", true },
        { NULL, "xx_XX.UTF-8", "C", true },     { "xx_XX.UTF-8", "C", "C", true },
        { "C", NULL, "xx_XX.UTF-8", false },    { "", "", "xx_XX.UTF-8", true },
        { NULL, "xx_XX", "C.UTF-8", false },    { NULL, NULL, NULL, false },
        { NULL, NULL, "xx_XX.GB18030", false }, { NULL, NULL, "C.UTF-8", true },
        { NULL, NULL, "UTF-8", true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set_or_unset("LC_ALL", cases[i].all);
        set_or_unset("LC_CTYPE", cases[i].ctype);
        set_or_unset("LANG", cases[i].lang);
        assert_non_null(setlocale(LC_ALL, "C"));
        if (screen_locale() != cases[i].utf8)
            fail_msg("case %zu", i);
        assert_int_equal(MB_CUR_MAX > 1, cases[i].utf8);
    }
}

/* What stands in a command may be pasted. */
static void test_shell_words(void **state)
{
    char word[UI_SHELL_MAX], longest[512];

    (void)state;
    assert_string_equal(ui_shell_word("a/b:1", 5, word), "a/b:1");
    assert_string_equal(ui_shell_word("", 0, word), "$''");
    assert_string_equal(ui_shell_word("-n", 2, word), "$'-n'");
    assert_string_equal(ui_shell_word("a b", 3, word), "$'a b'");
    assert_string_equal(ui_shell_word("x'; reboot; '", 13, word), "$'x\\x27; reboot; \\x27'");
    assert_string_equal(ui_shell_word("\\x1b\033\0", 6, word), "$'\\x5cx1b\\x1b\\x00'");
    memset(longest, 0xff, sizeof longest);
    ui_shell_word(longest, sizeof longest, word);
    assert_int_equal(strlen(word), 4 * sizeof longest + 3);
}

static void test_pages(void **state)
{
    (void)state;
    fill();
    show(NOW);
    ui_key(&ui, 'g', NOW);
    draw(NOW);
    has("Nobody waits in a circle. The longest queues:");
    has("◆ deploy, held by release 2.14.1 ci-3:18320");
    ui_key(&ui, 'd', NOW);
    draw(NOW);
    has("It has not looked yet.");
    ui_key(&ui, '?', NOW);
    draw(NOW);
    has("filter by name, label, host, token");
    ui_key(&ui, UI_ESCAPE, NOW);
    draw(NOW);
    has("  NAME ");
    assert_int_equal(ui_key(&ui, '2', NOW), UI_NOTHING);
    draw(NOW);
    has("There is no store 2.");
    assert_int_equal(ui_key(&ui, 'q', NOW), UI_QUIT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_list),
        TEST(test_sizes),
        TEST(test_open),
        TEST(test_hostile),
        TEST(test_empty),
        TEST(test_away),
        TEST(test_no_waiters),
        TEST(test_no_jump),
        TEST(test_break),
        TEST(test_circle),
        TEST(test_shell_words),
        TEST(test_pages),
        TEST(test_late),
        TEST(test_break_is_exact),
        TEST(test_filter),
        TEST(test_page_end),
        TEST(test_nothing_is_known),
        TEST(test_an_outage_later),
        TEST(test_no_store_yet),
        TEST(test_locale),
        TEST(test_foot),
        TEST(test_more_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
