/* SPDX-License-Identifier: MIT */
/* Waiting for what a cell will say: see vigil.h. On the calling thread. */
#include "prim/vigil.h"

#include "util/clock.h"
#include "util/error.h"

bool hfi_until(int64_t wait_ms, int64_t *ret_until_ms)
{
    if (wait_ms < 0 && wait_ms != HF_FOREVER)
        return false;
    *ret_until_ms = wait_ms == HF_FOREVER ? HFI_NEVER : hfi_after_ms(hfi_now_ms(), wait_ms);
    return true;
}

static int64_t next_pause(int64_t pause_ms)
{
    if (pause_ms == 0)
        return HFI_LOOK_FIRST_MS;
    return pause_ms * 2 < HFI_LOOK_LAST_MS ? pause_ms * 2 : HFI_LOOK_LAST_MS;
}

/* What a look could not settle is about somebody else (that a dead one breaks it up), and never about our own
 * part: the next look will. */
static bool is_unsettled(hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_UNKNOWN || status == HF_BUSY;
}

static hf_status look_once(struct hfi_vigil *vigil, hfi_look_fn *look, void *arg,
                           uint64_t *ret_version, hf_error *inner)
{
    struct hfi_cell cell;
    hf_status status = hfi_cell_read(vigil->prim, &cell, inner);

    vigil->living = false;
    if (status != HF_OK)
        return status;
    *ret_version = cell.version;
    vigil->due = hfi_now_ms() >= vigil->next_ms;
    status = look(vigil, &cell, arg, inner);
    hfi_cell_forget(&cell);
    if (vigil->due) {
        vigil->pause_ms = next_pause(vigil->pause_ms);
        vigil->next_ms = hfi_now_ms() + vigil->pause_ms;
    }
    return status;
}

/* When to look again although nothing has changed. */
static int64_t next_look(const struct hfi_vigil *vigil, bool absent)
{
    int64_t next_ms = absent ? hfi_now_ms() + HFI_LOOK_LAST_MS : vigil->next_ms;

    return (vigil->living || absent) && next_ms < vigil->until_ms ? next_ms : vigil->until_ms;
}

hf_status hfi_vigil(struct hfi_vigil *vigil, hfi_look_fn *look, void *arg, hf_error *err)
{
    uint64_t version = 0;
    hf_error inner;
    hf_status status, waited;
    bool absent;

    for (;;) {
        inner.text[0] = 0;
        status = look_once(vigil, look, arg, &version, &inner);
        absent = is_unsettled(status);
        if ((status != HF_TIMEOUT && !absent) || hfi_now_ms() >= vigil->until_ms)
            break;
        waited = hfi_cell_wait(vigil->prim, version, next_look(vigil, absent), vigil->cancel, NULL,
                               &inner);
        if (waited != HF_OK && waited != HF_TIMEOUT && waited != HF_UNAVAILABLE) {
            status = waited;
            break;
        }
    }
    if (is_unsettled(status))
        status = HF_UNAVAILABLE;
    if (status == HF_TIMEOUT)
        return hfi_prim_error(vigil->prim, status, NULL, err);
    return status == HF_OK ? HF_OK : hfi_prim_error(vigil->prim, status, &inner, err);
}

hf_status hfi_lives(const struct hfi_prim *prim, const void *name, size_t len, uint64_t token,
                    bool *ret_lives, hf_error *inner)
{
    uint64_t caps = hfi_store_engine(prim->store)->info.caps;
    const hf_entry *entry;
    hf_view *view = NULL;
    hf_status status;

    *ret_lives = true;
    if (!(caps & HF_CAP_INSPECT))
        return HF_OK;
    if (!(caps & HF_CAP_TOKEN))
        token = 0;
    status = hfi_inspect(prim->store, name, (uint32_t)len, &view, inner);
    if (status != HF_OK)
        return status;
    *ret_lives = false;
    entry = hf_view_entry(view, 0);
    for (size_t i = 0; entry && i < entry->holder_count; i++) {
        const hf_holder *holder = hf_entry_holder(entry, i);

        /* The store hears of local passes late: until then it tells an earlier token of the same block. */
        if (token == 0 || (holder->first <= token && holder->token <= token))
            *ret_lives = true;
    }
    hf_free(view);
    return HF_OK;
}
