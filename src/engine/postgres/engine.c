/* SPDX-License-Identifier: MIT */
/* The PostgreSQL engine: its driver, and its tables. */
#include "engine/postgres/internal.h"

#include "engine/sql/extension.h"
#include "engine/sql/listener.h"
#include "engine/sql/native_lock.h"
#include "engine/sql/tables.h"

const struct sql_driver postgres_driver = {
    .name = "postgresql",
    .lock_sql = &postgres_lock_sql,
    .parse = postgres_parse,
    .free_conf = postgres_free_conf,
    .open = postgres_open,
    .close = postgres_close,
    .abandon = postgres_abandon,
    .call = postgres_call,
    .text = postgres_text,
    .literal = postgres_literal,
    .interrupt = postgres_interrupt,
    .alive = postgres_alive,
    .fd = postgres_fd,
    .listen = postgres_listen,
    .next_notice = postgres_next_notice,
    .probe = postgres_probe,
    .schema = postgres_schema,
    .lock = "BEGIN; SELECT pg_advisory_xact_lock(7453019846120331)",
    .unlock = "COMMIT",
    .wait_until_gone = postgres_wait_until_gone,
    .may_make = postgres_may_make,
    .doctor = postgres_doctor,
};

static hf_status postgres_engine_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                                      hf_error *err);

static const struct hfi_promises lease = {
    SQL_LEASE_PROMISES,
    SQL_LEASE_LACKS,
    .name = "postgres",
    .schemes = "postgresql postgres",
    .on_server_loss = "a restart forgets nothing that was committed durably; a standby that "
                      "takes over may lack the last grants unless replication is "
                      "synchronous",
    .fairness = "FIFO, by hand-over",
    .wakeup =
        "only the winner is woken, by ending its sleep (or by NOTIFY, where roles may not do that)"
};

static const struct hfi_promises native[2][2] = SQL_LOCK_TABLES(
    "postgres", "postgresql postgres", HF_CAP_SHARED, "", "after 40 s",
    "the server's own: mostly first come first served, a newcomer may slip in between two holders",
    "the server's own: first come first served");

static hf_status postgres_engine_open(void *self, struct hfi_conf *conf, struct hfi_host *host,
                                      hf_error *err)
{
    host->promises = sql_promises((const struct sql_conf *)conf, &lease, native);
    return sql_store_open(self, &postgres_driver, conf, host, err);
}

static hf_status postgres_get_schema(struct hfi_conf *conf, char **ret_sql, hf_error *err)
{
    return sql_get_schema(&postgres_driver, conf, ret_sql, err);
}

static hf_status postgres_get_lock(struct hfi_conf *conf, const struct hfi_name *name,
                                   enum hfi_sql_statement which, char **ret_sql, hf_error *err)
{
    return sql_get_lock(&postgres_driver, conf, name, which, ret_sql, err);
}

static const struct hfi_sql_extension extension = {
    .head = { HFI_SQL_EXTENSION, sizeof extension },
    .get_schema = postgres_get_schema,
    .get_lock = postgres_get_lock,
};

static const struct hfi_engine engine = {
    SQL_ENGINE_ROWS,
    .promises = &lease,
    SQL_MODES(native),
    .conf = &postgres_conf_type,
    .open = postgres_engine_open,
    .admin = &(const struct hfi_admin){ .doctor = sql_any_doctor, .extension = &extension.head },
};

HFI_ENGINE_ENTRY(engine)
