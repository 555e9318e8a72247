/* SPDX-License-Identifier: MIT */
/* What is read: stores, names, one name; what is broken; the files of the page. */
#include "serve.h"

#include "body.h"
#include "openapi.h"
#include "page/page.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_DEFAULT 1000
#define NAMES_MAX     10000

void api_stores(struct request *request, struct store *unused)
{
    struct server *server = request->server;
    struct out out = { 0 };

    (void)unused;
    out_open(&out, NULL, '{');
    out_word(&out, "version", hf_version());
    out_int(&out, "now", see_now_ms());
    out_open(&out, "stores", '[');
    for (size_t i = 0; i < server->store_count; i++) {
        struct store *store = &server->stores[i];
        const struct see_model *model;

        out_open(&out, NULL, '{');
        rows_store(&out, store);
        model = see_source_lock(store->source);
        rows_state(&out, model);
        rows_totals(&out, "total", model);
        rows_doctor(&out, model);
        see_source_unlock(store->source);
        out_close(&out, '}');
    }
    out_close(&out, ']');
    out_close(&out, '}');
    answer_json(request, MHD_HTTP_OK, &out);
}

/* ---- probes: for anybody, so they tell nothing about what is here ---------------------------- */

static void answer_ok(struct request *request)
{
    struct out out = { 0 };

    out_open(&out, NULL, '{');
    out_word(&out, "status", "OK");
    out_close(&out, '}');
    answer_json(request, MHD_HTTP_OK, &out);
}

void api_health(struct request *request, struct store *unused)
{
    (void)unused;
    answer_ok(request);
}

/* A store that is away does not count: the page and the metrics that say so must stay where they are. */
void api_ready(struct request *request, struct store *unused)
{
    const struct server *server = request->server;
    bool known = true;

    (void)unused;
    for (size_t i = 0; i < server->store_count && known; i++) {
        known = see_source_lock(server->stores[i].source)->tried;
        see_source_unlock(server->stores[i].source);
    }
    if (known)
        answer_ok(request);
    else
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE", "starting");
}

/* ---- names: a page of them, by name ---------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return see_name_compare(*(const struct see_row *const *)a, *(const struct see_row *const *)b);
}

/* The rows by name, sorted once for each set of names. NULL: no memory. */
static const struct see_row **sorted(struct store *store, const struct see_model *model)
{
    const struct see_row **rows;

    if (store->by_name && store->by_name_at == model->present_change)
        return store->by_name;
    rows = see_model_rows(model);
    if (!rows)
        return NULL;
    qsort(rows, model->present, sizeof *rows, by_name);
    free(store->by_name);
    store->by_name = rows;
    store->by_name_at = model->present_change;
    return rows;
}

/* <0, 0 or >0: as the name is before, at or behind the bytes. `prefix`: all names that begin with them are at them. */
static int order_of(const struct see_row *row, const struct bytes *bytes, bool prefix)
{
    size_t shorter = row->name_len < bytes->len ? row->name_len : bytes->len;
    int order = memcmp(row->name, bytes->at, shorter);

    if (order != 0 || (prefix && row->name_len >= bytes->len))
        return order;
    return row->name_len < bytes->len ? -1 : row->name_len > bytes->len;
}

/* The first of rows [from, to) that is at the bytes or behind them; `behind`: that is behind them. */
static size_t first_of(const struct see_row **rows, size_t from, size_t to,
                       const struct bytes *bytes, bool prefix, bool behind)
{
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = order_of(rows[middle], bytes, prefix);

        if (order < 0 || (behind && order == 0))
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void put_names(struct out *out, struct store *store, const struct see_model *model,
                      const struct uri *uri)
{
    const struct see_row **rows = sorted(store, model);
    size_t from = 0, to = rows ? model->present : 0;
    size_t limit = uri->limit ? (size_t)uri->limit : NAMES_DEFAULT;
    int64_t now_ms = see_now_ms();

    limit = limit < NAMES_MAX ? limit : NAMES_MAX;
    if (uri->prefix.given) {
        from = first_of(rows, from, to, &uri->prefix, true, false);
        to = first_of(rows, from, to, &uri->prefix, true, true);
    }
    if (uri->after.given)
        from = first_of(rows, from, to, &uri->after, false, true);
    out_open(out, "names", '[');
    for (size_t i = from; i < to && i - from < limit; i++)
        rows_row(out, NULL, rows[i], now_ms);
    out_close(out, ']');
    if (to - from > limit) {
        char key[KEY_MAX];

        uri_key(rows[from + limit - 1]->name, rows[from + limit - 1]->name_len, key);
        out_word(out, "after", key);
    } else {
        out_null(out, "after");
    }
}

void api_names(struct request *request, struct store *store)
{
    const struct see_model *model = see_source_lock(store->source);
    struct out out = { 0 };

    out_open(&out, NULL, '{');
    out_int(&out, "now", see_now_ms());
    rows_state(&out, model);
    rows_totals(&out, "total", model);
    put_names(&out, store, model, &request->uri);
    out_close(&out, '}');
    see_source_unlock(store->source);
    answer_json(request, MHD_HTTP_OK, &out);
}

void api_name(struct request *request, struct store *store)
{
    const struct bytes *name = &request->uri.name;
    const struct see_model *model = see_source_lock(store->source);
    const struct see_row *row = see_model_find(model, name->at, name->len);
    bool up = model->looked;
    struct out out = { 0 };

    if (row && row->present) {
        out_open(&out, NULL, '{');
        out_int(&out, "now", see_now_ms());
        rows_state(&out, model);
        rows_row(&out, "row", row, see_now_ms());
        rows_detail(&out, row);
        out_close(&out, '}');
    } else {
        row = NULL;
    }
    see_source_unlock(store->source);
    if (row)
        answer_json(request, MHD_HTTP_OK, &out);
    else if (!up)
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE",
                     "the store has not answered yet");
    else
        answer_error(request, MHD_HTTP_NOT_FOUND, "NOT_FOUND",
                     "nobody holds that name or waits for it");
}

/* ---- break ---------------------------------------------------------------------------- */

struct breaking {
    struct request *request; /* NULL: it has ended */
    struct store *store;
};

static void breaking_gone(struct request *request, bool delivered)
{
    struct breaking *breaking = request->job;

    (void)delivered;
    if (breaking)
        breaking->request = NULL;
}

static void broken(const hf_result *result, void *arg)
{
    struct breaking *breaking = arg;
    struct request *request = breaking->request;

    breaking->store->broken += result->status == HF_OK;
    see_source_poke(breaking->store->source);
    free(breaking);
    if (!request)
        return;
    request->job = NULL;
    request->gone = NULL;
    if (result->status != HF_OK) {
        answer_status(request, result->error);
        return;
    }
    answer_ok(request);
}

void api_break(struct request *request, struct store *store)
{
    const struct bytes *name = &request->uri.name;
    char why[BODY_TEXT_MAX];
    struct break_body body;
    const char *wrong = body_break(request->body, request->body_len, &body, why);
    struct breaking *breaking;
    hf_error err = { 0 };

    if (!wrong && (body.name.len != name->len || memcmp(body.name.at, name->at, name->len) != 0))
        wrong = "name: not the name of the URL";
    if (wrong) {
        answer_error(request, MHD_HTTP_BAD_REQUEST, "INVALID", wrong);
        return;
    }
    if (!store->handle) {
        answer_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE",
                     "the store cannot be reached");
        return;
    }
    breaking = calloc(1, sizeof *breaking);
    if (!breaking)
        return;
    breaking->request = request;
    breaking->store = store;
    request->job = breaking;
    request->gone = breaking_gone;
    if (hf_lease_break_async(store->handle, name->at, name->len, body.token, broken, breaking, NULL,
                             &err) != HF_OK) {
        request->job = NULL;
        request->gone = NULL;
        free(breaking);
        answer_status(request, &err);
        return;
    }
    request_wait(request);
}

/* ---- files ---------------------------------------------------------------------------- */

static void answer_file(struct request *request, const struct page_file *file)
{
    const char *have = request_header(request, "If-None-Match");
    bool same = have && file->etag && strcmp(have, file->etag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        same ? 0 : file->len, (void *)(uintptr_t)file->bytes, MHD_RESPMEM_PERSISTENT);

    if (!response)
        return;
    MHD_add_response_header(response, "Content-Type", file->type);
    if (file->etag)
        MHD_add_response_header(response, "ETag", file->etag);
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    answer(request, same ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

void api_openapi(struct request *request, struct store *unused)
{
    struct page_file file = { NULL, "application/json", openapi_json, openapi_json_len, NULL };

    (void)unused;
    answer_file(request, &file);
}

void api_asset(struct request *request, struct store *unused)
{
    (void)unused;
    for (size_t i = 0; i < page_file_count; i++)
        if (strcmp(page_files[i].path, request->uri.path) == 0) {
            answer_file(request, &page_files[i]);
            return;
        }
    answer_error(request, MHD_HTTP_NOT_FOUND, "NOT_FOUND", "no such path");
}
