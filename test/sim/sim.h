/* SPDX-License-Identifier: MIT */
/*
 * The simulation: clients that use core's pure decisions (core/term.h) and the rules of hand-over
 * (engine/kit/handover.h), and a model server (test/lib/mem_server.h), in virtual time.
 *
 * Every client has a clock of its own, off by anything and up to 1 % faster or
 * slower than the server's. Messages are lost, repeated and late; clients are paused; leases are broken, and
 * the server may lose its data (disaster.c). There are one or two names. After every event the judge checks
 * all clients (judge.c). A schedule follows from its seed alone.
 *
 * With -DMUTANT=n one decision is made wrongly, see the list; the judge must catch each mutant.
 */
#ifndef SIM_H
#define SIM_H

#include "core/term.h"
#include "engine/kit/handover.h"
#include "mem_server.h"

#include <stdarg.h>

#ifndef MUTANT
#define MUTANT 0
#endif

enum sim_mutant {
    SIM_SOUND = 0,
    SIM_COUNT_FROM_REPLY = 1,    /* validity counted from when the answer came */
    SIM_IGNORE_DRIFT = 2,        /* the full ttl is believed */
    SIM_RENEW_RECREATES = 3,     /* the server grants again what a renewal asks for */
    SIM_ASSUME_RENEWED = 4,      /* no answer to a renewal is taken for a yes */
    SIM_COUNT_FROM_PUSH = 5,     /* a hand-off's validity counted from when the message came */
    SIM_WAIT_FOR_RENEWAL = 6,    /* not lost while a renewal is under way */
    SIM_LATE_YES_REVIVES = 7,    /* an answer after the end makes the lease held again */
    SIM_LAST_SEND = 8,           /* any answer counts for the renewal that was sent last */
    SIM_FORGET_SHORTER = 9,      /* a shorter renewal without an answer is not believed */
    SIM_TOKENS_TIE = 10,         /* the server gives a token twice */
    SIM_RELEASE_BY_NAME = 11,    /* a release frees whoever holds the name */
    SIM_SLEEP_TOO_LONG = 12,     /* looked at only when a renewal is due */
    SIM_NO_MEMORY = 13,          /* the server does not know an ended owner again */
    SIM_BELIEVE_OLD_NEWS = 14,   /* a hand-off is used however little of it is left */
    SIM_NEVER_CONFIRM = 15,      /* and however much the user needs */
    SIM_IDLE_WITHOUT_CLOCK = 16, /* an idle lease is taken without a look at the clock */
    SIM_BEYOND_BLOCK = 17,       /* and with a token behind the last one of its block */
    SIM_ASSUME_TOKENS = 18,      /* no answer to a wish for tokens is taken for a yes */
    SIM_RECALL_LEAVES_IDLE = 19, /* a recall gives the lease back, and it stays idle here */
    SIM_REFILL_AGAIN = 20,       /* the server gives the tokens of the block before once more */
    SIM_BREAK_FREES_BLOCK =
        21, /* tokens of a broken block that were not used are given once more */
    SIM_LOSS_FREES_TOKENS = 22, /* the server loses its counter of tokens too */
    SIM_LOST_STAYS_IDLE = 23,   /* an idle lease that is lost is taken again */
    SIM_IGNORE_FLOOR = 24,      /* a message older than "still waiting" is a grant */
    SIM_REST_IS_WHOLE = 25,     /* what is left of a grant is not compared with all of it */
    SIM_RISK_WITH_ANSWER = 26,  /* AT_RISK only when the request is given up */
    SIM_MUTANTS
};

#define SIM_CLIENTS_MAX 6
#define SIM_NAMES_MAX   2
#define SIM_NS_PER_MS   INT64_C(1000000)

/* What this schedule is like. */
struct sim_weather {
    unsigned lose, repeat, late; /* per cent of the messages */
    int64_t late_ms;             /* how late, at most */
    int64_t near_ms;             /* how long a message takes, at most, when it is not late */
    unsigned pause;              /* per mille of a client's steps */
    int64_t pause_ms;            /* how long, at most */
    unsigned breaks;             /* per ten thousand of all steps: a lease is broken */
    unsigned losses;             /* likewise: the server loses its data */
};

/* LINGERS: the user has released it, and the client keeps it for the next time (core/idle.h). */
enum sim_phase { SIM_IDLE, SIM_ASKING, SIM_CONFIRMING, SIM_HELD, SIM_LINGERS, SIM_RELEASING };

struct sim_client {
    int number;
    int64_t offset_ms; /* its clock: local = offset + true * (1 + ppm / 1e6) */
    int64_t ppm;
    int64_t paused_until_ns;
    unsigned timer; /* the generation of the timer that counts */

    enum sim_phase phase;
    struct mem_request ask; /* of the acquisition that is going on */
    struct hfi_term term;
    bool queued; /* ASKING: the server has said so */
    int64_t min_valid_ms;
    int64_t base_ms; /* a grant above the floor cannot have begun before this, local */
    uint64_t floor;  /* the highest token that a "still waiting" has named */
    /* IDLE: begin; ASKING, RELEASING: ask again; CONFIRMING: give up; HELD: release */
    int64_t next_ms;
    int64_t renewal_ms; /* an answer to the renewal is given up then */
    unsigned renewal;   /* its number; 0: none under way */
    int64_t renewal_sent_ms;
    unsigned acquired, lost;

    int64_t linger_ms; /* 0: this lease does not linger */
    int64_t idle_ms;   /* LINGERS: until then */
    int64_t since_ms;  /* HELD: since then, by this user */
    bool wanted;       /* others wait, as far as it knows */
    uint64_t token, last, more_from;
    uint32_t more; /* tokens behind the block in use */
    unsigned taken_again;
};

struct sim_message {
    bool to_server, push;
    int client;
    unsigned renewal;  /* number of the renewal that it asks or answers */
    int64_t sent_ms;   /* local time at which the request was sent */
    int64_t served_ns; /* when the server answered */
    struct mem_request request;
    struct mem_reply reply;
};

struct sim_event {
    int64_t at_ns;
    uint64_t order; /* equal times: as they were made */
    int client;     /* its timer, or -1 */
    unsigned timer;
    struct sim_message *message; /* or NULL */
};

#define SIM_KNOWN_MAX 256 /* grants that the judge remembers */

struct sim_grant {
    unsigned char owner[HFI_OWNER_LEN];
    uint64_t token;
    int64_t granted_ns;
    bool ended;
    bool told;      /* its client knows that it is lost */
    bool forgotten; /* the server has lost its data since: a late copy may be granted again */
    /* it was broken, or lost with the server's data: only tokens protect. 0: not */
    int64_t overridden_ns;
};

struct sim {
    uint64_t seed, random;
    int64_t now_ns;
    struct sim_weather weather;
    bool calm; /* no more faults: all clients must become idle */

    int client_count;
    struct sim_client clients[SIM_CLIENTS_MAX];
    struct mem_server *server;
    enum hfi_mode mode;
    uint32_t capacity;
    int64_t ttl_ms;
    int name_count;

    struct sim_event *events; /* a heap */
    size_t event_count, event_room;
    uint64_t event_order;

    /* The judge's: */
    uint64_t last_token;                /* of the last block */
    uint64_t used_token[SIM_NAMES_MAX]; /* of the last user that has held all there is */
    struct sim_grant known[SIM_KNOWN_MAX];
    unsigned grants;
    char verdict[256]; /* empty: nothing was wrong */
};

/* ---- sim.c: time, chance and the network ---------------------------------------- */

/* Run one schedule. false: sim->verdict says what was wrong. */
bool sim_run(struct sim *sim, uint64_t seed);

uint64_t sim_roll(struct sim *sim, uint64_t sides);
bool sim_chance(struct sim *sim, unsigned percent);
int64_t sim_local_ms(const struct sim *sim, const struct sim_client *client);
int64_t sim_server_ms(const struct sim *sim);
/* Let the client step at that time of its clock, instead of the time set before. */
void sim_set_timer(struct sim *sim, struct sim_client *client, int64_t local_ms);
/* Send the client's request to the server. */
void sim_send(struct sim *sim, struct sim_client *client, const struct mem_request *request,
              unsigned renewal);

/* ---- client.c ---------------------------------------------------------------------- */

void sim_client_message(struct sim *sim, struct sim_client *client,
                        const struct sim_message *message);
/* Do what is due by the client's clock, and set its timer. */
void sim_client_step(struct sim *sim, struct sim_client *client);
/* Would it tell its user, now, that it holds the lease? Or the next one, for which it lingers. */
bool sim_client_says_held(const struct sim *sim, const struct sim_client *client);

/* ---- disaster.c -------------------------------------------------------------------- */

/* Perhaps one happens now. */
void sim_disaster(struct sim *sim);

/* ---- judge.c ------------------------------------------------------------------------ */

void sim_wrong(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The server says that this owner was granted, or has ended. */
void sim_judge_grant(struct sim *sim, const unsigned char *owner, const struct mem_reply *reply);
void sim_judge_end(struct sim *sim, const unsigned char *owner);
/* This lease will end at the server although its time is not up; NULL: all of them, and the server's memory. */
void sim_judge_override(struct sim *sim, const unsigned char *owner);
/* The client has learned that its lease is lost. */
void sim_judge_told(struct sim *sim, const struct sim_client *client);
/* The client has learned that it was waiting then: what the server lost before is no lease of it. */
void sim_judge_waits(struct sim *sim, const struct sim_client *client, int64_t served_ns);
const struct sim_grant *sim_judge_known(struct sim *sim, const unsigned char *owner);
/* A client reports LOST at now_ms of its clock; its validity ended at valid_until_ms. */
void sim_judge_lost(struct sim *sim, const struct sim_client *client, int64_t now_ms,
                    int64_t valid_until_ms);
/* A client tells its user that it holds the lease. */
void sim_judge_taken(struct sim *sim, const struct sim_client *client, bool confirmed,
                     int64_t now_ms);
/* The server has given the holder of a lingering lease further tokens. */
void sim_judge_refill(struct sim *sim, const struct mem_reply *reply);
/* A user holds, with this token. */
void sim_judge_used(struct sim *sim, const struct sim_client *client);
/* After every event. */
void sim_judge(struct sim *sim);
/* At the end of a schedule. */
void sim_judge_rest(struct sim *sim);

#endif
