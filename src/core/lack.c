/* SPDX-License-Identifier: MIT */
/* What a store cannot do, in words: see lack.h. Pure. */
#include "core/lack.h"

#include "util/error.h"

/* Every HF_CAP_* has a row (tools/check-drift.sh). The order is that in which several are named: the first one that is missing. */
static const struct {
    uint64_t cap;
    const char *words;
} capabilities[] = {
    { HF_CAP_CELLS, "has no cells (bytes with a version)" },
    { HF_CAP_SHARED, "has no read-write locks" },
    { HF_CAP_CONVERT, "cannot change the kind of a lease" },
    { HF_CAP_SEMAPHORE, "has no semaphores" },
    { HF_CAP_NUMBERED, "does not number the slots of a semaphore (HF_FLAG_NUMBERED)" },
    { HF_CAP_RESIZE, "cannot set the size of a semaphore" },
    { HF_CAP_TTL, "has no leases with a ttl" },
    { HF_CAP_PROCESS, "has no leases that end with the process and without a ttl" },
    { HF_CAP_DETACHED, "has no leases that outlive the process" },
    { HF_CAP_INSPECT, "cannot list holders" },
    { HF_CAP_WAITERS, "cannot list waiters" },
    { HF_CAP_TOKEN, "has no fencing tokens" },
    { HF_CAP_PASS, "has no blocks of tokens" },
    { HF_CAP_WAIT, "does not wake waiters" },
    { HF_CAP_FIFO, "does not promise an order of waiters" },
    { HF_CAP_BARGE, "lets no request pass the waiters (HF_FLAG_BARGE)" },
    { HF_CAP_LOCK_DELAY, "has no lock delay" },
    { HF_CAP_BREAK, "cannot break leases" },
    { HF_CAP_WATCH, "does not report changes" },
    { HF_CAP_CELL_TTL, "has no cells with a ttl" },
    { HF_CAP_CELL_WATCH, "does not report changes of a cell" },
    { HF_CAP_COMMIT, "changes one cell at a time" },
    { HF_CAP_CLOCK, "has no clock that all clients share" },
    { HF_CAP_SCRIPTS, "runs no scripts" },
    { HF_CAP_WANTED, "cannot tell a holder that others wait (HF_FLAG_WATCH), or ask it" },
    { HF_CAP_LINGER, "has no lingering leases" },
};
#define COUNT (sizeof capabilities / sizeof *capabilities)

const hf_engine_lack *hfi_lacks(const struct hfi_promises *promises)
{
    static const hf_engine_lack none;

    return promises->lacks ? promises->lacks : &none;
}

static const char *why_not(const struct hfi_promises *promises, uint64_t cap)
{
    const hf_engine_lack *lack = hfi_lacks(promises);

    while (lack->why && !(lack->caps & cap))
        lack++;
    return lack->why;
}

hf_status hfi_unsupported(const struct hfi_promises *promises, uint64_t caps, const char *field,
                          hf_error *err)
{
    const char *why, *instead = "";
    size_t i = 0;

    while (i + 1 < COUNT && !(caps & ~promises->caps & capabilities[i].cap))
        i++;
    why = why_not(promises, capabilities[i].cap);
    if (capabilities[i].cap == HF_CAP_SCRIPTS && promises->caps & HF_CAP_CELLS)
        instead = " (for one name, use cells)";
    return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s%sengine %s %s%s%s%s", field ? field : "",
                         field ? ": " : "", promises->name ? promises->name : "without a name",
                         capabilities[i].words, instead, why ? ": " : "", why ? why : "");
}

bool hfi_lacks_are_whole(const struct hfi_promises *promises, uint64_t *ret_cap,
                         const char **ret_wrong)
{
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t cap = capabilities[i].cap;
        bool has = promises->caps & cap;
        unsigned reasons = 0;

        for (const hf_engine_lack *lack = hfi_lacks(promises); lack->why; lack++)
            reasons += (lack->caps & cap) != 0;
        if (reasons == !has)
            continue;
        *ret_cap = cap;
        *ret_wrong = has       ? "is declared, and there is a reason why not"
                     : reasons ? "has more than one reason why not"
                               : "is not declared, and there is no reason why not";
        return false;
    }
    return true;
}
