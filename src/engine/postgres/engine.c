/* SPDX-License-Identifier: MIT */
/* The PostgreSQL engine: its driver, and the table of mode=lease; modes.c has the others. */
#include "engine/postgres/pg.h"

#include "core/url.h"
#include "engine/sql/hold.h"

const struct sq_driver hfi_pg_driver = {
    .name = "postgresql",
    .hold = &hfi_pg_hold,
    .bell_calls = true,
    .parse = hfi_pg_parse,
    .free_conf = hfi_pg_free_conf,
    .open = hfi_pg_open,
    .close = hfi_pg_close,
    .abandon = hfi_pg_abandon,
    .call = hfi_pg_call,
    .text = hfi_pg_text,
    .literal = hfi_pg_literal,
    .interrupt = hfi_pg_interrupt,
    .alive = hfi_pg_alive,
    .fd = hfi_pg_fd,
    .bell_open = hfi_pg_bell_open,
    .bell_wait = hfi_pg_bell_wait,
    .probe = hfi_pg_probe,
    .schema = hfi_pg_schema,
    .lock = "BEGIN; SELECT pg_advisory_xact_lock(7453019846120331)",
    .unlock = "COMMIT",
    .lay = hfi_pg_lay,
    .doctor = hfi_pg_doctor,
};

static const struct hfi_engine *variant(const struct hfi_url *url);
static hf_status pg_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err);

static hf_status pg_manage(struct hfi_url *url, const char *const *words, hf_finding_fn *finding,
                           void *arg, hf_error *err);

#define CELLS (HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_CLOCK)
#define COMMON                                                                              \
    .abi = HFI_ENGINE_ABI, .drive = HFI_BLOCKING, .guard_ms = SQ_GUARD_MS, .open = pg_open, \
    .close = hfi_sq_close, .location = hfi_sq_location, .submit = hfi_sq_submit,            \
    .cancel = hfi_sq_cancel, .variant = variant, .doctor = hfi_sq_doctor, .manage = pg_manage

static const struct hfi_engine lease = {
    COMMON,
    .default_ttl_ms = SQ_TTL_MS,
    .min_ttl_ms = SQ_MIN_TTL_MS,
    .passed = hfi_sq_passed,
    .info = { .name = "postgres",
              .schemes = "postgresql postgres",
              .available = 1,
              .tokens = HF_TOKENS_WHILE_DURABLE,
              .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                      HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                      HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK | CELLS,
              .on_crash = "freed after the ttl",
              .on_pause = "freed after the ttl; the token fences",
              .on_clock_jump =
                  "forward: leases end early, the token fences; back: a dead holder keeps its "
                  "name for a ttl more",
              .on_server_loss =
                  "a restart forgets nothing that was committed durably; a standby that "
                  "takes over may lack the last grants unless replication is "
                  "synchronous",
              .on_partition = "unavailable on the far side; LOST by our own clock before the lease "
                              "ends",
              .fairness = "FIFO, by hand-over",
              .wakeup = "LISTEN/NOTIFY to the winner alone" },
};

static const struct hfi_engine *variant(const struct hfi_url *url)
{
    const struct hfi_engine *table = hfi_pg_hold_table(url);

    return table ? table : &lease; /* also if mode= is wrong: open() says so */
}

static hf_status pg_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err)
{
    return hfi_sq_open(&hfi_pg_driver, variant(url), url, host, ret_conn, err);
}

static hf_status pg_manage(struct hfi_url *url, const char *const *words, hf_finding_fn *finding,
                           void *arg, hf_error *err)
{
    return hfi_sq_manage(&hfi_pg_driver, url, words, finding, arg, err);
}

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &lease;
}
