/* SPDX-License-Identifier: MIT */
/* `holdfast engines`: what each engine promises when something goes wrong. */
#include "json.h"
#include "matrix.h"
#include "table.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct promise {
    const char *key, *title;
    size_t field;
} promises[] = {
    { "on_crash", "client crash", offsetof(hf_engine_info, on_crash) },
    { "on_pause", "client pause", offsetof(hf_engine_info, on_pause) },
    { "on_clock_jump", "clock jump", offsetof(hf_engine_info, on_clock_jump) },
    { "on_server_loss", "server loss", offsetof(hf_engine_info, on_server_loss) },
    { "on_partition", "partition", offsetof(hf_engine_info, on_partition) },
    { "fairness", "fairness", offsetof(hf_engine_info, fairness) },
    { "wakeup", "wake-up", offsetof(hf_engine_info, wakeup) },
};

static const char *promise_text(const hf_engine_info *info, const struct promise *promise)
{
    const char *const *text = (const void *)((const char *)info + promise->field);

    return *text ? *text : "not told";
}

static const char *strength_word(hf_token_strength strength)
{
    return strength == HF_TOKEN_STRENGTH_STRICT          ? "strict"
           : strength == HF_TOKEN_STRENGTH_WHILE_DURABLE ? "while-durable"
                                                         : "none";
}

static json_t *engine_json(const hf_engine_info *info)
{
    json_t *object = json_object();
    json_t *caps = json_array();

    json_object_set_new(object, "engine", json_string(info->name));
    json_object_set_new(object, "schemes", json_string(info->schemes));
    json_object_set_new(object, "available", json_boolean(info->available));
    if (!info->available) {
        json_object_set_new(object, "why_not", json_string(info->why_not ? info->why_not : ""));
        json_decref(caps);
        return object;
    }

    for (size_t i = 0; i < ability_count; i++)
        if (info->caps & abilities[i].cap)
            json_array_append_new(caps, json_string(abilities[i].key));
    json_object_set_new(object, "can", caps);
    json_object_set_new(object, "tokens", json_string(strength_word(info->tokens)));
    for (size_t i = 0; i < COUNT(promises); i++)
        json_object_set_new(object, promises[i].key, json_string(promise_text(info, &promises[i])));
    return object;
}

static void print_engine(const struct cli *cli, const hf_engine_info *info)
{
    printf("%s%s%s (%s)%s%s\n", tone(cli, TONE_HEAD), info->name, tone(cli, TONE_OFF),
           info->schemes, info->available ? "" : ": not available: ",
           info->available ? ""
           : info->why_not ? info->why_not
                           : "no reason given");
    if (!info->available)
        return;

    printf("  %-13s", "can");
    for (size_t i = 0; i < ability_count; i++)
        if (info->caps & abilities[i].cap)
            printf(" %s", abilities[i].key);
    printf("\n  %-13s %s\n", "tokens", strength_word(info->tokens));
    for (size_t i = 0; i < COUNT(promises); i++)
        printf("  %-13s %s\n", promises[i].title, promise_text(info, &promises[i]));
}

/* By its name, or by one of its schemes, which are a list with blanks or commas. */
static bool is_called(const hf_engine_info *info, const char *word)
{
    size_t len = strlen(word);

    if (strcmp(info->name, word) == 0)
        return true;
    for (const char *at = info->schemes; *at; at += strspn(at, " ,")) {
        size_t scheme = strcspn(at, " ,");

        if (scheme == len && memcmp(at, word, len) == 0)
            return true;
        at += scheme;
    }
    return false;
}

static int no_such_engine(struct cli *cli)
{
    const hf_engine_info *info;
    char names[256] = "";

    for (size_t i = 0; (info = hf_engine_get(i)); i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 info->name);
    return usage_error(cli, "there is no engine '%s'; there are %s", shown(cli->args.name), names);
}

int verb_engines(struct cli *cli)
{
    json_t *list, *object;
    const hf_engine_info *info;
    bool found = !cli->args.name;

    if (cli->args.matrix && cli->args.name)
        return usage_error(cli, "--matrix is of all engines: leave '%s' out",
                           shown(cli->args.name));
    if (cli->args.matrix)
        return print_matrix(cli);
    for (size_t i = 0; !found && (info = hf_engine_get(i)); i++)
        found = is_called(info, cli->args.name);
    if (!found)
        return no_such_engine(cli);
    list = json_array();
    for (size_t i = 0; (info = hf_engine_get(i)); i++) {
        if (cli->args.name && !is_called(info, cli->args.name))
            continue;
        if (cli->args.json)
            json_array_append_new(list, engine_json(info));
        else
            print_engine(cli, info);
    }

    if (cli->args.json) {
        object = json_object();
        json_object_set_new(object, "engines", list);
        json_print(object, true);
    } else {
        json_decref(list);
    }
    return out_finish(cli);
}
