/* SPDX-License-Identifier: MIT */
/* Getting at a lease by the handle that `lock` printed. */
#include "adopt.h"

#include <string.h>

int adopt(const struct cli *cli, bool renew, struct cli_store *ret_store, hf_lease **ret_lease)
{
    const struct args *args = &cli->args;
    hf_adopt_request request = HF_ADOPT_REQUEST_INIT;
    hf_status status;
    hf_error err;
    int code = need_name(cli);

    if (code == EXIT_FINE && !args->lease)
        code = usage_error(cli, "no handle: give --lease HANDLE, as `lock` printed it");
    if (code == EXIT_FINE && args->ttl_ms && args->ttl_ms < HF_TTL_MIN_MS)
        code = usage_error(cli, "--ttl must be at least %ds", HF_TTL_MIN_MS / 1000);
    if (code == EXIT_FINE)
        code = store_open(cli, NULL, ret_store);
    if (code != EXIT_FINE)
        return code;

    request.name = args->name;
    request.name_len = strlen(args->name);
    request.text = args->lease;
    request.ttl_ms = args->ttl_ms;
    request.renew = renew;
    status = hf_lease_adopt(ret_store->store, &request, ret_lease, &err);
    if (status == HF_OK)
        return EXIT_FINE;
    store_close(ret_store);
    /* The name and the ttl were checked; a handle is a secret, and is not repeated. */
    if (status == HF_INVALID)
        return usage_error(cli, "--lease is not a handle that `lock` printed");
    say_failure(&err);
    return status == HF_NOT_FOUND ? EXIT_LOST : exit_of(status);
}
