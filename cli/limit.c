/* SPDX-License-Identifier: MIT */
/*
 * `holdfast limit NAME --rate N/D [-- COMMAND]`: take permits of a rate limit, then become COMMAND.
 * Nothing is held while COMMAND runs, so it needs no supervisor: it replaces us. With --look, --set or --reset: look at the
 * limit, or change its rule.
 *
 * A signal must end the wait and give the permits back. So if it has to wait, a thread of its own
 * waits, and the main thread reads signals.
 */
#include "holdfast/primitives.h"
#include "json.h"
#include "look.h"
#include "signals.h"
#include "store.h"
#include "table.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A call of hf_limit_take() that waits, on a thread of its own. */
struct waiting {
    hf_store *store;
    hf_limit_request limit;
    hf_limit_result *result;
    hf_status status;
    hf_error err;
    int done_fd;
};

static int check(struct cli *cli, hf_limit_request *limit);
static hf_status wait_for_it(hf_store *store, const hf_limit_request *limit,
                             struct signals *signals, struct signal_event *ret_ended_by,
                             hf_limit_result *result, hf_error *err);
static int look_or_set(struct cli *cli, struct cli_store *store, const hf_limit_request *limit);
static int refuse(struct cli *cli, const hf_limit_result *result);
static int print_json(struct cli *cli, const hf_limit_result *result, bool granted);
static int become_command(struct cli *cli, struct cli_store *store, const struct signals *signals);

/* The option that says so; NULL: none. */
static const char *takes_nothing(const struct args *args)
{
    return args->look ? "--look" : args->set ? "--set" : args->reset ? "--reset" : NULL;
}

int verb_limit(struct cli *cli)
{
    hf_limit_request limit = HF_LIMIT_REQUEST_INIT, try;
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    struct signal_event ended_by = { 0 };
    struct cli_store store;
    struct signals signals;
    hf_status status;
    hf_error err;
    int code = check(cli, &limit);

    if (code == EXIT_FINE)
        code = store_open(cli, NULL, &store);
    if (code != EXIT_FINE)
        return code;
    limit.wait_ms = store_wait_ms(cli);
    if (takes_nothing(&cli->args))
        return look_or_set(cli, &store, &limit);
    if (!signals_open(&signals)) {
        say_error("no descriptor for signals: %s", strerror(errno));
        store_close(&store);
        return EXIT_INTERNAL;
    }

    try = limit;
    try.wait_ms = 0;
    status = hf_limit_take(store.store, &try, &result, &err);
    if (status == HF_BUSY && limit.wait_ms != 0)
        status = wait_for_it(store.store, &limit, &signals, &ended_by, &result, &err);
    if (status == HF_OK && !ended_by.number && cli->args.command)
        return become_command(cli, &store, &signals);

    store_close(&store);
    if (ended_by.typed)
        signals_die(ended_by.number, false);
    if (ended_by.number)
        return EXIT_SIGNAL_BASE + ended_by.number;
    if (status == HF_OK)
        return print_json(cli, &result, true);
    return status == HF_BUSY || status == HF_TIMEOUT ? refuse(cli, &result) : say_failure(&err);
}

/* ---- options --------------------------------------------------------------------------------------- */

/* "10/1m" */
static const char *parse_rate(const char *text, hf_limit_request *limit)
{
    char number[24];
    const char *slash = strchr(text, '/');
    const char *wrong;
    uint64_t rate = 0;

    if (!slash || slash == text || (size_t)(slash - text) >= sizeof number)
        return "is not a rate: N/D, as in 10/1m";
    memcpy(number, text, (size_t)(slash - text));
    number[slash - text] = 0;
    wrong = hfi_parse_u64(number, 1, HF_CAPACITY_MAX, &rate);
    if (wrong)
        return "is not a rate: the number before the slash must be from 1 to 1000000000";
    limit->rate = (uint32_t)rate;
    if (slash[1] < '0' || slash[1] > '9') /* "10/min" */
        return "is not a rate: N/D, as in 10/1m for ten a minute";
    wrong = hfi_parse_duration(slash + 1, &limit->per_ms);
    return wrong ? wrong : limit->per_ms == 0 ? "must not be for 0" : NULL;
}

static int check(struct cli *cli, hf_limit_request *limit)
{
    const struct args *args = &cli->args;
    const char *nothing = takes_nothing(args), *rate = args->set ? args->set : args->rate;
    const char *wrong;
    int code = need_name(cli);

    if (code != EXIT_FINE)
        return code;
    if (args->look + !!args->set + args->reset > 1)
        return usage_error(cli, "--look, --set and --reset exclude each other");
    if (args->rate && (args->set || args->reset))
        return usage_error(cli, "--rate belongs to requests, not to %s", nothing);
    if (!rate && !nothing)
        return usage_error(cli, "no rate: give --rate N/D, for example --rate 10/1m");
    wrong = rate ? parse_rate(rate, limit) : NULL;
    if (wrong)
        return usage_error(cli, "%s '%s' %s", args->set ? "--set" : "--rate", shown(rate), wrong);
    if (args->nonblock && args->wait_ms)
        return usage_error(cli, "-n and -w exclude each other");
    if (args->command && !args->command[0])
        return usage_error(cli, "no command after --");
    if (args->command && !args->command[0][0])
        return usage_error(cli, "the command is empty");
    if (args->command && (nothing || args->json))
        return usage_error(cli, "%s takes no command", nothing ? nothing : "--json");
    if (args->burst >= 0 && args->algorithm != HF_LIMIT_ALGORITHM_BUCKET)
        return usage_error(cli, "--burst needs --algorithm=bucket");

    limit->name = args->name;
    limit->name_len = strlen(args->name);
    limit->algorithm = (hf_limit_algorithm)args->algorithm;
    limit->burst = args->burst >= 0 ? (uint32_t)args->burst : 0;
    limit->permits = args->permits >= 0 ? (uint32_t)args->permits : 0;
    return EXIT_FINE;
}

/* ---- waiting --------------------------------------------------------------------------------------- */

static void *wait_main(void *arg)
{
    struct waiting *waiting = arg;
    uint64_t one = 1;

    waiting->status =
        hf_limit_take(waiting->store, &waiting->limit, waiting->result, &waiting->err);
    while (write(waiting->done_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    return NULL;
}

/* Read signals until the call has ended, or end it by a signal. A signal that stops us does not end
 * it: the reservation stays. */
static void read_signals(struct waiting *waiting, const struct signals *signals,
                         struct signal_event *ret_ended_by)
{
    struct pollfd polled[] = { { .fd = signals->fd, .events = POLLIN },
                               { .fd = waiting->done_fd, .events = POLLIN } };
    struct signal_event event;

    while (!polled[1].revents) {
        if (poll(polled, 2, -1) < 0)
            continue;
        while (signals_next(signals, &event)) {
            if (signal_stops(event.number)) {
                signals_stop(event.number, false);
            } else if (signal_ends(event.number)) {
                *ret_ended_by = event;
                hf_cancel_fire(waiting->limit.cancel);
            }
        }
    }
}

static hf_status wait_for_it(hf_store *store, const hf_limit_request *limit,
                             struct signals *signals, struct signal_event *ret_ended_by,
                             hf_limit_result *result, hf_error *err)
{
    struct waiting waiting = {
        .store = store, .limit = *limit, .result = result, .done_fd = eventfd(0, EFD_CLOEXEC)
    };
    hf_status status = hf_cancel_open(&waiting.limit.cancel);
    pthread_t thread;

    if (status == HF_OK &&
        (waiting.done_fd < 0 || pthread_create(&thread, NULL, wait_main, &waiting) != 0)) {
        hf_cancel_close(waiting.limit.cancel);
        status = HF_NO_MEMORY;
    }
    if (status == HF_OK) {
        read_signals(&waiting, signals, ret_ended_by);
        pthread_join(thread, NULL);
        hf_cancel_close(waiting.limit.cancel);
        *err = waiting.err;
        status = waiting.status;
    } else {
        *err = (hf_error){ .status = status };
        snprintf(err->text, sizeof err->text, "%s", hf_status_text(status));
    }
    if (waiting.done_fd >= 0)
        close(waiting.done_fd);
    return status;
}

/* ---- telling --------------------------------------------------------------------------------------- */

static const char *algorithm_name(const hf_limit_result *result)
{
    static const char *const names[] = { "fixed", "sliding", "bucket" };

    return names[result->algorithm];
}

static int print_json(struct cli *cli, const hf_limit_result *result, bool granted)
{
    json_t *object;

    if (!cli->args.json)
        return EXIT_FINE;
    object = json_object();
    json_set_name(object, cli->args.name, strlen(cli->args.name));
    if (!takes_nothing(&cli->args)) {
        json_object_set_new(object, "granted", json_boolean(granted));
        json_object_set_new(object, "waited_ms", json_i64(result->waited_ms));
        json_object_set_new(object, "retry_ms", json_i64(result->retry_ms));
    }
    json_object_set_new(object, "left", json_u64(result->left));
    json_object_set_new(object, "refill_ms", json_i64(result->refill_ms));
    json_object_set_new(object, "algorithm", json_string(algorithm_name(result)));
    json_object_set_new(object, "rate", json_u64(result->rate));
    json_object_set_new(object, "per_ms", json_i64(result->per_ms));
    if (result->algorithm == HF_LIMIT_ALGORITHM_BUCKET)
        json_object_set_new(object, "burst", json_u64(result->burst));
    json_object_set_new(object, "set", json_boolean(result->is_set));
    json_print(object, true);
    return out_finish(cli);
}

static void print_look(struct cli *cli, const hf_limit_result *result)
{
    char words[CELL_MAX];

    printf("%s: %" PRIu64 " left", safe(cli->args.name, strlen(cli->args.name)), result->left);
    if (result->refill_ms > 0)
        printf(", all again in %s", duration_words(result->refill_ms, words));
    printf(" (%s, %" PRIu32 " in %s", algorithm_name(result), result->rate,
           duration_words(result->per_ms, words));
    if (result->algorithm == HF_LIMIT_ALGORITHM_BUCKET)
        printf(", at most %" PRIu32, result->burst);
    printf("%s)\n", result->is_set ? ", set" : "");
}

static int look_or_set(struct cli *cli, struct cli_store *store, const hf_limit_request *limit)
{
    hf_limit_result result = HF_LIMIT_RESULT_INIT;
    hf_error err;
    hf_status status = cli->args.look ? hf_limit_get(store->store, limit, &result, &err)
                                      : hf_limit_set(store->store, limit, &result, &err);

    store_close(store);
    if (status != HF_OK)
        return say_failure(&err);
    if (cli->args.reset)
        return EXIT_FINE;
    if (cli->args.json)
        return print_json(cli, &result, true);
    if (cli->args.look)
        print_look(cli, &result);
    return out_finish(cli);
}

static int refuse(struct cli *cli, const hf_limit_result *result)
{
    int64_t wanted = cli->args.busy_exit;
    char retry[CELL_MAX];
    int code = print_json(cli, result, false);

    if (code != EXIT_FINE)
        return code;
    /* A caller that asks for 0 says that it is no failure: cron must not send mail about it. */
    if (wanted != 0 || cli->args.verbose)
        say(cli, "'%s' has reached its limit: the wait would be %s", shown(cli->args.name),
            duration_words(result->retry_ms, retry));
    return wanted >= 0 ? (int)wanted : EXIT_BUSY;
}

/* ---- the command ----------------------------------------------------------------------------------- */

/* Become the command, with the signal mask that we were started with. Returns only if that fails. */
static int become_command(struct cli *cli, struct cli_store *store, const struct signals *signals)
{
    close(signals->fd);
    if (signals->child_ignored)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    return become(cli, store);
}
