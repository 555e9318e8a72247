/* SPDX-License-Identifier: MIT */
/*
 * `holdfast wait NAME`: until a view shows that nobody holds NAME. It queues nowhere, so it takes the name from nobody; between
 * two views it may have been free without being seen, as with `watch`. Changes wake it, where the engine reports them.
 */
#include "json.h"
#include "look.h"
#include "table.h"
#include "util/clock.h"

#include <string.h>

/* EXIT_FINE: it is free. EXIT_BUSY, or a failure after a message. */
static int wait_until_free(const struct cli *cli, struct cli_store *store)
{
    int64_t wait_ms = store_wait_ms(cli);
    int64_t until_ms =
        hfi_after_ms(hfi_now_ms(), wait_ms == HF_FOREVER ? HF_DURATION_MAX_MS : wait_ms);
    struct look_changes changes;

    look_changes_begin(store, &changes);
    for (;;) {
        hf_view *view = NULL;
        int code = look_view(store, cli->args.name, false, &view);
        int64_t left_ms = until_ms - hfi_now_ms();
        bool held = code == EXIT_FINE && view && look_is_held(view);

        if (held && left_ms > 0)
            look_changes_wait(&changes, view, left_ms);
        hf_free(view);
        if (code != EXIT_FINE || !held)
            return code;
        if (left_ms <= 0)
            return EXIT_BUSY;
    }
}

static int still_held(const struct cli *cli)
{
    int64_t wanted = cli->args.busy_exit;

    if (wanted != 0 || cli->args.verbose)
        say(cli, "'%s' is still held", shown(cli->args.name));
    return wanted >= 0 ? (int)wanted : EXIT_BUSY;
}

int verb_wait(struct cli *cli)
{
    struct cli_store store;
    json_t *object;
    int code = need_name(cli), printed;

    if (code == EXIT_FINE)
        code = look_open(cli, &store);
    if (code != EXIT_FINE)
        return code;
    code = wait_until_free(cli, &store);
    store_close(&store);
    if (code != EXIT_FINE && code != EXIT_BUSY)
        return code;

    if (cli->args.json) {
        object = json_object();
        json_set_name(object, cli->args.name, strlen(cli->args.name));
        json_object_set_new(object, "free", json_boolean(code == EXIT_FINE));
        json_print(object, true);
    }
    printed = out_finish(cli);
    if (printed != EXIT_FINE)
        return printed;
    return code == EXIT_FINE ? code : still_held(cli);
}
