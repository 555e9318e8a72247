/* SPDX-License-Identifier: MIT */
/* `holdfast renew NAME --lease HANDLE`: prolong a lease that `lock` took. */
#include "adopt.h"
#include "json.h"
#include "table.h"

#include <string.h>

int verb_renew(struct cli *cli)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    struct cli_store store;
    hf_lease *lease;
    json_t *object;
    int code = adopt(cli, false, &store, &lease);

    if (code != EXIT_FINE)
        return code;

    if (hf_lease_get(lease, &info) != HF_OK) /* adopting has renewed it */
        code = EXIT_LOST;
    store_leave(&store);
    if (code != EXIT_FINE)
        return code;
    say_more(cli, "'%s' was renewed for %lldms", shown(cli->args.name), (long long)info.ttl_ms);
    if (!cli->args.json)
        return EXIT_FINE;

    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "token", json_u64(info.token));
    json_object_set_new(object, "ttl_ms", json_i64(info.ttl_ms));
    json_print(object, true);
    return out_finish(cli);
}
