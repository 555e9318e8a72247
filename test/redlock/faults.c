/* SPDX-License-Identifier: MIT */
/*
 * Five servers that fail at random under eight processes that want a mutex, a read-write lock and
 * a semaphore of two; then the checker goes through what they wrote down.
 *
 *   redlock_faults steady|jumps [SECONDS [SEED]]
 *
 * steady: servers are killed and come back with their data or without, stopped, cut off, delayed;
 * clients are stopped past their ttl. Never more than two servers at a time, which is all that
 * Redlock tolerates. Two clients must never hold at once, and tokens must never be equal or
 * decrease.
 *
 * jumps: besides, the servers' clocks jump, more than one at a time. Two may hold at once then, which is
 * the known limit of Redlock: it is counted. Tokens must still never tie, nor go back.
 *
 * In both, under the mutex, two counters are raised by reading and writing back: one plain, one through
 * the guard. Only the guard's must lose nothing. The seed decides what is tried, not how it interleaves.
 */
#include "faults.h"

#include "checker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DOWN_MAX 2 /* nodes with a fault at a time */
#define JUMP_MS  8000
#define SECONDS  8
#define MAX_TTL  "?max_ttl=3s"

enum kind { FINE, KILLED, EMPTIED, STOPPED, BLOCKED, CUT, LATE, DELAYED, HEALING, KINDS };
static const char *const kind_names[KINDS] = {
    "",         "killed, kept its data",    "killed, lost its data", "stopped", "line blocked",
    "line cut", "line cut, delivered late", "line delayed",          ""
};

struct fault {
    enum kind kind;
    int64_t until_ms;
};

static struct faults *faults;
static struct fault state[NODES];
static pid_t workers[WORKERS];
static int64_t continue_ms[WORKERS]; /* 0: it runs */
static unsigned counts[KINDS], healed, jumps, pauses;
static bool jumping;
static uint64_t dice;

/* ---- faults of nodes ------------------------------------------------------------------------- */

static void begin_fault(unsigned i)
{
    enum kind kind = (enum kind)(KILLED + chance(&dice, DELAYED - KILLED + 1));
    int64_t for_ms = 10 + chance(&dice, chance(&dice, 6) ? 100 : 1200);

    if (kind == EMPTIED && chance(&dice, 3)) /* an empty node is one for long */
        kind = KILLED;

    switch (kind) {
    case KILLED:
    case EMPTIED:
        server_kill(nodes[i]);
        break;
    case STOPPED:
        server_pause(nodes[i]);
        break;
    case BLOCKED:
        proxy_block(lines[i], chance(&dice, 2) ? PROXY_UP : PROXY_DOWN, true);
        break;
    case CUT:
        proxy_cut(lines[i]);
        proxy_refuse(lines[i], true);
        break;
    case LATE:
        proxy_block(lines[i], PROXY_UP, true);
        break;
    default:
        proxy_delay(lines[i], chance(&dice, 2) ? PROXY_UP : PROXY_DOWN, 1 + chance(&dice, 100));
        break;
    }
    state[i] = (struct fault){ kind, now_ms() + for_ms };
    counts[kind]++;
}

static void end_fault(unsigned i)
{
    enum kind kind = state[i].kind;

    state[i].kind = FINE;
    switch (kind) {
    case KILLED:
        node_restart(i, true);
        break;
    case EMPTIED:
        node_restart(i, false);
        state[i].kind = HEALING;
        break;
    case STOPPED:
        server_continue(nodes[i]);
        break;
    case LATE: /* what was written before arrives behind what is written from now on */
        proxy_cut_late(lines[i]);
        proxy_block(lines[i], PROXY_UP, false);
        nap_ms(chance(&dice, 30));
        proxy_deliver(lines[i]);
        proxy_heal(lines[i]);
        break;
    default:
        proxy_heal(lines[i]);
        break;
    }
}

static unsigned tend_nodes(void)
{
    unsigned down = 0;

    for (unsigned i = 0; i < NODES; i++) {
        if (state[i].kind == HEALING && node_votes(i)) {
            state[i].kind = FINE;
            healed++;
        } else if (state[i].kind != FINE && state[i].kind != HEALING &&
                   state[i].until_ms <= now_ms()) {
            end_fault(i);
        }
        down += state[i].kind != FINE;
    }
    return down;
}

/* A worker that has read and not written yet, where a fault does the most harm; or any worker. */
static unsigned somebody_inside(void)
{
    unsigned first = chance(&dice, WORKERS);

    for (int tries = 0; tries < 100; tries++) {
        for (unsigned i = 0; i < WORKERS; i++)
            if (faults->inside[(first + i) % WORKERS] && !continue_ms[(first + i) % WORKERS])
                return (first + i) % WORKERS;
        usleep(200);
    }
    return first;
}

static void jump_clock(void)
{
    unsigned first = chance(&dice, NODES), many = 1 + chance(&dice, MAJORITY);
    int64_t ms = (int64_t)chance(&dice, 2 * JUMP_MS) - JUMP_MS;

    (void)somebody_inside();
    for (unsigned i = 0; i < many; i++)
        clock_jump_ms(nodes[(first + i) % NODES], ms);
    jumps += many;
}

/* ---- pauses of clients -------------------------------------------------------------------------- */

static void tend_workers(bool all)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (continue_ms[i] && (all || continue_ms[i] <= now_ms())) {
            continue_ms[i] = 0;
            kill(workers[i], SIGCONT);
        }
}

static void pause_worker(void)
{
    unsigned i = somebody_inside();

    if (continue_ms[i])
        return;
    kill(workers[i], SIGSTOP);
    continue_ms[i] = now_ms() + (chance(&dice, 8) ? 5 + chance(&dice, 30) : TTL_MS + 2500);
    pauses++;
}

/* One that ended by itself has said why. */
static bool all_alive(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(waitpid(workers[i], NULL, WNOHANG) == 0);
    return true;
}

/* ---- the run ------------------------------------------------------------------------------------- */

static void torment(int64_t for_ms)
{
    int64_t end_ms = now_ms() + for_ms;

    while (now_ms() < end_ms && all_alive()) {
        unsigned i = chance(&dice, NODES);

        if (tend_nodes() < DOWN_MAX && state[i].kind == FINE && chance(&dice, 4) == 0)
            begin_fault(i);
        tend_workers(false);
        if (chance(&dice, 25) == 0)
            pause_worker();
        if (jumping && chance(&dice, 25) == 0)
            jump_clock();
        nap_ms(2 + chance(&dice, 12));
    }
    for (unsigned i = 0; i < NODES; i++)
        if (state[i].kind != FINE && state[i].kind != HEALING)
            end_fault(i);
    tend_workers(true);
}

static void start_workers(void)
{
    pid_t parent = getpid();

    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        CHECK(workers[i] >= 0);
        if (workers[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(2);
            _exit(fault_worker(faults, i));
        }
    }
}

/* Everybody gets on again once the faults are over; then let them go. */
static void end_workers(void)
{
    uint64_t before[WORKERS];
    int status;

    for (unsigned i = 0; i < WORKERS; i++)
        before[i] = faults->history->lane[i].progress;
    for (unsigned i = 0; i < WORKERS; i++)
        AWAIT(all_alive() && faults->history->lane[i].progress > before[i] + 2);
    faults->history->stop = 1;
    for (unsigned i = 0; i < WORKERS; i++) {
        CHECK(waitpid(workers[i], &status, 0) == workers[i]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void set_up(uint64_t seed)
{
    faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(faults != MAP_FAILED);
    faults->history = history_new();
    CHECK(faults->history != NULL);
    faults->history->lanes = WORKERS;
    faults->history->capacities[LOCK_MUTEX] = 1;
    faults->history->capacities[LOCK_RW] = UINT32_MAX;
    faults->history->capacities[LOCK_SEMAPHORE] = SEMAPHORE_CAPACITY;
    faults->history->ties = true;
    faults->history->doubles = jumping;
    faults->seed = dice = seed;
    nodes_start();
    faults->vault = server_start(NULL);
    start_workers(); /* before there are threads */
    lines_start();
    snprintf(faults->url, sizeof faults->url, "%s", lines_url(MAX_TTL));
    faults->go = 1;
    AWAIT(all_alive() && faults->go == 1 + WORKERS); /* all have opened it */
}

static void report(const struct verdict *v, long long plain, long long guarded)
{
    unsigned failed = 0;

    for (unsigned i = 0; i <= HF_FENCED; i++)
        failed += faults->failed[i];
    printf("%u leases, %u acquires came to nothing (busy %u, timeout %u, unavailable %u, unknown "
           "%u)\n",
           v->leases, failed, faults->failed[HF_BUSY], faults->failed[HF_TIMEOUT],
           faults->failed[HF_UNAVAILABLE], faults->failed[HF_UNKNOWN]);
    printf("faults:");
    for (unsigned i = 0; i < KINDS; i++)
        if (counts[i])
            printf(" %s %u,", kind_names[i], counts[i]);
    printf(" clients stopped %u, clock jumps %u; healed %u\n", pauses, jumps, healed);
    printf("two at once: %u; bad tokens: %u of %u compared\n", v->exclusion, v->tokens,
           v->compared);
    printf("plain counter: raised %u times, lost %lld\n", faults->plain, faults->plain - plain);
    printf("guarded counter: raised %u times, %u refused, lost %lld\n", faults->guarded,
           faults->fenced, faults->guarded - guarded);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)history_now_ns() % 1000000;
    int64_t seconds = argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : SECONDS;
    struct vault vault;
    struct verdict verdict;
    long long plain, guarded;
    hf_store *store;

    contract_alone = true;
    jumping = argc > 1 && strcmp(argv[1], "jumps") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("redlock_faults %s %lld %llu\n", jumping ? "jumps" : "steady", (long long)seconds,
           (unsigned long long)seed);
    set_up(seed);
    torment(seconds * 1000);
    await_whole(); /* it heals by itself */
    end_workers();

    verdict = check_history(faults->history, stdout);
    vault_open(&vault, faults->vault);
    plain = vault_plain(&vault);
    guarded = vault_guarded(&vault);
    report(&verdict, plain, guarded);
    CHECK(verdict.leases > 0 && verdict.compared > 0);
    CHECK(verdict.tokens == 0);
    CHECK(jumping || verdict.exclusion == 0);
    CHECK(guarded == faults->guarded);
    vault_close(&vault);

    store = open_at(faults->url); /* and nothing is left over */
    for (unsigned i = 0; i < LOCKS; i++) {
        hf_acquire_request request = with_ttl(mutex_request(lock_names[i]), TTL_MS);

        AWAIT(probe(store, &request) == HF_OK);
    }
    close_store(store);
    nodes_stop();
    return 0;
}
