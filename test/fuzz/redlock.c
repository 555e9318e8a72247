/* SPDX-License-Identifier: MIT */
/*
 * Redlock: what nodes say about a name, put together; ballots and heals from whatever they say of themselves.
 * First come the numbers of the pure decisions, or the answers of the nodes as RESP.
 */
#include "fuzz.h"

#include "engine/redis/reply.h"
#include "engine/redlock/heal.h"
#include "engine/redlock/inspect.h"

static void merge(struct fuzz_input in)
{
    unsigned n = HFI_NODES_MIN + fuzz_byte(&in) % (HFI_NODES_MAX - HFI_NODES_MIN + 1), node = 0;
    struct redlock_view view = { .n = n, .need = hfi_majority(n) };
    struct redlock_merged merged = { 0 };
    struct hfi_reader *reader = hfi_reader_new();
    const struct hfi_reply *reply = NULL;
    struct redlock_told told;

    MUST(reader && hfi_reader_feed(reader, in.at, in.len));
    while (node < n && hfi_reader_next(reader, &reply) == HF_OK && reply) {
        (void)redlock_read_status(reply, &told);
        (void)redlock_read_marker(reply);
        (void)redlock_view_take(&view, node++, reply);
        reply = NULL;
    }
    hfi_reader_free(reader);
    MUST(redlock_merge(&view, &merged));
    MUST(merged.holders + merged.waiters <= view.count);
    for (size_t i = 0; i < merged.holders + merged.waiters; i++)
        MUST(merged.parties[i].record && merged.parties[i].holds == (i < merged.holders));
    redlock_merged_done(&merged);
    redlock_view_done(&view);
}

static void ballot(struct fuzz_input in)
{
    unsigned n = HFI_NODES_MIN + fuzz_byte(&in) % (HFI_NODES_MAX - HFI_NODES_MIN + 1);
    struct hfi_ballot ballot;
    struct hfi_ballot_outcome outcome;

    hfi_ballot_init(&ballot, n);
    while (in.len > 0) {
        uint8_t what = fuzz_byte(&in);
        unsigned node = fuzz_byte(&in) % n;
        uint64_t number = fuzz_number(&in, what & 0x80 ? 8 : 1);

        switch (what % 6) {
        case 0:
            hfi_ballot_asked(&ballot, node);
            break;
        case 1:
            hfi_ballot_granted(&ballot, node, number | 1, fuzz_byte(&in) % 3, fuzz_byte(&in),
                               fuzz_byte(&in));
            break;
        case 2:
            hfi_ballot_voted(&ballot, node, HFI_VOTE_QUEUED + number % 6);
            break;
        case 3:
            hfi_ballot_writing(&ballot, node, number);
            break;
        case 4:
            hfi_ballot_wrote(&ballot, node, number);
            break;
        default:
            break;
        }
        outcome = hfi_ballot_decide(&ballot, what & 0x40);
        MUST(outcome.nodes < 1u << n);
        if (outcome.verdict == HFI_BALLOT_WON)
            MUST((unsigned)__builtin_popcount(outcome.nodes) >= hfi_majority(n));
    }
}

static void heal(struct fuzz_input in)
{
    unsigned n = HFI_NODES_MIN + fuzz_byte(&in) % (HFI_NODES_MAX - HFI_NODES_MIN + 1);
    struct hfi_node_view views[HFI_NODES_MAX] = { 0 };
    struct hfi_epoch epoch;
    struct hfi_heal step;

    for (unsigned i = 0; i < n; i++) {
        uint8_t what = fuzz_byte(&in);

        views[i].state = what % 3;
        views[i].marked = what & 4;
        views[i].marker[0] = what >> 6;
        views[i].age_ms = (int64_t)fuzz_number(&in, what & 8 ? 7 : 2);
        views[i].epoch.number = fuzz_number(&in, what & 16 ? 8 : 1);
        views[i].epoch.id[0] = what & 1;
        views[i].n = what & 32 ? n : fuzz_byte(&in);
        views[i].max_ttl_ms = (int64_t)fuzz_number(&in, 3);
        views[i].top = fuzz_number(&in, what & 16 ? 8 : 2);
    }
    step = hfi_heal_next(views, n);
    MUST(step.nodes < 1u << n);
    (void)hfi_epoch_current(views, n, &epoch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const decoders[])(struct fuzz_input) = { merge, ballot, heal };
    struct fuzz_input in = { data, len };
    uint8_t which = fuzz_byte(&in) % 3;

    decoders[which](in);
    return 0;
}
