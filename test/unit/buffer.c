/* SPDX-License-Identifier: MIT */
/* The bytes that wait to be sent: in order whatever comes and goes, bounded, and wiped. */
#include "unit.h"

#include "util/alloc.h"
#include "util/buffer.h"

#include <string.h>

static void put(struct hfi_buffer *buffer, unsigned char first, size_t len)
{
    char *to = hfi_buffer_reserve(buffer, len);

    assert_non_null(to);
    for (size_t i = 0; i < len; i++)
        to[i] = (char)(first + i);
    buffer->len += len;
}

/* Random pieces in, random pieces out: a stream. */
static void stream(void **state)
{
    struct hfi_buffer buffer = { 0 };
    uint64_t random = 7;
    unsigned char in = 0, out = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t len = unit_random(&random) % (i % 100 ? 300 : 300000);
        size_t eaten;

        put(&buffer, in, len);
        in = (unsigned char)(in + len);
        eaten = buffer.len ? unit_random(&random) % (buffer.len + 1) : 0;
        if (i % 50 == 0)
            eaten = buffer.len;
        for (size_t k = 0; k < eaten; k++, out++)
            assert_int_equal((unsigned char)buffer.bytes[buffer.start + k], out);
        if (eaten)
            hfi_buffer_eat(&buffer, eaten);
        assert_true(buffer.start + buffer.len <= buffer.room);
    }
    hfi_buffer_done(&buffer);
    assert_null(buffer.bytes);
}

static void wiped(void **state)
{
    struct hfi_buffer buffer = { 0 };

    (void)state;
    memcpy(hfi_buffer_reserve(&buffer, 14), "secret, public", 14);
    buffer.len = 14;
    hfi_buffer_eat(&buffer, 8);
    assert_memory_equal(buffer.bytes, "\0\0\0\0\0\0\0\0public", 14);
    hfi_buffer_eat(&buffer, 6);
    assert_memory_equal(buffer.bytes, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 14);
    assert_int_equal(buffer.start, 0);
    hfi_buffer_done(&buffer);
}

static void bounded(void **state)
{
    struct hfi_buffer buffer = { 0 };

    (void)state;
    assert_null(hfi_buffer_reserve(&buffer, HFI_BUFFER_MAX + 1));
    assert_null(hfi_buffer_reserve(&buffer, SIZE_MAX));
    put(&buffer, 0, 100);
    assert_null(hfi_buffer_reserve(&buffer, HFI_BUFFER_MAX - 99));
    assert_null(hfi_buffer_reserve(&buffer, SIZE_MAX - 50));
    assert_int_equal(buffer.len, 100);
    hfi_alloc_fail_at(1, 0);
    assert_null(hfi_buffer_reserve(&buffer, 100000));
    hfi_alloc_fail_at(0, 0);
    assert_int_equal(buffer.len, 100); /* and what is there stays */
    assert_int_equal(buffer.bytes[99], 99);

    /* A large one is given back once it is empty. */
    put(&buffer, 0, 1 << 20);
    hfi_buffer_eat(&buffer, buffer.len);
    assert_null(buffer.bytes);
    hfi_buffer_done(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream),
        cmocka_unit_test(wiped),
        cmocka_unit_test(bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
