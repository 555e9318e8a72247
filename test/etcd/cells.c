/* SPDX-License-Identifier: MIT */
/*
 * Cells, by the engine contract itself: there is no public call yet. Compare and swap, and versions
 * that never come back.
 */
#include "etcd_bed.h"

#include "core/registry.h"
#include "direct.h"
#include "engine/engine.h"
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { TEST(swapped_by_version) };

    bed_main(argc, argv);
    return BED_RUN(tests);
}
