/* SPDX-License-Identifier: MIT */
/*
 * Interprets the server's errors. Normally an error means that nothing was changed: our procedures
 * roll back. But some errors may come after a commit (the statement was killed, the server is being
 * stopped, a commit failed half way): those are SQL_MAYBE, and the connection is closed, which ends
 * its transaction.
 */
#include "engine/mariadb/internal.h"

#include "util/error.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <stdlib.h>
#include <string.h>

enum kind { K_OTHER, K_AGAIN, K_TABLE, K_DENIED, K_CONFIG, K_AWAY, K_FULL, K_MAYBE };

static const struct {
    unsigned short number;
    unsigned char kind;
} meanings[] = {
    { ER_LOCK_DEADLOCK, K_AGAIN },
    { ER_LOCK_WAIT_TIMEOUT, K_AGAIN },
    { ER_CHECKREAD, K_AGAIN },
    { ER_TABLE_DEF_CHANGED, K_AGAIN },
    { ER_NEED_REPREPARE, K_AGAIN },
    { ER_NO_SUCH_TABLE, K_TABLE },
    { ER_SP_DOES_NOT_EXIST, K_TABLE },
    { ER_BAD_FIELD_ERROR, K_TABLE },
    { ER_SP_WRONG_NO_OF_ARGS, K_TABLE },
    { ER_DBACCESS_DENIED_ERROR, K_DENIED },
    { ER_ACCESS_DENIED_ERROR, K_DENIED },
    { ER_TABLEACCESS_DENIED_ERROR, K_DENIED },
    { ER_COLUMNACCESS_DENIED_ERROR, K_DENIED },
    { ER_PROCACCESS_DENIED_ERROR, K_DENIED },
    { ER_SPECIFIC_ACCESS_DENIED_ERROR, K_DENIED },
    { ER_HOST_NOT_PRIVILEGED, K_DENIED },
    { ER_NOT_SUPPORTED_AUTH_MODE, K_DENIED },
    { 1698, K_DENIED }, /* no password was given */
    { 1820, K_DENIED }, /* the password has expired */
    { 4151, K_DENIED }, /* the account is locked */
    { ER_BAD_DB_ERROR, K_CONFIG },
    { ER_NO_DB_ERROR, K_CONFIG },
    { ER_UNKNOWN_STORAGE_ENGINE, K_CONFIG },
    { 1665, K_CONFIG }, /* binlog_format=STATEMENT */
    { ER_CON_COUNT_ERROR, K_AWAY },
    { ER_TOO_MANY_USER_CONNECTIONS, K_AWAY },
    { ER_HOST_IS_BLOCKED, K_AWAY },
    { ER_OPTION_PREVENTS_STATEMENT, K_AWAY }, /* read_only: a replica */
    { ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, K_AWAY },
    { 1836, K_AWAY }, /* read only */
    { ER_DISK_FULL, K_FULL },
    { ER_RECORD_FILE_FULL, K_FULL },
    { ER_NET_PACKET_TOO_LARGE, K_FULL },
    { ER_DATA_TOO_LONG, K_FULL },
    { ER_QUERY_INTERRUPTED, K_MAYBE },
    { ER_SERVER_SHUTDOWN, K_MAYBE },
    { ER_NORMAL_SHUTDOWN, K_MAYBE },
    { ER_ABORTING_CONNECTION, K_MAYBE },
    { ER_NEW_ABORTING_CONNECTION, K_MAYBE },
    { 1927, K_MAYBE }, /* the connection was killed */
    { ER_ERROR_DURING_COMMIT, K_MAYBE },
    { ER_ERROR_DURING_ROLLBACK, K_MAYBE },
    { ER_ERROR_ON_WRITE, K_MAYBE },
    { 1969, K_MAYBE }, /* max_statement_time */
    { 3024, K_MAYBE }, /* the same of MySQL */
    { CR_OUT_OF_MEMORY, K_OTHER },
};

static enum kind kind_of(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].number == number)
            return (enum kind)meanings[i].kind;
    return K_OTHER;
}

static hf_status status_of(enum kind kind)
{
    switch (kind) {
    case K_DENIED:
        return HF_DENIED;
    case K_CONFIG:
        return HF_CONFIG;
    case K_FULL:
        return HF_FULL;
    case K_TABLE:
        return HF_CONFIG;
    default:
        return HF_UNAVAILABLE;
    }
}

/* The library says "Can't connect to server on 'host' (111)": which address, and what 111 is. */
static void say_unreachable(const struct maria_conf *conf, unsigned number, const char *text,
                            hf_error *err)
{
    const char *brackets = strrchr(text, '(');
    int error = brackets ? (int)strtol(brackets + 1, NULL, 10) : 0;

    if (conf->socket)
        hfi_error_set(err, HF_UNAVAILABLE, (int)number, "%s: %s", conf->socket,
                      error > 0 ? strerror(error) : text);
    else
        hfi_error_set(err, HF_UNAVAILABLE, (int)number, "%s:%u: %s",
                      conf->host ? conf->host : "localhost", conf->port ? conf->port : MYSQL_PORT,
                      error > 0 ? strerror(error) : text);
}

enum sql_outcome maria_trouble(struct sql_connection *connection, bool sent,
                               struct sql_trouble *trouble)
{
    struct maria_connection *native = connection->native;
    unsigned number = mysql_errno(&native->mysql);
    bool library = number >= CR_MIN_ERROR && number < 3000;
    enum kind kind = kind_of(number);

    if (number == CR_OUT_OF_MEMORY) {
        maria_cut(connection);
        maria_no_memory(trouble);
        return sent ? SQL_MAYBE : SQL_UNSENT;
    }
    trouble->status = status_of(kind);
    trouble->again = kind == K_AGAIN;
    trouble->no_table = kind == K_TABLE;
    hfi_error_set(&trouble->error, trouble->status, (int)number, "%s%s",
                  mysql_error(&native->mysql),
                  number == 1665 ? ": set binlog_format to ROW or MIXED" : "");
    if (number == CR_CONN_HOST_ERROR || number == CR_CONNECTION_ERROR)
        say_unreachable(connection->store->native, number, mysql_error(&native->mysql),
                        &trouble->error);
    if (!library && kind != K_MAYBE)
        return SQL_REFUSED;
    maria_cut(connection);
    return sent ? SQL_MAYBE : SQL_UNSENT;
}

enum sql_outcome maria_late(struct sql_connection *connection, struct sql_trouble *trouble)
{
    maria_cut(connection);
    trouble->status = HF_UNAVAILABLE;
    hfi_error_set(&trouble->error, HF_UNAVAILABLE, 0, "no answer in time");
    return SQL_MAYBE;
}

enum sql_outcome maria_no_memory(struct sql_trouble *trouble)
{
    *trouble = (struct sql_trouble){ .status = HF_NO_MEMORY };
    hfi_error_memory(&trouble->error);
    return SQL_REFUSED;
}
