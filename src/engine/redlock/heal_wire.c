/* SPDX-License-Identifier: MIT */
/*
 * The commands and answers about epochs, and the texts for decisions that only a person can make.
 * No state: any thread.
 */
#include "engine/redlock/heal.h"

#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- to a node ------------------------------------------------------------------------ */

static void add_epoch(struct hfi_command *command, const struct hfi_epoch *epoch)
{
    double number = (double)epoch->number;
    unsigned char bytes[REDLOCK_EPOCH_LEN];
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    memcpy(bytes + 8, epoch->id, HFI_EPOCH_ID);
    hfi_command_add(command, bytes, sizeof bytes);
}

void redlock_say_mark(struct hfi_command *command, const unsigned char *marker,
                      int64_t overwrite_ms)
{
    hfi_command_add(command, marker, HFI_EPOCH_ID);
    hfi_command_add_number(command, overwrite_ms);
}

void redlock_say_seal(struct hfi_command *command, const struct hfi_epoch *expected,
                      const struct hfi_epoch *epoch)
{
    add_epoch(command, expected);
    add_epoch(command, epoch);
}

void redlock_say_install(struct hfi_command *command, const unsigned char *marker,
                         const struct hfi_node_view *as, const struct hfi_epoch *epoch,
                         uint64_t floor)
{
    hfi_command_add(command, marker, HFI_EPOCH_ID);
    add_epoch(command, epoch);
    hfi_command_add(command, as->cluster, HFI_EPOCH_ID);
    hfi_command_add_number(command, as->n);
    hfi_command_add_number(command, as->max_ttl_ms);
    hfi_command_add_number(command, (int64_t)floor);
}

/* ---- from a node ---------------------------------------------------------------------- */

static bool number(const struct hfi_reply *reply, size_t index, uint64_t limit, uint64_t *ret_value)
{
    const struct hfi_reply *item = hfi_reply_at(reply, index, HFI_REPLY_INTEGER);

    if (!item || item->integer < 0 || (uint64_t)item->integer > limit)
        return false;
    *ret_value = (uint64_t)item->integer;
    return true;
}

/* `S epoch cluster n max_ttl top floor names` */
static bool read_ready(const struct hfi_reply *reply, struct redlock_told *ret_told)
{
    const struct hfi_reply *cluster = hfi_reply_at(reply, 2, HFI_REPLY_TEXT);
    struct hfi_node_view *view = &ret_told->view;
    uint64_t n, max_ttl;

    if (!cluster || cluster->len != HFI_EPOCH_ID ||
        !redlock_read_epoch(hfi_reply_at(reply, 1, HFI_REPLY_TEXT), &view->epoch) ||
        !number(reply, 3, 1u << 16, &n) || !number(reply, 4, HF_DURATION_MAX_MS, &max_ttl) ||
        !number(reply, 5, HFI_TOKEN_LIMIT, &view->top) ||
        !number(reply, 6, HFI_TOKEN_LIMIT, &ret_told->floor) ||
        !number(reply, 7, INT64_MAX, &ret_told->names))
        return false;
    memcpy(view->cluster, cluster->text, HFI_EPOCH_ID);
    view->n = (unsigned)n;
    view->max_ttl_ms = (int64_t)max_ttl;
    if (view->top < ret_told->floor) /* a name without a counter has the floor for one */
        view->top = ret_told->floor;
    view->state = HFI_NODE_READY;
    return true;
}

/* `U marker age` */
static bool read_empty(const struct hfi_reply *reply, struct redlock_told *ret_told)
{
    const struct hfi_reply *marker = hfi_reply_at(reply, 1, HFI_REPLY_TEXT);
    const struct hfi_reply *age = hfi_reply_at(reply, 2, HFI_REPLY_INTEGER);

    if (!marker || !age || (marker->len != 0 && marker->len != HFI_EPOCH_ID))
        return false;
    if (marker->len) {
        memcpy(ret_told->view.marker, marker->text, HFI_EPOCH_ID);
        ret_told->view.marked = true;
        /* Its clock may have been set back: then the marker counts as new. */
        ret_told->view.age_ms = age->integer > 0 ? age->integer : 0;
    }
    ret_told->view.state = HFI_NODE_EMPTY;
    return true;
}

bool redlock_read_status(const struct hfi_reply *reply, struct redlock_told *ret_told)
{
    struct redlock_told told = { .view = { .state = HFI_NODE_UNKNOWN } };
    char letter = hfi_reply_letter(reply);
    bool ok = letter == 'S'   ? read_ready(reply, &told)
              : letter == 'U' ? read_empty(reply, &told)
                              : false;

    if (ok)
        *ret_told = told;
    return ok;
}

const unsigned char *redlock_read_marker(const struct hfi_reply *reply)
{
    const struct hfi_reply *marker = hfi_reply_at(reply, 1, HFI_REPLY_TEXT);

    return hfi_reply_letter(reply) == 'K' && marker && marker->len == HFI_EPOCH_ID
               ? (const unsigned char *)marker->text
               : NULL;
}

/* ---- to a person ---------------------------------------------------------------------- */

struct words {
    char text[HF_ERROR_TEXT_MAX];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *format, ...)
{
    va_list args;
    int more;

    va_start(args, format);
    more = vsnprintf(w->text + w->used, sizeof w->text - w->used, format, args);
    va_end(args);
    if (more > 0)
        w->used +=
            (size_t)more < sizeof w->text - w->used ? (size_t)more : sizeof w->text - w->used - 1;
}

/* Most begin with the node's address already. */
const char *redlock_why(const struct hfi_redis_conf *conf, unsigned node, const hf_error *why)
{
    const char *shown = conf->url.hosts[node].shown;
    size_t len = strlen(shown);

    return strncmp(why->text, shown, len) == 0 && strncmp(why->text + len, ": ", 2) == 0
               ? why->text + len + 2
               : why->text;
}

/* "A, B and C" of the nodes of a set. */
static void say_nodes(struct words *w, const struct hfi_redis_conf *conf, uint32_t nodes,
                      const hf_error *const *whys)
{
    const char *between = "";

    for (unsigned i = 0; nodes; i++, nodes >>= 1) {
        if (!(nodes & 1))
            continue;
        say(w, "%s%.100s", between, conf->url.hosts[i].shown);
        if (whys && whys[i] && whys[i]->text[0])
            say(w, " (%.120s)", redlock_why(conf, i, whys[i]));
        between = nodes >> 1 & ((nodes >> 1) - 1) ? ", " : " and ";
    }
}

static uint32_t in_state(const struct hfi_node_view *views, unsigned n, enum hfi_node_state state)
{
    uint32_t nodes = 0;

    for (unsigned i = 0; i < n; i++)
        if (views[i].state == state)
            nodes |= 1u << i;
    return nodes;
}

static unsigned count(uint32_t nodes)
{
    return redlock_count(nodes);
}

static void say_lost(struct words *w, const struct hfi_redis_conf *conf,
                     const struct hfi_node_view *views, unsigned n)
{
    uint32_t empty = in_state(views, n, HFI_NODE_EMPTY);

    say(w, "%u of %u nodes have lost their data (", count(empty), n);
    say_nodes(w, conf, empty, NULL);
    say(w,
        "), and the others are too few to know which tokens were given out. Give at least %u nodes "
        "their data back; or let go of the old tokens: `holdfast redlock join --force`",
        hfi_majority(n));
}

static void say_few(struct words *w, const struct hfi_redis_conf *conf,
                    const struct hfi_node_view *views, unsigned n, const hf_error *const *whys)
{
    uint32_t empty = in_state(views, n, HFI_NODE_EMPTY);
    uint32_t unknown = in_state(views, n, HFI_NODE_UNKNOWN);

    if (empty) {
        say(w, "%u of %u nodes have no data (", count(empty), n);
        say_nodes(w, conf, empty, NULL);
        say(w, "); the others are needed, but do not answer: ");
    } else {
        say(w, "%u of %u nodes answer, and %u are needed; these do not: ", n - count(unknown), n,
            hfi_majority(n));
    }
    say_nodes(w, conf, unknown, whys);
}

/* The nodes that are not of the cluster that most are of. */
static uint32_t strangers(const struct hfi_node_view *views, unsigned n)
{
    uint32_t best = 0;
    unsigned most = 0;

    for (unsigned i = 0; i < n; i++) {
        uint32_t others = 0;
        unsigned same = 0;

        if (views[i].state != HFI_NODE_READY)
            continue;
        for (unsigned k = 0; k < n; k++) {
            bool ready = views[k].state == HFI_NODE_READY;
            bool is = ready && memcmp(views[k].cluster, views[i].cluster, HFI_EPOCH_ID) == 0;

            same += is;
            if (ready && !is)
                others |= 1u << k;
        }
        if (same > most) {
            most = same;
            best = others;
        }
    }
    return best;
}

static void say_count(struct words *w, const struct hfi_redis_conf *conf,
                      const struct hfi_node_view *views, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (views[i].state == HFI_NODE_READY && views[i].n != n) {
            say(w,
                "%.100s is one of %u nodes, and the URL names %u: majorities of different lists "
                "need not meet, so every client must name the same nodes",
                conf->url.hosts[i].shown, views[i].n, n);
            return;
        }
}

hf_status redlock_stuck_text(const struct hfi_redis_conf *conf, const struct hfi_node_view *views,
                             unsigned n, enum hfi_stuck why, const hf_error *const *whys,
                             hf_error *err)
{
    struct words w = { .used = 0 };
    hf_status status = HF_UNAVAILABLE;
    uint32_t other;

    w.text[0] = 0;
    switch (why) {
    case HFI_STUCK_LOST:
        say_lost(&w, conf, views, n);
        status = HF_CORRUPT;
        break;
    case HFI_STUCK_CLUSTERS:
        other = strangers(views, n);
        say_nodes(&w, conf, other, NULL);
        say(&w, " belong%s to another cluster than the other nodes of the URL",
            count(other) == 1 ? "s" : "");
        status = HF_CONFIG;
        break;
    case HFI_STUCK_COUNT:
        say_count(&w, conf, views, n);
        status = HF_CONFIG;
        break;
    default:
        say_few(&w, conf, views, n, whys);
    }
    return hfi_error_set(err, status, 0, "%s", w.text);
}
