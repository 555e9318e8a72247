/* SPDX-License-Identifier: MIT */
/*
 * The MariaDB and MySQL engine: its driver and the table of mode=lease; modes.c has the others. All that happens is in sql/
 * and in the driver (ma.h).
 */
#include "engine/mariadb/ma.h"

#include "engine/sql/hold.h"
#include "util/alloc.h"
#include "util/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const struct sq_driver hfi_ma_driver = {
    .name = "mariadb",
    .hold = &hfi_ma_hold,
    .parse = hfi_ma_parse,
    .free_conf = hfi_ma_free_conf,
    .open = hfi_ma_open,
    .close = hfi_ma_close,
    .abandon = hfi_ma_abandon,
    .call = hfi_ma_call,
    .text = hfi_ma_text,
    .literal = hfi_ma_literal,
    .interrupt = hfi_ma_interrupt,
    .alive = hfi_ma_alive,
    .fd = hfi_ma_fd,
    .bell_open = hfi_ma_bell_open,
    .bell_wait = hfi_ma_bell_wait,
    .probe = hfi_ma_probe,
    .schema = hfi_ma_schema,
    .lock = "SELECT GET_LOCK('holdfast.schema', 60)",
    .unlock = "SELECT RELEASE_LOCK('holdfast.schema')",
    .lay = hfi_ma_lay,
    .doctor = hfi_ma_doctor,
};

static hf_status ma_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err);
static const struct hfi_engine *ma_variant(const struct hfi_url *url);
static hf_status ma_manage(struct hfi_url *url, const char *const *words, hf_finding_fn *finding,
                           void *arg, hf_error *err);

#define CALLS                                                                               \
    .abi = HFI_ENGINE_ABI, .drive = HFI_BLOCKING, .guard_ms = SQ_GUARD_MS, .open = ma_open, \
    .close = hfi_sq_close, .location = hfi_sq_location, .submit = hfi_sq_submit,            \
    .cancel = hfi_sq_cancel, .doctor = hfi_sq_doctor, .manage = ma_manage

#define CELLS (HF_CAP_CELLS | HF_CAP_CELL_TTL | HF_CAP_CELL_WATCH | HF_CAP_CLOCK)

static const struct hfi_engine lease = {
    CALLS,
    .default_ttl_ms = SQ_TTL_MS,
    .min_ttl_ms = SQ_MIN_TTL_MS,
    .variant = ma_variant,
    .passed = hfi_sq_passed,
    .info = { .name = "mariadb",
              .schemes = "mysql mariadb",
              .available = 1,
              .caps = HF_CAP_SHARED | HF_CAP_SEMAPHORE | HF_CAP_WAIT | HF_CAP_FIFO | HF_CAP_TTL |
                      HF_CAP_DETACHED | HF_CAP_TOKEN | HF_CAP_PASS | HF_CAP_BARGE |
                      HF_CAP_LOCK_DELAY | HF_CAP_INSPECT | HF_CAP_WAITERS | HF_CAP_BREAK | CELLS,
              .tokens = HF_TOKENS_WHILE_DURABLE,
              .on_crash = "freed after the ttl",
              .on_pause = "freed after the ttl; the token fences",
              .on_clock_jump =
                  "forward: leases end early, the token fences; back: a dead holder keeps its "
                  "name for a ttl more",
              .on_server_loss =
                  "leases survive a restart; a replica that took over may have lost the last "
                  "ones (semi-synchronous replication narrows that)",
              .on_partition =
                  "unavailable on the far side; LOST by our own clock before the lease ends",
              .fairness = "FIFO",
              .wakeup = "the release hands over and ends the winner's sleep in the server" },
};

/* The URL decides on the mode, and that on what can be promised. */
static const struct hfi_engine *ma_variant(const struct hfi_url *url)
{
    const struct hfi_engine *table = hfi_ma_hold_table(url);

    return table ? table : &lease; /* also if mode= is wrong: open() says so */
}

static hf_status ma_open(struct hfi_url *url, struct hfi_host *host, struct hfi_conn **ret_conn,
                         hf_error *err)
{
    return hfi_sq_open(&hfi_ma_driver, ma_variant(url), url, host, ret_conn, err);
}

struct printing {
    hf_finding_fn *finding;
    void *arg;
    bool no_memory;
};

/* The client program of the server ends a statement at the first ';', but for a DELIMITER. */
static void print_one(hf_level level, const char *topic, const char *text, void *arg)
{
    struct printing *p = arg;
    size_t room = strlen(text) + 64;
    char *whole;

    if (!strstr(text, "\nBEGIN") && !strstr(text, ": BEGIN")) {
        p->finding(level, topic, text, p->arg);
        return;
    }
    whole = hfi_malloc(room);
    if (!whole) {
        p->no_memory = true;
        return;
    }
    snprintf(whole, room, "DELIMITER //\n%s\n//\nDELIMITER ;", text);
    p->finding(level, topic, whole, p->arg);
    hfi_free(whole);
}

static hf_status ma_manage(struct hfi_url *url, const char *const *words, hf_finding_fn *finding,
                           void *arg, hf_error *err)
{
    struct printing p = { finding, arg, false };
    hf_status status = hfi_sq_manage(&hfi_ma_driver, url, words, print_one, &p, err);

    return status == HF_OK && p.no_memory ? hfi_error_memory(err) : status;
}

__attribute__((visibility("default"))) const struct hfi_engine *hfi_engine_entry(void);
const struct hfi_engine *hfi_engine_entry(void)
{
    return &lease;
}
