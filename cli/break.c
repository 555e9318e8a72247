/* SPDX-License-Identifier: MIT */
/* `holdfast break NAME --token T`: end exactly that lease, whatever process owns it. */
#include "json.h"
#include "store.h"
#include "table.h"

#include <string.h>

int verb_break(struct cli *cli)
{
    const char *name = cli->args.name;
    struct cli_store store;
    hf_status status;
    hf_error err;
    json_t *object;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.token < 0)
        code = usage_error(cli, "no token: give --token T, as `show` prints it");
    if (code == EXIT_FINE)
        code = store_find(cli, &store);
    if (code != EXIT_FINE)
        return code;
    if (store.absent[0]) {
        store_close(&store);
        return exit_of(HF_NOT_FOUND);
    }

    status = hf_lease_break(store.store, name, strlen(name), (uint64_t)cli->args.token, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);
    say_more(cli, "the lease of '%s' with token %lld has been ended", shown(name),
             (long long)cli->args.token);
    if (!cli->args.json)
        return EXIT_FINE;

    object = json_object();
    json_set_name(object, name, strlen(name));
    json_object_set_new(object, "token", json_i64(cli->args.token));
    json_object_set_new(object, "broken", json_true());
    json_print(object, true);
    return out_finish(cli);
}
