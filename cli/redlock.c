/* SPDX-License-Identifier: MIT */
/*
 * `holdfast redlock status|join`: what the nodes of a Redlock store are, and healing them by hand. The store is not opened: one
 * that needs this need not open. The library tells of a node in words of the form key=value (hf_manage()).
 */
#include "grid.h"
#include "look.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>

#define VALUE_MAX 512

struct telling {
    const struct cli *cli;
    bool status;  /* else join */
    bool any;     /* something was told */
    json_t *list; /* with --json: nodes, or what was done */
    json_t *cluster;
    struct grid grid;
    char summary[VALUE_MAX];
};

/* The value of `key` in "key=value key=value why=all the rest"; "" if it is not there. */
static const char *value_of(const char *text, const char *key, char value[VALUE_MAX])
{
    size_t key_len = strlen(key);

    *value = 0;
    while (text && *text) {
        bool rest = strncmp(text, "why=", 4) == 0;

        if (strncmp(text, key, key_len) == 0 && text[key_len] == '=') {
            text += key_len + 1;
            snprintf(value, VALUE_MAX, "%.*s", (int)(rest ? strlen(text) : strcspn(text, " ")),
                     text);
            break;
        }
        text = rest ? NULL : strchr(text, ' ');
        if (text)
            text++;
    }
    return value;
}

/* All of them into an object: yes and no as booleans, what counts nodes as a number, the rest as text. */
static void set_values(json_t *object, const char *text)
{
    char key[32], value[VALUE_MAX];

    while (text && *text) {
        size_t len = strcspn(text, "=");
        bool counts;

        snprintf(key, sizeof key, "%.*s", (int)len, text);
        value_of(text, key, value);
        counts =
            strcmp(key, "nodes") == 0 || strcmp(key, "needed") == 0 || strcmp(key, "votes") == 0;
        if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0)
            json_object_set_new(object, key, json_boolean(value[0] == 'y'));
        else if (counts)
            json_object_set_new(object, key, json_integer(strtoll(value, NULL, 10)));
        else
            json_object_set_new(object, key, json_text(value, strlen(value)));
        text = strcmp(key, "why") == 0 ? NULL : strchr(text, ' ');
        if (text)
            text++;
    }
}

static const char *or_dash(const char *value)
{
    return *value ? value : "-";
}

static void add_row(struct telling *telling, const char *node, const char *text)
{
    char state[VALUE_MAX], votes[VALUE_MAX], epoch[VALUE_MAX], id[VALUE_MAX], lag[VALUE_MAX];
    char cluster[VALUE_MAX], top[VALUE_MAX], age[VALUE_MAX], why[VALUE_MAX], shown_age[CELL_MAX];

    value_of(text, "epoch", epoch);
    if (*value_of(text, "epoch_id", id))
        snprintf(epoch + strlen(epoch), VALUE_MAX - strlen(epoch), "-%.6s", id);
    value_of(text, "cluster", cluster);
    if (*cluster)
        cluster[8] = 0;
    if (*value_of(text, "age_ms", age))
        duration_words(strtoll(age, NULL, 10), shown_age);
    else
        snprintf(shown_age, sizeof shown_age, "-");
    grid_row(&telling->grid, safe_label(node), value_of(text, "state", state),
             value_of(text, "votes", votes), or_dash(epoch), or_dash(value_of(text, "lag", lag)),
             or_dash(cluster), or_dash(value_of(text, "top", top)), shown_age,
             safe_label(value_of(text, "why", why)));
}

static void on_status(hf_check_level level, const char *topic, const char *text, void *arg)
{
    struct telling *telling = arg;
    json_t *object;

    (void)level;
    telling->any = true;
    if (strcmp(topic, "cluster") == 0) {
        snprintf(telling->summary, sizeof telling->summary, "%s", text);
        return;
    }
    if (!telling->list) {
        add_row(telling, topic, text);
        return;
    }
    object = json_object();
    json_object_set_new(object, "node", json_text(topic, strlen(topic)));
    set_values(object, text);
    json_array_append_new(telling->list, object);
}

static void on_join(hf_check_level level, const char *topic, const char *text, void *arg)
{
    static const enum tone tones[] = { TONE_GOOD, TONE_WARN, TONE_BAD };
    struct telling *telling = arg;
    json_t *object;

    telling->any = true;
    if (telling->list) {
        object = json_object();
        json_object_set_new(object, "topic", json_text(topic, strlen(topic)));
        json_object_set_new(object, "text", json_text(text, strlen(text)));
        json_array_append_new(telling->list, object);
    } else if (!telling->cli->args.quiet || level != HF_CHECK_LEVEL_OK) {
        printf("%s%s%s: %s\n", tone(telling->cli, tones[level]), safe_label(topic),
               tone(telling->cli, TONE_OFF), safe_label(text));
        fflush(stdout); /* the next may be minutes away */
    }
}

static void print_status(struct telling *telling)
{
    char votes[VALUE_MAX], nodes[VALUE_MAX], needed[VALUE_MAX], next[VALUE_MAX], wait[VALUE_MAX];
    char left[CELL_MAX];
    const char *text = telling->summary;

    grid_end(&telling->grid, telling->cli);
    if (!*text)
        return;
    value_of(text, "next", next);
    printf("%s of %s nodes vote, %s are needed; ", value_of(text, "votes", votes),
           value_of(text, "nodes", nodes), value_of(text, "needed", needed));
    if (strcmp(next, "nothing") == 0)
        puts("nothing is to be done");
    else if (strcmp(next, "wait") == 0)
        printf("healing goes on in %s\n",
               duration_words(strtoll(value_of(text, "wait_ms", wait), NULL, 10), left));
    else if (strcmp(next, "nodes") == 0)
        puts("more of them must answer");
    else if (strcmp(next, "operator") == 0)
        puts("somebody must decide");
    else
        printf("the next step is to %s, which any open client takes\n", next);
}

static void print_json(struct telling *telling)
{
    json_t *object = json_object();

    json_object_set_new(object, telling->status ? "nodes" : "done", telling->list);
    if (telling->status && *telling->summary) {
        telling->cluster = json_object();
        set_values(telling->cluster, telling->summary);
        json_object_set_new(object, "cluster", telling->cluster);
    }
    json_print(object, true);
}

static int manage(struct telling *telling, const char *url)
{
    const struct cli *cli = telling->cli;
    const char *words[4] = { cli->args.name };
    size_t count = 1;
    hf_status status;
    hf_error err;
    int code;

    if (cli->args.force)
        words[count++] = "--force";
    if (cli->args.node)
        words[count++] = cli->args.node;
    if (cli->args.json)
        telling->list = json_array();
    else if (telling->status)
        grid_begin(&telling->grid, "NODE", "STATE", "VOTES", "EPOCH", "LAG", "CLUSTER", "TOP",
                   "EMPTY FOR", "WHY", NULL);
    status = hf_manage(url, words, telling->status ? on_status : on_join, telling, &err);
    /* What was found is printed also where the end is an error: it says why. */
    if (cli->args.json && telling->any)
        print_json(telling);
    else if (telling->status && telling->any)
        print_status(telling);
    else
        json_decref(telling->list);
    grid_drop(&telling->grid);
    code = out_finish(cli);
    return status == HF_OK ? code : say_failure(&err);
}

int verb_redlock(struct cli *cli)
{
    struct telling telling = { .cli = cli };
    const char *action = cli->args.name;
    char *url = NULL;
    int code;

    if (!action || (strcmp(action, "status") != 0 && strcmp(action, "join") != 0))
        return usage_error(cli, action ? "'%s' is neither status nor join" : "status or join?",
                           action ? shown(action) : "");
    telling.status = strcmp(action, "status") == 0;
    if (telling.status && (cli->args.force || cli->args.node))
        return usage_error(cli, "status takes no %s", cli->args.force ? "--force" : "node");
    code = store_url(cli, NULL, &url);
    if (code != EXIT_FINE)
        return code;
    if (!url) {
        say_error("no store: give the Redlock URL or its profile with -S");
        return EXIT_CONFIG;
    }
    code = manage(&telling, url);
    explicit_bzero(url, strlen(url));
    free(url);
    return code;
}
