/* SPDX-License-Identifier: MIT */
/*
 * What others do to our items between two commands of ours, and names that meet under one key: nothing
 * of somebody else's is ever changed, and nothing is taken for ours that is not.
 */
#include "memcached_bed.h"

#include "engine/memcached/record.h"
#include "util/alloc.h"
#include "util/hash.h"

#include <stdio.h>
#include <string.h>

#define STRANGER "00112233445566778899aabbccddeeff"

static char key_text[MEMCACHED_KEY_MAX + 1];

/* The key of a name, as text. */
static const char *key_of(const char *name, size_t len)
{
    struct hfi_name it = { .bytes = (const unsigned char *)name, .len = (uint32_t)len };
    struct memcached_key key;

    hfi_hash128(name, len, it.hash);
    memcached_key("hf:", 'l', &it, &key);
    snprintf(key_text, sizeof key_text, "%.*s", (int)key.len, key.text);
    return key_text;
}

/* Somebody else's record for `name`, under the key of `under`. */
static void plant(const char *under, size_t under_len, const char *name, const char *flags)
{
    char value[MEMCACHED_RECORD_MAX];
    int len = snprintf(value, sizeof value, "holdfast1 " STRANGER " - 300000 1 %zu 8\n%sstranger",
                       strlen(name), name);

    cache_set(cache, key_of(under, under_len), value, (size_t)len, flags);
}

static bool is_strangers(const char *name)
{
    char command[MEMCACHED_KEY_MAX + 16];

    snprintf(command, sizeof command, "mg %s v\r\n", key_of(name, strlen(name)));
    return strstr(cache_say(cache, command, 2), STRANGER) != NULL;
}

/* Our own record again, with a new CAS number: as a renewal would leave it whose answer was lost. */
static void touch(const char *name)
{
    char command[MEMCACHED_KEY_MAX + 16], value[MEMCACHED_RECORD_MAX + 64];
    const char *said;
    size_t len = 0;

    snprintf(command, sizeof command, "mg %s v\r\n", key_of(name, strlen(name)));
    said = cache_say(cache, command, 3);
    CHECK(sscanf(said, "VA %zu", &len) == 1);
    said = strchr(said, '\n') + 1;
    memcpy(value, said, len);
    CHECK(strncmp(cache_set(cache, key_of(name, strlen(name)), value, len, "T600"), "HD", 2) == 0);
}

static hf_lease *held(void)
{
    hf_acquire_request request = with_ttl(mutex_request("n"), LONG_MS);

    return take(store, &request);
}

/* ---- between two commands ---------------------------------------------------------------------- */

static void anothers_is_not_released(void **state)
{
    hf_lease *lease = held();

    (void)state;
    plant("n", 1, "n", "T600");
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(is_strangers("n"));
}

static void anothers_is_not_renewed(void **state)
{
    hf_lease *lease = held();

    (void)state;
    plant("n", 1, "n", "T600");
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    CHECK(is_strangers("n"));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    CHECK(is_strangers("n"));
}

static void gone_is_not_made_again(void **state)
{
    hf_lease *lease = held();

    (void)state;
    CHECK(strncmp(cache_say(cache, "md hf:l:n\r\n", 1), "HD", 2) == 0);
    EXPECT(HF_LOST, hf_renew(lease, 0, &contract_error));
    CHECK(!is_there("n"));
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
}

/* The number is another, the lease is ours: found by the owner. */
static void ours_under_another_number(void **state)
{
    hf_lease *lease = held();

    (void)state;
    touch("n");
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    touch("n");
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    EXPECT(HF_OK, hf_renew(lease, 0, &contract_error));
    touch("n");
    give(lease);
    CHECK(!is_there("n"));
}

/* ---- keys --------------------------------------------------------------------------------------- */

static void strange_values_are_in_the_way(void **state)
{
    hf_acquire_request trying = mutex_request("n"), waiting = waiting_request("n");
    hf_view *view = NULL;
    hf_lease *lease = NULL;

    (void)state;
    cache_set(cache, "hf:l:n", "a value of the web shop", 23, "T600");
    EXPECT(HF_MISMATCH, hf_acquire(store, &trying, &lease, &contract_error));
    EXPECT(HF_MISMATCH, hf_acquire(store, &waiting, &lease, &contract_error));
    EXPECT(HF_MISMATCH, hf_store_inspect(store, "n", 1, 0, &view, &contract_error));
    CHECK(lease == NULL && is_there("n"));
}

/* Two names with one hash cannot be made; a record of another name under the key is the same thing. */
static void collision(const char *name, size_t len, const char *other_name)
{
    hf_acquire_request trying = HF_ACQUIRE_REQUEST_INIT;
    hf_lease *lease = NULL;
    hf_view *view = NULL;

    trying.name = name;
    trying.name_len = len;
    EXPECT(HF_OK, probe(store, &trying));
    plant(name, len, other_name, "T600");
    EXPECT(HF_MISMATCH, hf_acquire(store, &trying, &lease, &contract_error));
    CHECK(strstr(contract_error.text, "hash") != NULL && lease == NULL);
    trying.wait_ms = LIMIT_MS;
    EXPECT(HF_MISMATCH, hf_acquire(store, &trying, &lease, &contract_error));
    EXPECT(HF_MISMATCH, hf_store_inspect(store, name, len, 0, &view, &contract_error));
}

static void collisions_are_errors(void **state)
{
    char name[HF_NAME_MAX], long_name[HF_NAME_MAX + 1];

    (void)state;
    memset(name, 'x', sizeof name);
    memset(long_name, 'y', sizeof long_name);
    long_name[HF_NAME_MAX] = 0;
    collision(name, sizeof name, long_name);
    collision("two words", 9, "two-words");
    collision("\0\r\n", 3, "three");
}

/* Names of 248 bytes are kept as they are and one more is hashed: no two meet. */
static void lengths_around_the_limit(void **state)
{
    static const size_t lens[] = { 1, 244, 245, 246, 250, 251, HF_NAME_MAX };
    hf_lease *leases[sizeof lens / sizeof *lens];
    char name[HF_NAME_MAX];

    (void)state;
    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

        request.name = name;
        request.name_len = lens[i];
        leases[i] = take(store, &request);
        EXPECT(HF_BUSY, probe(other, &request));
    }
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
        give(leases[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(anothers_is_not_released),      TEST(anothers_is_not_renewed),
        TEST(gone_is_not_made_again),        TEST(ours_under_another_number),
        TEST(strange_values_are_in_the_way), TEST(collisions_are_errors),
        TEST(lengths_around_the_limit),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
