/* SPDX-License-Identifier: MIT */
/* What ls, show and watch have in common. */
#include "look.h"

#include "util/text.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#define LOOK_AGAIN_MS 1000 /* between two views, where no event tells of a change */
#define LOOK_LEAST_MS 20   /* a lease at its very end: it may have been renewed */

int look_open(const struct cli *cli, struct cli_store *ret_store)
{
    int code = store_look(cli, NULL, ret_store);

    if (code != EXIT_FINE)
        return code;
    if (ret_store->absent[0] || ret_store->info.caps & HF_CAP_INSPECT)
        return EXIT_FINE;

    say_error("engine %s cannot list holders", ret_store->info.engine);
    store_close(ret_store);
    return EXIT_CONFIG;
}

int look_view(const struct cli_store *store, const char *name, bool glob, hf_view **ret_view)
{
    hf_status status;
    hf_error err;

    *ret_view = NULL;
    if (store->absent[0])
        return look_absent(store);
    status = hf_store_inspect(store->store, name, name ? strlen(name) : 0,
                              glob ? HF_INSPECT_FLAG_PATTERN : 0, ret_view, &err);
    if (status == HF_NOT_FOUND)
        return look_absent(store);
    return status == HF_OK ? EXIT_FINE : say_failure(&err);
}

int look_absent(const struct cli_store *store)
{
    say_error("no store yet at %s", store->info.location);
    return EXIT_FINE;
}

bool look_is_held(const hf_view *view)
{
    const hf_entry *entry = hf_view_entry(view, 0);

    return entry && (entry->holder_count > 0 || entry->closed_ms > 0);
}

bool look_is_free(const hf_view *view)
{
    const hf_entry *entry = view ? hf_view_entry(view, 0) : NULL;

    return !entry ||
           (entry->holder_count == 0 && entry->waiter_count == 0 && entry->closed_ms <= 0);
}

/* ---- waiting for changes ------------------------------------------------------------------- */

/* Some ends are no event: a ttl that expires, a holder that is killed while nobody waits for it. When could that be? */
static int64_t next_end_ms(const hf_view *view)
{
    const hf_entry *entry = hf_view_entry(view, 0);
    int64_t next_ms = entry && entry->closed_ms > 0 ? entry->closed_ms : HF_DURATION_MAX_MS;

    for (size_t i = 0; entry && i < entry->holder_count; i++) {
        int64_t ttl_ms = hf_entry_holder(entry, i)->ttl_ms;

        if (ttl_ms < 0) /* it ends with its process */
            ttl_ms = LOOK_AGAIN_MS;
        if (ttl_ms < next_ms)
            next_ms = ttl_ms;
    }
    return next_ms < LOOK_LEAST_MS ? LOOK_LEAST_MS : next_ms;
}

void look_changes_begin(struct cli_store *store, struct look_changes *ret_changes)
{
    *ret_changes = (struct look_changes){ .store = store, .told = store->info.caps & HF_CAP_WATCH };
    if (ret_changes->told && store->store)
        hf_store_wait(store->store, &ret_changes->seq, 0, NULL, NULL);
}

void look_changes_wait(struct look_changes *changes, const hf_view *view, int64_t limit_ms)
{
    int64_t pause_ms = next_end_ms(view);
    hf_status status = HF_UNSUPPORTED;

    if (!changes->told && pause_ms > LOOK_AGAIN_MS)
        pause_ms = LOOK_AGAIN_MS;
    if (pause_ms > limit_ms)
        pause_ms = limit_ms;
    if (changes->told)
        status = hf_store_wait(changes->store->store, &changes->seq, pause_ms, NULL, NULL);
    if (status != HF_OK && status != HF_TIMEOUT) /* nothing to wait for: let time pass */
        poll(NULL, 0, pause_ms < LOOK_AGAIN_MS ? (int)pause_ms : LOOK_AGAIN_MS);
}

/* ---- texts ------------------------------------------------------------------------------- */

char *taken_words(const hf_entry *entry, char buf[CELL_MAX])
{
    if (entry->kind != HF_KIND_SHARED && entry->kind != HF_KIND_EXCLUSIVE)
        snprintf(buf, CELL_MAX, "%" PRIu32 "/%" PRIu32, entry->taken, entry->capacity);
    else if (entry->taken == entry->capacity && entry->taken > 0)
        strcpy(buf, "writer");
    else /* not `taken`: an upgradeable reader weighs more than others there */
        snprintf(buf, CELL_MAX, "%zu reader%s", entry->holder_count,
                 entry->holder_count == 1 ? "" : "s");
    return buf;
}

char *duration_words(int64_t ms, char buf[CELL_MAX])
{
    if (ms < 0)
        return strcpy(buf, "-");
    return hfi_format_duration(ms, buf, CELL_MAX);
}

char *token_words(uint64_t token, char buf[CELL_MAX])
{
    if (token == 0)
        return strcpy(buf, "-");
    snprintf(buf, CELL_MAX, "%" PRIu64, token);
    return buf;
}

const char *safe(const void *bytes, size_t len)
{
    static char ring[4][HFI_QUOTED_MAX];
    static unsigned next;

    return hfi_quote_name(bytes, len, ring[next++ % 4], HFI_QUOTED_MAX);
}

const char *safe_label(const char *label)
{
    return label && *label ? safe(label, strlen(label)) : "-";
}
