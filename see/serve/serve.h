/* SPDX-License-Identifier: MIT */
/*
 * What the parts of holdfast-serve share. One thread, the main one, runs all of HTTP, all leases and
 * all timers (loop.c): nothing here has a lock but the models, which the threads of the sources feed
 * (see/model/source.h). Nothing on this thread may block.
 */
#ifndef SERVE_SERVE_H
#define SERVE_SERVE_H

#include "model/source.h"
#include "out.h"
#include "places.h"
#include "rights.h"
#include "uri.h"

#include <microhttpd.h>
#include <stdatomic.h>

struct request;
struct store;
struct stream;
struct arrival;

typedef void route_fn(struct request *request, struct store *store);

/* Something that epoll tells of. */
struct eye {
    void (*ready)(struct eye *eye, uint32_t events);
};

/* Rows that were written once are sent to every reader that asks for the same. */
struct piece {
    unsigned refs;
    struct out text;
};
#define CACHE_SIZE 8
struct cached {
    uint64_t from, to, at; /* changes after `from` up to `to`, of a model that was at `at` */
    struct piece *piece;
};

struct store {
    struct eye eye; /* of `handle` */
    struct server *server;
    unsigned index;
    struct see_source *source;
    hf_store *handle; /* for leases and breaks; NULL: not open yet */
    struct cached cache[CACHE_SIZE];
    unsigned cache_next;
    struct piece *graph; /* as it was sent last */
    uint64_t graph_number, graph_at;
    /* present rows, as long as the model's present_change is the same */
    const struct see_row **by_name;
    uint64_t by_name_at;
    /* Totals, for metrics. */
    uint64_t granted, refused, unknown, released, lost, broken;
    size_t held, waiting;
};

struct limits {
    unsigned connections;
    size_t leases;  /* of one client, waiting ones too */
    unsigned names; /* series of their own in /metrics */
};

struct server {
    struct MHD_Daemon *daemon;
    int epoll_fd;
    struct store *stores;
    size_t store_count;
    struct rights rights;
    const char *rights_path; /* NULL: none */
    struct hosts hosts;
    struct limits limits;
    atomic_bool changed; /* a model has changed since the streams were looked at */
    struct eye wake;
    int wake_fd;
    struct request *suspended;
    struct arrival *arrivals; /* one for each connection */
    struct places places;     /* of these */
    struct request *line_first, *line_last;
    bool stopping;
    int64_t started_ms;
    uint64_t requests, refused;
    unsigned connections, streams;
};

/* ---- a request: http.c ------------------------------------------------------- */

struct request {
    struct eye eye; /* of its connection, while it is suspended */
    struct server *server;
    struct MHD_Connection *connection;
    char *text; /* the URL as it came */
    struct uri uri;
    const char *method; /* ours: "GET", ...; NULL: another one */
    bool begun, suspended, hung_up;
    char *body;
    size_t body_len;
    bool body_too_long;
    size_t body_dropped; /* what came then */
    /* Who asks; copied, for a reload of the file must not pull it away. */
    unsigned rights;
    bool has_token;
    char client[CLIENT_NAME_MAX + 1];
    /* The answer, once there is one. */
    struct MHD_Response *answer;
    unsigned code;
    /* What works for it meanwhile. gone() is called once, when the request has ended before or after
     * its answer; `delivered`: the answer was written completely. */
    void (*gone)(struct request *request, bool delivered);
    void *job;
    struct request *next;                    /* of those that wait for one lease */
    struct request *wait_next, *wait_before; /* of those that are suspended */
    /* line.c */
    struct request *line_next, *line_before;
    route_fn *line_go;
    struct store *line_store;
};

bool http_start(struct server *server, int listen_fd, const char *cert, const char *key);
void http_stop(struct server *server);
void request_free(struct request *request); /* NULL is fine */
/* Suspend until answer() or request_wake(): a client that hangs up meanwhile ends the request. */
void request_wait(struct request *request);
void request_wake(struct request *request);

/* Answer it, now or later. They take over what they are given. */
void answer(struct request *request, unsigned code, struct MHD_Response *response);
void answer_json(struct request *request, unsigned code, struct out *out);
/* {"status": "BUSY", "text": "..."} */
void answer_error(struct request *request, unsigned code, const char *status, const char *text);
/* A status of the library: the one table of HTTP codes. */
void answer_status(struct request *request, const hf_error *err);
unsigned http_code_of(hf_status status);
const char *request_header(const struct request *request, const char *name);
/* headers.c: NULL, or why nobody can say where this request ends and whom it asks. */
const char *headers_wrong(const struct request *request);

/* ---- arrival.c: how long a request may take to be there; one for each connection ---- */

/* It may push out another connection, or this one. NULL: no memory, no limit. */
struct arrival *arrival_new(struct server *server, struct MHD_Connection *connection, int fd);
/* Whose request it is, and whether its answer is a stream: see places.h. */
void arrival_is(struct request *request, bool watching);
void arrival_free(struct server *server, struct arrival *arrival);
void arrival_begins(struct MHD_Connection *connection);
void arrival_complete(struct MHD_Connection *connection);
/* What has begun on this connection, until it has ended (NULL). libmicrohttpd tells of no end if it refuses the headers by itself
 * (they take more memory than a connection has): then the request is freed with the arrival. */
void arrival_request(struct MHD_Connection *connection, struct request *request);
void arrivals_tick(struct server *server, int64_t now_ms);

/* ---- line.c: what is answered when nobody with a token asks ----------------------- */

void line_join(struct request *request, route_fn *go, struct store *store);
void line_run(struct server *server);

/* ---- an answer that goes on: stream.c ------------------------------------------ */

/* Give the next piece, or NULL: nothing now (stream_wake() asks again). */
typedef struct piece *stream_fill(void *arg);
/* Answer with a stream. `done` is called when it has ended, for whatever reason. */
struct stream *stream_answer(struct request *request, const char *type, stream_fill *fill,
                             void (*done)(void *arg), void *arg);
void stream_wake(struct stream *stream);
void stream_end(struct stream *stream); /* after what fill() still has */
struct piece *piece_new(void);          /* NULL: no memory */
struct piece *piece_keep(struct piece *piece);
void piece_drop(struct piece *piece); /* NULL is fine */

/* ---- routes ------------------------------------------------------------------- */

void route(struct request *request); /* route.c: has a body, if it needs one */

void api_stores(struct request *request, struct store *store);
void api_names(struct request *request, struct store *store);
void api_name(struct request *request, struct store *store);
void api_break(struct request *request, struct store *store);
void api_openapi(struct request *request, struct store *store);
void api_asset(struct request *request, struct store *store);
void api_health(struct request *request, struct store *store);
void api_ready(struct request *request, struct store *store);
void metrics_answer(struct request *request, struct store *store);

void watch_answer(struct request *request, struct store *store);
/* Models may have changed, or time has passed: wake the streams that have something to send. */
void watch_tick(struct server *server, int64_t now_ms);
/* The file of tokens was read again: streams of clients whose line is gone or another one end. */
void watch_rights(const struct rights *before, const struct rights *now);
/* ms until watch_tick() should be called, if nothing changes; -1: no need. */
int watch_timeout(const struct server *server, int64_t now_ms);

void lease_acquire(struct request *request, struct store *store);
void lease_renew(struct request *request, struct store *store);
void lease_release(struct request *request, struct store *store);
void lease_show(struct request *request, struct store *store);
void leases_tick(struct server *server, int64_t now_ms);
void leases_stop(struct server *server); /* waiting requests end; nothing new is begun */
/* The same for leases: waits end, and so do leases with_connection, if their client may lease no more. */
void leases_rights(const struct rights *now);
size_t leases_count(void);
bool leases_busy(void); /* something waits, is given back, or is bound to a connection */

/* ---- rows.c: the model as JSON; under the lock of its source ---------------------- */

void rows_row(struct out *out, const char *key, const struct see_row *row, int64_t now_ms);
void rows_detail(struct out *out, const struct see_row *row);
void rows_totals(struct out *out, const char *key, const struct see_model *model);
void rows_state(struct out *out, const struct see_model *model); /* members of an open object */
void rows_store(struct out *out, const struct store *store); /* likewise, but without the lock */
void rows_graph(struct out *out, const struct see_model *model);
void rows_history(struct out *out, const struct see_model *model, uint64_t since);
void rows_doctor(struct out *out, const struct see_model *model);

/* ---- loop.c -------------------------------------------------------------------- */

int loop_run(struct server *server);
int64_t clock_ms(void); /* CLOCK_MONOTONIC: for timers */

#endif
