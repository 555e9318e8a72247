/* SPDX-License-Identifier: MIT */
/*
 * What sessions hold, and the tags that say so: see session.h. Runs on the threads of
 * callers.
 *
 * A thread keeps the handles of its latest leases in memory of its own. It is not told when one of
 * them is released, perhaps by another thread: the number of a handle shows that it is old, and the
 * thread drops it when it next walks the list.
 */
#include "deadlock/session.h"

#include "core/store.h"
#include "core/table.h"
#include "core/thread.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/process.h"
#include "util/text.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

_Static_assert(HFI_HELD_MAX == HFI_HOLDS_MAX, "a thread remembers what a tag can name");
_Static_assert(HFI_TAG_MAX < HF_LABEL_MAX / 3 * 2, "a third of a label is left for people");

#define BITS(n)    ((UINT64_C(1) << (n)) - 1)
#define FLAG_TIMED 1u
#define FLAG_BARGE 2u
#define FLAG_ANY   4u

/* What one session holds: handles, the latest last. Some may have ended. */
struct held {
    hf_lease **handles;
    uint32_t *count;
};

struct hfi_scope {
    struct hfi_scope *next;
    uint64_t scope;
    hf_lease *handles[HFI_HOLDS_MAX];
    uint32_t count;
};

static hf_status ask_held(struct hfi_store *store, const struct hfi_checked_request *checked,
                          struct held held, struct hfi_tag *tag, hf_error *err);
static hf_status ask_scope(struct hfi_store *store, const struct hfi_checked_request *checked,
                           struct hfi_tag *tag, hf_error *err);
static void ask_text(struct hfi_store *store, const char *text, struct hfi_tag *tag);
static void prune(struct held held);
static struct hfi_scope *find_scope(struct hfi_scopes *scopes, uint64_t scope, bool make);

/* ---- tags --------------------------------------------------------------------------- */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* `count` letters, the highest bits first. */
static char *write_letters(char *to, uint64_t value, int count)
{
    while (count-- > 0)
        *to++ = letters[value >> (6 * count) & 63];
    return to;
}

static bool read_letters(const char **from, int count, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (; count > 0; count--, (*from)++) {
        const char *letter = **from ? strchr(letters, **from) : NULL;

        if (!letter)
            return false;
        value = value << 6 | (uint64_t)(letter - letters);
    }
    *ret_value = value;
    return true;
}

size_t hfi_tag_write(const struct hfi_tag *tag, char to[HFI_TAG_MAX])
{
    char *at = to;

    *at++ = HFI_TAG_MARK;
    at = write_letters(at,
                       (tag->timed ? FLAG_TIMED : 0) | (tag->barge ? FLAG_BARGE : 0) |
                           (tag->any > 0 ? FLAG_ANY : 0),
                       1);
    at = write_letters(at, tag->began, 4);
    at = write_letters(at, tag->session, 6);
    at = write_letters(at, tag->number, 2);
    if (tag->any > 0)
        at = write_letters(at, tag->any - 1, 1);
    for (uint32_t i = 0; i < tag->count; i++)
        at = write_letters(at, tag->holds[i], 8);
    return (size_t)(at - to);
}

bool hfi_tag_cut(char *label, struct hfi_tag *ret_tag)
{
    char *mark = strrchr(label, HFI_TAG_MARK);
    const char *at = mark ? mark + 1 : "";
    uint64_t flags, began, number, any = 0;

    if (!mark || !read_letters(&at, 1, &flags) || !read_letters(&at, 4, &began) ||
        !read_letters(&at, 6, &ret_tag->session) || !read_letters(&at, 2, &number) ||
        (flags & FLAG_ANY && !read_letters(&at, 1, &any)))
        return false;
    for (ret_tag->count = 0; *at; ret_tag->count++)
        if (ret_tag->count == HFI_HOLDS_MAX ||
            !read_letters(&at, 8, &ret_tag->holds[ret_tag->count]))
            return false;

    *mark = 0;
    ret_tag->timed = flags & FLAG_TIMED;
    ret_tag->barge = flags & FLAG_BARGE;
    ret_tag->any = flags & FLAG_ANY ? (uint32_t)any + 1 : 0;
    ret_tag->began = (uint32_t)began;
    ret_tag->number = (uint32_t)number;
    return true;
}

uint64_t hfi_hold_id(const uint64_t name_hash[2], uint64_t token)
{
    uint64_t what[3] = { name_hash[0], name_hash[1], token }, hash[2];

    hfi_hash128(what, sizeof what, hash);
    return hash[0] & BITS(48);
}

/* The id by which other processes find this lease in the store. */
static uint64_t id_of(const struct hfi_lease *lease)
{
    bool own = hfi_store_promises(lease->store)->tells_own;

    return hfi_hold_id(lease->claim.name.hash,
                       own ? hfi_claim_number(&lease->claim) : lease->claim.token);
}

/* ---- asking ---------------------------------------------------------------------------- */

/* A thread is the same session in all stores; a scope is a session of one store. */
static uint64_t session_id(uint64_t number, uintptr_t store)
{
    uint64_t what[3] = { hfi_process_id(), number, store }, hash[2];

    hfi_hash128(what, sizeof what, hash);
    return hash[0] & BITS(36);
}

/* Is a grant the only end of this wait? */
static bool for_ever(const hf_acquire_request *request)
{
    return request->wait_ms == HF_FOREVER && !request->cancel;
}

/* Fill in the fields that are the same in every tag of a request. */
static void complete(struct hfi_store *store, const struct hfi_checked_request *checked,
                     struct hfi_tag *tag)
{
    static _Atomic uint64_t waits;
    const hf_acquire_request *request = checked->request;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    tag->began = (uint32_t)((uint64_t)now.tv_sec & BITS(24));
    tag->number = (uint32_t)((hfi_process_id() + atomic_fetch_add(&waits, 1)) & BITS(12));
    tag->timed = !for_ever(request);
    tag->barge = request->flags & HF_FLAG_BARGE;
    tag->any = checked->any ? checked->any->any : 0;
    if (!tag->session)
        tag->session = request->scope ? session_id(request->scope, (uintptr_t)store)
                                      : session_id(hfi_thread_id(), 0);
}

hf_status hfi_session_ask(struct hfi_store *store, const struct hfi_checked_request *checked,
                          bool async, struct hfi_tag *ret_tag, hf_error *err)
{
    const hf_acquire_request *request = checked->request;
    hf_status status = HF_OK;

    ret_tag->count = 0;
    ret_tag->any = 0;
    ret_tag->session = 0;
    if (request->wait_ms == 0 || request->flags & HF_FLAG_NO_DEADLOCK_CHECK ||
        !store->detector.able)
        return HF_OK;
    if (checked->any && checked->any->session) { /* the first of them has asked */
        *ret_tag = *checked->any;
        return HF_OK;
    }

    if (request->scope)
        status = ask_scope(store, checked, ret_tag, err);
    else if (!async && hfi_self.held_count > 0)
        status = ask_held(store, checked, (struct held){ hfi_self.held, &hfi_self.held_count },
                          ret_tag, err);
    if (status != HF_OK)
        return status;

    if (request->session)
        ask_text(store, request->session, ret_tag);
    if (ret_tag->count > 0 || checked->any)
        complete(store, checked, ret_tag);
    if (checked->any)
        *checked->any = *ret_tag;
    return HF_OK;
}

/* Is the lease in this store, perhaps opened twice? With the lock of the lease. */
static bool same_store(const struct hfi_lease *lease, struct hfi_store *store)
{
    return lease->store == store ||
           (hfi_store_engine(lease->store) == hfi_store_engine(store) &&
            strcmp(lease->store->host.location, store->host.location) == 0);
}

/*
 * Does this lease of ours block our own request for ever? A reader that wants to write is refused
 * even with a time limit: another reader may want the same. Any other session that waits for itself
 * with a limit waits until that limit, as it asked. With the lock of the lease.
 */
static bool blocks_own_request(const struct hfi_lease *lease, struct hfi_store *store,
                               const struct hfi_checked_request *checked, uint64_t *taken)
{
    const hf_acquire_request *request = checked->request;
    const struct hfi_name *name = &lease->claim.name;

    if (name->len != checked->name_len || memcmp(name->bytes, checked->name, name->len) != 0 ||
        lease->claim.mode != checked->mode || lease->claim.capacity != checked->capacity)
        return false;
    if (checked->mode == HFI_MODE_RW && lease->claim.permits < checked->capacity &&
        checked->permits == checked->capacity)
        return true;
    if (request->flags & HF_FLAG_REENTRANT && lease->reentrant && lease->store == store)
        return false; /* reentrant: the lease is acquired again */
    if (checked->mode == HFI_MODE_SEMAPHORE && hfi_store_promises(store)->caps & HF_CAP_RESIZE)
        return false; /* only the store knows its size: the detector looks there */
    *taken += lease->claim.permits;
    return for_ever(request) && *taken + checked->permits > checked->capacity;
}

static hf_status own_block_error(struct hfi_store *store, const struct hfi_checked_request *checked,
                                 uint64_t token, hf_error *err)
{
    struct hfi_name name = { .bytes = checked->name, .len = checked->name_len };
    hf_error inner;

    if (checked->mode == HFI_MODE_RW && checked->permits == checked->capacity)
        hfi_error_set(&inner, HF_DEADLOCK, 0,
                      "%s: this session holds it itself (token %llu); a reader must release before "
                      "it can become the writer",
                      hf_status_text(HF_DEADLOCK), (unsigned long long)token);
    else
        hfi_error_set(&inner, HF_DEADLOCK, 0, "%s: this session holds it itself (token %llu)",
                      hf_status_text(HF_DEADLOCK), (unsigned long long)token);
    return hfi_store_error(store, "acquire", &name, HF_DEADLOCK, &inner, err);
}

/*
 * Note that the tag of a waiting session names this lease. A tag names a lease as the store knows
 * it, and a local pass does not change that. So such a lease is not passed on: else the tag would
 * say that the session holds what another one has. (A thread that releases does not wait.) With the
 * lock of the lease.
 */
static void note_named(struct hfi_lease *lease, uint64_t thread)
{
    lease->named_by = lease->named_by && lease->named_by != thread ? HFI_NAMED_ANY : thread;
}

/* A lease that is being converted does not block its own conversion, and need not be named: what waits for it waits behind the new
 * claim too. */
static bool is_replaced(const struct hfi_lease *lease, const struct hfi_checked_request *checked)
{
    return checked->replaced &&
           memcmp(lease->claim.owner, checked->replaced->owner, HFI_OWNER_LEN) == 0;
}

static hf_status ask_held(struct hfi_store *store, const struct hfi_checked_request *checked,
                          struct held held, struct hfi_tag *tag, hf_error *err)
{
    uint64_t taken = 0, blocked_by = 0;

    prune(held);
    for (uint32_t i = 0; i < *held.count && !blocked_by; i++) {
        struct hfi_lease *lease;
        struct hfi_wait *next;

        if (hfi_lease_lock(held.handles[i], &lease, &next) != HF_OK)
            continue;
        if (!lease->orphan && !hfi_lease_lost(lease) && same_store(lease, store) &&
            !is_replaced(lease, checked)) {
            /* Of several names another one may come free. */
            if (!checked->any && blocks_own_request(lease, store, checked, &taken))
                blocked_by = lease->token;
            note_named(lease, checked->request->scope ? HFI_NAMED_ANY : hfi_thread_id());
            tag->holds[tag->count++] = id_of(lease);
        }
        hfi_lease_unlock(lease, next);
    }
    return blocked_by ? own_block_error(store, checked, blocked_by, err) : HF_OK;
}

static hf_status ask_scope(struct hfi_store *store, const struct hfi_checked_request *checked,
                           struct hfi_tag *tag, hf_error *err)
{
    hf_lease *handles[HFI_HOLDS_MAX] = { NULL };
    struct hfi_scope *found;
    uint32_t count = 0;

    /* A copy: another thread of this scope may change the list while we look at the leases. */
    pthread_mutex_lock(&store->scopes.lock);
    found = find_scope(&store->scopes, checked->request->scope, false);
    if (found) {
        count = found->count;
        memcpy(handles, found->handles, sizeof handles);
    }
    pthread_mutex_unlock(&store->scopes.lock);
    return ask_held(store, checked, (struct held){ handles, &count }, tag, err);
}

/* ---- remembering ------------------------------------------------------------------------- */

/* Forget what has ended. */
static void prune(struct held held)
{
    uint64_t process = hfi_process_id();
    uint32_t count = 0;

    for (uint32_t i = 0; i < *held.count; i++) {
        struct hfi_lease *lease = hfi_slot_find(&hfi_leases, held.handles[i]);

        if (lease && hfi_slot_ours(&lease->slot, process))
            held.handles[count++] = held.handles[i];
    }
    *held.count = count;
}

static void remember(struct held held, hf_lease *handle)
{
    if (*held.count == HFI_HOLDS_MAX)
        prune(held);
    if (*held.count == HFI_HOLDS_MAX) {
        (*held.count)--;
        memmove(held.handles, held.handles + 1, *held.count * sizeof *held.handles);
    }
    held.handles[(*held.count)++] = handle;
}

void hfi_session_holds(struct hfi_store *store, uint64_t scope, hf_lease *handle)
{
    struct hfi_scope *found;

    if (!scope) {
        remember((struct held){ hfi_self.held, &hfi_self.held_count }, handle);
        return;
    }
    pthread_mutex_lock(&store->scopes.lock);
    found = find_scope(&store->scopes, scope, true);
    if (found)
        remember((struct held){ found->handles, &found->count }, handle);
    pthread_mutex_unlock(&store->scopes.lock);
}

/* Frees the scopes that hold nothing any more. NULL: there is no such scope, or no memory. */
static struct hfi_scope *find_scope(struct hfi_scopes *scopes, uint64_t scope, bool make)
{
    uint64_t hash[2];
    struct hfi_scope **at, *one, *found = NULL;

    hfi_hash128(&scope, sizeof scope, hash);
    at = &scopes->lists[hash[0] % HFI_SCOPE_LISTS];
    while ((one = *at)) {
        prune((struct held){ one->handles, &one->count });
        if (one->scope == scope)
            found = one;
        if (one->count > 0 || one == found) {
            at = &one->next;
        } else {
            *at = one->next;
            hfi_free(one);
        }
    }
    if (found || !make)
        return found;

    found = hfi_calloc(1, sizeof *found);
    if (found) {
        found->scope = scope;
        *at = found;
    }
    return found;
}

void hfi_scopes_init(struct hfi_scopes *scopes, bool fresh)
{
    if (fresh)
        pthread_mutex_init(&scopes->lock, NULL);
    memset(scopes->lists, 0, sizeof scopes->lists);
}

void hfi_scopes_done(struct hfi_scopes *scopes)
{
    for (int i = 0; i < HFI_SCOPE_LISTS; i++)
        for (struct hfi_scope *one = scopes->lists[i], *next; one; one = next) {
            next = one->next;
            hfi_free(one);
        }
    memset(scopes->lists, 0, sizeof scopes->lists);
}

/* ---- across processes --------------------------------------------------------------------- */

/* "<session>.<store><lease>.<store><lease>...": 6, and 8 letters each. */
#define TEXT_SESSION 6
#define TEXT_ONE     (1 + 8 + 8)

_Static_assert(TEXT_SESSION + TEXT_ONE * HFI_HOLDS_MAX < HF_SESSION_TEXT_MAX, "it fits");

static uint64_t store_id(struct hfi_store *store)
{
    uint64_t hash[2];

    hfi_hash128(store->host.location, strlen(store->host.location), hash);
    return hash[0] & BITS(48);
}

/* Is it the text of a session? How many leases are in it: *ret_count. */
static bool read_text(const char *text, uint64_t *ret_session, size_t *ret_count)
{
    size_t count = 0;

    if (!read_letters(&text, TEXT_SESSION, ret_session))
        return false;
    for (uint64_t ignored; *text; count++)
        if (count == HFI_HOLDS_MAX || *text++ != '.' || !read_letters(&text, 8, &ignored) ||
            !read_letters(&text, 8, &ignored))
            return false;
    *ret_count = count;
    return true;
}

static void ask_text(struct hfi_store *store, const char *text, struct hfi_tag *tag)
{
    uint64_t session, at = 0, lease = 0, here = store_id(store);
    size_t count;

    if (!read_text(text, &session, &count))
        return; /* not a text of ours: the environment variable was set by hand */
    tag->session = session;
    text += TEXT_SESSION;
    for (size_t i = 0; i < count && tag->count < HFI_HOLDS_MAX; i++) {
        text++;
        (void)read_letters(&text, 8, &at);
        (void)read_letters(&text, 8, &lease);
        if (at == here)
            tag->holds[tag->count++] = lease;
    }
}

hf_status hf_session_get(hf_lease *handle, const char *around, char ret_text[HF_SESSION_TEXT_MAX],
                         hf_error *err)
{
    struct hfi_lease *lease;
    struct hfi_wait *next;
    uint64_t session = 0;
    size_t count = 0;
    hf_status status;
    char *at = ret_text;

    if (!ret_text)
        return hfi_error_set(err, HF_INVALID, 0, "ret_text: NULL");
    status = hfi_lease_lock(handle, &lease, &next);
    if (status != HF_OK)
        return hfi_lease_refuse(status, err);
    if (lease->orphan || hfi_lease_lost(lease)) {
        hfi_lease_unlock(lease, next);
        return hfi_error_set(err, HF_LOST, 0, "lease: %s", hf_status_text(HF_LOST));
    }

    if (!around || !read_text(around, &session, &count))
        session = session_id(hfi_thread_id(), 0);
    at = write_letters(at, session, TEXT_SESSION);
    if (count > 0) { /* of too many, the latest */
        size_t skip = count == HFI_HOLDS_MAX ? 1 : 0;

        memmove(at, around + TEXT_SESSION + skip * TEXT_ONE, (count - skip) * TEXT_ONE);
        at += (count - skip) * TEXT_ONE;
    }
    *at++ = '.';
    at = write_letters(at, store_id(lease->store), 8);
    at = write_letters(at, id_of(lease), 8);
    *at = 0;
    note_named(lease, HFI_NAMED_ANY);
    hfi_lease_unlock(lease, next);
    return hfi_ok(err);
}
