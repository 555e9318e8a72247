/* SPDX-License-Identifier: MIT */
/*
 * `holdfast watch [GLOB]`: print what changes, as it happens. Each wake-up compares two views of
 * the store: a lease that came and went between two views is not seen, as the man page says.
 */
#include "look.h"
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Changes wake us, if the engine reports them. An end without an event does not (a ttl that
 * expires, a holder that is killed while nobody waits for it), nor does the end of our reader: so
 * we also read a view at this interval. */
#define LOOK_AGAIN_MS 1000
#define LOOK_SHARE    10 /* ... but reading views takes no more than this part of the time */

struct watching {
    const struct cli *cli;
    bool tracked;    /* the engine lists waiters */
    bool told;       /* the engine reports changes; otherwise we poll */
    bool first;      /* the first view: what exists already */
    int write_error; /* errno; 0: none */
};

static void compare(const struct watching *watching, const hf_view *before, const hf_view *after);
static int pause_ms(const struct watching *watching, int64_t took_us);
static int64_t now_us(void);

static int watch_loop(struct watching *watching, struct cli_store *store)
{
    hf_view *before = NULL;
    uint64_t seq = 0;
    int code = EXIT_FINE;

    /* Read the change counter before the first view: a change during that view must wake us. */
    if (watching->told)
        hf_store_wait(store->store, &seq, 0, NULL, NULL);
    watching->first = true;
    for (;;) {
        int64_t took_us = -now_us();
        hf_view *after = NULL;
        hf_status status = HF_OK;
        hf_error err;

        code = look_view(store, watching->cli->args.name, true, &after);
        if (code != EXIT_FINE || !after)
            break;
        took_us += now_us();
        watching->tracked = hf_view_waiters_tracked(after);
        compare(watching, before, after);
        hf_free(before);
        before = after;
        watching->first = false;

        if (fflush(stdout) != 0 || ferror(stdout)) {
            watching->write_error = errno;
            break;
        }
        if (watching->told)
            status = hf_store_wait(store->store, &seq, LOOK_AGAIN_MS, NULL, &err);
        if (status == HF_DENIED) { /* we may look, but the server must not tell us */
            say_more(watching->cli, "%s: polling every %d ms", err.text, LOOK_AGAIN_MS);
            watching->told = false;
            status = HF_OK;
        }
        if (!out_is_read(pause_ms(watching, took_us)))
            break;
        if (status != HF_OK && status != HF_TIMEOUT) {
            code = say_failure(&err);
            break;
        }
    }
    hf_free(before);
    return code;
}

/* How long to pause after a view that took `took_us` to read. Where changes are told, a busy store tells of the next one at once. */
static int pause_ms(const struct watching *watching, int64_t took_us)
{
    int64_t share_ms =
        took_us / 1000 > INT_MAX / LOOK_SHARE ? INT_MAX : took_us * LOOK_SHARE / 1000;

    return watching->told || share_ms > LOOK_AGAIN_MS ? (int)share_ms : LOOK_AGAIN_MS;
}

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int verb_watch(struct cli *cli)
{
    struct watching watching = { .cli = cli };
    struct cli_store store;
    int code;

    if (cli->stdout_closed)
        return out_finish(cli);
    code = look_open(cli, &store);
    if (code != EXIT_FINE)
        return code;
    watching.told = store.info.caps & HF_CAP_WATCH;
    if (!watching.told && !store.absent[0])
        say_more(cli, "engine %s does not report changes: polling every %d ms", store.info.engine,
                 LOOK_AGAIN_MS);

    code = watch_loop(&watching, &store);
    store_close(&store);
    if (code != EXIT_FINE || watching.write_error == 0 || watching.write_error == EPIPE)
        return code;
    say_error("write error: %s", strerror(watching.write_error));
    return EXIT_OUTPUT;
}

/* ---- what changed ------------------------------------------------------------------------ */

static void tell(const struct watching *watching, const char *event, const hf_entry *entry,
                 const hf_holder *holder);
static void tell_waiters(const struct watching *watching, const hf_entry *entry, size_t count);

static const hf_entry *find_entry(const hf_view *view, const hf_entry *like)
{
    size_t low = 0, high = hf_view_count(view);

    while (low < high) { /* entries are sorted by name */
        size_t middle = low + (high - low) / 2;
        const hf_entry *entry = hf_view_entry(view, middle);
        size_t shorter = entry->name_len < like->name_len ? entry->name_len : like->name_len;
        int order = memcmp(entry->name, like->name, shorter);

        if (order == 0 && entry->name_len == like->name_len)
            return entry;
        if (order < 0 || (order == 0 && entry->name_len < like->name_len))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The first token of its block names a lease; after local passes the current one has grown. */
static const hf_holder *find_holder(const hf_entry *entry, const hf_holder *like)
{
    for (size_t i = 0; entry && i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);

        if (holder->first == like->first && holder->token == like->token)
            return holder;
    }
    return NULL;
}

static void compare(const struct watching *watching, const hf_view *before, const hf_view *after)
{
    for (size_t i = 0; i < hf_view_count(before); i++) {
        const hf_entry *was = hf_view_entry(before, i);
        const hf_entry *is = find_entry(after, was);

        for (size_t h = 0; h < was->holder_count; h++)
            if (!find_holder(is, hf_entry_holder(was, h)))
                tell(watching, "freed", was, hf_entry_holder(was, h));
        if (!is && was->waiter_count > 0)
            tell_waiters(watching, was, 0);
    }

    for (size_t i = 0; i < hf_view_count(after); i++) {
        const hf_entry *is = hf_view_entry(after, i);
        const hf_entry *was = find_entry(before, is);

        for (size_t h = 0; h < is->holder_count; h++)
            if (!find_holder(was, hf_entry_holder(is, h)))
                tell(watching, "held", is, hf_entry_holder(is, h));
        if (is->waiter_count != (was ? was->waiter_count : 0))
            tell_waiters(watching, is, is->waiter_count);
    }
}

/* ---- telling it ---------------------------------------------------------------------------- */

static void print_time(void)
{
    struct timespec now;
    struct tm local;
    char text[16];

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(text, sizeof text, "%H:%M:%S", &local);
    printf("%s.%03ld  ", text, now.tv_nsec / 1000000);
}

static json_t *event_json(const struct watching *watching, const char *event, const hf_entry *entry)
{
    json_t *object = json_object();

    json_object_set_new(object, "event", json_string(event));
    json_object_set_new(object, "first", json_boolean(watching->first));
    json_set_name(object, entry->name, entry->name_len);
    json_object_set_new(object, "kind", json_string(kind_word(entry->kind)));
    return object;
}

static void tell(const struct watching *watching, const char *event, const hf_entry *entry,
                 const hf_holder *holder)
{
    char token[CELL_MAX];

    if (watching->cli->args.json) {
        json_t *object = event_json(watching, event, entry);

        json_object_set_new(object, "holder", json_holder(holder));
        json_print(object, false);
        return;
    }
    print_time();
    printf("%-8s %s  token %s  %s\n", event, safe(entry->name, entry->name_len),
           token_words(holder->token, token), safe_label(holder->label));
}

static void tell_waiters(const struct watching *watching, const hf_entry *entry, size_t count)
{
    if (!watching->tracked)
        return;
    if (watching->cli->args.json) {
        json_t *object = event_json(watching, "waiters", entry);

        json_object_set_new(object, "waiters", json_integer((json_int_t)count));
        json_print(object, false);
        return;
    }
    print_time();
    printf("%-8s %s  %zu\n", "waiters", safe(entry->name, entry->name_len), count);
}
