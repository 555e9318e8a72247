/* SPDX-License-Identifier: MIT */
/*
 * `holdfast redlock status|join`: shows the nodes of a Redlock store, and heals them by hand. The
 * store is not opened: one that needs this may fail to open. Main thread.
 */
#include "grid.h"
#include "holdfast/redis.h"
#include "look.h"
#include "secret.h"
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 64

static const char *const states[] = { "ready", "empty", "unfit", "unreachable" };
static const char *const steps[] = { "nothing", "start", "mark",     "wait", "seal",
                                     "install", "lift",  "operator", "nodes" };

/* ---- status ---------------------------------------------------------------------------------------- */

static void set_number(json_t *object, const char *key, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, number);
    json_object_set_new(object, key, json_string(text));
}

static void set_text(json_t *object, const char *key, const char *text)
{
    json_object_set_new(object, key, json_text(text, strlen(text)));
}

/* Counts of nodes are JSON numbers. All others are strings: they may exceed what a double holds. */
static json_t *node_json(const hf_redlock_node *node)
{
    json_t *object = json_object();

    set_text(object, "node", node->name);
    set_text(object, "state", states[node->state]);
    json_object_set_new(object, "votes", json_boolean(node->votes));
    switch (node->state) {
    case HF_REDLOCK_STATE_READY:
        set_number(object, "epoch", node->epoch);
        set_text(object, "epoch_id", node->epoch_id);
        set_number(object, "lag", node->lag);
        set_text(object, "cluster", node->cluster);
        json_object_set_new(object, "nodes", json_integer(node->nodes));
        set_number(object, "max_ttl_ms", (uint64_t)node->max_ttl_ms);
        set_number(object, "top", node->top);
        set_number(object, "floor", node->floor);
        set_number(object, "names", node->names);
        break;
    case HF_REDLOCK_STATE_EMPTY:
        if (*node->marker)
            set_text(object, "marker", node->marker);
        set_number(object, "age_ms", (uint64_t)node->age_ms);
        break;
    case HF_REDLOCK_STATE_UNFIT:
    case HF_REDLOCK_STATE_UNREACHABLE:
        set_text(object, "why", node->why);
    }
    return object;
}

static void print_json(const hf_redlock_status *status)
{
    json_t *object = json_object(), *list = json_array(), *cluster = json_object();
    const hf_redlock_node *node;

    for (size_t i = 0; (node = hf_redlock_get_node(status, i)); i++)
        json_array_append_new(list, node_json(node));
    json_object_set_new(cluster, "votes", json_integer(status->votes));
    json_object_set_new(cluster, "needed", json_integer(status->needed));
    json_object_set_new(cluster, "nodes", json_integer(status->nodes));
    set_text(cluster, "next", steps[status->next]);
    set_number(cluster, "wait_ms", (uint64_t)status->wait_ms);
    json_object_set_new(object, "nodes", list);
    json_object_set_new(object, "cluster", cluster);
    json_print(object, true);
}

static void add_row(struct grid *grid, const hf_redlock_node *node)
{
    bool ready = node->state == HF_REDLOCK_STATE_READY;
    char epoch[TEXT_MAX] = "-", lag[24] = "-", cluster[9] = "-", top[24] = "-", age[CELL_MAX] = "-";

    if (ready) {
        snprintf(epoch, sizeof epoch, "%" PRIu64 "-%.6s", node->epoch, node->epoch_id);
        snprintf(lag, sizeof lag, "%" PRIu64, node->lag);
        snprintf(cluster, sizeof cluster, "%.8s", node->cluster);
        snprintf(top, sizeof top, "%" PRIu64, node->top);
    }
    if (node->state == HF_REDLOCK_STATE_EMPTY)
        duration_words(node->age_ms, age);
    grid_row(grid, safe_label(node->name), states[node->state], node->votes ? "yes" : "no", epoch,
             lag, cluster, top, age, safe_label(node->why));
}

static void print_status(const struct cli *cli, const hf_redlock_status *status)
{
    struct grid grid;
    const hf_redlock_node *node;
    char left[CELL_MAX];

    grid_begin(&grid, "NODE", "STATE", "VOTES", "EPOCH", "LAG", "CLUSTER", "TOP", "EMPTY FOR",
               "WHY", NULL);
    for (size_t i = 0; (node = hf_redlock_get_node(status, i)); i++)
        add_row(&grid, node);
    grid_end(&grid, cli);
    grid_drop(&grid);
    printf("%" PRIu32 " of %" PRIu32 " nodes vote, %" PRIu32 " are needed; ", status->votes,
           status->nodes, status->needed);
    switch (status->next) {
    case HF_REDLOCK_STEP_NOTHING:
        puts("nothing to do");
        break;
    case HF_REDLOCK_STEP_WAIT:
        printf("healing continues in %s\n", duration_words(status->wait_ms, left));
        break;
    case HF_REDLOCK_STEP_NODES:
        puts("more of them must answer");
        break;
    case HF_REDLOCK_STEP_OPERATOR:
        puts("an operator must decide");
        break;
    default:
        printf("the next step is to %s, which any open client takes\n", steps[status->next]);
    }
}

static int show_status(const struct cli *cli, const char *url)
{
    hf_redlock_status *found = NULL;
    hf_error err;
    hf_status status = hf_redlock_get_status(url, &found, &err);
    int code;

    /* Print the findings also if the call failed: they say why. */
    if (found && cli->args.json)
        print_json(found);
    else if (found)
        print_status(cli, found);
    hf_free(found);
    code = out_finish(cli);
    return status == HF_OK ? code : say_failure(&err);
}

/* ---- join ------------------------------------------------------------------------------------------ */

struct joining {
    const struct cli *cli;
    json_t *done; /* with --json */
};

static void on_step(hf_check_level level, const char *topic, const char *text, void *arg)
{
    static const enum tone tones[] = { TONE_GOOD, TONE_WARN, TONE_BAD };
    struct joining *joining = arg;
    json_t *object;

    if (joining->done) {
        object = json_object();
        set_text(object, "topic", topic);
        set_text(object, "text", text);
        json_array_append_new(joining->done, object);
    } else if (!joining->cli->args.quiet || level != HF_CHECK_LEVEL_OK) {
        printf("%s%s%s: %s\n", tone(joining->cli, tones[level]), safe_label(topic),
               tone(joining->cli, TONE_OFF), safe_label(text));
        fflush(stdout); /* the next may be minutes away */
    }
}

static int join(const struct cli *cli, const char *url)
{
    struct joining joining = { .cli = cli, .done = cli->args.json ? json_array() : NULL };
    hf_error err;
    hf_status status =
        hf_redlock_join(url, cli->args.node, cli->args.force ? HF_REDLOCK_JOIN_FLAG_FORCE : 0,
                        on_step, &joining, &err);
    json_t *object;
    int code;

    if (json_array_size(joining.done) > 0) {
        object = json_object();
        json_object_set_new(object, "done", joining.done);
        json_print(object, true);
    } else {
        json_decref(joining.done);
    }
    code = out_finish(cli);
    return status == HF_OK ? code : say_failure(&err);
}

int verb_redlock(struct cli *cli)
{
    const char *action = cli->args.name;
    char *url = NULL;
    bool status;
    int code;

    if (!action || (strcmp(action, "status") != 0 && strcmp(action, "join") != 0))
        return usage_error(cli,
                           action ? "'%s' is neither status nor join" : "no action: status or join",
                           action ? shown(action) : "");
    status = strcmp(action, "status") == 0;
    if (status && (cli->args.force || cli->args.node))
        return usage_error(cli, "status takes no %s", cli->args.force ? "--force" : "node");
    code = store_url(cli, NULL, &url);
    if (code != EXIT_FINE)
        return code;
    if (strcmp(url, PLACE_BUILT_IN) == 0) {
        free(url);
        say_error("no store: give the Redlock URL or its profile with -S");
        return EXIT_CONFIG;
    }
    code = status ? show_status(cli, url) : join(cli, url);
    secret_free(url);
    return code;
}
