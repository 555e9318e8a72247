/* SPDX-License-Identifier: MIT */
/*
 * `holdfast join GROUP`: be a member of a group, while a command runs (as `run` does) or until a signal comes.
 * `holdfast members GROUP`: who the members are; with --watch, each join and leave as it happens. Main thread.
 */
#include "canceller.h"
#include "holdfast/primitives.h"
#include "look.h"
#include "run.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WATCH_MS 1000 /* how often we check that our output is still read */

/* ---- joining -------------------------------------------------------------------------------------- */

static bool enter(struct run *run, int *ret_code)
{
    hf_acquire_request request = acquire_request(run->cli);
    struct canceller canceller;
    hf_error err;

    if (!canceller_begin(&canceller, &run->signals)) {
        *ret_code = EXIT_INTERNAL;
        return false;
    }
    request.cancel = canceller.cancel;
    request.linger_ms = 0;
    err.status =
        hf_member_join(run->store.store, &request, run->cli->args.value, &run->lease, &err);
    canceller_end(&canceller);
    if (err.status == HF_OK) {
        run->tokens[0] = hf_lease_token(run->lease);
        return true;
    }
    *ret_code = EXIT_SIGNAL_BASE + canceller.ended_by.number;
    if (canceller.ended_by.typed)
        run->die_of = canceller.ended_by.number;
    if (!canceller.ended_by.number)
        *ret_code =
            acquire_failure(&(struct acquiring){ .cli = run->cli, .store = &run->store }, &err);
    return false;
}

/* Without a command: a program that only waits for a signal has our place in the table of processes. */
int verb_join(struct cli *cli)
{
    static const struct run_hooks hooks = { .acquire = enter, .release = hf_member_leave };
    static char sleeps[] = "sleep", for_ever[] = "infinity";
    static char *nothing[] = { sleeps, for_ever, NULL };

    if (!cli->args.command)
        cli->args.command = nothing;
    return run_under(cli, &hooks);
}

/* ---- listing ---------------------------------------------------------------------------------------- */

static json_t *member_json(const hf_member *member)
{
    json_t *object = json_object();

    json_object_set_new(object, "token", json_u64(member->token));
    json_object_set_new(object, "value", json_text(member->value, strlen(member->value)));
    json_object_set_new(object, "age_ms", json_i64(member->age_ms));
    json_object_set_new(object, "ttl_ms",
                        member->ttl_ms < 0 ? json_null() : json_i64(member->ttl_ms));
    json_object_set_new(object, "pid", json_pid(member->pid));
    return object;
}

static void print_event(const struct cli *cli, const char *event, const hf_member *member)
{
    struct timespec now;
    struct tm local;
    char at[16], token[CELL_MAX];

    if (cli->args.json) {
        json_t *object = member_json(member);

        json_object_set_new(object, "event", json_string(event));
        json_set_name(object, cli->args.name, strlen(cli->args.name));
        json_print(object, false);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(at, sizeof at, "%H:%M:%S", &local);
    printf("%s.%03ld  %-6s  token %s  %s\n", at, now.tv_nsec / 1000000, event,
           token_words(member->token, token), safe_label(member->value));
}

/* Both are sorted by token. */
static void print_changes(const struct cli *cli, const hf_members *before, const hf_members *after)
{
    size_t left = 0, right = 0;

    for (;;) {
        const hf_member *was = hf_members_item(before, left), *is = hf_members_item(after, right);

        if (!was && !is)
            return;
        if (was && (!is || was->token < is->token)) {
            print_event(cli, "left", was);
            left++;
        } else if (!was || is->token < was->token) {
            print_event(cli, before ? "joined" : "member", is);
            right++;
        } else {
            left++;
            right++;
        }
    }
}

static int watch_loop(struct cli *cli, hf_store *store)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;
    hf_members *last = NULL, *next;
    hf_status status;
    hf_error err;
    bool away = false;

    request.name = cli->args.name;
    request.name_len = HF_CSTRING;
    request.wait_ms = WATCH_MS;
    do {
        request.last = last;
        status = hf_members_wait(store, &request, &next, &err);
        if (status == HF_UNAVAILABLE && !away)
            say(cli, "%s; waiting for it", err.text);
        away = status == HF_UNAVAILABLE;
        if (status == HF_TIMEOUT || away)
            continue;
        if (status != HF_OK)
            break;
        print_changes(cli, last, next);
        hf_free(last);
        last = next;
        if (fflush(stdout) != 0 || ferror(stdout)) {
            hf_free(last);
            return errno == EPIPE ? EXIT_FINE : out_finish(cli);
        }
    } while (out_is_read(0));
    hf_free(last);
    return status == HF_OK || status == HF_TIMEOUT || away ? EXIT_FINE : say_failure(&err);
}

static int list(struct cli *cli, hf_store *store)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;
    hf_members *members;
    hf_error err;

    request.name = cli->args.name;
    request.name_len = HF_CSTRING;
    if (hf_members_wait(store, &request, &members, &err) != HF_OK)
        return say_failure(&err);
    if (cli->args.json) {
        json_t *all = json_array();

        for (size_t i = 0; i < hf_members_count(members); i++)
            json_array_append_new(all, member_json(hf_members_item(members, i)));
        json_print(all, true);
    } else {
        for (size_t i = 0; i < hf_members_count(members); i++)
            printf("%s\n", safe_label(hf_members_item(members, i)->value));
    }
    hf_free(members);
    return out_finish(cli);
}

int verb_members(struct cli *cli)
{
    struct cli_store store;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->stdout_closed)
        code = out_finish(cli);
    if (code == EXIT_FINE)
        code = cli->args.watch ? store_open(cli, NULL, &store) : look_open(cli, &store);
    if (code != EXIT_FINE)
        return code;
    code = store.absent[0]   ? look_absent(&store)
           : cli->args.watch ? watch_loop(cli, store.store)
                             : list(cli, store.store);
    store_close(&store);
    return code;
}
