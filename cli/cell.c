/* SPDX-License-Identifier: MIT */
/*
 * `holdfast cell get|put|cas|rm|watch NAME [VALUE]`: bytes with a version. A value is printed as
 * its bytes and nothing else; on a terminal control characters are escaped. cell_commit.c has `cell commit`.
 */
#include "cell.h"
#include "holdfast/primitives.h"
#include "json.h"
#include "store.h"
#include "table.h"
#include "util/text.h"
#include "value.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 1000 /* how often a watch checks that its output is still read */

typedef int action_fn(struct cli *cli, struct cli_store *store);
static action_fn get, put, cas, rm, watch;
static int absent(const struct cli *cli);

static const struct action {
    const char *name;
    action_fn *run;
    bool takes_value, takes_version, takes_ttl;
} actions[] = {
    { "get", get, false, false, false },     { "put", put, true, false, true },
    { "cas", cas, true, true, true },        { "rm", rm, false, true, false },
    { "watch", watch, false, false, false }, { "commit", cell_commit, false, false, true },
};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; name && i < sizeof actions / sizeof *actions; i++)
        if (strcmp(actions[i].name, name) == 0)
            return &actions[i];
    return NULL;
}

int verb_cell(struct cli *cli)
{
    const struct action *action = find_action(cli->args.action);
    struct cli_store store;
    int code;

    if (!action)
        return usage_error(cli, "no action: get, put, cas, rm, watch or commit");
    code = action->run == cell_commit ? EXIT_FINE : need_name(cli);
    if (code != EXIT_FINE)
        return code;
    if (cli->args.value && !action->takes_value)
        return usage_error(cli, "'%s' is one argument too many", shown(cli->args.value));
    if (cli->args.cell_version && !action->takes_version)
        return usage_error(cli, "%s takes no --version", action->name);
    if (cli->args.ttl_ms && !action->takes_ttl)
        return usage_error(cli, "%s takes no --ttl", action->name);
    if (action->run == get || action->run == rm)
        code = store_find(cli, &store);
    else
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    code = store.absent[0] ? absent(cli) : action->run(cli, &store);
    store_close(&store);
    return code;
}

/* The version that was given. EXIT_FINE, or EXIT_USAGE after a message. */
static int version_of(const struct cli *cli, uint64_t min, uint64_t *ret_version)
{
    const char *text = cli->args.cell_version;
    const char *wrong =
        text ? hfi_parse_u64(text, min, UINT64_MAX, ret_version) : "is missing: give --version V";

    if (!wrong)
        return EXIT_FINE;
    return usage_error(cli, "--version%s%s%s %s", text ? " '" : "", text ? shown(text) : "",
                       text ? "'" : "", wrong);
}

/* ---- what is printed ------------------------------------------------------------------ */

static json_t *cell_json(const struct cli *cli, const hf_cell *cell)
{
    json_t *object = json_object();

    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "version", cell->version ? json_u64(cell->version) : json_null());
    if (!cell->version)
        return object;
    json_object_set_new(object, "ttl_ms", cell->ttl_ms < 0 ? json_null() : json_i64(cell->ttl_ms));
    value_to_json(object, cell->bytes, cell->len);
    return object;
}

static int print_version(const struct cli *cli, uint64_t version)
{
    json_t *object;

    if (cli->args.json) {
        object = json_object();
        json_set_name(object, cli->args.name, strlen(cli->args.name));
        json_object_set_new(object, "version", json_u64(version));
        json_print(object, true);
    } else if (!cli->args.quiet) {
        printf("%" PRIu64 "\n", version);
    }
    return out_finish(cli);
}

/* There is no such cell: that is an answer for a script, not a failure of the store. */
static int absent(const struct cli *cli)
{
    say(cli, "no such cell: '%s'", shown(cli->args.name));
    return EXIT_ABSENT;
}

/* ---- get ------------------------------------------------------------------------------ */

static int get(struct cli *cli, struct cli_store *store)
{
    const char *name = cli->args.name;
    hf_cell cell = HF_CELL_INIT;
    hf_error err;
    hf_status status = hf_cell_get(store->store, name, strlen(name), &cell, &err);

    if (status == HF_MISMATCH) { /* perhaps one that is bound to a lease */
        hf_error bound;
        hf_status again = hf_lease_cell_get(store->store, name, strlen(name), &cell, &bound);

        if (again == HF_OK || again == HF_NOT_FOUND)
            status = again;
    }
    if (status == HF_NOT_FOUND)
        return absent(cli);
    if (status != HF_OK)
        return say_failure(&err);
    say_more(cli, "version %" PRIu64, cell.version);
    if (cli->args.json)
        json_print(cell_json(cli, &cell), true);
    else
        value_print(cell.bytes, cell.len);
    hf_free(cell.bytes);
    return out_finish(cli);
}

/* ---- put, cas ------------------------------------------------------------------------- */

/* A request with the name of the cell; the caller fills in the rest. */
static hf_cell_request cell_request(const struct cli *cli)
{
    hf_cell_request request = HF_CELL_REQUEST_INIT;

    request.name = cli->args.name;
    request.name_len = strlen(cli->args.name);
    request.ttl_ms = cli->args.ttl_ms;
    return request;
}

static int put(struct cli *cli, struct cli_store *store)
{
    hf_cell_request request = cell_request(cli);
    uint64_t version;
    struct content value;
    hf_status status;
    hf_error err;
    int code = value_read(cli->args.value, HF_CELL_MAX, &value);

    if (code != EXIT_FINE)
        return code;
    request.bytes = value.bytes;
    request.len = value.len;
    status = hf_cell_set(store->store, &request, &version, &err);
    free(value.bytes);
    return status == HF_OK ? print_version(cli, version) : say_failure(&err);
}

static int cas(struct cli *cli, struct cli_store *store)
{
    hf_cell_request request = cell_request(cli);
    uint64_t fresh;
    struct content value;
    hf_status status;
    hf_error err;
    int code = version_of(cli, 0, &request.version);

    if (code == EXIT_FINE)
        code = value_read(cli->args.value, HF_CELL_MAX, &value);
    if (code != EXIT_FINE)
        return code;
    request.bytes = value.bytes;
    request.len = value.len;
    status = hf_cell_swap(store->store, &request, &fresh, &err);
    free(value.bytes);
    return status == HF_OK ? print_version(cli, fresh) : say_failure(&err);
}

/* ---- rm ------------------------------------------------------------------------------- */

static hf_status delete_any(const hf_cell *old, hf_cell_change *change, void *arg)
{
    change->action = HF_CELL_ACTION_DELETE;
    *(bool *)arg = old->version != 0;
    return HF_OK;
}

/*
 * What is left of a cell that was bound to a lease, now that the lease has ended. Its version is read first: if the cell is bound
 * again meanwhile, it has another one, and stays. HF_MISMATCH: it is bound to a lease that is held, or is something else; *err stays.
 */
static hf_status delete_remnant(struct cli_store *store, hf_cell_request request, hf_error *err)
{
    hf_cell cell = HF_CELL_INIT;
    uint64_t version;
    hf_status status;

    request.version = 0;
    request.wait_ms = 0;
    status = hf_cell_wait(store->store, &request, &version, NULL);
    if (status == HF_OK)
        status = hf_lease_cell_get(store->store, request.name, request.name_len, &cell, NULL);
    if (status == HF_OK)
        hf_free(cell.bytes);
    if (status != HF_NOT_FOUND)
        return HF_MISMATCH;
    return hf_cell_delete(store->store, request.name, request.name_len, version, err);
}

static int rm(struct cli *cli, struct cli_store *store)
{
    hf_cell_request request = cell_request(cli);
    bool there = true;
    uint64_t version;
    hf_status status;
    hf_error err;
    int code;

    if (cli->args.cell_version) {
        code = version_of(cli, 1, &version);
        if (code != EXIT_FINE)
            return code;
        status = hf_cell_delete(store->store, request.name, request.name_len, version, &err);
    } else {
        request.fn = delete_any;
        request.fn_arg = &there;
        request.wait_ms = HF_FOREVER;
        status = hf_cell_update(store->store, &request, NULL, &err);
        if (status == HF_MISMATCH)
            status = delete_remnant(store, request, &err);
    }
    if (status != HF_OK)
        return say_failure(&err);
    return there ? out_finish(cli) : absent(cli);
}

/* ---- watch ---------------------------------------------------------------------------- */

static void tell(const struct cli *cli, const hf_cell *cell)
{
    if (cli->args.json) {
        json_print(cell_json(cli, cell), false);
        return;
    }
    if (cell->version) {
        printf("%" PRIu64 "\t", cell->version);
        out_safe(cell->bytes, cell->len);
        putchar('\n');
    } else
        puts("-");
}

/* Print what is there now if it is not what was printed last. */
static hf_status print_if_changed(const struct cli *cli, struct cli_store *store, uint64_t *seen,
                                  hf_error *err)
{
    const char *name = cli->args.name;
    hf_cell cell = HF_CELL_INIT;
    hf_status status = hf_cell_get(store->store, name, strlen(name), &cell, err);

    if (status == HF_NOT_FOUND)
        status = HF_OK;
    if (status == HF_OK && cell.version != *seen) {
        *seen = cell.version;
        tell(cli, &cell);
    }
    hf_free(cell.bytes);
    return status;
}

static int watch(struct cli *cli, struct cli_store *store)
{
    hf_cell_request request = cell_request(cli);
    bool away = false;
    hf_status status;
    hf_error err;

    request.version = UINT64_MAX; /* nothing was printed yet */
    request.wait_ms = LOOK_MS;
    if (cli->stdout_closed)
        return out_finish(cli);
    if (!(store->info.caps & HF_CAP_CELL_WATCH))
        say_more(cli, "engine %s does not report changes: the cell is read every second",
                 store->info.engine);
    do {
        status = print_if_changed(cli, store, &request.version, &err);
        if (fflush(stdout) != 0)
            return errno == EPIPE ? EXIT_FINE : out_finish(cli);
        if (status == HF_OK)
            status = hf_cell_wait(store->store, &request, NULL, &err);
        else if (status == HF_UNAVAILABLE)
            poll(NULL, 0, LOOK_MS);
        if (status == HF_UNAVAILABLE && !away)
            say(cli, "%s; waiting for it", err.text);
        away = status == HF_UNAVAILABLE;
        if (!out_is_read(0))
            return EXIT_FINE;
    } while (status == HF_OK || status == HF_TIMEOUT || away);
    return say_failure(&err);
}
