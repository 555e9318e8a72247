/* SPDX-License-Identifier: MIT */
/* What latch and barrier share: see party.h. Main thread. */
#include "party.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const char *party_who(const struct cli *cli)
{
    static char who[HF_PARTICIPANT_MAX + 1];
    char host[40] = "";

    if (cli->args.who)
        return cli->args.who;
    gethostname(host, sizeof host - 1);
    snprintf(who, sizeof who, "%s:%ld", host, (long)getpid());
    return who;
}

hf_party_request party_request(const struct cli *cli, hf_cancel *cancel)
{
    hf_party_request request = HF_PARTY_REQUEST_INIT;

    request.name = cli->args.name;
    request.name_len = HF_CSTRING;
    request.parties = cli->args.parties > 0 ? (uint32_t)cli->args.parties : 0;
    request.who = party_who(cli);
    request.wait_ms = party_wait_ms(cli);
    request.ttl_ms = cli->args.ttl_ms;
    request.cancel = cancel;
    return request;
}

int64_t party_wait_ms(const struct cli *cli)
{
    return store_wait_ms(cli);
}

int party_failure(const struct cli *cli, const hf_error *err, const struct signal_event *ended_by)
{
    int64_t wanted = cli->args.busy_exit;

    if (ended_by->number)
        return EXIT_SIGNAL_BASE + ended_by->number;
    if (err->status != HF_TIMEOUT && err->status != HF_BUSY)
        return say_failure(err);
    if (wanted != 0 || cli->args.verbose)
        say(cli, "'%s': not all came in time", shown(cli->args.name));
    return wanted >= 0 ? (int)wanted : EXIT_BUSY;
}

int party_wait(struct cli *cli, party_call *call)
{
    struct canceller canceller;
    struct signals signals;
    struct cli_store store;
    int code = store_open(cli, NULL, &store);
    hf_error err;

    if (code != EXIT_FINE)
        return code;
    if (!signals_open(&signals)) {
        say_error("no descriptor for signals: %s", strerror(errno));
        store_close(&store);
        return EXIT_INTERNAL;
    }
    if (!canceller_begin(&canceller, &signals)) {
        store_close(&store);
        return EXIT_INTERNAL;
    }
    err.status = call(cli, store.store, canceller.cancel, &err);
    canceller_end(&canceller);
    if (err.status != HF_OK)
        code = party_failure(cli, &err, &canceller.ended_by);
    store_close(&store);
    if (canceller.ended_by.typed)
        signals_die(canceller.ended_by.number, false);
    return code;
}
