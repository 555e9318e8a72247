/* SPDX-License-Identifier: MIT */
/*
 * Acquiring for `run` and `lock`. The first try is a plain call: most locks are
 * free, and then nothing else is needed. Only if it is busy and we may wait do
 * we queue asynchronously, so that one poll() sees the grant and the signals.
 *
 * Main thread; wait_line.c has a thread of its own.
 */
#include "acquire.h"

#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* What the callback of an asynchronous acquire leaves behind. */
struct outcome {
    bool done;
    hf_status status;
    hf_lease *lease;
    hf_error err;
};

static hf_status wait_for_it(struct acquiring *acquiring, hf_lease **ret_lease, hf_error *err);
static hf_status queue_once(struct acquiring *acquiring, hf_acquire_request *request, int *ret_stop,
                            hf_lease **ret_lease, hf_error *err);

int acquire_check(const struct cli *cli)
{
    const struct args *args = &cli->args;

    if (args->nonblock && args->wait_ms)
        return usage_error(cli, "-n and -w exclude each other");
    if (args->shared + args->exclusive + args->upgradeable > 1)
        return usage_error(cli, "-s, -x and --upgradeable exclude each other");
    if (args->slots >= 0 && (args->shared || args->exclusive || args->upgradeable))
        return usage_error(cli, "--slots makes a semaphore: -s and -x belong to a read-write lock");
    if (args->permits >= 0 && args->slots < 0)
        return usage_error(cli, "--permits needs --slots");
    if (args->permits > args->slots)
        return usage_error(cli, "--permits %lld is more than --slots %lld",
                           (long long)args->permits, (long long)args->slots);
    if (args->ttl_ms && args->ttl_ms < HF_TTL_MIN_MS)
        return usage_error(cli, "--ttl must be at least %ds", HF_TTL_MIN_MS / 1000);
    if (args->ttl_ms && args->min_valid_ms >= args->ttl_ms)
        return usage_error(cli, "--min-valid must be less than --ttl");
    return EXIT_FINE;
}

hf_acquire_request acquire_request(const struct cli *cli)
{
    const struct args *args = &cli->args;
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = args->name;
    request.name_len = strlen(args->name);
    request.kind = args->slots >= 0    ? HF_KIND_SEMAPHORE
                   : args->shared      ? HF_KIND_SHARED
                   : args->exclusive   ? HF_KIND_EXCLUSIVE
                   : args->upgradeable ? HF_KIND_UPGRADEABLE
                                       : HF_KIND_MUTEX;
    if (args->slots >= 0)
        request.capacity = (uint32_t)args->slots;
    if (args->permits >= 0)
        request.permits = (uint32_t)args->permits;
    request.wait_ms = store_wait_ms(cli);
    request.ttl_ms = args->ttl_ms;
    request.max_hold_ms = args->max_hold_ms;
    request.min_valid_ms = args->min_valid_ms;
    request.lock_delay_ms = args->lock_delay_ms;
    request.label = args->label;
    request.session = secure_getenv(SESSION_VARIABLE);
    request.linger_ms = HF_LINGER_NEVER; /* the command takes it once */
    return request;
}

/* The slots of a semaphore have numbers where the store can give them. */
static void ask_for_numbers(struct acquiring *acquiring)
{
    hf_acquire_request *request = &acquiring->request;

    if (request->kind == HF_KIND_SEMAPHORE && request->permits <= HF_SLOTS_MAX &&
        acquiring->store->info.caps & HF_CAP_NUMBERED)
        request->flags |= HF_FLAG_NUMBERED;
}

bool acquire(struct acquiring *acquiring, hf_lease **ret_lease, int *ret_code)
{
    bool several = several_wanted(acquiring);
    hf_acquire_request try;
    hf_error err = { .status = HF_BUSY };
    hf_status status = HF_BUSY;
    int stop = 0;

    ask_for_numbers(acquiring);
    try = acquiring->request;
    try.wait_ms = 0;
    if (!several)
        status = hf_acquire(acquiring->store->store, &try, ret_lease, &err);
    else if (acquiring->request.wait_ms == 0)
        status = several_acquire(acquiring, 0, &stop, ret_lease, &err);
    if (status == HF_BUSY && acquiring->request.wait_ms != 0)
        status = wait_for_it(acquiring, ret_lease, &err);
    if (status == HF_OK)
        return true;

    err.status = status;
    *ret_code = acquiring->ended_by.number ? EXIT_SIGNAL_BASE + acquiring->ended_by.number
                                           : acquire_failure(acquiring, &err);
    return false;
}

/* ---- waiting --------------------------------------------------------------------- */

/*
 * Queue until granted or ended. Ctrl-Z leaves the queue too, and we queue again
 * when continued: a stopped process must not be handed a lock.
 */
static hf_status wait_for_it(struct acquiring *acquiring, hf_lease **ret_lease, hf_error *err)
{
    int64_t wait_ms = acquiring->request.wait_ms;
    int64_t began_ms = hfi_now_ms();

    for (;;) {
        hf_acquire_request request = acquiring->request;
        int stop = 0;
        hf_status status;

        if (wait_ms != HF_FOREVER) {
            request.wait_ms = began_ms + wait_ms - hfi_now_ms();
            if (request.wait_ms <= 0)
                request.wait_ms = 1; /* time passed while we were stopped: one last try */
        }
        status = several_wanted(acquiring)
                     ? several_acquire(acquiring, request.wait_ms, &stop, ret_lease, err)
                     : queue_once(acquiring, &request, &stop, ret_lease, err);
        if (!stop || acquiring->ended_by.number)
            return status;

        signals_stop(stop, false);
    }
}

static void on_done(const hf_result *result, void *arg)
{
    struct outcome *outcome = arg;

    outcome->done = true;
    outcome->status = result->status;
    outcome->lease = result->lease;
    if (result->error)
        outcome->err = *result->error;
}

bool acquire_ended(struct acquiring *acquiring, int *ret_stop)
{
    struct signal_event event;

    while (signals_next(acquiring->signals, &event)) {
        if (event.number == acquiring->passed_over)
            continue;
        if (signal_ends(event.number))
            acquiring->ended_by = event;
        else if (signal_stops(event.number))
            *ret_stop = event.number;
    }
    return acquiring->ended_by.number || *ret_stop;
}

static hf_status queue_once(struct acquiring *acquiring, hf_acquire_request *request, int *ret_stop,
                            hf_lease **ret_lease, hf_error *err)
{
    hf_store *store = acquiring->store->store;
    struct outcome outcome = { .status = HF_INTERNAL, .err.status = HF_INTERNAL };
    hf_op *op = NULL;
    hf_status status = hf_acquire_async(store, request, on_done, &outcome, &op, err);

    struct wait_line *line;

    if (status != HF_OK)
        return status;

    line = wait_line_begin(acquiring);
    while (!outcome.done) {
        struct pollfd polled[] = { { .fd = acquiring->signals->fd, .events = POLLIN },
                                   { .fd = hf_store_fd(store), .events = POLLIN } };

        if (poll(polled, 2, hf_store_timeout_ms(store)) < 0 && errno != EINTR)
            break;
        if (polled[0].revents && acquire_ended(acquiring, ret_stop))
            hf_op_cancel(op); /* on_done still comes */
        hf_store_process(store);
    }
    wait_line_end(line);

    if (outcome.status == HF_OK && (*ret_stop || acquiring->ended_by.number)) {
        /* Granted at the last moment: release it, we are leaving. */
        hf_release(outcome.lease, NULL);
        return HF_CANCELLED;
    }
    if (outcome.status == HF_OK)
        *ret_lease = outcome.lease;
    *err = outcome.err;
    return outcome.status;
}

/* ---- telling ----------------------------------------------------------------------- */

static bool not_acquired(hf_status status)
{
    return status == HF_BUSY || status == HF_TIMEOUT || status == HF_TOO_SHORT;
}

int acquire_failure(const struct acquiring *acquiring, const hf_error *err)
{
    const struct cli *cli = acquiring->cli;
    int64_t wanted = cli->args.busy_exit;
    char holder[HELD_BY_MAX] = "";

    if (err->status == HF_DEADLOCK) {
        say_error("%s",
                  err->text); /* a deadlock is a bug of the program: reported even with -E 0 */
        return wanted >= 0 ? (int)wanted : EXIT_BUSY;
    }
    if (err->status == HF_MISMATCH && takes_letter(cli, 's')) {
        say_error("%s; -s, -x and --slots choose the kind", err->text);
        return exit_of(err->status);
    }
    if (!not_acquired(err->status))
        return say_failure(err);

    /* A caller that asks for 0 says that it is no failure: cron must not send mail about it. */
    if (wanted == 0 && !cli->args.verbose)
        return (int)wanted;
    if (!cli->args.quiet && err->status != HF_TOO_SHORT)
        held_by(acquiring, holder);
    if (several_wanted(acquiring)) /* say which one */
        say(cli, "%s%s", err->text, holder);
    else
        say(cli, "'%s' was not acquired: %s%s", shown(cli->args.name), hf_status_text(err->status),
            holder);
    return wanted >= 0 ? (int)wanted : EXIT_BUSY;
}
