/* SPDX-License-Identifier: MIT */
/* A `run` whose lease others want: see wanted.h. Main thread, but for on_event(). */
#include "wanted.h"

#include "run.h"
#include "util/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define END_MS  5000 /* how long the store may take to take us out of its queue */
#define LOOK_MS 50

#define LOOK_MIN_MS 5 /* between two looks at a command that is not ready for its signal */
#define LOOK_MAX_MS 500

/* What the library's thread writes into the pipe: whole, for it is small. */
struct letter {
    hf_event event;
    char text[HF_LABEL_MAX + 1];
};

static void come_back(struct run *run);

/* ---- the options ----------------------------------------------------------------------- */

/* "USR1" of 10; NULL: there is none, or it is the C library's own. */
static const char *name_of(int number)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
        [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
        [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
        [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
        [SIGPOLL] = "POLL", [SIGPWR] = "PWR",       [SIGSYS] = "SYS",
    };

    return number >= 0 && (size_t)number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

/* "USR1", "SIGUSR1" or "10". 0: no signal. */
static int number_of(const char *text)
{
    char *end;
    long number;

    if (isdigit(
            (unsigned char)text[0])) { /* the C library keeps those before SIGRTMIN for itself */
        number = strtol(text, &end, 10);
        return *end == 0 && number > 0 && number <= SIGRTMAX &&
                       (number >= SIGRTMIN || name_of((int)number))
                   ? (int)number
                   : 0;
    }
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (int i = 1; i < SIGRTMIN; i++)
        if (name_of(i) && strcasecmp(text, name_of(i)) == 0)
            return i;
    return 0;
}

/* Can `run` receive it as an event, and has it no other meaning for it? */
static bool can_be_heard(int number)
{
    static const int taken[] = { SIGKILL, SIGSTOP, SIGCHLD, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU,
                                 SIGPIPE, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS,
                                 SIGABRT, SIGTERM, SIGINT,  SIGQUIT, SIGHUP };

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (number == taken[i])
            return false;
    return true;
}

int wanted_check(const struct cli *cli)
{
    const struct args *args = &cli->args;
    const char *either = args->on_wanted ? "--on-wanted" : "--yield-signal";

    if (!args->on_wanted && !args->yield_signal)
        return EXIT_FINE;
    if (args->also.count > 0)
        return usage_error(cli, "%s is for one name: not together with --also", either);
    if (args->on_wanted && !number_of(args->on_wanted))
        return usage_error(cli, "--on-wanted: '%s' is no signal", shown(args->on_wanted));
    if (args->on_wanted &&
        (number_of(args->on_wanted) == SIGSTOP || number_of(args->on_wanted) == SIGCHLD))
        return usage_error(cli, "--on-wanted: SIG%s is not possible",
                           name_of(number_of(args->on_wanted)));
    if (!args->yield_signal)
        return EXIT_FINE;
    if (!number_of(args->yield_signal))
        return usage_error(cli, "--yield-signal: '%s' is no signal", shown(args->yield_signal));
    if (!can_be_heard(number_of(args->yield_signal)))
        return usage_error(cli, "--yield-signal: SIG%s has another meaning for `run`",
                           name_of(number_of(args->yield_signal)));
    if (args->nonblock)
        return usage_error(cli, "--yield-signal queues again: not together with -n");
    if (args->status_fd < 0)
        return usage_error(cli, "--yield-signal needs --status-fd: after a yield HOLDFAST_TOKEN is "
                                "out of date, and the new token is written there");
    return EXIT_FINE;
}

int wanted_prepare(struct run *run)
{
    const struct args *args = &run->cli->args;
    struct run_wanted *wanted = &run->wanted;

    if (!args->on_wanted && !args->yield_signal)
        return EXIT_FINE;
    if (!(run->store.info.caps & HF_CAP_WANTED)) {
        say_error("%s: engine %s cannot tell a holder that others wait",
                  args->on_wanted ? "--on-wanted" : "--yield-signal", run->store.info.engine);
        return EXIT_CONFIG;
    }
    wanted->on_wanted = args->on_wanted ? number_of(args->on_wanted) : 0;
    wanted->yield_signal = args->yield_signal ? number_of(args->yield_signal) : 0;
    if (pipe2(wanted->letters, O_CLOEXEC | O_NONBLOCK) == 0)
        return EXIT_FINE;
    say_error("no pipe: %s", strerror(errno));
    return EXIT_INTERNAL;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* On a thread of the library, or in hf_store_process(). If the pipe is full the main thread has enough to read. */
static void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    const struct run_wanted *wanted = arg;
    struct letter letter = { .event = event };

    (void)lease;
    if (event < HF_EVENT_WANTED)
        return; /* the supervisor sees it by the lease's descriptor */
    snprintf(letter.text, sizeof letter.text, "%s", text);
    if (write(wanted->letters[1], &letter, sizeof letter) < 0)
        return;
}

void wanted_request(struct run *run, hf_acquire_request *request)
{
    if (run->wanted.letters[1] == 0)
        return;
    request->flags |= HF_FLAG_WATCH;
    request->on_event = on_event;
    request->on_event_arg = &run->wanted;
    run->wanted.looped = true; /* if it has to queue, its events come from the loop */
}

int wanted_fd(const struct run *run)
{
    return run->wanted.letters[1] ? run->wanted.letters[0] : -1;
}

static json_t *begin_status(struct run *run, const char *word)
{
    json_t *event = status_begin(&run->status, word);

    json_set_name(event, run->holds[0].name, run->holds[0].name_len);
    return event;
}

/* Does the process do anything about this signal: handle, ignore or block it? true also if /proc does not say. */
static bool is_ready_for(pid_t pid, int number)
{
    char path[40], line[128];
    unsigned long long all = 0;
    bool known = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "SigBlk:", 7) == 0 || strncmp(line, "SigIgn:", 7) == 0 ||
            strncmp(line, "SigCgt:", 7) == 0) {
            all |= strtoull(line + 7, NULL, 16);
            known = true;
        }
    if (file)
        fclose(file);
    return !known || all >> (number - 1) & 1;
}

/*
 * To the command alone: the default action of SIGUSR1 ends a process, and its children did not ask for it. Others may wait before the
 * command has started: so a signal that is not meant to end it is kept back until the command has a handler for it.
 */
static void tell_command(struct run *run)
{
    struct run_wanted *wanted = &run->wanted;
    int number = wanted->on_wanted;

    if (!wanted->owes || run->child.exited || run->child.pid <= 0)
        return;
    if (number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGKILL ||
        is_ready_for(run->child.pid, number)) {
        kill(run->child.pid, number);
        wanted->owes = false;
    } else if (wanted->look_ms < LOOK_MAX_MS) {
        wanted->look_ms *= 2;
    }
}

static void owe(struct run *run, bool owes)
{
    run->wanted.owes = owes && run->wanted.on_wanted;
    run->wanted.look_ms = LOOK_MIN_MS;
}

void wanted_hear(struct run *run)
{
    struct letter letter;

    while (wanted_fd(run) >= 0 &&
           read(run->wanted.letters[0], &letter, sizeof letter) == (ssize_t)sizeof letter) {
        if (letter.event == HF_EVENT_WANTED) {
            owe(run, true);
            status_send(&run->status, begin_status(run, "wanted"));
        } else if (letter.event == HF_EVENT_UNWANTED) {
            owe(run, false);
            status_send(&run->status, begin_status(run, "unwanted"));
        } else {
            json_t *event = begin_status(run, "asked");

            json_object_set_new(event, "label", json_text(letter.text, strlen(letter.text)));
            status_send(&run->status, event);
            say(run->cli, "another client asks for '%s': %s", shown(run->holds[0].name),
                shown(letter.text));
        }
    }
    tell_command(run);
}

/* ---- yielding ---------------------------------------------------------------------------------- */

void wanted_keep(struct run *run)
{
    status_send(&run->status, begin_status(run, "kept"));
}

bool wanted_signal(struct run *run, int number)
{
    if (number == 0 || number != run->wanted.yield_signal)
        return false;
    if (run->wanted.away || run->stop.yields)
        return true; /* it is on its way */
    if (!run->lease || run->known.lost || run->child.exited || run->phase != RUN_RUNNING ||
        run->stop.number || !hf_lease_wanted(run->lease))
        wanted_keep(run);
    else
        suspend_begin_yield(run);
    return true;
}

/* In hf_store_process(). */
static void on_yielded(const hf_result *result, void *arg)
{
    struct run_wanted *wanted = arg;

    wanted->status = result->status;
    wanted->lease = result->lease;
    wanted->back = true;
}

void wanted_go(struct run *run)
{
    int64_t wait_ms = acquire_request(run->cli).wait_ms;
    hf_error err;

    run->wanted.back = false;
    if (hf_yield_async(run->lease, wait_ms, on_yielded, &run->wanted, &run->wanted.op, &err) !=
        HF_OK) {
        wanted_keep(run); /* it is lost, and the supervisor sees that; or there is no memory */
        suspend_end(run);
        return;
    }
    run->wanted.away = true;
    owe(run, false);
    run->lease_fd = -1; /* it has ended with the lease */
    run->known.valid_until_ms = PLAN_NEVER;
    status_send(&run->status, begin_status(run, "yielded"));
}

int wanted_loop_fd(const struct run *run)
{
    return run->wanted.looped ? hf_store_fd(run->store.store) : -1;
}

int64_t wanted_loop_until(const struct run *run, int64_t until_ms)
{
    int limit_ms = run->wanted.looped ? hf_store_timeout_ms(run->store.store) : -1;
    int64_t at_ms = limit_ms < 0 ? PLAN_NEVER : hfi_now_ms() + limit_ms;

    if (run->wanted.owes && hfi_now_ms() + run->wanted.look_ms < at_ms)
        at_ms = hfi_now_ms() + run->wanted.look_ms;
    return at_ms < until_ms ? at_ms : until_ms;
}

void wanted_loop(struct run *run)
{
    if (!run->wanted.looped)
        return;
    hf_store_process(run->store.store);
    if (run->wanted.away && run->wanted.back)
        come_back(run);
}

void wanted_give_up(struct run *run)
{
    if (run->wanted.away)
        hf_op_cancel(run->wanted.op);
}

void wanted_end(struct run *run)
{
    int64_t until_ms = hfi_now_ms() + END_MS;

    wanted_give_up(run);
    while (run->wanted.away && !run->wanted.back && hfi_now_ms() < until_ms) {
        struct pollfd polled = { .fd = wanted_loop_fd(run), .events = POLLIN };

        poll(&polled, 1, LOOK_MS);
        hf_store_process(run->store.store);
    }
    if (run->wanted.away)
        run->lease = run->leases[0] = run->wanted.back ? run->wanted.lease : NULL;
    run->wanted.away = false;
}

/* It is ours again: or it is not, and then it counts as lost. */
static void come_back(struct run *run)
{
    struct run_wanted *wanted = &run->wanted;
    json_t *event;

    wanted->away = false;
    run->lease = run->leases[0] = wanted->lease;
    if (!run->lease) {
        run->known.lost = wanted->not_regained = true;
        if (run->plan.on_lost == ON_LOST_WARN)
            suspend_end(run);
        return; /* else the supervisor ends the command, and continues it for that */
    }
    run->lease_fd = hf_lease_fd(run->lease);
    if (wanted->status == HF_OK) { /* the waiter had left: nothing has happened */
        wanted_keep(run);
    } else {
        run->tokens[0] = hf_lease_token(run->lease);
        run->held_since_ms = hfi_now_ms();
        event = begin_status(run, "granted");
        json_object_set_new(event, "token", json_u64(run->tokens[0]));
        status_send(&run->status, event);
        say_more(run->cli, "'%s' was acquired again, token %" PRIu64, shown(run->holds[0].name),
                 run->tokens[0]);
    }
    suspend_end(run);
}
