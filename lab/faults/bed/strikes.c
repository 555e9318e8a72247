/* SPDX-License-Identifier: MIT */
/* What each fault does, once; see lab.h. */
#include "lab.h"

#define CUT_MAX      1200 /* bytes until a cut, at most */
#define LATE_MS      20
#define DELAY_MS     150
#define LOSS_PERCENT 30
#define WIPED_MS \
    100 /* an empty server is there again while a lease that it forgot is still valid */
#define DOWN_MS       1500
#define JUMP_EXTRA_MS 4000 /* more than a lease that was handed over is valid for */
#define WAKE_MS       300

static int64_t lasts_ms(struct lab *lab, uint64_t *dice)
{
    return fault_lasts_ms(lab->director.shared, dice);
}

static void linger(struct lab *lab, uint64_t *dice)
{
    fault_sleep_ms(lasts_ms(lab, dice));
}

void lab_tend(struct lab *lab)
{
    const struct bed *bed = lab->mode->bed;
    bool ended = false;

    for (unsigned i = 0; bed->pid && i < lab->count; i++)
        if (has_ended(bed->pid(lab, i))) {
            ended = true;
            bed->kill(lab, i);
            if (!bed->revive_all)
                bed->revive(lab, i, true);
        }
    if (ended && bed->revive_all)
        bed->revive_all(lab);
}

/* ---- servers ------------------------------------------------------------------------------------ */

static void kill_server(struct lab *lab, uint64_t *dice, bool keep)
{
    unsigned member = chance(dice, lab->count);

    lab->mode->bed->kill(lab, member);
    fault_sleep_ms(keep ? lasts_ms(lab, dice) : 10 + chance(dice, WIPED_MS));
    lab->mode->bed->revive(lab, member, keep);
}

static void server_kill_strike(void *lab, uint64_t *dice)
{
    kill_server(lab, dice, true);
}

static void server_wipe_strike(void *lab, uint64_t *dice)
{
    kill_server(lab, dice, false);
}

static void server_stop_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;
    unsigned member = chance(dice, lab->count);

    lab->mode->bed->pause(lab, member);
    linger(lab, dice);
    lab->mode->bed->resume(lab, member);
}

static void failover_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;
    unsigned leader;

    if (lab->mode->bed->failover) {
        lab->mode->bed->failover(lab);
        return;
    }
    leader = lab->mode->bed->leader(lab);
    if (chance(dice, 2)) {
        lab->mode->bed->kill(lab, leader);
        fault_sleep_ms(DOWN_MS);
        lab->mode->bed->revive(lab, leader, true);
    } else { /* it comes back and believes that it still leads */
        lab->mode->bed->pause(lab, leader);
        fault_sleep_ms(2 * DOWN_MS);
        lab->mode->bed->resume(lab, leader);
    }
}

static void memory_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    lab->mode->bed->memory(lab, true);
    linger(lab, dice);
    lab->mode->bed->memory(lab, false);
}

static void flush_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    lab->mode->bed->flush(lab);
    fault_sleep_ms(10 + chance(dice, 50));
}

static void eviction_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    lab->mode->bed->evict(lab);
    fault_sleep_ms(10 + chance(dice, 200));
}

static void disk_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    disk_fill(true);
    linger(lab, dice);
    disk_fill(false);
    lab_tend(lab);
}

/* ---- the network ----------------------------------------------------------------------------------- */

static enum proxy_way some_way(uint64_t *dice)
{
    return chance(dice, 2) ? PROXY_UP : PROXY_DOWN;
}

/* One line, or all of them. */
static void each_line(struct lab *lab, uint64_t *dice, void (*f)(struct proxy *, uint64_t *))
{
    unsigned only = chance(dice, lab->count);
    bool all = chance(dice, 2) == 0;

    for (unsigned i = 0; i < lab->count; i++)
        if (all || i == only)
            f(lab->proxies[i], dice);
}

static void heal(struct lab *lab)
{
    for (unsigned i = 0; i < lab->count; i++)
        proxy_heal(lab->proxies[i]);
}

static void cut_line(struct proxy *proxy, uint64_t *dice)
{
    switch (chance(dice, 3)) {
    case 0:
        proxy_cut(proxy);
        break;
    case 1:
        proxy_refuse(proxy, true);
        proxy_cut(proxy);
        break;
    default:
        proxy_cut_after(proxy, some_way(dice), chance(dice, CUT_MAX));
        break;
    }
}

static void cut_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    each_line(lab, dice, cut_line);
    linger(lab, dice);
    heal(lab);
}

static void block_line(struct proxy *proxy, uint64_t *dice)
{
    proxy_block(proxy, some_way(dice), true);
}

/* What was written before the cut reaches the server after all, behind what is written from then on. */
static void deliver_late(struct lab *lab, uint64_t *dice)
{
    for (unsigned i = 0; i < lab->count; i++)
        proxy_block(lab->proxies[i], PROXY_UP, true);
    fault_sleep_ms(1 + chance(dice, LATE_MS));
    for (unsigned i = 0; i < lab->count; i++)
        proxy_cut_late(lab->proxies[i]);
    heal(lab);
    linger(lab, dice);
    for (unsigned i = 0; i < lab->count; i++)
        proxy_deliver(lab->proxies[i]);
}

static void half_open_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    if (chance(dice, 3) == 0) {
        deliver_late(lab, dice);
        return;
    }
    each_line(lab, dice, block_line);
    linger(lab, dice);
    heal(lab);
}

static void slow_line(struct proxy *proxy, uint64_t *dice)
{
    if (chance(dice, 2))
        proxy_delay(proxy, some_way(dice), 1 + chance(dice, DELAY_MS));
    else
        proxy_drip(proxy, some_way(dice), 1 + chance(dice, 8));
}

static void slow_strike(void *arg, uint64_t *dice)
{
    struct lab *lab = arg;

    each_line(lab, dice, slow_line);
    linger(lab, dice);
    heal(lab);
}

static void loss_strike(void *lab, uint64_t *dice)
{
    net_loss(5 + chance(dice, LOSS_PERCENT));
    linger(lab, dice);
    net_loss(0);
}

static void partition_strike(void *lab, uint64_t *dice)
{
    net_loss(100);
    linger(lab, dice);
    net_loss(0);
}

/* ---- clocks ------------------------------------------------------------------------------------------ */

static void jump(struct lab *lab, uint64_t *dice, int64_t ms)
{
    atomic_fetch_add(lab->clock_us, ms * 1000);
    fault_sleep_ms(WAKE_MS + chance(dice, 200)); /* renewals come and see it */
}

static int64_t past_ttl_ms(const struct lab *lab)
{
    return atomic_load(&lab->director.shared->lease_ms) + JUMP_EXTRA_MS;
}

static void client_clock_strike(void *lab, uint64_t *dice)
{
    jump(lab, dice, chance(dice, 2) ? past_ttl_ms(lab) : -past_ttl_ms(lab));
}

static void clock_forward_strike(void *lab, uint64_t *dice)
{
    jump(lab, dice, past_ttl_ms(lab));
}

static void clock_back_strike(void *lab, uint64_t *dice)
{
    jump(lab, dice, -past_ttl_ms(lab));
}

/* ---- all ------------------------------------------------------------------------------------------------ */

struct fault lab_fault(struct lab *lab)
{
    static void (*const strikes[FAULTS])(void *, uint64_t *) = {
        [FAULT_CLIENT_KILL] = strike_client_kill,
        [FAULT_CLIENT_STOP] = strike_client_stop,
        [FAULT_SERVER_KILL] = server_kill_strike,
        [FAULT_SERVER_WIPE] = server_wipe_strike,
        [FAULT_SERVER_STOP] = server_stop_strike,
        [FAULT_CUT] = cut_strike,
        [FAULT_HALF_OPEN] = half_open_strike,
        [FAULT_SLOW] = slow_strike,
        [FAULT_LOSS] = loss_strike,
        [FAULT_PARTITION] = partition_strike,
        [FAULT_CLIENT_CLOCK] = client_clock_strike,
        [FAULT_CLOCK_FORWARD] = clock_forward_strike,
        [FAULT_CLOCK_BACK] = clock_back_strike,
        [FAULT_FAILOVER] = failover_strike,
        [FAULT_DISK_FULL] = disk_strike,
        [FAULT_MEMORY_FULL] = memory_strike,
        [FAULT_SCRIPT_FLUSH] = flush_strike,
        [FAULT_EVICTION] = eviction_strike,
    };
    bool ours = lab->fault == FAULT_CLIENT_KILL || lab->fault == FAULT_CLIENT_STOP;

    return (struct fault){ .name = fault_names[lab->fault],
                           .strike = strikes[lab->fault],
                           .arg = ours ? (void *)&lab->director : (void *)lab,
                           .through = !ours };
}
