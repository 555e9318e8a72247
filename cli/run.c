/* SPDX-License-Identifier: MIT */
/*
 * `holdfast run`: from the options to the exit code. In order: check everything
 * that can be checked, open the store, get the lease (from the outer run if it holds it, else from
 * the store), start the command, watch over it (supervise.c), release. Other verbs that run a
 * command under a lease (once, elect) do the same, with steps of their own in between: struct
 * run_hooks.
 */
#include "run.h"

#include "table.h"
#include "util/clock.h"
#include "util/text.h"
#include "within.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGAIN_MS     250  /* between two attempts to write the outcome of the command */
#define RELEASE_MS   5000 /* at the end: how long the store may take to give the lease back */
#define UNSETTLED_MS 300  /* likewise if the lease is lost, or the store has not answered */

static int check(const struct cli *cli);
static int run_all(struct run *run);
static int make_plan(struct run *run);
static bool enter(struct run *run, int *ret_code);
static void prepare_holds(struct run *run);
static bool enter_nested(struct run *run, int *ret_code);
static bool none_is_around(struct run *run, int *ret_code);
static bool acquire_own(struct run *run, int *ret_code);
static void set_environment(const struct run *run);
static int execute(struct run *run);
static void leave(struct run *run);

int verb_run(struct cli *cli)
{
    static const struct run_hooks plain = { .nests = true };

    return run_under(cli, &plain);
}

bool run_again(const struct run *run, hf_error *err, struct run_tries *tries)
{
    struct pollfd polled = { .fd = run->signals.fd, .events = POLLIN };
    int64_t until_ms = hfi_now_ms() + AGAIN_MS, left_ms;
    struct signal_event event;

    tries->doubt |= err->status == HF_UNKNOWN;
    if (tries->doubt && (err->status == HF_UNAVAILABLE || err->status == HF_LOST))
        err->status = HF_UNKNOWN;
    if ((err->status != HF_UNAVAILABLE && err->status != HF_UNKNOWN) ||
        hf_lease_state(run->lease) == HF_STATE_LOST)
        return false;
    if (!tries->said)
        say(run->cli, "the command has ended, but the store does not know it yet: %s; trying again",
            err->text);
    tries->said = true;
    while ((left_ms = until_ms - hfi_now_ms()) > 0) {
        poll(&polled, 1, (int)left_ms);
        while (signals_next(&run->signals, &event))
            if (event.number == SIGCHLD)
                kin_reap(&run->kin, 0); /* something that the command left behind */
            else if (signal_ends(event.number))
                return false;
    }
    return true;
}

int run_under(struct cli *cli, const struct run_hooks *hooks)
{
    static struct run run = { .outer = -1,
                              .lease_fd = -1,
                              .timer = -1,
                              .nest = { .fd = -1, .inherited = -1 },
                              .known = { .valid_until_ms = PLAN_NEVER } };
    int code = run_read_any(cli), opened = EXIT_FINE;
    bool closed;

    if (code == EXIT_FINE)
        code = check(cli);
    run.cli = cli;
    run.hooks = hooks;
    if (code == EXIT_FINE) {
        /* The library's label for us, "ada@example:4711 backup", shall name the command. */
        program_invocation_short_name = basename(cli->args.command[0]);
        code = status_open(&run.status, cli, cli->args.status_fd);
    }
    if (cli->args.log == 1) {
        say_in_json();
        cli->stderr_tty = false; /* no line that is drawn anew */
    }
    say_without_waiting(); /* opening a store may have something to say, too */
    if (code == EXIT_FINE)
        opened = code = store_open(cli, NULL, &run.store);
    if (opened != EXIT_FINE)
        metrics_file_write(&run, code); /* a store that is away must not go unseen */
    if (code != EXIT_FINE)
        return code;

    code = make_plan(&run);
    if (code == EXIT_FINE)
        code = wanted_prepare(&run);
    if (code == EXIT_FINE)
        code = run_all(&run);
    closed = store_close_within(&run.store, run.unsettled ? UNSETTLED_MS : RELEASE_MS);
    closed &= !run.unclosed;
    metrics_file_write(&run, run.lost ? EXIT_LOST : code);
    status_drain(&run.status);

    /* A signal typed at the terminal must end the process that waits for us as it ended the
     * command. */
    if (run.die_of && !run.lost) {
        say_drain();
        signals_die(run.die_of, run.child.wants_tty);
    }
    if (!closed) { /* a thread of the library still runs: exit() would free what it uses */
        say_drain();
        _exit(code);
    }
    return code;
}

/* Run once, or again as long as hooks->again() says so. The store is open. */
static int run_all(struct run *run)
{
    char *around = secure_getenv(NEST_VARIABLE) ? must_strdup(secure_getenv(NEST_VARIABLE)) : NULL;
    int code = EXIT_FINE;

    if (run->hooks->before && !run->hooks->before(run, &code))
        return code;
    if (!signals_open(&run->signals)) {
        say_error("no descriptor for signals: %s", strerror(errno));
        return EXIT_INTERNAL;
    }
    prepare_holds(run);
    do {
        if (around) /* an earlier round has put itself before it */
            setenv(NEST_VARIABLE, around, 1);
        else
            unsetenv(NEST_VARIABLE);
        run->lost = run->lost_by_limit = run->unsettled = run->at_risk = false;
        run->ending = (struct run_ending){ 0 };
        run->stop = (struct run_stop){ 0 };
        run->known = (struct run_lease){ .valid_until_ms = PLAN_NEVER };
        run->phase = RUN_RUNNING;
        run->child = (struct child){ 0 };
        if (enter(run, &code)) {
            code = execute(run);
            leave(run);
            if (run->lost)
                code = EXIT_LOST;
        }
    } while (run->hooks->again && run->hooks->again(run, code));
    free(around);
    return code;
}

/* ---- before anything is acquired ------------------------------------------------------- */

/* One of --any is ours. */
static void choose(struct run *run, size_t index)
{
    run->cli->args.name = run->cli->args.any.items[index];
    run->holds[0].name = run->cli->args.name;
    run->holds[0].name_len = strlen(run->cli->args.name);
}

static int check(const struct cli *cli)
{
    const struct args *args = &cli->args;
    int code = need_name(cli);

    if (code != EXIT_FINE)
        return code;
    if (!args->command || !args->command[0])
        return usage_error(cli, "no command: put it after --");
    if (!args->command[0][0])
        return usage_error(cli, "the command is empty");
    if (args->metrics_file && !args->metrics_file[0])
        return usage_error(cli, "--metrics-file: the name of the file is empty");
    for (size_t i = 0; i < args->also.count; i++) {
        const char *name = args->also.items[i];

        if (!name[0] || strlen(name) > HF_NAME_MAX)
            return usage_error(cli, "--also: a name has 1 to %d bytes", HF_NAME_MAX);
        for (size_t k = 0; k <= i; k++)
            if (strcmp(name, k ? args->also.items[k - 1] : args->name) == 0)
                return usage_error(cli, "--also: '%s' is named twice", shown(name));
    }
    if (args->also.count >= HF_ACQUIRE_ALL_MAX)
        return usage_error(cli, "--also: at most %d names", HF_ACQUIRE_ALL_MAX);
    for (size_t i = 0; i < args->cells.count; i++)
        if (!strchr(args->cells.items[i], '=') || args->cells.items[i][0] == '=')
            return usage_error(cli, "--cell: CELL=TEXT, not '%s'", shown(args->cells.items[i]));
    if (args->max_hold_ms && args->min_hold_ms > args->max_hold_ms)
        return usage_error(cli, "--min-hold is longer than --max-hold");
    if (wanted_check(cli) != EXIT_FINE)
        return EXIT_USAGE;
    return acquire_check(cli);
}

/* Decide the time between TERM and KILL; a --kill-after that does not fit is refused. */
static int make_plan(struct run *run)
{
    const struct args *args = &run->cli->args;
    int64_t ttl_ms = args->ttl_ms ? args->ttl_ms : run->store.info.default_ttl_ms;

    run->plan.on_lost = (enum on_lost)args->on_lost;
    run->plan.kill_after_ms = plan_kill_after(args->kill_after_ms, ttl_ms, args->max_hold_ms);
    if (run->plan.kill_after_ms >= 0)
        return EXIT_FINE;
    if (ttl_ms && args->kill_after_ms > ttl_ms / 2)
        return usage_error(
            run->cli, "--kill-after does not fit: at most half of the ttl, which is %" PRId64 "ms",
            ttl_ms);
    return usage_error(run->cli, "--kill-after does not fit: at most half of --max-hold");
}

/* ---- getting the lease --------------------------------------------------------------------- */

/* In the log alone: a reader of --status-fd has the exit code. */
static void say_not_acquired(struct run *run, int code)
{
    json_t *event = status_begin(&run->status, "not_acquired");

    json_set_name(event, run->holds[0].name, run->holds[0].name_len);
    json_object_set_new(event, "waited_ms", json_integer(run->waited_ms));
    json_object_set_new(event, "status", json_integer(code));
    say_object(event);
    json_decref(event);
}

/* false: *ret_code, which may be 0 (-E 0), is the exit code. */
static bool enter(struct run *run, int *ret_code)
{
    int64_t begun_ms = hfi_now_ms();
    json_t *event, *also;

    run->acquired = false;
    run->held_ms = 0;
    if (!enter_nested(run, ret_code) ||
        (run->outer < 0 && !(run->hooks->acquire ? run->hooks->acquire(run, ret_code)
                                                 : acquire_own(run, ret_code)))) {
        run->waited_ms = hfi_now_ms() - begun_ms;
        if (run->status.log)
            say_not_acquired(run, *ret_code);
        return false;
    }
    run->leases[0] = run->lease;
    if (run->hooks->entered && !run->hooks->entered(run, ret_code)) {
        (void)hf_release(run->lease, NULL);
        run->lease = NULL;
        return false;
    }

    if (!run_bind_cells(run, ret_code)) {
        (void)hf_release_all(run->leases, run->count, NULL);
        run->lease = NULL;
        return false;
    }
    run->held_since_ms = hfi_now_ms();
    run->acquired = true;
    run->waited_ms = run->held_since_ms - begun_ms;
    run->hold_until_ms = hfi_after_ms(run->held_since_ms, run->cli->args.min_hold_ms);
    for (size_t i = 0; i < run->count; i++)
        say_more(run->cli, "acquired '%s', token %" PRIu64 "%s", shown(run->holds[i].name),
                 run->tokens[i], run->outer >= 0 ? ", from the outer `run`" : "");
    event = status_begin(&run->status, "acquired");
    json_set_name(event, run->holds[0].name, run->holds[0].name_len);
    json_object_set_new(event, "token", json_u64(run->tokens[0]));
    json_object_set_new(event, "waited_ms", json_integer(run->waited_ms));
    json_object_set_new(event, "nested", json_boolean(run->outer >= 0));
    also = json_array();
    for (size_t i = 1; i < run->count; i++) {
        json_t *one = json_object();

        json_set_name(one, run->holds[i].name, run->holds[i].name_len);
        json_object_set_new(one, "token", json_u64(run->tokens[i]));
        json_array_append_new(also, one);
    }
    json_object_set_new(event, "also", also);
    status_send(&run->status, event);
    return true;
}

static void prepare_holds(struct run *run)
{
    const struct texts *also = &run->cli->args.also;
    hf_acquire_request request = acquire_request(run->cli);

    run->count = 1 + also->count;
    run->leases = must_alloc(run->count * sizeof *run->leases);
    run->tokens = must_alloc(run->count * sizeof *run->tokens);
    run->holds = must_alloc(run->count * sizeof *run->holds);
    for (size_t i = 0; i < run->count; i++) {
        const char *name = i ? also->items[i - 1] : request.name;

        run->holds[i] =
            (struct nest_hold){ request.kind, name, strlen(name), run->store.info.location };
        run->leases[i] = NULL;
    }
}

/* true with run->outer < 0: no outer run holds it. */
static bool enter_nested(struct run *run, int *ret_code)
{
    struct nest_answer answer = { .fd = -1 };

    if (!run->hooks->nests || !secure_getenv(NEST_VARIABLE) ||
        run->holds[0].kind == HF_KIND_SEMAPHORE)
        return true;
    if (run->count > 1)
        return none_is_around(run, ret_code);

    for (size_t i = 0; i < run->cli->args.any.count;
         i++) { /* one that an outer run holds will do */
        choose(run, i);
        answer = nest_ask(&run->holds[0], 0, &run->signals);
        if (answer.fd >= 0 || answer.ended_by.number)
            break;
    }
    if (run->cli->args.any.count == 0)
        answer = nest_ask(&run->holds[0], acquire_request(run->cli).wait_ms, &run->signals);
    run->outer = answer.fd;
    run->outer_grace_ms = answer.grace_ms;
    run->tokens[0] = answer.token;
    *ret_code = EXIT_SIGNAL_BASE + answer.ended_by.number;
    return answer.ended_by.number == 0;
}

/* Several names are acquired together or not at all: if an outer run held one of them, we would
 * wait for ever. */
static bool none_is_around(struct run *run, int *ret_code)
{
    for (size_t i = 0; i < run->count; i++) {
        struct nest_answer answer = nest_ask(&run->holds[i], 0, &run->signals);

        if (answer.ended_by.number) {
            *ret_code = EXIT_SIGNAL_BASE + answer.ended_by.number;
            return false;
        }
        if (answer.fd >= 0) {
            close(answer.fd);
            say_error("the outer `run` holds '%s' already: leave it out",
                      shown(run->holds[i].name));
            *ret_code = EXIT_BUSY;
            return false;
        }
    }
    return true;
}

static bool acquire_own(struct run *run, int *ret_code)
{
    struct acquiring acquiring = { .cli = run->cli,
                                   .store = &run->store,
                                   .signals = &run->signals,
                                   .status = &run->status,
                                   .request = acquire_request(run->cli),
                                   .also = &run->cli->args.also,
                                   .any = &run->cli->args.any,
                                   .passed_over = run->wanted.yield_signal };

    wanted_request(run, &acquiring.request);
    if (acquire(&acquiring, run->leases, ret_code)) {
        if (run->cli->args.any.count > 0)
            choose(run, acquiring.chosen);
        run->lease = run->leases[0];
        for (size_t i = 0; i < run->count; i++)
            run->tokens[i] = hf_lease_token(run->leases[i]);
        return true;
    }
    if (acquiring.ended_by.typed)
        run->die_of = acquiring.ended_by.number;
    return false;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* Tell runs inside the command what we hold, for deadlock detection. A nested run holds nothing of
 * its own. */
static void set_session(const struct run *run)
{
    const char *around = secure_getenv(SESSION_VARIABLE);
    char text[HF_SESSION_TEXT_MAX];

    for (size_t i = 0; run->lease && i < run->count; i++) {
        if (hf_session_get(run->leases[i], around, text, NULL) != HF_OK)
            return;
        around = text;
    }
    if (run->lease)
        setenv(SESSION_VARIABLE, text, 1);
}

/* "3", or "3,5" for several permits. */
static void set_slot(const struct run *run)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    char text[HF_SLOTS_MAX * 12] = "";
    int len = 0;

    if (!run->lease)
        return; /* the run around us has set it */
    if (hf_lease_get(run->lease, &info) != HF_OK || info.slot_count == 0) {
        unsetenv("HOLDFAST_SLOT");
        return;
    }
    for (uint32_t i = 0; i < info.slot_count; i++)
        len += sprintf(text + len, "%s%" PRIu32, i ? "," : "", info.slots[i]);
    setenv("HOLDFAST_SLOT", text, 1);
}

static void set_environment(const struct run *run)
{
    char token[24], *tokens = must_alloc(run->count * sizeof token);
    size_t len = 0;

    for (size_t i = 0; i < run->count; i++)
        len += (size_t)sprintf(tokens + len, "%s%" PRIu64, i ? " " : "", run->tokens[i]);
    snprintf(token, sizeof token, "%" PRIu64, run->tokens[0]);
    setenv("HOLDFAST_NAME", run->cli->args.name, 1);
    setenv("HOLDFAST_TOKEN", token, 1);
    setenv("HOLDFAST_TOKENS", tokens, 1);
    setenv("HOLDFAST_STORE", run->store.for_child, 1);
    set_slot(run);
    set_session(run);
    for (size_t i = 0; i < PASSWORD_ENVS; i++)
        if (run->store.password_envs[i])
            unsetenv(run->store.password_envs[i]);
    free(tokens);
}

/* Readable when something has happened to one of the leases. */
static int watch_leases(const struct run *run)
{
    int all;

    if (run->count == 1)
        return hf_lease_fd(run->lease);
    all = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; all >= 0 && i < run->count; i++) {
        struct epoll_event event = { .events = EPOLLIN };

        epoll_ctl(all, EPOLL_CTL_ADD, hf_lease_fd(run->leases[i]), &event);
    }
    return all;
}

static int exit_of_child(const struct child *child)
{
    return WIFSIGNALED(child->status) ? EXIT_SIGNAL_BASE + WTERMSIG(child->status)
                                      : WEXITSTATUS(child->status);
}

static int execute_command(struct run *run);

/* If we are killed, this is the time that an inner run has to end its command: see nest.h. A lease without a ttl ends with us. */
static int64_t grace_if_killed(const struct run *run)
{
    bool ends_with_us = !run->cli->args.ttl_ms && !run->store.info.default_ttl_ms;

    return ends_with_us || run->plan.on_lost == ON_LOST_KILL ? 0 : run->plan.kill_after_ms;
}

static int execute(struct run *run)
{
    int code = execute_command(run);

    return run->hooks->ended ? run->hooks->ended(run, code) : code;
}

/* With hooks->acquire it is no lease of the name. */
bool run_shares(const struct run *run)
{
    return run->lease && !run->hooks->acquire;
}

/* Start the command, supervise it, and hold the lease for --min-hold. Returns its exit code. */
static int execute_command(struct run *run)
{
    const struct args *args = &run->cli->args;
    json_t *event;
    int error;

    run->nest.store = run->store.for_child;
    run->nest.handed = run->store.handed;
    if (run_shares(run) || run->nest.handed)
        nest_open(&run->nest, grace_if_killed(run));
    else
        unsetenv(HFI_HANDED_VARIABLE); /* of an outer run, with its store */
    set_environment(run);
    kin_begin(&run->kin);
    error = child_start(&run->child, args->command, &run->signals);
    if (error) {
        say_error("cannot execute '%s': %s", shown(args->command[0]), strerror(error));
        return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    }

    /* The command already runs while we prepare to supervise it. */
    nest_started(&run->nest);
    if (run->lease)
        run->lease_fd = watch_leases(run);
    event = status_begin(&run->status, "started");
    json_object_set_new(event, "pid", json_integer(run->child.pid));
    status_send(&run->status, event);

    within_prepare();
    supervise(run);
    if (run->child.on_tty && WIFSIGNALED(run->child.status) &&
        (WTERMSIG(run->child.status) == SIGINT || WTERMSIG(run->child.status) == SIGQUIT))
        run->die_of = WTERMSIG(run->child.status);

    if (!run->ended_by.number)
        return exit_of_child(&run->child);
    if (run->ended_by.typed)
        run->die_of = run->ended_by.number;
    return EXIT_SIGNAL_BASE + run->ended_by.number;
}

/* Releases the leases, and closes the store if there is nothing more to do, on a thread that may outlive the wait for it: so it
 * has copies. */
struct giving_back {
    hf_store *store; /* to close; NULL: not yet */
    _Atomic bool released;
    hf_status (*release)(hf_lease *lease, hf_error *err);
    size_t count;
    hf_status status;
    hf_error err;
    hf_lease *leases[];
};

static void give_back(void *arg)
{
    struct giving_back *giving = arg;

    giving->status = giving->release ? giving->release(giving->leases[0], &giving->err)
                                     : hf_release_all(giving->leases, giving->count, &giving->err);
    if (giving->status != HF_OK)
        giving->store = NULL; /* the close has a limit of its own then */
    atomic_store(&giving->released, true);
    if (giving->store)
        hf_close(giving->store, HF_CLOSE_FLAG_RELEASE);
}

/*
 * HF_UNAVAILABLE: the store did not answer in time. A lost lease cannot be released, and we do not
 * wait for it; only its handle must end if we campaign again. A lease that --max-hold ended is
 * released.
 */
static hf_status release(struct run *run, hf_error *err)
{
    int64_t left_ms = hf_lease_remaining_ms(run->lease), limit_ms = RELEASE_MS;
    struct giving_back *giving;
    hf_status status;
    bool done;

    run->unsettled = run->lost;
    if (run->lost && !run->lost_by_limit && !run->hooks->again)
        return HF_LOST;

    if (left_ms < limit_ms) /* then it has ended by itself */
        limit_ms = left_ms > UNSETTLED_MS ? left_ms : UNSETTLED_MS;
    giving = must_alloc(sizeof *giving + run->count * sizeof *giving->leases);
    giving->store = run->hooks->again ? NULL : run->store.store;
    giving->released = false;
    giving->release = run->hooks->release;
    giving->count = run->count;
    memcpy(giving->leases, run->leases, run->count * sizeof *giving->leases);
    done = within(run->lost ? UNSETTLED_MS : limit_ms, give_back, giving);
    run->unclosed = !done;
    if (!done && !atomic_load(&giving->released)) {
        if (!run->hooks->again)
            run->store.store = NULL; /* its thread may close it yet */
        run->unsettled = true;
        *err = (hf_error){ .status = HF_UNAVAILABLE,
                           .text = "the store does not answer; the lease ends after its ttl" };
        return HF_UNAVAILABLE;
    }
    if (giving->store)
        run->store.store = NULL;
    *err = giving->err;
    status = giving->status;
    run->unsettled |= status == HF_UNKNOWN || status == HF_UNAVAILABLE;
    if (done)
        free(giving);
    return status;
}

static void leave(struct run *run)
{
    hf_status status = HF_OK;
    hf_error err;

    nest_close(&run->nest);
    wanted_end(run);
    run->held_ms = hfi_now_ms() - run->held_since_ms;
    if (run->lease)
        status = release(run, &err);
    if (run->count > 1 && run->lease_fd >= 0)
        close(run->lease_fd);
    run->lease = NULL;
    run->lease_fd = -1;
    if (run->outer >= 0)
        close(run->outer);

    if (status == HF_LOST && !run->lost && !run->cli->args.min_hold_ms) {
        say_error("%s", err.text);
        run->lost = true;
    } else if (status != HF_OK && status != HF_LOST && !run->lost) {
        say_error("'%s' was not released: %s", shown(run->cli->args.name), err.text);
    }
    if (!run->lost) {
        json_t *event = status_begin(&run->status, "released");

        json_object_set_new(event, "held_ms", json_integer(run->held_ms));
        status_send(&run->status, event);
    }
}
