/* SPDX-License-Identifier: MIT */
/* `holdfast engines --matrix`: what each engine can do, in each of its modes, and why it cannot do the rest. */
#include "matrix.h"

#include "json.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define COLUMNS_MAX  32
#define WIDTH        79
#define LIST_MAX     512 /* bytes of what one reason is for */

/* Every HF_CAP_* is a row (tools/check-drift.sh), and so is every primitive, with what its calls ask for (src/prim). */
const struct ability abilities[] = {
    { 0, 0, "mutex", "mutex" },
    { HF_CAP_SHARED, 0, "shared", "read-write lock" },
    { HF_CAP_CONVERT, 0, "convert", "convert a lease" },
    { HF_CAP_SEMAPHORE, 0, "semaphore", "semaphore" },
    { HF_CAP_NUMBERED, 0, "numbered", "numbered slots" },
    { HF_CAP_RESIZE, 0, "resize", "resize a semaphore" },
    { HF_CAP_TTL, 0, "ttl", "lease with a ttl" },
    { HF_CAP_PROCESS, 0, "process", "ends with its process" },
    { HF_CAP_DETACHED, 0, "detached", "outlives its process" },
    { 0, HF_CAP_DETACHED | HF_CAP_TTL, "min_hold", "min_hold" },
    { HF_CAP_LOCK_DELAY, 0, "lock_delay", "lock delay" },
    { HF_CAP_TOKEN, 0, "token", "fencing token" },
    { HF_CAP_PASS, 0, "pass", "blocks of tokens" },
    { HF_CAP_LINGER, 0, "linger", "lingering lease" },
    { HF_CAP_WAIT, 0, "wait", "woken by an event" },
    { HF_CAP_FIFO, 0, "fifo", "FIFO order" },
    { HF_CAP_BARGE, 0, "barge", "barging" },
    { HF_CAP_WANTED, 0, "wanted", "told that others wait" },
    { HF_CAP_INSPECT, 0, "inspect", "list holders" },
    { HF_CAP_WAITERS, 0, "waiters", "list waiters" },
    { 0, HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_TOKEN, "deadlocks", "list deadlocks" },
    { HF_CAP_BREAK, 0, "break", "break a lease" },
    { HF_CAP_WATCH, 0, "watch", "wait for any change" },
    { 0, HF_CAP_SHARED | HF_CAP_INSPECT | HF_CAP_TOKEN, "members", "members" },
    { HF_CAP_CELLS, 0, "cells", "cells" },
    { HF_CAP_CELL_TTL, 0, "cell_ttl", "cells with a ttl" },
    { HF_CAP_CELL_WATCH, 0, "cell_watch", "woken by a cell" },
    { HF_CAP_COMMIT, 0, "commit", "several cells at once" },
    { 0, HF_CAP_CELLS | HF_CAP_INSPECT | HF_CAP_TOKEN, "lease_cells", "cell bound to a lease" },
    { 0, HF_CAP_CELLS, "counters", "counter" },
    { 0, HF_CAP_CELLS, "guards", "guard" },
    { 0, HF_CAP_CELLS, "latches", "latch" },
    { 0, HF_CAP_CELLS, "barriers", "barrier" },
    { 0, HF_CAP_CELLS, "elections", "election" },
    { 0, HF_CAP_CELLS, "once", "once" },
    { HF_CAP_CLOCK, 0, "clock", "common clock" },
    { 0, HF_CAP_CELLS | HF_CAP_CLOCK, "limits", "rate limit" },
    { HF_CAP_SCRIPTS, 0, "scripts", "scripts" },
};
const size_t ability_count = COUNT(abilities);

/* Each mode of each engine that is available is a column. */
static size_t find_columns(const hf_engine_info *columns[COLUMNS_MAX])
{
    const hf_engine_info *info;
    size_t count = 0;

    for (size_t engine = 0; hf_engine_get(engine); engine++)
        for (size_t mode = 0; count < COLUMNS_MAX && (info = hf_engine_get_mode(engine, mode));
             mode++)
            if (info->available)
                columns[count++] = info;
    return count;
}

static bool can(const hf_engine_info *info, const struct ability *ability)
{
    uint64_t needs = ability->cap | ability->needs;

    return (info->caps & needs) == needs;
}

/* The first reason of the list that is one for it. NULL: it can, or the engine gives none. */
static const hf_engine_lack *why_not(const hf_engine_info *info, const struct ability *ability)
{
    const hf_engine_lack *lack = info->lacks;

    while (lack->why && !(lack->caps & (ability->cap | ability->needs)))
        lack++;
    return lack->why ? lack : NULL;
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void column_name(const hf_engine_info *info, char *name, size_t size)
{
    const char *engine = info->name;
    int len = (int)(*info->choice ? strcspn(engine, "-") : strlen(engine));

    snprintf(name, size, "%.*s%s%s", len, engine, *info->choice ? " " : "", info->choice);
}

static void print_legend(const hf_engine_info *const *columns, size_t count)
{
    size_t rows = (count + 1) / 2;
    char name[36]; /* the second name of a line begins behind it */

    for (size_t i = 0; i < rows; i++) {
        column_name(columns[i], name, sizeof name);
        printf("  %c %s", (int)('a' + i), name);
        if (i + rows < count) {
            printf("%*s", (int)(36 - strlen(name)), "");
            column_name(columns[i + rows], name, sizeof name);
            printf("%c %s", (int)('a' + i + rows), name);
        }
        printf("\n");
    }
}

static void print_table(const struct cli *cli, const hf_engine_info *const *columns, size_t count)
{
    printf("\n%s%-24s", tone(cli, TONE_HEAD), "");
    for (size_t i = 0; i < count; i++)
        printf(" %c", (int)('a' + i));
    printf("%s\n", tone(cli, TONE_OFF));
    for (size_t row = 0; row < ability_count; row++) {
        printf("%-24s", abilities[row].title);
        for (size_t i = 0; i < count; i++)
            printf(" %c", can(columns[i], &abilities[row]) ? '+' : '-');
        printf("\n");
    }
}

/* Words, broken between them, from column `at` on; further lines begin at column 8. */
static void print_wrapped(const char *text, size_t at)
{
    while (*text) {
        size_t len = strcspn(text, " ");

        if (at > 8 && at + 1 + len > WIDTH) {
            printf("\n%8s", "");
            at = 8;
        } else if (at > 8) {
            printf(" ");
            at++;
        }
        printf("%.*s", (int)len, text);
        at += len;
        text += len;
        text += strspn(text, " ");
    }
    printf("\n");
}

/* What this reason is for, "members, cells"; "" if an earlier one of the list is the reason of all that. */
static void list_of(const hf_engine_info *info, const hf_engine_lack *lack, char list[LIST_MAX])
{
    size_t len = 0;

    list[0] = 0;
    for (size_t row = 0; row < ability_count; row++)
        if (why_not(info, &abilities[row]) == lack && len < LIST_MAX)
            len += (size_t)snprintf(list + len, LIST_MAX - len, "%s%s", len ? ", " : "",
                                    abilities[row].title);
}

/* Has one of these the same reason for the same? */
static bool has_reason(const hf_engine_info *info, const char *list, const char *why)
{
    char other[LIST_MAX];

    for (const hf_engine_lack *lack = info->lacks; lack->why; lack++) {
        list_of(info, lack, other);
        if (strcmp(lack->why, why) == 0 && strcmp(other, list) == 0)
            return true;
    }
    return false;
}

/* The reasons of column `at` that no earlier column of the engine (they begin at `first`) has given, each with the letters of all
 * its columns. */
static void print_reasons_of(const hf_engine_info *const *columns, size_t first, size_t at,
                             size_t end)
{
    for (const hf_engine_lack *lack = columns[at]->lacks; lack->why; lack++) {
        char list[LIST_MAX], line[2 * LIST_MAX], letters[COLUMNS_MAX + 1] = "";
        size_t count = 0;
        bool told = false;

        list_of(columns[at], lack, list);
        for (size_t i = first; i < at; i++)
            told |= has_reason(columns[i], list, lack->why);
        if (told || !list[0])
            continue;
        for (size_t i = at; i < end; i++)
            if (has_reason(columns[i], list, lack->why))
                letters[count++] = (char)('a' + i);
        printf("  %-6s", letters);
        snprintf(line, sizeof line, "%s: %s.", list, lack->why);
        print_wrapped(line, count < 6 ? 8 : 2 + count);
    }
}

static void print_reasons(const struct cli *cli, const hf_engine_info *const *columns, size_t count)
{
    size_t end;

    for (size_t first = 0; first < count; first = end) {
        end = first + 1;
        while (end < count && *columns[end]->choice)
            end++;
        printf("\n%s%s%s\n", tone(cli, TONE_HEAD), columns[first]->name, tone(cli, TONE_OFF));
        for (size_t at = first; at < end; at++)
            print_reasons_of(columns, first, at, end);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static json_t *column_json(const hf_engine_info *info)
{
    json_t *object = json_object(), *could = json_object(), *reasons = json_object();

    json_object_set_new(object, "engine", json_string(info->name));
    json_object_set_new(object, "choice", json_string(info->choice));
    for (size_t row = 0; row < ability_count; row++) {
        const hf_engine_lack *lack = why_not(info, &abilities[row]);

        json_object_set_new(could, abilities[row].key, json_boolean(can(info, &abilities[row])));
        if (lack)
            json_object_set_new(reasons, abilities[row].key, json_string(lack->why));
    }
    json_object_set_new(object, "can", could);
    json_object_set_new(object, "why_not", reasons);
    return object;
}

int print_matrix(struct cli *cli)
{
    const hf_engine_info *columns[COLUMNS_MAX];
    size_t count = find_columns(columns);
    json_t *object, *list;

    if (cli->args.json) {
        list = json_array();
        for (size_t i = 0; i < count; i++)
            json_array_append_new(list, column_json(columns[i]));
        object = json_object();
        json_object_set_new(object, "matrix", list);
        json_print(object, true);
        return out_finish(cli);
    }
    print_legend(columns, count);
    print_table(cli, columns, count);
    print_reasons(cli, columns, count);
    return out_finish(cli);
}
