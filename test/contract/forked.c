/* SPDX-License-Identifier: MIT */
/*
 * A forked child that touches its parent's handles: HF_FORKED, and nothing is
 * freed. It may open a store of its own.
 */
#include "holdfast/redis.h"
#include "peer.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define THREADS_AFTER_FORK 0 /* ThreadSanitizer does not allow them */
#else
#define THREADS_AFTER_FORK 1
#endif

/* In the child there is no cmocka: the number of the first failed step is the exit status. */
#define STEP(truth)                                           \
    do {                                                      \
        if (!(truth)) {                                       \
            fprintf(stderr, "child: not true: %s\n", #truth); \
            _exit(1);                                         \
        }                                                     \
    } while (0)

/*
 * fork() for a child that will allocate. AddressSanitizer (of GCC 12) does not bring its allocator's
 * locks over a fork as the C library does with malloc()'s: one that a thread had at that moment, say
 * a thread that was just starting, stays locked in the child for ever. So there the others of this
 * process must be asleep; without it any moment will do.
 */
static pid_t fork_to_allocate(void)
{
#if defined(__SANITIZE_ADDRESS__)
    others_settled();
#endif
    return fork();
}

static void await_child(pid_t pid)
{
    int status = -1;

    CHECK(pid > 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct handles {
    hf_store *store;
    hf_lease *lease;
    hf_cancel *cancel;
};

static void touch_everything(const struct handles *h)
{
    hf_acquire_request request = mutex_request("fork");
    hf_store_info store_info = HF_STORE_INFO_INIT;
    hf_lease_info lease_info = HF_LEASE_INFO_INIT;
    char handle[HF_LEASE_TEXT_MAX];
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    hf_done_fn *done = (hf_done_fn *)abort;
    uint64_t seq = 0;
    hf_error err;

    STEP(hf_release(h->lease, &err) == HF_FORKED);
    STEP(err.status == HF_FORKED && err.text[0]);
    STEP(hf_release(h->lease, NULL) == HF_FORKED); /* and again: it has not ended */
    STEP(hf_release_async(h->lease, (hf_done_fn *)abort, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_renew(h->lease, 0, NULL) == HF_FORKED);
    lease = h->lease;
    STEP(hf_yield(&lease, 0, &err) == HF_FORKED && lease == h->lease);
    lease = NULL;
    STEP(hf_yield_async(h->lease, 0, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_ask(h->store, "fork", 4, "please", NULL) == HF_FORKED);
    STEP(hf_ask_async(h->store, "fork", 4, "please", done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_idle_release(h->store, NULL) == HF_FORKED);
    STEP(hf_lease_get(h->lease, &lease_info) == HF_FORKED);
    STEP(hf_lease_export(h->lease, handle) == HF_FORKED);
    STEP(hf_lease_state(h->lease) == HF_STATE_LOST);
    STEP(hf_lease_remaining_ms(h->lease) == 0);
    STEP(hf_lease_token(h->lease) == 0);
    STEP(hf_lease_fd(h->lease) == -1);
    STEP(hf_acquire(h->store, &request, &lease, NULL) == HF_FORKED);
    STEP(hf_acquire_async(h->store, &request, (hf_done_fn *)abort, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_acquire_all_async(h->store, &request, 1, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_release_all_async(&h->lease, 1, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_renew_async(h->lease, 0, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_lease_break_async(h->store, "fork", 4, 1, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_store_inspect_async(h->store, "fork", 4, 0, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_store_wait_async(h->store, 0, 0, NULL, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_store_check_async(h->store, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_deadlock_list_async(h->store, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_script_flush_async(h->store, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_script_kill_async(h->store, "redis://none", 0, done, NULL, NULL, NULL) == HF_FORKED);
    STEP(hf_redlock_get_status_async(h->store, "redlock://none", done, NULL, NULL, NULL) ==
         HF_FORKED);
    STEP(hf_redlock_join_async(h->store, "redlock://none", NULL, 0, NULL, done, NULL, NULL, NULL) ==
         HF_FORKED);
    STEP(hf_store_inspect(h->store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, NULL) == HF_FORKED);
    STEP(hf_lease_break(h->store, "fork", 4, 1, NULL) == HF_FORKED);
    STEP(hf_store_wait(h->store, &seq, 0, NULL, NULL) == HF_FORKED);
    STEP(hf_store_get(h->store, &store_info) == HF_FORKED);
    STEP(hf_store_process(h->store) == HF_FORKED);
    STEP(hf_store_fd(h->store) == -1);
    STEP(hf_close(h->store, 0) == HF_FORKED);
    STEP(hf_close(h->store, HF_CLOSE_FLAG_RELEASE) == HF_FORKED);
    STEP(hf_cancel_fire(h->cancel) == HF_FORKED);
    STEP(hf_cancel_close(h->cancel) == HF_FORKED);
    STEP(lease == NULL && view == NULL);
}

static void child_frees_nothing(void **state)
{
    struct handles h = { .store = open_store() };
    hf_acquire_request request = mutex_request("fork");
    struct peer peer;
    pid_t pid;

    (void)state;
    peer_start(&peer);
    h.lease = take(h.store, &request);
    EXPECT(HF_OK, hf_cancel_open(&h.cancel));
    pid = fork();
    if (pid == 0) {
        touch_everything(&h);
        _exit(0);
    }
    await_child(pid);
    CHECK(hf_lease_state(h.lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, peer_acquire(&peer, 0, &request));
    EXPECT(HF_OK, hf_cancel_close(h.cancel));
    give(h.lease);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    peer_stop(&peer);
    close_store(h.store);
}

static void use_own_store(const char *url)
{
    hf_acquire_request held = mutex_request("fork"), free_name = mutex_request("child");
    hf_store *store = NULL;
    hf_lease *lease = NULL;

    STEP(hf_open(url, NULL, &store, &contract_error) == HF_OK);
    STEP(hf_acquire(store, &held, &lease, NULL) == HF_BUSY);
    STEP(hf_acquire(store, &free_name, &lease, NULL) == HF_OK);
    STEP(hf_lease_state(lease) == HF_STATE_HELD);
    STEP(hf_release(lease, NULL) == HF_OK);
    STEP(hf_close(store, 0) == HF_OK);
}

/* The child's own store sees the parent's lease as anybody else's. */
static void child_opens_its_own(void **state)
{
    hf_store *store;
    hf_acquire_request request = mutex_request("fork");
    hf_lease *lease;
    pid_t pid;

    (void)state;
    if (!contract_processes || !THREADS_AFTER_FORK)
        return;
    store = open_store();
    lease = take(store, &request);
    pid = fork_to_allocate();
    if (pid == 0) {
        use_own_store(contract_url());
        _exit(0);
    }
    await_child(pid);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(store, &request));
    give(lease);
    close_store(store);
}

/* A child that lives on does not keep what its parent has released, nor hold up its queue. */
static void child_keeps_nothing(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("fork");
    hf_lease *lease = take(store, &request);
    struct peer peer;
    int fds[2];
    char byte;
    pid_t pid;

    (void)state;
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        close(fds[1]);
        _exit(read(fds[0], &byte, 1) < 0 ? 1 : 0); /* until the parent is done */
    }
    close(fds[0]);
    peer_start(&peer);
    give(lease);
    request.wait_ms = LIMIT_MS;
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    EXPECT(HF_OK, peer_release(&peer, 0));
    close(fds[1]);
    await_child(pid);
    peer_stop(&peer);
    close_store(store);
}

/* Forks while other threads are at work: the parent does not notice. They work until the last fork: a thread that
 * has ended and is not joined yet would be a leak of the child, for a thread sanitizer. */
static _Atomic bool forks_are_over;

static void *work(void *arg)
{
    hf_store *store = *(hf_store **)arg;
    hf_acquire_request request = waiting_request("fork");

    while (!atomic_load(&forks_are_over))
        give(take(store, &request));
    return NULL;
}

static void forks_under_load(void **state)
{
    struct handles h = { .store = open_store() };
    hf_acquire_request request = mutex_request("other");
    pthread_t threads[2];

    (void)state;
    h.lease = take(h.store, &request);
    EXPECT(HF_OK, hf_cancel_open(&h.cancel));
    atomic_store(&forks_are_over, false);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, work, &h.store) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            touch_everything(&h);
            _exit(0);
        }
        await_child(pid);
    }
    atomic_store(&forks_are_over, true);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    EXPECT(HF_OK, hf_cancel_close(h.cancel));
    give(h.lease);
    close_store(h.store);
}

/* ---- connections --------------------------------------------------------------------------------- */

#define SOCKETS_MAX 256

struct sockets {
    unsigned long inodes[SOCKETS_MAX];
    size_t count;
};

static bool is_among(const struct sockets *sockets, unsigned long inode)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (sockets->inodes[i] == inode)
            return true;
    return false;
}

/* One of a socketpair(2), by which a library wakes itself: no connection to anybody. */
static bool is_pair(int fd)
{
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof peer;

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.ss_family == AF_UNIX &&
           len <= sizeof peer.ss_family;
}

/* The sockets of this process, without those of `except`. Allocates no memory: a forked child calls
 * this. */
static struct sockets sockets_but(const struct sockets *except)
{
    struct sockets found = { .count = 0 };
    char path[32], target[64];

    for (int fd = 0; fd < 1024; fd++) {
        unsigned long inode;
        ssize_t len;

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        len = readlink(path, target, sizeof target - 1);
        target[len > 0 ? len : 0] = 0;
        if (sscanf(target, "socket:[%lu]", &inode) == 1 && found.count < SOCKETS_MAX &&
            !is_pair(fd) && !(except && is_among(except, inode)))
            found.inodes[found.count++] = inode;
    }
    return found;
}

/* Does the kernel know one of them as a connection that is neither closed nor being closed? */
static bool are_connected(const struct sockets *sockets)
{
    FILE *file = fopen("/proc/net/tcp", "re");
    char line[512];
    bool found = false;

    CHECK(file != NULL);
    while (!found && fgets(line, sizeof line, file)) {
        unsigned state;
        unsigned long inode;

        found = sscanf(line, " %*d: %*s %*s %x %*s %*s %*s %*u %*u %lu", &state, &inode) == 2 &&
                state == 1 && is_among(sockets, inode);
    }
    fclose(file);
    return found;
}

/* A child that never calls us has no connection of its parent's: what the parent closes is closed. */
static void child_keeps_no_connection(void **state)
{
    struct sockets before = sockets_but(NULL), ours;
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("fork");
    hf_lease *lease = take(store, &request);
    int fds[2];
    char byte;
    pid_t pid;

    (void)state;
    ours = sockets_but(&before);
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    pid = fork();
    if (pid == 0) {
        close(fds[1]);
        STEP(sockets_but(&before).count == 0);
        STEP(hf_release(lease, NULL) == HF_FORKED);
        _exit(read(fds[0], &byte, 1) < 0 ? 1 : 0); /* until the parent is done */
    }
    close(fds[0]);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    EXPECT(HF_BUSY,
           (lease = take(store, &request), probe(store, &request))); /* its line is whole */
    give(lease);
    close_store(store);
    AWAIT(!are_connected(&ours));
    close(fds[1]);
    await_child(pid);
}

int contract_forked(void)
{
    const struct CMUnitTest cases[] = {
        CASE(child_frees_nothing), CASE(child_opens_its_own),       CASE(child_keeps_nothing),
        CASE(forks_under_load),    CASE(child_keeps_no_connection),
    };

    return cmocka_run_group_tests_name("forked", cases, NULL, NULL);
}
