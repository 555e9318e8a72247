/* SPDX-License-Identifier: MIT */
/* What Redis and Redlock have in common on the wire: keys of names, inboxes, flags, messages. */
#include "unit.h"

#include "engine/redis/names.h"
#include "engine/redis/protocol.h"

#include <stdio.h>
#include <string.h>

#define OWNER "00112233445566778899aabbccddeeff"

static void keys(void **state)
{
    static const struct {
        const char *name, *key;
    } cases[] = {
        { "jobs", "hf:{jobs}" },
        { "a{b}c", "hf:{a%7Bb%7Dc}" }, /* so that the tag is the whole name */
        { "50%", "hf:{50%25}" },
        { "%7B", "hf:{%257B}" }, /* and no two names have one key */
        { "\xff/ x", "hf:{\xff/ x}" },
    };
    char key[REDIS_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_name name = { .bytes = (const unsigned char *)cases[i].name,
                                 .len = (uint32_t)strlen(cases[i].name) };
        size_t len = redis_name_key("hf:", &name, key);

        assert_int_equal(len, strlen(cases[i].key));
        assert_memory_equal(key, cases[i].key, len);
    }
}

static void inboxes(void **state)
{
    struct redis_inbox_name one, other;

    (void)state;
    redis_inbox_name_make(&one, "hf:rl:");
    redis_inbox_name_make(&other, "hf:rl:");
    assert_int_equal(one.len, strlen("hf:rl:inbox:") + REDIS_INBOX_ID_LEN);
    assert_int_equal(strlen(one.text), one.len);
    assert_true(redis_inbox_name_is(&one, one.text, one.len));
    assert_false(redis_inbox_name_is(&one, one.text, one.len - 1));
    assert_false(redis_inbox_name_is(&one, other.text, other.len));
}

static void flags(void **state)
{
    struct hfi_claim claim = { .flags = 0 };
    struct hfi_op op = { .claim = &claim };

    (void)state;
    assert_int_equal(redis_acquire_flags(&op, false), 0);
    assert_int_equal(redis_acquire_flags(&op, true), 8);
    op.may_wait = true;
    assert_int_equal(redis_acquire_flags(&op, false), 1);
    claim.flags = HFI_CLAIM_BARGE;
    assert_int_equal(redis_acquire_flags(&op, false), 3);
    claim.flags = HFI_CLAIM_DETACHED;
    assert_int_equal(redis_acquire_flags(&op, true), 13);
}

static void messages(void **state)
{
    static const struct {
        const char *payload;
        bool ours;
        unsigned count;
        uint64_t numbers[REDIS_MESSAGE_NUMBERS];
        const char *rest;
    } cases[] = {
        { "G " OWNER " 7 41 2 3000", true, 4, { 7, 41, 2, 3000 }, "" },
        { "G " OWNER " 7 41 2 3000 0,3", true, 4, { 7, 41, 2, 3000 }, "0,3" },
        { "G " OWNER " 7 41 2 3000 ", true, 4, { 7, 41, 2, 3000 }, "" },
        { "L " OWNER " 41", true, 1, { 41 }, "" },
        { "L " OWNER " 18446744073709551615", true, 1, { UINT64_MAX }, "" },
        { "L " OWNER " 18446744073709551616", false, 0, { 0 }, "" },
        { "L " OWNER, true, 0, { 0 }, "" },
        { "G " OWNER " 7 -1 2 3000", true, 1, { 7 }, "-1 2 3000" },
        { "G " OWNER " 7 x", true, 1, { 7 }, "x" },
        { "G " OWNER "7", true, 0, { 0 }, "7" },
        { "G 00112233445566778899aabbccddee", false, 0, { 0 }, "" },
        { "G x0112233445566778899aabbccddeeff 7", false, 0, { 0 }, "" },
        { "GG" OWNER " 7", false, 0, { 0 }, "" },
        { "G", false, 0, { 0 }, "" },
        { "", false, 0, { 0 }, "" },
    };
    struct redis_message message;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *payload = cases[i].payload;

        assert_int_equal(redis_message_read(payload, strlen(payload), &message), cases[i].ours);
        if (!cases[i].ours)
            continue;
        assert_int_equal(message.letter, payload[0]);
        assert_int_equal(message.owner[0], 0x00);
        assert_int_equal(message.owner[HFI_OWNER_LEN - 1], 0xff);
        assert_int_equal(message.count, cases[i].count);
        for (unsigned k = 0; k < message.count; k++)
            assert_true(message.numbers[k] == cases[i].numbers[k]);
        assert_int_equal(message.rest_len, strlen(cases[i].rest));
        assert_memory_equal(message.rest, cases[i].rest, message.rest_len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(inboxes),
        cmocka_unit_test(flags),
        cmocka_unit_test(messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
