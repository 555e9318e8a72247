/* SPDX-License-Identifier: MIT */
/*
 * `holdfast once`: a run that checks the mark first, checks it again under the lock, and sets it
 * when the command has succeeded. Main thread.
 */
#include "holdfast/primitives.h"
#include "run.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define WHEN_MAX 32

static char *when(int64_t at_ms, char text[WHEN_MAX])
{
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm local;

    localtime_r(&seconds, &local);
    strftime(text, WHEN_MAX, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

static void tell_done(struct run *run, const hf_once_mark *mark)
{
    const char *name = run->cli->args.name;
    json_t *event = status_begin(&run->status, "done");
    char text[WHEN_MAX];

    say(run->cli, "'%s' was done at %s by %s", shown(name), when(mark->at_ms, text),
        shown(mark->label));
    json_set_name(event, name, strlen(name));
    json_object_set_new(event, "token", json_u64(mark->token));
    json_object_set_new(event, "at_ms", json_i64(mark->at_ms));
    json_object_set_new(event, "label", json_text(mark->label, strlen(mark->label)));
    status_send(&run->status, event);
}

static bool fail(int *ret_code, const hf_error *err)
{
    *ret_code = say_failure(err);
    return false;
}

static bool look_first(struct run *run, int *ret_code)
{
    hf_once_mark mark = HF_ONCE_MARK_INIT;
    hf_status status;
    hf_error err;

    if (run->cli->args.mark_ms && !(run->store.info.caps & HF_CAP_CELL_TTL)) {
        say_error("--for: engine %s has no marks that expire", run->store.info.engine);
        *ret_code = EXIT_CONFIG;
        return false;
    }
    status = hf_once_get(run->store.store, run->cli->args.name, HF_CSTRING, &mark, &err);
    if (status != HF_OK && status != HF_NOT_FOUND)
        return fail(ret_code, &err);
    if (status == HF_OK)
        tell_done(run, &mark);
    *ret_code = EXIT_FINE;
    return status == HF_NOT_FOUND;
}

static bool claim(struct run *run, int *ret_code)
{
    hf_once_mark mark = HF_ONCE_MARK_INIT;
    hf_error err;
    hf_status status = hf_once_claim(run->lease, run->cli->args.mark_ms, &mark, &err);

    if (status != HF_OK && status != HF_DONE)
        return fail(ret_code, &err);
    if (status == HF_DONE)
        tell_done(run, &mark);
    *ret_code = EXIT_FINE;
    return status == HF_OK;
}

/* While we hold the lock nobody else begins: so if the store is away, we wait for it. */
static int mark_done(struct run *run, int code)
{
    struct run_tries tries = { .said = false };
    hf_error err;

    if (code != EXIT_FINE || run->lost)
        return code;
    do {
        if (hf_once_finish(run->lease, &err) == HF_OK)
            return EXIT_FINE;
    } while (run_again(run, &err, &tries));
    say_error("'%s' was done, but its mark %s missing: %s", shown(run->cli->args.name),
              err.status == HF_UNKNOWN ? "may be" : "is", err.text);
    return exit_of(err.status);
}

/* --forget: no command, no lock. */
static int forget(struct cli *cli)
{
    struct cli_store store;
    hf_error err;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.command)
        code = usage_error(cli, "--forget runs no command");
    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    if (hf_once_delete(store.store, cli->args.name, HF_CSTRING, &err) != HF_OK)
        code = say_failure(&err);
    store_close(&store);
    return code;
}

int verb_once(struct cli *cli)
{
    static const struct run_hooks hooks = { .before = look_first,
                                            .entered = claim,
                                            .ended = mark_done };

    if (cli->args.mark_ms && cli->args.mark_ms < HF_TTL_MIN_MS)
        return usage_error(cli, "--for must be at least %ds", HF_TTL_MIN_MS / 1000);
    return cli->args.forget ? forget(cli) : run_under(cli, &hooks);
}
