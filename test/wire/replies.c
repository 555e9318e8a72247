/* SPDX-License-Identifier: MIT */
/*
 * Replies, from servers that play a script: cut and split at every byte, garbled, endless, too many,
 * too early; and what each call is told about its own outcome.
 */
#include "bed.h"
#include "fake.h"
#include "util/clock.h"

#include <poll.h>
#include <string.h>

static void cut_at_every_byte(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(REPLY); n++) {
        struct fake_step steps[] = { GREET,
                                     HEAR(2),
                                     SAY("+first\r\n"),
                                     { .kind = n ? FAKE_SAY : FAKE_CLOSE, .text = REPLY, .len = n },
                                     { .kind = n % 3 ? FAKE_CLOSE : FAKE_RESET } };
        struct fake *fake = fake_start(steps);
        struct call first, second, third;
        struct bed bed;

        bed_open_to(&bed, fake, false, "");
        CALL(&bed, &first, "A");
        CALL(&bed, &second, "B");
        bed_until_down(&bed);
        assert_int_equal(bed.status, HF_UNAVAILABLE);
        assert_int_equal(first.answers, 1);
        assert_int_equal(second.answers, 1);
        if (n % 3) /* a reset may take with it what came before */
            assert_string_equal(first.text, "first");
        assert_true(second.none && second.maybe);

        /* Nothing can be sent any more, and that is certain. */
        CALL(&bed, &third, "C");
        assert_int_equal(third.answers, 1);
        assert_true(third.none && !third.maybe);
        bed_done(&bed);
        fake_stop(fake);
    }
}

static void split_at_every_byte(void **state)
{
    static const struct fake_step steps[] = { GREET,   HEAR(2),       DRIP(REPLY REPLY),
                                              HEAR(1), SAY(":9\r\n"), END };
    struct fake *fake = fake_start(steps);
    struct call first, second, third;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &first, "A");
    CALL(&bed, &second, "B");
    bed_until_answered(&bed, &second);
    assert_int_equal(first.count, 3);
    assert_int_equal(second.count, 3);
    CALL(&bed, &third, "C");
    bed_until_answered(&bed, &third);
    assert_int_equal(third.integer, 9);
    bed_done(&bed);
    fake_stop(fake);
}

static void garbled(void **state)
{
    static const char *const cases[] = {
        "x",
        "$-2\r\n",
        "$99999999999\r\n",
        "*-7\r\n",
        "*2147483647\r\n",
        "*9223372036854775807\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
        "$3\r\nabcd\r\n",
        ":12a\r\n",
        "HTTP/1.1 200 OK\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_step steps[] = {
            GREET, HEAR(2), SAY("+fine\r\n"), { .kind = FAKE_SAY, .text = cases[i] }, END
        };
        struct fake *fake = fake_start(steps);
        struct call first, second;
        struct bed bed;

        bed_open_to(&bed, fake, false, "");
        CALL(&bed, &first, "A");
        CALL(&bed, &second, "B");
        bed_until_down(&bed);
        assert_int_equal(bed.status, HF_UNAVAILABLE);
        assert_non_null(strstr(bed.why, "not a reply of Redis"));
        assert_string_equal(first.text, "fine");
        assert_true(second.none && second.maybe);
        bed_done(&bed);
        fake_stop(fake);
    }
}

/* A line that never ends: it is given up long before memory is. */
static void endless(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY("+"), FILL(10000000), END };
    struct fake *fake = fake_start(steps);
    struct call call;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "&op_timeout=10m");
    CALL(&bed, &call, "A");
    bed_until_down(&bed);
    assert_non_null(strstr(bed.why, "not a reply of Redis"));
    bed_done(&bed);
    fake_stop(fake);
}

/* Replies that nobody asked for: at rest, and one too many. */
static void unsolicited(void **state)
{
    static const struct fake_step at_rest[] = { GREET, SAY("+surprise\r\n"), END };
    static const struct fake_step too_many[] = { GREET, HEAR(1), SAY("+one\r\n+two\r\n"), END };
    struct fake *fake = fake_start(at_rest);
    struct call call;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    bed_until_down(&bed);
    assert_non_null(strstr(bed.why, "unexpected reply"));
    bed_done(&bed);
    fake_stop(fake);

    fake = fake_start(too_many);
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &call, "A");
    bed_until_down(&bed);
    assert_string_equal(call.text, "one");
    assert_non_null(strstr(bed.why, "unexpected reply"));
    bed_done(&bed);
    fake_stop(fake);
}

/* One reply too many, while the next command waits here unsent: it cannot be that one's. */
static void too_early(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY("+one\r\n+two\r\n"), END };
    struct fake *fake = fake_start(steps);
    struct call sent, kept = { .sent.answered = call_note };
    struct pollfd ready = { .events = POLLIN };
    struct hfi_command command;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &sent, "A");
    hfi_command_init(&command);
    hfi_command_add_text(&command, "B");
    hfi_link_send(bed.link, &command, &kept.sent);
    ready.fd = hfi_link_stream(bed.link)->fd;
    assert_int_equal(poll(&ready, 1, BED_LIMIT_MS), 1);
    hfi_reactor_drive.process((void *)&bed.reactor,
                              hfi_now_ms()); /* a turn would send it before it reads */
    bed_until_down(&bed);
    assert_string_equal(sent.text, "one");
    assert_true(kept.none && !kept.maybe);
    bed_done(&bed);
    fake_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(split_at_every_byte),
        cmocka_unit_test(garbled),           cmocka_unit_test(endless),
        cmocka_unit_test(unsolicited),       cmocka_unit_test(too_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
