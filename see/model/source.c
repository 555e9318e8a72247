/* SPDX-License-Identifier: MIT */
/*
 * The thread of a source. It alone opens the store and feeds the model.
 *
 *   CLOSED --open--> OPEN --look--> UP <----> AWAY (open, but not answered: the library connects again by itself)
 */
#include "source.h"

#include "util/clock.h"
#include "util/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPEN_MS      3000
#define LOOK_MS      1000 /* at least this often: an end by ttl is no event */
#define LEAST_MS     250  /* between two looks */
#define SHARE        5    /* a look takes at most this part of the time */
#define RETRY_MS     500  /* the first pause of a store that is away ... */
#define RETRY_MAX_MS 15000
#define CHECK_MS     180000 /* between two visits of the doctor */
#define PING_MS      5000
#define PING_NAME    "holdfast-ping" /* a name to look at: one round trip */

struct see_source {
    pthread_t thread;
    pthread_mutex_t lock; /* the model, and what follows */
    pthread_cond_t wake;
    bool stopping, poked;
    struct see_model model;
    hf_store *store;
    hf_cancel *cancel;
    struct see_source_info info;
    char name[128], location[512], engine[32];
    char opened_location[512], opened_engine[32];

    /* For the thread alone. */
    char *url, *label;
    void (*changed)(void *arg);
    void *arg;
    uint64_t seq;
    int64_t retry_ms, checked_ms, pinged_ms;
};

int64_t see_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void tell(struct see_source *source)
{
    if (source->changed)
        source->changed(source->arg);
}

/* ---- pauses --------------------------------------------------------------------------------- */

static bool is_stopping(struct see_source *source)
{
    bool stopping;

    pthread_mutex_lock(&source->lock);
    stopping = source->stopping;
    pthread_mutex_unlock(&source->lock);
    return stopping;
}

/* Until it is poked or stopped, but at most that long. */
static void pause_for(struct see_source *source, int64_t ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&source->lock);
    while (!source->stopping && !source->poked &&
           pthread_cond_timedwait(&source->wake, &source->lock, &until) == 0)
        ;
    source->poked = false;
    pthread_mutex_unlock(&source->lock);
}

/* The store is to answer in `ms`. */
static void expect(struct see_source *source, int64_t ms)
{
    pthread_mutex_lock(&source->lock);
    see_model_asked(&source->model, see_now_ms() + ms);
    pthread_mutex_unlock(&source->lock);
}

/* After a look that took took_ms. */
static void wait_for_change(struct see_source *source, int64_t took_ms)
{
    int64_t least_ms = took_ms * (SHARE - 1) > LEAST_MS ? took_ms * (SHARE - 1) : LEAST_MS;

    pause_for(source, least_ms);
    if (is_stopping(source) || least_ms >= LOOK_MS)
        return;
    if (!(source->info.caps & HF_CAP_WATCH)) {
        pause_for(source, LOOK_MS - least_ms);
        return;
    }
    expect(source, LOOK_MS - least_ms); /* when its time is up the store is asked once more */
    switch (hf_store_wait(source->store, &source->seq, LOOK_MS - least_ms, source->cancel, NULL)) {
    case HF_OK:
    case HF_TIMEOUT:
        break;
    case HF_DENIED: /* we may look, but the store must not tell us */
        pause_for(source, LOOK_MS - least_ms);
        break;
    default: /* cancelled by a poke; or the store is away, as the next look will say */
        pause_for(source, LEAST_MS);
    }
}

/* ---- away -------------------------------------------------------------------------------------- */

/* "ENGINE does not answer" is for readers to say: here is why. */
static void away(struct see_source *source, const hf_error *err)
{
    int64_t now_ms = see_now_ms();

    source->retry_ms = source->retry_ms ? 2 * source->retry_ms : RETRY_MS;
    if (source->retry_ms > RETRY_MAX_MS)
        source->retry_ms = RETRY_MAX_MS;
    pthread_mutex_lock(&source->lock);
    see_model_away(&source->model, now_ms, err->text, now_ms + source->retry_ms);
    pthread_mutex_unlock(&source->lock);
    tell(source);
    pause_for(source, source->retry_ms);
}

static void absent(struct see_source *source, const hf_error *err)
{
    const char *place = strstr(err->text, " at ");

    pthread_mutex_lock(&source->lock);
    see_model_absent(&source->model, place ? place + strlen(" at ") : err->text, see_now_ms());
    pthread_mutex_unlock(&source->lock);
    tell(source);
    pause_for(source, LOOK_MS);
}

/* ---- looking ------------------------------------------------------------------------------------ */

static void open_store(struct see_source *source)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_store *store = NULL;
    hf_status status;
    hf_error err;

    options.open_wait_ms = OPEN_MS;
    options.flags = HF_OPEN_FLAG_EXISTING | HF_OPEN_FLAG_ONCE;
    options.label = source->label;
    status = hf_open(source->url, &options, &store, &err);
    if (status == HF_NOT_FOUND) {
        absent(source, &err);
        return;
    }
    if (status != HF_OK) {
        away(source, &err);
        return;
    }
    if (hf_store_get(store, &info) != HF_OK)
        info.engine = info.location = "?";
    pthread_mutex_lock(&source->lock);
    source->store = store;
    if (!source->info.opened) { /* later they are the same, and readers may have the texts */
        snprintf(source->opened_location, sizeof source->opened_location, "%s", info.location);
        snprintf(source->opened_engine, sizeof source->opened_engine, "%s", info.engine);
        hfi_disarm(source->opened_location, false);
        source->info.location = source->opened_location;
        source->info.engine = source->opened_engine;
    }
    source->info.opened = true;
    source->info.caps = info.caps;
    pthread_mutex_unlock(&source->lock);
    source->seq = 0;
    if (info.caps & HF_CAP_WATCH) /* before the first view, so that a change during it wakes us */
        hf_store_wait(store, &source->seq, 0, NULL, NULL);
}

static void ping(struct see_source *source)
{
    int64_t begun_ns = hfi_now_ns(), took_us;
    hf_view *view = NULL;

    if (source->pinged_ms && hfi_now_ms() - source->pinged_ms < PING_MS)
        return;
    source->pinged_ms = hfi_now_ms();
    expect(source, 0);
    if (hf_store_inspect(source->store, PING_NAME, strlen(PING_NAME), 0, &view, NULL) != HF_OK)
        return;
    took_us = (hfi_now_ns() - begun_ns) / 1000;
    hf_free(view);
    pthread_mutex_lock(&source->lock);
    see_model_latency(&source->model, took_us);
    pthread_mutex_unlock(&source->lock);
}

static void check(struct see_source *source)
{
    hf_report *report = NULL;

    if (source->checked_ms && hfi_now_ms() - source->checked_ms < CHECK_MS)
        return;
    source->checked_ms = hfi_now_ms();
    if (hf_store_check(source->store, &report, NULL) != HF_OK)
        return;
    pthread_mutex_lock(&source->lock);
    see_model_check(&source->model, report, see_now_ms());
    pthread_mutex_unlock(&source->lock);
    hf_free(report);
    tell(source);
}

static void look(struct see_source *source)
{
    int64_t begun_ms = hfi_now_ms(), took_ms;
    hf_deadlocks *deadlocks = NULL;
    hf_view *view = NULL;
    hf_status status;
    hf_error err;

    expect(source, 0);
    status = hf_store_inspect(source->store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &err);
    if (status == HF_NOT_FOUND) {
        absent(source, &err);
        return;
    }
    if (status != HF_OK) {
        away(source, &err);
        return;
    }
    source->retry_ms = 0;
    if (see_view_may_lock(view) && hf_deadlock_list(source->store, &deadlocks, NULL) != HF_OK)
        deadlocks = NULL;
    pthread_mutex_lock(&source->lock);
    see_model_update(&source->model, view, deadlocks, see_now_ms());
    pthread_mutex_unlock(&source->lock);
    hf_free(view);
    hf_free(deadlocks);
    took_ms = hfi_now_ms() - begun_ms;
    tell(source);
    ping(source);
    check(source);
    wait_for_change(source, took_ms);
}

static void *source_main(void *arg)
{
    struct see_source *source = arg;

    while (!is_stopping(source))
        if (source->store)
            look(source);
        else
            open_store(source);
    if (source->store)
        hf_close(source->store, HF_CLOSE_FLAG_RELEASE);
    return NULL;
}

/* ---- for readers --------------------------------------------------------------------------------- */

static void free_source(struct see_source *source)
{
    if (source->url)
        explicit_bzero(source->url, strlen(source->url));
    free(source->url);
    free(source->label);
    hf_cancel_close(source->cancel);
    see_model_done(&source->model);
    pthread_mutex_destroy(&source->lock);
    pthread_cond_destroy(&source->wake);
    free(source);
}

/* What is known before the store is open: no secret, so neither user nor parameters. */
static void name_of_url(struct see_source *source, const char *url)
{
    const char *colon = strchr(url, ':'), *host = colon ? colon + 1 : url, *at;
    const hf_engine_info *engine;
    size_t len;

    host += strncmp(host, "//", 2) == 0 ? 2 : 0;
    for (at = host; *at && *at != '/' && *at != '?'; at++)
        if (*at == '@')
            host = at + 1;
    len = strcspn(host, "?#");
    if (colon && strncmp(colon, "://", 3) == 0 && strchr(at, '@')) {
        /* An '@' behind the host: what we take for the host may be a password with a / or a ? in it. */
        host = "***";
        len = 3;
    }
    if (!*url || strcmp(url, "file:") == 0)
        snprintf(source->location, sizeof source->location, "the default store");
    else
        snprintf(source->location, sizeof source->location, "%.*s%s%.*s",
                 colon ? (int)(colon - url) + 1 : 0, url,
                 colon && strncmp(colon, "://", 3) == 0 ? "//" : "", (int)len, host);
    snprintf(source->engine, sizeof source->engine, "%s", "the store");
    for (size_t i = 0; (engine = hf_engine_get(i)); i++)
        for (const char *word = engine->schemes; colon && *word; word += strspn(word, " ")) {
            size_t word_len = strcspn(word, " ");

            if (word_len == (size_t)(colon - url) && strncmp(word, url, word_len) == 0)
                snprintf(source->engine, sizeof source->engine, "%s", engine->name);
            word += word_len;
        }
    hfi_disarm(source->location, false);
}

struct see_source *see_source_start(const struct see_source_options *options)
{
    struct see_source *source = calloc(1, sizeof *source);
    const char *url = options->url ? options->url : "";
    pthread_condattr_t monotonic;

    if (!source)
        return NULL;
    see_model_init(&source->model);
    pthread_mutex_init(&source->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&source->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    source->changed = options->changed;
    source->arg = options->arg;
    source->url = options->url ? strdup(url) : NULL;
    source->label = options->label ? strdup(options->label) : NULL;
    name_of_url(source, url);
    snprintf(source->name, sizeof source->name, "%s",
             options->name && *options->name ? options->name : "");
    hfi_disarm(source->name, false);
    source->info = (struct see_source_info){ .name = source->name,
                                             .location = source->location,
                                             .engine = source->engine };
    source->model.since_ms = see_now_ms();
    if ((options->url && !source->url) || (options->label && !source->label) ||
        hf_cancel_open(&source->cancel) != HF_OK ||
        pthread_create(&source->thread, NULL, source_main, source) != 0) {
        free_source(source);
        return NULL;
    }
    return source;
}

void see_source_stop(struct see_source *source)
{
    if (!source)
        return;
    pthread_mutex_lock(&source->lock);
    source->stopping = true;
    pthread_cond_signal(&source->wake);
    pthread_mutex_unlock(&source->lock);
    hf_cancel_fire(source->cancel);
    pthread_join(source->thread, NULL);
    free_source(source);
}

void see_source_poke(struct see_source *source)
{
    pthread_mutex_lock(&source->lock);
    source->poked = true;
    pthread_cond_signal(&source->wake);
    pthread_mutex_unlock(&source->lock);
}

struct see_model *see_source_lock(struct see_source *source)
{
    pthread_mutex_lock(&source->lock);
    return &source->model;
}

void see_source_unlock(struct see_source *source)
{
    pthread_mutex_unlock(&source->lock);
}

struct see_source_info see_source_info(struct see_source *source)
{
    struct see_source_info info;

    pthread_mutex_lock(&source->lock);
    info = source->info;
    pthread_mutex_unlock(&source->lock);
    return info;
}

hf_store *see_source_store(struct see_source *source)
{
    hf_store *store;

    pthread_mutex_lock(&source->lock);
    store = source->store;
    pthread_mutex_unlock(&source->lock);
    return store;
}

static hf_status not_open(hf_error *err)
{
    if (err)
        *err = (hf_error){ .status = HF_UNAVAILABLE, .text = "the store is not open" };
    return HF_UNAVAILABLE;
}

hf_status see_source_break(struct see_source *source, const void *name, size_t len, uint64_t token,
                           hf_error *err)
{
    hf_store *store = see_source_store(source);
    hf_status status = store ? hf_lease_break(store, name, len, token, err) : not_open(err);

    see_source_poke(source);
    return status;
}

hf_status see_source_ask(struct see_source *source, const void *name, size_t len, const char *text,
                         hf_error *err)
{
    hf_store *store = see_source_store(source);

    return store ? hf_ask(store, name, len, text, err) : not_open(err);
}
