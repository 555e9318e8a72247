/* SPDX-License-Identifier: MIT */
/*
 * The simulation of Redlock: clients and healers that use the pure decisions of
 * src/engine/redlock/quorum.h, and nodes modelled after src/engine/redlock/scripts/README.md, in
 * virtual time. One name; mutex, read-write or semaphore; three or five nodes.
 *
 * Every node and every client has a clock of its own. Requests, replies and messages are lost, repeated, late
 * and out of order; links are cut; nodes crash with and without their data and are stopped; clocks jump; clients
 * are paused and die; healers die half way; some clusters must be started first. A schedule follows from
 * its seed alone.
 *
 * A mutant decides one thing wrongly (world.mutant); the judge must catch each.
 */
#ifndef SIM_REDLOCK_H
#define SIM_REDLOCK_H

#include "engine/kit/handover.h"
#include "engine/redlock/quorum.h"

#include <stddef.h>

/* Each mutant with the weather that reveals it (a storm, see redlock_world.c, or not), and the seed
 * of a schedule that did: that one is tried first. After a change of the simulation the run
 * searches for another seed and prints it. */
#define RL_MUTANTS(X)                                                                  \
    X(SOUND, 0, 0, "nothing is wrong")                                                 \
    X(NO_WRITE_BACK, 1, 1, "a majority without one token counts as won")               \
    X(WRITE_IGNORES, 1, 2358, "a write-back whose answer is not looked at")            \
    X(WRITE_ALWAYS, 1, 17, "a node writes back for one who does not hold")             \
    X(MINORITY, 0, 1, "one node fewer than a majority is enough")                      \
    X(REPLIES, 1, 1, "replies are counted, not nodes")                                 \
    X(LOSS_VOTES, 1, 2, "a node that lost its data votes on")                          \
    X(NO_SEAL, 1, 1009, "a node is healed without a seal")                             \
    X(SEAL_FEW, 1, 2251, "a majority of the intact nodes is sealed, not of all")       \
    X(NO_MARKER, 1, 1225, "an install that does not look at the marker")               \
    X(ONE_MARKER, 1, 106709, "one marker for all nodes of a start")                    \
    X(NUMBER_ONLY, 1, 1744, "an epoch is a number")                                    \
    X(KEEP_REPLIES, 1, 58638, "replies are kept when the epoch changes")               \
    X(RENEW_RECREATES, 0, 90, "a renewal makes what is not there")                     \
    X(RENEW_ANYWHERE, 0, 3409, "a renewal counts nodes that do not witness the token") \
    X(OWNER_TWICE, 1, 3, "an owner and attempt for two acquisitions")                  \
    X(NO_RETREAT, 0, 15, "nobody starts over when yielding does not help")             \
    X(NO_YIELD, 0, 15, "nobody yields")                                                \
    X(COUNT_PERMITS, 0, 62, "a semaphore counts permits, not slots")                   \
    X(READ_FIRST, 0, 523, "the resource is read before the token is claimed")          \
    X(STALE_MESSAGE, 0, 394, "a message is believed after the grant was taken back")   \
    X(LATE_YIELD, 0, 603, "a yield without answer is forgotten")                       \
    X(BORN_OLD, 0, 110, "an empty node is healed before max_ttl is over")

enum rl_mutant {
#define RL_NAME(name, storm, seed, text) RL_##name,
    RL_MUTANTS(RL_NAME)
#undef RL_NAME
        RL_MUTANT_COUNT
};

/* What is injected, and counted. */
#define RL_FAULTS(X)              \
    X(LOST, "lost")               \
    X(REPEATED, "repeated")       \
    X(LATE, "late")               \
    X(CUT, "links cut")           \
    X(CRASH, "crashes")           \
    X(LOSS, "data losses")        \
    X(STOP, "stops")              \
    X(JUMP, "clock jumps")        \
    X(PAUSE, "pauses")            \
    X(DEATH, "deaths of clients") \
    X(HEALER, "deaths of healers")

enum rl_fault {
#define RL_NAME(name, text) RL_FAULT_##name,
    RL_FAULTS(RL_NAME)
#undef RL_NAME
        RL_FAULT_COUNT
};

enum rl_mode { RL_MUTEX, RL_RW, RL_SEMAPHORE };

#define RL_NODES   5
#define RL_CLIENTS 5
#define RL_HEALERS 3
#define RL_ACTORS  (RL_CLIENTS + RL_HEALERS)
#define RL_RECORDS 96 /* holders, waiters or tombstones at a node */
#define RL_WINS    512

/* ---- messages ------------------------------------------------------------------------------ */

enum rl_verb {
    RL_ACQUIRE,
    RL_WRITE,
    RL_RELEASE,
    RL_BEAT,
    RL_RENEW,
    RL_STATUS,
    RL_MARK,
    RL_INSTALL,
    RL_SEAL,
    RL_PUSH, /* a message on the inbox */
    RL_CLAIM,
    RL_STORE /* to the resource */
};

struct rl_message {
    enum rl_verb verb;
    bool reply;
    unsigned node, actor;
    unsigned number; /* of the request, for its actor */
    int64_t sent_ms; /* by the actor's clock */
    uint64_t owner;
    unsigned attempt;
    struct hfi_epoch epoch, next; /* next: seal */
    uint32_t permits, tokens;
    bool waits, yields;
    int64_t ttl_ms, window_ms, tombstone_ms, overwrite_ms;
    uint64_t stamp, proposal;
    unsigned start;
    uint64_t token;                     /* write, claim, store */
    unsigned char marker[HFI_EPOCH_ID]; /* mark, install */
    uint64_t floor, value;

    char said; /* the letter of the reply */
    uint64_t counter;
    uint64_t slots;
    int64_t ms;
    struct hfi_node_view view; /* status, mark */
};

/* ---- nodes ----------------------------------------------------------------------------------- */

struct redlock_record {
    uint64_t owner;
    unsigned attempt;
    unsigned client;
    uint32_t permits, tokens;
    uint64_t slots, token, stamp;
    unsigned start;
    int64_t until_ms;  /* holder, tombstone; waiter: last heartbeat + window */
    int64_t window_ms; /* waiter */
    struct hfi_epoch epoch;
};

struct rl_list {
    unsigned count;
    struct redlock_record at[RL_RECORDS];
};

struct redlock_node {
    int64_t offset_us, ppm;
    int64_t down_until_us, stopped_until_us;
    bool ready, marked;
    struct hfi_epoch epoch;
    unsigned char cluster[HFI_EPOCH_ID], marker[HFI_EPOCH_ID];
    int64_t marked_ms;
    uint64_t top, floor, counter; /* counter 0: absent */
    /* the last that it voted in; only the judge remembers it after a loss */
    struct hfi_epoch voted;
    struct rl_list holders, waiters, tombs;
};

/* ---- clients ----------------------------------------------------------------------------------- */

enum rl_phase { RL_IDLE, RL_ASKING, RL_HELD };

struct rl_seat { /* what a client knows about a node, in one acquisition */
    unsigned attempt;
    unsigned number; /* of the request whose answer is its vote; 0: none */
    int64_t asked_ms;
    bool yielding, spoilt; /* spoilt: a yield of this attempt may still be carried out */
    uint64_t given_up;     /* a grant with this counter or a lower one was taken back */
    int64_t base_ms;       /* a grant by message was not earlier than this */
    int64_t wrote_ms;
};

struct rl_client {
    unsigned number;
    int64_t offset_us, ppm, wall_us; /* wall_us: how wrong its proposals and stamps are */
    int64_t paused_until_us;
    unsigned requests, timer;

    enum rl_phase phase;
    bool in_epoch;
    struct hfi_epoch epoch;
    bool viewing;
    unsigned view_number;
    int64_t view_ms;
    struct hfi_node_view view[RL_NODES];

    uint64_t owner;
    bool waits;
    uint32_t permits, tokens;
    unsigned start;
    uint64_t stamp;
    int64_t began_us;
    struct hfi_ballot ballot;
    struct rl_seat seat[RL_NODES];
    int64_t next_ms, beat_ms, yield_ms, give_up_ms, answer_ms;
    unsigned yields;

    unsigned win; /* HELD: its number at the judge */
    uint64_t token, choice;
    int64_t until_ms, done_ms;
    unsigned renewal; /* number of the one under way; 0: none */
    int64_t renewal_ms, renewal_us;
    uint32_t witnesses, yes, no; /* nodes */
    bool claimed;
    unsigned won_in_calm;
};

/* ---- healers ----------------------------------------------------------------------------------- */

struct rl_healer {
    unsigned requests, timer;
    unsigned round; /* requests with this number or a higher one belong to the current step */
    bool viewing;
    struct hfi_node_view view[RL_NODES];
    unsigned took;                      /* how many of its requests are answered */
    unsigned char marker[HFI_EPOCH_ID]; /* the id of its last start */
    enum hfi_stuck stuck;
};

/* ---- the world ----------------------------------------------------------------------------------- */

struct rl_weather {
    unsigned lose, repeat, late; /* per cent */
    int64_t late_ms, near_us;
    unsigned cut, crash, loss, stop, jump, pause, death, healer; /* weights */
    int64_t while_ms; /* the longest duration of a fault */
    int64_t every_ms; /* the average time between two faults */
};

struct rl_win {
    unsigned client;
    uint64_t token, slots;
    uint32_t tokens, permits;
    int64_t began_us, won_us;
};

struct rl_event {
    int64_t at_us;
    uint64_t order;
    unsigned what, timer; /* an actor's timer, or RL_ACTORS: faults */
    struct rl_message *message;
};

struct rl_world {
    uint64_t seed, random;
    enum rl_mutant mutant;
    int64_t now_us;
    bool calm, excused; /* excused: too much data was lost to continue */
    bool loose;         /* clocks jump, or acquires are sent twice: only tokens exclude */
    unsigned n, client_count, healer_count;
    enum rl_mode mode;
    uint32_t capacity;
    int64_t ttl_ms, window_ms, max_ttl_ms, hold_ms;
    int64_t beat_ms;  /* the interval of heartbeats */
    unsigned patient; /* some wait for an answer for this many windows */
    bool proposals;
    bool by_counter;  /* how an old message is told from a new one, see redlock_client.c */
    bool stale;       /* a node loses its data again and again, and a healer acts on old
                       * information */
    unsigned waiting; /* per cent of the acquires that may wait */
    struct rl_weather weather;
    struct redlock_node node[RL_NODES];
    struct rl_client client[RL_CLIENTS];
    struct rl_healer healer[RL_HEALERS];
    int64_t cut_us[RL_ACTORS][RL_NODES];

    struct rl_event *events;
    size_t event_count, event_room;
    uint64_t event_order;

    /* The judge's, and the resource's: */
    struct rl_win win[RL_WINS];
    unsigned wins;
    uint64_t claimed, value, stored;
    char verdict[256];

    unsigned long steps, faults[RL_FAULT_COUNT];
};

/* redlock_world.c: time, chance, the network, faults */
bool rl_run(struct rl_world *world, uint64_t seed, enum rl_mutant mutant);
uint64_t rl_roll(struct rl_world *world, uint64_t sides);
bool rl_chance(struct rl_world *world, unsigned percent);
void rl_random_id(struct rl_world *world, unsigned char *ret_id);
void rl_send(struct rl_world *world, const struct rl_message *message);
void rl_set_timer(struct rl_world *world, unsigned actor, int64_t after_us);
int64_t rl_node_ms(const struct rl_world *world, unsigned node);
int64_t rl_client_ms(const struct rl_world *world, const struct rl_client *client);

/* redlock_node.c: a node carries out a request; the reply is in the same message. */
void rl_node_call(struct rl_world *world, struct rl_message *message);
void rl_node_install(struct rl_world *world, unsigned node, const struct hfi_epoch *epoch,
                     uint64_t floor);
void rl_node_lose(struct rl_world *world, unsigned node);

/* redlock_client.c, redlock_held.c, redlock_healer.c */
void rl_client_step(struct rl_world *world, struct rl_client *client);
void rl_client_message(struct rl_world *world, struct rl_client *client,
                       const struct rl_message *message);
void rl_client_die(struct rl_world *world, struct rl_client *client);
struct rl_message rl_client_request(struct rl_world *world, struct rl_client *client, unsigned node,
                                    enum rl_verb verb);
void rl_client_let_go(struct rl_world *world, struct rl_client *client);
void rl_client_rest(struct rl_world *world, struct rl_client *client);

void rl_held_begin(struct rl_world *world, struct rl_client *client,
                   const struct hfi_ballot_outcome *outcome);
void rl_held_step(struct rl_world *world, struct rl_client *client, int64_t now_ms);
void rl_held_message(struct rl_world *world, struct rl_client *client,
                     const struct rl_message *message);
bool rl_held_now(const struct rl_world *world, const struct rl_client *client);

void rl_healer_step(struct rl_world *world, unsigned number);
void rl_healer_message(struct rl_world *world, unsigned number, const struct rl_message *message);
void rl_healer_die(struct rl_world *world, unsigned number);

/* redlock_judge.c */
void rl_wrong(struct rl_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
unsigned rl_judge_won(struct rl_world *world, const struct rl_client *client);
void rl_judge_back(struct rl_world *world, unsigned node, const struct hfi_epoch *epoch);
void rl_judge_renewed(struct rl_world *world, const struct rl_client *client, int64_t sent_us);
void rl_judge(struct rl_world *world);
void rl_judge_rest(struct rl_world *world);
/* The resource that checks tokens. */
void rl_resource_call(struct rl_world *world, struct rl_message *message);

#endif
