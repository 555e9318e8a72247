/* SPDX-License-Identifier: MIT */
/* See nodes.h. The director's part runs in the main thread. */
#include "nodes.h"

#include "ours.h"
#include "redis.h"
#include "redis_server.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct nodes *nodes_of(const struct stage *stage)
{
    return stage->own;
}

/* ---- servers ------------------------------------------------------------------------------------------- */

void nodes_open(struct stage *stage)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);

    if (!nodes)
        give_up("out of memory");
    stage->own = nodes;
    stage->redis = server_start(NULL);
    stage->redis_host = "127.0.0.1";
    stage->redis_port = stage->redis->port;
    snprintf(stage->prefix, sizeof stage->prefix, "lab:");
    snprintf(nodes->resource_url, sizeof nodes->resource_url, "%s", server_url(stage->redis, ""));
}

static void free_nodes(struct nodes *nodes)
{
    for (int i = 0; i < NODES; i++) {
        server_free(nodes->node[i]);
        nodes->node[i] = NULL;
    }
}

void nodes_close(struct stage *stage)
{
    free_nodes(stage->own);
    free(stage->own);
    server_free(stage->redis);
    stage->own = NULL;
    stage->redis = NULL;
    stage->url = NULL;
}

/* What a node has written to its file is there when it was killed. */
static const char *const durable[] = { "--appendonly", "yes", "--appendfsync", "always", NULL };

static void begin(struct stage *stage, int first_lane, const char *rest)
{
    struct nodes *nodes = stage->own;
    size_t used;

    free_nodes(nodes);
    nodes->first_lane = first_lane;
    used = (size_t)snprintf(nodes->url, sizeof nodes->url, "redlock://:%s@", servers_password());
    for (int i = 0; i < NODES; i++) {
        nodes->node[i] = clock_server(durable);
        used += (size_t)snprintf(nodes->url + used, sizeof nodes->url - used, "%s127.0.0.1:%u",
                                 i ? "," : "", (unsigned)nodes->node[i]->port);
    }
    snprintf(nodes->url + used, sizeof nodes->url - used, "%s", rest);
    stage->url = nodes->url;
}

void nodes_begin(struct stage *stage, int first_lane)
{
    begin(stage, first_lane, "");
    history_clear(stage->history);
}

static void form_cluster(struct actor *me)
{
    ours_close(me, ours_open(me));
}

void nodes_begin_ours(struct stage *stage, int first_lane, int max_ttl_ms)
{
    char rest[64];

    snprintf(rest, sizeof rest, "?max_ttl=%dms", max_ttl_ms);
    begin(stage, first_lane, rest);
    stage_do(stage, form_cluster);
}

/* ---- what happens to them -------------------------------------------------------------------------------- */

static void tell(struct stage *stage, int node, struct event event)
{
    event.lane = (int16_t)(nodes_of(stage)->first_lane + node);
    event.other = -1;
    history_add(stage->history, event);
}

void node_kill(struct stage *stage, int node)
{
    if (stage->unclear)
        return;
    server_kill(nodes_of(stage)->node[node]);
    tell(stage, node, (struct event){ .kind = EV_KILLED });
    tell(stage, node, (struct event){ .kind = EV_OWNER });
}

void node_start(struct stage *stage, int node)
{
    if (stage->unclear)
        return;
    server_restart(nodes_of(stage)->node[node]);
    tell(stage, node, (struct event){ .kind = EV_STARTED });
}

void node_start_empty(struct stage *stage, int node, const struct phrase *text)
{
    char files[SERVER_PATH_ROOM + 32];

    if (stage->unclear)
        return;
    snprintf(files, sizeof files, "%s/appendonlydir", nodes_of(stage)->node[node]->dir);
    remove_dir(files);
    node_start(stage, node);
    tell(stage, node, (struct event){ .kind = EV_NOTE, .text = text });
}

void node_jump(struct stage *stage, int node, int64_t ms, const struct phrase *text)
{
    if (stage->unclear)
        return;
    clock_jump_ms(nodes_of(stage)->node[node], ms);
    tell(stage, node, (struct event){ .kind = EV_NOTE, .text = text });
}

void node_stop(struct stage *stage, int node)
{
    if (stage->unclear)
        return;
    server_pause(nodes_of(stage)->node[node]);
    tell(stage, node, (struct event){ .kind = EV_PAUSED });
}

void node_continue(struct stage *stage, int node)
{
    if (stage->unclear)
        return;
    server_continue(nodes_of(stage)->node[node]);
    tell(stage, node, (struct event){ .kind = EV_RESUMED });
}

/* ---- clients and observers --------------------------------------------------------------------------------- */

static void use_node(struct actor *me, int node)
{
    redis_use(me, "127.0.0.1", nodes_of(me->stage)->node[node]->port);
}

bool node_ok(struct actor *me, int node, const char *format, ...)
{
    struct actor voter = *me; /* with a connection of its own */
    redisReply *reply;
    bool ok;
    va_list args;

    voter.redis = NULL;
    voter.redis_limit_ms = NODE_LIMIT_MS;
    use_node(&voter, node);
    va_start(args, format);
    reply = redis_vtry(&voter, format, args);
    va_end(args);
    ok = reply && (reply->type == REDIS_REPLY_STATUS ||
                   (reply->type == REDIS_REPLY_INTEGER && reply->integer > 0));
    if (reply)
        freeReplyObject(reply);
    if (voter.redis)
        redisFree(voter.redis);
    return ok;
}

/* An observer's node is that of its lane. */
static int own_node(struct actor *me)
{
    if (!me->redis_host)
        use_node(me, me->lane - nodes_of(me->stage)->first_lane);
    return me->lane - nodes_of(me->stage)->first_lane;
}

static int observe_vote(struct actor *me, uint64_t *ret_token)
{
    own_node(me);
    return observe_key(me, ret_token);
}

/* The first holder of our mutex at a node: its label and number. A lease that is alone stands behind its counter, in the request as it came; else it has a
 * record of its own (src/engine/redlock/scripts/README.md). */
static const char holder_script[] =
    "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
    "local v = redis.call('HGET', KEYS[1], 'n' .. ARGV[1]) "
    "if v and #v > 9 and redis.call('HEXISTS', KEYS[1], string.sub(v, 50, 86)) == 1 "
    "and struct.unpack('<d', v, 9) >= now then "
    "  return { string.sub(v, 166 + string.byte(v, 165)), string.format('%.0f', "
    "(struct.unpack('<d', v))) } "
    "end "
    "local all = redis.call('HGETALL', KEYS[2]) "
    "for i = 1, #all, 2 do local r = all[i + 1] "
    "  if string.sub(all[i], 1, 1) == 'h' and struct.unpack('<d', r) >= now then "
    "    local inbox, slots = struct.unpack('<I4I4', r, 121) "
    "    return { string.sub(r, 153 + inbox + slots), string.format('%.0f', (struct.unpack('<d', "
    "r, 25))) } "
    "  end "
    "end "
    "return {}";

static int observe_our_vote(struct actor *me, uint64_t *ret_token)
{
    redisReply *reply;
    int owner = -2;

    own_node(me);
    reply = redis_try(me, "EVAL %s 2 hf:rl:cluster hf:rl:%b%s%b %s", holder_script, "{", (size_t)1,
                      (const char *)me->arg, "}", (size_t)1, (const char *)me->arg);
    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        owner = -1;
        if (reply->elements == 2) {
            owner = lane_of_id(me->stage, reply->element[0]->str, reply->element[0]->len);
            *ret_token = strtoull(reply->element[1]->str, NULL, 10);
        }
    }
    if (reply)
        freeReplyObject(reply);
    return owner;
}

static void observe_all(struct stage *stage, observe_fn *ask, const char *name)
{
    for (int i = 0; i < NODES; i++)
        stage_observe(stage, nodes_of(stage)->first_lane + i, ask, (void *)(uintptr_t)name);
}

void nodes_observe(struct stage *stage, const char *name)
{
    observe_all(stage, observe_vote, name);
}

void nodes_observe_ours(struct stage *stage, const char *name)
{
    observe_all(stage, observe_our_vote, name);
}
