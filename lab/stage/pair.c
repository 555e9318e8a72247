/* SPDX-License-Identifier: MIT */
/* See pair.h. Main thread, but for use_primary() and the observers. */
#include "pair.h"

#include "ours.h"
#include "redis.h"
#include "redis_server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME            "shop" /* what the sentinel calls them */
#define SECRET_VARIABLE "HOLDFAST_LAB_SECRET"

static struct pair {
    struct server *primary, *replica, *sentinel;
    int lane;
    char url[256], config[SERVER_PATH_ROOM];
} pair;

/* ---- starting --------------------------------------------------------------------------------------- */

static void await_text(struct server *server, const char *command, const char *text)
{
    int64_t end_ms = clock_ms() + SERVER_LIMIT_MS;

    for (;;) {
        redisReply *reply = server_ask(server, command, NULL);
        bool found = reply->str && strstr(reply->str, text);

        freeReplyObject(reply);
        if (found)
            return;
        if (clock_ms() > end_ms)
            give_up("port %u: %s never says %s", (unsigned)server->port, command, text);
        sleep_ms(5);
    }
}

/* The failover is asked for: the sentinel never finds out by itself that the primary is down. */
static struct server *start_sentinel(void)
{
    const char *options[] = { pair.config, "--sentinel", "--port", "{port}",       "--bind",
                              "127.0.0.1", "--dir",      "{dir}",  "--unixsocket", "{dir}/socket",
                              "--logfile", "{dir}/log",  NULL };
    const char *tmp = getenv("TMPDIR");
    struct server *sentinel;
    FILE *file;
    int fd;

    snprintf(pair.config, sizeof pair.config, "%.90s/holdfast-sentinel-XXXXXX", tmp ? tmp : "/tmp");
    fd = mkstemp(pair.config);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        give_up("sentinel: no temporary file");
    fprintf(file,
            "sentinel monitor " NAME " 127.0.0.1 %u 1\n"
            "sentinel auth-pass " NAME " %s\n"
            "sentinel down-after-milliseconds " NAME " 60000\n"
            "requirepass %s\n",
            (unsigned)pair.primary->port, servers_password(), servers_password());
    fclose(file);
    sentinel = server_start(options);
    server_login(sentinel, "default", servers_password());
    return sentinel;
}

void pair_begin(struct stage *stage, int primary_lane, const char *rest)
{
    char port[16];
    const char *options[] = { "--replicaof", "127.0.0.1", port, NULL };

    pair_end();
    pair.lane = primary_lane;
    pair.primary = server_start(NULL);
    server_do(pair.primary, "CONFIG SET repl-diskless-sync-delay 0");
    snprintf(port, sizeof port, "%u", (unsigned)pair.primary->port);
    pair.replica = server_start(options);
    server_do(pair.replica, "CONFIG SET repl-diskless-sync-delay 0");
    await_text(pair.replica, "INFO replication", "master_link_status:up");
    pair.sentinel = start_sentinel();
    await_text(pair.sentinel, "INFO sentinel", "slaves=1");
    setenv(SECRET_VARIABLE, servers_password(), 1);
    snprintf(pair.url, sizeof pair.url,
             "redis+sentinel://:%s@127.0.0.1:%u/" NAME "%s%csentinel_password_env=" SECRET_VARIABLE,
             servers_password(), (unsigned)pair.sentinel->port, rest, rest[0] ? '&' : '?');
    stage->url = pair.url;
    history_clear(stage->history);
}

void pair_end(void)
{
    if (!pair.primary)
        return;
    unlink(pair.config);
    server_free(pair.sentinel);
    server_free(pair.replica);
    server_free(pair.primary);
    pair = (struct pair){ 0 };
}

/* ---- what happens to them -------------------------------------------------------------------------------- */

static void tell(struct stage *stage, int lane, struct event event)
{
    event.lane = (int16_t)lane;
    event.other = -1;
    history_add(stage->history, event);
}

void pair_lag(struct stage *stage)
{
    if (stage->unclear)
        return;
    server_pause(pair.replica);
    server_do(pair.primary, "CLIENT KILL TYPE replica");
    tell(stage, pair.lane + 1, (struct event){ .kind = EV_PAUSED });
}

void pair_kill_primary(struct stage *stage)
{
    if (stage->unclear)
        return;
    server_kill(pair.primary);
    tell(stage, pair.lane, (struct event){ .kind = EV_KILLED });
    tell(stage, pair.lane, (struct event){ .kind = EV_OWNER });
    server_continue(pair.replica);
    tell(stage, pair.lane + 1, (struct event){ .kind = EV_RESUMED });
}

/* Refused while the sentinel has not heard enough of the replica. */
static bool fails_over(void)
{
    redisReply *reply = server_ask(pair.sentinel, "SENTINEL FAILOVER " NAME);
    bool ok = reply->type == REDIS_REPLY_STATUS;

    freeReplyObject(reply);
    return ok;
}

static int named_port(void)
{
    redisReply *reply = server_ask(pair.sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME " NAME);
    int port = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2
                   ? (int)strtol(reply->element[1]->str, NULL, 10)
                   : 0;

    freeReplyObject(reply);
    return port;
}

void pair_promote(struct stage *stage, const struct phrase *text)
{
    int64_t end_ms = clock_ms() + SERVER_LIMIT_MS;
    bool begun = false;

    while (!stage->unclear && named_port() != pair.replica->port) {
        begun = begun || fails_over();
        if (clock_ms() > end_ms)
            stage_unclear(stage, "the sentinel did not promote the replica");
        sleep_ms(10);
    }
    if (stage->unclear)
        return;
    await_text(pair.replica, "INFO replication", "role:master");
    tell(stage, pair.lane + 1, (struct event){ .kind = EV_NOTE, .text = text });
}

void pair_rejoin(struct stage *stage, const struct phrase *text)
{
    if (stage->unclear)
        return;
    server_restart(pair.primary);
    server_do(pair.primary, "REPLICAOF 127.0.0.1 %u", (unsigned)pair.replica->port);
    await_text(pair.primary, "INFO replication", "master_link_status:up");
    tell(stage, pair.lane, (struct event){ .kind = EV_STARTED });
    tell(stage, pair.lane, (struct event){ .kind = EV_NOTE, .text = text });
}

/* ---- clients and observers ---------------------------------------------------------------------------------- */

void pair_uses(struct stage *stage, int client, int server)
{
    history_add(
        stage->history,
        (struct event){ .lane = (int16_t)client, .other = (int16_t)server, .kind = EV_USES });
}

void use_primary(struct actor *me)
{
    redisReply *reply;
    int port;

    redis_use(me, "127.0.0.1", pair.sentinel->port);
    reply = redis_ask(me, "SENTINEL GET-MASTER-ADDR-BY-NAME " NAME);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
        actor_fails(me, "the sentinel names no primary");
    port = (int)strtol(reply->element[1]->str, NULL, 10);
    redis_use(me, reply->element[0]->str, port);
    freeReplyObject(reply);
    pair_uses(me->stage, me->lane, port == pair.primary->port ? pair.lane : pair.lane + 1);
}

static struct server *own_server(const struct actor *me)
{
    return me->lane == pair.lane ? pair.primary : pair.replica;
}

static int observe_one(struct actor *me, uint64_t *ret_token)
{
    if (!me->redis_host)
        redis_use(me, "127.0.0.1", own_server(me)->port);
    return observe_key(me, ret_token);
}

/* A replica refuses a store, until it is the primary. */
static int observe_one_ours(struct actor *me, uint64_t *ret_token)
{
    static struct stage stage;

    if (!stage.url) {
        stage = *me->stage;
        stage.url = strdup(server_url(own_server(me), ""));
        me->stage = &stage;
    }
    return observe_name(me, ret_token);
}

void pair_observe(struct stage *stage, const char *name)
{
    stage_observe(stage, pair.lane, observe_one, (void *)(uintptr_t)name);
    stage_observe(stage, pair.lane + 1, observe_one, (void *)(uintptr_t)name);
}

void pair_observe_ours(struct stage *stage, const char *name)
{
    stage_observe(stage, pair.lane, observe_one_ours, (void *)(uintptr_t)name);
    stage_observe(stage, pair.lane + 1, observe_one_ours, (void *)(uintptr_t)name);
}
