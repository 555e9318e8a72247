/* SPDX-License-Identifier: MIT */
/*
 * Known answers. The hash: OpenSSL 3's SIPHASH with c-rounds 1, d-rounds 3, size
 * 16 and our key over the bytes 0, 1, 2, ...; the checksum: RFC 3720, B.4.
 */
#include "unit.h"

#include "util/hash.h"
#include "util/sha1.h"
#include "util/sha256.h"
#include "util/text.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

static void hash_known_answers(void **state)
{
    static const struct {
        size_t len;
        const char *hex;
    } known[] = {
        { 0, "53535a7e60a3711be587b4e7c31ee4db" },  { 1, "1a0580a0118e57e5de0e644643bbd2ba" },
        { 2, "e1cae5b0e9e811921039557c746ebb5a" },  { 3, "a6c3fc3da26af842bbfe54f7aab105f6" },
        { 4, "8af0843be843bffeca8beb0f2501f3ea" },  { 5, "2953c67daa48bedce225fe0e786f483d" },
        { 6, "fe3c6d88747574c77fe83d4437c64a63" },  { 7, "8d5f3d05637cfef8e59b9831bac89804" },
        { 8, "154851d1392b939571513f9f4e666500" },  { 9, "ad7e45d6fb27bfe5df2bc0e49c1c9e98" },
        { 15, "9d8e0a2ca58c88e03528ae259bf3de4c" }, { 16, "7299c4df093f1c6d24bbbdaabe65b965" },
        { 17, "6162ff5bdc9420344ca709fbb1dd0db5" }, { 31, "c5a77081c7634780f7dd16b24d985857" },
        { 63, "3efbf1c22c297baf67a3cbb410324081" }, { 512, "b87e7be9c5f16674a035eac305b6e65a" },
    };
    unsigned char bytes[512];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;

    for (size_t i = 0; i < COUNT(known); i++) {
        uint64_t hash[2];
        char hex[33];

        hfi_hash128(bytes, known[i].len, hash);
        hash[0] = htole64(hash[0]);
        hash[1] = htole64(hash[1]);
        hfi_hex(hash, sizeof hash, hex);
        assert_string_equal(hex, known[i].hex);
    }
}

/* Any alignment gives the same hash; any other byte another one. */
static void hash_sees_bytes_only(void **state)
{
    unsigned char bytes[80] = { 0 };
    uint64_t first[2], other[2];

    (void)state;
    for (size_t len = 0; len <= 40; len++) {
        memset(bytes, 7, sizeof bytes);
        hfi_hash128(bytes, len, first);
        for (size_t shift = 1; shift < 8; shift++) {
            hfi_hash128(bytes + shift, len, other);
            assert_memory_equal(first, other, sizeof first);
        }
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 1;
            hfi_hash128(bytes, len, other);
            assert_memory_not_equal(first, other, sizeof first);
            bytes[i] ^= 1;
        }
        bytes[len] ^= 1; /* beyond the end: not seen */
        hfi_hash128(bytes, len, other);
        assert_memory_equal(first, other, sizeof first);
    }
}

static void checksum_known_answers(void **state)
{
    static const unsigned char read_command[48] = {
        0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
        0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0,
    };
    unsigned char bytes[32];

    (void)state;
    assert_int_equal(hfi_checksum("", 0), 0);
    assert_int_equal(hfi_checksum("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(hfi_checksum(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(hfi_checksum(bytes, 32), 0x62a8ab43);
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(hfi_checksum(bytes, 32), 0x46dd794e);
    assert_int_equal(hfi_checksum(read_command, 48), 0xd9963a56);
}

/* A file written on a machine with the instruction is read on one without. */
static void checksum_is_the_same_on_every_machine(void **state)
{
    unsigned char bytes[300];
    uint64_t seed = 42;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)unit_random(&seed);
    for (size_t at = 0; at < 8; at++)
        for (size_t len = 0; at + len <= sizeof bytes; len++)
            assert_int_equal(hfi_checksum(bytes + at, len), hfi_checksum_portable(bytes + at, len));
}

/* The standard's own examples, and one at each length at which the padding changes. */
static void sha256_known_answers(void **state)
{
    static const struct {
        const char *text, *hash;
    } known[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb" },
    };
    unsigned char hash[HFI_SHA256_LEN];
    char text[2 * HFI_SHA256_LEN + 1];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        hfi_sha256(known[i].text, strlen(known[i].text), hash);
        for (size_t k = 0; k < sizeof hash; k++)
            snprintf(text + 2 * k, 3, "%02x", hash[k]);
        assert_string_equal(text, known[i].hash);
    }
}

/* The standard's own examples, one at which the padding takes a block of its own, and one of two blocks. */
static void sha1_known_answers(void **state)
{
    static const struct {
        const char *text, *hash;
    } known[] = {
        { "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          "0098ba824b5c16427bd7a1122a5a442a25ec644d" },
    };
    unsigned char hash[HFI_SHA1_LEN];
    char text[2 * HFI_SHA1_LEN + 1];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        hfi_sha1(known[i].text, strlen(known[i].text), hash);
        for (size_t k = 0; k < sizeof hash; k++)
            snprintf(text + 2 * k, 3, "%02x", hash[k]);
        assert_string_equal(text, known[i].hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_known_answers),
        cmocka_unit_test(hash_sees_bytes_only),
        cmocka_unit_test(checksum_known_answers),
        cmocka_unit_test(sha1_known_answers),
        cmocka_unit_test(sha256_known_answers),
        cmocka_unit_test(checksum_is_the_same_on_every_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
