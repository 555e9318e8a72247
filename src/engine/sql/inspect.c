/* SPDX-License-Identifier: MIT */
/* mode=lease: holders and waiters. */
#include "engine/sql/listener.h"

#include "util/error.h"

#include <string.h>

/* Columns of INSPECT. */
enum { KIND, NAME, MODE, CAPACITY, CLOSED, TOKEN, FIRST, PERMITS, FLAGS, AGE, LEFT, TID, LABEL };

static bool same_name(const struct sql_rows *rows, uint32_t a, uint32_t b)
{
    const struct sql_value *x = sql_at(rows, a, NAME), *y = sql_at(rows, b, NAME);

    return x->len == y->len && memcmp(x->bytes, y->bytes, x->len) == 0;
}

static void label_of(const struct sql_rows *rows, uint32_t row, char ret_label[HF_LABEL_MAX + 1])
{
    const struct sql_value *value = sql_at(rows, row, LABEL);
    size_t len = value->type == SQL_NULL ? 0 : value->len;

    if (len > HF_LABEL_MAX)
        len = HF_LABEL_MAX;
    memcpy(ret_label, len ? value->bytes : "", len);
    ret_label[len] = 0;
}

static bool emit_line(const struct sql_rows *rows, uint32_t row, uint32_t position,
                      struct hfi_sink *sink)
{
    char label[HF_LABEL_MAX + 1];

    label_of(rows, row, label);
    if (sql_letter(rows, row, KIND) == 'H') {
        int64_t tid = sql_int(rows, row, TID);
        hf_holder holder = { .token = (uint64_t)sql_int(rows, row, TOKEN),
                             .first = (uint64_t)sql_int(rows, row, FIRST),
                             .permits = (uint32_t)sql_int(rows, row, PERMITS),
                             .detached = (sql_int(rows, row, FLAGS) & SQL_FLAG_DETACHED) ? 1 : 0,
                             .age_ms = sql_int(rows, row, AGE),
                             .ttl_ms = sql_int(rows, row, LEFT),
                             .tid = tid > 0 ? tid : 0,
                             .lingers = (sql_int(rows, row, FLAGS) & SQL_FLAG_LINGERS) != 0,
                             .idle = tid == SQL_TID_IDLE,
                             .watched = (sql_int(rows, row, FLAGS) & SQL_FLAG_WATCHED) != 0,
                             .label = label };

        if (sql_letter(rows, row + 1, KIND) == 'N' &&
            sql_int(rows, row + 1, FIRST) == sql_int(rows, row, FIRST) &&
            !sql_slots_parse(sql_at(rows, row + 1, LABEL), holder.slots, &holder.slot_count))
            holder.slot_count = 0; /* no numbers that we know */
        return sink->holder(sink, &holder);
    }
    if (sql_letter(rows, row, KIND) == 'W') {
        hf_waiter waiter = { .position = position,
                             .permits = (uint32_t)sql_int(rows, row, PERMITS),
                             .kind = hfi_shown_kind(sql_int(rows, row, MODE),
                                                    sql_int(rows, row, PERMITS)),
                             .age_ms = sql_int(rows, row, AGE),
                             .label = label };

        return sink->waiter(sink, &waiter);
    }
    return true;
}

/* All lines of one name, from `row`. Returns the row after them; 0: no memory. */
static uint32_t emit_name(const struct sql_rows *rows, uint32_t row, struct hfi_sink *sink)
{
    const struct sql_value *name = sql_at(rows, row, NAME);
    hf_entry entry = { .name = name->bytes,
                       .name_len = name->len,
                       .kind = hfi_shown_kind(sql_int(rows, row, MODE), 1),
                       .capacity = (uint32_t)sql_int(rows, row, CAPACITY),
                       .closed_ms = sql_int(rows, row, CLOSED),
                       .resized = (sql_int(rows, row, FLAGS) & SQL_FLAG_SIZED) != 0 };
    uint32_t first = row, position = 0, last = row;

    for (; last < rows->count && same_name(rows, last, first); last++)
        if (sql_letter(rows, last, KIND) == 'H')
            entry.taken += (uint32_t)sql_int(rows, last, PERMITS);
    if (!sink->entry(sink, &entry))
        return 0;
    for (; row < last; row++) {
        position += sql_letter(rows, row, KIND) == 'W';
        if (!emit_line(rows, row, position, sink))
            return 0;
    }
    return last;
}

/* The rows of all names, or of one (`name`), to the sink. */
static void inspect(struct sql_store *store, struct hfi_op *op, struct sql_value name,
                    struct hfi_sink *sink)
{
    struct sql_request r = { .call = SQL_INSPECT,
                             .params = &name,
                             .count = 1,
                             .deadline_ms = op->deadline_ms,
                             .again = true };
    hf_status status;

    /* The view must contain our own latest local passes. */
    (void)sql_notes_send(store, op->deadline_ms, &(hf_error){ .status = HF_OK });
    status = sql_call(store, &r);
    if (status != HF_OK) {
        sql_finish(op, status == HF_UNKNOWN ? HF_UNAVAILABLE : status, &r.trouble.error);
        return;
    }
    for (uint32_t row = 0; row < r.rows.count && status == HF_OK;) {
        row = emit_name(&r.rows, row, sink);
        if (row == 0)
            status = HF_NO_MEMORY;
    }
    sql_rows_free(&r.rows);
    sql_finish(op, status, NULL);
}

/* One statement, one page. */
void sql_list(struct sql_store *store, struct hfi_op *op)
{
    inspect(store, op, sql_null(), op->u.list.sink);
}

void sql_look(struct sql_store *store, struct hfi_op *op)
{
    inspect(store, op, sql_bytes(op->u.look.name.bytes, op->u.look.name.len), op->u.look.sink);
}
