/* SPDX-License-Identifier: MIT */
/* What a rate limit decides: see limit_plan.h. */
#include "prim/limit_plan.h"

#include <endian.h>
#include <string.h>

/* One decision under way. */
struct plan {
    /* in force; that of the state until it is carried over to `next` */
    const struct hfi_limit_rule *rule;
    const struct hfi_limit_rule *next;
    struct hfi_limit_rule of_state;
    unsigned char version; /* of what is written */
    int64_t now, shift;    /* shift: to be added to every time in the state */
    bool fresh;            /* there is no state, or it has expired */
    int64_t over;
    /* FIXED */
    int64_t used, before;
    /* SLIDING: the log from line `first` on */
    const unsigned char *log;
    size_t first, count;
    int64_t gone, total;
    /* BUCKET */
    int64_t level;

    int64_t left, at;
};

/* ---- bytes --------------------------------------------------------------------------------------- */

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

/* Can Lua compute with this number exactly? Then a state may have it. */
static bool is_number(int64_t value)
{
    return value > -(INT64_C(1) << 53) && value < INT64_C(1) << 53;
}

static int64_t line_at(const struct plan *plan, size_t line)
{
    return get(plan->log + line * HFI_LIMIT_LINE) + plan->shift;
}

static int64_t line_permits(const struct plan *plan, size_t line)
{
    const unsigned char *at = plan->log + line * HFI_LIMIT_LINE + 8;

    return (int64_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                     (uint32_t)at[3] << 24);
}

static size_t put_line(unsigned char *state, size_t len, int64_t at, int64_t permits)
{
    put(state + len, at);
    for (int i = 0; i < 4; i++)
        state[len + 8 + (size_t)i] = (unsigned char)((uint64_t)permits >> 8 * i);
    return len + HFI_LIMIT_LINE;
}

/* ---- fixed window -------------------------------------------------------------------------------- */

static bool fixed_load(struct plan *plan, const unsigned char *state)
{
    plan->used = get(state + HFI_LIMIT_MORE);
    plan->before = get(state + HFI_LIMIT_MORE + 8);
    return plan->used >= 0 && plan->used <= HF_CAPACITY_MAX && plan->before >= 0 &&
           plan->before <= HF_CAPACITY_MAX; /* also more than `rate`, of the rule before this one */
}

static int64_t fixed_begin(const struct plan *plan)
{
    return plan->over - plan->rule->period_us;
}

/* If the last window has no room, the request goes into the next one, which begins where the last
 * one ends. */
static void fixed_plan(struct plan *plan, int64_t permits)
{
    int64_t begin = fixed_begin(plan);

    plan->left = begin > plan->now ? 0 : plan->rule->rate - plan->used;
    plan->at = plan->used + permits > plan->rule->rate ? plan->over : begin;
    if (plan->at < plan->now)
        plan->at = plan->now;
}

static size_t fixed_save(const struct plan *plan, unsigned char *ret_state)
{
    put(ret_state + HFI_LIMIT_MORE, plan->used);
    put(ret_state + HFI_LIMIT_MORE + 8, plan->before);
    return HFI_LIMIT_MORE + 16;
}

static size_t fixed_take(struct plan *plan, int64_t permits, unsigned char *ret_state)
{
    if (plan->used + permits > plan->rule->rate) {
        plan->before = plan->used;
        plan->used = 0;
        plan->over += plan->rule->period_us;
    }
    plan->used += permits;
    return fixed_save(plan, ret_state);
}

/* A window whose last reservation is given back is closed again. Then the fill of the window before
 * its predecessor is not known: it counts as full. */
static size_t fixed_back(struct plan *plan, int64_t permits, int64_t at, unsigned char *ret_state)
{
    if (at != fixed_begin(plan) || plan->used < permits)
        return 0;
    plan->used -= permits;
    if (plan->used == 0) {
        plan->over = at;
        plan->used = plan->before;
        plan->before = plan->rule->rate;
    }
    return fixed_save(plan, ret_state);
}

/* What is reserved in the last window cannot be given back any more, so that window is never closed,
 * and the one before it does not matter. */
static bool fixed_carry(struct plan *plan)
{
    int64_t begin = fixed_begin(plan);

    plan->rule = plan->next;
    plan->over = begin + (begin > plan->now) + plan->rule->period_us;
    plan->before = 0;
    return true;
}

/* ---- sliding window ------------------------------------------------------------------------------ */

/* Lines are in order, none is empty, and they sum up to what the state says. */
static bool is_log(const struct plan *plan)
{
    int64_t total = 0;

    for (size_t line = 0; line < plan->count; line++) {
        if (!is_number(get(plan->log + line * HFI_LIMIT_LINE)) || line_permits(plan, line) < 1 ||
            (line > 0 && line_at(plan, line) <= line_at(plan, line - 1)))
            return false;
        total += line_permits(plan, line);
    }
    return total == plan->total &&
           (plan->count == 0 ||
            line_at(plan, plan->count - 1) + plan->rule->period_us == plan->over);
}

static bool sliding_load(struct plan *plan, const unsigned char *state, size_t len)
{
    if ((len - HFI_LIMIT_LOG) % HFI_LIMIT_LINE != 0)
        return false;
    plan->log = state + HFI_LIMIT_LOG;
    plan->count = (len - HFI_LIMIT_LOG) / HFI_LIMIT_LINE;
    plan->gone = get(state + HFI_LIMIT_MORE);
    plan->gone += is_number(plan->gone) ? plan->shift : 0;
    plan->total = get(state + HFI_LIMIT_MORE + 8);
    return plan->count <= HF_LIMIT_SLIDING_MAX && is_number(plan->gone) && is_log(plan);
}

/* The oldest line leaves the log. Nothing is granted within a period of what has left. */
static void sliding_drop(struct plan *plan)
{
    plan->gone = line_at(plan, plan->first);
    plan->total -= line_permits(plan, plan->first++);
}

/* The first moment at which enough earlier permits are a period old. No moment in the log is later,
 * so (at - period, at] contains the most that any interval with this grant can contain. */
static void sliding_plan(struct plan *plan, int64_t permits)
{
    int64_t period = plan->rule->period_us;
    int64_t total;

    while (plan->first < plan->count && line_at(plan, plan->first) <= plan->now - period)
        sliding_drop(plan);
    plan->at = plan->now;
    if (!plan->fresh && plan->gone + period > plan->at)
        plan->at = plan->gone + period;
    if (plan->count > plan->first && line_at(plan, plan->count - 1) > plan->at)
        plan->at = line_at(plan, plan->count - 1); /* requests are not overtaken */
    plan->left = plan->at > plan->now ? 0 : plan->rule->rate - plan->total;

    total = plan->total;
    for (size_t line = plan->first; line < plan->count && total + permits > plan->rule->rate;
         line++) {
        if (line_at(plan, line) + period > plan->at)
            plan->at = line_at(plan, line) + period;
        total -= line_permits(plan, line);
    }
}

static size_t sliding_save(const struct plan *plan, unsigned char *ret_state, size_t len)
{
    put(ret_state + HFI_LIMIT_MORE, plan->gone);
    put(ret_state + HFI_LIMIT_MORE + 8, plan->total);
    return len;
}

static size_t copy_log(const struct plan *plan, unsigned char *ret_state)
{
    size_t len = HFI_LIMIT_LOG, lines = plan->count - plan->first;

    if (plan->shift == 0 && lines > 0) {
        memcpy(ret_state + len, plan->log + plan->first * HFI_LIMIT_LINE, lines * HFI_LIMIT_LINE);
        return len + lines * HFI_LIMIT_LINE;
    }
    for (size_t line = plan->first; line < plan->count; line++)
        len = put_line(ret_state, len, line_at(plan, line), line_permits(plan, line));
    return len;
}

static size_t sliding_take(struct plan *plan, int64_t permits, unsigned char *ret_state)
{
    size_t len;

    /* Lines that are a period older than our moment do not count for later requests. They stay as
     * long as there is room, for requests that come after we have given up. If there is no room,
     * such a line exists: within a period of us there are fewer than `rate` lines. */
    while (plan->count > plan->first && plan->count - plan->first >= (size_t)plan->rule->rate)
        sliding_drop(plan);
    plan->total += permits;
    plan->over = plan->at + plan->rule->period_us;
    len = copy_log(plan, ret_state);
    if (plan->count > plan->first && line_at(plan, plan->count - 1) == plan->at) {
        permits += line_permits(plan, plan->count - 1);
        len -= HFI_LIMIT_LINE;
    }
    return sliding_save(plan, ret_state, put_line(ret_state, len, plan->at, permits));
}

static size_t sliding_back(struct plan *plan, int64_t permits, int64_t at, unsigned char *ret_state)
{
    size_t len = HFI_LIMIT_LOG;
    int64_t last = plan->gone, was;
    bool found = false;

    for (size_t line = 0; line < plan->count; line++) {
        was = line_permits(plan, line);
        if (line_at(plan, line) == at && was >= permits && !found) {
            found = true;
            was -= permits;
        }
        if (was > 0) {
            last = line_at(plan, line);
            len = put_line(ret_state, len, last, was);
        }
    }
    plan->total -= permits;
    plan->over = last + plan->rule->period_us;
    return found ? sliding_save(plan, ret_state, len) : 0;
}

static bool sliding_carry(struct plan *plan)
{
    if (plan->gone <= plan->now - plan->rule->period_us)
        plan->gone = 0;
    plan->over += plan->next->period_us - plan->rule->period_us;
    plan->rule = plan->next;
    return true;
}

/* ---- bucket -------------------------------------------------------------------------------------- */

static int64_t divide_up(int64_t parts, int64_t speed)
{
    return (parts + speed - 1) / speed;
}

/* `over` is when it is full again, so until then it is not, and nothing spills. */
static bool bucket_load(struct plan *plan, const unsigned char *state, int64_t seen)
{
    int64_t full = plan->rule->burst * plan->rule->unit;

    plan->level = get(state + HFI_LIMIT_MORE);
    if (plan->level > full || plan->level < -2 * HFI_LIMIT_PARTS_MAX ||
        plan->now - seen > divide_up(full - plan->level, plan->rule->speed))
        return false;
    plan->level += (plan->now - seen) * plan->rule->speed;
    return true;
}

static void bucket_plan(struct plan *plan, int64_t permits)
{
    int64_t need = permits * plan->rule->unit - plan->level;

    plan->left = plan->level > 0 ? plan->level / plan->rule->unit : 0;
    plan->at = plan->now + (need > 0 ? divide_up(need, plan->rule->speed) : 0);
}

static size_t bucket_save(struct plan *plan, int64_t permits, unsigned char *ret_state)
{
    plan->level -= permits * plan->rule->unit;
    plan->over = plan->now +
                 divide_up(plan->rule->burst * plan->rule->unit - plan->level, plan->rule->speed);
    put(ret_state + HFI_LIMIT_MORE, plan->level);
    return HFI_LIMIT_MORE + 8;
}

/* Only the last reservation is given back: it is the one for which the level returns to 0. */
static size_t bucket_back(struct plan *plan, int64_t permits, int64_t at, unsigned char *ret_state)
{
    if (permits > plan->rule->burst || plan->level >= 0 ||
        at != plan->now + divide_up(-plan->level, plan->rule->speed))
        return 0;
    return bucket_save(plan, -permits, ret_state);
}

/* parts * to / of, rounded up; parts < of. By adding and doubling, since the product may need 100 bits, and Lua has 53. */
static int64_t scale_up(int64_t parts, int64_t to, int64_t of)
{
    int64_t whole = 0, rest = 0;

    for (int64_t bit = HFI_LIMIT_PARTS_MAX; bit > 0; bit /= 2) {
        rest *= 2;
        if (to >= bit) {
            to -= bit;
            rest += parts;
        }
        whole = 2 * whole + rest / of;
        rest %= of;
    }
    return whole + (rest > 0);
}

/* false: it is reserved for longer than the new parts can count. */
static bool bucket_carry(struct plan *plan)
{
    const struct hfi_limit_rule *was = plan->rule, *rule = plan->next;
    int64_t missing = was->burst * was->unit - plan->level, permits = missing / was->unit;
    int64_t full = rule->burst * rule->unit, until;

    plan->rule = rule;
    if (plan->level < 0) {
        until = divide_up(-plan->level, was->speed) + 1;
        if (until > HFI_LIMIT_PARTS_MAX / rule->speed)
            return false;
        plan->level = -until * rule->speed;
    } else if (permits >= rule->burst) {
        plan->level = 0;
    } else {
        plan->level =
            full - permits * rule->unit - scale_up(missing % was->unit, rule->unit, was->unit);
    }
    plan->over = plan->now + divide_up(full - plan->level, rule->speed);
    return true;
}

/* ---- all of them --------------------------------------------------------------------------------- */

/* Is it the state of a limit? Then compute the state's time. */
static enum hfi_limit_said begin(struct plan *plan, const unsigned char *state, size_t len,
                                 int64_t *ret_seen)
{
    *ret_seen = plan->now;
    if (!plan->fresh) {
        if (len < 3 || state[0] != 'L' || (state[2] >= '0' && state[2] <= '9'))
            return HFI_LIMIT_MISMATCH; /* "L1" and a digit: a latch */
        if (state[1] < '1' || state[1] > '3')
            return HFI_LIMIT_VERSION;
        if (len < HFI_LIMIT_MORE + 8)
            return HFI_LIMIT_CORRUPT;
        *ret_seen = get(state + HFI_LIMIT_SEEN);
        plan->over = get(state + HFI_LIMIT_OVER);
        if (!is_number(*ret_seen) || !is_number(plan->over))
            return HFI_LIMIT_CORRUPT;
        if (*ret_seen > plan->now) {
            if (*ret_seen - plan->now > HFI_LIMIT_HOLD_US)
                plan->shift = plan->now - *ret_seen;
            else
                plan->now = *ret_seen;
        }
        *ret_seen += plan->shift;
        plan->over += plan->shift;
        plan->fresh = plan->now >= plan->over;
    }
    return HFI_LIMIT_GRANTED;
}

/* Which rule counts: that of the question, or that of the state, or first this and then that? */
static enum hfi_limit_said choose(struct plan *plan, enum hfi_limit_act act,
                                  const unsigned char *state)
{
    bool any = plan->rule->rate == 0, set = state && state[1] == HFI_LIMIT_WAS_SET;

    plan->version = act == HFI_LIMIT_SET ? HFI_LIMIT_WAS_SET : '1';
    if (plan->fresh && !set)
        return any ? HFI_LIMIT_NONE : HFI_LIMIT_GRANTED;
    if (!any && memcmp(state, plan->rule->head, HFI_LIMIT_HEAD) == 0)
        return HFI_LIMIT_GRANTED;
    if (!hfi_limit_rule_of(state, &plan->of_state))
        return HFI_LIMIT_CORRUPT;
    if (!any && plan->of_state.algorithm != plan->rule->algorithm)
        return HFI_LIMIT_MISMATCH;
    if (any || (set && act != HFI_LIMIT_SET) || (state[1] == '3' && act == HFI_LIMIT_BACK)) {
        plan->rule = &plan->of_state;
        plan->version = state[1];
        return HFI_LIMIT_GRANTED;
    }
    if (act != HFI_LIMIT_SET && state[1] != '3')
        return HFI_LIMIT_MISMATCH;
    if (!plan->fresh && memcmp(plan->rule->head, plan->of_state.head, HFI_LIMIT_HEAD) != 0) {
        plan->next = plan->rule;
        plan->rule = &plan->of_state;
    }
    return HFI_LIMIT_GRANTED;
}

static void load_idle(struct plan *plan)
{
    plan->used = plan->before = 0;
    plan->gone = plan->total = 0;
    plan->first = plan->count = 0;
    plan->level = plan->rule->burst * plan->rule->unit;
    plan->over = plan->now + plan->rule->period_us;
}

static bool load(struct plan *plan, const unsigned char *state, size_t len, int64_t seen)
{
    hf_limit_algorithm algorithm = plan->rule->algorithm;

    if (plan->fresh) {
        load_idle(plan);
        return true;
    }
    if (algorithm != HF_LIMIT_ALGORITHM_BUCKET && len < HFI_LIMIT_MORE + 16)
        return false;
    if (algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return fixed_load(plan, state);
    if (algorithm == HF_LIMIT_ALGORITHM_BUCKET)
        return bucket_load(plan, state, seen);
    return sliding_load(plan, state, len);
}

static bool carry_over(struct plan *plan)
{
    bool done = plan->rule->algorithm == HF_LIMIT_ALGORITHM_FIXED     ? fixed_carry(plan)
                : plan->rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING ? sliding_carry(plan)
                                                                      : bucket_carry(plan);

    plan->fresh = plan->now >= plan->over;
    if (plan->fresh)
        load_idle(plan);
    return done;
}

static void plan_it(struct plan *plan, int64_t permits)
{
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_FIXED)
        fixed_plan(plan, permits);
    else if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        sliding_plan(plan, permits);
    else
        bucket_plan(plan, permits);
}

static size_t take(struct plan *plan, int64_t permits, unsigned char *ret_state)
{
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return fixed_take(plan, permits, ret_state);
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        return sliding_take(plan, permits, ret_state);
    return bucket_save(plan, permits, ret_state);
}

/* Before its moment a reservation has not been used, and the state that counts it cannot be
 * over. */
static size_t back(struct plan *plan, int64_t permits, int64_t at, unsigned char *ret_state)
{
    if (plan->fresh || at <= plan->now)
        return 0;
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return fixed_back(plan, permits, at, ret_state);
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        return sliding_back(plan, permits, at, ret_state);
    return bucket_back(plan, permits, at, ret_state);
}

/* The same again, to be saved. */
static size_t keep(struct plan *plan, unsigned char *ret_state)
{
    if (plan->fresh)
        plan->over = plan->now;
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_FIXED)
        return fixed_save(plan, ret_state);
    if (plan->rule->algorithm == HF_LIMIT_ALGORITHM_SLIDING)
        return sliding_save(plan, ret_state, copy_log(plan, ret_state));
    return bucket_save(plan, 0, ret_state);
}

static void save(const struct plan *plan, size_t len, unsigned char *ret_state,
                 struct hfi_limit_answer *answer)
{
    memcpy(ret_state, plan->rule->head, HFI_LIMIT_HEAD);
    ret_state[1] = plan->version;
    put(ret_state + HFI_LIMIT_SEEN, plan->now);
    put(ret_state + HFI_LIMIT_OVER, plan->over);
    answer->len = len;
    answer->refill_us = plan->over - plan->now;
}

static void take_or_refuse(struct plan *plan, const struct hfi_limit_ask *ask,
                           unsigned char *ret_state, struct hfi_limit_answer *answer)
{
    int64_t most_us = hfi_limit_wait_max(plan->rule);

    answer->at_us = plan->at;
    answer->wait_us = plan->at - plan->now;
    if (answer->wait_us > (ask->wait_us < most_us ? ask->wait_us : most_us)) {
        answer->said = HFI_LIMIT_REFUSED;
        return;
    }
    answer->said = HFI_LIMIT_GRANTED;
    answer->left = answer->wait_us > 0 ? 0 : answer->left - ask->permits;
    save(plan, take(plan, ask->permits, ret_state), ret_state, answer);
}

static void give_back(struct plan *plan, const struct hfi_limit_ask *ask, unsigned char *ret_state,
                      struct hfi_limit_answer *answer)
{
    size_t wrote = back(plan, ask->permits, ask->at_us, ret_state);

    answer->said = wrote ? HFI_LIMIT_RETURNED : HFI_LIMIT_KEPT;
    if (wrote)
        save(plan, wrote, ret_state, answer);
}

/* If it is idle it is as though it had never been set, also for those that do not know of that. */
static void unset(struct plan *plan, unsigned char *ret_state, struct hfi_limit_answer *answer)
{
    answer->said = HFI_LIMIT_OPENED;
    if (plan->version != HFI_LIMIT_WAS_SET)
        return;
    plan->version = plan->fresh ? '1' : '3';
    save(plan, keep(plan, ret_state), ret_state, answer);
}

static enum hfi_limit_said find(struct plan *plan, enum hfi_limit_act act,
                                const unsigned char *state, size_t len)
{
    int64_t seen;
    enum hfi_limit_said said = begin(plan, state, len, &seen);

    if (said == HFI_LIMIT_GRANTED)
        said = choose(plan, act, state);
    if (said != HFI_LIMIT_GRANTED)
        return said;
    if (!load(plan, state, len, seen))
        return HFI_LIMIT_CORRUPT;
    return plan->next && !carry_over(plan) ? HFI_LIMIT_MISMATCH : HFI_LIMIT_GRANTED;
}

void hfi_limit_decide(const struct hfi_limit_rule *rule, const struct hfi_limit_ask *ask,
                      int64_t now_us, const unsigned char *state, size_t len,
                      unsigned char *ret_state, struct hfi_limit_answer *answer)
{
    struct plan plan = { .rule = rule, .now = now_us, .fresh = !state }, looked;

    *answer = (struct hfi_limit_answer){ .said = find(&plan, ask->act, state, len) };
    if (answer->said == HFI_LIMIT_NONE && ask->act == HFI_LIMIT_UNSET)
        answer->said = HFI_LIMIT_OPENED;
    if (answer->said != HFI_LIMIT_GRANTED)
        return;
    if (ask->act == HFI_LIMIT_UNSET) {
        unset(&plan, ret_state, answer);
        return;
    }
    if (ask->act == HFI_LIMIT_BACK) {
        give_back(&plan, ask, ret_state, answer);
        return;
    }
    if (plan.rule != rule) {
        memcpy(answer->head, plan.rule->head, HFI_LIMIT_HEAD);
        answer->head[1] = plan.version;
    }
    if (ask->act == HFI_LIMIT_TAKE && ask->permits > hfi_limit_most(plan.rule)) {
        answer->said = HFI_LIMIT_MANY;
        return;
    }

    looked = plan;
    plan_it(&looked, ask->act == HFI_LIMIT_TAKE ? ask->permits : 0);
    answer->refill_us = plan.fresh ? 0 : plan.over - plan.now;
    answer->left = looked.left > 0 ? looked.left : 0;
    answer->said = HFI_LIMIT_SEEN_IT;
    if (ask->act == HFI_LIMIT_TAKE)
        take_or_refuse(&looked, ask, ret_state, answer);
    else if (ask->act == HFI_LIMIT_SET)
        save(&plan, keep(&plan, ret_state), ret_state, answer);
}
