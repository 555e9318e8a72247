/* SPDX-License-Identifier: MIT */
/* `holdfast counter NAME [--add N | --set N [--if M] | --delete]`: a number shared by all
 * clients. */
#include "holdfast/primitives.h"
#include "json.h"
#include "store.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The options as numbers. */
struct counter_options {
    int64_t add, set, expected;
};

/* EXIT_FINE, or EXIT_USAGE after a message. Nothing given is 0. */
static int number_of(const struct cli *cli, const char *option, const char *text,
                     int64_t *ret_number)
{
    const char *digits = text && (*text == '-' || *text == '+') ? text + 1 : text;
    char *end;

    *ret_number = 0;
    if (!text)
        return EXIT_FINE;
    errno = 0;
    *ret_number = strtoll(text, &end, 10);
    if (*digits >= '0' && *digits <= '9' && !*end && errno == 0)
        return EXIT_FINE;
    return usage_error(cli, "%s '%s' is not a whole number of 64 bits", option, shown(text));
}

static int check(const struct cli *cli, struct counter_options *ret_wish)
{
    const struct args *args = &cli->args;
    int code = need_name(cli);

    if (code == EXIT_FINE && !!args->add + !!args->set + args->delete > 1)
        code = usage_error(cli, "one of --add, --set and --delete");
    if (code == EXIT_FINE && args->expected && !args->set)
        code = usage_error(cli, "--if is for --set");
    if (code == EXIT_FINE)
        code = number_of(cli, "--add", args->add, &ret_wish->add);
    if (code == EXIT_FINE)
        code = number_of(cli, "--set", args->set, &ret_wish->set);
    if (code == EXIT_FINE)
        code = number_of(cli, "--if", args->expected, &ret_wish->expected);
    return code;
}

/* Do what the options ask for; *ret_value is the counter's value afterwards, also if --if did not
 * match. */
static hf_status count(const struct cli *cli, hf_store *store,
                       const struct counter_options *counter_options, int64_t *ret_value,
                       hf_error *err)
{
    const char *name = cli->args.name;
    size_t len = strlen(name);

    *ret_value = counter_options->set;
    if (cli->args.add)
        return hf_counter_add(store, name, len, counter_options->add, ret_value, err);
    if (cli->args.expected)
        return hf_counter_swap(store, name, len, counter_options->expected, counter_options->set,
                               ret_value, err);
    if (cli->args.set)
        return hf_counter_set(store, name, len, counter_options->set, err);
    if (cli->args.delete)
        return hf_counter_delete(store, name, len, err);
    return hf_counter_get(store, name, len, ret_value, err);
}

static void print(const struct cli *cli, int64_t value)
{
    json_t *object;

    if (!cli->args.json) {
        if (!cli->args.quiet && !cli->args.delete)
            printf("%" PRId64 "\n", value);
        return;
    }
    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "value", json_i64(value));
    json_print(object, true);
}

int verb_counter(struct cli *cli)
{
    struct cli_store store;
    struct counter_options counter_options;
    hf_status status = HF_OK;
    hf_error err;
    int64_t value = 0;
    int code = check(cli, &counter_options);

    if (code == EXIT_FINE && !cli->args.add && !cli->args.set)
        code = store_find(cli, &store); /* to read or to delete */
    else if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    if (!store.absent[0])
        status = count(cli, store.store, &counter_options, &value, &err);
    store_close(&store);
    if (status != HF_OK && status != HF_CHANGED)
        return say_failure(&err);
    print(cli, value);
    code = out_finish(cli);
    return status == HF_OK || code != EXIT_FINE ? code : say_failure(&err);
}
