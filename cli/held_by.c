/* SPDX-License-Identifier: MIT */
/*
 * What a `run` or a `lock` that was refused says about the holder. One look, after the failure only, on a thread of its own: a
 * store that does not answer delays the failure by a moment and no more, and then nothing is said about a holder.
 *
 * Main thread, and that of within().
 */
#include "acquire.h"

#include "look.h"
#include "within.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS 1000 /* how long the failure may take longer for that */

/* A thread that is left to its work keeps it: its names are those of the command line, which stay. */
struct looking {
    hf_store *store;
    const char *name; /* and all `also`; or each of `any` instead, unless that is NULL */
    const struct texts *also, *any;
    hf_view *view; /* of the first name that is held; NULL: none is, or it is not known */
};

static size_t names(const struct looking *looking)
{
    if (looking->any)
        return looking->any->count;
    return 1 + (looking->also ? looking->also->count : 0);
}

static void look(void *arg)
{
    struct looking *looking = arg;

    for (size_t i = 0; i < names(looking); i++) {
        const char *name = looking->any ? looking->any->items[i]
                           : i          ? looking->also->items[i - 1]
                                        : looking->name;
        hf_view *view = NULL;

        if (hf_store_inspect(looking->store, name, strlen(name), 0, &view, NULL) != HF_OK)
            return;
        if (look_is_held(view)) {
            looking->view = view;
            return;
        }
        hf_free(view);
    }
}

static size_t say_since(int64_t age_ms, char *text, size_t room)
{
    time_t since = time(NULL) - (time_t)(age_ms / 1000);
    char age[CELL_MAX], at[32];
    struct tm tm;

    if (!localtime_r(&since, &tm) || strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        return 0;
    return (size_t)snprintf(text, room, ", for %s, since %s", duration_words(age_ms, age), at);
}

/* `named`: there are several names, so say which. */
static void describe(const hf_entry *entry, bool named, char text[HELD_BY_MAX])
{
    const hf_holder *holder = hf_entry_holder(entry, 0);
    char closed[CELL_MAX];
    size_t used = 2;

    strcpy(text, "; ");
    if (named)
        used += (size_t)snprintf(text + used, HELD_BY_MAX - used, "'%.100s' is ",
                                 safe(entry->name, entry->name_len));
    if (!holder) {
        snprintf(text + used, HELD_BY_MAX - used, "closed for %s by a lock delay",
                 duration_words(entry->closed_ms, closed));
        return;
    }
    used += (size_t)snprintf(text + used, HELD_BY_MAX - used, "held by %.200s",
                             safe_label(holder->label));
    if (holder->pid > 0)
        used += (size_t)snprintf(text + used, HELD_BY_MAX - used, ", pid %" PRId64, holder->pid);
    used += say_since(holder->age_ms, text + used, HELD_BY_MAX - used);
    if (entry->holder_count > 1)
        snprintf(text + used, HELD_BY_MAX - used, ", and by %zu more", entry->holder_count - 1);
}

void held_by(const struct acquiring *acquiring, char ret_text[HELD_BY_MAX])
{
    struct looking *looking;

    ret_text[0] = 0;
    if (!(acquiring->store->info.caps & HF_CAP_INSPECT))
        return;
    looking = must_alloc(sizeof *looking);
    *looking = (struct looking){ .store = acquiring->store->store,
                                 .name = acquiring->cli->args.name,
                                 .also = acquiring->also };
    if (acquiring->any && acquiring->any->count > 0)
        looking->any = acquiring->any;
    if (!within(LOOK_MS, look, looking))
        return; /* its thread has it */
    if (looking->view)
        describe(hf_view_entry(looking->view, 0), names(looking) > 1, ret_text);
    hf_free(looking->view);
    free(looking);
}
