/* SPDX-License-Identifier: MIT */
/* Stores: opening them, finding them by handle, and hf_store_get(). close.c ends them. */
#include "core/store.h"

#include "core/call.h"
#include "core/conf.h"
#include "core/lack.h"
#include "core/observer.h"
#include "core/registry.h"
#include "core/request.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/place.h"
#include "util/process.h"
#include "util/text.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define USER_MAX   64
#define NAME_SHOWN 200 /* in errors: leaves room for the reason */

struct hfi_table hfi_stores = { .slot_size = (sizeof(struct hfi_store) + 63) / 64 * 64,
                                .kind = HFI_KIND_STORE };

/* How long a try waits by default: a few hops to the holder and back. */
static int64_t hfi_try_wait(enum hfi_drive_kind drive)
{
    return drive == HFI_EVENT ? 50 : 200;
}

static hf_status open_place(const struct hfi_place *place, const hf_open_options *options,
                            hf_store **ret_store, hf_error *err);
struct own_conf;
static hf_status read_url(struct hfi_url *url, const struct hfi_engine *engine,
                          struct own_conf *ret_own, struct hfi_conf **ret_conf, hf_error *err);
static hf_status open_engine(struct hfi_store *store, struct hfi_url *url, struct hfi_conf *conf,
                             const struct own_conf *own, hf_error *err);
static void init(struct hfi_store *store, const struct hfi_engine *engine);
static void set_label(char label[HF_LABEL_MAX + 1], const char *given);

/* ---- opening ------------------------------------------------------------------------ */

hf_status hf_open(const char *url, const hf_open_options *options, hf_store **ret_store,
                  hf_error *err)
{
    hf_open_options whole = HF_OPEN_OPTIONS_INIT;
    struct hfi_place place;
    hf_status status;

    if (!ret_store)
        return hfi_error_set(err, HF_INVALID, 0, "ret_store: NULL");
    if (options && !hfi_struct_copy(&whole, sizeof whole, options, options->size,
                                    offsetof(hf_open_options, label)))
        return hfi_error_set(err, HF_INVALID, 0,
                             "size: not that of a known hf_open_options; use HF_OPEN_OPTIONS_INIT");
    if (whole.open_wait_ms < 0 || whole.open_wait_ms > HF_DURATION_MAX_MS)
        return hfi_error_set(err, HF_INVALID, 0, "open_wait_ms: negative, or more than ten years");
    if (whole.flags & ~(HF_OPEN_FLAG_EXISTING | HF_OPEN_FLAG_ONCE | HF_OPEN_FLAG_NO_WAIT))
        return hfi_error_set(err, HF_INVALID, 0, "flags: not of HF_OPEN_FLAG_*");
    if ((whole.flags & HF_OPEN_FLAG_ONCE) && (whole.flags & HF_OPEN_FLAG_NO_WAIT))
        return hfi_error_set(err, HF_INVALID, 0,
                             "flags: HF_OPEN_FLAG_ONCE is for an open that waits");

    hfi_alloc_seal();
    hfi_ok(err);
    status = hfi_place_find(url, HFI_PLACE_CALLER, &place, err);
    if (status != HF_OK)
        return status;
    status = hfi_place_explain(&place, open_place(&place, &whole, ret_store, err), err);
    hfi_place_done(&place);
    return status;
}

/* The parameters that core itself reads from every URL. */
struct own_conf {
    uint32_t cohort;
    int64_t cohort_time_ms, deadlock_check_ms, linger_ms, try_wait_ms;
};
static const struct hfi_param own_params[] = {
    { "cohort", HFI_PARAM_NUMBER, offsetof(struct own_conf, cohort), 0, HFI_PASSES_MAX,
      HFI_PASSES_DEFAULT, NULL },
    { "cohort_time", HFI_PARAM_DURATION, offsetof(struct own_conf, cohort_time_ms), 0, 3600 * 1000,
      HFI_PASS_MS, NULL },
    { "deadlock_check", HFI_PARAM_DURATION, offsetof(struct own_conf, deadlock_check_ms), 0,
      3600 * 1000, HFI_DETECT_FIRST_MS, NULL },
    { "linger", HFI_PARAM_DURATION, offsetof(struct own_conf, linger_ms), 0, HF_DURATION_MAX_MS, 0,
      NULL },
    { "try_wait", HFI_PARAM_DURATION, offsetof(struct own_conf, try_wait_ms), 0, 60 * 1000, -1,
      NULL },
    { .name = NULL },
};

static hf_status open_place(const struct hfi_place *place, const hf_open_options *options,
                            hf_store **ret_store, hf_error *err)
{
    const struct hfi_engine *engine;
    struct hfi_store *store = NULL;
    struct hfi_conf *conf = NULL;
    struct own_conf own;
    struct hfi_url url;
    int64_t wait_ms = options->open_wait_ms ? options->open_wait_ms : HFI_OPEN_WAIT_MS;
    hf_status status = hfi_url_parse(place->url, &url, err);

    if (status != HF_OK)
        return status;

    status = hfi_registry_find(url.scheme, &engine, err);
    if (status == HF_CONFIG && *url.rest && strspn(url.rest, "0123456789") == strlen(url.rest))
        (void)hfi_error_wrap(err,
                             "%s:%s is a host and a port; a URL names the engine first, like "
                             "redis://%s:%s",
                             url.scheme, url.rest, url.scheme, url.rest);
    if (status == HF_OK)
        status = read_url(&url, engine, &own, &conf, err);
    if (status == HF_OK && !(store = hfi_slot_take(&hfi_stores)))
        status = hfi_error_memory(err);
    if (status == HF_OK) {
        init(store, engine);
        set_label(store->label, options->label);
        snprintf(store->source, sizeof store->source, "%s", place->source);
        store->host.open_deadline_ms = hfi_now_ms() + wait_ms;
        store->host.existing = options->flags & HF_OPEN_FLAG_EXISTING;
        store->host.open_once = options->flags & HF_OPEN_FLAG_ONCE;
        store->host.no_wait = options->flags & HF_OPEN_FLAG_NO_WAIT;
        status = open_engine(store, &url, conf, &own, err);
        store->host.open_once = false;
    }
    hfi_url_done(&url);
    if (status == HF_OK) {
        *ret_store = hfi_slot_publish(&store->slot, HFI_KIND_STORE);
        return hfi_ok(err); /* an engine may have failed at a way in before it found another */
    }
    hfi_conf_free(conf);
    if (store) {
        hfi_keeper_done(store);
        hfi_slot_give(&hfi_stores, store);
    }
    return status;
}

static void wrap_url(struct hfi_url *url, hf_error *err)
{
    char *shown = hfi_url_redacted(url);

    if (shown && strcmp(shown, "file:") == 0)
        hfi_error_wrap(err, "open the default store");
    else
        hfi_error_wrap(err, "open %s", shown ? shown : url->scheme);
    hfi_free(shown);
}

/* Nothing is opened before the whole URL has been understood. */
static hf_status read_url(struct hfi_url *url, const struct hfi_engine *engine,
                          struct own_conf *ret_own, struct hfi_conf **ret_conf, hf_error *err)
{
    hf_status status = hfi_conf_read_params(url, own_params, ret_own, err);

    if (status != HF_OK)
        return status;
    status = hfi_conf_read(url, engine->conf, ret_conf, err);
    if (status != HF_OK)
        wrap_url(url, err);
    return status;
}

static hf_status open_engine(struct hfi_store *store, struct hfi_url *url, struct hfi_conf *conf,
                             const struct own_conf *own, hf_error *err)
{
    const struct hfi_engine *engine = hfi_store_engine(store);
    hf_status status;

    store->conf = conf;
    store->host.location = conf->location;
    store->keeper.reserve = hfi_call_new(store, HFI_TO_KEEPER);
    if (!store->keeper.reserve)
        return hfi_error_memory(err);
    if (!hfi_drive_init(store))
        return hfi_error_set(err, HF_UNAVAILABLE, errno, "no descriptor is left");

    store->opened = hfi_calloc(1, engine->store_size);
    status = store->opened ? engine->open(store->opened, conf, &store->host, err)
                           : hfi_error_memory(err);
    hfi_conf_opened(conf);
    if (status != HF_OK && !(status == HF_NOT_FOUND && store->host.existing))
        wrap_url(url, err); /* "no store yet at ..." names the store itself */
    if (status != HF_OK) {
        hfi_free(store->opened);
        hfi_drive_done(store);
        return status;
    }
    if (own->linger_ms > 0 && !(store->host.promises->caps & HF_CAP_LINGER)) {
        engine->close(store->opened);
        hfi_free(store->opened);
        hfi_drive_done(store);
        return hfi_unsupported(store->host.promises, HF_CAP_LINGER, "linger", err);
    }
    atomic_store(&store->promises, store->host.promises);
    store->pass_limit = store->host.promises->caps & HF_CAP_PASS ? own->cohort : 0;
    store->pass_ms = own->cohort_time_ms;
    store->linger_ms = own->linger_ms;
    store->try_wait_ms = own->try_wait_ms >= 0 ? own->try_wait_ms : hfi_try_wait(store->drive);
    if (store->drive == HFI_BLOCKING && !store->host.promises->suspends)
        hfi_pool_allow_waits(&store->pool);
    hfi_detect_init(store, own->deadlock_check_ms);
    store->exposed[0] = 0;
    if (url->exposed)
        hfi_quote_name(url->exposed, strlen(url->exposed), store->exposed, sizeof store->exposed);
    return HF_OK;
}

static void init(struct hfi_store *store, const struct hfi_engine *engine)
{
    bool fresh = !hfi_slot_ours(&store->slot, hfi_process_id());

    /* Threads with an old handle of this slot may hold one of these locks at this moment. In a
     * forked child no thread does, whatever the copied mutex says. */
    if (fresh) {
        pthread_mutex_init(&store->lock, NULL);
        pthread_mutex_init(&store->closing.lock, NULL);
        for (int i = 0; i < HFI_SHARDS; i++)
            pthread_mutex_init(&store->shards[i].lock, NULL);
    }
    hfi_slot_own(&store->slot, hfi_process_id());

    for (int i = 0; i < HFI_SHARDS; i++) {
        struct hfi_shard *shard = &store->shards[i];

        pthread_mutex_lock(&shard->lock);
        memset(shard->first, 0, sizeof shard->first);
        shard->store = store;
        shard->buckets = shard->first;
        shard->bucket_count = HFI_BUCKETS_FIRST;
        shard->linked = 0;
        shard->idles = 0;
        shard->entered = 0;
        atomic_store(&shard->left, 0);
        hfi_stats_init(shard);
        pthread_mutex_unlock(&shard->lock);
    }
    pthread_mutex_lock(&store->lock);
    hfi_list_init(&store->waits);
    store->calls = 0;
    atomic_store(&store->closing.on, false);
    pthread_mutex_unlock(&store->lock);

    atomic_store(&store->engine, engine);
    atomic_store(&store->promises, engine->promises);
    store->host.promises = engine->promises;
    atomic_store(&store->host.max_ttl_ms, 0);
    atomic_store(&store->started, 0);
    atomic_store(&store->hears, false);
    atomic_store(&store->listens, 0);
    atomic_store(&store->adapt, NULL);
    store->linger_ms = store->try_wait_ms = 0;
    store->drive = engine->drive->kind;
    store->opened = NULL;
    store->conf = NULL;
    store->host.location = "";
    store->host.lost = hfi_lease_gone;
    store->host.doubt = hfi_lease_doubt;
    store->host.wanted = hfi_lease_wanted;
    store->host.hears = hfi_store_hears;
    store->host.wake = hfi_drive_host_wake;
    store->host.resume = hfi_workers_resume;
    store->host.reconnected = hfi_observe_reconnected;
    atomic_store(&store->host.reconnects, 0);
    atomic_store(&store->host.commands, 0);
    store->host.label = store->label;
    hfi_keeper_init(&store->keeper);
    hfi_notify_init(&store->notify);
    hfi_loop_init(&store->loop);
    hfi_pool_init(&store->pool);
    hfi_workers_init(store);
    hfi_scopes_init(&store->scopes, fresh);
}

/* "ada:x:1000:...", a line of /etc/passwd: the name, if the user has this number; else NULL. Lines with + or - in
 * front are about other databases. */
static const char *name_in(char *line, uid_t uid)
{
    char *password = strchr(line, ':'), *number = password ? strchr(password + 1, ':') : NULL, *end;
    unsigned long found;

    if (!number || password == line || *line == '+' || *line == '-' ||
        !isdigit((unsigned char)number[1]))
        return NULL;
    found = strtoul(number + 1, &end, 10);
    *password = 0;
    return *end == ':' && found == uid ? line : NULL;
}

/* The name of a user, or its number. Most are in /etc/passwd: to read that takes a third of the system calls of
 * getpwuid_r(), which asks daemons first. */
static void set_user(char user[USER_MAX], uid_t uid)
{
    char memory[1024];
    const char *name = NULL;
    struct passwd entry, *found = NULL;
    FILE *file = fopen("/etc/passwd", "re");
    bool whole = true; /* what comes next is the beginning of a line */

    while (!name && file && fgets(memory, sizeof memory, file)) {
        bool begins = whole;

        whole = strchr(memory, '\n') != NULL;
        if (begins && whole)
            name = name_in(memory, uid);
    }
    if (file)
        fclose(file);
    if (!name && getpwuid_r(uid, &entry, memory, sizeof memory, &found) == 0 && found)
        name = found->pw_name;
    if (name)
        snprintf(user, USER_MAX, "%.*s", USER_MAX - 1, name);
    else
        snprintf(user, USER_MAX, "%lu", (unsigned long)uid);
}

/* "ada@example:4711 backup", cut to what a label may have, or as given. */
static void set_label(char label[HF_LABEL_MAX + 1], const char *given)
{
    char host[65] = "", user[USER_MAX];

    if (given) {
        size_t len = hfi_label_len(given, HF_LABEL_MAX);

        memcpy(label, given, len);
        label[len] = 0;
        return;
    }
    if (gethostname(host, sizeof host - 1) != 0)
        strcpy(host, "?");
    set_user(user, geteuid());
    snprintf(label, HF_LABEL_MAX + 1, "%s@%s:%ld %s", user, host, (long)getpid(),
             program_invocation_short_name);
}

/* ---- finding ------------------------------------------------------------------------- */

hf_status hfi_store_missing(hf_status status, hf_error *err)
{
    return hfi_error_set(err, status, 0, "store: %s",
                         status == HF_INVALID ? "no such handle, or it was closed"
                                              : hf_status_text(status));
}

hf_status hfi_store_enter(hf_store *handle, struct hfi_store **ret_store, hf_error *err)
{
    hf_status status = hfi_store_find(handle, ret_store, err);

    if (status != HF_OK)
        return status;
    pthread_mutex_lock(&(*ret_store)->lock);
    if (!hfi_slot_is(&(*ret_store)->slot, handle))
        status = hfi_store_missing(HF_INVALID, err);
    else
        (*ret_store)->calls++;
    pthread_mutex_unlock(&(*ret_store)->lock);
    return status;
}

void hfi_store_leave(struct hfi_store *store)
{
    pthread_mutex_lock(&store->lock);
    store->calls--;
    hfi_closing_tell(store);
    pthread_mutex_unlock(&store->lock);
}

bool hfi_store_start(struct hfi_store *store, unsigned threads)
{
    if (threads & HFI_STARTED_KEEPER && !hfi_keeper_start(store))
        return false;
    if (threads & HFI_STARTED_NOTIFY) {
        if (!hfi_notify_start(store))
            return false;
        atomic_fetch_or(&store->started, HFI_STARTED_NOTIFY);
    }
    return true;
}

/* ---- saying --------------------------------------------------------------------------- */

hf_status hf_store_get(hf_store *handle, hf_store_info *ret_info)
{
    const struct hfi_promises *promises;
    struct hfi_store *store;
    hf_store_info info;
    size_t size;
    hf_status status = hfi_store_enter(handle, &store, NULL);

    if (status != HF_OK)
        return status;
    promises = hfi_store_promises(store);
    size = ret_info ? ret_info->size : 0;
    if (size < offsetof(hf_store_info, location) || size > HFI_STRUCT_MAX) {
        hfi_store_leave(store);
        return HF_INVALID;
    }

    memset(&info, 0, sizeof info);
    info.engine = promises->name;
    info.location = store->host.location;
    info.caps = promises->caps;
    info.tokens = promises->tokens;
    info.default_ttl_ms = promises->default_ttl_ms;
    info.min_ttl_ms = hfi_ttl_least(promises);
    info.max_ttl_ms = atomic_load(&store->host.max_ttl_ms);
    info.lacks = hfi_lacks(promises);
    info.source = store->source;
    info.size = size;
    memcpy(ret_info, &info, size < sizeof info ? size : sizeof info);
    hfi_store_leave(store);
    return HF_OK;
}

hf_status hfi_store_error(struct hfi_store *store, const char *verb, const struct hfi_name *name,
                          hf_status status, const hf_error *inner, hf_error *err)
{
    const char *text = inner && inner->text[0] ? inner->text : hf_status_text(status);
    char shown[NAME_SHOWN];

    if (!err)
        return status;
    if (!name)
        return hfi_error_set(err, status, inner ? inner->native : 0, "%s: %s: %s",
                             store->host.location, verb, text);
    hfi_quote_name(name->bytes, name->len, shown, sizeof shown);
    return hfi_error_set(err, status, inner ? inner->native : 0, "%s: %s '%s': %s",
                         store->host.location, verb, shown, text);
}
