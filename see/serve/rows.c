/* SPDX-License-Identifier: MIT */
/* The model as JSON, as the page and the API show it. Under the lock of the source, but rows_store(). */
#include "serve.h"

#include <stdio.h>
#include <string.h>

#include "util/finding_zh.h"

#define FINDING_ZH_ROOM 2048

static const char *kind_word(hf_kind kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_SEMAPHORE ? "semaphore" : "rwlock";
}

static const char *wants_word(hf_kind kind)
{
    static const char *const words[] = { "mutex", "shared", "exclusive", "semaphore",
                                         "upgradeable" };

    return (unsigned)kind < 5 ? words[kind] : "unknown";
}

/* A time, or null if there is none. */
static void put_time(struct out *out, const char *key, int64_t ms)
{
    if (ms > 0)
        out_int(out, key, ms);
    else
        out_null(out, key);
}

static void put_duration(struct out *out, const char *key, int64_t ms)
{
    if (ms >= 0)
        out_int(out, key, ms);
    else
        out_null(out, key);
}

static void put_pid(struct out *out, int64_t pid)
{
    put_time(out, "pid", pid);
}

static void put_key(struct out *out, const char *member, const struct see_row *row)
{
    char key[KEY_MAX];

    uri_key(row->name, row->name_len, key);
    out_word(out, member, key);
}

static void put_line_holder(struct out *out, const struct see_holder *holder)
{
    out_open(out, "holder", '{');
    out_word(out, "label", holder->label);
    put_pid(out, holder->pid);
    out_int(out, "permits", holder->permits);
    out_bool(out, "detached", holder->detached);
    out_close(out, '}');
}

void rows_row(struct out *out, const char *key, const struct see_row *row, int64_t now_ms)
{
    const struct see_holder *holder = see_row_holder(row);
    uint16_t counts[SEE_INTERVALS];

    if (!holder && row->state == SEE_LOST && row->lost_at_ms)
        holder = &row->lost;
    out_open(out, key, '{');
    put_key(out, "key", row);
    out_name(out, row->name, row->name_len);
    out_word(out, "kind", kind_word(row->kind));
    out_int(out, "capacity", row->capacity);
    out_int(out, "taken", row->taken);
    out_word(out, "state", see_state_word(row->state));
    out_bool(out, "overdue", row->overdue);
    out_int(out, "waiters", (int64_t)row->waiter_count);
    put_time(out, "since",
             holder                  ? holder->since_ms
             : row->waiter_count > 0 ? row->waiters[0].since_ms
                                     : 0);
    put_time(out, "until", holder ? holder->until_ms : 0);
    put_time(out, "lost_at", row->lost_at_ms);
    if (holder) {
        out_u64(out, "token", holder->token);
        put_line_holder(out, holder);
    } else {
        out_null(out, "token");
        out_null(out, "holder");
    }
    out_int(out, "more_holders", row->holder_count > 1 ? (int64_t)row->holder_count - 1 : 0);
    put_duration(out, "p50", row->p50_ms);
    put_duration(out, "p99", row->p99_ms);
    see_row_handovers(row, now_ms, counts);
    out_open(out, "handovers", '[');
    for (size_t i = 0; i < SEE_INTERVALS; i++)
        out_int(out, NULL, counts[i]);
    out_close(out, ']');
    put_time(out, "closed_until", row->closed_until_ms);
    out_close(out, '}');
}

static void put_holder(struct out *out, const struct see_holder *holder)
{
    out_open(out, NULL, '{');
    out_u64(out, "token", holder->token);
    out_word(out, "label", holder->label);
    put_pid(out, holder->pid);
    out_int(out, "permits", holder->permits);
    put_time(out, "since", holder->since_ms);
    put_time(out, "until", holder->until_ms);
    put_duration(out, "ttl_seen", holder->ttl_ms);
    out_bool(out, "idle", holder->idle);
    out_bool(out, "watched", holder->watched);
    out_bool(out, "detached", holder->detached);
    out_bool(out, "at_risk", holder->at_risk);
    out_open(out, "slots", '[');
    for (uint32_t i = 0; i < holder->slot_count && i < HF_SLOTS_MAX; i++)
        out_int(out, NULL, holder->slots[i]);
    out_close(out, ']');
    out_close(out, '}');
}

static void put_waiter(struct out *out, const struct see_waiter *waiter)
{
    out_open(out, NULL, '{');
    out_int(out, "position", waiter->position);
    out_word(out, "label", waiter->label);
    put_pid(out, waiter->pid);
    out_int(out, "permits", waiter->permits);
    out_word(out, "wants", wants_word(waiter->kind));
    put_time(out, "since", waiter->since_ms);
    out_close(out, '}');
}

/* Members of an open object. A queue of thousands is cut: nobody reads it. */
#define WAITERS_SHOWN 1000
#define HOLDERS_SHOWN 1000
void rows_detail(struct out *out, const struct see_row *row)
{
    out_open(out, "holders", '[');
    for (size_t i = 0; i < row->holder_count && i < HOLDERS_SHOWN; i++)
        put_holder(out, &row->holders[i]);
    out_close(out, ']');
    out_int(out, "holders_total", (int64_t)row->holder_count);
    out_open(out, "waiters", '[');
    for (size_t i = 0; i < row->waiter_count && i < WAITERS_SHOWN; i++)
        put_waiter(out, &row->waiters[i]);
    out_close(out, ']');
    out_int(out, "waiters_total", (int64_t)row->waiter_count);
}

void rows_totals(struct out *out, const char *key, const struct see_model *model)
{
    out_open(out, key, '{');
    out_int(out, "names", (int64_t)model->present);
    out_int(out, "waiters", (int64_t)model->waiters);
    for (int i = 0; i < SEE_STATES; i++)
        out_int(out, see_state_word((enum see_state)i), (int64_t)model->by_state[i]);
    out_close(out, '}');
}

void rows_state(struct out *out, const struct see_model *model)
{
    out_bool(out, "up", model->up);
    out_bool(out, "looked", model->looked);
    out_bool(out, "absent", model->absent);
    put_time(out, "since", model->since_ms);
    put_time(out, "next_try", model->up ? 0 : model->next_try_ms);
    out_word(out, "text", model->text[0] ? model->text : NULL);
    put_duration(out, "latency_us", model->latency_us);
    put_time(out, "looked_at", model->looked_ms);
}

void rows_store(struct out *out, const struct store *store)
{
    struct see_source_info info = see_source_info(store->source);
    char id[12];

    snprintf(id, sizeof id, "%u", store->index);
    out_word(out, "id", id);
    out_word(out, "name", info.name && info.name[0] ? info.name : info.location);
    out_word(out, "location", info.location);
    out_word(out, "engine", info.engine);
    out_bool(out, "opened", info.opened);
    out_bool(out, "waiters_tracked", !info.opened || (info.caps & HF_CAP_WAITERS));
    out_bool(out, "tokens", !info.opened || (info.caps & HF_CAP_TOKEN));
}

/* ---- the wait-for graph ------------------------------------------------------------- */

#define ID_MAX 56
/* The same client has the same id as long as it lives, so that its box keeps its place. */
static void node_id(const struct see_graph *graph, size_t index, char ret_id[ID_MAX])
{
    const struct see_node *node = &graph->nodes[index];
    uint64_t hash = UINT64_C(14695981039346656037);
    unsigned twins = 0;

    if (node->session) {
        snprintf(ret_id, ID_MAX, "s%llx", (unsigned long long)node->session);
        return;
    }
    if (node->row) {
        /* Two requests of one moment are told apart by their number. */
        for (size_t i = 0; i < index; i++)
            twins += graph->nodes[i].row == node->row && graph->nodes[i].token == node->token &&
                     graph->nodes[i].since_ms == node->since_ms;
        snprintf(ret_id, ID_MAX, "%c%llx.%llx.%u", node->token ? 'l' : 'w',
                 (unsigned long long)node->row->id,
                 node->token ? (unsigned long long)node->token : (unsigned long long)node->since_ms,
                 twins);
        return;
    }
    for (const char *at = node->label ? node->label : ""; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    snprintf(ret_id, ID_MAX, "p%lld.%llx", (long long)node->pid, (unsigned long long)hash);
}

static void put_id(struct out *out, const char *key, const struct see_graph *graph, size_t index)
{
    char id[ID_MAX];

    node_id(graph, index, id);
    out_word(out, key, id);
}

static void put_node(struct out *out, const struct see_graph *graph, size_t index)
{
    const struct see_node *node = &graph->nodes[index];

    out_open(out, NULL, '{');
    put_id(out, "id", graph, index);
    out_word(out, "label", node->label);
    put_pid(out, node->pid);
    out_open(out, "has", '[');
    for (size_t i = 0; i < node->has_count; i++) {
        out_open(out, NULL, '{');
        out_name(out, node->has[i].row->name, node->has[i].row->name_len);
        put_key(out, "key", node->has[i].row);
        out_u64(out, "token", node->has[i].token);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_close(out, '}');
}

static void put_circle(struct out *out, const struct see_model *model,
                       const struct see_graph *graph, size_t index)
{
    const struct see_circle *circle = &model->circles[index];
    const struct see_link *victim = circle->links, *before = &circle->links[circle->count - 1];
    bool gives_way = model->looked_ms - circle->since_ms < SEE_STUCK_MS;
    char victim_id[ID_MAX] = "";

    out_open(out, NULL, '{');
    out_open(out, "nodes", '[');
    for (size_t l = 0; l < circle->count; l++)
        for (size_t n = 0; n < graph->node_count; n++)
            if (graph->nodes[n].session == circle->links[l].session) {
                put_id(out, NULL, graph, n);
                if (l == 0)
                    node_id(graph, n, victim_id);
                break;
            }
    out_close(out, ']');
    out_word(out, "victim", gives_way && victim_id[0] ? victim_id : NULL);
    if (victim->token) {
        out_open(out, "break", '{');
        out_name(out, before->name, before->name_len);
        out_u64(out, "token", victim->token);
        out_close(out, '}');
    } else {
        out_null(out, "break");
    }
    out_bool(out, "gives_way", gives_way);
    out_close(out, '}');
}

void rows_graph(struct out *out, const struct see_model *model)
{
    struct see_graph graph = { 0 };

    if (!see_graph_build(model, SEE_GRAPH_WAITERS, &graph))
        out->failed = true;
    out_open(out, "nodes", '[');
    for (size_t i = 0; i < graph.node_count; i++)
        put_node(out, &graph, i);
    out_close(out, ']');
    out_open(out, "edges", '[');
    for (size_t i = 0; i < graph.edge_count; i++) {
        const struct see_edge *edge = &graph.edges[i];

        out_open(out, NULL, '{');
        put_id(out, "from", &graph, edge->from);
        put_id(out, "to", &graph, edge->to);
        out_name(out, edge->row->name, edge->row->name_len);
        put_time(out, "since", edge->since_ms);
        out_close(out, '}');
    }
    out_close(out, ']');
    out_open(out, "circles", '[');
    for (size_t i = 0; i < model->circle_count; i++)
        if (model->circles[i].count > 0)
            put_circle(out, model, &graph, i);
    out_close(out, ']');
    out_int(out, "folded", (int64_t)graph.folded);
    see_graph_done(&graph);
}

/* ---- history and doctor ---------------------------------------------------------------- */

void rows_history(struct out *out, const struct see_model *model, uint64_t since)
{
    uint64_t first = model->points_made - model->point_count; /* the oldest that is there */
    bool reset = since == 0 || since < first;
    size_t from = reset ? 0 : (size_t)(since - first);

    out_bool(out, "reset", reset);
    out_int(out, "interval_ms", SEE_INTERVAL_MS);
    out_open(out, "points", '[');
    for (size_t i = from; i < model->point_count; i++) {
        const struct see_point *point = see_model_point(model, i);

        out_open(out, NULL, '{');
        out_int(out, "at", point->at_ms);
        out_int(out, "handovers", point->handovers);
        put_duration(out, "wait_p50", point->wait_p50_ms);
        put_duration(out, "wait_p99", point->wait_p99_ms);
        put_duration(out, "hold_p50", point->hold_p50_ms);
        put_duration(out, "hold_p99", point->hold_p99_ms);
        out_bool(out, "away", point->away);
        out_close(out, '}');
    }
    out_close(out, ']');
}

/* In Chinese, where there is a sentence for it. */
static void put_chinese(struct out *out, const struct see_finding *finding)
{
    const char *topic = hfi_topic_zh(finding->topic);
    char text[FINDING_ZH_ROOM];

    if (topic)
        out_word(out, "topic_zh", topic);
    if (hfi_finding_zh(finding->text, text, sizeof text))
        out_word(out, "text_zh", text);
}

void rows_doctor(struct out *out, const struct see_model *model)
{
    static const char *const levels[] = { "ok", "warning", "bad" };

    put_time(out, "at", model->checked_ms);
    out_open(out, "findings", '[');
    for (size_t i = 0; i < model->finding_count; i++) {
        const struct see_finding *finding = &model->findings[i];

        out_open(out, NULL, '{');
        out_word(out, "level", (unsigned)finding->level < 3 ? levels[finding->level] : "bad");
        out_word(out, "topic", finding->topic);
        out_word(out, "text", finding->text);
        out_bool(out, "note", finding->note);
        put_chinese(out, finding);
        out_close(out, '}');
    }
    out_close(out, ']');
}
