/* SPDX-License-Identifier: MIT */
/* `holdfast resize NAME --slots N | --reset`: set the size of a semaphore, also while it is in use. */
#include "json.h"
#include "store.h"
#include "table.h"

#include <string.h>

int verb_resize(struct cli *cli)
{
    const char *name = cli->args.name;
    uint32_t slots = cli->args.reset ? 0 : (uint32_t)cli->args.slots;
    struct cli_store store;
    hf_status status;
    hf_error err;
    json_t *object;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.reset == (cli->args.slots >= 0))
        code = usage_error(cli, "either --slots N or --reset");
    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;

    status = hf_semaphore_resize(store.store, name, strlen(name), slots, &err);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);
    if (slots)
        say_more(cli, "'%s' is a semaphore of %u slots now", shown(name), (unsigned)slots);
    else
        say_more(cli, "requests set the size of '%s' again", shown(name));
    if (!cli->args.json)
        return EXIT_FINE;

    object = json_object();
    json_set_name(object, name, strlen(name));
    json_object_set_new(object, "slots", slots ? json_integer(slots) : json_null());
    json_print(object, true);
    return out_finish(cli);
}
