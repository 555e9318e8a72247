/* SPDX-License-Identifier: MIT */
/* Circles as the library lists them, and the wait-for graph around them. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- circles ------------------------------------------------------------------------------- */

static void link_of(const hf_deadlock_waiter *from, int64_t now_ms, struct see_link *to)
{
    *to = (struct see_link){ .token = from->token,
                             .session = from->session,
                             .since_ms = now_ms - from->age_ms,
                             .pid = from->pid };
    if (from->label)
        strncpy(to->label, from->label, sizeof to->label - 1);
    to->name_len = from->name_len < sizeof to->name ? from->name_len : sizeof to->name;
    memcpy(to->name, from->name, to->name_len);
}

static bool same_circle(const struct see_circle *a, const struct see_circle *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->links[i].token != b->links[i].token || a->links[i].session != b->links[i].session ||
            a->links[i].name_len != b->links[i].name_len ||
            memcmp(a->links[i].name, b->links[i].name, a->links[i].name_len) != 0)
            return false;
    return true;
}

static struct see_circle *copy_circles(const hf_deadlocks *deadlocks, int64_t now_ms)
{
    size_t count = hf_deadlock_count(deadlocks);
    struct see_circle *circles = calloc(count + 1, sizeof *circles);

    for (size_t i = 0; circles && i < count; i++) {
        const hf_deadlock *deadlock = hf_deadlock_item(deadlocks, i);
        struct see_circle *circle = &circles[i];

        circle->links = calloc(deadlock->waiter_count + 1, sizeof *circle->links);
        if (!circle->links) {
            see_circles_free(circles, i);
            return NULL;
        }
        circle->count = deadlock->waiter_count;
        for (size_t k = 0; k < circle->count; k++) {
            link_of(hf_deadlock_get_waiter(deadlock, k), now_ms, &circle->links[k]);
            if (circle->links[k].since_ms > circle->since_ms)
                circle->since_ms = circle->links[k].since_ms;
        }
    }
    return circles;
}

bool see_circles_take(struct see_model *model, const hf_deadlocks *deadlocks, int64_t now_ms)
{
    size_t count = hf_deadlock_count(deadlocks);
    struct see_circle *circles;
    bool same = count == model->circle_count;

    if (count == 0 && same)
        return true;
    circles = copy_circles(deadlocks, now_ms);
    if (!circles)
        return false;
    for (size_t i = 0; same && i < count; i++)
        same = same_circle(&circles[i], &model->circles[i]);
    if (same) {
        see_circles_free(circles, count);
        return true;
    }
    model->circles = circles; /* the caller frees the ones before */
    model->circle_count = count;
    model->circle_change = ++model->change;
    return true;
}

/* ---- may there be a circle? ------------------------------------------------------------------ */

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

bool see_view_may_lock(const hf_view *view)
{
    size_t waiters = 0, count = 0;
    bool found = false;
    uint64_t *waiting;

    for (size_t i = 0; i < hf_view_count(view); i++)
        waiters += hf_view_entry(view, i)->waiter_count;
    if (waiters == 0)
        return false;
    waiting = calloc(waiters, sizeof *waiting);
    if (!waiting)
        return true;
    for (size_t i = 0; i < hf_view_count(view); i++)
        for (size_t w = 0; w < hf_view_entry(view, i)->waiter_count; w++)
            waiting[count++] = hf_entry_waiter(hf_view_entry(view, i), w)->session;
    qsort(waiting, count, sizeof *waiting, compare_u64);
    for (size_t i = 0; i < hf_view_count(view) && !found; i++)
        for (size_t h = 0; h < hf_view_entry(view, i)->holder_count && !found; h++) {
            uint64_t session = hf_entry_holder(hf_view_entry(view, i), h)->session;

            found = session && bsearch(&session, waiting, count, sizeof *waiting, compare_u64);
        }
    free(waiting);
    return found;
}

/* ---- the graph -------------------------------------------------------------------------------- */

/* Whether pid and label say which process it is. Over a network the pid is not known, and only the library's own label,
 * "user@host:pid program", has host and pid: any number of processes may share another one ("worker"). */
static bool is_process(int64_t pid, const char *label)
{
    const char *at = label, *colon;

    if (pid)
        return true;
    at += strcspn(at, "@ ");
    if (*at != '@')
        return false;
    colon = at + strcspn(at, ": ");
    return *colon == ':' && strspn(colon + 1, "0123456789") > 0 &&
           colon[1 + strspn(colon + 1, "0123456789")] == ' ';
}

static bool same_client(const struct see_node *a, const struct see_node *b)
{
    if (a->session || b->session)
        return a->session == b->session;
    if (a->row || b->row)
        return a->row == b->row && a->token && a->token == b->token;
    return a->pid == b->pid && strcmp(a->label, b->label) == 0;
}

/* The node of this client; a new one if there is none. Nodes are few (circles, and `most` waiters with those for which they
 * wait), so they are looked for one by one. SIZE_MAX: out of memory. */
static size_t node_for(struct see_graph *graph, const struct see_node *client)
{
    struct see_node *nodes;

    for (size_t i = 0; i < graph->node_count; i++)
        if (same_client(&graph->nodes[i], client))
            return i;
    nodes = realloc(graph->nodes, (graph->node_count + 1) * sizeof *nodes);
    if (!nodes)
        return SIZE_MAX;
    graph->nodes = nodes;
    nodes[graph->node_count] = *client;
    return graph->node_count++;
}

static struct see_node client_of_link(const struct see_link *link)
{
    return (struct see_node){
        .session = link->session, .pid = link->pid, .label = link->label, .circle = -1
    };
}

static struct see_node client_of_holder(const struct see_row *row, const struct see_holder *holder)
{
    bool known = holder->session || is_process(holder->pid, holder->label);

    return (struct see_node){ .session = holder->session,
                              .pid = holder->pid,
                              .label = holder->label,
                              .row = known ? NULL : row,
                              .token = known ? 0 : holder->token,
                              .circle = -1 };
}

/* A waiter that would be the holder for which it waits is another thread of that process. */
static struct see_node client_of_waiter(const struct see_row *row, const struct see_waiter *waiter,
                                        const struct see_node *holder)
{
    struct see_node client = {
        .session = waiter->session, .pid = waiter->pid, .label = waiter->label, .circle = -1
    };

    if (client.session == 0 &&
        (!is_process(waiter->pid, waiter->label) || same_client(&client, holder))) {
        client.row = row;
        client.since_ms = waiter->since_ms;
    }
    return client;
}

static bool add_has(struct see_node *node, const struct see_row *row, uint64_t token)
{
    struct see_has *has;

    for (size_t i = 0; i < node->has_count; i++)
        if (node->has[i].row == row)
            return true;
    has = realloc(node->has, (node->has_count + 1) * sizeof *has);
    if (!has)
        return false;
    node->has = has;
    has[node->has_count++] = (struct see_has){ row, token };
    return true;
}

static bool add_edge(struct see_graph *graph, const struct see_edge *edge)
{
    struct see_edge *edges;

    for (size_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].from == edge->from && graph->edges[i].to == edge->to &&
            graph->edges[i].row == edge->row)
            return true;
    edges = realloc(graph->edges, (graph->edge_count + 1) * sizeof *edges);
    if (!edges)
        return false;
    graph->edges = edges;
    edges[graph->edge_count++] = *edge;
    return true;
}

static bool add_circle(const struct see_model *model, int number, struct see_graph *graph)
{
    const struct see_circle *circle = &model->circles[number];

    for (size_t i = 0; i < circle->count; i++) {
        const struct see_link *link = &circle->links[i],
                              *next = &circle->links[(i + 1) % circle->count];
        const struct see_row *row = see_model_find(model, link->name, link->name_len);
        struct see_node waiter = client_of_link(link), holder = client_of_link(next);
        size_t from = node_for(graph, &waiter), to = node_for(graph, &holder);

        if (from == SIZE_MAX || to == SIZE_MAX)
            return false;
        graph->nodes[from].circle = graph->nodes[to].circle = number;
        if (!row)
            continue;
        if (next->token && !add_has(&graph->nodes[to], row, next->token))
            return false;
        if (!add_edge(graph, &(struct see_edge){ from, to, row, link->since_ms, number }))
            return false;
    }
    return true;
}

/* The waiters of a name, the first of the queue first, each with an arrow to the holder that has it longest. */
static bool add_queue(const struct see_row *row, size_t *left, struct see_graph *graph)
{
    const struct see_holder *holder = see_row_holder(row);
    struct see_node client;
    size_t to;

    if (!holder)
        return true;
    if (*left == 0) {
        graph->folded += row->waiter_count;
        return true;
    }
    client = client_of_holder(row, holder);
    to = node_for(graph, &client);
    if (to == SIZE_MAX || !add_has(&graph->nodes[to], row, holder->token))
        return false;
    for (size_t i = 0; i < row->waiter_count; i++) {
        size_t from, before = graph->edge_count;

        if (*left == 0) {
            graph->folded += row->waiter_count - i;
            return true;
        }
        client = client_of_waiter(row, &row->waiters[i], &graph->nodes[to]);
        from = node_for(graph, &client);
        if (from == SIZE_MAX ||
            !add_edge(graph, &(struct see_edge){ from, to, row, row->waiters[i].since_ms, -1 }))
            return false;
        *left -= graph->edge_count > before;
    }
    return true;
}

bool see_graph_build(const struct see_model *model, size_t most, struct see_graph *ret_graph)
{
    struct see_graph graph = { .node_count = 0 };
    const struct see_row **rows = see_model_sorted(model);
    bool done = rows;

    for (size_t i = 0; done && i < model->circle_count; i++)
        done = add_circle(model, (int)i, &graph);
    for (size_t i = 0; done && i < model->present; i++)
        if (rows[i]->waiter_count > 0)
            done = add_queue(rows[i], &most, &graph);
    free(rows);
    if (!done) {
        see_graph_done(&graph);
        return false;
    }
    *ret_graph = graph;
    return true;
}

void see_graph_done(struct see_graph *graph)
{
    for (size_t i = 0; i < graph->node_count; i++)
        free(graph->nodes[i].has);
    free(graph->nodes);
    free(graph->edges);
    *graph = (struct see_graph){ .node_count = 0 };
}
