/* SPDX-License-Identifier: MIT */
/*
 * `holdfast latch`: creates a latch, counts down, waits for it, removes it or shows it. With a
 * command the latch breaks if the participant dies first. Main thread.
 */
#include "json.h"
#include "party.h"
#include "table.h"

#include <string.h>

/* ---- without a command ------------------------------------------------------------------------------- */

static hf_status wait_for_it(struct cli *cli, hf_store *store, hf_cancel *cancel, hf_error *err)
{
    hf_party_request request = party_request(cli, cancel);

    return hf_latch_wait(store, &request, err);
}

static void print(const struct cli *cli, uint32_t count, uint32_t left)
{
    json_t *object;

    if (!cli->args.json) {
        printf("%u of %u have yet to count down\n", left, count);
        return;
    }
    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "count", json_integer(count));
    json_object_set_new(object, "left", json_integer(left));
    json_print(object, false);
}

static int do_at_once(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct cli_store store;
    uint32_t count = 0, left = 0;
    hf_status status;
    hf_error err;
    int code = store_open(cli, NULL, &store);

    if (code != EXIT_FINE)
        return code;
    if (args->count >= 0)
        status = hf_latch_create(store.store, args->name, HF_CSTRING, (uint32_t)args->count, &err);
    else if (args->down)
        status =
            hf_latch_count_down(store.store, args->name, HF_CSTRING, party_who(cli), &left, &err);
    else if (args->remove)
        status = hf_latch_delete(store.store, args->name, HF_CSTRING, &err);
    else
        status = hf_latch_get(store.store, args->name, HF_CSTRING, &count, &left, &err);
    if (status != HF_OK)
        code = say_failure(&err);
    else if (count > 0)
        print(cli, count, left);
    store_close(&store);
    return code == EXIT_FINE && count > 0 ? out_finish(cli) : code;
}

/* ---- counting down after a command ------------------------------------------------------------------- */

static bool join(struct run *run, int *ret_code)
{
    const struct cli *cli = run->cli;
    struct canceller canceller;
    hf_party_request request;
    hf_error err;

    if (!canceller_begin(&canceller, &run->signals)) {
        *ret_code = EXIT_INTERNAL;
        return false;
    }
    request = party_request(cli, canceller.cancel);
    err.status = hf_latch_join(run->store.store, &request, &run->lease, &err);
    canceller_end(&canceller);
    if (err.status == HF_OK) {
        run->tokens[0] = hf_lease_token(run->lease);
        return true;
    }
    *ret_code = party_failure(cli, &err, &canceller.ended_by);
    if (canceller.ended_by.typed)
        run->die_of = canceller.ended_by.number;
    return false;
}

static int count_down(struct run *run, int code)
{
    const struct cli *cli = run->cli;
    struct run_tries tries = { .said = false };
    hf_error err;

    if (code != EXIT_FINE || run->lost)
        return code;
    do { /* however often: it counts once */
        if (hf_latch_count_down(run->store.store, cli->args.name, HF_CSTRING, party_who(cli), NULL,
                                &err) == HF_OK)
            return EXIT_FINE;
    } while (run_again(run, &err, &tries));
    return say_failure(&err);
}

int verb_latch(struct cli *cli)
{
    static const struct run_hooks hooks = { .acquire = join, .ended = count_down };
    const struct args *args = &cli->args;
    int what = (args->count >= 0) + args->down + args->await + args->remove;
    int code = need_name(cli);

    if (code == EXIT_FINE && what > 1)
        code = usage_error(cli, "--count, --down, --wait and --remove exclude each other");
    if (code == EXIT_FINE && args->command && !args->down)
        code = usage_error(cli, "a command needs --down");
    if (code == EXIT_FINE && args->nonblock && args->wait_ms)
        code = usage_error(cli, "-n and -w exclude each other");
    if (code == EXIT_FINE && what == 0 && cli->stdout_closed)
        code = out_finish(cli);
    if (code != EXIT_FINE)
        return code;
    if (args->command)
        return run_under(cli, &hooks);
    return args->await ? party_wait(cli, wait_for_it) : do_at_once(cli);
}
