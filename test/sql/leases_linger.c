/* SPDX-License-Identifier: MIT */
/* mode=lease: leases that stay with their process while nobody uses them; see leases.h. */
#include "leases.h"

#define NAME "kept"

/* Longer than any case takes. */
static hf_acquire_request lingering(void)
{
    hf_acquire_request request = mutex_request(NAME);

    request.ttl_ms = 2 * LIMIT_MS;
    request.linger_ms = LIMIT_MS;
    return request;
}

/* What the store shows of the only holder. false: there is none. */
static bool look(hf_store *store, hf_holder *ret_holder)
{
    hf_view *view = NULL;
    bool found;

    EXPECT(HF_OK, hf_store_inspect(store, NAME, HF_CSTRING, 0, &view, &contract_error));
    found = hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1;
    if (found)
        *ret_holder = *hf_entry_holder(hf_view_entry(view, 0), 0);
    hf_free(view);
    return found;
}

/* Take it and give it back until it lingers: the listener may not listen at first. Returns the last token. */
static uint64_t make_idle(hf_store *store, const hf_acquire_request *request, hf_store *other,
                          hf_holder *ret_holder)
{
    int64_t until_ms = now_ms() + LIMIT_MS;
    uint64_t token;

    do {
        hf_lease *lease = take(store, request);

        token = hf_lease_token(lease);
        give(lease);
        CHECK(now_ms() < until_ms);
    } while (!look(other, ret_holder));
    return token;
}

static uint64_t pairs(hf_store *store, const hf_acquire_request *request, int count, uint64_t token)
{
    for (int i = 0; i < count; i++) {
        hf_lease *lease = take(store, request);

        CHECK(hf_lease_token(lease) > token);
        token = hf_lease_token(lease);
        give(lease);
    }
    return token;
}

/* However often it is taken, it is one lease in the store, which gives further tokens; any of them breaks it. */
static void one_lease_and_many_tokens(void **state)
{
    hf_store *store = leases_open(""), *other = leases_open("");
    hf_acquire_request request = lingering();
    hf_holder holder, after;
    uint64_t token;

    (void)state;
    token = make_idle(store, &request, other, &holder);
    CHECK(holder.lingers);
    token = pairs(store, &request, 20000, token);
    CHECK(look(other, &after) && after.first == holder.first && token > holder.first + 20000);
    EXPECT(HF_NOT_FOUND,
           hf_lease_break(other, NAME, HF_CSTRING, holder.first - 1, &contract_error));
    EXPECT(HF_OK, hf_lease_break(other, NAME, HF_CSTRING, token - 10000, &contract_error));
    CHECK(!look(other, &after));
    close_store(other);
    leases_close(store);
}

/* Its first token is hours old: more tokens lie between than a number of 32 bits has room for. */
static void it_lives_for_hours(void **state)
{
    hf_store *store = leases_open(""), *other = leases_open("");
    hf_acquire_request request = lingering();
    hf_holder holder, after;
    uint64_t token;

    (void)state;
    token = make_idle(store, &request, other, &holder);
    db_do(leases_db, "UPDATE hfl_names SET %s = %s - 36000000000 WHERE name = '" NAME "'",
          leases_db->kind == DB_POSTGRES ? "token" : "x_token",
          leases_db->kind == DB_POSTGRES ? "token" : "x_token");
    token = pairs(store, &request, 5000, token);
    CHECK(look(other, &after) && after.first == holder.first - UINT64_C(36000000000));
    EXPECT(HF_OK, hf_lease_break(other, NAME, HF_CSTRING, token, &contract_error));
    close_store(other);
    leases_close(store);
}

/* The store shows that it is idle, after a while, and that it is used again. */
static void shown_as_idle(void **state)
{
    hf_store *store = leases_open(""), *other = leases_open("");
    hf_acquire_request request = lingering();
    hf_holder holder;
    hf_lease *lease;

    (void)state;
    request.linger_ms = 2000;
    (void)make_idle(store, &request, other, &holder);
    AWAIT(!look(other, &holder) || holder.idle);
    if (look(other, &holder)) { /* else it has ended: the machine was slow */
        lease = take(store, &request);
        CHECK(look(other, &holder) && holder.lingers);
        AWAIT(look(other, &holder) && !holder.idle);
        give(lease);
    }
    close_store(other);
    close_store(store);
}

/* Nobody could call it back any more: it ends with the listener's connection, and lingers again when there is a new one. */
static void line_is_lost(void **state)
{
    hf_store *store = leases_open(""), *other = leases_open("");
    hf_acquire_request request = lingering();
    hf_holder holder;
    uint64_t token;

    (void)state;
    token = make_idle(store, &request, other, &holder);
    leases_end_sessions();
    AWAIT(!look(other, &holder));
    request.wait_ms = LIMIT_MS;
    token = pairs(store, &request, 1, token);
    CHECK(make_idle(store, &request, other, &holder) > token);
    close_store(other);
    close_store(store);
}

const struct CMUnitTest leases_linger_cases[] = {
    cmocka_unit_test(one_lease_and_many_tokens),
    cmocka_unit_test(it_lives_for_hours),
    cmocka_unit_test(shown_as_idle),
    cmocka_unit_test(line_is_lost),
};
const size_t leases_linger_count = sizeof leases_linger_cases / sizeof *leases_linger_cases;
