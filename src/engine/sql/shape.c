/* SPDX-License-Identifier: MIT */
/*
 * The shape of answers: how many columns of which kind, how many rows, and in what range numbers
 * may be. Every answer of a server is checked here once, before anything is read from it. Pure.
 */
#include "engine/sql/internal.h"

#include "holdfast/primitives.h"
#include "util/error.h"

#include <ctype.h>
#include <string.h>

#define ANY      UINT32_MAX
#define CELL_MAX (HF_CELL_MAX + 64) /* with what src/prim puts before the caller's bytes */

/*
 * The answers of the calls, as internal.h describes them. A letter for each column, a capital one
 * if it may be NULL:
 *
 *   l  one letter          b  bytes               n  bytes, of a name       d  bytes, of a cell
 *   i  any number          t  a token, or microseconds since 1970           v  a version of a cell
 *   c  a count, a kind     k  which kind of name  m  milliseconds; beyond HF_DURATION_MAX_MS they become that
 *   x  an index: which of the items that were asked about      s  numbers of permits, "0,3,17"
 *
 * Rows: from `least` to `most`, of an index also not more than were asked about. No columns: nothing of it is read.
 */
static const struct {
    const char *name, *columns;
    uint32_t least, most;
    uint32_t before, group; /* parameters before the items that come n times, and of each item */
    bool reads;             /* it changes nothing */
} answers[SQL_CALLS] = {
    [SQL_ACQUIRE] = { "acquire", "lTCM", 1, 1, 0, 0, false },
    [SQL_CLAIM] = { "claim", "lTCMS", 1, 1, 0, 0, false },
    [SQL_SLOTS] = { "slots", "s", 0, 1, 0, 0, true },
    [SQL_RELEASE] = { "release", "l", 1, 1, 0, 0, false },
    [SQL_RENEW] = { "renew", "xc", 0, ANY, 0, 3, false },
    [SQL_REFILL] = { "refill", "xctc", 0, ANY, 0, 4, false },
    [SQL_CANCEL] = { "cancel", "lTCM", 1, 1, 0, 0, false },
    [SQL_HEARTBEAT] = { "beat", "xlTCM", 0, ANY, 2, 2, false },
    [SQL_RECHECK] = { "poke", "M", 0, 1, 0, 0, false },
    [SQL_ADOPT] = { "adopt", "tckccmm", 0, 1, 0, 0, false },
    [SQL_BREAK] = { "break", "l", 1, 1, 0, 0, false },
    [SQL_NOTE] = { "note", NULL, 0, 0, 0, 0, false },
    [SQL_INSPECT] = { "look", "lnkcMTTCIMMIB", 0, ANY, 0, 0, true },
    [SQL_SWEEP] = { "sweep", "c", 1, 1, 0, 0, false },
    [SQL_LEAVE] = { "leave", NULL, 0, 0, 0, 0, false },
    [SQL_CELL_READ] = { "read a cell", "vdm", 0, 1, 0, 0, true },
    [SQL_CELL_SWAP] = { "write a cell", "lV", 1, 1, 0, 0, false },
    [SQL_CELL_COMMIT] = { "commit cells", "xlv", 0, ANY, 0, SQL_COMMIT_PARAMS, false },
    [SQL_CELL_WATCH] = { "look at a cell", "xvm", 0, ANY, 2, 2, true },
    [SQL_TIME] = { "time", "t", 1, 1, 0, 0, true },
    [SQL_TOKEN] = { "token", "t", 0, 1, 0, 0, false },
    [SQL_ASK] = { "ask", "l", 1, 1, 0, 0, false },
    [SQL_RESIZE] = { "resize", "lKC", 1, 1, 0, 0, false },
    [SQL_LOCK_TRY] = { "lock", "c", 1, 1, 0, 0, false },
    [SQL_LOCK_WAIT] = { "lock", "b", 1, 1, 0, 0, false },
    [SQL_LOCK_FREE] = { "unlock", "c", 1, 1, 0, 0, false },
};

static bool within(int64_t number, int64_t least, int64_t most)
{
    return number >= least && number <= most;
}

static bool number_fits(struct sql_value *value, char kind, uint32_t items)
{
    if (value->type != SQL_INT)
        return false;
    switch (kind) {
    case 't':
        return within(value->number, 0, (int64_t)HFI_TOKEN_LIMIT);
    case 'v':
        return value->number >= 0;
    case 'c':
        return within(value->number, 0, UINT32_MAX);
    case 'k':
        return within(value->number, 0, HFI_MODE_SEMAPHORE);
    case 'x':
        return within(value->number, 0, (int64_t)items - 1);
    case 'm':
        if (value->number > HF_DURATION_MAX_MS)
            value->number = HF_DURATION_MAX_MS;
        if (value->number < -HF_DURATION_MAX_MS)
            value->number = -HF_DURATION_MAX_MS;
        return true;
    default:
        return true;
    }
}

bool sql_slots_parse(const struct sql_value *value, uint32_t ret_slots[HF_SLOTS_MAX],
                     uint32_t *ret_count)
{
    const char *text = value->bytes;
    uint64_t number = 0;
    uint32_t count = 0;
    bool digits = false;

    if (value->type != SQL_BYTES && value->type != SQL_TEXT)
        return false;
    for (size_t i = 0; i <= value->len; i++) {
        if (i < value->len && isdigit((unsigned char)text[i])) {
            number = 10 * number + (uint64_t)(text[i] - '0');
            digits = true;
            if (number >= HF_CAPACITY_MAX)
                return false;
            continue;
        }
        if ((i < value->len && text[i] != ',') || !digits || count == HF_SLOTS_MAX ||
            (count > 0 && number <= ret_slots[count - 1]))
            return false;
        ret_slots[count++] = (uint32_t)number;
        number = 0;
        digits = false;
    }
    *ret_count = count;
    return true;
}

static bool value_fits(struct sql_value *value, char kind, uint32_t items)
{
    bool bytes = value->type == SQL_BYTES || value->type == SQL_TEXT;
    uint32_t slots[HF_SLOTS_MAX], count;

    if (value->type == SQL_NULL)
        return isupper((unsigned char)kind);
    switch (tolower((unsigned char)kind)) {
    case 'l':
        return bytes && value->len == 1;
    case 'b':
        return bytes;
    case 'n':
        return bytes && value->len >= 1 && value->len <= HF_NAME_MAX;
    case 'd':
        return bytes && value->len <= CELL_MAX;
    case 's':
        return sql_slots_parse(value, slots, &count);
    default:
        return number_fits(value, (char)tolower((unsigned char)kind), items);
    }
}

static bool fits(struct sql_rows *rows, const char *columns, uint32_t least, uint32_t most,
                 uint32_t items)
{
    size_t count = strlen(columns);

    if (rows->count < least || rows->count > most || (rows->count > 0 && rows->columns != count))
        return false;
    for (size_t i = 0; i < rows->count * count; i++)
        if (!value_fits(&rows->values[i], columns[i % count], items))
            return false;
    return true;
}

bool sql_fits(struct sql_rows *rows, const char *columns, uint32_t least, uint32_t most)
{
    return fits(rows, columns, least, most, 0);
}

bool sql_answer_fits(enum sql_call call, uint32_t params, struct sql_rows *rows)
{
    uint32_t items =
        answers[call].group ? (params - answers[call].before) / answers[call].group : 0;
    uint32_t most = answers[call].group ? items : answers[call].most;

    return !answers[call].columns ||
           fits(rows, answers[call].columns, answers[call].least, most, items);
}

bool sql_only_reads(enum sql_call call)
{
    return answers[call].reads;
}

const char *sql_call_name(enum sql_call call)
{
    return answers[call].name;
}

hf_status sql_odd(struct sql_connection *connection, const char *what, struct sql_rows *rows,
                  hf_error *err)
{
    sql_rows_free(rows);
    connection->dead = true;
    return hfi_error_set(
        err, HF_CORRUPT, 0,
        "the server's answer (%s) does not have the columns and rows that it must have", what);
}
