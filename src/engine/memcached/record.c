/* SPDX-License-Identifier: MIT */
/* Our keys and values in memcached. Pure; see record.h. */
#include "engine/memcached/record.h"

#include "engine/memcached/proto.h"
#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MAGIC "holdfast1"
#define CELL_MAGIC  "holdfastc1"

bool memcached_key_byte(unsigned char byte)
{
    return byte > ' ' && byte != 0x7f;
}

static bool fits(size_t prefix_len, const struct hfi_name *name)
{
    if (prefix_len + 2 + name->len > MEMCACHED_KEY_MAX)
        return false;
    for (uint32_t i = 0; i < name->len; i++)
        if (!memcached_key_byte(name->bytes[i]))
            return false;
    return true;
}

void memcached_key(const char *prefix, char kind, const struct hfi_name *name,
                   struct memcached_key *ret_key)
{
    size_t len = strlen(prefix);
    char hex[33];

    memcpy(ret_key->text, prefix, len);
    ret_key->text[len + 1] = ':';
    if (fits(len, name)) {
        ret_key->text[len] = kind;
        memcpy(ret_key->text + len + 2, name->bytes, name->len);
        ret_key->len = (unsigned)(len + 2 + name->len);
        return;
    }
    ret_key->text[len] = (char)(kind - 'a' + 'A');
    snprintf(hex, sizeof hex, "%016" PRIx64 "%016" PRIx64, name->hash[0], name->hash[1]);
    memcpy(ret_key->text + len + 2, hex, 32);
    ret_key->len = (unsigned)(len + 2 + 32);
}

void memcached_ticket_key(const char *prefix, const struct memcached_key *lease,
                          struct memcached_key *ret_key)
{
    size_t len = strlen(prefix);

    *ret_key = *lease;
    ret_key->text[len] = lease->text[len] == 'l' ? 't' : 'T';
}

size_t memcached_record_write(const struct memcached_record *record,
                              char ret_text[MEMCACHED_RECORD_MAX])
{
    char owner[2 * HFI_OWNER_LEN + 1];
    size_t len;

    hfi_hex(record->owner, HFI_OWNER_LEN, owner);
    len = (size_t)snprintf(ret_text, MEMCACHED_HEAD_MAX,
                           LEASE_MAGIC " %s %c %" PRId64 " %" PRId64 " %" PRIu32 " %" PRIu32 "\n",
                           owner, record->detached ? 'd' : '-', record->ttl_ms, record->since_ms,
                           record->name_len, record->label_len);
    memcpy(ret_text + len, record->name, record->name_len);
    len += record->name_len;
    memcpy(ret_text + len, record->label, record->label_len);
    return len + record->label_len;
}

/* The words of a first line, after its magic. */
struct line {
    const char *at, *end;
};

static bool begin_line(const char *text, size_t len, const char *magic, struct line *ret_line)
{
    const char *newline = memchr(text, '\n', len < MEMCACHED_HEAD_MAX ? len : MEMCACHED_HEAD_MAX);
    size_t magic_len = strlen(magic);

    if (!newline || (size_t)(newline - text) < magic_len || memcmp(text, magic, magic_len) != 0)
        return false;
    *ret_line = (struct line){ .at = text + magic_len, .end = newline };
    return true;
}

static const char *take_word(struct line *line, size_t *ret_len)
{
    const char *from = line->at + 1, *space;

    if (line->at >= line->end || *line->at != ' ')
        return NULL;
    space = from < line->end ? memchr(from, ' ', (size_t)(line->end - from)) : NULL;
    line->at = space ? space : line->end;
    *ret_len = (size_t)(line->at - from);
    return from;
}

static bool take_number(struct line *line, uint64_t max, uint64_t *ret_value)
{
    size_t len = 0;
    const char *word = take_word(line, &len);

    return word && memcached_number(word, len, max, ret_value);
}

bool memcached_record_read(const char *text, size_t len, struct memcached_record *ret_record)
{
    uint64_t ttl_ms, since_ms, name_len, label_len;
    const char *owner, *flag;
    size_t word_len = 0;
    struct line line;

    if (!begin_line(text, len, LEASE_MAGIC, &line))
        return false;
    owner = take_word(&line, &word_len);
    if (!owner || !hfi_unhex(owner, word_len, ret_record->owner, HFI_OWNER_LEN))
        return false;
    flag = take_word(&line, &word_len);
    if (!flag || word_len != 1 || (*flag != '-' && *flag != 'd'))
        return false;
    if (!take_number(&line, HF_DURATION_MAX_MS, &ttl_ms) ||
        !take_number(&line, INT64_MAX, &since_ms) || !take_number(&line, HF_NAME_MAX, &name_len) ||
        !take_number(&line, HF_LABEL_MAX, &label_len) || line.at != line.end || name_len == 0 ||
        len - (size_t)(line.end + 1 - text) != name_len + label_len)
        return false;
    ret_record->detached = *flag == 'd';
    ret_record->ttl_ms = (int64_t)ttl_ms;
    ret_record->since_ms = (int64_t)since_ms;
    ret_record->name = (const unsigned char *)line.end + 1;
    ret_record->name_len = (uint32_t)name_len;
    ret_record->label = line.end + 1 + name_len;
    ret_record->label_len = (uint32_t)label_len;
    return true;
}

size_t memcached_cell_head(const struct memcached_cell *cell,
                           char ret_text[MEMCACHED_HEAD_MAX + HF_NAME_MAX])
{
    size_t len =
        (size_t)snprintf(ret_text, MEMCACHED_HEAD_MAX, CELL_MAGIC " %" PRIu64 " %" PRIu32 "\n",
                         cell->version, cell->name_len);

    memcpy(ret_text + len, cell->name, cell->name_len);
    return len + cell->name_len;
}

bool memcached_cell_read(const char *text, size_t len, struct memcached_cell *ret_cell)
{
    uint64_t name_len;
    struct line line;
    size_t rest;

    if (!begin_line(text, len, CELL_MAGIC, &line) ||
        !take_number(&line, HFI_TOKEN_LIMIT, &ret_cell->version) ||
        !take_number(&line, HF_NAME_MAX, &name_len) || line.at != line.end)
        return false;
    rest = len - (size_t)(line.end + 1 - text);
    if (ret_cell->version == 0 || name_len == 0 || rest < name_len)
        return false;
    ret_cell->name = (const unsigned char *)line.end + 1;
    ret_cell->name_len = (uint32_t)name_len;
    ret_cell->bytes = line.end + 1 + name_len;
    ret_cell->len = rest - (size_t)name_len;
    return true;
}
