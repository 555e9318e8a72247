/* SPDX-License-Identifier: MIT */
/*
 * Supervises the command of a `run`: one poll() over signals, the lease (or the outer run), inner
 * runs and a timer. Every decision about ending the command is made by plan.c, and carried out by
 * ending.c. Nothing here may block: messages go through outlets (say.c, status.c), and are sent
 * after the signals. Main thread.
 */
#include "run.h"

#include "util/clock.h"
#include "util/text.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum slot { SLOT_SIGNALS, SLOT_LEASE, SLOT_TIMER, SLOT_NEST, SLOT_WANTED, SLOT_LOOP, SLOT_INNER };

static void look_at_lease(struct run *run);
static bool is_working(const struct run *run);
static int64_t decide(struct run *run);
static void lose(struct run *run);
static void wait_for_events(struct run *run, int64_t until_ms);
static void on_signal(struct run *run, const struct signal_event *event);
static void pass_on(struct run *run, const struct signal_event *event);
static void on_child(struct run *run);
static void hear_outer(struct run *run);
static void hear_inner(struct run *run, int events);

void supervise(struct run *run)
{
    bool settled = false;

    for (;;) {
        int64_t until_ms = run->hold_until_ms;

        if (is_working(run)) {
            until_ms = decide(run);
            settled = false;
        } else {
            look_at_lease(run);
            if (run->known.lost && !settled && !run->lost)
                lose(run); /* at the last moment, before the event arrived */
            settled = true;
            /* The rest of a lease that could not be renewed is not worth holding for --min-hold. */
            if (run->lost || run->known.lost || run->ended_by.number || hfi_now_ms() >= until_ms)
                return;
        }
        wait_for_events(run, suspend_go_on(run, until_ms));
    }
}

/* Does anything run under the lease? An inner run may come even while we only hold it for
 * --min-hold. When the command must end, so must all that it started. */
static bool is_working(const struct run *run)
{
    if (!run->child.exited)
        return true;
    return (run->nest.inner_count > 0 && !run->ending.gave_up) || ending_is_on(run);
}

/* ---- the lease --------------------------------------------------------------------- */

/* A renewal was not confirmed, or the next one was. */
static void say_risk(struct run *run, bool risk)
{
    json_t *event = status_begin(&run->status, risk ? "at_risk" : "held");

    run->at_risk = risk;
    json_set_name(event, run->holds[0].name, run->holds[0].name_len);
    status_send(&run->status, event);
}

static void look_at_lease(struct run *run)
{
    int64_t now_ms = hfi_now_ms();
    int64_t max_hold_ms = run->cli->args.max_hold_ms;
    int64_t left_ms = INT64_MAX;
    bool risk = false;

    if (run->wanted.away)
        return; /* nothing runs, so nothing can be lost */
    /* Of several leases, the one that ends first counts. */
    for (size_t i = 0; run->lease && i < run->count && !run->known.lost; i++) {
        int64_t one_ms = hf_lease_remaining_ms(run->leases[i]);
        hf_lease_info info = HF_LEASE_INFO_INIT; /* reading it makes its descriptor quiet again */

        run->known.lost =
            hf_lease_get(run->leases[i], &info) != HF_OK || info.state == HF_STATE_LOST;
        risk |= info.state == HF_STATE_AT_RISK;
        left_ms = one_ms < left_ms ? one_ms : left_ms;
        if (run->known.lost)
            run->lost_name = i;
        else if (i + 1 == run->count)
            run->known.valid_until_ms = hfi_after_ms(now_ms, left_ms);
    }
    if (risk != run->at_risk && !run->known.lost)
        say_risk(run, risk);
    if (max_hold_ms && run->known.valid_until_ms > run->held_since_ms + max_hold_ms)
        run->known.valid_until_ms = run->held_since_ms + max_hold_ms;
    if (now_ms >= run->known.valid_until_ms)
        run->known.lost = true;
}

/* Do what the state of the lease demands; returns when to decide again. */
static int64_t decide(struct run *run)
{
    int64_t now_ms = hfi_now_ms();
    struct run_step step;

    look_at_lease(run);
    step = plan_next(&run->plan, run->phase, run->kill_at_ms, &run->known, now_ms);
    switch (step.act) {
    case RUN_SLEEP:
        step.until_ms = ending_chase(run, step.until_ms);
        break;
    case RUN_TERM:
        run->phase = RUN_ENDING;
        run->kill_at_ms = step.until_ms;
        ending_term(run, step.until_ms - now_ms);
        break;
    case RUN_KILL:
        run->phase = RUN_KILLED;
        ending_kill(run); /* and check at once what is left */
        break;
    }
    if ((run->known.lost || step.act != RUN_SLEEP) && !run->lost)
        lose(run);
    return step.until_ms;
}

#define MAX_HOLD_GUARD_MS 50

/* Is it --max-hold that ends it at known.valid_until_ms? */
static bool max_hold_ends_it(const struct run *run)
{
    int64_t max_hold_ms = run->cli->args.max_hold_ms;

    if (max_hold_ms == 0)
        return false;
    if (run->lease && run->cli->args.ttl_ms == 0 && run->store.info.default_ttl_ms == 0)
        return true; /* without a ttl nothing else does */
    /* The library ends it a little early (1 % and a guard), as it does with every end. */
    return run->known.valid_until_ms >=
           run->held_since_ms + max_hold_ms - max_hold_ms / 50 - MAX_HOLD_GUARD_MS;
}

static const char limit_is_over[] = "--max-hold is over";

static const char *why_lost(const struct run *run)
{
    bool early = run->known.lost && hfi_now_ms() < run->known.valid_until_ms;

    if (run->wanted.not_regained)
        return "it was yielded, and not granted again";
    if (early && run->lease) /* a server does not tell which; an embedded store forgets nothing */
        return strcmp(run->store.info.engine, "lmdb") == 0
                   ? "it was ended by force"
                   : "it was ended by force, or the store has forgotten it";
    if (!early && max_hold_ends_it(run))
        return limit_is_over;
    if (!run->lease)
        return "the outer `run` has lost it";
    return run->known.lost ? "it has expired" : "it could not be renewed";
}

/* Report once that the lease is lost, or will end because it can no longer be renewed in time. */
static void lose(struct run *run)
{
    static const char *const next[] = { [ON_LOST_TERM] = "; ending the command",
                                        [ON_LOST_KILL] = "; killing the command",
                                        [ON_LOST_WARN] = "; the command continues without it" };
    const struct nest_hold *hold = &run->holds[run->lost_name];
    const char *name = hold->name, *why = why_lost(run);
    json_t *event = status_begin(&run->status, "lost");

    run->lost = true;
    run->lost_by_limit = why == limit_is_over;
    say_error("the lease of '%s' is lost: %s%s", shown(name), why,
              run->child.exited    ? ""
              : run->ending.denied ? "; the command runs as another user and cannot be ended"
                                   : next[run->plan.on_lost]);
    json_set_name(event, name, strlen(name));
    json_object_set_new(event, "reason", json_string(why));
    json_object_set_new(event, "held_ms", json_integer(hfi_now_ms() - run->held_since_ms));
    status_send(&run->status, event);

    nest_hang_up(&run->nest); /* inner runs can no longer share it */
    if (run->plan.on_lost == ON_LOST_WARN)
        nest_tell(&run->nest, NEST_LOST, (uint64_t)run->plan.kill_after_ms);
}

/* The outer run has lost the lease: our command has at most this time from TERM to KILL. */
static void hear_loss(struct run *run, int64_t grace_ms)
{
    run->known.lost = true;
    if (grace_ms < run->plan.kill_after_ms)
        run->plan.kill_after_ms = grace_ms;
    close(run->outer);
    run->outer = -1;
}

/* Read what the outer run says about its lease. */
static void hear_outer(struct run *run)
{
    struct nest_message message;

    while (run->outer >= 0 && nest_hear(run->outer, &message)) {
        switch (message.word) {
        case NEST_ENDING:
            run->known.valid_until_ms = hfi_after_ms(hfi_now_ms(), (int64_t)message.value);
            break;
        case NEST_SIGNAL:
            on_signal(run, &(struct signal_event){ .number = (int)message.value });
            break;
        case NEST_LOST:
            hear_loss(run, message.value < INT32_MAX ? (int64_t)message.value : INT32_MAX);
            break;
        default: /* it hung up */
            hear_loss(run, run->outer_grace_ms);
            break;
        }
    }
}

/* ---- events ------------------------------------------------------------------------- */

static void set_timer(struct run *run, int64_t until_ms)
{
    struct itimerspec at = { .it_value = { .tv_sec = until_ms / 1000,
                                           .tv_nsec = until_ms % 1000 * 1000000 } };

    if (run->timer < 0)
        run->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    timerfd_settime(run->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

static void wait_for_events(struct run *run, int64_t until_ms)
{
    size_t inner_count = run->nest.inner_count;
    struct pollfd *polled = must_alloc((SLOT_INNER + inner_count) * sizeof *polled);
    int lease_fd = run->lease ? run->lease_fd : run->outer;
    struct signal_event event;

    until_ms = wanted_loop_until(run, until_ms);
    if (until_ms != PLAN_NEVER)
        set_timer(run, until_ms);
    polled[SLOT_SIGNALS].fd = run->signals.fd;
    polled[SLOT_LEASE].fd = run->known.lost ? -1 : lease_fd; /* it would poll readable for ever */
    polled[SLOT_TIMER].fd = until_ms != PLAN_NEVER ? run->timer : -1;
    polled[SLOT_NEST].fd = run->wanted.away ? -1 : run->nest.fd; /* there is no lease to share */
    polled[SLOT_WANTED].fd = wanted_fd(run);
    polled[SLOT_LOOP].fd = wanted_loop_fd(run);
    for (size_t i = 0; i < inner_count; i++)
        polled[SLOT_INNER + i].fd = run->nest.inners[i];
    for (size_t i = 0; i < SLOT_INNER + inner_count; i++)
        polled[i].events = POLLIN;

    poll(polled, SLOT_INNER + inner_count, -1);

    if (!run->lease)
        hear_outer(run);
    for (size_t i = inner_count; i-- > 0;) /* inner runs send nothing more: this is the hang-up */
        if (polled[SLOT_INNER + i].revents)
            nest_remove(&run->nest, i);
    if (polled[SLOT_NEST].revents)
        hear_inner(run, polled[SLOT_NEST].revents);
    wanted_loop(run);
    wanted_hear(run);
    while (signals_next(&run->signals, &event))
        on_signal(run, &event);
    free(polled);
}

static void hear_inner(struct run *run, int events)
{
    nest_accept(&run->nest, run->holds, run->tokens, run_shares(run) ? run->count : 0);
    if (events & (POLLHUP | POLLERR))
        nest_hang_up(&run->nest); /* nobody has the other end any more */
}

static void on_signal(struct run *run, const struct signal_event *event)
{
    if (event->number == SIGCHLD) {
        if (!run->child.exited)
            on_child(run);
        kin_reap(&run->kin, run->child.exited ? 0 : run->child.pid);
    } else if (wanted_signal(run, event->number)) {
        return;
    } else if (event->number == SIGCONT && run->stop.yields) {
        return; /* nothing runs while the lease is away */
    } else if (event->number == SIGCONT) {
        supervise_resume(run);
    } else if (signal_stops(event->number)) {
        suspend_begin(run, event->number, false);
    } else {
        pass_on(run, event);
    }
}

/* Pass a signal on to the command; when that has ended, to inner runs; if nothing runs, it ends
 * us. */
static void pass_on(struct run *run, const struct signal_event *event)
{
    bool stays = run->nest.inner_count > 0 || hfi_now_ms() < run->hold_until_ms;

    /* The command may have ended although its SIGCHLD has not been read. A dead process receives
     * nothing, and we would stay. */
    if (stays && !run->child.exited && child_has_ended(&run->child))
        on_child(run);

    if (signal_ends(event->number)) {
        wanted_give_up(run);
        if (run->stop.yields && !run->wanted.away && !run->child.exited) { /* it shall receive it */
            wanted_keep(run);
            suspend_end(run);
        }
    }
    if (!run->child.exited)
        child_signal(&run->child, event->number);
    else if (run->nest.inner_count > 0)
        nest_tell(&run->nest, NEST_SIGNAL, (uint64_t)event->number);
    else if (signal_ends(event->number))
        run->ended_by = *event;
}

static void on_child(struct run *run)
{
    struct child *child = &run->child;
    int stopped = child_look(child, run->phase != RUN_RUNNING);

    if (child->exited) {
        json_t *event = status_begin(&run->status, "exited");
        bool killed = WIFSIGNALED(child->status);

        child_take_tty(child);
        json_object_set_new(event, "status",
                            killed ? json_integer(EXIT_SIGNAL_BASE + WTERMSIG(child->status))
                                   : json_integer(WEXITSTATUS(child->status)));
        json_object_set_new(event, "signal",
                            killed ? json_integer(WTERMSIG(child->status)) : json_null());
        status_send(&run->status, event);
        return;
    }
    if (!signal_stops(stopped))
        return; /* SIGSTOP: a debugger or a user stopped it; the lease is kept meanwhile */

    if (run->stop.number)
        return; /* we asked for it */

    /* It stopped because it wants the terminal, which we have: give it. */
    if (stopped != SIGTSTP && !child->has_tty) {
        child_give_tty(child);
        if (child->has_tty) {
            child_signal(child, SIGCONT);
            return;
        }
    }
    if (child->tty < 0)
        return;

    /* The whole job stops, as it would without us, and the shell sees it. */
    suspend_begin(run, stopped, true);
}

void supervise_resume(struct run *run)
{
    decide(run);
    if (run->child.wants_tty)
        child_give_tty(&run->child);
    suspend_end(run);
}
