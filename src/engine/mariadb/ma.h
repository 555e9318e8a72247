/* SPDX-License-Identifier: MIT */
/*
 * The MariaDB and MySQL driver of the SQL engines (sql/sq.h).
 *
 *   engine.c  the driver, the engine's table of mode=lease
 *   modes.c   the tables of mode=row and mode=session; hold.c: their statements
 *   conf.c    what the URL says to the client library
 *   link.c    connecting, closing; ghosts
 *   query.c   one statement and its results, with a deadline
 *   trouble.c what the server's errors mean
 *   call.c    the calls of sq.h: CALL `holdfast_acquire`(X'..', ...)
 *   bell.c    a connection that sleeps in the server until it is rung
 *   schema.c  sql/ *.sql with our names in it
 *   doctor.c  is this server safe for what we promise?
 *   hold.c, modes.c   mode=row and mode=session in the words of this server
 *
 * Every call is a stored procedure: decisions need no second round trip, and the common case of acquire
 * and of release is one statement in it. Values travel as numbers and hexadecimal literals, so nothing of
 * a name can end a literal.
 *
 * The client library's non-blocking calls are used throughout, and sockets are polled: a server that is
 * stopped must not stop us. (What it does blocking all the same is looking up host names.)
 *
 * Each link has a user lock with a random name. Who holds that lock is a live connection of exactly this
 * link: numbers of connections begin anew with each start of the server, such a lock does not.
 */
#ifndef HFI_MA_H
#define HFI_MA_H

#include "engine/sql/sq.h"

#include <mysql.h>

#define MA_VERSION  1 /* of the tables, and of the procedures' parameters and answers */
#define MA_ROUTINES 2 /* of what procedures do: raised with every change of sql/ *.sql */
#define MA_NAME_MAX 64

enum ma_tls { MA_TLS_ASIS, MA_TLS_OFF, MA_TLS_ON, MA_TLS_VERIFY };

struct ma_conf {
    char *user, *password, *host, *database, *socket;
    unsigned port; /* 0: the library's */
    enum ma_tls tls;
    char *ca, *cert, *key;
    char *file, *group; /* option file; group in it */
    /* Not the URL's: did the last acquire, the last release, find others? (call.c) */
    _Atomic bool acquire_contended, release_contended;
};

/* One link: link->native. */
struct ma_link {
    MYSQL mysql;
    char *text; /* the statement that is being made */
    size_t len, room;
    bool full; /* no memory for it */
    /* bell.c */
    bool asleep;                           /* CALL bell is under way */
    int stage;                             /* of it */
    int waiting;                           /* for what the library waits */
    struct sq_message *queue;              /* heard, and not told yet */
    uint32_t queued, told;                 /* how many; how many of them have been told */
    unsigned char (*known)[HFI_OWNER_LEN]; /* owners that the server knows to be heard of */
    uint32_t known_count;
};

/* conf.c */
hf_status hfi_ma_parse(struct hfi_conn *conn, struct hfi_url *url, hf_error *err);
void hfi_ma_free_conf(struct hfi_conn *conn);

/* link.c */
hf_status hfi_ma_open(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_link,
                      hf_error *err);
void hfi_ma_close(struct sq_link *link);
void hfi_ma_abandon(struct sq_link *link);
bool hfi_ma_alive(struct sq_link *link);
int hfi_ma_fd(struct sq_link *link);
hf_status hfi_ma_lay(struct hfi_conn *conn, int64_t server_id, int64_t since, int64_t deadline_ms,
                     hf_error *err);
void hfi_ma_interrupt(struct sq_link *link, int64_t deadline_ms);
/* Is it certain that the server is the one that was meant: verified TLS, or a socket of this machine? */
bool hfi_ma_trusts(const struct ma_conf *conf);
/* Its socket is closed, so that nobody hears of it any more; memory goes with hfi_ma_close(). */
void hfi_ma_cut(struct sq_link *link);

/* query.c */
/* Wait for what the library waits for (MYSQL_WAIT_*), or `fd` (-1: none) to be readable. What came, as
 * MYSQL_WAIT_*; 0: until_ms has passed, or it was fd. */
int hfi_ma_poll(MYSQL *mysql, int status, int fd, int64_t until_ms);
enum sq_outcome hfi_ma_text(struct sq_link *link, const char *sql, int64_t deadline_ms,
                            struct sq_rows *ret_rows, struct sq_trouble *trouble);
enum sq_outcome hfi_ma_run(struct sq_link *link, const char *sql, size_t len, int64_t deadline_ms,
                           struct sq_rows *ret_rows, struct sq_trouble *trouble);
/* What a result holds, in memory of our own. */
bool hfi_ma_rows(MYSQL_RES *result, struct sq_rows *ret_rows);

/* trouble.c: what mysql's last error means; cuts the link if it is not good any more. */
enum sq_outcome hfi_ma_trouble(struct sq_link *link, bool sent, struct sq_trouble *trouble);
enum sq_outcome hfi_ma_late(struct sq_link *link, struct sq_trouble *trouble);
enum sq_outcome hfi_ma_no_memory(struct sq_trouble *trouble);

/* call.c */
void hfi_ma_begin(struct ma_link *native);
void hfi_ma_add(struct ma_link *native, const char *text, size_t len);
void hfi_ma_add_value(struct ma_link *native, const struct sq_value *value);
enum sq_outcome hfi_ma_call(struct sq_link *link, enum sq_call call, const struct sq_value *params,
                            uint32_t count, int64_t deadline_ms, struct sq_rows *ret_rows,
                            struct sq_trouble *trouble);
bool hfi_ma_literal(const struct sq_value *value, char *ret_text, size_t room);

/* bell.c */
hf_status hfi_ma_bell_open(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_bell,
                           hf_error *err);
hf_status hfi_ma_bell_wait(struct sq_link *bell, int kick, int64_t until_ms,
                           struct sq_message *ret_message, hf_error *err);

/* schema.c */
hf_status hfi_ma_probe(struct sq_link *link, int64_t deadline_ms, enum sq_found *ret_found,
                       hf_error *err);
bool hfi_ma_schema(struct hfi_conn *conn, bool (*emit)(void *arg, const char *sql), void *arg);
extern const char *const hfi_ma_schema_text[]; /* made of sql/ *.sql */

/* doctor.c */
hf_status hfi_ma_doctor(struct sq_link *link, int64_t deadline_ms, hf_finding_fn *finding,
                        void *arg, hf_error *err);

/* modes.c: the table of mode=row, mode=session; NULL: another mode. */
const struct hfi_engine *hfi_ma_hold_table(const struct hfi_url *url);

extern const struct sq_driver hfi_ma_driver;

#endif
