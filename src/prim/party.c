/* SPDX-License-Identifier: MIT */
/* Those who take part, and their leases: see party.h. */
#include "prim/party.h"

#include "holdfast/primitives.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

#define LOOKS 8 /* leases that are looked at each time: many waiters look, each at others */

hf_status hfi_party_request(hf_party_request *whole, const hf_party_request *given, hf_error *err)
{
    return hfi_request_copy(whole, sizeof *whole, given, offsetof(hf_party_request, who),
                            "HF_PARTY_REQUEST_INIT", err);
}

hf_status hfi_party_name(struct hfi_party *party, const struct hfi_prim *prim, const char *who,
                         hf_error *err)
{
    size_t len = who ? strlen(who) : 0;

    if (len == 0 || len > HF_PARTICIPANT_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "who: from 1 to %d bytes", HF_PARTICIPANT_MAX);
    if (prim->name.len + 1 + len > HF_NAME_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "name: with `who` more than %d bytes",
                             HF_NAME_MAX);
    party->who = who;
    party->lease = NULL;
    memcpy(party->name, prim->name.bytes, prim->name.len);
    party->name[prim->name.len] = 0;
    memcpy(party->name + prim->name.len + 1, who, len);
    party->len = (uint32_t)(prim->name.len + 1 + len);
    return HF_OK;
}

hf_status hfi_party_enter(struct hfi_party *party, hf_store *store, int64_t until_ms,
                          hf_cancel *cancel, hf_error *err)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    int64_t now_ms = hfi_now_ms();
    hf_status status;

    request.name = party->name;
    request.name_len = party->len;
    request.flags = HF_FLAG_STRICT;
    request.wait_ms = until_ms == HFI_NEVER ? HF_FOREVER
                      : until_ms > now_ms   ? until_ms - now_ms
                                            : 0;
    request.cancel = cancel;
    status = hf_acquire(store, &request, &party->lease, err);
    if (status != HF_OK)
        return status;
    party->id = hf_lease_token(party->lease);
    while (party->id == 0)
        party->id = hfi_random_u64() % HFI_TOKEN_LIMIT;
    return HF_OK;
}

/* Where nobody can list who holds what: nobody gets the lease of one who lives. */
static hf_status try_it(const struct hfi_prim *prim, const struct hfi_party *party, bool *ret_lives,
                        hf_error *inner)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_status status;

    request.name = party->name;
    request.name_len = party->len;
    request.flags = HF_FLAG_STRICT;
    status = hf_acquire(prim->handle, &request, &lease, inner);
    *ret_lives = status != HF_OK;
    if (status == HF_OK)
        (void)hf_release(lease, NULL);
    return status == HF_BUSY ? HF_OK : status;
}

hf_status hfi_party_lives(const struct hfi_prim *prim, const struct hfi_member *member,
                          bool *ret_lives, hf_error *inner)
{
    struct hfi_party party;
    hf_status status = hfi_party_name(&party, prim, member->who, inner);

    if (status != HF_OK)
        return status;
    if (prim->handle && !(hfi_store_engine(prim->store)->info.caps & HF_CAP_INSPECT))
        return try_it(prim, &party, ret_lives, inner);
    return hfi_lives(prim, party.name, party.len, member->token, ret_lives, inner);
}

hf_status hfi_party_gone(const struct hfi_prim *prim, const struct hfi_members *members, char flag,
                         uint32_t *turn, const struct hfi_member **ret_gone, hf_error *inner)
{
    uint32_t looked = 0;

    *ret_gone = NULL;
    for (uint32_t i = 0; i < members->count && looked < LOOKS; i++) {
        const struct hfi_member *member = &members->items[++*turn % members->count];
        bool lives = true;
        hf_status status;

        if (member->flag != flag)
            continue;
        looked++;
        status = hfi_party_lives(prim, member, &lives, inner);
        if (status != HF_OK)
            return status;
        if (!lives) {
            *ret_gone = member;
            return HF_OK;
        }
    }
    return HF_OK;
}
