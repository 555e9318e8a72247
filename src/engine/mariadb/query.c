/* SPDX-License-Identifier: MIT */
/*
 * One statement and its results, on the calling thread, until a deadline. The library's non-blocking calls
 * say what they wait for; we poll.
 *
 * A statement whose deadline passes may still be executed: then the connection is closed at once
 * and the outcome is SQL_MAYBE.
 */
#include "engine/mariadb/internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

int maria_poll(MYSQL *mysql, int status, int fd, int64_t until_ms)
{
    struct pollfd fds[2] = { { .fd = mysql_get_socket(mysql) }, { .fd = fd, .events = POLLIN } };
    int got = 0;

    if (status & MYSQL_WAIT_READ)
        fds[0].events |= POLLIN;
    if (status & MYSQL_WAIT_WRITE)
        fds[0].events |= POLLOUT;
    if (status & MYSQL_WAIT_EXCEPT)
        fds[0].events |= POLLPRI;
    for (;;) {
        int slice_ms = sql_slice_ms(until_ms), n = poll(fds, 2, slice_ms);

        if (n < 0 && errno != EINTR)
            return status; /* poll failed: let the library find out why */
        if (n > 0)
            break;
        if (n == 0 && slice_ms == 0)
            return 0;
    }
    if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        return status; /* the library's next call reports the error */
    if (fds[0].revents & POLLIN)
        got |= MYSQL_WAIT_READ;
    if (fds[0].revents & POLLOUT)
        got |= MYSQL_WAIT_WRITE;
    if (fds[0].revents & POLLPRI)
        got |= MYSQL_WAIT_EXCEPT;
    return got & status;
}

static bool is_number(enum enum_field_types type)
{
    return type == MYSQL_TYPE_TINY || type == MYSQL_TYPE_SHORT || type == MYSQL_TYPE_LONG ||
           type == MYSQL_TYPE_INT24 || type == MYSQL_TYPE_LONGLONG ||
           type == MYSQL_TYPE_NEWDECIMAL || type == MYSQL_TYPE_YEAR;
}

static void set_value(struct sql_value *value, const MYSQL_FIELD *field, const char *from,
                      size_t len, char **data)
{
    *value = sql_null();
    if (!from)
        return;
    memcpy(*data, from, len);
    (*data)[len] = 0;
    value->type = field->charsetnr == 63 ? SQL_BYTES : SQL_TEXT;
    value->bytes = *data;
    value->len = len;
    if (is_number(field->type)) {
        value->type = SQL_INT;
        value->number = strtoll(*data, NULL, 10);
    }
    *data += len + 1;
}

bool maria_rows(MYSQL_RES *result, struct sql_rows *ret_rows)
{
    unsigned columns = mysql_num_fields(result);
    MYSQL_FIELD *fields = mysql_fetch_fields(result);
    size_t bytes = 0, at = 0;
    uint32_t count = 0;
    MYSQL_ROW row;
    char *data;

    while (mysql_fetch_row(result)) {
        unsigned long *lens = mysql_fetch_lengths(result);

        count++;
        for (unsigned i = 0; i < columns; i++)
            bytes += lens[i] + 1;
    }
    sql_rows_free(ret_rows);
    if (!sql_rows_make(ret_rows, count, columns, bytes, &data))
        return false;
    mysql_data_seek(result, 0);
    while ((row = mysql_fetch_row(result))) {
        unsigned long *lens = mysql_fetch_lengths(result);

        for (unsigned i = 0; i < columns; i++)
            set_value(&ret_rows->values[at++], &fields[i], row[i], lens[i], &data);
    }
    return true;
}

/* Read all results, so that the connection is free for the next statement; keep the last one that
 * has columns. */
static enum sql_outcome read_results(struct sql_connection *connection, int64_t deadline_ms,
                                     struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    struct maria_connection *native = connection->native;
    MYSQL *mysql = &native->mysql;
    bool memory = true;

    for (;;) {
        MYSQL_RES *result = NULL;
        int status, more;

        for (status = mysql_store_result_start(&result, mysql); status;) {
            status = maria_poll(mysql, status, -1, deadline_ms);
            if (!status)
                return maria_late(connection, trouble);
            status = mysql_store_result_cont(&result, mysql, status);
        }
        if (result) {
            memory = maria_rows(result, ret_rows) && memory;
            mysql_free_result(result);
        } else if (mysql_errno(mysql)) {
            return maria_trouble(connection, true, trouble);
        }
        if (!mysql_more_results(mysql))
            break;
        for (status = mysql_next_result_start(&more, mysql); status;) {
            status = maria_poll(mysql, status, -1, deadline_ms);
            if (!status)
                return maria_late(connection, trouble);
            status = mysql_next_result_cont(&more, mysql, status);
        }
        if (more > 0)
            return maria_trouble(connection, true, trouble);
        if (more < 0)
            break;
    }
    if (memory)
        return SQL_DONE;
    maria_cut(connection); /* it was executed, but its answer is lost */
    hfi_error_memory(&trouble->error);
    trouble->status = HF_NO_MEMORY;
    return SQL_MAYBE;
}

enum sql_outcome maria_run(struct sql_connection *connection, const char *sql, size_t len,
                           int64_t deadline_ms, struct sql_rows *ret_rows,
                           struct sql_trouble *trouble)
{
    struct maria_connection *native = connection->native;
    MYSQL *mysql = &native->mysql;
    enum sql_outcome outcome;
    int status, failed;

    *trouble = (struct sql_trouble){ .status = HF_OK };
    *ret_rows = (struct sql_rows){ 0 };
    for (status = mysql_real_query_start(&failed, mysql, sql, len); status;) {
        status = maria_poll(mysql, status, -1, deadline_ms);
        if (!status)
            return maria_late(connection, trouble);
        status = mysql_real_query_cont(&failed, mysql, status);
    }
    outcome = failed ? maria_trouble(connection, true, trouble)
                     : read_results(connection, deadline_ms, ret_rows, trouble);
    if (outcome != SQL_DONE)
        sql_rows_free(ret_rows);
    return outcome;
}

enum sql_outcome maria_text(struct sql_connection *connection, const char *sql, int64_t deadline_ms,
                            struct sql_rows *ret_rows, struct sql_trouble *trouble)
{
    return maria_run(connection, sql, strlen(sql), deadline_ms, ret_rows, trouble);
}
