/* SPDX-License-Identifier: MIT */
/* Commands as bytes, and cluster slots by vectors of Redis' own tests and documents. */
#include "unit.h"

#include "engine/redis/names.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The whole command as it goes over the wire; its head must have the length it said. */
static char *whole(const struct hfi_command *command, size_t *ret_len)
{
    size_t head = hfi_command_head(command, NULL);
    char *bytes = malloc(head + command->len + 1); /* exactly: ASan sees a head that is longer */

    assert_int_equal(hfi_command_head(command, bytes), head);
    memcpy(bytes + head, command->bytes, command->len);
    bytes[head + command->len] = 0;
    *ret_len = head + command->len;
    return bytes;
}

static void assert_wire(const struct hfi_command *command, const char *expected, size_t len)
{
    size_t got_len;
    char *got = whole(command, &got_len);

    assert_int_equal(got_len, len);
    assert_memory_equal(got, expected, len);
    free(got);
}
#define ASSERT_WIRE(command, text) assert_wire(command, text, sizeof(text) - 1)

static void plain(void **state)
{
    struct hfi_command command;

    (void)state;
    hfi_command_init(&command);
    hfi_command_add_text(&command, "SET");
    hfi_command_add(&command, "a\r\n\0b", 5);
    hfi_command_add(&command, NULL, 0);
    ASSERT_WIRE(&command, "*3\r\n$3\r\nSET\r\n$5\r\na\r\n\0b\r\n$0\r\n\r\n");
    assert_int_equal(command.slot, HFI_SLOT_ANY);
    hfi_command_done(&command);
}

static void numbers(void **state)
{
    static const int64_t values[] = { 0, 9, 10, -1, 99, 100, INT64_MAX, INT64_MIN, 1234567890123 };

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        struct hfi_command command;
        char text[32], expected[64];
        int len = snprintf(text, sizeof text, "%lld", (long long)values[i]);

        snprintf(expected, sizeof expected, "*1\r\n$%d\r\n%s\r\n", len, text);
        hfi_command_init(&command);
        hfi_command_add_number(&command, values[i]);
        assert_wire(&command, expected, strlen(expected));
        hfi_command_done(&command);
    }
}

static void scripts(void **state)
{
    static const struct hfi_script script = {
        .name = "s", .text = "return 1", .len = 8, .sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    };
    struct hfi_command command;

    (void)state;
    hfi_command_init_script(&command, &script, 1);
    hfi_command_add_text(&command, "key");
    hfi_command_add_number(&command, 42);
    ASSERT_WIRE(&command,
                "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n"
                "$1\r\n1\r\n$3\r\nkey\r\n$2\r\n42\r\n");
    command.whole = true;
    ASSERT_WIRE(&command, "*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n"
                          "$1\r\n1\r\n$3\r\nkey\r\n$2\r\n42\r\n");
    hfi_command_done(&command);
}

/* Through every length around the room in place, and far beyond it. */
static void grows(void **state)
{
    char text[3000];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len < sizeof text; len++) {
        struct hfi_command command;
        size_t got_len;
        char *got;

        hfi_command_init(&command);
        hfi_command_add(&command, text, len);
        hfi_command_add(&command, text, len / 2);
        hfi_command_add_text(&command, "end");
        assert_int_equal(command.argc, 3);
        assert_false(command.failed);
        got = whole(&command, &got_len);
        assert_string_equal(got + got_len - 9, "$3\r\nend\r\n");
        free(got);
        hfi_command_done(&command);
    }
}

static void no_memory(void **state)
{
    static const char big[2 * HFI_COMMAND_INLINE] = { 0 };
    struct hfi_command command;

    (void)state;
    hfi_command_init(&command);
    hfi_alloc_fail_at(1, 1);
    hfi_command_add(&command, big, sizeof big);
    hfi_alloc_fail_at(0, 0);
    assert_true(command.failed);
    hfi_command_add_text(&command, "more"); /* stays failed, and does not become half a command */
    assert_int_equal(command.argc, 0);
    hfi_command_done(&command);
    hfi_command_done(&command);
}

static void slots(void **state)
{
    static const struct {
        const char *key;
        uint32_t slot;
    } cases[] = {
        { "123456789", 0x31c3 }, /* XMODEM's check value; below 16384 as it is */
        { "foo", 12182 },
        { "bar", 5061 },
        { "hello", 866 },
        { "", 0 },
        { "{user1000}.following", 3443 },
        { "{user1000}.followers", 3443 },
        { "user1000", 3443 },
        { "foo{}{bar}", 8363 }, /* an empty tag is none */
        { "foo{bar}{zap}", 5061 },
        { "{bar", 4015 }, /* no end: the whole key */
        { "hf:{foo}:w", 12182 },
        { "}{foo}", 12182 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(hfi_key_slot(cases[i].key, strlen(cases[i].key)), cases[i].slot);
    assert_int_equal(hfi_key_slot("foo{{bar}}zap", 13), hfi_key_slot("{bar", 4));
    assert_int_equal(hfi_key_slot(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain), cmocka_unit_test(numbers),   cmocka_unit_test(scripts),
        cmocka_unit_test(grows), cmocka_unit_test(no_memory), cmocka_unit_test(slots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
