/* SPDX-License-Identifier: MIT */
/* SCAN for names: what is asked, which keys are names, and which answers are none. */
#include "unit.h"

#include "engine/redis/scan.h"

#include <string.h>

#define MANY (HF_NAME_MAX + 50)

static struct {
    unsigned count;
    size_t len;
    unsigned char name[HF_NAME_MAX]; /* the last one */
} heard;

static bool on_name(struct hfi_sink *sink, const unsigned char *name, size_t len)
{
    (void)sink;
    assert_true(len > 0 && len <= HF_NAME_MAX);
    memcpy(heard.name, name, len);
    heard.len = len;
    heard.count++;
    return true;
}

static bool no_memory(struct hfi_sink *sink, const unsigned char *name, size_t len)
{
    (void)sink, (void)name, (void)len;
    return false;
}

static struct hfi_reply text_of(const char *text, size_t len)
{
    return (struct hfi_reply){ .type = HFI_REPLY_TEXT, .text = text, .len = len };
}

static hf_status take(const char *cursor, const char *key, size_t len, uint64_t *ret_cursor)
{
    struct hfi_sink sink = { .name = on_name };
    struct hfi_reply keys[] = { text_of(key, len) };
    struct hfi_reply parts[] = { text_of(cursor, strlen(cursor)),
                                 { .type = HFI_REPLY_LIST, .items = keys, .count = 1 } };
    struct hfi_reply reply = { .type = HFI_REPLY_LIST, .items = parts, .count = 2 };

    heard.count = 0;
    return hfi_scan_take(&reply, "p:", false, &sink, ret_cursor);
}

static void keys_of_names(void **state)
{
    static const struct {
        const char *key, *name; /* NULL: it is none */
    } cases[] = {
        { "p:{job}", "job" },   { "p:{a%7Bb%7D%25}", "a{b}%" },
        { "p:{*}", "*" },       { "p:{}", NULL },
        { "p:{job}:w", NULL },  { "p:{job", NULL },
        { "p:job}", NULL },     { "q:{job}", NULL },
        { "{job}", NULL },      { "p:{jo{b}", NULL },
        { "p:{jo}b}", NULL },   { "p:{job%}", NULL },
        { "p:{job%4}", NULL },  { "p:{job%4g}", NULL },
        { "p:{job%7b}", NULL }, { "p:{job%4142}", "jobA42" },
        { "", NULL },           { "p:{", NULL },
    };
    uint64_t next = 1;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(take("0", cases[i].key, strlen(cases[i].key), &next), HF_OK);
        assert_int_equal(heard.count, cases[i].name != NULL);
        if (cases[i].name) {
            assert_int_equal(heard.len, strlen(cases[i].name));
            assert_memory_equal(heard.name, cases[i].name, heard.len);
        }
    }
}

/* The longest name is one; of a longer key not even the beginning is. */
static void long_keys(void **state)
{
    uint64_t next = 1;

    (void)state;
    for (size_t len = HF_NAME_MAX - 1; len < MANY; len++) {
        char key[MANY + 4] = "p:{";

        memset(key + 3, 'x', len);
        key[3 + len] = '}';
        assert_int_equal(take("0", key, len + 4, &next), HF_OK);
        assert_int_equal(heard.count, len <= HF_NAME_MAX);
    }
}

static void cursors(void **state)
{
    static const char *const wrong[] = {
        "", "-1", "1x", " 1", "18446744073709551616", "99999999999999999999999999"
    };
    uint64_t next = 1;

    (void)state;
    assert_int_equal(take("0", "p:{a}", 5, &next), HF_OK);
    assert_int_equal(next, 0);
    assert_int_equal(take("17", "p:{a}", 5, &next), HF_OK);
    assert_int_equal(next, 17);
    assert_int_equal(take("18446744073709551615", "p:{a}", 5, &next), HF_OK);
    assert_true(next == UINT64_MAX);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(take(wrong[i], "p:{a}", 5, &next), HF_CORRUPT);
        assert_int_equal(heard.count, 0);
    }
}

static void other_answers(void **state)
{
    struct hfi_sink sink = { .name = on_name }, full = { .name = no_memory };
    struct hfi_reply key = text_of("p:{a}", 5), number = { .type = HFI_REPLY_INTEGER };
    struct hfi_reply keys = { .type = HFI_REPLY_LIST, .items = &key, .count = 1 };
    struct hfi_reply strange = { .type = HFI_REPLY_LIST, .items = &number, .count = 1 };
    struct hfi_reply parts[] = { text_of("0", 1), keys };
    struct hfi_reply reply = { .type = HFI_REPLY_LIST, .items = parts, .count = 2 };
    uint64_t next;

    (void)state;
    assert_int_equal(hfi_scan_take(&reply, "p:", false, &full, &next), HF_NO_MEMORY);
    assert_int_equal(hfi_scan_take(&number, "p:", false, &sink, &next), HF_CORRUPT);
    reply.count = 1;
    assert_int_equal(hfi_scan_take(&reply, "p:", false, &sink, &next), HF_CORRUPT);
    reply.count = 2;
    parts[1] = number;
    assert_int_equal(hfi_scan_take(&reply, "p:", false, &sink, &next), HF_CORRUPT);
    parts[1] = strange;
    heard.count = 0;
    assert_int_equal(hfi_scan_take(&reply, "p:", false, &sink, &next), HF_OK);
    assert_int_equal(heard.count, 0);
}

static void what_is_asked(void **state)
{
    static const char wanted[] = "$4\r\nSCAN\r\n$20\r\n18446744073709551615\r\n$5\r\nMATCH\r\n"
                                 "$9\r\na\\*\\[b{*}\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n";
    struct hfi_command command;

    (void)state;
    hfi_command_init(&command);
    hfi_scan_add(&command, "a*[b", UINT64_MAX, false);
    assert_false(command.failed);
    assert_int_equal(command.len, sizeof wanted - 1);
    assert_memory_equal(command.bytes, wanted, sizeof wanted - 1);
    hfi_command_done(&command);

    hfi_command_init(&command);
    hfi_scan_add(&command, "p:", 7, true);
    assert_non_null(memmem(command.bytes, command.len, "$7\r\np:{*}:q\r\n", 13));
    hfi_command_done(&command);
}

/* Only names with a queue; whatever else there is under a key like that is none. */
static void names_with_a_queue(void **state)
{
    static const struct {
        const char *key, *name;
    } cases[] = { { "p:{a}:q", "a" },  { "p:{a%7Db}:q", "a}b" }, { "p:{a}", NULL },
                  { "p:{a}:w", NULL }, { "p:a}:q", NULL },       { ":q", NULL },
                  { "", NULL } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hfi_sink sink = { .name = on_name };
        struct hfi_reply key = text_of(cases[i].key, strlen(cases[i].key));
        struct hfi_reply keys = { .type = HFI_REPLY_LIST, .items = &key, .count = 1 };
        struct hfi_reply parts[] = { text_of("0", 1), keys };
        struct hfi_reply reply = { .type = HFI_REPLY_LIST, .items = parts, .count = 2 };
        uint64_t next;

        heard.count = 0;
        assert_int_equal(hfi_scan_take(&reply, "p:", true, &sink, &next), HF_OK);
        assert_int_equal(heard.count, cases[i].name ? 1 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_names), cmocka_unit_test(long_keys),
        cmocka_unit_test(cursors),       cmocka_unit_test(other_answers),
        cmocka_unit_test(what_is_asked), cmocka_unit_test(names_with_a_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
