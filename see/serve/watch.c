/* SPDX-License-Identifier: MIT */
/*
 * GET /api/v1/watch: server-sent events. A watcher has, for each store, the change numbers of what it
 * was sent; what it gets next is made when its client has taken the last piece. So a slow client gets
 * the newest state and no backlog, and a client that takes nothing costs nothing. At most four times
 * a second; nothing while nothing changes, but a comment now and then, by which both sides see that
 * the other one is there. Watchers that know the same get the same bytes, written once.
 */
#include "serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS 250
#define PING_MS  15000
#define BATCH    1000 /* rows in one event */

struct known {
    bool began;
    uint64_t floor; /* the model's change when the client began with all rows */
    uint64_t names, state, graph, findings, points, detail;
};

struct watcher {
    struct watcher *next, *before;
    struct server *server;
    struct stream *stream;
    bool greeted, dirty;
    bool over; /* its client may read no more, or something else */
    char client[CLIENT_NAME_MAX + 1];
    bool may_break, may_lease;
    int64_t next_ms, ping_ms;
    struct bytes open_name;
    unsigned open_store;
    struct known known[]; /* of each store */
};

static struct watcher *watchers;

static void begin_event(struct out *out, const char *event, unsigned store)
{
    char id[12];

    out->comma = false;
    out_print(out, "event: %s\ndata: ", event);
    out_open(out, NULL, '{');
    snprintf(id, sizeof id, "%u", store);
    out_word(out, "store", id);
}

static void end_event(struct out *out)
{
    out_close(out, '}');
    out_print(out, "\n\n");
}

static void put_hello(struct out *out, const struct watcher *watcher)
{
    const struct server *server = watcher->server;

    out_print(out, "retry: 2000\nevent: hello\ndata: ");
    out->comma = false;
    out_open(out, NULL, '{');
    out_word(out, "version", hf_version());
    out_int(out, "now", see_now_ms());
    out_open(out, "rights", '{');
    out_bool(out, "break", watcher->may_break);
    out_bool(out, "lease", watcher->may_lease);
    out_close(out, '}');
    out_open(out, "stores", '[');
    for (size_t i = 0; i < server->store_count; i++) {
        out_open(out, NULL, '{');
        rows_store(out, &server->stores[i]);
        out_close(out, '}');
    }
    out_close(out, ']');
    end_event(out);
}

/* ---- names ---------------------------------------------------------------------------- */

/* Rows that changed after `from`, the oldest change first and at most BATCH: a client that has to
 * catch up does so in steps. Returns the last change among them. */
static uint64_t put_rows(struct out *out, const struct store *store, const struct see_model *model,
                         uint64_t from, bool reset)
{
    const struct see_row *rows[BATCH], *row = NULL;
    size_t found = 0, count;
    uint64_t to = model->change;
    int64_t now_ms = see_now_ms();

    while ((row = see_model_changed(model, row, from)) != NULL)
        rows[found++ % BATCH] = row; /* the newest come first: what is left are the oldest */
    count = found < BATCH ? found : BATCH;
    if (found > BATCH)
        to = rows[found % BATCH]->change;

    begin_event(out, "names", store->index);
    out_bool(out, "reset", reset);
    rows_totals(out, "total", model);
    out_open(out, "set", '[');
    for (size_t i = 0; i < count; i++)
        if (rows[i]->present)
            rows_row(out, NULL, rows[i], now_ms);
    out_close(out, ']');
    out_open(out, "gone", '[');
    for (size_t i = 0; i < count && !reset; i++) {
        char key[KEY_MAX];

        if (rows[i]->present)
            continue;
        uri_key(rows[i]->name, rows[i]->name_len, key);
        out_word(out, NULL, key);
    }
    out_close(out, ']');
    end_event(out);
    return to;
}

/* The same for all that know the same: from the cache, if it is there. */
static struct piece *names_piece(struct store *store, const struct see_model *model,
                                 struct known *known)
{
    /* A row that the model has forgotten meanwhile may be one that this client was sent. */
    uint64_t sure = known->names > known->floor ? known->names : known->floor;
    bool reset = !known->began || sure < model->forgotten_change;
    uint64_t from = reset ? 0 : known->names;
    struct cached *cached;

    if (reset)
        known->floor = model->change;
    for (size_t i = 0; i < CACHE_SIZE; i++) {
        cached = &store->cache[i];
        if (cached->piece && cached->from == from && cached->at == model->change) {
            known->names = cached->to;
            known->began = true;
            return piece_keep(cached->piece);
        }
    }
    cached = &store->cache[store->cache_next++ % CACHE_SIZE];
    piece_drop(cached->piece);
    cached->piece = piece_new();
    if (!cached->piece)
        return NULL;
    cached->from = from;
    cached->at = model->change;
    cached->to = put_rows(&cached->piece->text, store, model, from, reset);
    known->names = cached->to;
    known->began = true;
    return piece_keep(cached->piece);
}

/* ---- the other events ------------------------------------------------------------------ */

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a && a->text.len == b->text.len && memcmp(a->text.at, b->text.at, a->text.len) == 0;
}

static void refresh_graph(struct store *store, const struct see_model *model)
{
    struct piece *fresh;

    if (store->graph && store->graph_at == model->change)
        return;
    fresh = piece_new();
    if (!fresh)
        return;
    store->graph_at = model->change;
    begin_event(&fresh->text, "graph", store->index);
    rows_graph(&fresh->text, model);
    end_event(&fresh->text);
    if (fresh->text.failed || same_piece(store->graph, fresh)) {
        piece_drop(fresh);
        return;
    }
    piece_drop(store->graph);
    store->graph = fresh;
    store->graph_number++;
}

static void put_detail(struct out *out, const struct watcher *watcher, struct known *known,
                       const struct see_model *model, const struct store *store)
{
    const struct see_row *row =
        see_model_find(model, watcher->open_name.at, watcher->open_name.len);
    uint64_t now = row ? row->detail_change : 1;
    char key[KEY_MAX];

    if (now == known->detail)
        return;
    known->detail = now;
    begin_event(out, "detail", store->index);
    uri_key(watcher->open_name.at, watcher->open_name.len, key);
    out_word(out, "key", key);
    if (row) {
        rows_detail(out, row);
    } else {
        out_open(out, "holders", '[');
        out_close(out, ']');
        out_int(out, "holders_total", 0);
        out_open(out, "waiters", '[');
        out_close(out, ']');
        out_int(out, "waiters_total", 0);
    }
    end_event(out);
}

/* Everything but names: small, so made for each watcher. */
static void put_rest(struct out *out, const struct watcher *watcher, struct store *store,
                     const struct see_model *model, struct known *known)
{
    if (known->state != model->state_change + 1) {
        known->state = model->state_change + 1; /* 0: nothing sent yet */
        begin_event(out, "state", store->index);
        rows_state(out, model);
        end_event(out);
    }
    if (known->points != model->points_made + 1) {
        begin_event(out, "history", store->index);
        rows_history(out, model, known->points ? known->points - 1 : 0);
        end_event(out);
        known->points = model->points_made + 1;
    }
    if (known->findings != model->finding_change + 1) {
        known->findings = model->finding_change + 1;
        begin_event(out, "doctor", store->index);
        rows_doctor(out, model);
        end_event(out);
    }
    refresh_graph(store, model);
    if (store->graph && known->graph != store->graph_number) {
        known->graph = store->graph_number;
        out_bytes(out, store->graph->text.at, store->graph->text.len);
    }
    if (watcher->open_name.given && watcher->open_store == store->index)
        put_detail(out, watcher, known, model, store);
}

/* What this watcher does not know yet of one store; NULL: nothing. */
static struct piece *store_piece(const struct watcher *watcher, struct store *store,
                                 struct known *known)
{
    const struct see_model *model = see_source_lock(store->source);
    struct piece *piece = NULL;

    if (!known->began || known->names != model->change) {
        piece = names_piece(store, model, known);
    } else {
        piece = piece_new();
        if (piece)
            put_rest(&piece->text, watcher, store, model, known);
        if (piece && piece->text.len == 0 && !piece->text.failed) {
            piece_drop(piece);
            piece = NULL;
        }
    }
    see_source_unlock(store->source);
    return piece;
}

static struct piece *fill(void *arg)
{
    struct watcher *watcher = arg;
    struct server *server = watcher->server;
    int64_t now_ms = clock_ms();
    struct piece *piece = NULL;

    if (watcher->over)
        return NULL;
    if (!watcher->greeted) {
        watcher->greeted = true;
        piece = piece_new();
        if (piece)
            put_hello(&piece->text, watcher);
    }
    if (!piece && watcher->dirty && now_ms >= watcher->next_ms) {
        for (size_t i = 0; i < server->store_count && !piece; i++)
            piece = store_piece(watcher, &server->stores[i], &watcher->known[i]);
        if (!piece) { /* it knows all: the next changes may gather for a moment */
            watcher->dirty = false;
            watcher->next_ms = now_ms + EVERY_MS;
        }
    }
    if (!piece && now_ms >= watcher->ping_ms) {
        piece = piece_new();
        if (piece)
            out_print(&piece->text, ":\n\n");
    }
    if (piece)
        watcher->ping_ms = now_ms + PING_MS;
    return piece;
}

static void done(void *arg)
{
    struct watcher *watcher = arg;

    if (watcher->next)
        watcher->next->before = watcher->before;
    if (watcher->before)
        watcher->before->next = watcher->next;
    else
        watchers = watcher->next;
    free(watcher);
}

void watch_answer(struct request *request, struct store *store)
{
    struct server *server = request->server;
    struct watcher *watcher =
        calloc(1, sizeof *watcher + server->store_count * sizeof watcher->known[0]);

    (void)store;
    if (!watcher)
        return;
    watcher->server = server;
    watcher->dirty = true;
    watcher->may_break = request->rights & RIGHT_BREAK;
    watcher->may_lease = request->rights & RIGHT_LEASE;
    strcpy(watcher->client, request->client);
    watcher->open_name = request->uri.open_name;
    watcher->open_store = request->uri.open_store;
    watcher->ping_ms = clock_ms() + PING_MS;
    watcher->stream = stream_answer(request, "text/event-stream", fill, done, watcher);
    if (!watcher->stream) {
        free(watcher);
        return;
    }
    arrival_is(request, true);
    watcher->next = watchers;
    if (watchers)
        watchers->before = watcher;
    watchers = watcher;
}

void watch_tick(struct server *server, int64_t now_ms)
{
    bool changed = atomic_exchange(&server->changed, false);

    for (struct watcher *watcher = watchers; watcher; watcher = watcher->next) {
        watcher->dirty |= changed;
        if (server->stopping)
            stream_end(watcher->stream);
        else if ((watcher->dirty && now_ms >= watcher->next_ms) || now_ms >= watcher->ping_ms)
            stream_wake(watcher->stream);
    }
}

void watch_rights(const struct rights *before, const struct rights *now)
{
    for (struct watcher *watcher = watchers; watcher; watcher = watcher->next)
        if (!rights_same(before, now, watcher->client)) {
            watcher->over = true;
            stream_end(watcher->stream);
        }
}

int watch_timeout(const struct server *server, int64_t now_ms)
{
    int64_t first = INT64_MAX;

    (void)server;
    for (const struct watcher *watcher = watchers; watcher; watcher = watcher->next) {
        int64_t due = watcher->dirty && watcher->next_ms < watcher->ping_ms ? watcher->next_ms
                                                                            : watcher->ping_ms;
        /* One whose client is slow is not due: its socket says when it goes on. */
        if (due > now_ms && due < first)
            first = due;
    }
    return first == INT64_MAX ? -1 : (int)(first - now_ms);
}
