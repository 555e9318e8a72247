/* SPDX-License-Identifier: MIT */
/*
 * `holdfast barrier`: wait until all parties have arrived. With a command: a double barrier, whose
 * parties start their commands together and end together. Main thread.
 */
#include "party.h"
#include "table.h"

static hf_status pass(struct cli *cli, hf_store *store, hf_cancel *cancel, hf_error *err)
{
    hf_party_request request = party_request(cli, cancel);

    return hf_barrier_wait(store, &request, err);
}

/* ---- with a command ---------------------------------------------------------------------------------- */

static bool enter(struct run *run, int *ret_code)
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
    err.status = hf_barrier_enter(run->store.store, &request, &run->lease, &err);
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

/* However the command ended, we leave; and wait for the others. */
static int leave(struct run *run, int code)
{
    struct canceller canceller;
    hf_error err;

    if (run->lost || !canceller_begin(&canceller, &run->signals))
        return code;
    err.status = hf_barrier_leave(run->lease, HF_FOREVER, canceller.cancel, &err);
    run->lease = NULL;
    canceller_end(&canceller);
    if (err.status == HF_OK)
        return code;
    if (canceller.ended_by.typed)
        run->die_of = canceller.ended_by.number;
    return party_failure(run->cli, &err, &canceller.ended_by);
}

int verb_barrier(struct cli *cli)
{
    static const struct run_hooks hooks = { .acquire = enter, .ended = leave };
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.parties < 0)
        code = usage_error(cli, "no number of participants: give --parties N");
    if (code == EXIT_FINE && cli->args.nonblock && cli->args.wait_ms)
        code = usage_error(cli, "-n and -w exclude each other");
    if (code != EXIT_FINE)
        return code;
    return cli->args.command ? run_under(cli, &hooks) : party_wait(cli, pass);
}
