/* SPDX-License-Identifier: MIT */
/*
 * The registry of engines. Three sources, in this order: engines added at run
 * time (tests), engines compiled in, modules in the table.
 *
 * There is no lock, so that a fork at any instant leaves a child with a registry
 * that works: an entry is a pointer that goes from NULL to its value once, and
 * two threads that load the same module at the same time get the same pointer.
 */
#include "core/registry.h"

#include "core/lack.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/module.h"
#include "util/text.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#ifndef HFI_STATIC_ENGINES
#define HFI_STATIC_ENGINES(X)
#endif

#define WHY_MAX HF_ERROR_TEXT_MAX

struct entry {
    const char *name, *schemes;
    hfi_engine_entry_fn *built_in;             /* NULL: a module */
    _Atomic(const struct hfi_engine *) engine; /* NULL: not loaded yet */
    atomic_int why_state;                      /* 0: `why` is free, 1: being written, 2: written */
    char why[WHY_MAX];                         /* why the module cannot be loaded */
    _Atomic(hf_engine_info *) shown[HFI_MODES_MAX], shown_why; /* what was returned */
};

/* X(lmdb) declares the entry of an engine that is compiled in, and below lists it. */
#define DECLARE(engine) const struct hfi_engine *hfi_engine_entry_##engine(void);
HFI_STATIC_ENGINES(DECLARE)
#undef DECLARE

static struct entry table[] = {
#define LIST(engine) { .name = #engine, .schemes = "", .built_in = hfi_engine_entry_##engine },
    HFI_STATIC_ENGINES(LIST)
#undef LIST
#define ENGINE(engine, engine_schemes, ...) { .name = #engine, .schemes = (engine_schemes) },
#include "engines.def" /* src/engine/engines.def, and those of other folders that the build was told */
#undef ENGINE
};
#define TABLE_SIZE (sizeof table / sizeof *table)

static _Atomic(const struct hfi_engine *) added[HFI_REGISTRY_ADDED_MAX];
static _Atomic(hf_engine_info *) added_shown[HFI_REGISTRY_ADDED_MAX][HFI_MODES_MAX];
static atomic_size_t added_count;

static const struct hfi_engine *find_added(const char *scheme);
static struct entry *find_entry(const char *scheme);
static bool is_listed(const struct entry *entry);
static bool has_word(const char *words, const char *word);
static hf_status load(struct entry *entry, const struct hfi_engine **ret_engine, hf_error *err);
static void remember_why(struct entry *entry, const char *why);

/* "are file, redis, etcd": the first scheme of each engine whose module is there. */
static void say_schemes(char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "is none");
    bool any = false;

    for (struct entry *entry = table; entry < table + TABLE_SIZE; entry++) {
        const char *schemes =
            entry->built_in ? entry->built_in()->promises->schemes : entry->schemes;

        if (!is_listed(entry))
            continue;
        used = any ? used : (size_t)snprintf(text, size, "are ");
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", any ? ", " : "",
                                 (int)strcspn(schemes, " "), schemes);
        any = true;
        if (used >= size)
            return;
    }
}

/* ---- entry points ----------------------------------------------------------- */

hf_status hfi_registry_find(const char *scheme, const struct hfi_engine **ret_engine, hf_error *err)
{
    const struct hfi_engine *engine = find_added(scheme);
    struct entry *entry;
    char shown[64], there[200];

    if (engine) {
        *ret_engine = engine;
        return HF_OK;
    }

    entry = find_entry(scheme);
    if (!entry) {
        say_schemes(there, sizeof there);
        return hfi_error_set(err, HF_CONFIG, 0, "no engine for the scheme '%s'; there %s",
                             hfi_quote_name(scheme, strlen(scheme), shown, sizeof shown), there);
    }
    return load(entry, ret_engine, err);
}

void hfi_registry_add(const struct hfi_engine *engine)
{
    size_t index;

    for (size_t i = 0; i < HFI_REGISTRY_ADDED_MAX; i++)
        if (atomic_load(&added[i]) == engine)
            return;

    index = atomic_fetch_add(&added_count, 1);
    /* A mistake of the program that adds it. */
    assert(index < HFI_REGISTRY_ADDED_MAX && engine->abi == HFI_ENGINE_ABI);
    if (index < HFI_REGISTRY_ADDED_MAX)
        atomic_store(&added[index], engine);
}

/* An engine that is planned but not built has no module, and is not listed at all. One whose module
 * cannot be read is. */
static bool is_listed(const struct entry *entry)
{
    for (size_t i = 0; i < HFI_REGISTRY_ADDED_MAX; i++) {
        const struct hfi_engine *engine = atomic_load(&added[i]);

        if (engine && strcmp(engine->promises->name, entry->name) == 0)
            return false;
    }
    for (const struct entry *e = table; e < entry; e++)
        if (e->built_in && strcmp(e->name, entry->name) == 0)
            return false;
    return entry->built_in || hfi_module_is_there(entry->name);
}

static void tell(const struct hfi_promises *promises, hf_engine_info *ret_info)
{
    *ret_info = (hf_engine_info){
        .name = promises->name,
        .schemes = promises->schemes,
        .available = true,
        .caps = promises->caps,
        .tokens = promises->tokens,
        .on_crash = promises->on_crash,
        .on_pause = promises->on_pause,
        .on_clock_jump = promises->on_clock_jump,
        .on_server_loss = promises->on_server_loss,
        .on_partition = promises->on_partition,
        .fairness = promises->fairness,
        .wakeup = promises->wakeup,
        .lacks = hfi_lacks(promises),
        .choice = promises->choice ? promises->choice : "",
    };
}

/* What hf_engine_get() shows of an engine, made once and kept for ever. NULL: out of memory. */
static const hf_engine_info *show(_Atomic(hf_engine_info *) *at, const hf_engine_info *info)
{
    hf_engine_info *shown = atomic_load(at), *fresh;

    if (shown)
        return shown;
    fresh = hfi_malloc(sizeof *fresh);
    if (!fresh)
        return NULL;
    *fresh = *info;
    if (atomic_compare_exchange_strong(at, &shown, fresh))
        return fresh;
    hfi_free(fresh); /* another thread was faster */
    return shown;
}

/* One of the sets of promises that its URLs can choose. */
static const hf_engine_info *show_mode(const struct hfi_engine *engine, size_t mode,
                                       _Atomic(hf_engine_info *) *shown)
{
    const struct hfi_promises *promises = engine->promises;
    hf_engine_info info;

    if (mode >= HFI_MODES_MAX)
        return NULL;
    for (size_t i = 0; i < mode; i++) {
        promises = engine->modes ? engine->modes[i] : NULL;
        if (!promises)
            return NULL;
    }
    tell(promises, &info);
    return show(&shown[mode], &info);
}

static const hf_engine_info *show_entry(struct entry *entry, size_t mode)
{
    const struct hfi_engine *engine;
    hf_engine_info info;
    hf_error err;

    if (load(entry, &engine, &err) == HF_OK)
        return show_mode(engine, mode, entry->shown);
    if (mode > 0)
        return NULL;
    /* Not kept as `shown`: the next call may find a module that loads. */
    remember_why(entry, err.text);
    info = (hf_engine_info){ .name = entry->name,
                             .schemes = entry->schemes,
                             .lacks = hfi_lacks(&(const struct hfi_promises){ 0 }),
                             .choice = "" };
    info.why_not = atomic_load(&entry->why_state) == 2 ? entry->why : "its module cannot be loaded";
    return show(&entry->shown_why, &info);
}

const hf_engine_info *hf_engine_get_mode(size_t index, size_t mode)
{
    hfi_alloc_seal();
    for (size_t i = 0; i < HFI_REGISTRY_ADDED_MAX; i++) {
        const struct hfi_engine *engine = atomic_load(&added[i]);

        if (engine && index-- == 0)
            return show_mode(engine, mode, added_shown[i]);
    }
    for (struct entry *entry = table; entry < table + TABLE_SIZE; entry++)
        if (is_listed(entry) && index-- == 0)
            return show_entry(entry, mode);
    return NULL;
}

const hf_engine_info *hf_engine_get(size_t index)
{
    return hf_engine_get_mode(index, 0);
}

/* ---- finding ---------------------------------------------------------------- */

static const struct hfi_engine *find_added(const char *scheme)
{
    for (size_t i = HFI_REGISTRY_ADDED_MAX; i-- > 0;) {
        const struct hfi_engine *engine = atomic_load(&added[i]);

        if (engine && has_word(engine->promises->schemes, scheme))
            return engine;
    }
    return NULL;
}

static struct entry *find_entry(const char *scheme)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        struct entry *entry = &table[i];
        const char *schemes =
            entry->built_in ? entry->built_in()->promises->schemes : entry->schemes;

        if (has_word(schemes, scheme))
            return entry;
    }
    return NULL;
}

/* Is `word` one of `words`, which are separated by single spaces? */
static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    while (len > 0 && words) {
        if (strncmp(words, word, len) == 0 && (words[len] == ' ' || words[len] == 0))
            return true;
        words = strchr(words, ' ');
        if (words)
            words++;
    }
    return false;
}

/* ---- loading ---------------------------------------------------------------- */

static hf_status check(const struct entry *entry, const struct hfi_engine *engine, hf_error *err)
{
    if (!engine)
        return hfi_error_set(err, HF_INTERNAL, 0, "the module of engine '%s' contains no engine",
                             entry->name);
    if (engine->abi != HFI_ENGINE_ABI)
        return hfi_error_set(err, HF_VERSION, 0,
                             "engine '%s' is of another build: interface %u, this library needs %u",
                             entry->name, engine->abi, HFI_ENGINE_ABI);
    if (strcmp(engine->promises->name, entry->name) != 0)
        return hfi_error_set(err, HF_VERSION, 0,
                             "the module of engine '%s' contains another engine", entry->name);
    return HF_OK;
}

static hf_status open_module(const struct entry *entry, const struct hfi_engine **ret_engine,
                             hf_error *err)
{
    hfi_engine_entry_fn *get;
    char what[64];
    void *symbol;
    hf_status status;

    snprintf(what, sizeof what, "engine '%s'", entry->name);
    status = hfi_module_open(entry->name, what, HFI_ENGINE_SYMBOL, &symbol, err);
    if (status != HF_OK)
        return status;
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from data to function pointers */
    *ret_engine = get();
    return HF_OK;
}

static hf_status load(struct entry *entry, const struct hfi_engine **ret_engine, hf_error *err)
{
    const struct hfi_engine *engine = atomic_load_explicit(&entry->engine, memory_order_acquire);
    hf_status status = HF_OK;

    if (!engine && entry->built_in)
        engine = entry->built_in();
    else if (!engine)
        status = open_module(entry, &engine, err);
    if (status != HF_OK)
        return status;

    status = check(entry, engine, err);
    if (status != HF_OK)
        return status;

    atomic_store_explicit(&entry->engine, engine, memory_order_release);
    *ret_engine = engine;
    return HF_OK;
}

/* Keep the text for hf_engine_get(), whose strings live for ever. The first one is kept. */
static void remember_why(struct entry *entry, const char *why)
{
    int state = 0;

    if (!atomic_compare_exchange_strong(&entry->why_state, &state, 1))
        return;
    snprintf(entry->why, sizeof entry->why, "%s", why);
    atomic_store(&entry->why_state, 2);
}
