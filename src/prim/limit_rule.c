/* SPDX-License-Identifier: MIT */
/* The bounds of a rate limit's parameters, and the size of its state: see limit_plan.h. */
#include "prim/limit_plan.h"

#include <endian.h>
#include <string.h>

static int64_t get(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return (int64_t)le64toh(value);
}

static void put(unsigned char *at, int64_t value)
{
    uint64_t bytes = htole64((uint64_t)value);

    memcpy(at, &bytes, sizeof bytes);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

const char *hfi_limit_rule(hf_limit_algorithm algorithm, int64_t rate, int64_t period_us,
                           int64_t burst, struct hfi_limit_rule *ret_rule)
{
    int64_t divisor;

    if (algorithm != HF_LIMIT_ALGORITHM_FIXED && algorithm != HF_LIMIT_ALGORITHM_SLIDING &&
        algorithm != HF_LIMIT_ALGORITHM_BUCKET)
        return "algorithm: not an hf_limit_algorithm";
    if (rate < 1 || rate > HF_CAPACITY_MAX)
        return "rate: from 1 to 1000000000";
    if (period_us < 1000 || period_us > HFI_LIMIT_WAIT_MAX_US)
        return "per_ms: from 1 to ten years";
    if (algorithm != HF_LIMIT_ALGORITHM_BUCKET && burst != 0)
        return "burst: only a bucket has one";
    if (burst < 0 || burst > HF_CAPACITY_MAX)
        return "burst: at most 1000000000";
    if (algorithm == HF_LIMIT_ALGORITHM_SLIDING && rate > HF_LIMIT_SLIDING_MAX)
        return "rate: a sliding window remembers every grant: at most 4096; a bucket has no such "
               "limit";

    *ret_rule = (struct hfi_limit_rule){
        .algorithm = algorithm, .rate = rate, .period_us = period_us, .burst = burst
    };
    if (algorithm == HF_LIMIT_ALGORITHM_BUCKET) {
        if (burst == 0)
            ret_rule->burst = burst = rate;
        divisor = common_divisor(rate, period_us);
        ret_rule->unit = period_us / divisor;
        ret_rule->speed = rate / divisor;
        if (ret_rule->unit > HFI_LIMIT_PARTS_MAX / burst)
            return "burst: too large to count exactly with this rate and period";
    }
    memcpy(ret_rule->head, "L1", 2);
    ret_rule->head[2] = (unsigned char)"fsb"[algorithm];
    put(ret_rule->head + 3, rate);
    put(ret_rule->head + 11, period_us);
    put(ret_rule->head + 19, ret_rule->burst);
    return NULL;
}

bool hfi_limit_rule_of(const unsigned char *head, struct hfi_limit_rule *ret_rule)
{
    static const char kinds[] = "fsb";
    const char *kind = head[2] ? strchr(kinds, head[2]) : NULL;

    return kind && !hfi_limit_rule((hf_limit_algorithm)(kind - kinds), get(head + 3),
                                   get(head + 11), get(head + 19), ret_rule);
}

int64_t hfi_limit_most(const struct hfi_limit_rule *rule)
{
    return rule->algorithm == HF_LIMIT_ALGORITHM_BUCKET ? rule->burst : rule->rate;
}

int64_t hfi_limit_wait_max(const struct hfi_limit_rule *rule)
{
    int64_t parts = rule->algorithm == HF_LIMIT_ALGORITHM_BUCKET ? HFI_LIMIT_PARTS_MAX / rule->speed
                                                                 : HFI_LIMIT_WAIT_MAX_US;

    return parts < HFI_LIMIT_WAIT_MAX_US ? parts : HFI_LIMIT_WAIT_MAX_US;
}

size_t hfi_limit_room(const struct hfi_limit_rule *rule, size_t len)
{
    size_t lines = rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING ? (size_t)rule->rate + 1 : 0;
    size_t room = HFI_LIMIT_LOG + HFI_LIMIT_LINE * lines;

    /* A log that was carried over may have more lines than the rule allows. */
    return len < HFI_LIMIT_ROOM_MAX && len + HFI_LIMIT_LINE > room ? len + HFI_LIMIT_LINE : room;
}
