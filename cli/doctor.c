/* SPDX-License-Identifier: MIT */
/* `holdfast doctor [URL]`: is this store safe for what it promises? */
#include "json.h"
#include "look.h"
#include "table.h"

#include <string.h>

struct findings {
    const struct cli *cli;
    hf_level worst;
    json_t *list; /* with --json */
};

static const char *level_word(hf_level level)
{
    return level == HF_FINE ? "fine" : level == HF_WARNING ? "warning" : "bad";
}

static void on_finding(hf_level level, const char *topic, const char *text, void *arg)
{
    static const enum tone tones[] = { TONE_GOOD, TONE_WARN, TONE_BAD };
    struct findings *findings = arg;
    const struct cli *cli = findings->cli;
    json_t *object;

    if (level > findings->worst)
        findings->worst = level;
    if (findings->list) {
        object = json_object();
        json_object_set_new(object, "level", json_string(level_word(level)));
        json_object_set_new(object, "topic", json_text(topic, strlen(topic)));
        json_object_set_new(object, "text", json_text(text, strlen(text)));
        json_array_append_new(findings->list, object);
    } else if (!cli->args.quiet || level != HF_FINE) {
        printf("%s%-8s%s %s: %s\n", tone(cli, tones[level]), level_word(level), tone(cli, TONE_OFF),
               safe_label(topic), safe_label(text));
    }
}

static void print_json(const struct findings *findings, const struct cli_store *store)
{
    const char *location = store->info.location;
    json_t *object = json_object();

    json_object_set_new(object, "store", json_text(location, strlen(location)));
    json_object_set_new(object, "engine", json_string(store->info.engine));
    json_object_set_new(object, "from", json_text(store->source, strlen(store->source)));
    json_object_set_new(object, "level", json_string(level_word(findings->worst)));
    json_object_set_new(object, "findings", findings->list);
    json_print(object, true);
}

int verb_doctor(struct cli *cli)
{
    struct findings findings = { .cli = cli };
    struct cli_store store;
    hf_status status;
    hf_error err;
    int code = store_open(cli, cli->args.name, &store);

    if (code != EXIT_FINE)
        return code;

    if (cli->args.json)
        findings.list = json_array();
    else if (!cli->args.quiet)
        printf("store %s (engine %s), from %s\n", safe_label(store.info.location),
               store.info.engine, safe_label(store.source));

    status = hf_doctor(store.store, on_finding, &findings, &err);
    if (status == HF_OK && cli->args.json)
        print_json(&findings, &store);
    else
        json_decref(findings.list);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);

    code = out_finish(cli);
    if (code != EXIT_FINE)
        return code;
    return findings.worst == HF_FINE      ? EXIT_FINE
           : findings.worst == HF_WARNING ? EXIT_WARNED
                                          : EXIT_BAD;
}
