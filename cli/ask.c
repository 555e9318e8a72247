/* SPDX-License-Identifier: MIT */
/*
 * `holdfast ask NAME`: ask whoever holds NAME to give it away; with -w, wait until that has happened. It queues nowhere: the name may
 * go to somebody else.
 */
#include "json.h"
#include "look.h"
#include "table.h"
#include "util/clock.h"

#include <string.h>

/* Does one of the leases of `before` still hold? */
static bool still_held(const hf_view *before, const hf_view *now)
{
    const hf_entry *was = hf_view_entry(before, 0), *is = hf_view_entry(now, 0);

    for (size_t i = 0; was && is && i < was->holder_count; i++)
        for (size_t k = 0; k < is->holder_count; k++)
            if (hf_entry_holder(was, i)->token == hf_entry_holder(is, k)->token &&
                hf_entry_holder(was, i)->first == hf_entry_holder(is, k)->first)
                return true;
    return false;
}

/* Wait until none of those that were asked holds it any more. EXIT_FINE, EXIT_BUSY, or a failure. */
static int await_release(const struct cli *cli, struct look_changes *changes, const hf_view *before)
{
    int64_t until_ms = hfi_after_ms(hfi_now_ms(), cli->args.wait_ms), left_ms;

    for (;;) {
        hf_view *now = NULL;
        bool held;
        int code = look_view(changes->store, cli->args.name, false, &now);

        if (code != EXIT_FINE)
            return code;
        held = now && still_held(before, now);
        left_ms = until_ms - hfi_now_ms();
        if (held && left_ms > 0)
            look_changes_wait(changes, now, left_ms);
        hf_free(now);
        if (!held || left_ms <= 0)
            return held ? EXIT_BUSY : EXIT_FINE;
    }
}

static int failed(const struct cli *cli, const hf_error *err)
{
    if (err->status == HF_NOT_FOUND) {
        say(cli, "nobody holds '%s'", shown(cli->args.name));
        return EXIT_ABSENT;
    }
    if (err->status == HF_BUSY) {
        say_error("the holder of '%s' does not listen: it was not started with --on-wanted or "
                  "--yield-signal",
                  shown(cli->args.name));
        return EXIT_NO_STORE;
    }
    return say_failure(err);
}

static int ask(struct cli *cli, struct cli_store *store)
{
    const char *name = cli->args.name;
    hf_view *before = NULL;
    struct look_changes changes;
    hf_status status;
    hf_error err;
    json_t *object;
    int code = EXIT_FINE;

    if (cli->args.wait_ms) { /* which leases there are, before their holders can react */
        look_changes_begin(store, &changes);
        code = look_view(store, name, false, &before);
        if (code != EXIT_FINE)
            return code;
    }
    status = hf_ask(store->store, name, strlen(name), cli->args.ask_text, &err);
    if (status != HF_OK) {
        hf_free(before);
        return failed(cli, &err);
    }
    say_more(cli, "the holder of '%s' was asked", shown(name));
    if (cli->args.wait_ms)
        code = await_release(cli, &changes, before);
    hf_free(before);
    if (code == EXIT_BUSY)
        say(cli, "'%s' is still held", shown(name));
    if (!cli->args.json || (code != EXIT_FINE && code != EXIT_BUSY))
        return code;

    object = json_object();
    json_set_name(object, name, strlen(name));
    json_object_set_new(object, "told", json_true());
    json_object_set_new(object, "released",
                        cli->args.wait_ms ? json_boolean(code == EXIT_FINE) : json_null());
    json_print(object, true);
    return out_finish(cli) == EXIT_FINE ? code : EXIT_OUTPUT;
}

int verb_ask(struct cli *cli)
{
    struct cli_store store;
    int code = need_name(cli);

    if (code == EXIT_FINE)
        code = store_find(cli, &store);
    if (code != EXIT_FINE)
        return code;
    if (store.absent[0]) {
        hf_error err = { .status = HF_NOT_FOUND };

        code = failed(cli, &err);
    } else {
        code = ask(cli, &store);
    }
    store_close(&store);
    return code;
}
