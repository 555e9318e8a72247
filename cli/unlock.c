/* SPDX-License-Identifier: MIT */
/* `holdfast unlock NAME --lease HANDLE`: release a lease that `lock` took. */
#include "adopt.h"
#include "json.h"
#include "table.h"

#include <string.h>

int verb_unlock(struct cli *cli)
{
    struct cli_store store;
    hf_lease *lease;
    hf_status status;
    hf_error err;
    json_t *object;
    int code = adopt(cli, false, &store, &lease);

    if (code != EXIT_FINE)
        return code;

    status = hf_release(lease, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);
    say_more(cli, "'%s' was released", shown(cli->args.name));
    if (!cli->args.json)
        return EXIT_FINE;

    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "released", json_true());
    json_print(object, true);
    return out_finish(cli);
}
