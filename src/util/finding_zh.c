/* SPDX-License-Identifier: MIT */
/*
 * A sentence is found by what stands between its values, from left to right: a value ends where the words behind it
 * first appear. So a value that has these very words is not recognised, and the sentence stays English. Of several
 * that fit, the first of the table counts.
 */
#include "util/finding_zh.h"

#include <stdio.h>
#include <string.h>

#define VALUES_MAX 9
#define VALUE_ROOM 1024

struct pair {
    const char *english, *chinese;
};

#define FINDING(english, chinese) { english, chinese },
#define VALUE(english, chinese)
static const struct pair findings[] = {
#include "util/finding_zh.def"
};
#undef FINDING
#undef VALUE
#define FINDING(english, chinese)
#define VALUE(english, chinese) { english, chinese },
static const struct pair words[] = {
#include "util/finding_zh.def"
};

static const struct pair topics[] = {
    { "access", "访问控制" },      { "alarms", "告警" },        { "cells", "单元" },
    { "circles", "死锁" },         { "clock", "时钟" },         { "cluster", "集群" },
    { "connection", "连接" },      { "connections", "连接数" }, { "deadlocks", "死锁" },
    { "default", "默认存储" },     { "durability", "持久性" },  { "endpoint", "端点" },
    { "endpoints", "端点" },       { "epoch", "纪元" },         { "errors", "错误" },
    { "eviction", "淘汰" },        { "exclusion", "互斥" },     { "leader", "leader" },
    { "lease", "租约" },           { "leases", "租约" },        { "login", "登录" },
    { "memory", "内存" },          { "mode", "模式" },          { "nodes", "节点" },
    { "password", "密码" },        { "path", "路径" },          { "persistence", "持久化" },
    { "places", "位置" },          { "pooler", "连接池" },      { "prefix", "前缀" },
    { "processes", "进程" },       { "replication", "复制" },   { "restart", "重启" },
    { "rights", "权限" },          { "role", "角色" },          { "round trip", "往返时间" },
    { "server", "服务器" },        { "session", "会话" },       { "sharing", "共享" },
    { "space", "空间" },           { "store", "存储" },         { "tables", "表" },
    { "time limits", "时间限制" }, { "tokens", "围栏令牌" },    { "user", "用户" },
    { "version", "版本" },         { "waiting", "等待" },       { "wake-up", "唤醒" },
};

struct value {
    const char *at;
    size_t len;
};

/* Does the text look like this, and which values are in it? */
static bool fits(const char *form, const char *text, struct value values[VALUES_MAX])
{
    size_t count = 0;

    for (;;) {
        const char *next = strstr(form, "{}"), *end;
        size_t len = next ? (size_t)(next - form) : strlen(form);

        if (strncmp(text, form, len) != 0)
            return false;
        text += len;
        if (!next)
            return !*text;
        form = next + 2;
        next = strstr(form, "{}");
        len = next ? (size_t)(next - form) : strlen(form);
        if (count == VALUES_MAX)
            return false;
        if (!len) {
            end = next ? text : text + strlen(text);
        } else if (next) {
            char behind[256];

            snprintf(behind, sizeof behind, "%.*s", (int)len, form);
            end = strstr(text, behind);
        } else { /* the end of the sentence */
            size_t left = strlen(text);

            end = left >= len && strcmp(text + left - len, form) == 0 ? text + left - len : NULL;
        }
        if (!end)
            return false;
        values[count++] = (struct value){ text, (size_t)(end - text) };
        text = end;
    }
}

struct out {
    char *at;
    size_t room; /* with the NUL */
    bool full;
};

static void add(struct out *out, const char *text, size_t len)
{
    if (len >= out->room) {
        out->full = true;
        return;
    }
    memcpy(out->at, text, len);
    out->at += len;
    out->room -= len;
    *out->at = 0;
}

/* `say`: how a value is said. */
static void fill(struct out *out, const char *chinese, const struct value values[VALUES_MAX],
                 void (*say)(struct out *out, const struct value *value))
{
    for (const char *c = chinese; *c; c++) {
        if (c[0] == '{' && c[1] >= '1' && c[1] <= '9' && c[2] == '}') {
            say(out, &values[c[1] - '1']);
            c += 2;
        } else {
            add(out, c, 1);
        }
    }
}

static void say_as_it_is(struct out *out, const struct value *value)
{
    add(out, value->at, value->len);
}

static void say_value(struct out *out, const struct value *value)
{
    struct value inner[VALUES_MAX];
    char text[VALUE_ROOM];

    snprintf(text, sizeof text, "%.*s", (int)value->len, value->at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (fits(words[i].english, text, inner)) {
            fill(out, words[i].chinese, inner, say_as_it_is);
            return;
        }
    add(out, value->at, value->len);
}

static bool translate(const char *text, struct out *out)
{
    struct value values[VALUES_MAX];

    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        if (fits(findings[i].english, text, values)) {
            fill(out, findings[i].chinese, values, say_value);
            return !out->full;
        }
    return false;
}

bool hfi_finding_zh(const char *text, char *ret_text, size_t room)
{
    struct out out = { ret_text, room, false };
    const char *colon = strstr(text, ": ");

    *ret_text = 0;
    if (colon && strchr("0123456789]", colon == text ? 'x' : colon[-1])) { /* "host:6379: " */
        struct out behind = { ret_text, room, false };

        add(&behind, text, (size_t)(colon + 2 - text));
        if (!behind.full && translate(colon + 2, &behind))
            return true;
        *ret_text = 0;
    }
    if (translate(text, &out))
        return true;
    snprintf(ret_text, room, "%s", text);
    return false;
}

const char *hfi_topic_zh(const char *topic)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (strcmp(topics[i].english, topic) == 0)
            return topics[i].chinese;
    return NULL;
}
