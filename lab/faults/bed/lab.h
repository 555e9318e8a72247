/* SPDX-License-Identifier: MIT */
/*
 * A cell of the table in the laboratory: real servers of one engine in one mode, started for this cell alone, and one kind of
 * fault that strikes them, their clients, or what is between them. Main thread only: servers die with it.
 */
#ifndef FAULTS_LAB_H
#define FAULTS_LAB_H

#include "../run.h"
#include "proxy.h"
#include "server.h"

#define MEMBERS_MAX 8

/* name, what it is, in the order of the table's columns */
#define FAULT_MAP(X)                                                                     \
    X(CLIENT_KILL, "client-kill", "a client that holds is killed")                       \
    X(CLIENT_STOP, "client-stop", "a client that holds is stopped, often past its ttl")  \
    X(SERVER_KILL, "server-kill", "a server is killed and comes back with its data")     \
    X(SERVER_WIPE, "server-wipe", "a server is killed and comes back without its data")  \
    X(SERVER_STOP, "server-stop", "a server is stopped, often past the ttl")             \
    X(CUT, "cut", "connections are cut after any number of bytes")                       \
    X(HALF_OPEN, "half-open", "bytes vanish in one direction, and arrive late or never") \
    X(SLOW, "slow", "links are slow: delays, a few bytes in a millisecond")              \
    X(LOSS, "loss", "a part of the packets is lost")                                     \
    X(PARTITION, "partition", "half of the clients cannot reach the servers")            \
    X(CLIENT_CLOCK, "client-clock", "clocks of clients jump forward and back")           \
    X(CLOCK_FORWARD, "clock-forward", "the clock of a server jumps forward")             \
    X(CLOCK_BACK, "clock-back", "the clock of a server jumps back")                      \
    X(FAILOVER, "failover", "the server that leads is killed, and another takes over")   \
    X(DISK_FULL, "disk-full", "the servers' disk is full")                               \
    X(MEMORY_FULL, "memory-full", "a server refuses writes: its memory is full")         \
    X(SCRIPT_FLUSH, "script-flush", "the server forgets its scripts")                    \
    X(EVICTION, "eviction", "the server evicts what it had to remember")
enum fault_kind {
#define FAULT_ENUM(id, name, text) FAULT_##id,
    FAULT_MAP(FAULT_ENUM)
#undef FAULT_ENUM
        FAULTS
};

struct lab;

/* What can be done to the servers of one engine. A function that is NULL cannot be done. */
struct bed {
    /* Start them; set lab->ports and lab->count. */
    void (*start)(struct lab *lab);
    /* The URL of the store, for these ports: the servers' own, or those of proxies. */
    void (*url)(const struct lab *lab, const uint16_t *ports, char url[URL_ROOM]);
    pid_t (*pid)(const struct lab *lab, unsigned member);
    void (*kill)(struct lab *lab, unsigned member);
    void (*revive)(struct lab *lab, unsigned member, bool keep); /* with its data, or empty */
    void (*revive_all)(
        struct lab *lab); /* those that are dead, with their data; NULL: one after the other */
    void (*pause)(struct lab *lab, unsigned member);
    void (*resume)(struct lab *lab, unsigned member);
    unsigned (*leader)(struct lab *lab);
    void (*failover)(struct lab *lab); /* from start to end, with another leader */
    void (*memory)(struct lab *lab, bool full);
    void (*flush)(struct lab *lab);
    void (*evict)(struct lab *lab);
    /* Why a fault cannot strike there; NULL: it can. */
    const char *(*why_not)(const struct lab *lab, enum fault_kind fault);
};

/* A row of the table. */
struct mode {
    const char *name;
    const struct bed *bed;
    unsigned variant;  /* the bed's own */
    const char *query; /* of the URL: "wire=plain"; "" */
    int64_t ttl_ms;    /* 0: a second; -1: leases without a ttl */
};
extern const struct mode modes[];
extern const struct bed bed_file, bed_redis, bed_sentinel, bed_cluster, bed_redlock, bed_memcached,
    bed_etcd, bed_zookeeper, bed_postgres, bed_standby, bed_mariadb;

struct lab {
    const struct mode *mode;
    enum fault_kind fault;
    struct director director;
    unsigned count; /* of servers */
    uint16_t ports[MEMBERS_MAX];
    struct proxy *proxies[MEMBERS_MAX];
    char dir[SERVER_PATH_ROOM]; /* for what is not a server's: the vault, the clock */
    _Atomic int64_t *clock_us;  /* of servers, or of clients; NULL: theirs are right */
    void *own;                  /* the bed's */
};

extern const char *const fault_names[FAULTS], *const fault_texts[FAULTS];

/* The strike for the cell. */
struct fault lab_fault(struct lab *lab);
/* Servers that the fault has ended are started again, with their data. */
void lab_tend(struct lab *lab);

/* A line for pg_hba.conf. */
struct db;
void postgres_let_in(struct db *server, const char *line);

/* ---- surroundings of a cell, before any server is started ---- */

/* A network of our own, and a second one behind a wire that can lose packets: *ret_far is for the crew. */
void net_begin(int *ret_far);
/* Per cent of the packets that are lost on that wire. */
void net_loss(unsigned percent);
/* TMPDIR and /dev/shm are a small disk of our own from now on; fill it, free it. */
void disk_begin(void);
void disk_fill(bool full);
/* A clock that servers (or else clients) started from now on have, and how far it is off. */
void clock_begin(struct lab *lab, bool of_servers);

#endif
