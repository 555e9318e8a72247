/* SPDX-License-Identifier: MIT */
/*
 * `holdfast convert NAME --lease HANDLE -s|-x|--upgradeable`: make a lease of a read-write lock that `lock` took one of another
 * kind, without a gap. It has a new handle then. If that could not be printed, nobody has it, so the lease is released.
 */
#include "adopt.h"
#include "json.h"
#include "table.h"

#include <string.h>

static int check(const struct cli *cli)
{
    const struct args *args = &cli->args;

    if (args->shared + args->exclusive + args->upgradeable != 1)
        return usage_error(cli, "no kind: give -s, -x or --upgradeable");
    if (args->nonblock && args->wait_ms)
        return usage_error(cli, "-n and -w exclude each other");
    return EXIT_FINE;
}

static int print_handle(const struct cli *cli, hf_lease *lease)
{
    char handle[HF_LEASE_TEXT_MAX];
    hf_status status = hf_lease_export(lease, handle);
    json_t *object;

    if (status != HF_OK) {
        say_error("no handle: %s", hf_status_text(status));
        return exit_of(status);
    }
    if (!cli->args.json) {
        puts(handle);
        return out_finish(cli);
    }
    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "token", json_u64(hf_lease_token(lease)));
    json_object_set_new(object, "handle", json_string(handle));
    json_print(object, true);
    return out_finish(cli);
}

int verb_convert(struct cli *cli)
{
    const struct args *args = &cli->args;
    struct cli_store store;
    hf_status status;
    hf_lease *lease;
    hf_error err;
    int code = check(cli);

    if (code == EXIT_FINE && cli->stdout_closed)
        code = out_finish(cli);
    if (code == EXIT_FINE)
        code = adopt(cli, true, &store, &lease);
    if (code != EXIT_FINE)
        return code;
    status = hf_convert(&lease,
                        args->shared      ? HF_KIND_SHARED
                        : args->exclusive ? HF_KIND_EXCLUSIVE
                                          : HF_KIND_UPGRADEABLE,
                        store_wait_ms(cli), &err);
    if (status == HF_OK) {
        code = print_handle(cli, lease);
        if (code != EXIT_FINE)
            hf_release(lease, NULL);
    } else if (status == HF_BUSY || status == HF_TIMEOUT) {
        code = args->busy_exit >= 0 ? (int)args->busy_exit : EXIT_BUSY;
        if (code != 0)
            say_more(cli, "'%s' was not converted: other readers hold it", shown(args->name));
    } else {
        code = say_failure(&err);
    }
    store_leave(&store);
    return code;
}
