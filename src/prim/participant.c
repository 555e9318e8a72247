/* SPDX-License-Identifier: MIT */
/* Participants and their leases: see participant.h. */
#include "prim/participant.h"

#include "core/request.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <string.h>

#define LOOKS 8 /* leases that are checked each time */

/* The name of the lease of `who`. */
static hf_status lease_name(const struct hfi_prim *prim, const char *who,
                            unsigned char ret_name[HF_NAME_MAX], uint32_t *ret_len, hf_error *err)
{
    size_t len = strlen(who);

    if (prim->name.len + 1 + len > HF_NAME_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "name: longer than %d bytes together with `who`",
                             HF_NAME_MAX);
    memcpy(ret_name, prim->name.bytes, prim->name.len);
    ret_name[prim->name.len] = 0;
    memcpy(ret_name + prim->name.len + 1, who, len);
    *ret_len = (uint32_t)(prim->name.len + 1 + len);
    return HF_OK;
}

/* ---- our own ------------------------------------------------------------------------------------------ */

hf_status hfi_party_request(hf_party_request *whole, const hf_party_request *given, hf_error *err)
{
    return hfi_request_copy(whole, sizeof *whole, given, offsetof(hf_party_request, who),
                            "HF_PARTY_REQUEST_INIT", err);
}

hf_status hfi_party_no_events(const hf_party_request *request, hf_error *err)
{
    return request->on_event
               ? hfi_error_set(err, HF_INVALID, 0,
                               "on_event: must be NULL, for the call returns no lease")
               : HF_OK;
}

hf_status hfi_presence_name(struct hfi_presence *presence, const struct hfi_prim *prim,
                            const char *who, hf_error *err)
{
    size_t len = who ? strnlen(who, HF_PARTICIPANT_MAX + 1) : 0;

    if (len == 0 || len > HF_PARTICIPANT_MAX)
        return hfi_error_set(err, HF_INVALID, 0, "who: from 1 to %d bytes", HF_PARTICIPANT_MAX);
    memcpy(presence->who, who, len + 1);
    presence->lease = NULL;
    return lease_name(prim, who, presence->name, &presence->len, err);
}

hf_status hfi_presence_ttl(struct hfi_presence *presence, const struct hfi_prim *prim,
                           int64_t ttl_ms, hf_error *err)
{
    presence->ttl_ms = ttl_ms;
    return ttl_ms == 0 ? HF_OK
                       : hfi_ttl_check(hfi_store_promises(prim->store), "ttl_ms", ttl_ms, err);
}

hf_status hfi_presence_acquire(struct hfi_presence *presence, struct hfi_prim_task *task, int state)
{
    hf_acquire_request *request = &presence->request;
    int64_t now_ms = hfi_now_ms();

    *request = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    request->name = presence->name;
    request->name_len = presence->len;
    request->flags = HF_FLAG_STRICT;
    request->wait_ms = task->until_ms == HFI_NEVER ? HF_FOREVER
                       : task->until_ms > now_ms   ? task->until_ms - now_ms
                                                   : 0;
    request->ttl_ms = presence->ttl_ms;
    request->cancel = task->core.cancel;
    request->on_event = presence->on_event;
    request->on_event_arg = presence->on_event_arg;
    return hfi_begin_acquire(task, state, request);
}

void hfi_presence_acquired(struct hfi_presence *presence, struct hfi_prim_task *task)
{
    presence->lease = task->action.lease;
    presence->id = hf_lease_token(presence->lease);
    while (presence->id == 0)
        presence->id = hfi_random_u64() % HFI_TOKEN_LIMIT;
}

/* ---- the others --------------------------------------------------------------------------------------- */

enum hfi_verdict hfi_survey_ask(struct hfi_survey *survey, struct hfi_cell_run *run,
                                const struct hfi_participant *participant)
{
    const struct hfi_prim *prim = &hfi_container(run, struct hfi_prim_task, run)->prim;
    uint32_t len;

    survey->last = *participant;
    run->status = lease_name(prim, participant->who, survey->name, &len, hfi_run_error(run));
    if (run->status != HF_OK)
        return HFI_FAIL;
    return hfi_run_ask(run, survey->name, len, participant->token, true);
}

enum hfi_verdict hfi_survey_next(struct hfi_survey *survey, struct hfi_cell_run *run,
                                 const struct hfi_participants *participants, char flag)
{
    if (run->answer == HFI_UNASKED)
        survey->passed = survey->asked = 0;
    while (survey->passed < participants->count && survey->asked < LOOKS) {
        const struct hfi_participant *next =
            &participants->items[++survey->turn % participants->count];

        survey->passed++;
        if (next->flag != flag)
            continue;
        survey->asked++;
        return hfi_survey_ask(survey, run, next);
    }
    return HFI_WAIT;
}
