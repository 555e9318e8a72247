/* SPDX-License-Identifier: MIT */
/*
 * The numbers of a semaphore's slots. They stand before the label of a holder with LMDB_HOLDER_NUMBERED, four bytes for each of its
 * permits, and change only with the record: so a number has one holder for the reason for which a permit has one.
 */
#include "engine/lmdb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <errno.h>
#include <string.h>

size_t lmdb_numbers_put(const uint32_t *slots, uint32_t count, const char *label, size_t label_len,
                        char ret_text[HF_LABEL_MAX + 1])
{
    size_t len = count * sizeof *slots, rest = HF_LABEL_MAX - len;

    memcpy(ret_text, slots, len);
    if (label_len > rest) {
        label_len = rest;
        while (label_len > 0 && ((unsigned char)label[label_len] & 0xc0) == 0x80)
            label_len--; /* not in the middle of a character */
    }
    if (label_len)
        memcpy(ret_text + len, label, label_len);
    return len + label_len;
}

/* ---- giving them ------------------------------------------------------------------------------- */

/* Which numbers below `room` are in use. More than `room` - permits cannot be, so the lowest free ones are among them. */
struct used {
    unsigned char *bits, few[64];
    uint64_t room;
};

static void mark(struct used *used, const struct lmdb_holder *h, const char *label)
{
    uint32_t slots[HF_SLOTS_MAX];
    size_t len = lmdb_numbers_len(h);

    memcpy(slots, label, len);
    for (uint32_t i = 0; i < len / sizeof *slots; i++)
        if (slots[i] < used->room)
            used->bits[slots[i] / 8] |= (unsigned char)(1u << slots[i] % 8);
}

static int mark_all(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                    struct used *used)
{
    struct lmdb_further further;
    uint64_t at = 0;
    int rc = 0;

    mark(used, &rec->first, (const char *)rec->text + rec->name_len);
    for (uint32_t i = 0; rc == 0 && i < rec->further; i++, at++) {
        rc = lmdb_further_next(t, hash, &at, &further);
        if (rc == 0)
            mark(used, &further.holder, further.label);
    }
    return rc == MDB_NOTFOUND ? LMDB_E_CORRUPT : rc;
}

int lmdb_numbers_give(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                      uint32_t count, uint32_t ret_slots[HF_SLOTS_MAX])
{
    struct used used = { .room = ((uint64_t)rec->further + 2) * HF_SLOTS_MAX };
    uint32_t found = 0;
    int rc;

    used.bits = used.room / 8 <= sizeof used.few ? used.few : hfi_calloc(1, used.room / 8);
    if (!used.bits)
        return ENOMEM;
    rc = mark_all(t, hash, rec, &used);
    for (uint32_t slot = 0; rc == 0 && found < count && slot < used.room; slot++)
        if (!(used.bits[slot / 8] & 1u << slot % 8))
            ret_slots[found++] = slot;
    if (used.bits != used.few)
        hfi_free(used.bits);
    return rc == 0 && found < count ? LMDB_E_CORRUPT : rc;
}

/* ---- reading them ------------------------------------------------------------------------------- */

int lmdb_numbers_get(struct lmdb_txn *t, const uint64_t hash[2], const struct lmdb_name *rec,
                     const struct lmdb_holder *h, uint32_t ret_slots[HF_SLOTS_MAX])
{
    struct lmdb_further further;
    int rc;

    if (rec->first.token == h->token) {
        memcpy(ret_slots, rec->text + rec->name_len, lmdb_numbers_len(h));
        return 0;
    }
    rc = lmdb_further_get(t, hash, h->token, &further);
    if (rc == 0)
        memcpy(ret_slots, further.label, lmdb_numbers_len(&further.holder));
    return rc;
}

struct fetch {
    struct hfi_claim *claim;
    bool found;
    uint32_t slots[HF_SLOTS_MAX];
};

static int fetch_body(struct lmdb_txn *t, void *arg)
{
    struct fetch *f = arg;
    const struct hfi_claim *claim = f->claim;
    struct lmdb_name rec;
    struct lmdb_holder h;
    int rc = lmdb_name_get(t, &claim->name, &rec);

    f->found = false;
    if (rc == 0)
        rc = lmdb_holder_find(t, claim->name.hash, &rec, claim->owner, 0, &h);
    if (rc == 0 && lmdb_numbers_len(&h) == claim->permits * sizeof *f->slots) {
        rc = lmdb_numbers_get(t, claim->name.hash, &rec, &h, f->slots);
        f->found = rc == 0;
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

bool lmdb_numbers_fetch(struct lmdb_directory *d, struct hfi_claim *claim)
{
    struct fetch f = { .claim = claim };
    hf_status status =
        lmdb_run(d, false, hfi_after_ms(hfi_now_ms(), d->lock_wait_ms), fetch_body, NULL, &f, NULL);

    if (status != HF_OK || !f.found)
        return false;
    memcpy(claim->slots, f.slots, claim->permits * sizeof *f.slots);
    return true;
}
