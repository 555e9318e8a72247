/* SPDX-License-Identifier: MIT */
/*
 * The cells of the embedded engine, by the contract itself: there is no public call yet. Compare
 * and swap, versions that never come back, and what is swapped survives everybody's closing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "core/op.h"
#include "core/registry.h"
#include "core/url.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/hash.h"

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hfi_engine *engine;
static struct hfi_host host = { .label = "cells" };

static struct hfi_conn *open_at(const char *text)
{
    struct hfi_conn *conn;
    struct hfi_url url;

    assert_int_equal(hfi_url_parse(text, &url, NULL), HF_OK);
    if (!engine)
        assert_int_equal(hfi_registry_find("file", &engine, NULL), HF_OK);
    host.open_deadline_ms = hfi_now_ms() + 10000;
    assert_int_equal(engine->open(&url, &host, &conn, NULL), HF_OK);
    hfi_url_done(&url);
    return conn;
}

static hf_status cell(struct hfi_conn *conn, enum hfi_op_kind kind, struct hfi_op *op,
                      uint64_t version, const char *bytes)
{
    static const unsigned char name[] = "stock";

    hfi_op_init(op, kind, NULL, hfi_now_ms() + 10000);
    memset(&op->u.cell, 0, sizeof op->u.cell);
    op->u.cell.name.bytes = name;
    op->u.cell.name.len = sizeof name - 1;
    hfi_hash128(name, sizeof name - 1, op->u.cell.name.hash);
    op->u.cell.version = version;
    op->u.cell.bytes = bytes;
    op->u.cell.len = bytes ? strlen(bytes) : 0;
    engine->submit(conn, op);
    return hfi_op_status(op);
}

static void swapped_by_version_and_durable(void **unused)
{
    char dir[] = "/tmp/holdfast-cells-XXXXXX", url[64], command[64];
    struct hfi_conn *conn;
    struct hfi_op op;
    uint64_t first, second;

    (void)unused;
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s", dir);
    conn = open_at(url);
    assert_int_equal(cell(conn, HFI_OP_CELL_READ, &op, 0, NULL), HF_NOT_FOUND);
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, 0, "ten"), HF_OK);
    first = op.u.cell.ret_version;
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, 0, "again"), HF_BUSY);
    assert_int_equal(op.u.cell.ret_version, first);
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, first, "nine"), HF_OK);
    second = op.u.cell.ret_version;
    assert_true(second > first);
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, first, "late"), HF_BUSY);
    engine->close(conn);

    conn = open_at(url);
    assert_int_equal(cell(conn, HFI_OP_CELL_READ, &op, 0, NULL), HF_OK);
    assert_int_equal(op.u.cell.ret_version, second);
    assert_int_equal(op.u.cell.ret_len, 4);
    assert_memory_equal(op.u.cell.ret_bytes, "nine", 4);
    hfi_free(op.u.cell.ret_bytes);
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, second, NULL), HF_OK);
    assert_int_equal(cell(conn, HFI_OP_CELL_READ, &op, 0, NULL), HF_NOT_FOUND);
    assert_int_equal(cell(conn, HFI_OP_CELL_SWAP, &op, 0, "new"), HF_OK);
    assert_true(op.u.cell.ret_version > second);
    engine->close(conn);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(swapped_by_version_and_durable) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
