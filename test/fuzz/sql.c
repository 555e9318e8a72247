/* SPDX-License-Identifier: MIT */
/*
 * What the SQL engines share, with the fuzzer as the server: rows of any shape. The first bytes are the ops, then
 * come the answers: how many columns and rows, then each value, its type first. mode=lease, whose calls are all there are
 * in internal.h; nobody waits, so that nothing sleeps.
 */
#include "ops.h"

#include "core/url.h"
#include "engine/sql/listener.h"
#include "engine/sql/native_lock.h"
#include "util/alloc.h"
#include "util/error.h"

#include <pthread.h>

#define ROWS_MAX    6
#define COLUMNS_MAX 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the listener thread asks too */
static struct fuzz_input answers;

/* The columns that a call has; now and then the server sends others. */
static uint32_t columns_of(enum sql_call call)
{
    static const uint8_t columns[SQL_CALLS] = {
        [SQL_ACQUIRE] = 4,   [SQL_RELEASE] = 1,   [SQL_RENEW] = 2,      [SQL_CANCEL] = 4,
        [SQL_HEARTBEAT] = 5, [SQL_RECHECK] = 1,   [SQL_ADOPT] = 7,      [SQL_BREAK] = 1,
        [SQL_NOTE] = 1,      [SQL_INSPECT] = 13,  [SQL_SWEEP] = 1,      [SQL_LEAVE] = 1,
        [SQL_CELL_READ] = 3, [SQL_CELL_SWAP] = 2, [SQL_CELL_WATCH] = 3, [SQL_TIME] = 1,
        [SQL_TOKEN] = 1,     [SQL_LOCK_TRY] = 1,  [SQL_LOCK_FREE] = 1,
    };

    return columns[call];
}

static void fill_value(struct sql_value *value, char **data)
{
    uint8_t what = fuzz_byte(&answers);
    struct fuzz_input piece;

    value->type = what % 4;
    if (value->type == SQL_INT)
        value->number = (int64_t)fuzz_number(&answers, what & 0x80 ? 8 : 1);
    if (value->type != SQL_BYTES && value->type != SQL_TEXT)
        return;
    piece = fuzz_piece(&answers, 40);
    memcpy(*data, piece.len ? piece.at : (const uint8_t *)"", piece.len);
    value->bytes = *data;
    value->len = piece.len;
    *data += piece.len;
    *(*data)++ = 0;
}

static enum sql_outcome answer(uint32_t columns, struct sql_rows *ret_rows,
                               struct sql_trouble *trouble)
{
    enum sql_outcome outcome = SQL_REFUSED;
    uint8_t what, count;
    char *data;

    pthread_mutex_lock(&lock);
    what = fuzz_byte(&answers);
    count = what % ROWS_MAX;
    if (what & 0x80)
        columns = fuzz_byte(&answers) % COLUMNS_MAX;
    *trouble = (struct sql_trouble){ .status = HF_UNAVAILABLE };
    hfi_error_set(&trouble->error, HF_UNAVAILABLE, 0, "no");
    if (answers.len > 0 && (what & 0x40) == 0 &&
        sql_rows_make(ret_rows, count, columns, (size_t)count * columns * 41, &data)) {
        for (uint32_t i = 0; i < count * columns; i++)
            fill_value(&ret_rows->values[i], &data);
        outcome = SQL_DONE;
    }
    pthread_mutex_unlock(&lock);
    return outcome;
}

/* ---- the driver ---------------------------------------------------------------------------------- */

static hf_status fake_parse(struct sql_store *store, struct sql_conf *conf, hf_error *err)
{
    (void)conf, (void)err;
    store->location = "fuzz";
    return HF_OK;
}

static void fake_free_conf(struct sql_store *store)
{
    (void)store;
}

static hf_status fake_open(struct sql_store *store, int64_t deadline_ms,
                           struct sql_connection **ret_connection, hf_error *err)
{
    struct sql_connection *connection = hfi_calloc(1, sizeof *connection);

    (void)deadline_ms;
    if (!connection)
        return hfi_error_memory(err);
    connection->store = store;
    connection->server_id = 1;
    *ret_connection = connection;
    return HF_OK;
}

static void fake_close(struct sql_connection *connection)
{
    hfi_free(connection);
}

static enum sql_outcome fake_call(struct sql_connection *connection, enum sql_call call,
                                  const struct sql_value *params, uint32_t count,
                                  int64_t deadline_ms, struct sql_rows *ret_rows,
                                  struct sql_trouble *trouble)
{
    (void)connection;
    (void)params;
    (void)count;
    (void)deadline_ms;
    return answer(columns_of(call), ret_rows, trouble);
}

static enum sql_outcome fake_text(struct sql_connection *connection, const char *sql,
                                  int64_t deadline_ms, struct sql_rows *ret_rows,
                                  struct sql_trouble *trouble)
{
    (void)connection;
    (void)sql;
    (void)deadline_ms;
    return answer(1, ret_rows, trouble);
}

static void fake_interrupt(struct sql_connection *connection, int64_t deadline_ms)
{
    (void)connection;
    (void)deadline_ms;
}

static bool fake_alive(struct sql_connection *connection)
{
    (void)connection;
    return true;
}

static int fake_fd(struct sql_connection *connection)
{
    (void)connection;
    return -1;
}

static hf_status fake_listen(struct sql_store *store, int64_t deadline_ms,
                             struct sql_connection **ret_connection, hf_error *err)
{
    (void)store;
    (void)deadline_ms;
    (void)ret_connection;
    return hfi_error_set(err, HF_UNAVAILABLE, 0, "no listener");
}

static hf_status fake_probe(struct sql_connection *connection, int64_t deadline_ms,
                            enum sql_found *ret_found, hf_error *err)
{
    *ret_found = SQL_FOUND_ALL;
    (void)connection;
    (void)deadline_ms;
    (void)err;
    return HF_OK;
}

static hf_status fake_lay(struct sql_store *store, int64_t server_id, int64_t since,
                          int64_t deadline_ms, hf_error *err)
{
    (void)store;
    (void)server_id;
    (void)since;
    (void)deadline_ms;
    (void)err;
    return HF_OK;
}

static hf_status fake_verify(struct sql_connection *connection, enum sql_mode mode,
                             int64_t deadline_ms, hf_error *err)
{
    (void)connection;
    (void)mode;
    (void)deadline_ms;
    (void)err;
    return HF_OK;
}

static const struct sql_lock_sql words = { .verify = fake_verify };
static const struct sql_driver driver = { .name = "fuzz",
                                          .lock_sql = &words,
                                          .parse = fake_parse,
                                          .free_conf = fake_free_conf,
                                          .open = fake_open,
                                          .close = fake_close,
                                          .abandon = fake_close,
                                          .call = fake_call,
                                          .text = fake_text,
                                          .interrupt = fake_interrupt,
                                          .alive = fake_alive,
                                          .fd = fake_fd,
                                          .listen = fake_listen,
                                          .probe = fake_probe,
                                          .wait_until_gone = fake_lay };

static hf_status open_store(void *self, struct hfi_conf *conf, struct hfi_host *host,
                            hf_error *err);

static const struct hfi_form forms[] = { { "fuzz", 0, 0, 0, NULL }, { .scheme = NULL } };
static const struct hfi_param params[] = { SQL_PARAMS, { .name = NULL } };
static const struct hfi_conf_type conf_type = { sizeof(struct sql_conf), forms, params };

static const struct hfi_engine engine = {
    .conf = &conf_type,
    .abi = HFI_ENGINE_ABI,
    SQL_STORAGE,
    .drive = &(const struct hfi_drive){ .kind = HFI_BLOCKING },
    .promises = &(const struct hfi_promises){ .name = "fuzz",
                                              .caps = HF_CAP_CELLS | HF_CAP_CLOCK | HF_CAP_DETACHED,
                                              .default_ttl_ms = SQL_TTL_MS,
                                              .min_ttl_ms = SQL_MIN_TTL_MS },
    .open = open_store,
    .close = sql_close,
    .submit = sql_submit,
    .cancel = sql_cancel,
};

static hf_status open_store(void *self, struct hfi_conf *conf, struct hfi_host *host, hf_error *err)
{
    return sql_store_open(self, &driver, conf, host, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    struct fuzz_input ops = fuzz_piece(&in, 16);

    answers = in;
    fuzz_ops(&engine, "fuzz:x", false, ops);
    return 0;
}
