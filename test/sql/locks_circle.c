/* SPDX-License-Identifier: MIT */
/* mode=row and mode=session: deadlocks are found, within a process and between them, and what is none is left alone; see holds.h. */
#include "locks.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUICK "&deadlock_check=20ms"

/* A thread that takes one name, meets the others, and takes a second one. */
struct party {
    hf_store *store;
    hf_acquire_request first, second;
    pthread_barrier_t *ready;
    hf_lease *lease; /* of the first */
    hf_status status;
    hf_error err;
    _Atomic bool holds, ended;
    pthread_t thread;
};

static void *party_run(void *arg)
{
    struct party *party = arg;
    hf_lease *second = NULL;

    party->lease = take(party->store, &party->first);
    party->holds = true;
    pthread_barrier_wait(party->ready);
    party->status = hf_acquire(party->store, &party->second, &second, &party->err);
    if (party->status == HF_OK)
        give(second);
    party->ended = true;
    return NULL;
}

static void party_start(struct party *party, hf_store *store, const char *first, const char *second,
                        pthread_barrier_t *ready)
{
    *party = (struct party){ .store = store,
                             .first = waiting_request(first),
                             .second = waiting_request(second),
                             .ready = ready };
    CHECK(pthread_create(&party->thread, NULL, party_run, party) == 0);
}

static void party_end(struct party *party)
{
    CHECK(pthread_join(party->thread, NULL) == 0);
}

/* ---- circles ----------------------------------------------------------------------------------------------- */

/* Each of `count` has a name and wants the next one's: one gives up, and the others go on. */
static void goes_round(hf_store *const *stores, int count)
{
    static const char *const names[] = { "a", "b", "c" };
    struct party parties[3];
    pthread_barrier_t ready;
    int given_up = 0, done = 0;

    CHECK(pthread_barrier_init(&ready, NULL, (unsigned)count) == 0);
    for (int i = 0; i < count; i++)
        party_start(&parties[i], stores[i], names[i], names[(i + 1) % count], &ready);
    while (done < count) /* a session that has ended releases what it held: the next one proceeds */
        for (int i = 0; i < count; i++)
            if (parties[i].ended && parties[i].lease) {
                given_up += parties[i].status == HF_DEADLOCK;
                CHECK(parties[i].status == HF_DEADLOCK || parties[i].status == HF_OK);
                party_end(&parties[i]);
                give(parties[i].lease);
                parties[i].lease = NULL;
                done++;
            } else {
                nap_ms(1);
            }
    CHECK(given_up == 1);
    pthread_barrier_destroy(&ready);
}

static void circle_in(const char *mode)
{
    for (int tokens = 0; tokens < 2; tokens++) {
        const char *more = tokens ? QUICK "&tokens=on" : QUICK;
        hf_store *stores[3] = { locks_open(mode, more) };

        stores[1] = stores[2] = stores[0];
        goes_round(stores, 2);
        goes_round(stores, 3);
        stores[1] = locks_open(mode, more); /* another handle of the same store */
        goes_round(stores, 2);
        close_store(stores[1]);
        close_store(stores[0]);
    }
}

static void circles_end(void **state)
{
    (void)state;
    BOTH_MODES(circle_in);
}

/* Who holds a name and waits for it without end waits for itself. */
static void for_itself(const char *mode)
{
    hf_store *store = locks_open(mode, QUICK);
    hf_acquire_request request = mutex_request("own");
    hf_lease *lease = take(store, &request), *none = NULL;

    request.wait_ms = HF_FOREVER;
    EXPECT(HF_DEADLOCK, hf_acquire(store, &request, &none, &contract_error));
    give(lease);
    close_store(store);
}

static void waits_for_itself(void **state)
{
    (void)state;
    BOTH_MODES(for_itself);
}

/* ---- no circles -------------------------------------------------------------------------------------------- */

/*
 * The first holds "a" and waits for "b"; the second holds "b" and waits for "a". But the first does
 * not hold "a" any more: its lease was released from here while it waited, and belongs to another
 * session, which does not wait.
 */
static void passed_by_another(const char *mode)
{
    hf_store *store = locks_open(mode, QUICK);
    hf_acquire_request request = mutex_request("a");
    pthread_barrier_t at_once, later;
    struct party first, second;
    hf_lease *lease;

    CHECK(pthread_barrier_init(&at_once, NULL, 1) == 0);
    CHECK(pthread_barrier_init(&later, NULL, 2) == 0);
    party_start(&second, store, "b", "a", &later);
    AWAIT(second.holds);
    party_start(&first, store, "a", "b", &at_once);
    AWAIT(locks_waiting() == 1);
    give(first.lease);
    lease = take(store, &request); /* it is ours now */
    pthread_barrier_wait(&later);
    AWAIT(locks_waiting() == 2);
    nap_ms(300); /* the detector looks many times */
    CHECK(!first.ended && !second.ended);
    give(lease);
    party_end(&second);
    EXPECT(HF_OK, second.status);
    give(second.lease);
    party_end(&first);
    EXPECT(HF_OK, first.status);
    pthread_barrier_destroy(&at_once);
    pthread_barrier_destroy(&later);
    close_store(store);
}

static void no_circle(void **state)
{
    (void)state;
    BOTH_MODES(passed_by_another);
}

/* ---- between processes ------------------------------------------------------------------------------------- */

/* A process that takes one name, says so, and when it is told to takes a second one; says how that ended, and when it
 * is told to gives both back. */
struct member {
    pid_t pid;
    int fd;
};

static void say(int fd, int byte)
{
    char one = (char)byte;

    if (write(fd, &one, 1) != 1)
        _exit(3);
}

static int hear(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    char one;

    if (poll(&wait, 1, LIMIT_MS) != 1 || read(fd, &one, 1) != 1)
        return -1;
    return one;
}

static void serve(int fd, const char *url, const char *first, const char *second)
{
    hf_acquire_request one = waiting_request(first), two = waiting_request(second);
    hf_lease *held = NULL, *got = NULL;
    hf_store *store = NULL;
    hf_error err;

    if (hf_open(url, NULL, &store, &err) != HF_OK || hf_acquire(store, &one, &held, &err) != HF_OK)
        _exit(1);
    say(fd, 'h');
    (void)hear(fd);
    say(fd, (int)hf_acquire(store, &two, &got, &err));
    (void)hear(fd);
    if (got)
        hf_release(got, NULL);
    hf_release(held, NULL);
    _exit(hf_close(store, 0) != HF_OK);
}

static void member_start(struct member *member, const char *mode, const char *first,
                         const char *second)
{
    int fds[2];
    char url[1200];

    snprintf(url, sizeof url, "%s", locks_url(mode, QUICK));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    member->pid = fork();
    CHECK(member->pid >= 0);
    if (member->pid == 0) {
        close(fds[0]);
        serve(fds[1], url, first, second);
    }
    close(fds[1]);
    member->fd = fds[0];
    CHECK(hear(member->fd) == 'h');
}

static void member_end(struct member *member)
{
    int status;

    (void)!send(member->fd, "e", 1, MSG_NOSIGNAL);
    close(member->fd);
    CHECK(waitpid(member->pid, &status, 0) == member->pid);
    CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void ring(const char *mode, int count)
{
    static const char *const names[] = { "pa", "pb", "pc" };
    struct member members[3];
    int given_up = 0;

    for (int i = 0; i < count; i++)
        member_start(&members[i], mode, names[i], names[(i + 1) % count]);
    for (int i = 0; i < count; i++)
        say(members[i].fd, 'g');
    for (int done = 0; done < count; done++) { /* a session that has ended releases what it held */
        struct pollfd waits[3];
        int at = 0, status;

        for (int i = 0; i < count; i++)
            waits[i] = (struct pollfd){ .fd = members[i].fd, .events = POLLIN };
        CHECK(poll(waits, (nfds_t)count, LIMIT_MS) > 0);
        while (!waits[at].revents)
            at++;
        status = hear(members[at].fd);
        CHECK(status == HF_OK || status == HF_DEADLOCK);
        given_up += status == HF_DEADLOCK;
        member_end(&members[at]);
        members[at].fd = -1;
    }
    CHECK(given_up == 1);
}

static void rings_in(const char *mode)
{
    ring(mode, 2);
    ring(mode, 3);
}

static void processes_in_a_circle(void **state)
{
    (void)state;
    BOTH_MODES(rings_in);
    AWAIT(db_do(locks_db, "SELECT count(*) FROM hfm_lock_waits WHERE label IS NOT NULL") == 0);
}

static long long told(const char *what)
{
    return db_do(locks_db, "SELECT count(*) FROM hfm_lock_waits WHERE %s", what);
}

/* One waits for another, which does not wait: however often they look. Waits that are told of come and go. */
static void no_ring(const char *mode)
{
    struct member holder, waiter;

    member_start(&holder, mode, "qa", "qb");
    member_start(&waiter, mode, "qc", "qa");
    say(waiter.fd, 'g');
    AWAIT(told("name = 'qa' AND label IS NOT NULL") == 1);
    nap_ms(300); /* the detector looks many times */
    CHECK(poll(&(struct pollfd){ .fd = waiter.fd, .events = POLLIN }, 1, 0) == 0);
    say(holder.fd, 'g');
    CHECK(hear(holder.fd) == HF_OK);
    member_end(&holder);
    CHECK(hear(waiter.fd) == HF_OK);
    CHECK(told("name = 'qa' AND label IS NOT NULL") == 0); /* before it went on */
    member_end(&waiter);
}

static void processes_without_a_circle(void **state)
{
    (void)state;
    BOTH_MODES(no_ring);
}

/*
 * The first holds "ka" and waits for "kb", which is ours, and is killed. What it has told is still there: that it holds "ka".
 * But that is the second's now, which does not wait; so we may wait for it.
 */
static void after_a_kill(const char *mode)
{
    hf_acquire_request ours = waiting_request("kb");
    struct member first, second;
    hf_store *store;
    hf_lease *lease;
    pthread_barrier_t at_once;
    struct party we;

    member_start(&first, mode, "ka", "kb");
    member_start(&second, mode, "kc", "ka");
    store = locks_open(mode, QUICK);
    lease = take(store, &ours);
    say(first.fd, 'g');
    say(second.fd, 'g');
    AWAIT(told("name = 'ka' AND label IS NULL") > 0 &&
          told("name = 'kb' AND label IS NOT NULL") > 0);
    db_do(locks_db,
          "CREATE TABLE kept AS SELECT * FROM hfm_lock_waits WHERE client = (SELECT client "
          "FROM hfm_lock_waits WHERE name = 'kb' AND label IS NOT NULL)");
    CHECK(kill(first.pid, SIGKILL) == 0);
    member_end(&first);
    CHECK(hear(second.fd) == HF_OK);
    /* The second may have looked before it got it, and removed the rows. */
    db_do(locks_db, "DELETE FROM hfm_lock_waits");
    db_do(locks_db, "INSERT INTO hfm_lock_waits SELECT * FROM kept");
    db_do(locks_db, "DROP TABLE kept");
    give(lease);
    nap_ms(1100); /* we would have to give up: the last to come, by the second */
    CHECK(pthread_barrier_init(&at_once, NULL, 1) == 0);
    party_start(&we, store, "kb", "ka", &at_once);
    AWAIT(we.holds && told("name = 'ka' AND label IS NOT NULL") == 1);
    nap_ms(300); /* the detector looks many times */
    CHECK(!we.ended);
    AWAIT(told("name = 'kb' AND label IS NOT NULL") == 0); /* a look has removed it */
    CHECK(!we.ended);
    member_end(&second);
    party_end(&we);
    EXPECT(HF_OK, we.status);
    give(we.lease);
    pthread_barrier_destroy(&at_once);
    close_store(store);
}

static void what_a_killed_one_told(void **state)
{
    (void)state;
    BOTH_MODES(after_a_kill);
}

const struct CMUnitTest locks_circle_cases[] = {
    cmocka_unit_test(circles_end),
    cmocka_unit_test(waits_for_itself),
    cmocka_unit_test(no_circle),
    cmocka_unit_test(processes_in_a_circle),
    cmocka_unit_test(processes_without_a_circle),
    cmocka_unit_test(what_a_killed_one_told),
};
const size_t locks_circle_count = sizeof locks_circle_cases / sizeof *locks_circle_cases;
