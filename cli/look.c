/* SPDX-License-Identifier: MIT */
/* What ls, show and watch have in common. */
#include "look.h"

#include "util/text.h"

#include <inttypes.h>
#include <string.h>

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

char *taken_words(const hf_entry *entry, char buf[CELL_MAX])
{
    if (entry->kind != HF_KIND_SHARED && entry->kind != HF_KIND_EXCLUSIVE)
        snprintf(buf, CELL_MAX, "%" PRIu32 "/%" PRIu32, entry->taken, entry->capacity);
    else if (entry->taken == entry->capacity && entry->taken > 0)
        strcpy(buf, "writer");
    else
        snprintf(buf, CELL_MAX, "%" PRIu32 " reader%s", entry->taken, entry->taken == 1 ? "" : "s");
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
