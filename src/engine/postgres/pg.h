/* SPDX-License-Identifier: MIT */
/*
 * The PostgreSQL driver of the SQL engines (sql/sq.h).
 *
 *   engine.c  the driver, the engine's table of mode=lease
 *   modes.c   the tables of mode=row and mode=session; hold.c: their statements
 *   conf.c    what the URL says to libpq
 *   link.c    connecting, closing, waiting on a socket with a deadline
 *   call.c    statements: prepared calls in binary, others as text; what errors mean
 *   bell.c    LISTEN, and what notifications say
 *   doctor.c  what the server's settings mean
 *   schema.c  sql/ *.sql with our names in it; ghosts
 *
 * libpq is used by its asynchronous calls only, and sockets are polled: a server that is stopped must not
 * stop us. (What libpq itself does blocking is looking up host names.)
 */
#ifndef HFI_PG_H
#define HFI_PG_H

#include "engine/sql/sq.h"

#include <libpq-fe.h>

#define PG_VERSION      2 /* of the functions: raised with every change of sql/ *.sql */
#define PG_HOSTS_MAX    16
#define PG_KEYWORDS_MAX 64

/* The types of PostgreSQL that we meet: their numbers never change. */
#define PG_BOOL   16
#define PG_BYTEA  17
#define PG_CHAR   18
#define PG_INT8   20
#define PG_INT2   21
#define PG_INT4   23
#define PG_TEXT   25
#define PG_BYTEAS 1001
#define PG_INT8S  1016

struct pg_conf {
    char *keys[PG_KEYWORDS_MAX + 1], *values[PG_KEYWORDS_MAX + 1]; /* for libpq, but for these: */
    char *host[PG_HOSTS_MAX], *hostaddr[PG_HOSTS_MAX], *port[PG_HOSTS_MAX];
    unsigned count, hosts;
    _Atomic unsigned last; /* host that answered last */
    _Atomic int64_t born;  /* when the server was started to which we were connected last */
};

hf_status hfi_pg_parse(struct hfi_conn *conn, struct hfi_url *url, hf_error *err);
void hfi_pg_free_conf(struct hfi_conn *conn);
/* Words of libpq or of the server, for people: one line, and no password in it. */
void hfi_pg_words(const struct hfi_conn *conn, const char *text, char *ret_words, size_t size);

hf_status hfi_pg_open(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_link,
                      hf_error *err);
void hfi_pg_close(struct sq_link *link);
void hfi_pg_abandon(struct sq_link *link);
bool hfi_pg_alive(struct sq_link *link);
int hfi_pg_fd(struct sq_link *link);
/* Wait until the socket can be read (or written, or `fd` be read: -1: none). false: until_ms has passed. */
bool hfi_pg_poll(PGconn *pg, bool write, int fd, int64_t until_ms);

enum sq_outcome hfi_pg_call(struct sq_link *link, enum sq_call call, const struct sq_value *params,
                            uint32_t count, int64_t deadline_ms, struct sq_rows *ret_rows,
                            struct sq_trouble *trouble);
enum sq_outcome hfi_pg_text(struct sq_link *link, const char *sql, int64_t deadline_ms,
                            struct sq_rows *ret_rows, struct sq_trouble *trouble);
bool hfi_pg_literal(const struct sq_value *value, char *ret_text, size_t room);
void hfi_pg_interrupt(struct sq_link *link, int64_t deadline_ms);

hf_status hfi_pg_bell_open(struct hfi_conn *conn, int64_t deadline_ms, struct sq_link **ret_bell,
                           hf_error *err);
hf_status hfi_pg_bell_wait(struct sq_link *bell, int kick, int64_t until_ms,
                           struct sq_message *ret_message, hf_error *err);

hf_status hfi_pg_probe(struct sq_link *link, int64_t deadline_ms, enum sq_found *ret_found,
                       hf_error *err);
bool hfi_pg_schema(struct hfi_conn *conn, bool (*emit)(void *arg, const char *sql), void *arg);
hf_status hfi_pg_lay(struct hfi_conn *conn, int64_t server_id, int64_t since, int64_t deadline_ms,
                     hf_error *err);
hf_status hfi_pg_doctor(struct sq_link *link, int64_t deadline_ms, hf_finding_fn *finding,
                        void *arg, hf_error *err);
/* "schema"."prefix<what>", for a statement. */
void hfi_pg_name(const struct hfi_conn *conn, const char *what, char *ret_name, size_t size);

#define PG_NAME_MAX 192

/* modes.c: the table of mode=row, mode=session; NULL: another mode. */
const struct hfi_engine *hfi_pg_hold_table(const struct hfi_url *url);

extern const struct sq_driver hfi_pg_driver;

#endif
