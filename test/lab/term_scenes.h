/* SPDX-License-Identifier: MIT */
/* A report that is made up, for tests of drawings: a process that is paused past its lease, naively and with fencing. */
#ifndef TEST_LAB_TERM_SCENES_H
#define TEST_LAB_TERM_SCENES_H

#include "lab.h"

#include <string.h>

static const struct lane pause_lanes[] = {
    { LANE_CLIENT, PHRASE("client A", "客户端 A"), PHRASE(NULL, NULL) },
    { LANE_SERVER, PHRASE("lock server", "锁服务器"), PHRASE(NULL, NULL) },
    { LANE_CLIENT, PHRASE("client B", "客户端 B"), PHRASE(NULL, NULL) },
    { LANE_RESOURCE, PHRASE("resource", "资源"), PHRASE("stock", "库存") },
    { LANE_END, PHRASE(NULL, NULL), PHRASE(NULL, NULL) },
};

static const struct way pause_ways[] = {
    { .title = PHRASE("Naive", "朴素做法"),
      .note = PHRASE("SET … NX PX 3000; read; write", "SET … NX PX 3000；读；写"),
      .breaks = true,
      .shown = "naive" },
    { .title = PHRASE("Holdfast", "Holdfast"),
      .note = PHRASE("hf_acquire; hf_guard_write(token)", "hf_acquire；hf_guard_write(token)"),
      .ours = true },
    { .title = PHRASE(NULL, NULL) },
};

static const struct experiment pause_experiment = {
    .id = "pause",
    .title = PHRASE("A process is paused past its lease", "进程暂停，锁已过期"),
    .setting = PHRASE("ttl 3s, a stock of 20", "过期时间 3s，库存 20"),
    .steps = { PHRASE("A gets the lock and reads 20.", "A 获得锁，读到 20。"),
               PHRASE("A is paused; its lease ends.", "A 被暂停，锁到期。") },
    .why = PHRASE("No lock can stop a process that wakes up too late. Each grant has a larger "
                  "token; a resource that remembers the largest one refuses the late write.",
                  "没有锁能拦住醒得太晚的进程。每次加锁都得到更大的令牌；资源记住见过的最大令牌，"
                  "就能拒绝迟到的写入。"),
    .ways = pause_ways,
};

#define LABEL(object, en, zh) label((object)->label, en, zh)

static inline void label(char to[LANGS][LABEL_ROOM], const char *en, const char *zh)
{
    strcpy(to[LANG_EN], en);
    strcpy(to[LANG_ZH], zh);
}

static inline struct bar *add_bar(struct scene *scene, enum bar_kind kind, int lane, int client,
                                  double from, double to)
{
    struct bar *bar = &scene->bars[scene->bar_count++];

    *bar =
        (struct bar){ .kind = kind, .lane = lane, .client = client, .from_ms = from, .to_ms = to };
    return bar;
}

static inline struct arrow *add_arrow(struct scene *scene, enum arrow_kind kind, int from, int to,
                                      double at)
{
    struct arrow *arrow = &scene->arrows[scene->arrow_count++];

    *arrow = (struct arrow){ kind, from, to, from / 2, at, { "", "" } };
    return arrow;
}

static inline void pause_scene(struct scene *scene, bool fenced)
{
    *scene =
        (struct scene){ .end_ms = 8000, .lanes = pause_lanes, .lane_count = 4, .high_lane = -1 };
    add_bar(scene, BAR_HOLDS, 0, 0, 0, 800);
    LABEL(add_bar(scene, BAR_PAUSED, 0, 0, 800, 6200), "paused (SIGSTOP), 5.4s",
          "暂停（SIGSTOP）5.4s");
    add_bar(scene, BAR_HOLDS, 0, 0, 6200, 6700);
    LABEL(add_bar(scene, BAR_LEASE, 1, 0, 0, 3000), fenced ? "A, token 33" : "lease of A",
          fenced ? "A，令牌 33" : "A 的锁");
    LABEL(add_bar(scene, BAR_LEASE, 1, 1, 3000, 5300), fenced ? "B, token 34" : "lease of B",
          fenced ? "B，令牌 34" : "B 的锁");
    LABEL(add_bar(scene, BAR_WAITS, 2, 1, 1000, 3000), "tries, 7 times", "重试 7 次");
    add_bar(scene, BAR_HOLDS, 2, 1, 3000, 5300);
    LABEL(add_bar(scene, BAR_VALUE, 3, -1, 0, 4500), "20", "20");
    LABEL(add_bar(scene, BAR_VALUE, 3, -1, 4500, fenced ? 8000 : 6500), "19", "19");
    if (!fenced)
        LABEL(add_bar(scene, BAR_BAD_VALUE, 3, -1, 6500, 8000), "19", "19");
    LABEL(add_arrow(scene, ARROW_READ, 0, 3, 400), "reads 20", "读到 20");
    LABEL(add_arrow(scene, ARROW_READ, 2, 3, 3600), "reads 20", "读到 20");
    LABEL(add_arrow(scene, ARROW_WRITE, 2, 3, 4500), "writes 19", "写入 19");
    if (fenced)
        LABEL(add_arrow(scene, ARROW_REFUSED, 0, 3, 6500), "refused: 33 < 34", "被拒绝：33 < 34");
    else
        LABEL(add_arrow(scene, ARROW_WRONG, 0, 3, 6500), "late write: 19", "迟到的写入：19");
    for (int i = 0; i < 7; i++)
        add_arrow(scene, ARROW_TRY, 2, 1, 1200 + 250 * i);
    scene->marks[0] = (struct mark){ MARK_EXPIRES, 1, 3000, { "lease expires", "锁到期" } };
    scene->mark_count = 1;
    scene->numbers[0] = (struct number){ 1, 0, 100, false };
    scene->numbers[1] = (struct number){ 2, 0, 1000, true };
    scene->number_count = 2;
    scene->overlaps[0] = (struct overlap){ 3000, 5300, !fenced };
    scene->overlap_count = 1;
}

static inline void pause_report(struct report *report)
{
    memset(report, 0, sizeof *report);
    report->experiment = &pause_experiment;
    strcpy(report->server, "redis-server 7.0.15 of its own");
    report->ways = 2;
    report->findings[0].verdict.broken = true;
    strcpy(report->findings[0].verdict.text[0], "2 sold, but the stock went from 20 to 19.");
    strcpy(report->findings[0].verdict.text[1], "卖出 2 件，库存却只从 20 变为 19。");
    strcpy(report->findings[1].verdict.text[0], "2 sold, the stock went from 20 to 18.");
    strcpy(report->findings[1].verdict.text[1], "卖出 2 件，库存从 20 变为 18。");
    report->findings[0].runs = report->findings[1].runs = report->findings[0].broke = 20;
    pause_scene(&report->findings[0].scene, false);
    pause_scene(&report->findings[1].scene, true);
}

#endif
