/* SPDX-License-Identifier: MIT */
/*
 * Where a play happens. The director (the lab's main thread) starts actors, each a process of its own, and pauses, kills and awaits
 * them; actors note what they do. Everybody waits for events, never for a time that should be enough: stage_await(), await().
 *
 * Lanes are numbered by the list of the way (way->lanes); the first client lane is client A.
 *
 * A play that does not come to its end is not a result. Whatever is awaited too long, or fails, makes the stage *unclear*
 * (stage_unclear()): calls of the director do nothing from then on, so a play needs no checks of its own.
 */
#ifndef LAB_STAGE_H
#define LAB_STAGE_H

#include "../lab.h"
#include "history.h"

#include <sys/types.h>

#define ACTORS_MAX 160
#define AWAIT_MS   30000 /* an event that has not come by then will not come */

struct actor;
struct redisContext;
struct server; /* test/redis/redis_server.h */

struct stage {
    struct history *history;
    const struct experiment *experiment;
    const struct way *way;
    /* of the store for ours: "redis://127.0.0.1:PORT?prefix=..."; of --store, or of a server of our
     * own */
    const char *url;
    const char *redis_host; /* for naive clients */
    int redis_port;
    const char *redis_user, *redis_password; /* NULL: none */
    int redis_db;
    /* of the keys of naive clients: "lab:"; on a server of the user a random one */
    char prefix[32];
    struct server *redis; /* of our own; NULL: the user's */
    char server[96];      /* what the server of an experiment's own open() calls itself */
    void *own;            /* what the experiment's open() keeps here */
    /* SHARED_BYTES of memory, zero at the begin of a play, that the director and all actors
     * share */
    void *shared;
    bool unclear;
    char why[256];
    char *said; /* SAID_ROOM, shared: what an actor said before it failed */
    struct actor *actors[ACTORS_MAX];
    int actor_count;
};
#define SHARED_BYTES 65536
#define SAID_ROOM    256

/* For lab/main.c: once; around each play, which leaves no process behind; at the end. */
bool stage_init(struct stage *stage);
void stage_begin(struct stage *stage, const struct way *way);
void stage_end(struct stage *stage);
void stage_done(struct stage *stage);

/* From now on SIGINT, SIGTERM and SIGHUP make this play unclear and each that begins later, so the lab comes to its end in order: servers,
 * directories and keys go. The number of the signal that came; 0: none. */
void stage_heed_signals(struct stage *stage);
int stage_interrupted(void);

/* ---- for the director ---------------------------------------------------------------------------- */

typedef void actor_fn(struct actor *me);
/* Start a client in this lane; it runs `fn` and ends. `arg` is me->arg. */
void stage_start(struct stage *stage, int lane, actor_fn *fn, void *arg);
/* It runs no more, until it is resumed; returns when it has stopped. If its code has a pause_point(), use stage_pause_at(): it waits until
 * the actor is there, and the actor does not go on before it is resumed, however slow the machine is. */
void stage_pause_at(struct stage *stage, int lane);
void stage_pause(struct stage *stage, int lane);
void stage_resume(struct stage *stage, int lane);
void stage_kill(struct stage *stage, int lane);
/* Run `fn` in a process of its own, to its end: for what has to be there before the play (it notes nothing). */
void stage_do(struct stage *stage, actor_fn *fn);
/* Wait for the end of the client of this lane (-1: of all). */
void stage_join(struct stage *stage, int lane);
/* Wait for events of a lane; see history_await(). */
void stage_await(struct stage *stage, int lane, enum event_kind kind, unsigned count);
void stage_await_signal(struct stage *stage, int64_t value);
/* Let time pass that the experiment is about (a ttl, a pause). Not in place of an event. */
void stage_sleep(struct stage *stage, int64_t ms);
/* The step with this number happens in this lane; `bad`: in red. */
void stage_step(struct stage *stage, int lane, int step, bool bad);
void stage_note(struct stage *stage, int lane, const struct phrase *text);
/* The value of a resource at the begin. */
void stage_value(struct stage *stage, int lane, int64_t value);
void stage_signal(struct stage *stage, int64_t value); /* lane -1 */
__attribute__((format(printf, 2, 3))) void stage_unclear(struct stage *stage, const char *format,
                                                         ...);

/* A process that asks a server again and again, some hundred times a second, which lane has the lock, and notes changes in `lane`.
 * `ask` returns -1 for nobody, -2 for "no answer" (nothing is noted). */
typedef int observe_fn(struct actor *me, uint64_t *ret_token);
void stage_observe(struct stage *stage, int lane, observe_fn *ask, void *arg);
/* Observers for the two common cases: a string key of naive clients whose value is the actor's id (or begins with it), and a name of Holdfast, whose
 * holder's label is the actor's id. `arg` is the name. */
observe_fn observe_key, observe_name;

/* The lane of the client with this id; -1: none has it. */
int lane_of_id(const struct stage *stage, const char *id, size_t len);

/* ---- for actors ----------------------------------------------------------------------------------- */

struct actor {
    struct stage *stage;
    int lane;
    int number; /* among the clients: 0 is A */
    char id[8]; /* "A", "B", ...: value of a naive key, label of a lease */
    void *arg;
    struct redisContext *redis; /* opened by the first redis_*() call */
    const char *redis_host;     /* redis_use(); NULL: the stage's */
    int redis_port;
    int redis_limit_ms; /* of a call; 0: five seconds */
    char redis_room[64], trouble[128];
    pid_t pid; /* for the director */
    bool paused, observer;
};

void note_event(struct actor *me, struct event event); /* its lane is ours */
void note(struct actor *me, enum event_kind kind);
void note_got(struct actor *me, uint64_t token);
/* ASK, TRY, GOT, LET or GAVE_UP of one of several locks: the one that the server in `lane` keeps. */
void note_lock(struct actor *me, enum event_kind kind, int lane, uint64_t token);
void note_read(struct actor *me, int lane, int64_t value);
void note_write(struct actor *me, int lane, int64_t value, uint64_t token);
void note_refused(struct actor *me, int lane, uint64_t token, uint64_t highest);
void note_claim(struct actor *me, int lane, uint64_t token, int64_t value);
void note_text(struct actor *me, const struct phrase *text);
void note_step(struct actor *me, int step, bool bad); /* 0: none */
void note_signal(struct actor *me, int64_t value);
/* The actor ends, and the play is unclear, if it does not come. */
void await(struct actor *me, int lane, enum event_kind kind, unsigned count);
void await_signal(struct actor *me, int64_t value);
/* Where this actor will be paused: it waits here for stage_resume(). Only the client with number 0 (A) is. */
void pause_point(struct actor *me);
/* A try was refused: note it, and wait for this time before the next. */
void again(struct actor *me, int64_t ms);
void again_at(struct actor *me, int lane, int64_t ms); /* of one of several locks */
/* Work that takes a time: what the lock is for. */
void work(struct actor *me, int64_t ms);
#define SIGNAL_AT_PAUSE   INT64_C(1000) /* + lane: of pause_point() */
#define SIGNAL_PAUSE_OVER INT64_C(2000)
/* An actor that cannot go on: the play is unclear, unless the play expects errors itself. */
__attribute__((noreturn, format(printf, 2, 3))) void actor_fails(struct actor *me,
                                                                 const char *format, ...);

#endif
