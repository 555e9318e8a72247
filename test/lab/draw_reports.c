/* SPDX-License-Identifier: MIT */
#include "draw_reports.h"

#include <assert.h>
#include <string.h>

const char *shown_code(const char *name, enum lang lang)
{
    (void)lang;
    if (strcmp(name, "naive") == 0)
        return "while (!redis_ok(\"SET {lock} %s NX PX %d\", id, TTL)) /* 1 */\n"
               "    again(100);\n"
               "stock = redis_int(\"GET {stock}\");\n"
               "/* a pause comes here */\n"
               "redis_do(\"SET {stock} %d\", stock - 1); /* 5! nothing asks for the holder */\n";
    if (strcmp(name, "long") == 0)
        return "status = hf_guard_set_with_a_long_name(store, \"stock\", HF_CSTRING, token, value, "
               "length, and_more_arguments, that_do_not_fit, on_one_line, &err); /* 5! refused */\n"
               "\tif (a < b && c > d) // <not> a \"step\"\n";
    return NULL;
}

/* ---- small makers ------------------------------------------------------------------------------ */

static void say(char label[LANGS][LABEL_ROOM], const char *en, const char *zh)
{
    snprintf(label[LANG_EN], LABEL_ROOM, "%s", en);
    snprintf(label[LANG_ZH], LABEL_ROOM, "%s", zh);
}

static void bar(struct scene *scene, enum bar_kind kind, int lane, int client, double from,
                double to, const char *en, const char *zh)
{
    struct bar *bar = &scene->bars[scene->bar_count++];

    assert(scene->bar_count <= SCENE_BARS);
    *bar = (struct bar){ kind, lane, client, from, to, { "" } };
    say(bar->label, en, zh);
}

static void arrow(struct scene *scene, enum arrow_kind kind, int from, int to, int client,
                  double at, const char *en, const char *zh)
{
    struct arrow *arrow = &scene->arrows[scene->arrow_count++];

    assert(scene->arrow_count <= SCENE_ARROWS);
    *arrow = (struct arrow){ kind, from, to, client, at, { "" } };
    say(arrow->label, en, zh);
}

static void mark(struct scene *scene, enum mark_kind kind, int lane, double at, const char *en,
                 const char *zh)
{
    struct mark *mark = &scene->marks[scene->mark_count++];

    *mark = (struct mark){ kind, lane, at, { "" } };
    say(mark->label, en, zh);
}

static void number(struct scene *scene, int step, int lane, double at, bool bad)
{
    scene->numbers[scene->number_count++] = (struct number){ step, lane, at, bad };
}

static void begin(struct scene *scene, const struct lane *lanes, double end)
{
    scene->lanes = lanes;
    scene->end_ms = end;
    scene->high_lane = -1;
    while (lanes[scene->lane_count].kind != LANE_END)
        scene->lane_count++;
}

/* ---- a pause: two ways -------------------------------------------------------------------------- */

static const struct lane pause_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("resource", "资源"), PHRASE("stock", "库存") },
    LANES_END,
};

static void pause_scene(struct scene *scene, bool fenced)
{
    begin(scene, pause_lanes, 8000);
    bar(scene, BAR_HOLDS, 0, 0, 50, 800, "A holds", "A 持有");
    bar(scene, BAR_PAUSED, 0, 0, 800, 6200, "paused (SIGSTOP), 5.4s", "暂停（SIGSTOP）5.4s");
    bar(scene, BAR_HOLDS, 0, 0, 6200, 6800, "A holds", "A 持有");
    bar(scene, BAR_LEASE, 1, 0, 50, 3000, fenced ? "A, token 33" : "lease of A", "A 的锁");
    bar(scene, BAR_LEASE, 1, 1, 3100, 5200, "lease of B", "B 的锁");
    bar(scene, BAR_WAITS, 2, 1, 1000, 3100, fenced ? "waits" : "tries, 4 times", "排队等待");
    bar(scene, BAR_HOLDS, 2, 1, 3100, 5200, "B holds", "B 持有");
    bar(scene, BAR_VALUE, 3, -1, 0, 4400, "20", "20");
    bar(scene, BAR_VALUE, 3, -1, 4400, fenced ? 8000 : 6500, "19", "19");
    if (!fenced)
        bar(scene, BAR_BAD_VALUE, 3, -1, 6500, 8000, "19", "19");
    arrow(scene, ARROW_ASK, 0, 1, 0, 50, "", "");
    arrow(scene, ARROW_READ, 0, 3, 0, 400, fenced ? "claims with 33, reads 20" : "reads 20",
          "读到 20");
    for (int i = 0; i < 4 && !fenced; i++)
        arrow(scene, ARROW_TRY, 2, 1, 1, 1000 + i * 500, "", "");
    arrow(scene, ARROW_GRANT, 1, 2, 1, 3100, "", "");
    arrow(scene, ARROW_READ, 2, 3, 1, 3500, "reads 20", "读到 20");
    arrow(scene, ARROW_WRITE, 2, 3, 1, 4400, "writes 19", "写入 19");
    arrow(scene, ARROW_LET, 2, 1, 1, 5200, "", "");
    arrow(scene, fenced ? ARROW_REFUSED : ARROW_WRONG, 0, 3, 0, 6500,
          fenced ? "refused: 33 < 34" : "late write: 19",
          fenced ? "被拒绝：33 < 34" : "迟到的写入：19");
    mark(scene, MARK_EXPIRES, 1, 3000, "lease expires", "锁到期");
    if (fenced)
        mark(scene, MARK_LOST, 0, 6210, "told: lost", "得知锁已丢失");
    scene->beliefs[scene->belief_count++] = (struct belief){ 0, 0, 50, 6800 };
    scene->beliefs[scene->belief_count++] = (struct belief){ 2, 1, 3100, 5200 };
    scene->overlaps[scene->overlap_count++] = (struct overlap){ 3100, 5200, !fenced };
    number(scene, 1, 0, 100, false);
    number(scene, 2, 0, 800, false);
    number(scene, 3, 1, 3050, false);
    number(scene, 4, 2, 4400, false);
    number(scene, 5, 0, 6300, !fenced);
    if (fenced) {
        scene->high_lane = 3;
        scene->highs[scene->high_count++] = (struct high){ 400, 33 };
        scene->highs[scene->high_count++] = (struct high){ 3500, 34 };
    }
}

static const struct way pause_ways[] = {
    { .title = PHRASE("Naive", "朴素做法"),
      .note = PHRASE("a lock with an expiry", "只有过期时间"),
      .breaks = true,
      .shown = "naive" },
    { .title = PHRASE("With fencing", "围栏令牌"),
      .note = PHRASE("the resource checks", "由资源检查"),
      .ours = true,
      .shown = "long" },
    WAYS_END,
};

static const struct experiment pause_experiment = {
    .id = "made-pause",
    .title = PHRASE("A process is paused past its lease", "进程暂停，醒来时锁已过期"),
    .setting = PHRASE("ttl 3s, SIGSTOP for 5.4s", "过期时间 3s，暂停 5.4s"),
    .steps = { PHRASE("A gets the lock.", "A 拿到锁。"), PHRASE("A is paused.", "A 被暂停。"),
               PHRASE("The lease expires.", "锁到期。"), PHRASE("B writes.", "B 写入。"),
               PHRASE("A writes late.", "A 迟到的写入。") },
    .why = PHRASE("No lock can stop a process that wakes up too late.",
                  "任何锁都拦不住醒来太晚的进程。"),
    .ways = pause_ways,
};

static void verdict(struct finding *finding, bool broken, unsigned runs)
{
    finding->verdict.broken = broken;
    finding->runs = runs;
    finding->broke = broken ? runs : 0;
    snprintf(finding->verdict.text[LANG_EN], sizeof finding->verdict.text[0], "%s",
             broken ? "2 sold, but the stock went from 20 to 19." : "No update is lost.");
    snprintf(finding->verdict.text[LANG_ZH], sizeof finding->verdict.text[0], "%s",
             broken ? "卖出 2 件，库存却从 20 变成 19。" : "没有丢失更新。");
}

static void make_pause(struct report *report)
{
    *report = (struct report){ .experiment = &pause_experiment, .server = "redis", .ways = 2 };
    for (int i = 0; i < 2; i++) {
        pause_scene(&report->findings[i].scene, i == 1);
        verdict(&report->findings[i], i == 0, 20);
    }
}

/* ---- five nodes: three ways, seven lanes, the last one not clear ----------------------------------- */

static const struct lane node_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 1", "节点 1"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 2", "节点 2"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 3", "节点 3"), PHRASE("loses its memory", "丢失内存") },
    { LANE_SERVER, PHRASE("node 4", "节点 4"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("node 5", "节点 5"), PHRASE("clock +30s", "时钟 +30s") },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    LANES_END,
};

static void nodes_scene(struct scene *scene)
{
    begin(scene, node_lanes, 3200);
    bar(scene, BAR_HOLDS, 0, 0, 100, 2600, "A holds", "A 持有");
    bar(scene, BAR_HOLDS, 6, 1, 1400, 2800, "B holds", "B 持有");
    for (int node = 1; node <= 5; node++) {
        bool mine = node <= 3;
        double end = node == 3 ? 900 : 2600;
        if (mine)
            bar(scene, BAR_LEASE, node, 0, 60 + node * 5, end, "lease of A", "A 的锁");
        if (node >= 3)
            bar(scene, BAR_LEASE, node, 1, 1390, 2800, "lease of B", "B 的锁");
        arrow(scene, mine ? ARROW_ASK : ARROW_TRY, 0, node, 0, 50 + node, "", "");
        arrow(scene, node >= 3 ? ARROW_ASK : ARROW_TRY, 6, node, 1, 1380 + node, "", "");
    }
    bar(scene, BAR_DEAD, 3, -1, 900, 1200, "down", "宕机");
    mark(scene, MARK_CRASH, 3, 900, "killed", "崩溃");
    mark(scene, MARK_NOTE, 3, 1200, "started again, without data", "重启，数据已丢失");
    mark(scene, MARK_NOTE, 5, 1250, "clock +30s", "时钟 +30s");
    scene->overlaps[scene->overlap_count++] = (struct overlap){ 1400, 2600, true };
    number(scene, 1, 0, 100, false);
    number(scene, 2, 3, 900, false);
    number(scene, 3, 3, 1200, true);
    number(scene, 4, 6, 1400, true);
}

static const struct way node_ways[] = {
    { .title = PHRASE("Redlock", "红锁"), .note = PHRASE("a majority", "多数派"), .breaks = true },
    { .title = PHRASE("Delayed restart", "延迟重启"), .note = PHRASE("waits", "等待") },
    { .title = PHRASE("With tokens", "带令牌"), .note = PHRASE("checked", "检查"), .ours = true },
    WAYS_END,
};

static const struct experiment nodes_experiment = {
    .id = "made-nodes",
    .title = PHRASE("A node loses its memory", "一个节点丢失了内存"),
    .setting = PHRASE("five nodes", "五个节点"),
    .steps = { PHRASE("A has nodes 1, 2 and 3.", "A 拿到节点 1、2、3。"),
               PHRASE("Node 3 dies.", "节点 3 崩溃。"),
               PHRASE("It is back, empty.", "它空着回来。"),
               PHRASE("B has nodes 3, 4 and 5.", "B 拿到节点 3、4、5。") },
    .why = PHRASE("A majority that forgets is none.", "会遗忘的多数派不是多数派。"),
    .ways = node_ways,
};

static void make_nodes(struct report *report)
{
    *report = (struct report){ .experiment = &nodes_experiment, .server = "redis", .ways = 3 };
    for (int i = 0; i < 3; i++) {
        nodes_scene(&report->findings[i].scene);
        verdict(&report->findings[i], i == 0, 1);
    }
    report->findings[2].verdict.unclear = true;
}

/* ---- 200 tries of one client, many short holds of two --------------------------------------------- */

static void make_dense(struct report *report)
{
    struct scene *scene = &report->findings[0].scene;
    char label[16];

    *report = (struct report){ .experiment = &pause_experiment, .server = "", .ways = 2 };
    begin(scene, pause_lanes, 4000);
    bar(scene, BAR_WAITS, 2, 1, 20, 3900, "", "");
    for (int i = 0; i < 200; i++)
        arrow(scene, ARROW_TRY, 2, 1, 1, 20 + i * 19, "", "");
    for (int i = 0; i < 30; i++) {
        snprintf(label, sizeof label, "%d", 20 - i);
        bar(scene, BAR_HOLDS, 0, 0, 100 + i * 125, 190 + i * 125, "A holds", "A 持有");
        bar(scene, BAR_LEASE, 1, 0, 100 + i * 125, 195 + i * 125, "lease of A", "A 的锁");
        bar(scene, BAR_VALUE, 3, -1, 150 + i * 125, 275 + i * 125, label, label);
        arrow(scene, ARROW_WRITE, 0, 3, 0, 150 + i * 125, "writes another value", "写入另一个值");
    }
    for (int i = 1; i <= 5; i++) /* all steps at one moment */
        number(scene, i, 0, 2000, i == 5);
    verdict(&report->findings[0], false, 3); /* it should break, and did not */
    report->findings[0].unclear = 1;
    pause_scene(&report->findings[1].scene, true);
    verdict(&report->findings[1], false, 3);
}

/* ---- hostile texts, nothing at all ------------------------------------------------------------------- */

#define EVIL "</text><script>alert(1)</script>&\"'\x1b[31m\xff\xe2\x80\xae]]>"

static const struct lane evil_lanes[] = {
    { LANE_CLIENT, PHRASE(EVIL, EVIL), PHRASE(EVIL, EVIL) },
    { LANE_RESOURCE,
      PHRASE("a lane with a title that is far too long for its place",
             "标题很长很长很长很长很长很长的一条泳道"),
      PHRASE(EVIL, EVIL) },
    LANES_END,
};

static const struct way evil_ways[] = {
    { .title = PHRASE(EVIL, EVIL), .note = PHRASE(EVIL, EVIL), .breaks = true, .shown = "long" },
    { .title = PHRASE("Ours", "我们"), .note = PHRASE(NULL, NULL), .ours = true },
    WAYS_END,
};

static const struct experiment evil_experiment = {
    .id = "made-evil",
    .title = PHRASE(
        EVIL " a title that goes on and on until it needs a second line, and then some more words",
        EVIL),
    .setting = PHRASE(EVIL, EVIL),
    .steps = { PHRASE(EVIL, EVIL), PHRASE("a word: "
                                          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                          "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                          "字") },
    .why = PHRASE(EVIL, EVIL),
    .ways = evil_ways,
};

static void make_evil(struct report *report)
{
    struct scene *scene = &report->findings[0].scene;

    *report = (struct report){ .experiment = &evil_experiment, .server = EVIL, .ways = 2 };
    begin(scene, evil_lanes, 1000);
    bar(scene, BAR_HOLDS, 0, 0, 0, 700, EVIL, EVIL);
    bar(scene, BAR_PAUSED, 0, 0, 700, 900, EVIL, EVIL);
    bar(scene, BAR_HOLDS, 7, 0, 0, 1, "in no lane", "");
    bar(scene, BAR_VALUE, 1, -1, -50, 5000, EVIL, EVIL); /* longer than the axis */
    arrow(scene, ARROW_WRONG, 0, 1, 0, 500, EVIL, EVIL);
    arrow(scene, ARROW_WRITE, 0, 9, 0, 500, "to no lane", "");
    arrow(scene, ARROW_WRITE, -1, 0, 0, 500, "from no lane", "");
    mark(scene, MARK_NOTE, 1, 9999, EVIL, EVIL);
    number(scene, 1, 0, 0, true);
    number(scene, 2, 12, 0, true);
    snprintf(report->findings[0].verdict.text[LANG_EN], 256, "%s", EVIL);
    snprintf(report->findings[0].verdict.text[LANG_ZH], 256, "%s", EVIL);
    report->findings[0].verdict.broken = true;
}

static void make_empty(struct report *report)
{
    *report = (struct report){ .experiment = &pause_experiment, .ways = 2 };
    report->findings[0].verdict.unclear = report->findings[1].verdict.unclear = true;
}

/* ---- curves ---------------------------------------------------------------------------------------------- */

static const struct way plot_ways[] = {
    { .title = PHRASE("WATCH", "WATCH"), .note = PHRASE("", "") },
    { .title = PHRASE("One lock", "一把锁"), .note = PHRASE("", "") },
    { .title = PHRASE("A lock for each good", "每种商品一把锁"),
      .note = PHRASE("", ""),
      .ours = true },
    WAYS_END,
};

static const struct experiment plot_experiment = {
    .id = "made-plot",
    .title = PHRASE("A market under load", "负载下的市场"),
    .setting = PHRASE("16 goods", "16 种商品"),
    .why = PHRASE("Retries throw work away.", "重试浪费工作。"),
    .ways = plot_ways,
};

static void make_plot(struct report *report)
{
    static const double sales[3][7] = { { 1700, 2500, 2600, 1700, 820, 330, 118 },
                                        { 1640, 1690, 1700, 1700, 1690, 1670, 1640 },
                                        { 1600, 3050, 5480, 8230, 9300, 9420, 9280 } };
    static const double retries[3][7] = { { 0, 0.2, 0.74, 2.3, 6.4, 17.5, 43 }, { 0 }, { 0 } };
    struct plot *plot = &report->plot;

    *report = (struct report){ .experiment = &plot_experiment, .server = "redis", .ways = 3 };
    plot->charts = 2;
    plot->points = 7;
    plot->x_title = (struct phrase)PHRASE("traders at once", "同时交易者");
    for (int i = 0; i < 7; i++)
        plot->x[i] = 1 << i;
    plot->chart[0] = (struct chart){ .title = PHRASE("Sales a second", "每秒成交"),
                                     .note = PHRASE("higher is better", "越高越好"),
                                     .series_count = 3 };
    plot->chart[1] =
        (struct chart){ .title = PHRASE("Retries", "重试"),
                        .note = PHRASE("lower is better, log scale", "越低越好，对数轴"),
                        .logarithmic = true,
                        .series_count = 3 };
    for (int c = 0; c < 2; c++)
        for (int w = 0; w < 3; w++) {
            struct series *series = &plot->chart[c].series[w];
            series->way = w;
            series->title = plot_ways[w].title;
            series->count = 7;
            snprintf(series->note[LANG_EN], sizeof series->note[0], "a note with <figures>");
            snprintf(series->note[LANG_ZH], sizeof series->note[0], "带数字的说明");
            for (int i = 0; i < 7; i++) {
                double value = c ? retries[w][i] : sales[w][i];
                series->low[i] = value * 0.95;
                series->mid[i] = value;
                series->high[i] = value * 1.04;
            }
        }
    for (int w = 0; w < 3; w++) {
        plot->texts[w] =
            (struct phrase)PHRASE("What this way does, and costs.", "这种做法的代价。");
        verdict(&report->findings[w], false, 1);
    }
    snprintf(plot->checked[LANG_EN], sizeof plot->checked[0], "0 sold twice in all three ways.");
    snprintf(plot->checked[LANG_ZH], sizeof plot->checked[0], "三种做法都没有卖出两次。");
}

const struct made *made_reports(void)
{
    static struct report reports[6];
    static struct made made[] = { { "pause", &reports[0] },
                                  { "nodes", &reports[1] },
                                  { "dense", &reports[2] },
                                  { "evil", &reports[3] },
                                  { "empty", &reports[4] },
                                  { "plot", &reports[5] },
                                  { NULL, NULL } };

    if (!reports[0].experiment) {
        make_pause(&reports[0]);
        make_nodes(&reports[1]);
        make_dense(&reports[2]);
        make_evil(&reports[3]);
        make_empty(&reports[4]);
        make_plot(&reports[5]);
    }
    return made;
}

const struct report *made_report(const char *name)
{
    const struct made *made = made_reports();

    while (strcmp(made->name, name) != 0)
        made++;
    return made->report;
}
