/* SPDX-License-Identifier: MIT */
/* Actors and the place they act in; see embedded.h. */
#include "embedded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char place[256], place_url[300];
static char parent[200];
static struct actor actors[ACTORS_MAX];
static size_t actor_count;
static struct actor *the_observer;

struct command {
    actor_fn *fn; /* NULL: close and go */
    struct ask ask;
};

/* ---- the place ------------------------------------------------------------------ */

int place_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    const hf_engine_info *info;

    (void)state;
    /* Load the engine now: an actor that becomes another user may not be able to read what was built, in a
     * home of mode 0700. */
    info = hf_engine_get(0);
    assert_non_null(info);
    assert_string_equal(info->name, "lmdb");
    signal(SIGPIPE, SIG_IGN);
    snprintf(parent, sizeof parent, "%s/holdfast-embedded-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(parent));
    assert_int_equal(chmod(parent, 0755), 0);
    snprintf(place, sizeof place, "%s/store", parent);
    snprintf(place_url, sizeof place_url, "file:%s", place);
    return 0;
}

static const char *skipped_for; /* why some case was skipped; the first reason */

void skip_for(const char *why)
{
    if (!skipped_for)
        skipped_for = why;
    skip();
}

/* May a process have a namespace in which it mounts? Not without the right to, nor in a chroot. */
static bool may_mount(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
              mount("none", parent, "tmpfs", 0, NULL) != 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

void need_mounts(void)
{
    if (!may_mount())
        skip_for("mounts are not permitted here");
}

int embedded_result(int failed)
{
    if (failed || !skipped_for)
        return failed;
    printf("SKIPPED: %s\n", skipped_for);
    return SKIPPED_STATUS;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int place_teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < actor_count; i++) {
        if (!actors[i].gone) {
            kill(actors[i].pid, SIGKILL);
            waitpid(actors[i].pid, NULL, 0);
        }
        if (actors[i].fd >= 0)
            close(actors[i].fd);
    }
    actor_count = 0;
    the_observer = NULL;
    nftw(parent, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    return 0;
}

char *in_place(const char *file)
{
    static char paths[4][sizeof place + 64];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", place, file);
    return path;
}

bool file_exists(const char *file)
{
    return access(in_place(file), F_OK) == 0;
}

const char *lease_file(void)
{
    static char name[64];
    unsigned highest = 0, number;
    struct dirent *entry;
    DIR *dir = opendir(place);

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (sscanf(entry->d_name, "leases.%u", &number) == 1 && number > highest)
            highest = number;
    closedir(dir);
    assert_true(highest > 0);
    snprintf(name, sizeof name, "leases.%u", highest);
    return name;
}

void scribble(const char *file, off_t at, const void *bytes, size_t len)
{
    int fd = open(in_place(file), O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    close(fd);
}

/* ---- the actor's side --------------------------------------------------------------- */

static void serve(int fd)
{
    struct self self = { 0 };
    struct command command;

    while (recv(fd, &command, sizeof command, 0) == (ssize_t)sizeof command && command.fn) {
        struct answer answer = { 0 };

        command.fn(&self, &command.ask, &answer);
        answer.done_ns = answer.done_ns ? answer.done_ns : now_ns();
        if (send(fd, &answer, sizeof answer, 0) != (ssize_t)sizeof answer)
            break;
    }
    if (self.store)
        hf_close(self.store, HF_CLOSE_FLAG_RELEASE);
}

static void put(struct answer *answer, hf_status status, const hf_error *err)
{
    answer->done_ns = now_ns();
    answer->status = status;
    answer->native = err->native;
    memcpy(answer->text, err->text, sizeof answer->text);
}

void do_open(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };
    hf_open_options options = HF_OPEN_OPTIONS_INIT;

    options.open_wait_ms = ask->wait_ms > 0 ? ask->wait_ms : LIMIT_MS / 2;
    put(answer, hf_open(place_url, &options, &self->store, &err), &err);
}

void do_acquire(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_error err = { 0 };

    request.name = ask->name;
    request.name_len = HF_CSTRING;
    request.kind = ask->kind;
    request.capacity = ask->capacity;
    request.permits = ask->permits;
    request.flags = ask->flags;
    request.wait_ms = ask->wait_ms;
    request.ttl_ms = ask->ttl_ms;
    request.lock_delay_ms = ask->lock_delay_ms;
    put(answer, hf_acquire(self->store, &request, &self->leases[ask->lease], &err), &err);
    if (answer->status == HF_OK)
        answer->token = hf_lease_token(self->leases[ask->lease]);
}

void do_resize(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };

    put(answer, hf_semaphore_resize(self->store, ask->name, HF_CSTRING, ask->capacity, &err), &err);
}

void do_size(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };
    hf_view *view = NULL;

    put(answer, hf_store_inspect(self->store, ask->name, HF_CSTRING, 0, &view, &err), &err);
    answer->number = 0;
    if (answer->status == HF_OK && hf_view_count(view) > 0 && hf_view_entry(view, 0)->resized)
        answer->number = hf_view_entry(view, 0)->capacity;
    hf_free(view);
}

void do_slot(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;

    answer->status = hf_lease_get(self->leases[ask->lease], &info);
    answer->number = info.slot_count > 0 ? (int64_t)info.slots[0] : -1;
}

void do_release(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };

    put(answer, hf_release(self->leases[ask->lease], &err), &err);
    self->leases[ask->lease] = NULL;
}

void do_state(struct self *self, const struct ask *ask, struct answer *answer)
{
    answer->number = hf_lease_state(self->leases[ask->lease]);
    answer->token = hf_lease_token(self->leases[ask->lease]);
}

void do_renew(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };

    put(answer, hf_renew(self->leases[ask->lease], ask->ttl_ms, &err), &err);
}

void do_break(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_error err = { 0 };

    put(answer, hf_lease_break(self->store, ask->name, HF_CSTRING, ask->token, &err), &err);
}

void do_close(struct self *self, const struct ask *ask, struct answer *answer)
{
    answer->status = hf_close(self->store, ask->flags);
    if (answer->status == HF_OK)
        self->store = NULL;
}

void do_nothing(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask, (void)answer;
}

static void count(struct self *self, const struct ask *ask, struct answer *answer, bool waiters)
{
    hf_error err = { 0 };
    hf_view *view;
    hf_status status = hf_store_inspect(self->store, ask->name, HF_CSTRING, 0, &view, &err);

    put(answer, status, &err);
    if (status != HF_OK)
        return;
    answer->number = 0;
    if (hf_view_count(view) == 1)
        answer->number = (int64_t)(waiters ? hf_view_entry(view, 0)->waiter_count
                                           : hf_view_entry(view, 0)->holder_count);
    hf_free(view);
}

void do_count_waiters(struct self *self, const struct ask *ask, struct answer *answer)
{
    count(self, ask, answer, true);
}

void do_count_holders(struct self *self, const struct ask *ask, struct answer *answer)
{
    count(self, ask, answer, false);
}

/* ---- the director's side -------------------------------------------------------------- */

struct actor *actor_start_raw(void)
{
    struct actor *actor = &actors[actor_count];
    int pair[2];

    assert_true(actor_count < ACTORS_MAX);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *actor = (struct actor){ .fd = pair[0] };
    fflush(NULL);
    actor->pid = fork();
    assert_true(actor->pid >= 0);
    if (actor->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 1; i < NSIG; i++)
            signal(i, SIG_DFL); /* cmocka catches what ends a program */
        for (size_t i = 0; i <= actor_count; i++)
            if (actors[i].fd >= 0)
                close(actors[i].fd);
        serve(pair[1]);
        _exit(0);
    }
    close(pair[1]);
    actor_count++;
    return actor;
}

struct actor *actor_start(void)
{
    struct actor *actor = actor_start_raw();

    OK(actor_do(actor, do_open, (struct ask){ 0 }));
    return actor;
}

void actor_begin(struct actor *actor, actor_fn *fn, struct ask ask)
{
    struct command command = { .fn = fn, .ask = ask };

    assert_int_equal(send(actor->fd, &command, sizeof command, 0), (ssize_t)sizeof command);
}

bool actor_answered_within(struct actor *actor, int64_t ms)
{
    struct pollfd poll_fd = { .fd = actor->fd, .events = POLLIN };

    return poll(&poll_fd, 1, (int)ms) == 1;
}

bool actor_answered(struct actor *actor)
{
    return actor_answered_within(actor, 0);
}

struct answer actor_answer(struct actor *actor)
{
    struct answer answer;
    ssize_t n;

    if (!actor_answered_within(actor, LIMIT_MS))
        fail_msg("no answer of actor %d within %d ms", (int)actor->pid, LIMIT_MS);
    n = recv(actor->fd, &answer, sizeof answer, 0);
    if (n != (ssize_t)sizeof answer) {
        actor_wait_end(actor);
        fail_msg("actor %d ended before it answered: wait status %#x", (int)actor->pid,
                 (unsigned)actor->status);
    }
    return answer;
}

struct answer actor_do(struct actor *actor, actor_fn *fn, struct ask ask)
{
    actor_begin(actor, fn, ask);
    return actor_answer(actor);
}

void actor_signal(struct actor *actor, int signal)
{
    assert_int_equal(kill(actor->pid, signal), 0);
}

void actor_stop(struct actor *actor)
{
    int status;

    actor_signal(actor, SIGSTOP);
    assert_int_equal(waitpid(actor->pid, &status, WUNTRACED), actor->pid);
    assert_true(WIFSTOPPED(status));
}

void actor_continue(struct actor *actor)
{
    actor_signal(actor, SIGCONT);
}

void actor_wait_end(struct actor *actor)
{
    assert_int_equal(waitpid(actor->pid, &actor->status, 0), actor->pid);
    actor_gone(actor);
}

void actor_gone(struct actor *actor)
{
    actor->gone = true;
    close(actor->fd);
    actor->fd = -1;
}

void actor_kill(struct actor *actor)
{
    actor_signal(actor, SIGKILL);
    actor_wait_end(actor);
}

void actor_quit(struct actor *actor)
{
    actor_begin(actor, NULL, (struct ask){ 0 });
    actor_wait_end(actor);
    assert_true(WIFEXITED(actor->status) && WEXITSTATUS(actor->status) == 0);
}

/* ---- shorter ------------------------------------------------------------------------------ */

static struct ask ask_for(const char *name, hf_kind kind)
{
    struct ask ask = { .kind = kind, .wait_ms = HF_FOREVER };

    snprintf(ask.name, sizeof ask.name, "%s", name);
    return ask;
}

struct ask mutex(const char *name)
{
    return ask_for(name, HF_KIND_MUTEX);
}

struct ask reader(const char *name)
{
    return ask_for(name, HF_KIND_SHARED);
}

struct ask writer(const char *name)
{
    return ask_for(name, HF_KIND_EXCLUSIVE);
}

struct ask permits_of(const char *name, uint32_t capacity, uint32_t permits)
{
    struct ask ask = ask_for(name, HF_KIND_SEMAPHORE);

    ask.capacity = capacity;
    ask.permits = permits;
    return ask;
}

struct ask lease_number(int lease)
{
    return (struct ask){ .lease = lease };
}

uint64_t take(struct actor *actor, struct ask ask)
{
    struct answer answer = actor_do(actor, do_acquire, ask);

    OK(answer);
    return answer.token;
}

hf_status try_it(struct actor *actor, struct ask ask)
{
    struct answer answer;

    ask.wait_ms = 0;
    answer = actor_do(actor, do_acquire, ask);
    if (answer.status == HF_OK)
        give(actor, ask.lease);
    return answer.status;
}

void wait_for(struct actor *actor, struct ask ask)
{
    int64_t before = waiters_of(ask.name);

    actor_begin(actor, do_acquire, ask);
    AWAIT(waiters_of(ask.name) > before);
    assert_false(actor_answered(actor));
}

uint64_t granted(struct actor *actor)
{
    struct answer answer = actor_answer(actor);

    OK(answer);
    return answer.token;
}

void give(struct actor *actor, int lease)
{
    OK(actor_do(actor, do_release, lease_number(lease)));
}

/* ---- looking on ----------------------------------------------------------------------------- */

struct actor *observer(void)
{
    if (!the_observer)
        the_observer = actor_start();
    return the_observer;
}

void observer_quit(void)
{
    if (the_observer)
        actor_quit(the_observer);
    the_observer = NULL;
}

static int64_t ask_number(actor_fn *fn, const char *name)
{
    struct answer answer = actor_do(observer(), fn, mutex(name));

    OK(answer);
    return answer.number;
}

int64_t waiters_of(const char *name)
{
    return ask_number(do_count_waiters, name);
}

int64_t holders_of(const char *name)
{
    return ask_number(do_count_holders, name);
}

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_ms(void)
{
    return now_ns() / 1000000;
}

void nap_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

void assert_ok(struct answer answer, const char *text, const char *file, int line)
{
    if (answer.status == HF_OK)
        return;
    print_error("%s:%d: %s: %s (%s)\n", file, line, text, hf_status_name(answer.status),
                answer.text);
    _fail(file, line);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int64_t median(int64_t *values, size_t count_of)
{
    qsort(values, count_of, sizeof *values, compare);
    return values[count_of / 2];
}

bool sanitized(void)
{
    const char *which = getenv("HOLDFAST_SANITIZE");

    return which && *which;
}

int64_t status_field(pid_t pid, const char *field)
{
    char path[64], line[256];
    int64_t value = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
            value = strtoll(line + strlen(field) + 1, NULL, 10);
    fclose(file);
    return value;
}

bool asleep(pid_t pid)
{
    char path[300], text[512], *at;
    struct dirent *entry;
    bool all = true;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    dir = opendir(path);
    if (!dir)
        return false;
    while ((entry = readdir(dir))) {
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/stat", (int)pid, entry->d_name);
        file = fopen(path, "re");
        if (!file)
            continue;
        if (fgets(text, sizeof text, file) && (at = strrchr(text, ')')))
            all = all && at[1] == ' ' && at[2] == 'S';
        fclose(file);
    }
    closedir(dir);
    return all;
}
