/* SPDX-License-Identifier: MIT */
/*
 * Opens, prepares and closes a connection; and waits for statements of a lost one.
 *
 * The session does not depend on how the server is configured: time zone, sql_mode, autocommit, isolation and
 * time limits are set. READ COMMITTED, so that InnoDB locks the rows that we name and no gaps between them:
 * neighbouring names must not block each other.
 */
#include "engine/mariadb/internal.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/random.h"

#include <errmsg.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_S   50 /* the server's limit for a row lock; ours is the deadline */
#define GONE_PAUSE_MS 10 /* between two checks whether a killed connection is gone */

static hf_status connect_once(struct sql_store *store, struct sql_connection *connection,
                              int64_t deadline_ms, hf_error *err);
static hf_status make_ready(struct sql_connection *connection, int64_t deadline_ms, hf_error *err);

/* ---- open --------------------------------------------------------------------------------------- */

/* These variables make the library load code, which must not happen in a program with more rights
 * than its caller (setuid). */
static bool is_led_astray(void)
{
    return getauxval(AT_SECURE) && (getenv("LIBMYSQL_PLUGINS") || getenv("LIBMYSQL_PLUGIN_DIR") ||
                                    getenv("MARIADB_PLUGIN_DIR"));
}

hf_status maria_open(struct sql_store *store, int64_t deadline_ms,
                     struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *connection = hfi_calloc(1, sizeof *connection);
    struct maria_connection *native = connection ? hfi_calloc(1, sizeof *native) : NULL;
    hf_status status;

    if (native && is_led_astray()) {
        hfi_free(native);
        hfi_free(connection);
        return hfi_error_set(
            err, HF_DENIED, 0,
            "the environment names plugins of libmariadb, and this program has more "
            "rights than its caller");
    }
    if (!native || !mysql_init(&native->mysql)) {
        hfi_free(native);
        hfi_free(connection);
        return hfi_error_memory(err);
    }
    connection->store = store;
    connection->native = native;
    status = connect_once(store, connection, deadline_ms, err);
    if (status == HF_OK)
        status = make_ready(connection, deadline_ms, err);
    if (status != HF_OK) {
        maria_close(connection);
        return status;
    }
    *ret_connection = connection;
    return HF_OK;
}

static void set_tls(MYSQL *mysql, const struct maria_conf *conf)
{
    my_bool on = conf->tls == MARIA_TLS_ON || conf->tls == MARIA_TLS_VERIFY;
    my_bool verify = conf->tls == MARIA_TLS_VERIFY;

    if (conf->tls != MARIA_TLS_ASIS) {
        mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
        mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    }
    if (conf->ca)
        mysql_options(mysql, MYSQL_OPT_SSL_CA, conf->ca);
    if (conf->cert)
        mysql_options(mysql, MYSQL_OPT_SSL_CERT, conf->cert);
    if (conf->key)
        mysql_options(mysql, MYSQL_OPT_SSL_KEY, conf->key);
}

/*
 * Allowed authentication plugins. A server may ask for any plugin, and without TLS the server may
 * be an attacker: then only plugins that answer a challenge are allowed. The others reveal the
 * password, in clear text or encrypted with a key that the server sends. Never `dialog`: it prints
 * the server's text, and reads from the terminal.
 */
#define CHALLENGED "mysql_native_password,client_ed25519"
#define TRUSTING   ",caching_sha2_password,sha256_password,mysql_clear_password,auth_gssapi_client"

static bool is_local(const struct maria_conf *conf)
{
    return conf->socket || (!conf->file && !conf->group && !conf->port &&
                            (!conf->host || strcmp(conf->host, "localhost") == 0));
}

bool maria_trusts(const struct maria_conf *conf)
{
    return conf->tls == MARIA_TLS_VERIFY || is_local(conf);
}

static void set_options(MYSQL *mysql, const struct maria_conf *conf)
{
    unsigned off = 0, tcp = MYSQL_PROTOCOL_TCP;

    mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL);
    if (conf->file)
        mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, conf->file);
    if (conf->file || conf->group)
        mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, conf->group ? conf->group : "client");
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &off); /* no server reads our files */
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (conf->port)
        mysql_options(mysql, MYSQL_OPT_PROTOCOL, &tcp); /* also to "localhost" */
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "holdfast");
    mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH,
                   maria_trusts(conf) ? CHALLENGED TRUSTING : CHALLENGED);
    set_tls(mysql, conf);
}

/* Errors of connecting. The library's words name host and user, never a password. */
static hf_status refused(struct sql_connection *connection, hf_error *err)
{
    struct sql_trouble trouble = { .status = HF_OK };

    maria_trouble(connection, false, &trouble);
    if (trouble.error.native == CR_SSL_CONNECTION_ERROR ||
        trouble.error.native == CR_PLUGIN_NOT_ALLOWED)
        trouble.status = HF_DENIED;
    if (trouble.error.native == CR_PLUGIN_NOT_ALLOWED) /* the library may name another plugin */
        hfi_error_set(
            &trouble.error, HF_DENIED, CR_PLUGIN_NOT_ALLOWED,
            "the server wants to see the password itself, or to talk to a terminal: without "
            "verified TLS any server at this address would get it. Use tls=on (and ca=), or "
            "an account that answers a challenge (mysql_native_password, ed25519)");
    if (err)
        hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
    return trouble.status;
}

static hf_status connect_once(struct sql_store *store, struct sql_connection *connection,
                              int64_t deadline_ms, hf_error *err)
{
    const struct maria_conf *conf = store->native;
    struct maria_connection *native = connection->native;
    MYSQL *mysql = &native->mysql, *done;
    int status, on = 1, idle_s = 15, between_s = 5, probes = 3;

    set_options(mysql, conf);
    status = mysql_real_connect_start(&done, mysql, conf->host, conf->user, conf->password,
                                      conf->database, conf->port, conf->socket,
                                      CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS);
    while (status) {
        status = maria_poll(mysql, status, -1, deadline_ms);
        if (!status) {
            maria_cut(connection);
            return hfi_error_set(err, HF_UNAVAILABLE, 0, "connecting: no answer in time");
        }
        status = mysql_real_connect_cont(&done, mysql, status);
    }
    if (!done)
        return refused(connection, err);
    if ((conf->tls == MARIA_TLS_ON || conf->tls == MARIA_TLS_VERIFY) &&
        !mysql_get_ssl_cipher(mysql))
        return hfi_error_set(err, HF_DENIED, 0, "the server does not speak TLS");

    /* A host that has vanished is noticed within 30 s. Nothing of it applies to a local socket. */
    setsockopt(maria_fd(connection), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(maria_fd(connection), IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(maria_fd(connection), IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(maria_fd(connection), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    fcntl(maria_fd(connection), F_SETFD, FD_CLOEXEC);
    /* Over TLS the library reads with read(2), also in its non-blocking calls. */
    fcntl(maria_fd(connection), F_SETFL, fcntl(maria_fd(connection), F_GETFL) | O_NONBLOCK);
    return HF_OK;
}

/*
 * A replica is refused whatever the account: one that passes read_only would be granted locks here that the
 * primary knows nothing of, and its writes would end the replication. read_only is a boolean, or a word in
 * newer servers; CONCAT() makes a text of both.
 */
static hf_status make_ready(struct sql_connection *connection, int64_t deadline_ms, hf_error *err)
{
    struct maria_connection *native = connection->native;
    struct sql_trouble trouble;
    struct sql_rows rows;
    char sql[704];
    bool got, replica;

    connection->server_id = (int64_t)mysql_thread_id(&native->mysql);
    connection->since = (int64_t)(hfi_random_u64() >> 2);
    snprintf(sql, sizeof sql,
             "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
             "SET SESSION TRANSACTION READ WRITE;"
             "SET time_zone = '+00:00', autocommit = 1, completion_type = 0,"
             " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_UNSIGNED_SUBTRACTION',"
             " innodb_lock_wait_timeout = %d, lock_wait_timeout = %d, wait_timeout = 2592000,"
             " group_concat_max_len = 1000000, sql_safe_updates = 0, sql_select_limit = DEFAULT"
             " /*M! , max_statement_time = 0 */;"
             "SELECT GET_LOCK('holdfast.link.%llx', 0),"
             " CONCAT(@@global.read_only) NOT IN ('0', 'OFF')",
             LOCK_WAIT_S, LOCK_WAIT_S, (unsigned long long)connection->since);
    if (maria_text(connection, sql, deadline_ms, &rows, &trouble) != SQL_DONE) {
        if (err)
            hfi_error_set(err, trouble.status, trouble.error.native, "%s", trouble.error.text);
        return trouble.status;
    }
    if (!sql_fits(&rows, "II", 1, 1))
        return sql_odd(connection, "greeting", &rows, err);
    got = sql_int(&rows, 0, 0) == 1;
    replica = sql_int(&rows, 0, 1) != 0;
    sql_rows_free(&rows);
    if (replica)
        return hfi_error_set(err, HF_UNAVAILABLE, 0,
                             "the server is a replica (read_only is on): nothing can be locked "
                             "on it");
    return got ? HF_OK : hfi_error_set(err, HF_UNAVAILABLE, 0, "the server refuses a user lock");
}

/* ---- the end ------------------------------------------------------------------------------------- */

void maria_cut(struct sql_connection *connection)
{
    int fd = maria_fd(connection);

    if (fd >= 0 && !connection->dead)
        shutdown(fd, SHUT_RDWR);
    connection->dead = true;
}

void maria_close(struct sql_connection *connection)
{
    struct maria_connection *native = connection->native;

    if (native->asleep)
        maria_cut(connection); /* the server would not read a goodbye */
    mysql_close(&native->mysql);
    if (native->text)
        explicit_bzero(native->text, native->room);
    hfi_free(native->text);
    hfi_free(native->queue);
    hfi_free(native->known);
    hfi_free(native);
    hfi_free(connection);
}

/* The descriptor is a copy: closing it sends nothing to the server. The rest may have been in use
 * by a thread that does not exist in the child. */
void maria_abandon(struct sql_connection *connection)
{
    int fd = maria_fd(connection);

    if (fd >= 0)
        close(fd);
}

/* ---- looking at it -------------------------------------------------------------------------------- */

int maria_fd(struct sql_connection *connection)
{
    struct maria_connection *native = connection->native;
    my_socket fd = mysql_get_socket(&native->mysql);

    return fd == MARIADB_INVALID_SOCKET ? -1 : (int)fd;
}

/* A server sends nothing to an idle connection: if it is readable, the server has closed it. */
bool maria_alive(struct sql_connection *connection)
{
    struct pollfd fd = { .fd = maria_fd(connection), .events = POLLIN | POLLRDHUP };

    return !connection->dead && fd.fd >= 0 && poll(&fd, 1, 0) == 0;
}

/* ---- stale statements ---------------------------------------------------------------------------------------- */

/* Does the connection that had this lock still exist? HF_OK: ret_id, or 0 if it is gone. */
static hf_status look(struct sql_connection *connection, int64_t since, int64_t deadline_ms,
                      int64_t *ret_id, hf_error *err)
{
    struct sql_trouble trouble;
    struct sql_rows rows;
    char sql[80];

    snprintf(sql, sizeof sql, "SELECT IS_USED_LOCK('holdfast.link.%llx')",
             (unsigned long long)since);
    if (maria_text(connection, sql, deadline_ms, &rows, &trouble) != SQL_DONE) {
        if (err)
            *err = trouble.error;
        return HF_UNAVAILABLE;
    }
    if (!sql_fits(&rows, "I", 1, 1))
        return sql_odd(connection, "whose lock is it", &rows, err);
    *ret_id = sql_int(&rows, 0, 0);
    sql_rows_free(&rows);
    return HF_OK;
}

static void kill_it(struct sql_connection *connection, const char *what, int64_t id,
                    int64_t deadline_ms)
{
    struct sql_trouble trouble;
    struct sql_rows rows;
    char sql[64];

    snprintf(sql, sizeof sql, "KILL %s %lld", what, (long long)id);
    if (maria_text(connection, sql, deadline_ms, &rows, &trouble) == SQL_DONE)
        sql_rows_free(&rows);
}

/* The user lock of a connection is released last, after its statement has ended and its transaction
 * was rolled back. */
hf_status maria_wait_until_gone(struct sql_store *store, int64_t server_id, int64_t since,
                                int64_t deadline_ms, hf_error *err)
{
    const struct timespec pause = { .tv_nsec = GONE_PAUSE_MS * 1000000L };
    struct sql_connection *connection;
    hf_status status = maria_open(store, deadline_ms, &connection, err);
    int64_t id = 0;

    if (status != HF_OK)
        return status;
    for (;;) {
        status = look(connection, since, deadline_ms, &id, err);
        if (status != HF_OK || id == 0)
            break;
        if (id == server_id)
            kill_it(connection, "CONNECTION", id, deadline_ms);
        if (hfi_now_ms() >= deadline_ms) {
            status = hfi_error_set(err, HF_UNAVAILABLE, 0, "connection %lld does not end",
                                   (long long)id);
            break;
        }
        nanosleep(&pause, NULL);
    }
    maria_close(connection);
    return status;
}

void maria_interrupt(struct sql_connection *connection, int64_t deadline_ms)
{
    struct sql_connection *other;
    int64_t id = 0;

    if (sql_take_raw(connection->store, deadline_ms, &other, NULL) != HF_OK)
        return;
    if (look(other, connection->since, deadline_ms, &id, NULL) == HF_OK &&
        id == connection->server_id)
        kill_it(other, "QUERY", id, deadline_ms);
    sql_give(other);
}
