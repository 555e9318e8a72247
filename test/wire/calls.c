/* SPDX-License-Identifier: MIT */
/*
 * Calls on a link that is up, against servers that play a script: answered late, not at all, sent and
 * not sent; and what each call is told about its own outcome.
 */
#include "bed.h"
#include "fake.h"

#include "util/alloc.h"
#include "util/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- time limits --------------------------------------------------------------------------------- */

static void no_reply(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY("*2\r\n:1\r\n"), END };
    struct fake *fake = fake_start(steps);
    struct call first, second;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "&op_timeout=100ms");
    CALL(&bed, &first, "A");
    CALL(&bed, &second, "B");
    bed_until_down(&bed);
    assert_non_null(strstr(bed.why, "no reply within 100 ms"));
    assert_true(first.none && first.maybe && second.none && second.maybe);
    bed_done(&bed);
    fake_stop(fake);
}

/* We were stopped for longer than the limit; the reply came meanwhile, and it counts. But a server
 * that drips for ever is not waited for for ever. */
static void we_were_late(void **state)
{
    static const struct fake_step steps[] = { GREET,   HEAR(1),       SAY(":5\r\n"),
                                              HEAR(1), SAY("*2\r\n"), END };
    struct fake *fake = fake_start(steps);
    struct call call;
    struct pollfd ready = { .events = POLLIN };
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "&op_timeout=1m");
    ready.fd = hfi_link_stream(bed.link)->fd;

    CALL(&bed, &call, "A");
    assert_int_equal(hfi_stream_next_ms(hfi_link_stream(bed.link)), call.sent.base.sent_ms + 60000);
    assert_int_equal(poll(&ready, 1, BED_LIMIT_MS), 1);
    hfi_stream_due(&hfi_link_stream(bed.link)->source, call.sent.base.sent_ms + 60001);
    assert_int_equal(bed.downs, 0);
    bed_until_answered(&bed, &call);
    assert_int_equal(call.integer, 5);

    CALL(&bed, &call, "B");
    assert_int_equal(poll(&ready, 1, BED_LIMIT_MS), 1);
    hfi_stream_due(&hfi_link_stream(bed.link)->source, call.sent.base.sent_ms + 60001);
    assert_int_equal(bed.downs, 0);
    hfi_stream_due(&hfi_link_stream(bed.link)->source, call.sent.base.sent_ms + 120000);
    assert_int_equal(bed.downs, 1);
    assert_true(call.none && call.maybe);
    bed_done(&bed);
    fake_stop(fake);
}

/* ---- what leaves --------------------------------------------------------------------------------- */

/* Without a flush nothing leaves, so nothing can have been done. */
static void unsent(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), CLOSE };
    struct fake *fake = fake_start(steps);
    struct call sent, kept = { .sent.answered = call_note };
    struct hfi_command command;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &sent, "A");
    hfi_command_init(&command);
    hfi_command_add_text(&command, "B");
    hfi_link_send(bed.link, &command, &kept.sent);
    assert_int_equal(hfi_link_in_flight(bed.link), 2);
    while (bed.downs == 0) { /* not hfi_link_take() while it is still well: that flushes */
        hfi_stream_read(&hfi_link_stream(bed.link)->source, true);
        if (poll(&(struct pollfd){ .fd = hfi_link_stream(bed.link)->fd, .events = POLLIN }, 1, 0) ==
            1) {
            hfi_stream_read(&hfi_link_stream(bed.link)->source, false);
            hfi_stream_ready(&hfi_link_stream(bed.link)->source, -1, 0, hfi_now_ms());
        }
    }
    assert_true(sent.none && sent.maybe);
    assert_true(kept.none && !kept.maybe);
    assert_null(strstr(fake_heard(fake), "$1\r\nB\r\n"));
    bed_done(&bed);
    fake_stop(fake);
}

/* A server that does not read: the buffer fills up to its bound, and then the link is given up.
 * Those whose bytes left say maybe, those whose bytes did not say no. */
static void nobody_reads(void **state)
{
    enum { CALLS = 80, SIZE = 1 << 20 };
    static const struct fake_step steps[] = { GREET, IGNORE };
    static struct call calls[CALLS];
    struct fake *fake = fake_start(steps);
    char *value = malloc(SIZE);
    unsigned maybe = 0, answered = 0;
    struct bed bed;

    (void)state;
    memset(value, 'v', SIZE);
    value[SIZE - 1] = 0;
    bed_open_to(&bed, fake, false, "");
    for (int i = 0; i < CALLS; i++)
        CALL(&bed, &calls[i], "SET", value);
    /* A driver that sleeps is woken, though nothing came from the server. */
    assert_int_equal(
        poll(&(struct pollfd){ .fd = bed.reactor.epoll_fd, .events = POLLIN }, 1, BED_LIMIT_MS), 1);
    bed_until_down(&bed);
    assert_int_equal(bed.status, HF_UNAVAILABLE);
    assert_non_null(strstr(bed.why, "does not read"));
    for (int i = 0; i < CALLS; i++) {
        assert_true(calls[i].none);
        answered += calls[i].answers;
        maybe += calls[i].maybe;
        if (i > 0) /* in order: once one is certain, so are all behind it */
            assert_true(calls[i - 1].maybe || !calls[i].maybe);
    }
    assert_int_equal(answered, CALLS);
    assert_true(maybe > 0 && maybe < CALLS);
    free(value);
    bed_done(&bed);
    fake_stop(fake);
}

static void closing(void **state)
{
    static const struct fake_step steps[] = { GREET, END };
    struct fake *fake = fake_start(steps);
    struct call call;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &call, "A");
    hfi_link_close(bed.link);
    assert_int_equal(call.answers, 1);
    assert_true(call.none && call.maybe);
    assert_int_equal(bed.downs, 0);
    assert_int_equal(hfi_link_state(bed.link), HFI_STREAM_IDLE);
    hfi_link_close(bed.link);
    bed_done(&bed);
    fake_stop(fake);
}

/* After a fork the child has the socket too. Ours is closed; epoll must not go on about theirs. */
static void closing_one_of_two(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY("+late\r\n"), END };
    struct fake *fake = fake_start(steps);
    struct call call;
    struct bed bed;
    int theirs;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    theirs = fcntl(hfi_link_stream(bed.link)->fd, F_DUPFD_CLOEXEC, 0);
    CALL(&bed, &call, "A");
    hfi_link_close(bed.link);
    assert_int_equal(poll(&(struct pollfd){ .fd = theirs, .events = POLLIN }, 1, BED_LIMIT_MS), 1);
    assert_int_equal(poll(&(struct pollfd){ .fd = bed.reactor.epoll_fd, .events = POLLIN }, 1, 0),
                     0);
    close(theirs);
    bed_done(&bed);
    fake_stop(fake);
}

/* Out of memory at every allocation in turn: it goes down for that, or it does not matter. */
static void no_memory(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), SAY(REPLY), END };
    struct fake *fake = fake_start(steps);
    bool failed = true;

    (void)state;
    for (unsigned long k = 1; failed; k++) {
        char url[100], big[2000];
        struct call call;
        struct bed bed;

        memset(big, 'b', sizeof big);
        big[sizeof big - 1] = 0;
        snprintf(url, sizeof url, "redis://127.0.0.1:%u?connect_timeout=1m", fake_port(fake));
        bed_init(&bed, url, false);
        hfi_alloc_fail_at(k, 0);
        bed_open(&bed);
        while (bed.ups + bed.downs == 0)
            bed_drive(&bed, 1000);
        if (bed.ups) {
            CALL(&bed, &call, "SET", big);
            while (call.answers == 0)
                bed_drive(&bed, 1000);
        }
        hfi_alloc_fail_at(0, 0);
        failed = bed.downs > 0 || call.none;
        if (bed.downs)
            assert_int_equal(bed.status, HF_NO_MEMORY);
        assert_true(k < 100);
        bed_done(&bed);
    }
    fake_stop(fake);
}

/* To a server that has gone: no signal, and as nothing was taken, nothing was done. */
static void broken_pipe(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(1), CLOSE };
    char dir[] = "/tmp/holdfast-wire-XXXXXX", path[64], url[100];
    struct call first, second;
    struct fake *fake;
    struct bed bed;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    fake = fake_start_at(steps, AF_UNIX, path);
    snprintf(url, sizeof url, "redis+unix://%s?connect_timeout=1m", path);
    bed_init(&bed, url, false);
    bed_open_up(&bed);
    CALL(&bed, &first, "A");
    assert_int_equal(poll(&(struct pollfd){ .fd = hfi_link_stream(bed.link)->fd, .events = POLLIN },
                          1, BED_LIMIT_MS),
                     1);
    CALL(&bed, &second, "B");
    assert_int_equal(second.answers, 0); /* callbacks have their places */
    bed_until_down(&bed);
    assert_int_equal(bed.status, HF_UNAVAILABLE);
    assert_true(first.none && first.maybe);
    assert_true(second.none && !second.maybe);
    bed_done(&bed);
    fake_stop(fake);
    unlink(path);
    rmdir(dir);
}

/* A call that is sent again from where its answer is told: while a link goes down it gets nowhere. */
static struct bed *again_bed;
static struct call again_call;

static void send_again(struct redis_sent *sent, const struct hfi_reply *reply, bool maybe)
{
    struct call *call = (struct call *)sent;

    call_note(sent, reply, maybe);
    if (call->answers == 1)
        CALL(again_bed, &again_call, "AGAIN");
}

static void sent_from_answered(void **state)
{
    static const struct fake_step steps[] = { GREET,         HEAR(1), SAY("+OK\r\n"), HEAR(1),
                                              SAY(":2\r\n"), HEAR(1), CLOSE };
    struct fake *fake = fake_start(steps);
    struct hfi_command command;
    struct call call = { .sent.answered = send_again };
    struct bed bed;

    (void)state;
    again_bed = &bed;
    bed_open_to(&bed, fake, false, "");
    hfi_command_init(&command);
    hfi_command_add_text(&command, "A");
    hfi_link_send(bed.link, &command, &call.sent);
    hfi_link_flush(bed.link);
    bed_until_answered(&bed, &call);
    bed_until_answered(&bed, &again_call);
    assert_int_equal(again_call.integer, 2);

    call = (struct call){ .sent.answered = send_again };
    hfi_link_send(bed.link, &command, &call.sent);
    hfi_link_flush(bed.link);
    bed_until_down(&bed);
    assert_true(call.none && call.maybe);
    assert_true(again_call.none && !again_call.maybe);
    bed_done(&bed);
    fake_stop(fake);
}

static void asking(void **state)
{
    static const struct fake_step steps[] = { GREET, HEAR(4), SAY(":1\r\n+OK\r\n:2\r\n:3\r\n"),
                                              END };
    struct fake *fake = fake_start(steps);
    struct hfi_command command;
    struct call first, second = { .sent.answered = call_note }, third;
    struct bed bed;

    (void)state;
    bed_open_to(&bed, fake, false, "");
    CALL(&bed, &first, "A");
    hfi_command_init(&command);
    hfi_command_add_text(&command, "B");
    hfi_link_send_asking(bed.link, &command, &second.sent);
    CALL(&bed, &third, "C");
    bed_until_answered(&bed, &third);
    assert_int_equal(first.integer, 1);
    assert_int_equal(second.integer, 2);
    assert_int_equal(third.integer, 3);
    assert_non_null(strstr(fake_heard(fake), "$6\r\nASKING\r\n*1\r\n$1\r\nB\r\n"));
    bed_done(&bed);
    fake_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reply),
        cmocka_unit_test(we_were_late),
        cmocka_unit_test(unsent),
        cmocka_unit_test(nobody_reads),
        cmocka_unit_test(closing),
        cmocka_unit_test(broken_pipe),
        cmocka_unit_test(closing_one_of_two),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(sent_from_answered),
        cmocka_unit_test(asking),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
