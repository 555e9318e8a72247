/* SPDX-License-Identifier: MIT */
/*
 * Cells, by the engine contract itself: compare and swap, and versions that never come back. And a commit of several that is
 * larger than what the server takes.
 */
#include "etcd_bed.h"

#include "core/registry.h"
#include "direct.h"
#include "engine/engine.h"
#include "holdfast/primitives.h"
#include "util/alloc.h"
#include "util/hash.h"

#include <string.h>

static const unsigned char name[] = "a cell / of ours";
static const struct hfi_engine *engine;

static void woken(struct hfi_host *unused)
{
    (void)unused;
}

static struct hfi_host host = { .label = "cells", .wake = woken };

static hf_status cell(void *store, enum hfi_op_kind kind, struct hfi_op *op, uint64_t version,
                      const char *bytes)
{
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->deadline_ms = HFI_NEVER;
    op->u.cell.name.bytes = name;
    op->u.cell.name.len = sizeof name - 1;
    hfi_hash128(name, sizeof name - 1, op->u.cell.name.hash);
    op->u.cell.version = version;
    op->u.cell.bytes = bytes;
    op->u.cell.len = bytes ? strlen(bytes) : 0;
    engine->submit(store, op);
    while (!atomic_load(&op->finished))
        engine->drive->turn(store, now_ms() + 1000);
    return (hf_status)(atomic_load(&op->finished) - 1);
}

static void swapped_by_version(void **state)
{
    uint64_t first, second;
    void *store;
    struct hfi_op op;

    (void)state;
    host.open_deadline_ms = now_ms() + LIMIT_MS;
    store = direct_open(at_bed(etcd_url(etcd, -1, "")), &host, &engine);

    EXPECT(HF_NOT_FOUND, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, 0, "ten"));
    first = op.u.cell.ret_version;
    CHECK(first > 0);
    EXPECT(HF_BUSY, cell(store, HFI_OP_CELL_SWAP, &op, 0, "again"));
    CHECK(op.u.cell.ret_version == first);
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, first, "nine"));
    second = op.u.cell.ret_version;
    CHECK(second > first);
    EXPECT(HF_BUSY, cell(store, HFI_OP_CELL_SWAP, &op, first, "late"));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    CHECK(op.u.cell.ret_version == second && op.u.cell.ret_len == 4);
    CHECK(memcmp(op.u.cell.ret_bytes, "nine", 4) == 0);
    hfi_free(op.u.cell.ret_bytes);
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, second, ""));
    second = op.u.cell.ret_version;
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    CHECK(op.u.cell.ret_len == 0 && op.u.cell.ret_version == second);
    hfi_free(op.u.cell.ret_bytes);
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, second, NULL));
    EXPECT(HF_NOT_FOUND, cell(store, HFI_OP_CELL_READ, &op, 0, NULL));
    EXPECT(HF_OK, cell(store, HFI_OP_CELL_SWAP, &op, 0, "new"));
    CHECK(op.u.cell.ret_version > second);
    direct_close(engine, store);
}

/* A server's own limits are named; nothing was done, and what fits is done. */
static void limits_of_the_server(void **state)
{
    static char large[ETCD_NARROW_BYTES / 2];
    hf_cell_item items[ETCD_NARROW_OPS + 1];
    char names[ETCD_NARROW_OPS + 1][2] = { { 0 } };
    hf_cell found = HF_CELL_INIT;
    hf_store *store;

    (void)state;
    etcd = etcd_start(1, ETCD_NARROW);
    EXPECT(HF_OK, hf_open(etcd_url(etcd, -1, ""), NULL, &store, &contract_error));
    for (int i = 0; i <= ETCD_NARROW_OPS; i++) {
        names[i][0] = (char)('a' + i);
        items[i] = (hf_cell_item)HF_CELL_ITEM_INIT;
        items[i].name = names[i];
        items[i].name_len = 1;
        items[i].action = HF_CELL_ACTION_WRITE;
    }
    EXPECT(HF_INVALID,
           hf_cells_commit(store, items, ETCD_NARROW_OPS + 1, NULL, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "--max-txn-ops"));
    for (int i = 0; i < 3; i++) {
        items[i].bytes = large;
        items[i].len = sizeof large;
    }
    EXPECT(HF_INVALID, hf_cells_commit(store, items, 3, NULL, NULL, &contract_error));
    CHECK(strstr(contract_error.text, "--max-request-bytes"));
    EXPECT(HF_NOT_FOUND, hf_cell_get(store, "a", 1, &found, &contract_error));
    EXPECT(HF_OK,
           hf_cells_commit(store, items + 3, ETCD_NARROW_OPS - 3, NULL, NULL, &contract_error));
    close_store(store);
    etcd_free(etcd);
    etcd = NULL;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(swapped_by_version),
                                        cmocka_unit_test(limits_of_the_server) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
