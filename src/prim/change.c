/* SPDX-License-Identifier: MIT */
/* Changing a cell by a plan: see change.h. On the calling thread. */
#include "prim/change.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PAUSE_LAST_US 20000

static hf_status apply(const struct hfi_prim *prim, struct hfi_change *change,
                       uint64_t *ret_version, hf_error *inner)
{
    bool write = change->what == HFI_WRITE;

    if (change->what == HFI_KEEP) {
        *ret_version = change->found.version;
        return HF_OK;
    }
    return hfi_cell_swap(
        prim, change->found.version, write ? change->bytes.bytes + change->bytes.start : NULL,
        write ? change->bytes.len : 0, write ? change->ttl_ms : 0, ret_version, inner);
}

/* A step in the store has failed. If an earlier swap may have been done, that is what the caller must know, and
 * the step's own trouble is why it is not settled. */
static hf_status failed(bool doubt, hf_status status, hf_error *inner)
{
    char why[sizeof inner->text];

    if (!doubt || status == HF_OK || status == HF_UNKNOWN)
        return status;
    snprintf(why, sizeof why, "%s", inner->text[0] ? inner->text : hf_status_text(status));
    return hfi_error_set(inner, HF_UNKNOWN, 0, "it may have been done: %s", why);
}

/* Read, decide, swap: once. *ret_again: the swap came too late, or its outcome is unknown. */
static hf_status attempt(const struct hfi_prim *prim, hfi_plan_fn *plan, void *arg, bool *doubt,
                         uint64_t *ret_version, bool *ret_again, hf_error *inner)
{
    struct hfi_change change = { .what = HFI_KEEP, .doubt = *doubt };
    hf_status status;

    *ret_again = false;
    inner->text[0] = 0;
    status = hfi_cell_read(prim, &change.found, inner);
    if (status != HF_OK)
        return failed(*doubt, status, inner);
    status = plan(&change, arg, inner); /* which knows of the doubt: its word is good */
    if (status == HF_OK) {
        status = apply(prim, &change, ret_version, inner);
        if (status == HF_OK && change.what == HFI_REMOVE)
            *ret_version = 0;
        *ret_again = status == HF_BUSY || status == HF_UNKNOWN;
        *doubt |= status == HF_UNKNOWN;
        status = failed(*doubt, status, inner);
    }
    hfi_cell_forget(&change.found);
    hfi_buffer_done(&change.bytes);
    return status;
}

/* Many who begin again at the same moment would meet again: a while, longer each time, and none as long as
 * another's. */
static void step_back(int round)
{
    int64_t most_us = round > 7 ? PAUSE_LAST_US : INT64_C(100) << round;
    int64_t us = (int64_t)(hfi_random_u64() % (uint64_t)most_us);

    nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

hf_status hfi_cell_change(const struct hfi_prim *prim, hfi_plan_fn *plan, void *arg,
                          uint64_t *ret_version, hf_error *err)
{
    hf_error inner;
    hf_status status = hfi_cell_plan(prim, plan, arg, ret_version, &inner);

    return status == HF_OK ? HF_OK : hfi_prim_error(prim, status, &inner, err);
}

hf_status hfi_cell_plan(const struct hfi_prim *prim, hfi_plan_fn *plan, void *arg,
                        uint64_t *ret_version, hf_error *inner)
{
    int64_t begun_ms = hfi_now_ms();
    uint64_t version = 0;
    hf_status status;
    bool again, doubt = false;

    for (int round = 0;; round++) {
        status = attempt(prim, plan, arg, &doubt, &version, &again, inner);
        if (!again || hfi_now_ms() - begun_ms >= HFI_CALL_LIMIT_MS)
            break;
        step_back(round);
    }
    if (status == HF_OK && ret_version)
        *ret_version = version;
    return status;
}

/* ---- records ------------------------------------------------------------------------------------ */

bool hfi_put_bytes(struct hfi_buffer *to, const void *bytes, size_t len)
{
    char *room = hfi_buffer_reserve(to, len);

    if (!room)
        return false;
    if (len > 0)
        memcpy(room, bytes, len);
    to->len += len;
    return true;
}

bool hfi_put_number(struct hfi_buffer *to, uint64_t number)
{
    char digits[HFI_DIGITS + 8];

    snprintf(digits, sizeof digits, "%0*" PRIu64, HFI_DIGITS, number);
    return hfi_put_bytes(to, digits, HFI_DIGITS);
}

bool hfi_put_text(struct hfi_buffer *to, const char *text)
{
    size_t len = strlen(text);

    return hfi_put_number(to, len) && hfi_put_bytes(to, text, len);
}

bool hfi_get_bytes(struct hfi_reader *from, size_t len, const unsigned char **ret_bytes)
{
    if (from->left < len)
        return false;
    *ret_bytes = from->at;
    from->at += len;
    from->left -= len;
    return true;
}

bool hfi_get_number(struct hfi_reader *from, uint64_t *ret_number)
{
    const unsigned char *digits;
    uint64_t number = 0;

    if (!hfi_get_bytes(from, HFI_DIGITS, &digits))
        return false;
    for (int i = 0; i < HFI_DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(digits[i] - '0');
    }
    *ret_number = number;
    return true;
}

bool hfi_get_text(struct hfi_reader *from, char *ret_text, size_t size)
{
    const unsigned char *bytes;
    uint64_t len;

    if (!hfi_get_number(from, &len) || len >= size || !hfi_get_bytes(from, (size_t)len, &bytes) ||
        memchr(bytes, 0, (size_t)len))
        return false;
    memcpy(ret_text, bytes, (size_t)len);
    ret_text[len] = 0;
    return true;
}
