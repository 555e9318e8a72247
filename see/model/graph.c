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

/* Nodes are few (circles, and `most` waiters with those for which they wait), so they are looked for one by one. */
static size_t node_for(struct see_graph *graph, uint64_t session, int64_t pid, const char *label)
{
    struct see_node *nodes;

    for (size_t i = 0; i < graph->node_count; i++) {
        const struct see_node *node = &graph->nodes[i];

        if (session ? node->session == session
                    : node->session == 0 && node->pid == pid && strcmp(node->label, label) == 0)
            return i;
    }
    nodes = realloc(graph->nodes, (graph->node_count + 1) * sizeof *nodes);
    if (!nodes)
        return SIZE_MAX;
    graph->nodes = nodes;
    nodes[graph->node_count] =
        (struct see_node){ .session = session, .pid = pid, .label = label, .circle = -1 };
    return graph->node_count++;
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
        size_t from = node_for(graph, link->session, link->pid, link->label);
        size_t to = node_for(graph, next->session, next->pid, next->label);

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
    size_t to;

    if (!holder)
        return true;
    if (*left == 0) {
        graph->folded += row->waiter_count;
        return true;
    }
    to = node_for(graph, holder->session, holder->pid, holder->label);
    if (to == SIZE_MAX || !add_has(&graph->nodes[to], row, holder->token))
        return false;
    for (size_t i = 0; i < row->waiter_count; i++) {
        const struct see_waiter *waiter = &row->waiters[i];
        size_t from, before = graph->edge_count;

        if (*left == 0) {
            graph->folded += row->waiter_count - i;
            return true;
        }
        from = node_for(graph, waiter->session, waiter->pid, waiter->label);
        if (from == SIZE_MAX ||
            !add_edge(graph, &(struct see_edge){ from, to, row, waiter->since_ms, -1 }))
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
