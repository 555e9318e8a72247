/* SPDX-License-Identifier: MIT */
/*
 * Links that subscribe, against servers that play a script: messages and replies among each other,
 * what nobody asked for, pings.
 */
#include "bed.h"
#include "fake.h"

#include <string.h>

#define MESSAGE    "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"
#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
#define LEFT       "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n"

static void messages(void **state)
{
    static const struct fake_step steps[] = { GREET,
                                              HEAR(1),
                                              SAY(MESSAGE SUBSCRIBED MESSAGE),
                                              HEAR(2),
                                              SAY(LEFT MESSAGE "-NOPERM no\r\n"),
                                              END };
    struct fake *fake = fake_start(steps);
    struct call first, second;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, true, "&ping=10m");
    call_subscribe(&bed, &first, "a");
    bed_until_answered(&bed, &first);
    assert_int_equal(first.count, 3);
    hfi_link_unsubscribe(bed.link, "b", 1);
    call_subscribe(&bed, &second, "c");
    bed_until_answered(&bed, &second);
    assert_int_equal(second.type, HFI_REPLY_ERROR);
    assert_int_equal(bed.messages, 3);
    assert_string_equal(bed.channel, "a");
    assert_string_equal(bed.payload, "hi");
    bed_done(&bed);
    fake_stop(fake);
}

static void confused(void **state)
{
    static const struct {
        const char *said;
        bool subscribe;
    } cases[] = {
        { SUBSCRIBED, false },
        { LEFT, true },
        { ":1\r\n", true },
        { "*0\r\n", true },
        { "+PONG\r\n", false },
        { "*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n", true },
        { "*1\r\n$7\r\nmessage\r\n", true },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_step steps[] = {
            GREET,
            { .kind = cases[i].subscribe ? FAKE_HEAR : FAKE_SAY, .text = "", .number = 1 },
            { .kind = FAKE_SAY, .text = cases[i].said },
            END
        };
        struct fake *fake = fake_start(steps);
        struct call call;
        struct bed bed;

        bed_open_to(&bed, fake, true, "&ping=10m");
        if (cases[i].subscribe)
            call_subscribe(&bed, &call, "a");
        bed_until_down(&bed);
        assert_non_null(strstr(bed.why, "unexpected reply"));
        assert_int_equal(bed.messages, 0);
        bed_done(&bed);
        fake_stop(fake);
    }
}

/* A quiet server is pinged, one that does not answer is given up, one that talks is not pinged. */
static void pings(void **state)
{
    static const struct fake_step quiet[] = { GREET, END };
    static const struct fake_step answers[] = { GREET,
                                                HEAR(1),
                                                SAY("+PONG\r\n"),
                                                HEAR(1),
                                                SAY("*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
                                                HEAR(1),
                                                SAY("-ERR no\r\n"),
                                                HEAR(1),
                                                SAY(MESSAGE),
                                                END };
    struct fake *fake = fake_start(quiet);
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, true, "&ping=50ms");
    bed_until_down(&bed);
    assert_non_null(strstr(bed.why, "no answer to 2 pings"));
    bed_done(&bed);
    fake_stop(fake);

    fake = fake_start(answers);
    bed_open_to(&bed, fake, true, "&ping=1s");
    while (bed.messages == 0 && bed.downs == 0)
        bed_drive(&bed, 1000);
    assert_int_equal(bed.messages, 1);
    bed_done(&bed);
    fake_stop(fake);
}

/* What an earlier connection owed us, the next does not: a reply to UNSUBSCRIBE is not waited for. */
static void nothing_is_carried_over(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY(SUBSCRIBED), END };
    struct fake *fake = fake_start(steps);
    struct call call;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, true, "&ping=10m");
    hfi_link_unsubscribe(bed.link, "b", 1);
    hfi_link_close(bed.link);
    bed_open_up(&bed);
    call_subscribe(&bed, &call, "a");
    bed_until_answered(&bed, &call);
    assert_int_equal(call.count, 3);
    bed_done(&bed);
    fake_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(confused),
        cmocka_unit_test(pings),
        cmocka_unit_test(nothing_is_carried_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
