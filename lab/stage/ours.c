/* SPDX-License-Identifier: MIT */
/* What our ways have in common; see ours.h. */
#include "ours.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void must(struct actor *me, hf_status status, const hf_error *err)
{
    if (status != HF_OK)
        actor_fails(me, "%s: %s", hf_status_name(status), err ? err->text : "");
}

hf_store *ours_open_at(struct actor *me, const char *url)
{
    hf_store *store;
    hf_error err;

    must(me, hf_open(url, NULL, &store, &err), &err);
    return store;
}

hf_store *ours_open(struct actor *me)
{
    return ours_open_at(me, me->stage->url);
}

void ours_prepare(struct actor *me)
{
    hf_store *store = ours_open(me);
    hf_view *view;
    hf_error err;

    must(me, hf_store_inspect(store, "lock", HF_CSTRING, 0, &view, &err), &err);
    hf_free(view);
    ours_close(me, store);
}

void ours_close(struct actor *me, hf_store *store)
{
    must(me, hf_close(store, 0), NULL);
}

static void heard(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    (void)lease, (void)text;
    if (event == HF_EVENT_LOST)
        note(arg, EV_LOST);
}

hf_acquire_request ours_request(struct actor *me, const char *name, int64_t ttl_ms)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    request.ttl_ms = ttl_ms;
    request.wait_ms = HF_FOREVER;
    request.label = me->id;
    request.on_event = heard;
    request.on_event_arg = me;
    return request;
}

/* ---- a guarded number ------------------------------------------------------------------------------ */

hf_status ours_claim(struct actor *me, hf_store *store, const char *name, int resource,
                     uint64_t token, int64_t *ret_value)
{
    void *bytes = NULL;
    size_t len = 0;
    char text[32] = "";
    hf_error err;
    hf_status status = hf_guard_claim(store, name, HF_CSTRING, token, &bytes, &len, &err);

    if (status == HF_FENCED) {
        note_refused(me, resource, token, 0);
        return status;
    }
    must(me, status, &err);
    if (bytes)
        memcpy(text, bytes, len < sizeof text - 1 ? len : sizeof text - 1);
    hf_free(bytes);
    *ret_value = strtoll(text, NULL, 10);
    note_claim(me, resource, token, *ret_value);
    return HF_OK;
}

hf_status ours_write(struct actor *me, hf_store *store, const char *name, int resource,
                     uint64_t token, int64_t value)
{
    char text[32];
    hf_error err;
    hf_status status;

    snprintf(text, sizeof text, "%" PRId64, value);
    status = hf_guard_set(store, name, HF_CSTRING, token, text, strlen(text), &err);
    if (status == HF_FENCED) {
        note_refused(me, resource, token, 0);
        return status;
    }
    must(me, status, &err);
    note_write(me, resource, value, token);
    return HF_OK;
}

int64_t guard_number(void *bytes)
{
    int64_t number = bytes ? strtoll(bytes, NULL, 10) : 0; /* they end with a NUL */

    hf_free(bytes);
    return number;
}

size_t guard_text(char text[32], int64_t number)
{
    return (size_t)snprintf(text, 32, "%" PRId64, number);
}

/* ---- the server's view -------------------------------------------------------------------------------- */

int observe_name(struct actor *me, uint64_t *ret_token)
{
    return ours_observe(me, me->stage->url, ret_token);
}

int ours_observe(struct actor *me, const char *url, uint64_t *ret_token)
{
    static hf_store *store; /* of this process, which does nothing else */
    hf_view *view;
    const hf_entry *entry;
    const hf_holder *holder;
    int owner = -1;

    if (!store && hf_open(url, NULL, &store, NULL) != HF_OK)
        return -2;
    if (hf_store_inspect(store, me->arg, HF_CSTRING, 0, &view, NULL) != HF_OK)
        return -2;
    entry = hf_view_entry(view, 0);
    holder = entry ? hf_entry_holder(entry, 0) : NULL;
    if (holder) {
        *ret_token = holder->token;
        owner = lane_of_id(me->stage, holder->label, strlen(holder->label));
    }
    hf_free(view);
    return owner;
}
