/* SPDX-License-Identifier: MIT */
/* What error replies mean: every code that has a meaning, in the words of real servers. */
#include "unit.h"

#include "engine/redis/protocol.h"
#include "engine/redis/reply.h"

#include <string.h>

static struct hfi_reply error_of(const char *text)
{
    return (struct hfi_reply){ .type = HFI_REPLY_ERROR, .text = text, .len = strlen(text) };
}

static void every_code(void **state)
{
    static const struct {
        const char *text;
        hf_status status;
        const char *shown; /* NULL: all of it */
    } cases[] = {
        { "NOAUTH Authentication required.", HF_DENIED, NULL },
        { "WRONGPASS invalid username-password pair or user is disabled.", HF_DENIED, NULL },
        { "NOPERM this user has no permissions to run the 'evalsha' command", HF_DENIED, NULL },
        { "DENIED Redis is running in protected mode because", HF_DENIED, NULL },
        { "READONLY You can't write against a read only replica.", HF_UNAVAILABLE, NULL },
        { "MASTERDOWN Link with MASTER is down", HF_UNAVAILABLE, NULL },
        { "CLUSTERDOWN The cluster is down", HF_UNAVAILABLE, NULL },
        { "LOADING Redis is loading the dataset in memory", HF_UNAVAILABLE, NULL },
        { "MISCONF Redis is configured to save RDB snapshots, but", HF_UNAVAILABLE, NULL },
        { "BUSY Redis is busy running a script.", HF_UNAVAILABLE, NULL },
        { "UNKILLABLE Sorry the script already executed write commands", HF_UNAVAILABLE, NULL },
        { "NOREPLICAS Not enough good replicas to write.", HF_UNAVAILABLE, NULL },
        { "UNBLOCKED force unblock from blocking operation", HF_UNAVAILABLE, NULL },
        { "NOSCRIPT No matching script. Please use EVAL.", HF_UNAVAILABLE, NULL },
        { "MOVED 3999 127.0.0.1:6381", HF_UNAVAILABLE, NULL },
        { "ASK 3999 127.0.0.1:6381", HF_UNAVAILABLE, NULL },
        { "TRYAGAIN Multiple keys request during rehashing of slot", HF_UNAVAILABLE, NULL },
        { "ERR max number of clients reached", HF_UNAVAILABLE, NULL },
        { "OOM command not allowed when used memory > 'maxmemory'.", HF_FULL, NULL },
        { "WRONGTYPE Operation against a key holding the wrong kind of value script: 6b1b",
          HF_MISMATCH, NULL },
        { "ERR unknown command 'FOO', with args beginning with: 'hunter2' ", HF_VERSION,
          "ERR unknown command 'FOO'" },
        { "ERR unknown subcommand 'x'. Try CLIENT HELP.", HF_VERSION, NULL },
        { "ERR Unknown subcommand or wrong number of arguments for 'x'", HF_VERSION, NULL },
        { "ERR wrong number of arguments for 'auth' command", HF_VERSION, NULL },
        { "ERR Unknown Redis command called from script script: 6b1b", HF_VERSION, NULL },
        { "ERR this name was written by another version of Holdfast", HF_VERSION, NULL },
        { "ERR user_script:9: this name was written by another version of Holdfast script: 6b1b, "
          "on "
          "@user_script:9.",
          HF_VERSION, NULL },
        { "ERR Error running script (call to f_6b1b): @user_script:9: user_script:9: this node was "
          "set up by another version of Holdfast",
          HF_VERSION, "user_script:9: this node was set up by another version of Holdfast" },
        { "ERR increment or decrement would overflow", HF_OVERFLOW, NULL },
        { "ERR value is not an integer or out of range", HF_MISMATCH, NULL },
        { "ERR something else", HF_CORRUPT, NULL },
        { "ERR", HF_CORRUPT, NULL },
        { "", HF_CORRUPT, NULL },
        { "OOMPH is another code", HF_CORRUPT, NULL },
        { "READONL", HF_CORRUPT, NULL },
        { "READONLY", HF_UNAVAILABLE, NULL },
        /* Redis 6.2 wraps what went wrong inside of a script. */
        { "ERR Error running script (call to f_6b1bf486): @user_script:12: OOM command not allowed "
          "when used memory > 'maxmemory'. ",
          HF_FULL, "OOM command not allowed when used memory > 'maxmemory'. " },
        { "ERR Error running script (call to f_6b1bf486): @user_script:1: @user_script: 1: "
          "-MISCONF "
          "Redis is",
          HF_UNAVAILABLE, "MISCONF Redis is" },
        { "ERR Error running script (call to f_6b1bf486): @user_script:1: @user_script: 1: Unknown "
          "Redis command called from Lua script",
          HF_VERSION, "Unknown Redis command called from Lua script" },
        { "ERR Error running script (call to f_6b1bf486): @user_script:", HF_CORRUPT, "" },
        { "ERR Error running script", HF_CORRUPT, NULL },
        { "MISCONF two\r\nlines\tand \x01 more", HF_UNAVAILABLE, "MISCONF two  lines and   more" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_reply reply = error_of(cases[i].text);
        hf_error err;

        assert_int_equal(hfi_reply_status(&reply, &err), cases[i].status);
        assert_int_equal(err.status, cases[i].status);
        assert_string_equal(err.text, cases[i].shown ? cases[i].shown : cases[i].text);
        assert_int_equal(hfi_reply_status(&reply, NULL), cases[i].status);
    }
}

static void long_text(void **state)
{
    char text[1000] = "BUSY ";
    struct hfi_reply reply;
    hf_error err;

    (void)state;
    for (size_t i = strlen(text); i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) { /* one of the two would be cut in half */
        if (shift)
            memmove(text + 6, text + 5, sizeof text - 6);
        text[sizeof text - 1] = 0;
        reply = error_of(text);
        assert_int_equal(hfi_reply_status(&reply, &err), HF_UNAVAILABLE);
        assert_true(strlen(err.text) < 256);
        assert_string_equal(err.text + strlen(err.text) - 3, "...");
        assert_int_not_equal((unsigned char)err.text[strlen(err.text) - 4] & 0xc0, 0xc0);
    }
}

static void not_an_error(void **state)
{
    struct hfi_reply reply = { .type = HFI_REPLY_INTEGER };

    (void)state;
    assert_int_equal(hfi_reply_status(&reply, NULL), HF_CORRUPT);
    assert_int_equal(hfi_reply_status(NULL, NULL), HF_CORRUPT);
}

static void parts(void **state)
{
    struct hfi_reply items[] = { { .type = HFI_REPLY_INTEGER, .integer = 7 },
                                 { .type = HFI_REPLY_TEXT, .text = "x", .len = 1 } };
    struct hfi_reply list = { .type = HFI_REPLY_LIST, .items = items, .count = 2 };
    struct hfi_reply error = error_of("NOSCRIPT No matching script.");

    (void)state;
    assert_ptr_equal(hfi_reply_at(&list, 0, HFI_REPLY_INTEGER), &items[0]);
    assert_null(hfi_reply_at(&list, 0, HFI_REPLY_TEXT));
    assert_null(hfi_reply_at(&list, 2, HFI_REPLY_TEXT));
    assert_null(hfi_reply_at(&items[1], 0, HFI_REPLY_TEXT));
    assert_null(hfi_reply_at(NULL, 0, HFI_REPLY_TEXT));
    assert_true(hfi_reply_is_error(&error, "NOSCRIPT"));
    assert_false(hfi_reply_is_error(&error, "NOSCRIP"));
    assert_false(hfi_reply_is_error(&error, "NOSCRIPTS"));
    assert_false(hfi_reply_is_error(&items[1], "x"));
    assert_false(hfi_reply_is_error(NULL, "x"));
}

static bool reads(const char *bytes, size_t len, uint32_t permits)
{
    uint32_t slots[HF_SLOTS_MAX];

    return redis_numbers_read(bytes, len, permits, slots);
}

/* The numbers of permits: as many as there are permits, in order, below every capacity. */
static void numbers(void **state)
{
    static const char good[] = "\0\0\0\0\1\2\0\0", same[] = "\1\0\0\0\1\0\0\0",
                      large[] = "\xff\xc9\x9a\x3b\x00\xca\x9a\x3b"; /* 999999999, 1000000000 */
    char many[4 * (HF_SLOTS_MAX + 1)];
    uint32_t slots[HF_SLOTS_MAX];

    (void)state;
    assert_true(redis_numbers_read(good, 8, 2, slots));
    assert_true(slots[0] == 0 && slots[1] == 513);
    assert_false(reads(good, 8, 1) || reads(good, 8, 3) || reads(good, 7, 2) || reads(good, 0, 1));
    assert_false(reads(same, 8, 2));
    assert_true(reads(large, 4, 1));
    assert_false(reads(large, 8, 2) || reads("\xff\xff\xff\xff", 4, 1));
    memset(many, 0, sizeof many);
    for (size_t i = 0; i <= HF_SLOTS_MAX; i++)
        many[4 * i] = (char)i;
    assert_true(reads(many, sizeof many - 4, HF_SLOTS_MAX));
    assert_false(reads(many, sizeof many, HF_SLOTS_MAX + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code), cmocka_unit_test(long_text), cmocka_unit_test(not_an_error),
        cmocka_unit_test(parts),      cmocka_unit_test(numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
