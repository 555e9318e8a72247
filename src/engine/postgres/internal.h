/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL driver of the SQL engines (sql/internal.h).
 *
 *   engine.c      the driver, and the engine's tables
 *   conf.c        what the URL says to libpq
 *   connection.c  connecting, closing, waiting on a socket with a deadline
 *   call.c        statements: prepared calls in binary, others as text; what errors mean
 *   listener.c    LISTEN, and what notifications say
 *   lock_sql.c    mode=row and mode=session in the words of this server
 *   doctor.c      what the server's settings mean
 *   schema.c      sql/ *.sql with our names in it; stale statements
 *
 * libpq is used by its asynchronous calls only, and sockets are polled: a server that is stopped must not
 * stop us. (Only libpq's lookup of host names blocks.)
 */
#ifndef HFI_POSTGRES_INTERNAL_H
#define HFI_POSTGRES_INTERNAL_H

#include "engine/sql/internal.h"

#include <libpq-fe.h>

#define POSTGRES_VERSION      12 /* of the functions: raised with every change of sql/ *.sql */
#define POSTGRES_HOSTS_MAX    16
#define POSTGRES_KEYWORDS_MAX 64

/* The types of PostgreSQL that we meet: their numbers never change. */
#define POSTGRES_BOOL   16
#define POSTGRES_BYTEA  17
#define POSTGRES_CHAR   18
#define POSTGRES_INT8   20
#define POSTGRES_INT2   21
#define POSTGRES_INT4   23
#define POSTGRES_TEXT   25
#define POSTGRES_BYTEAS 1001
#define POSTGRES_INT8S  1016

struct postgres_url { /* what the URL says */
    struct sql_conf sql;
    struct hfi_rest rest; /* parameters for libpq */
};
extern const struct hfi_conf_type postgres_conf_type;

/* Is it worth trying the common case of a call first? (call.c) */
struct postgres_guess {
    _Atomic unsigned skip;   /* so many calls without trying it */
    _Atomic unsigned misses; /* in a row, 4 at most */
};

struct postgres_conf { /* what libpq is told: store->native */
    char *keys[POSTGRES_KEYWORDS_MAX + 1],
        *values[POSTGRES_KEYWORDS_MAX + 1]; /* for libpq, but for these: */
    char *host[POSTGRES_HOSTS_MAX], *hostaddr[POSTGRES_HOSTS_MAX], *port[POSTGRES_HOSTS_MAX];
    unsigned count, hosts;
    _Atomic unsigned last; /* host that answered last */
    _Atomic int64_t born;  /* the start time of the server to which we connected last */
    struct postgres_guess acquire, release; /* call.c */
};

#define POSTGRES_LETTERS 64

/* A connection; what follows the first member is the listener's (listener.c). */
struct postgres_connection {
    struct sql_connection base;
    bool naps;            /* it may: its session on the server is its own */
    bool napping;         /* a nap is under way */
    bool looked;          /* what was told before it listened is known */
    bool missed;          /* more came than there was room for */
    int64_t rest_ms;      /* no nap before */
    int64_t told;         /* the last letter that we have */
    unsigned unforgotten; /* letters that we have, and that are not deleted */
    struct sql_message letters[POSTGRES_LETTERS];
    unsigned count, next;
};

hf_status postgres_parse(struct sql_store *store, struct sql_conf *conf, hf_error *err);
void postgres_free_conf(struct sql_store *store);
/* A text of libpq or of the server, for people: one line, without passwords. */
void postgres_words(const struct sql_store *store, const char *text, char *ret_words, size_t size);

hf_status postgres_open(struct sql_store *store, int64_t deadline_ms,
                        struct sql_connection **ret_connection, hf_error *err);
void postgres_close(struct sql_connection *connection);
void postgres_abandon(struct sql_connection *connection);
bool postgres_alive(struct sql_connection *connection);
int postgres_fd(struct sql_connection *connection);
/* Wait until the socket can be read (or written, or `fd` be read: -1: none). false: until_ms has passed. */
bool postgres_poll(PGconn *pg, bool write, int fd, int64_t until_ms);

enum sql_outcome postgres_call(struct sql_connection *connection, enum sql_call call,
                               const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                               struct sql_rows *ret_rows, struct sql_trouble *trouble);
enum sql_outcome postgres_text(struct sql_connection *connection, const char *sql,
                               int64_t deadline_ms, struct sql_rows *ret_rows,
                               struct sql_trouble *trouble);
bool postgres_literal(const struct sql_value *value, char *ret_text, size_t room);
void postgres_interrupt(struct sql_connection *connection, int64_t deadline_ms);

hf_status postgres_listen(struct sql_store *store, int64_t deadline_ms,
                          struct sql_connection **ret_connection, hf_error *err);
hf_status postgres_next_notice(struct sql_connection *listener, int kick, int64_t until_ms,
                               struct sql_message *ret_message, hf_error *err);

hf_status postgres_probe(struct sql_connection *connection, int64_t deadline_ms,
                         enum sql_found *ret_found, hf_error *err);
bool postgres_schema(struct sql_store *store, bool (*emit)(void *arg, const char *sql), void *arg);
hf_status postgres_wait_until_gone(struct sql_store *store, int64_t server_id, int64_t since,
                                   int64_t deadline_ms, hf_error *err);
hf_status postgres_may_make(struct sql_connection *connection, int64_t deadline_ms, char *ret_lack,
                            size_t room, hf_error *err);
hf_status postgres_doctor(struct sql_connection *connection, int64_t deadline_ms,
                          hfi_finding_fn *finding, void *arg, hf_error *err);
/* "schema"."prefix<what>", for a statement. */
void postgres_name(const struct sql_store *store, const char *what, char *ret_name, size_t size);

#define POSTGRES_NAME_MAX 192

extern const struct sql_driver postgres_driver;

#endif
