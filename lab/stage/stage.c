/* SPDX-License-Identifier: MIT */
/* The director's side of a play: actors are started, paused, killed and awaited. Main thread. */
#include "stage.h"

#include "../../test/lib/server.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void stage_unclear(struct stage *stage, const char *format, ...)
{
    va_list args;

    if (stage->unclear)
        return; /* the first reason is the cause */
    stage->unclear = true;
    va_start(args, format);
    vsnprintf(stage->why, sizeof stage->why, format, args);
    va_end(args);
    history_stop(stage->history);
}

/* What an actor said before it failed is a better reason than that we waited in vain. */
static void check_failed(struct stage *stage)
{
    const char *said = stage->said;

    if (said[0] && !stage->unclear)
        stage_unclear(stage, "%s", said);
}

static void director_notes(struct stage *stage, int lane, enum event_kind kind)
{
    history_add(stage->history,
                (struct event){ .lane = (int16_t)lane, .other = -1, .kind = (uint8_t)kind });
}

/* ---- interrupts ---------------------------------------------------------------------------------- */

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };
static struct history *waited_for; /* by whoever waits when the signal comes */
static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    int saved = errno;

    interrupted = number;
    history_stop(waited_for);
    errno = saved;
}

/* SA_RESETHAND: a second one ends the lab at once. What is ignored (nohup) stays so. */
void stage_heed_signals(struct stage *stage)
{
    struct sigaction action = { .sa_handler = on_signal,
                                .sa_flags = (int)(SA_RESTART | SA_RESETHAND) };

    waited_for = stage->history;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        struct sigaction before;

        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
}

int stage_interrupted(void)
{
    return interrupted;
}

static void look_for_interrupt(struct stage *stage)
{
    if (!interrupted)
        return;
    history_stop(stage->history); /* history_clear() may have undone it */
    stage_unclear(stage, "interrupted");
}

/* ---- actors -------------------------------------------------------------------------------------- */

static struct actor *actor_of(struct stage *stage, int lane)
{
    for (int i = stage->actor_count - 1; i >= 0; i--)
        if (stage->actors[i]->lane == lane && !stage->actors[i]->observer)
            return stage->actors[i];
    stage_unclear(stage, "there is no actor in lane %d", lane);
    return NULL;
}

static int client_number(const struct stage *stage, int lane)
{
    const struct lane *lanes = stage->way->lanes;
    int number = 0;

    if (!lanes)
        return lane;
    for (int i = 0; i < lane && lanes[i].kind != LANE_END; i++)
        number += lanes[i].kind == LANE_CLIENT;
    return number;
}

static void id_of(int number, char ret_id[8])
{
    if (number < 26)
        snprintf(ret_id, 8, "%c", 'A' + number);
    else
        snprintf(ret_id, 8, "%d", number % 1000000);
}

int lane_of_id(const struct stage *stage, const char *id, size_t len)
{
    const struct lane *lanes = stage->way->lanes;
    int number = 0;

    for (int i = 0; lanes && lanes[i].kind != LANE_END; i++) {
        char own[8];

        if (lanes[i].kind != LANE_CLIENT)
            continue;
        id_of(number++, own);
        if (strlen(own) == len && memcmp(own, id, len) == 0)
            return i;
    }
    return -1;
}

static struct actor *add_actor(struct stage *stage, int lane, void *arg)
{
    struct actor *actor;

    if (stage->unclear)
        return NULL;
    actor = stage->actor_count < ACTORS_MAX ? calloc(1, sizeof *actor) : NULL;
    if (!actor) {
        stage_unclear(stage, "no room for another actor");
        return NULL;
    }
    actor->stage = stage;
    actor->lane = lane;
    actor->number = client_number(stage, lane);
    id_of(actor->number, actor->id);
    actor->arg = arg;
    stage->actors[stage->actor_count++] = actor;
    return actor;
}

/* In the child. It must not outlive the lab, and a signal to all of a terminal is for the lab, which ends it. */
static void become_actor(pid_t director)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != director)
        _exit(1);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        signal(ending[i], SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

static void start(struct stage *stage, struct actor *actor,
                  void (*main)(struct actor *actor, void *arg), void *arg)
{
    pid_t director = getpid();

    fflush(NULL);
    actor->pid = fork();
    if (actor->pid < 0) {
        actor->pid = 0;
        stage_unclear(stage, "no process for an actor: %s", strerror(errno));
    }
    if (actor->pid == 0 && getpid() != director) {
        become_actor(director);
        main(actor, arg);
        _exit(0);
    }
}

struct role {
    actor_fn *fn;
};

static void actor_main(struct actor *me, void *arg)
{
    ((struct role *)arg)->fn(me);
}

void stage_start(struct stage *stage, int lane, actor_fn *fn, void *arg)
{
    struct role role = { fn };
    struct actor *actor = add_actor(stage, lane, arg);

    if (!actor)
        return;
    if (history_count(stage->history, lane, EV_KILLED) > 0)
        director_notes(stage, lane, EV_STARTED);
    start(stage, actor, actor_main, &role);
}

void stage_pause(struct stage *stage, int lane)
{
    struct actor *actor = stage->unclear ? NULL : actor_of(stage, lane);

    if (!actor)
        return;
    director_notes(stage, lane, EV_PAUSED);
    if (!stop_process(actor->pid))
        stage_unclear(stage, "client %s ended before it was paused", actor->id);
    actor->paused = true;
}

void stage_pause_at(struct stage *stage, int lane)
{
    if (stage->unclear)
        return;
    if (!history_await_signal(stage->history, SIGNAL_AT_PAUSE + lane, AWAIT_MS)) {
        check_failed(stage);
        stage_unclear(stage, "the client of lane %d did not come to its pause", lane);
    }
    stage_pause(stage, lane);
}

void stage_resume(struct stage *stage, int lane)
{
    struct actor *actor = stage->unclear ? NULL : actor_of(stage, lane);

    if (!actor)
        return;
    director_notes(stage, lane, EV_RESUMED);
    stage_signal(stage, SIGNAL_PAUSE_OVER + lane);
    kill(actor->pid, SIGCONT);
    actor->paused = false;
}

void stage_kill(struct stage *stage, int lane)
{
    struct actor *actor = stage->unclear ? NULL : actor_of(stage, lane);

    if (!actor)
        return;
    end_process(&actor->pid);
    director_notes(stage, lane, EV_KILLED);
}

/* ---- waiting ------------------------------------------------------------------------------------ */

/* A child that is traced or stopped is not the end. */
static void join_one(struct stage *stage, struct actor *actor)
{
    int64_t end_ms = clock_ms() + AWAIT_MS;
    int status;

    while (actor->pid > 0 && !stage->unclear) {
        pid_t ended = waitpid(actor->pid, &status, WNOHANG);

        if (!actor->observer) /* what stage_do() does is brief, and may be what cleans up */
            look_for_interrupt(stage);
        if (ended == actor->pid) {
            actor->pid = 0;
            if (status != 0) {
                check_failed(stage);
                stage_unclear(stage, "client %s failed", actor->id);
            }
        } else if (clock_ms() >= end_ms) {
            stage_unclear(stage, "client %s does not end", actor->id);
        } else {
            sleep_ms(
                2); /* for the end of one of many children there is no event with a limit that is simpler */
        }
    }
}

void stage_do(struct stage *stage, actor_fn *fn)
{
    struct role role = { fn };
    struct actor *actor = add_actor(stage, 0, NULL);

    if (!actor)
        return;
    actor->observer = true; /* no client of the play */
    start(stage, actor, actor_main, &role);
    join_one(stage, actor);
    if (!stage->unclear)
        history_clear(stage->history); /* the play begins now */
    if (interrupted)
        history_stop(stage->history);
}

void stage_join(struct stage *stage, int lane)
{
    for (int i = 0; i < stage->actor_count; i++) {
        struct actor *actor = stage->actors[i];

        if (!actor->observer && (lane < 0 || actor->lane == lane))
            join_one(stage, actor);
    }
}

void stage_await(struct stage *stage, int lane, enum event_kind kind, unsigned count)
{
    if (stage->unclear)
        return;
    if (!history_await(stage->history, lane, kind, count, AWAIT_MS)) {
        check_failed(stage);
        stage_unclear(stage, "event %d of lane %d did not come", (int)kind, lane);
    }
}

void stage_await_signal(struct stage *stage, int64_t value)
{
    if (stage->unclear)
        return;
    if (!history_await_signal(stage->history, value, AWAIT_MS)) {
        check_failed(stage);
        stage_unclear(stage, "signal %lld did not come", (long long)value);
    }
}

void stage_sleep(struct stage *stage, int64_t ms)
{
    if (!stage->unclear)
        sleep_ms(ms);
}

/* ---- notes of the director ------------------------------------------------------------------------- */

void stage_step(struct stage *stage, int lane, int step, bool bad)
{
    if (stage->unclear)
        return;
    history_add(
        stage->history,
        (struct event){
            .lane = (int16_t)lane, .other = -1, .kind = EV_STEP, .value = step, .bad = bad });
}

void stage_note(struct stage *stage, int lane, const struct phrase *text)
{
    if (stage->unclear)
        return;
    history_add(
        stage->history,
        (struct event){ .lane = (int16_t)lane, .other = -1, .kind = EV_NOTE, .text = text });
}

void stage_value(struct stage *stage, int lane, int64_t value)
{
    if (stage->unclear)
        return;
    history_add(
        stage->history,
        (struct event){ .lane = (int16_t)lane, .other = -1, .kind = EV_VALUE, .value = value });
}

void stage_signal(struct stage *stage, int64_t value)
{
    if (stage->unclear)
        return;
    history_add(stage->history,
                (struct event){ .lane = -1, .other = -1, .kind = EV_SIGNAL, .value = value });
}

/* ---- observers --------------------------------------------------------------------------------------- */

#define LOOK_EVERY_MS 5

struct observer {
    observe_fn *ask;
};

static void observer_main(struct actor *me, void *arg)
{
    observe_fn *ask = ((struct observer *)arg)->ask;
    int before = -1;
    uint64_t token_before = 0;

    while (!atomic_load(&me->stage->history->stopped)) {
        uint64_t token = 0;
        int owner = ask(me, &token);

        if (owner >= -1 && (owner != before || token != token_before)) {
            history_add(me->stage->history, (struct event){ .lane = (int16_t)me->lane,
                                                            .other = (int16_t)owner,
                                                            .kind = EV_OWNER,
                                                            .token = token });
            before = owner;
            token_before = token;
        }
        sleep_ms(LOOK_EVERY_MS);
    }
}

void stage_observe(struct stage *stage, int lane, observe_fn *ask, void *arg)
{
    struct observer observer = { ask };
    struct actor *actor = add_actor(stage, lane, arg);

    if (!actor)
        return;
    actor->observer = true;
    start(stage, actor, observer_main, &observer);
}

/* ---- begin and end of a play ------------------------------------------------------------------------- */

bool stage_init(struct stage *stage)
{
    stage->history = history_new();
    stage->shared =
        mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    stage->said = mmap(NULL, SAID_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return stage->history && stage->shared != MAP_FAILED && stage->said != MAP_FAILED;
}

void stage_begin(struct stage *stage, const struct way *way)
{
    stage->way = way;
    stage->unclear = false;
    stage->why[0] = 0;
    memset(stage->said, 0, SAID_ROOM);
    memset(stage->shared, 0, SHARED_BYTES);
    history_clear(stage->history);
    look_for_interrupt(stage);
}

void stage_end(struct stage *stage)
{
    check_failed(stage);
    history_stop(stage->history);
    for (int i = 0; i < stage->actor_count; i++) {
        struct actor *actor = stage->actors[i];

        if (actor->pid > 0)
            end_process(&actor->pid);
        free(actor);
    }
    stage->actor_count = 0;
}

void stage_done(struct stage *stage)
{
    stage_end(stage);
    history_free(stage->history);
    munmap(stage->shared, SHARED_BYTES);
    munmap(stage->said, SAID_ROOM);
}
