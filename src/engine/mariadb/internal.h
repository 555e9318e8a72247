/* SPDX-License-Identifier: MIT */
/*
 * The MariaDB and MySQL driver of the SQL engines (sql/internal.h).
 *
 *   engine.c      the driver, and the engine's tables
 *   conf.c        what the URL says to the client library
 *   connection.c  connecting, closing; stale statements
 *   query.c       one statement and its results, with a deadline
 *   trouble.c     what the server's errors mean
 *   call.c        the calls of sql/internal.h: CALL `holdfast_acquire`(X'..', ...)
 *   listener.c    a connection that sleeps in the server until it is notified
 *   lock_sql.c    mode=row and mode=session in the words of this server
 *   schema.c      sql/ *.sql with our names in it
 *   doctor.c      is this server safe for what we promise?
 *
 * Every call is a stored procedure: decisions need no second round trip, and the common case of acquire
 * and of release is one statement in it. Values travel as numbers and hexadecimal literals, so nothing of
 * a name can end a literal.
 *
 * The client library's non-blocking calls are used throughout, and sockets are polled: a server that is
 * stopped must not stop us. (Only the lookup of host names still blocks.)
 *
 * Each connection has a user lock with a random name. The holder of that lock is exactly this
 * connection: connection numbers start again after a restart of the server, random names do not
 * repeat.
 */
#ifndef HFI_MARIADB_INTERNAL_H
#define HFI_MARIADB_INTERNAL_H

#include "engine/sql/internal.h"

#include <mysql.h>

#define MARIA_VERSION  1  /* of the tables, and of the procedures' parameters and answers */
#define MARIA_ROUTINES 10 /* of what procedures do: raised with every change of sql/ *.sql */
#define MARIA_NAME_MAX 64

enum maria_tls { MARIA_TLS_ASIS, MARIA_TLS_OFF, MARIA_TLS_ON, MARIA_TLS_VERIFY };

struct maria_url { /* what the URL says */
    struct sql_conf sql;
    const char *socket;
    const char *file, *group; /* option_file=; option_group= */
};
extern const struct hfi_conf_type maria_conf_type;

struct maria_conf { /* what the library is told: store->native */
    const char *user, *password, *host, *database, *socket;
    unsigned port; /* 0: the library's */
    enum maria_tls tls;
    const char *ca, *cert, *key;
    const char *file, *group; /* option file; group in it */
    /* Not from the URL: did the last acquire or release meet other clients? (call.c) */
    _Atomic bool acquire_contended, release_contended;
};

/* One connection: connection->native. */
struct maria_connection {
    MYSQL mysql;
    char *text; /* the statement that is being made */
    size_t len, room;
    bool full; /* no memory for it */
    /* listener.c */
    bool asleep;                           /* CALL listener is under way */
    int stage;                             /* of it */
    int waiting;                           /* for what the library waits */
    struct sql_message *queue;             /* heard, and not told yet */
    uint32_t queued, told;                 /* how many; how many of them have been told */
    unsigned char (*known)[HFI_OWNER_LEN]; /* owners whose grants we have already reported */
    uint32_t known_count;
};

/* conf.c */
hf_status maria_parse(struct sql_store *store, struct sql_conf *conf, hf_error *err);
void maria_free_conf(struct sql_store *store);

/* connection.c */
hf_status maria_open(struct sql_store *store, int64_t deadline_ms,
                     struct sql_connection **ret_connection, hf_error *err);
void maria_close(struct sql_connection *connection);
void maria_abandon(struct sql_connection *connection);
bool maria_alive(struct sql_connection *connection);
int maria_fd(struct sql_connection *connection);
hf_status maria_wait_until_gone(struct sql_store *store, int64_t server_id, int64_t since,
                                int64_t deadline_ms, hf_error *err);
void maria_interrupt(struct sql_connection *connection, int64_t deadline_ms);
/* Is the server certainly the intended one: verified TLS, or a local socket? */
bool maria_trusts(const struct maria_conf *conf);
/* Close its socket at once; maria_close() frees the memory. */
void maria_cut(struct sql_connection *connection);

/* query.c */
/* Wait for what the library waits for (MYSQL_WAIT_*), or `fd` (-1: none) to be readable. What came, as
 * MYSQL_WAIT_*; 0: until_ms has passed, or it was fd. */
int maria_poll(MYSQL *mysql, int status, int fd, int64_t until_ms);
enum sql_outcome maria_text(struct sql_connection *connection, const char *sql, int64_t deadline_ms,
                            struct sql_rows *ret_rows, struct sql_trouble *trouble);
enum sql_outcome maria_run(struct sql_connection *connection, const char *sql, size_t len,
                           int64_t deadline_ms, struct sql_rows *ret_rows,
                           struct sql_trouble *trouble);
/* What a result holds, in memory of our own. */
bool maria_rows(MYSQL_RES *result, struct sql_rows *ret_rows);

/* trouble.c: what mysql's last error means; cuts the connection if it is not good any more. */
enum sql_outcome maria_trouble(struct sql_connection *connection, bool sent,
                               struct sql_trouble *trouble);
enum sql_outcome maria_late(struct sql_connection *connection, struct sql_trouble *trouble);
enum sql_outcome maria_no_memory(struct sql_trouble *trouble);

/* call.c */
void maria_begin(struct maria_connection *native);
void maria_add(struct maria_connection *native, const char *text, size_t len);
void maria_add_value(struct maria_connection *native, const struct sql_value *value);
enum sql_outcome maria_call(struct sql_connection *connection, enum sql_call call,
                            const struct sql_value *params, uint32_t count, int64_t deadline_ms,
                            struct sql_rows *ret_rows, struct sql_trouble *trouble);
bool maria_literal(const struct sql_value *value, char *ret_text, size_t room);

/* listener.c */
hf_status maria_listen(struct sql_store *store, int64_t deadline_ms,
                       struct sql_connection **ret_connection, hf_error *err);
hf_status maria_next_notice(struct sql_connection *listener, int kick, int64_t until_ms,
                            struct sql_message *ret_message, hf_error *err);

/* schema.c */
hf_status maria_probe(struct sql_connection *connection, int64_t deadline_ms,
                      enum sql_found *ret_found, hf_error *err);
bool maria_schema(struct sql_store *store, bool (*emit)(void *arg, const char *sql), void *arg);
extern const char *const maria_schema_text[]; /* made of sql/ *.sql */

/* doctor.c */
hf_status maria_may_make(struct sql_connection *connection, int64_t deadline_ms, char *ret_lack,
                         size_t room, hf_error *err);
hf_status maria_doctor(struct sql_connection *connection, int64_t deadline_ms,
                       hfi_finding_fn *finding, void *arg, hf_error *err);

extern const struct sql_driver maria_driver;

#endif
