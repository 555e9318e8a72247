/* SPDX-License-Identifier: MIT */
/* `holdfast deadlocks`: requests that wait for each other in a circle, now. */
#include "json.h"
#include "look.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>

struct circles {
    const struct cli *cli;
    size_t count;
    json_t *list; /* with --json */
};

static json_t *link_json(const hf_deadlock_waiter *link)
{
    json_t *object = json_object();
    char session[24];

    snprintf(session, sizeof session, "%09" PRIx64, link->session);
    json_object_set_new(object, "label", json_text(link->label, strlen(link->label)));
    json_object_set_new(object, "pid", link->pid > 0 ? json_integer(link->pid) : json_null());
    json_object_set_new(object, "session", json_string(session));
    json_object_set_new(object, "token", link->token ? json_u64(link->token) : json_null());
    json_object_set_new(object, "age_ms", json_i64(link->age_ms));
    json_set_name(object, link->name, link->name_len);
    return object;
}

/* "ada@example:12 job holds 'a' (token 5) and waits for 'b' (3s)" */
static void print_link(const hf_deadlock_waiter *link, const hf_deadlock_waiter *before)
{
    char age[CELL_MAX];

    printf("  %s", safe_label(link->label));
    if (link->token)
        printf(" holds '%s' (token %" PRIu64 ")", safe(before->name, before->name_len),
               link->token);
    else
        printf(" is ahead in the queue of '%s'", safe(before->name, before->name_len));
    printf(" and waits for '%s' (%s)\n", safe(link->name, link->name_len),
           duration_words(link->age_ms, age));
}

static void show_circle(struct circles *circles, const hf_deadlock *deadlock)
{
    size_t count = deadlock->waiter_count;
    json_t *list = NULL;

    if (circles->list) {
        list = json_array();
        json_array_append_new(circles->list, list);
    } else if (!circles->cli->args.quiet) {
        printf("%sdeadlock%s of %zu:\n", tone(circles->cli, TONE_BAD), tone(circles->cli, TONE_OFF),
               count);
    }
    for (size_t i = 0; i < count; i++) {
        const hf_deadlock_waiter *link = hf_deadlock_get_waiter(deadlock, i);

        if (list)
            json_array_append_new(list, link_json(link));
        else if (!circles->cli->args.quiet)
            print_link(link, hf_deadlock_get_waiter(deadlock, (i + count - 1) % count));
    }
}

int verb_deadlocks(struct cli *cli)
{
    struct circles circles = { .cli = cli };
    struct cli_store store;
    hf_deadlocks *deadlocks = NULL;
    hf_status status = HF_NOT_FOUND;
    hf_error err;
    int code = look_open(cli, &store);

    if (code != EXIT_FINE)
        return code;
    if (cli->args.json)
        circles.list = json_array();
    if (!store.absent[0])
        status = hf_deadlock_list(store.store, &deadlocks, &err);
    if (status == HF_NOT_FOUND)
        look_absent(&store);
    store_close(&store);
    if (status != HF_OK && status != HF_NOT_FOUND) {
        json_decref(circles.list);
        return say_failure(&err);
    }

    circles.count = hf_deadlock_count(deadlocks);
    for (size_t i = 0; i < circles.count; i++)
        show_circle(&circles, hf_deadlock_item(deadlocks, i));
    hf_free(deadlocks);
    if (circles.list)
        json_print(circles.list, true);
    else if (circles.count == 0 && status == HF_OK && !cli->args.quiet)
        puts("nobody waits in a circle");
    code = out_finish(cli);
    return code == EXIT_FINE && circles.count > 0 ? EXIT_WARNED : code;
}
