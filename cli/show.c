/* SPDX-License-Identifier: MIT */
/* `holdfast show NAME`: every holder and every waiter of one name. */
#include "grid.h"
#include "look.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>

/* A name that nobody holds or waits for has no entry: this is its JSON form. */
static json_t *free_json(const struct cli *cli, bool tracked)
{
    json_t *object = json_object();

    json_set_name(object, cli->args.name, strlen(cli->args.name));
    json_object_set_new(object, "kind", json_null());
    json_object_set_new(object, "capacity", json_null());
    json_object_set_new(object, "resized", json_false());
    json_object_set_new(object, "taken", json_integer(0));
    json_object_set_new(object, "closed_ms", json_i64(0));
    json_object_set_new(object, "holders", json_array());
    json_object_set_new(object, "waiters", tracked ? json_array() : json_null());
    return object;
}

static void print_json(const struct cli *cli, const struct cli_store *store, const hf_view *view)
{
    const char *location = store->info.location;
    json_t *object = view && hf_view_count(view)
                         ? json_entry(hf_view_entry(view, 0), hf_view_waiters_tracked(view))
                         : free_json(cli, view && hf_view_waiters_tracked(view));

    json_object_set_new(object, "store", json_text(location, strlen(location)));
    json_object_set_new(object, "engine", json_string(store->info.engine));
    json_print(object, true);
}

static char *pid_words(int64_t pid, char buf[CELL_MAX])
{
    if (pid <= 0)
        return strcpy(buf, "-");
    snprintf(buf, CELL_MAX, "%" PRId64, pid);
    return buf;
}

/* "2", or with their numbers "2: 0,3". What does not fit is left out. */
static void permits_words(const hf_holder *holder, char buf[CELL_MAX])
{
    size_t len = (size_t)snprintf(buf, CELL_MAX, "%" PRIu32, holder->permits);

    for (uint32_t i = 0; i < holder->slot_count && len + 16 < CELL_MAX; i++)
        len += (size_t)snprintf(buf + len, CELL_MAX - len, "%s%" PRIu32, i ? "," : ": slot ",
                                holder->slots[i]);
}

static void print_holders(const struct cli *cli, const hf_entry *entry)
{
    struct grid grid;

    grid_begin(&grid, "HOLDER", "TOKEN", "PERMITS", "AGE", "TTL", "PID", "LABEL", NULL);
    for (size_t i = 0; i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);
        bool writer = entry->kind == HF_KIND_SHARED && holder->permits == entry->capacity;
        bool upgrades = entry->kind == HF_KIND_SHARED && !writer && holder->permits > 1;
        char number[CELL_MAX], token[CELL_MAX], permits[CELL_MAX], age[CELL_MAX], ttl[CELL_MAX];
        char pid[CELL_MAX];

        snprintf(number, sizeof number, "%zu%s", i + 1,
                 holder->detached  ? " detached"
                 : holder->idle    ? " idle"
                 : holder->lingers ? " lingers"
                 : holder->watched ? " watched"
                                   : "");
        permits_words(holder, permits);
        grid_row(&grid, number, token_words(holder->token, token),
                 writer     ? "all"
                 : upgrades ? "1, may upgrade"
                            : permits,
                 duration_words(holder->age_ms, age), duration_words(holder->ttl_ms, ttl),
                 pid_words(holder->pid, pid), safe_label(holder->label));
    }
    grid_end(&grid, cli);
}

static const char *wants(const hf_waiter *waiter, char buf[CELL_MAX])
{
    if (waiter->kind == HF_KIND_SHARED)
        return "shared";
    if (waiter->kind == HF_KIND_EXCLUSIVE)
        return "exclusive";
    if (waiter->kind == HF_KIND_UPGRADEABLE)
        return "upgradeable";
    snprintf(buf, CELL_MAX, "%" PRIu32, waiter->permits);
    return buf;
}

static void print_waiters(const struct cli *cli, const hf_entry *entry)
{
    struct grid grid;

    grid_begin(&grid, "WAITER", "WANTS", "AGE", "PID", "LABEL", NULL);
    for (size_t i = 0; i < entry->waiter_count; i++) {
        const hf_waiter *waiter = hf_entry_waiter(entry, i);
        char position[CELL_MAX], permits[CELL_MAX], age[CELL_MAX], pid[CELL_MAX];

        snprintf(position, sizeof position, "%" PRIu32, waiter->position);
        grid_row(&grid, position, wants(waiter, permits), duration_words(waiter->age_ms, age),
                 pid_words(waiter->pid, pid), safe_label(waiter->label));
    }
    grid_end(&grid, cli);
}

static void print_text(const struct cli *cli, const hf_view *view)
{
    const hf_entry *entry = hf_view_count(view) ? hf_view_entry(view, 0) : NULL;
    const char *name = safe(cli->args.name, strlen(cli->args.name));
    char taken[CELL_MAX], closed[CELL_MAX];

    if (!entry) {
        printf("%s: free\n", name);
        return;
    }

    printf("%s: %s, %s%s\n", name, kind_word(entry->kind), taken_words(entry, taken),
           entry->resized ? ", its size was set" : "");
    if (entry->closed_ms > 0)
        printf("closed for %s by a lock delay\n", duration_words(entry->closed_ms, closed));
    if (entry->holder_count > 0)
        print_holders(cli, entry);
    if (entry->waiter_count > 0)
        print_waiters(cli, entry);
    else
        puts(hf_view_waiters_tracked(view) ? "no waiters" : "waiters: not tracked by this engine");
}

int verb_show(struct cli *cli)
{
    struct cli_store store;
    hf_view *view = NULL;
    int code = need_name(cli);

    if (code == EXIT_FINE)
        code = look_open(cli, &store);
    if (code != EXIT_FINE)
        return code;

    code = look_view(&store, cli->args.name, false, &view);
    if (code == EXIT_FINE) {
        if (cli->args.json)
            print_json(cli, &store, view);
        else if (view && !(cli->args.check && cli->args.quiet))
            print_text(cli, view);
        code = out_finish(cli);
        if (code == EXIT_FINE && cli->args.check && !look_is_free(view))
            code = EXIT_BUSY;
        hf_free(view);
    }
    store_close(&store);
    return code;
}
