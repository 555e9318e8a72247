/* SPDX-License-Identifier: MIT */
/*
 * The MariaDB and MySQL engine: its driver and its tables. The work is done in sql/ and in the
 * driver (internal.h).
 */
#include "engine/mariadb/internal.h"

#include "engine/sql/extension.h"
#include "engine/sql/listener.h"
#include "engine/sql/native_lock.h"
#include "engine/sql/tables.h"

#include <stddef.h>

const struct sql_driver maria_driver = {
    .name = "mariadb",
    .lock_sql = &maria_lock_sql,
    .waiter_lives = true,
    .parse = maria_parse,
    .free_conf = maria_free_conf,
    .open = maria_open,
    .close = maria_close,
    .abandon = maria_abandon,
    .call = maria_call,
    .text = maria_text,
    .literal = maria_literal,
    .interrupt = maria_interrupt,
    .alive = maria_alive,
    .fd = maria_fd,
    .listen = maria_listen,
    .next_notice = maria_next_notice,
    .probe = maria_probe,
    .schema = maria_schema,
    .lock = "SELECT GET_LOCK('holdfast.schema', 60)",
    .unlock = "SELECT RELEASE_LOCK('holdfast.schema')",
    .delimits = true,
    .wait_until_gone = maria_wait_until_gone,
    .may_make = maria_may_make,
    .doctor = maria_doctor,
};

static hf_status maria_engine_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                                   hf_error *err);

static const struct hfi_promises lease = {
    SQL_LEASE_PROMISES,
    SQL_LEASE_LACKS,
    .name = "mariadb",
    .schemes = "mysql mariadb",
    .on_server_loss = "leases survive a restart; a replica that took over may have lost the last "
                      "ones (semi-synchronous replication narrows that)",
    .fairness = "FIFO",
    .wakeup = "the release hands over and ends the winner's sleep in the server"
};

static const struct hfi_promises native[2][2] = SQL_LOCK_TABLES(
    "mariadb", "mysql mariadb", 0, "GET_LOCK() knows one holder", "after its tcp_keepalive_time",
    "the server's own: first come first served", "the server's own: first come first served");

static hf_status maria_engine_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                                   hf_error *err)
{
    host->promises = sql_promises((const struct sql_conf *)conf, &lease, native);
    return sql_store_open(self, &maria_driver, conf, host, err);
}

static hf_status maria_get_schema(struct hfi_conf *conf, char **ret_sql, hf_error *err)
{
    return sql_get_schema(&maria_driver, conf, ret_sql, err);
}

static hf_status maria_get_lock(struct hfi_conf *conf, const struct hfi_name *name,
                                enum hfi_sql_statement which, char **ret_sql, hf_error *err)
{
    return sql_get_lock(&maria_driver, conf, name, which, ret_sql, err);
}

static const struct hfi_sql_extension extension = {
    .head = { HFI_SQL_EXTENSION, sizeof extension },
    .get_schema = maria_get_schema,
    .get_lock = maria_get_lock,
};

static const struct hfi_engine engine = {
    SQL_ENGINE_ROWS,
    .promises = &lease,
    SQL_MODES(native),
    .conf = &maria_conf_type,
    .open = maria_engine_open,
    .admin = &(const struct hfi_admin){ .doctor = sql_any_doctor, .extension = &extension.head },
};

HFI_ENGINE_ENTRY(engine)
