/* SPDX-License-Identifier: MIT */
/* See growth_actor.h. */
#include "growth_actor.h"

#include "ours.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IN_FLIGHT 256
#define HOT_NAME  "growth-hot-name"
#define STRIDE    4
#define LOOK_MS   20
#define ENOUGH    200 /* operations of a probe, however long they take */
#define LONGEST_S 4   /* but not longer than this */

/* An actor, inside. */
struct self {
    const char *url;
    unsigned tag;
    hf_store *first, *driven; /* `driven` has the waiters, and the names that are taken in bulk */
    unsigned asked, got;      /* of the names */
    unsigned stores, pairs;
    bool passing;
    hf_lease *kept; /* of the hot name, before they begin to pass it on */
    hf_acquire_request hot;
    double passes;
};

/* Drive a store, but come back in time to look at the clock. */
static void drive(hf_store *store)
{
    struct pollfd fd = { .fd = hf_store_fd(store), .events = POLLIN };
    int timeout_ms = hf_store_timeout_ms(store);

    if (timeout_ms < 0 || timeout_ms > LOOK_MS)
        timeout_ms = LOOK_MS;
    if (poll(&fd, 1, timeout_ms) < 0 && errno != EINTR)
        bench_die("poll: %s", strerror(errno));
    if (hf_store_process(store) != HF_OK)
        bench_die("hf_store_process failed");
}

/* ---- names in bulk --------------------------------------------------------------------------- */

static void lost(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    (void)lease, (void)arg;
    if (event == HF_EVENT_LOST)
        bench_die("a lease was lost: %s", why);
}

static void taken(const hf_result *result, void *arg)
{
    struct self *self = arg;

    if (result->status != HF_OK)
        bench_die("hf_acquire_async: %s", result->error->text);
    self->got++;
}

static double hold(struct self *self, const struct actor_work *work)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    unsigned until = self->got + work->count;
    char name[32];
    hf_error err;

    request.ttl_ms = work->ttl_ms;
    request.name = name;
    request.name_len = HF_CSTRING;
    request.on_event = lost;
    while (self->got < until) {
        while (self->asked < until && self->asked - self->got < IN_FLIGHT) {
            snprintf(name, sizeof name, "held-%04u-%07u", self->tag, self->asked);
            if (hf_acquire_async(self->driven, &request, taken, self, NULL, &err) != HF_OK)
                bench_die("hf_acquire_async: %s", err.text);
            self->asked++;
        }
        drive(self->driven);
    }
    return work->count;
}

/* ---- stores ------------------------------------------------------------------------------------- */

static double open_stores(struct self *self, const struct actor_work *work)
{
    char name[32];

    for (unsigned i = 0; i < work->count; i++) {
        hf_acquire_request request = ours_request(name, 0);
        hf_store *store = ours_open_url(self->url);

        snprintf(name, sizeof name, "open-%04u-%07u", self->tag, self->stores++);
        request.name_len = HF_CSTRING;
        request.ttl_ms = work->ttl_ms;
        ours_acquire(store, &request);
    }
    return work->count;
}

/* Is a probe of `seconds` over? On a busy machine it is longer, for enough operations. */
static bool over(int64_t start, const struct actor_work *work, double operations)
{
    double spent = (double)(bench_ns() - start) / 1e9;

    return spent >= LONGEST_S || (spent >= work->seconds && operations >= ENOUGH);
}

/* ---- waiters ------------------------------------------------------------------------------------- */

static hf_done_fn granted, passed;

static void queue_up(struct self *self)
{
    hf_error err;

    if (hf_acquire_async(self->driven, &self->hot, granted, self, NULL, &err) != HF_OK)
        bench_die("hf_acquire_async: %s", err.text);
}

static void pass_on(struct self *self, hf_lease *lease)
{
    hf_error err;

    if (hf_release_async(lease, passed, self, NULL, &err) != HF_OK)
        bench_die("hf_release_async: %s", err.text);
}

static void granted(const hf_result *result, void *arg)
{
    struct self *self = arg;

    if (result->status != HF_OK)
        bench_die("hf_acquire_async: %s", result->error->text);
    if (self->passing)
        pass_on(self, result->lease);
    else
        self->kept = result->lease;
}

static void passed(const hf_result *result, void *arg)
{
    struct self *self = arg;

    if (result->status != HF_OK)
        bench_die("hf_release_async: %s", result->error->text);
    self->passes++;
    queue_up(self);
}

static size_t waiters(const struct self *self)
{
    hf_view *view;
    hf_error err;
    size_t count;

    if (hf_store_inspect(self->first, HOT_NAME, HF_CSTRING, 0, &view, &err) != HF_OK)
        bench_die("hf_store_inspect: %s", err.text);
    count = hf_view_count(view) ? hf_view_entry(view, 0)->waiter_count : 0;
    hf_free(view);
    return count;
}

static double queue_all(struct self *self, const struct actor_work *work)
{
    int64_t next = bench_ns();

    self->hot = ours_request(HOT_NAME, HF_FLAG_STRICT);
    self->hot.ttl_ms = work->ttl_ms;
    for (unsigned i = 0; i <= work->count; i++) {
        queue_up(self);
        if (i % 16 == 0 && hf_store_process(self->driven) != HF_OK)
            bench_die("hf_store_process failed");
    }
    for (;;) {
        drive(self->driven);
        if (bench_ns() < next)
            continue;
        if (waiters(self) >= work->count)
            return work->count;
        next = bench_ns() + 100000000;
    }
}

static double pass_for(struct self *self, const struct actor_work *work)
{
    int64_t start = bench_ns();
    double before = self->passes;

    self->passing = true;
    if (self->kept)
        pass_on(self, self->kept);
    self->kept = NULL;
    while (!over(start, work, self->passes - before))
        drive(self->driven);
    return self->passes - before;
}

/* ---- pairs ------------------------------------------------------------------------------------------ */

static double pair_for(struct self *self, const struct actor_work *work)
{
    int64_t start = bench_ns();
    char name[32];
    double count = 0;

    do
        for (int i = 0; i < STRIDE; i++) {
            hf_acquire_request request = ours_request(name, 0);

            snprintf(name, sizeof name, "pair-%04u-%07u", self->tag, self->pairs++);
            request.name_len = HF_CSTRING;
            ours_release(ours_acquire(self->first, &request));
            count++;
        }
    while (!over(start, work, count));
    return count;
}

/* ---- orders -------------------------------------------------------------------------------------------- */

static void act(const char *url, unsigned tag, int fd)
{
    static double (*const acts[])(struct self *, const struct actor_work *) = {
        [ACTOR_OPEN] = open_stores, [ACTOR_HOLD] = hold,     [ACTOR_WAIT] = queue_all,
        [ACTOR_PASS] = pass_for,    [ACTOR_PAIR] = pair_for,
    };
    struct self self = { .url = url, .tag = tag };
    struct actor_work work;

    while (read(fd, &work, sizeof work) == (ssize_t)sizeof work) {
        int64_t start = bench_ns();
        struct actor_done done;
        struct mallinfo2 heap;

        if (!self.first && work.order != ACTOR_OPEN) {
            self.first = ours_open_url(url);
            self.driven = ours_open_url(url);
        }
        done.operations = acts[work.order](&self, &work);
        heap = mallinfo2();
        done.heap = (double)heap.uordblks + (double)heap.hblkhd;
        done.wall_s = (double)(bench_ns() - start) / 1e9;
        if (write(fd, &done, sizeof done) != (ssize_t)sizeof done)
            bench_die("an actor cannot answer: %s", strerror(errno));
    }
}

struct actor actor_start(const char *url, unsigned tag)
{
    pid_t parent = getpid();
    struct actor actor;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        bench_die("socketpair: %s", strerror(errno));
    actor.fd = ends[0];
    actor.pid = fork();
    if (actor.pid < 0)
        bench_die("fork: %s", strerror(errno));
    if (actor.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        if (getppid() == parent)
            act(url, tag, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    return actor;
}

void actor_send(const struct actor *actor, const struct actor_work *work)
{
    if (send(actor->fd, work, sizeof *work, MSG_NOSIGNAL) != (ssize_t)sizeof *work)
        bench_die("an actor has ended");
}

struct actor_done actor_wait(const struct actor *actor)
{
    struct actor_done done;

    if (read(actor->fd, &done, sizeof done) != (ssize_t)sizeof done)
        bench_die("an actor has ended");
    return done;
}

struct actor_done actor_do(const struct actor *actor, const struct actor_work *work)
{
    actor_send(actor, work);
    return actor_wait(actor);
}

void actor_kill(struct actor *actor)
{
    kill(actor->pid, SIGKILL);
    waitpid(actor->pid, NULL, 0);
    close(actor->fd);
}
