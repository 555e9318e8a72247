/* SPDX-License-Identifier: MIT */
/*
 * `holdfast elect`: a run whose lease is leadership. It publishes in the store that it leads, and
 * at the end that nobody leads; with --again it campaigns again after it has lost leadership.
 * `--observe` runs nothing and prints the leader, and each change. Main thread.
 */
#include "holdfast/primitives.h"
#include "look.h"
#include "run.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AWAY_MS    1000 /* --again: the pause after the store was away */
#define OBSERVE_MS 1000 /* how often we check that our output is still read */

/* ---- leading ------------------------------------------------------------------------------------- */

static bool proclaim(struct run *run, int *ret_code)
{
    const char *value = run->cli->args.value ? run->cli->args.value : "";
    hf_error err;

    if (hf_election_set(run->lease, value, strlen(value), &err) == HF_OK)
        return true;
    *ret_code = say_failure(&err);
    return false;
}

/* --again: campaign again if leadership was lost and no signal has ended us. */
static bool again(struct run *run, int code)
{
    static bool led;
    struct pollfd polled = { .fd = run->signals.fd, .events = POLLIN };

    led |= run->lost;
    if (!run->cli->args.again || run->ended_by.number || run->die_of)
        return false;
    if (run->lost)
        return true;
    if (!led || code != EXIT_NO_STORE)
        return false;
    poll(&polled, 1,
         AWAY_MS); /* it was lost because the store is away; a signal is read by the wait */
    return true;
}

/* ---- observing ------------------------------------------------------------------------------------- */

static void print_leader(const struct cli *cli, const hf_leader *leader)
{
    const char *name = cli->args.name;
    struct timespec now;
    struct tm local;
    char at[16], token[CELL_MAX];

    if (cli->args.json) {
        json_t *object = json_object();

        json_object_set_new(object, "event", json_string(leader->leads ? "leads" : "vacant"));
        json_set_name(object, name, strlen(name));
        if (leader->leads) {
            json_object_set_new(object, "token", json_u64(leader->token));
            json_object_set_new(object, "value", json_text(leader->value, leader->value_len));
            json_object_set_new(object, "label", json_text(leader->label, strlen(leader->label)));
        }
        json_print(object, false);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(at, sizeof at, "%H:%M:%S", &local);
    printf("%s.%03ld  ", at, now.tv_nsec / 1000000);
    if (leader->leads)
        printf("leads   %s  token %s  %s  %s\n", shown(name), token_words(leader->token, token),
               safe_label(leader->label), safe(leader->value, leader->value_len));
    else
        printf("vacant  %s\n", shown(name));
}

static int observe_loop(struct cli *cli, hf_store *store)
{
    hf_election_request request = HF_ELECTION_REQUEST_INIT;
    hf_leader *last = NULL, *next;
    hf_status status;
    hf_error err;
    bool away = false;

    request.name = cli->args.name;
    request.name_len = HF_CSTRING;
    request.wait_ms = OBSERVE_MS;
    do {
        request.last = last;
        status = hf_election_wait(store, &request, &next, &err);
        if (status == HF_UNAVAILABLE && !away)
            say(cli, "%s; waiting for it", err.text);
        away = status == HF_UNAVAILABLE;
        if (status == HF_TIMEOUT || away)
            continue;
        if (status != HF_OK)
            break;
        hf_free(last);
        last = next;
        print_leader(cli, last);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            hf_free(last);
            return errno == EPIPE ? EXIT_FINE : out_finish(cli);
        }
    } while (out_is_read(0));
    hf_free(last);
    return status == HF_OK || status == HF_TIMEOUT || away ? EXIT_FINE : say_failure(&err);
}

static int observe(struct cli *cli)
{
    struct cli_store store;
    int code = need_name(cli);

    if (code == EXIT_FINE && cli->args.command)
        code = usage_error(cli, "--observe runs no command");
    if (code == EXIT_FINE && cli->stdout_closed)
        code = out_finish(cli);
    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    code = observe_loop(cli, store.store);
    store_close(&store);
    return code;
}

static bool check(struct run *run, int *ret_code)
{
    if (run->store.info.caps & HF_CAP_CELLS)
        return true;
    say_error("engine %s has no cells, which elections need", run->store.info.engine);
    *ret_code = EXIT_CONFIG;
    return false;
}

int verb_elect(struct cli *cli)
{
    static const struct run_hooks hooks = {
        .before = check, .entered = proclaim, .release = hf_election_resign, .again = again
    };

    return cli->args.observe ? observe(cli) : run_under(cli, &hooks);
}
