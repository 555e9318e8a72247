/* SPDX-License-Identifier: MIT */
/*
 * `holdfast guard NAME`: what a resource that checks tokens does. The token is that of a lease, by default of the `run` around us.
 * With COMMAND, the token is claimed and COMMAND replaces us: from then on no lower token can claim, but what COMMAND writes
 * elsewhere is not checked again.
 */
#include "holdfast/primitives.h"
#include "store.h"
#include "table.h"
#include "util/text.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_VARIABLE "HOLDFAST_TOKEN"
#define TOKEN_LAST     ((UINT64_C(1) << 53) - 1)

static int check(struct cli *cli, uint64_t *ret_token)
{
    const char *text = secure_getenv(TOKEN_VARIABLE), *wrong;
    int code = need_name(cli);

    if (code != EXIT_FINE)
        return code;
    if (cli->args.command && !(cli->args.command[0] && cli->args.command[0][0]))
        return usage_error(cli, "the command is empty");
    if (cli->args.command && cli->args.set)
        return usage_error(cli, "--set and a command exclude each other");
    if (cli->args.token > 0) {
        *ret_token = (uint64_t)cli->args.token;
        return EXIT_FINE;
    }
    if (!text)
        return usage_error(cli, "no token: give --token T, or run this inside `run`");
    if (strcmp(text, "0") == 0) { /* as `run` says it */
        say_error("the lease of the `run` around this has no fencing token: its engine gives none");
        return EXIT_CONFIG;
    }
    wrong = hfi_parse_u64(text, 1, TOKEN_LAST, ret_token);
    if (wrong)
        return usage_error(cli, TOKEN_VARIABLE " '%s' %s: it is no fencing token", shown(text),
                           wrong);
    return EXIT_FINE;
}

/* `bytes` NULL: nothing has been written to it yet. */
static int print(const struct cli *cli, uint64_t token, const void *bytes, size_t len)
{
    json_t *object;

    if (cli->args.json) {
        object = json_object();
        json_set_name(object, cli->args.name, strlen(cli->args.name));
        json_object_set_new(object, "token", json_u64(token));
        if (bytes)
            value_to_json(object, bytes, len);
        else
            json_object_set_new(object, "value", json_null());
        json_print(object, true);
    } else if (bytes && !cli->args.set) {
        value_print(bytes, len);
    }
    return out_finish(cli);
}

static int set(struct cli *cli, struct cli_store *store, uint64_t token)
{
    struct content value;
    hf_error err;
    int code = value_read(cli->args.set, HF_GUARD_MAX, &value);

    if (code != EXIT_FINE)
        return code;
    if (hf_guard_set(store->store, cli->args.name, strlen(cli->args.name), token, value.bytes,
                     value.len, &err) == HF_OK)
        code = print(cli, token, value.bytes, value.len);
    else
        code = say_failure(&err);
    free(value.bytes);
    return code;
}

static int claim(struct cli *cli, struct cli_store *store, uint64_t token)
{
    void *bytes = NULL;
    size_t len = 0;
    hf_error err;
    int code;

    if (hf_guard_claim(store->store, cli->args.name, strlen(cli->args.name), token, &bytes, &len,
                       &err) != HF_OK)
        return say_failure(&err);
    code = cli->args.command ? become(cli, store) : print(cli, token, bytes, len);
    hf_free(bytes);
    return code;
}

int verb_guard(struct cli *cli)
{
    struct cli_store store;
    uint64_t token = 0;
    int code = check(cli, &token);

    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    code = cli->args.set ? set(cli, &store, token) : claim(cli, &store, token);
    store_close(&store);
    return code;
}
