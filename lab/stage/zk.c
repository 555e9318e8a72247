/* SPDX-License-Identifier: MIT */
/* The client of the naive ways on ZooKeeper; see zk.h. A process has one session. */
#include "zk.h"

#include "../../test/lib/server.h"

#include <poll.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#define ANSWER_MS 10000

static zhandle_t *session;

struct answer {
    bool come;
    int rc, len, room;
    char *value;
};

/* ---- the loop of libzookeeper -------------------------------------------------------------------------- */

static void watch(zhandle_t *handle, int type, int state, const char *path, void *arg)
{
    (void)handle, (void)type, (void)state, (void)path, (void)arg;
}

/* One turn: sends what is due, and reads what has come, for at most this time. */
static void turn(int64_t limit_ms)
{
    struct timeval wanted = { 0 };
    struct pollfd ready = { .fd = -1 };
    int interest = 0, events = 0;
    int64_t wait_ms;

    (void)zookeeper_interest(session, &ready.fd, &interest, &wanted);
    wait_ms = (int64_t)wanted.tv_sec * 1000 + wanted.tv_usec / 1000;
    if (wait_ms > limit_ms)
        wait_ms = limit_ms;
    ready.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                           (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    poll(&ready, 1, (int)wait_ms);
    events = (ready.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
             (ready.revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
    (void)zookeeper_process(session, events);
}

static void await_answer(struct actor *me, const struct answer *answer, const char *what)
{
    int64_t end_ms = clock_ms() + ANSWER_MS;

    while (!answer->come && clock_ms() < end_ms)
        turn(end_ms - clock_ms());
    if (!answer->come)
        actor_fails(me, "%s: ZooKeeper does not answer", what);
}

void zk_work(struct actor *me, int64_t ms)
{
    int64_t end_ms = clock_ms() + ms;

    (void)me;
    while (clock_ms() < end_ms)
        turn(end_ms - clock_ms());
}

void zk_connect(struct actor *me, uint16_t port, int session_ms)
{
    char host[32];
    int64_t end_ms = clock_ms() + ANSWER_MS;

    snprintf(host, sizeof host, "127.0.0.1:%u", (unsigned)port);
    zoo_set_debug_level((ZooLogLevel)0); /* it would write to stderr */
    session = zookeeper_init(host, watch, session_ms, NULL, NULL, 0);
    if (!session)
        actor_fails(me, "%s: no session", host);
    while (zoo_state(session) != ZOO_CONNECTED_STATE && clock_ms() < end_ms)
        turn(end_ms - clock_ms());
    if (zoo_state(session) != ZOO_CONNECTED_STATE)
        actor_fails(me, "%s: ZooKeeper does not answer", host);
}

/* ---- requests ------------------------------------------------------------------------------------------- */

static void created(int rc, const char *value, const void *arg)
{
    struct answer *answer = (struct answer *)(uintptr_t)arg;

    (void)value;
    answer->rc = rc;
    answer->come = true;
}

static void deleted(int rc, const void *arg)
{
    created(rc, NULL, arg);
}

static void got(int rc, const char *value, int len, const struct Stat *stat, const void *arg)
{
    struct answer *answer = (struct answer *)(uintptr_t)arg;

    (void)stat;
    if (rc == ZOK && len > 0) {
        answer->len = len < answer->room ? len : answer->room;
        memcpy(answer->value, value, (size_t)answer->len);
    }
    created(rc, NULL, arg);
}

bool zk_create(struct actor *me, const char *path, const char *value)
{
    struct answer answer = { .rc = ZOK };
    int rc = zoo_acreate(session, path, value, (int)strlen(value), &ZOO_OPEN_ACL_UNSAFE,
                         ZOO_EPHEMERAL, created, &answer);

    if (rc == ZOK)
        await_answer(me, &answer, path);
    if (rc != ZOK || (answer.rc != ZOK && answer.rc != ZNODEEXISTS))
        actor_fails(me, "create %s: %s", path, zerror(rc != ZOK ? rc : answer.rc));
    return answer.rc == ZOK;
}

int zk_get(struct actor *me, const char *path, char *ret_value, int room)
{
    struct answer answer = { .value = ret_value, .room = room };
    int rc = zoo_aget(session, path, 0, got, &answer);

    if (rc == ZOK)
        await_answer(me, &answer, path);
    if (rc != ZOK || (answer.rc != ZOK && answer.rc != ZNONODE))
        actor_fails(me, "get %s: %s", path, zerror(rc != ZOK ? rc : answer.rc));
    return answer.rc == ZOK ? answer.len : -1;
}

bool zk_delete(struct actor *me, const char *path)
{
    struct answer answer = { .rc = ZOK };
    int rc = zoo_adelete(session, path, -1, deleted, &answer);

    if (rc == ZOK)
        await_answer(me, &answer, path);
    return rc == ZOK && answer.rc == ZOK;
}
