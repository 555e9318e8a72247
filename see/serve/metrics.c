/* SPDX-License-Identifier: MIT */
/*
 * GET /metrics: Prometheus text. The number of series does not depend on what clients do: a store has a
 * fixed number of them, and names have series of their own only with --metrics-names N (the N first
 * in the order of trouble).
 */
#include "serve.h"

#include "util/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* What is read of one store under its lock, so that each family can have its samples together. */
struct seen {
    char name[128], engine[32];
    bool up, looked;
    int64_t since_ms, latency_us, oldest_hold_ms, oldest_wait_ms, checked_ms;
    size_t names, waiters, by_state[SEE_STATES], findings[3], circles;
    uint64_t handovers, lost;
    int64_t wait_ms[3], hold_ms[3]; /* by quantile */
    const struct store *store;
};

static const struct {
    const char *word;
    unsigned per_mille;
} quantiles[] = { { "0.5", 500 }, { "0.9", 900 }, { "0.99", 990 } };

static int64_t older(int64_t age_ms, int64_t since_ms, int64_t now_ms)
{
    int64_t other = since_ms > 0 && since_ms < now_ms ? now_ms - since_ms : 0;

    return other > age_ms ? other : age_ms;
}

static void look_at_rows(const struct see_model *model, struct seen *seen, int64_t now_ms)
{
    const struct see_row *row = NULL;

    while ((row = see_model_changed(model, row, 0)) != NULL) {
        const struct see_holder *holder = row->present ? see_row_holder(row) : NULL;

        if (holder && row->state != SEE_IDLE)
            seen->oldest_hold_ms = older(seen->oldest_hold_ms, holder->since_ms, now_ms);
        if (row->present && row->waiter_count > 0)
            seen->oldest_wait_ms = older(seen->oldest_wait_ms, row->waiters[0].since_ms, now_ms);
    }
}

static void look(const struct store *store, struct seen *ret_seen)
{
    struct see_source_info info = see_source_info(store->source);
    const struct see_model *model = see_source_lock(store->source);
    struct seen seen = { .store = store };

    snprintf(seen.name, sizeof seen.name, "%s",
             info.name && info.name[0] ? info.name : info.location);
    snprintf(seen.engine, sizeof seen.engine, "%s", info.engine ? info.engine : "");
    seen.up = see_model_is_up(model, see_now_ms(), &seen.since_ms);
    seen.looked = model->looked;
    seen.latency_us = model->latency_us;
    seen.names = model->present;
    seen.waiters = model->waiters;
    seen.circles = model->circle_count;
    seen.handovers = model->total_handovers;
    seen.lost = model->total_lost;
    seen.checked_ms = model->checked_ms;
    memcpy(seen.by_state, model->by_state, sizeof seen.by_state);
    for (size_t i = 0; i < model->finding_count; i++)
        if ((unsigned)model->findings[i].level < 3)
            seen.findings[model->findings[i].level]++;
    for (size_t i = 0; i < 3; i++) {
        seen.wait_ms[i] = see_histogram_at(&model->waits, quantiles[i].per_mille);
        seen.hold_ms[i] = see_histogram_at(&model->holds, quantiles[i].per_mille);
    }
    look_at_rows(model, &seen, see_now_ms());
    see_source_unlock(store->source);
    *ret_seen = seen;
}

/* ---- samples with the labels of a store ------------------------------------------------- */

static struct hfi_metric_label label(const char *name, const char *value)
{
    return (struct hfi_metric_label){ name, value, strlen(value) };
}

static void sample(FILE *out, const char *name, const struct seen *seen, const char *more,
                   const char *value, double number)
{
    char id[12];
    struct hfi_metric_label labels[3];
    size_t count = 2;

    snprintf(id, sizeof id, "%u", seen->store->index);
    labels[0] = label("id", id);
    labels[1] = label("store", seen->name);
    if (more)
        labels[count++] = label(more, value);
    hfi_metric_sample(out, name, labels, count, number);
}

typedef double number_fn(const struct seen *seen);

static double get_up(const struct seen *s)
{
    return s->up;
}
static double get_since(const struct seen *s)
{
    int64_t seconds = s->since_ms / 1000; /* whole: a double is written with nine digits */

    return (double)seconds;
}
static double get_names(const struct seen *s)
{
    return (double)s->names;
}
static double get_waiters(const struct seen *s)
{
    return (double)s->waiters;
}
static double get_circles(const struct seen *s)
{
    return (double)s->circles;
}
static double get_hold(const struct seen *s)
{
    return (double)s->oldest_hold_ms / 1e3;
}
static double get_wait(const struct seen *s)
{
    return (double)s->oldest_wait_ms / 1e3;
}
static double get_handovers(const struct seen *s)
{
    return (double)s->handovers;
}
static double get_lost(const struct seen *s)
{
    return (double)s->lost;
}
static double get_held(const struct seen *s)
{
    return (double)s->store->held;
}
static double get_waiting(const struct seen *s)
{
    return (double)s->store->waiting;
}
static double get_released(const struct seen *s)
{
    return (double)s->store->released;
}
static double get_lease_lost(const struct seen *s)
{
    return (double)s->store->lost;
}
static double get_broken(const struct seen *s)
{
    return (double)s->store->broken;
}

static const struct {
    const char *name, *type, *help;
    number_fn *get;
} plain[] = {
    { "holdfast_store_up", "gauge", "1 if the store answers.", get_up },
    { "holdfast_store_since_seconds", "gauge",
      "When the store came up, or went away (seconds of the epoch).", get_since },
    { "holdfast_names", "gauge", "Names that are held or waited for.", get_names },
    { "holdfast_waiters", "gauge", "Requests that wait, where the engine lists them.",
      get_waiters },
    { "holdfast_deadlocks", "gauge", "Circles of requests that wait for each other.", get_circles },
    { "holdfast_oldest_hold_seconds", "gauge", "Age of the oldest lease that is in use.",
      get_hold },
    { "holdfast_oldest_wait_seconds", "gauge", "Age of the oldest wait at the head of a queue.",
      get_wait },
    { "holdfast_handovers_total", "counter", "Changes of holders that were seen.", get_handovers },
    { "holdfast_lost_total", "counter", "Leases that were seen to expire while they were held.",
      get_lost },
    { "holdfast_api_leases", "gauge", "Leases that clients hold through this API.", get_held },
    { "holdfast_api_waiting", "gauge", "Requests for a lease that wait in this API.", get_waiting },
    { "holdfast_api_released_total", "counter", "Leases that clients of this API released.",
      get_released },
    { "holdfast_api_lost_total", "counter", "Leases of this API that were lost.", get_lease_lost },
    { "holdfast_api_broken_total", "counter", "Leases that were broken through this API.",
      get_broken },
};

static void put_stores(FILE *out, const struct seen *seen, size_t count)
{
    static const char *const levels[] = { "ok", "warning", "bad" };

    for (size_t f = 0; f < sizeof plain / sizeof *plain; f++) {
        hfi_metric_family(out, plain[f].name, plain[f].type, plain[f].help);
        for (size_t i = 0; i < count; i++)
            sample(out, plain[f].name, &seen[i], NULL, NULL, plain[f].get(&seen[i]));
    }
    hfi_metric_family(out, "holdfast_store_info", "gauge", "The engine of the store.");
    for (size_t i = 0; i < count; i++)
        sample(out, "holdfast_store_info", &seen[i], "engine", seen[i].engine, 1);
    hfi_metric_family(out, "holdfast_names_by_state", "gauge", "Names by state.");
    for (size_t i = 0; i < count; i++)
        for (int s = 0; s < SEE_STATES; s++)
            sample(out, "holdfast_names_by_state", &seen[i], "state",
                   see_state_word((enum see_state)s), (double)seen[i].by_state[s]);
    hfi_metric_family(out, "holdfast_doctor_findings", "gauge", "Findings of the doctor by level.");
    for (size_t i = 0; i < count; i++)
        for (int l = 0; l < 3 && seen[i].checked_ms; l++)
            sample(out, "holdfast_doctor_findings", &seen[i], "level", levels[l],
                   (double)seen[i].findings[l]);
    hfi_metric_family(out, "holdfast_api_acquisitions_total", "counter",
                      "Requests for a lease through this API, by outcome.");
    for (size_t i = 0; i < count; i++) {
        const struct store *store = seen[i].store;

        sample(out, "holdfast_api_acquisitions_total", &seen[i], "outcome", "granted",
               (double)store->granted);
        sample(out, "holdfast_api_acquisitions_total", &seen[i], "outcome", "refused",
               (double)store->refused);
        sample(out, "holdfast_api_acquisitions_total", &seen[i], "outcome", "unknown",
               (double)store->unknown);
    }
}

/* Of the last minute, as seen from outside: a summary, for a histogram of Prometheus only ever grows. */
static void put_quantiles(FILE *out, const char *name, const char *help, const struct seen *seen,
                          size_t count, bool waits)
{
    hfi_metric_family(out, name, "summary", help);
    for (size_t i = 0; i < count; i++)
        for (size_t q = 0; q < 3; q++) {
            int64_t ms = waits ? seen[i].wait_ms[q] : seen[i].hold_ms[q];

            if (ms >= 0)
                sample(out, name, &seen[i], "quantile", quantiles[q].word, (double)ms / 1e3);
        }
}

static void put_latency(FILE *out, const struct seen *seen, size_t count)
{
    hfi_metric_family(out, "holdfast_store_latency_seconds", "gauge", "One round trip.");
    for (size_t i = 0; i < count; i++)
        if (seen[i].latency_us >= 0)
            sample(out, "holdfast_store_latency_seconds", &seen[i], NULL, NULL,
                   (double)seen[i].latency_us / 1e6);
}

/* ---- the first names ---------------------------------------------------------------------- */

static double name_number(const struct see_row *row, bool waiters, int64_t now_ms)
{
    const struct see_holder *holder = see_row_holder(row);

    if (waiters)
        return (double)row->waiter_count;
    return holder ? (double)older(0, holder->since_ms, now_ms) / 1e3 : 0;
}

static void put_names(FILE *out, const struct server *server, const char *family, const char *help,
                      bool waiters)
{
    int64_t now_ms = see_now_ms();

    hfi_metric_family(out, family, "gauge", help);
    for (size_t i = 0; i < server->store_count; i++) {
        struct store *store = &server->stores[i];
        struct see_source_info info = see_source_info(store->source);
        const char *name = info.name && info.name[0] ? info.name : info.location;
        const struct see_model *model = see_source_lock(store->source);
        const struct see_row **rows = see_model_sorted(model);
        char id[12];

        snprintf(id, sizeof id, "%u", store->index);
        for (size_t r = 0; rows && r < model->present && r < server->limits.names; r++) {
            struct hfi_metric_label labels[] = {
                label("id", id),
                label("store", name),
                { "name", (const char *)rows[r]->name, rows[r]->name_len },
            };
            hfi_metric_sample(out, family, labels, 3, name_number(rows[r], waiters, now_ms));
        }
        free(rows);
        see_source_unlock(store->source);
    }
}

/* ---- this process --------------------------------------------------------------------------- */

static double open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double count = -3; /* "." and "..", and the one of this look */

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static double resident_bytes(void)
{
    FILE *in = fopen("/proc/self/statm", "re");
    char text[128] = "";
    char *behind = text;

    if (in) {
        if (fgets(text, sizeof text, in))
            (void)!strtoul(text, &behind, 10); /* the size; what is resident comes next */
        fclose(in);
    }
    return (double)strtoul(behind, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static void put_one(FILE *out, const char *name, const char *type, const char *help, double number)
{
    hfi_metric_family(out, name, type, help);
    hfi_metric_sample(out, name, NULL, 0, number);
}

static void put_process(FILE *out, const struct server *server)
{
    struct rusage used;
    int64_t started = server->started_ms / 1000;

    getrusage(RUSAGE_SELF, &used);
    put_one(out, "process_cpu_seconds_total", "counter", "Processor time of holdfast-serve.",
            (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    put_one(out, "process_resident_memory_bytes", "gauge", "Memory of holdfast-serve.",
            resident_bytes());
    put_one(out, "process_open_fds", "gauge", "Open descriptors of holdfast-serve.", open_fds());
    put_one(out, "process_start_time_seconds", "gauge", "When it started.", (double)started);
    put_one(out, "holdfast_serve_requests_total", "counter", "HTTP requests.",
            (double)server->requests);
    put_one(out, "holdfast_serve_errors_total", "counter", "HTTP answers that are an error.",
            (double)server->refused);
    put_one(out, "holdfast_serve_connections", "gauge", "Open connections.",
            (double)server->connections);
    put_one(out, "holdfast_serve_streams", "gauge", "Streaming answers: watch, leases.",
            (double)server->streams);
}

static void put_all(FILE *out, const struct server *server, const struct seen *seen)
{
    put_stores(out, seen, server->store_count);
    put_latency(out, seen, server->store_count);
    put_quantiles(out, "holdfast_seen_wait_seconds",
                  "Waits that ended in the last minute, as seen from outside.", seen,
                  server->store_count, true);
    put_quantiles(out, "holdfast_seen_hold_seconds",
                  "Holds that ended in the last minute, as seen from outside.", seen,
                  server->store_count, false);
    if (server->limits.names > 0) {
        put_names(out, server, "holdfast_name_held_seconds", "Age of the lease of a name.", false);
        put_names(out, server, "holdfast_name_waiters", "Requests that wait for a name.", true);
    }
    put_process(out, server);
}

void metrics_answer(struct request *request, struct store *unused)
{
    const struct server *server = request->server;
    struct seen *seen = calloc(server->store_count + 1, sizeof *seen);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    struct MHD_Response *response = NULL;

    (void)unused;
    for (size_t i = 0; seen && i < server->store_count; i++)
        look(&server->stores[i], &seen[i]);
    if (out && seen)
        put_all(out, server, seen);
    if (out && fclose(out) == 0 && seen)
        response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    free(seen);
    if (!response) {
        free(text);
        return;
    }
    MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    answer(request, MHD_HTTP_OK, response);
}
