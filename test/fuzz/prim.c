/* SPDX-License-Identifier: MIT */
/*
 * The contents of the cells of barriers, latches and rate limits: others may have written them.
 * Every step from an accepted latch or barrier leaves one that is accepted again.
 */
#include "fuzz.h"

#include "prim/barrier_plan.h"
#include "prim/latch_plan.h"
#include "prim/limit_plan.h"
#include "util/buffer.h"

static void barrier(struct fuzz_input in)
{
    static struct hfi_barrier barrier, again;
    static struct hfi_barrier *both[] = { &barrier, &again };
    uint8_t step = fuzz_byte(&in);
    struct hfi_buffer to = { 0 };
    uint64_t generation = 0;
    bool changed = false;
    void *exact = fuzz_exact(in.at, in.len);

    memset(both[0], 0, sizeof barrier);
    if (hfi_barrier_get(&barrier, exact, in.len)) {
        if (step & 1)
            (void)hfi_barrier_arrive(&barrier, barrier.parties, barrier.twice, "me", step,
                                     &generation, &changed);
        if (step & 2)
            (void)hfi_barrier_leave(&barrier, "me", step & 4 ? 0 : step, &generation, &changed);
        if (step & 8)
            hfi_barrier_break(&barrier, "a", step, &changed);
        if (step & 16)
            (void)hfi_barrier_withdraw(&barrier, "me", step, barrier.generation, &changed);
        (void)hfi_barrier_outcome(&barrier, step, step & 32);
        MUST(hfi_barrier_put(&barrier, &to));
        MUST(hfi_barrier_get(&again, to.bytes, to.len));
        MUST(again.generation == barrier.generation && again.phase == barrier.phase);
        hfi_buffer_done(&to);
    }
    free(exact);
}

static void latch(struct fuzz_input in)
{
    static struct hfi_latch latch, again;
    uint8_t step = fuzz_byte(&in);
    struct hfi_buffer to = { 0 };
    bool changed = false;
    void *exact = fuzz_exact(in.at, in.len);

    if (hfi_latch_get(&latch, exact, in.len)) {
        if (step & 1)
            (void)hfi_latch_down(&latch, "me", &changed);
        if (step & 2)
            (void)hfi_latch_join(&latch, "me", step, &changed);
        if (step & 4)
            hfi_latch_break(&latch, "a", step, &changed);
        MUST(hfi_latch_put(&latch, &to));
        MUST(hfi_latch_get(&again, to.bytes, to.len));
        MUST(hfi_latch_left(&again) == hfi_latch_left(&latch));
        hfi_buffer_done(&to);
    }
    free(exact);
}

static void limit(struct fuzz_input in)
{
    static unsigned char made[HFI_LIMIT_ROOM_MAX];
    const struct hfi_limit_rule any = { .rate = 0 };
    const struct hfi_limit_ask look = { .act = HFI_LIMIT_LOOK };
    struct hfi_limit_rule rule;
    struct hfi_limit_answer answer, next;
    uint8_t what = fuzz_byte(&in);
    struct hfi_limit_ask ask = { .act = what % 5, .permits = 1 };
    hf_limit_algorithm algorithm = what / 3 % 3 == 0   ? HF_LIMIT_ALGORITHM_FIXED
                                   : what / 3 % 3 == 1 ? HF_LIMIT_ALGORITHM_SLIDING
                                                       : HF_LIMIT_ALGORITHM_BUCKET;
    int64_t rate = 1 + fuzz_byte(&in), period_us = 1000 * (1 + (int64_t)fuzz_number(&in, 3));
    int64_t now_us = (int64_t)(fuzz_number(&in, 8) >> 12);
    unsigned char *exact;

    ask.permits = 1 + fuzz_byte(&in);
    ask.wait_us = (int64_t)fuzz_number(&in, 4);
    ask.at_us = (int64_t)(fuzz_number(&in, 8) >> 12);
    if (ask.act == HFI_LIMIT_UNSET || (ask.act == HFI_LIMIT_LOOK && what & 0x20))
        rule = any; /* as prim/limit.c asks */
    else if (hfi_limit_rule(algorithm, rate, period_us,
                            algorithm == HF_LIMIT_ALGORITHM_BUCKET ? rate : 0, &rule) ||
             ask.permits > hfi_limit_most(&rule))
        return;
    /* A head that does not fit is refused at once: as often as not, put in the right one. */
    exact = fuzz_exact(in.at, in.len);
    if (what & 0x80 && in.len >= HFI_LIMIT_HEAD)
        memcpy(exact, rule.head, HFI_LIMIT_HEAD);
    if (what & 0x40 && in.len >= HFI_LIMIT_HEAD)
        exact[1] = (unsigned char)('2' + in.at[in.len - 1] % 2); /* set, or set and unset */
    hfi_limit_decide(&rule, &ask, now_us, in.len ? exact : NULL, in.len, made, &answer);
    MUST(answer.len <= hfi_limit_room(&rule, in.len));
    if (answer.len > 0) {
        unsigned char *after = fuzz_exact(made, answer.len);

        hfi_limit_decide(&rule, &ask, now_us, after, answer.len, made, &next);
        MUST(next.said != HFI_LIMIT_MISMATCH && next.said != HFI_LIMIT_VERSION);
        hfi_limit_decide(&any, &look, now_us, after, answer.len, made, &next);
        MUST(next.said == HFI_LIMIT_SEEN_IT || next.said == HFI_LIMIT_NONE);
        free(after);
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const decoders[])(struct fuzz_input) = { barrier, latch, limit };
    struct fuzz_input in = { data, len };
    uint8_t which = fuzz_byte(&in) % 3;

    decoders[which](in);
    return 0;
}
