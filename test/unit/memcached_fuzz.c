/* SPDX-License-Identifier: MIT */
/*
 * Random input to what reads others' bytes: replies of the server, values of its items, URLs.
 * HOLDFAST_FUZZ_COUNT (30,000) rounds from HOLDFAST_SEED (1). Inputs are put together from pieces that
 * mean something, with bytes changed at random; each has its own allocation of its exact size, so that
 * AddressSanitizer sees a read past its end.
 */
#include "unit.h"

#include "core/url.h"
#include "engine/memcached/conf.h"
#include "engine/memcached/proto.h"
#include "engine/memcached/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX 600
#define MARK      "S3KR3T" /* stands where secrets stand; must never be shown */

static uint64_t seed = 1;

/* ---- one input -------------------------------------------------------------------------------- */

/* As many replies as there are; none reaches past the end, and a piece never says more than the whole. */
static void try_replies(const char *bytes, size_t len)
{
    struct hfi_mc_reply reply, again;
    size_t at = 0, used = 0, used_again = 0;

    while (at < len) {
        enum hfi_mc_result result = hfi_mc_parse(bytes + at, len - at, &reply, &used);

        if (result != HFI_MC_DONE)
            return;
        assert_true(used > 0 && used <= len - at);
        if (reply.text)
            assert_true(reply.text >= bytes + at && reply.text + reply.len <= bytes + at + used);
        assert_int_equal(hfi_mc_parse(bytes + at, used, &again, &used_again), HFI_MC_DONE);
        assert_true(used_again == used && again.kind == reply.kind && again.cas == reply.cas);
        assert_int_not_equal(hfi_mc_parse(bytes + at, used - 1, &again, &used_again), HFI_MC_DONE);
        at += used;
    }
}

static void try_record(const char *bytes, size_t len)
{
    char text[HFI_MC_RECORD_MAX];
    struct hfi_mc_record record, back;
    struct hfi_mc_cell cell;

    if (hfi_mc_record_read(bytes, len, &record)) {
        assert_true((const char *)record.name + record.name_len == record.label);
        assert_true(record.label + record.label_len == bytes + len);
        assert_true(hfi_mc_record_read(text, hfi_mc_record_write(&record, text), &back));
        assert_memory_equal(back.owner, record.owner, HFI_OWNER_LEN);
    }
    if (hfi_mc_cell_read(bytes, len, &cell))
        assert_true((const char *)cell.bytes + cell.len == bytes + len);
}

static void try_url(const char *text)
{
    struct hfi_mc_conf *conf = NULL;
    struct hfi_url url;
    hf_error err = { .text = "" };

    if (hfi_url_parse(text, &url, &err) == HF_OK) {
        if (hfi_mc_conf_parse(&url, &conf, &err) == HF_OK) {
            assert_true(conf->host || conf->path);
            assert_true(!conf->user == !conf->password);
            assert_null(strstr(conf->location, MARK));
            hfi_mc_conf_free(conf);
        }
        hfi_url_done(&url);
    }
    assert_null(strstr(err.text, MARK));
}

/* ---- making inputs -------------------------------------------------------------------------------- */

static const char *const reply_pieces[] = {
    "HD",
    "VA ",
    "EN",
    "NS",
    "EX",
    "NF",
    "MN",
    "STAT ",
    "END",
    "ERROR",
    "\r\n",
    "\r\n",
    "\r\n",
    " c1",
    " t30",
    " t-1",
    " O7",
    " k",
    "5",
    "0",
    "key=",
    "\n",
    " ",
    "STORED",
    "VERSION 1.6.18",
    "SERVER_ERROR out of memory",
    "hello",
    "BUSY",
};
static const char *const record_pieces[] = {
    "holdfast1", "holdfastc1",
    " ",         " - ",
    " d ",       "00112233445566778899aabbccddeeff",
    "30000",     "1",
    "3",         "5",
    "\n",        "job",
    "label",     "0",
    " 1 3\n",    "holdfast1 00112233445566778899aabbccddeeff - 30000 1 3 5\njoblabel",
};
static const char *const url_pieces[] = {
    "memcached://", "memcached+unix://", "u:" MARK "@", "host",  ":11211", "/path", "?", "&",
    "prefix=x",     "op_timeout=1s",     "poll=5ms",    "[::1]", ",",      "%41",   "@", "%zz",
};

static size_t make(const char *const *pieces, size_t count, char *to)
{
    size_t len = 0, parts = 1 + unit_random(&seed) % 12;

    for (size_t i = 0; i < parts; i++) {
        const char *piece = pieces[unit_random(&seed) % count];

        if (len + strlen(piece) > INPUT_MAX)
            break;
        memcpy(to + len, piece, strlen(piece));
        len += strlen(piece);
    }
    for (size_t i = unit_random(&seed) % 4; i > 0 && len > 0 && unit_random(&seed) % 2; i--)
        to[unit_random(&seed) % len] = (char)unit_random(&seed);
    return len;
}

static void random_input(void **state)
{
    const char *count_text = getenv("HOLDFAST_FUZZ_COUNT"), *seed_text = getenv("HOLDFAST_SEED");
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : UNIT_ROUNDS(30000);
    char made[INPUT_MAX + 1];

    (void)state;
    if (seed_text)
        seed = strtoull(seed_text, NULL, 10) | 1;
    for (unsigned long i = 0; i < count; i++) {
        unsigned which = (unsigned)(unit_random(&seed) % 3);
        size_t len = which == 0   ? make(reply_pieces, COUNT(reply_pieces), made)
                     : which == 1 ? make(record_pieces, COUNT(record_pieces), made)
                                  : make(url_pieces, COUNT(url_pieces), made);
        char *exact = malloc(len + 1);

        assert_non_null(exact);
        made[len] = 0;
        if (which == 2) {
            memcpy(exact, made, len + 1);
            try_url(exact);
        } else {
            char *tight = realloc(exact, len ? len : 1);

            assert_non_null(tight);
            exact = tight;
            memcpy(exact, made, len);
            if (which == 0)
                try_replies(exact, len);
            else
                try_record(exact, len);
        }
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_input) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
