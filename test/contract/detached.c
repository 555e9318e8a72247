/* SPDX-License-Identifier: MIT */
/* Leases that outlive their process, and the handles by which others take them over. */
#include "calls.h"
#include "loop.h"
#include "peer.h"

#include <string.h>

#define LONG_MS (10 * 60 * 1000)

static hf_acquire_request detached_request(int64_t ttl_ms)
{
    hf_acquire_request request = mutex_request("away");

    request.flags = HF_FLAG_DETACHED;
    request.ttl_ms = ttl_ms;
    return request;
}

static hf_status adopt(hf_store *store, const char *name, const char *handle, hf_lease **ret_lease)
{
    return call_lease_adopt(store, name, strlen(name), handle, 0, 0, ret_lease, &contract_error);
}

static void outlives_its_store(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS), try = mutex_request("away");
    hf_store *store;
    hf_lease *lease, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];
    uint64_t token;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    lease = take(store, &request);
    token = hf_lease_token(lease);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    CHECK(strlen(handle) > 0 && strlen(handle) < HF_LEASE_TEXT_MAX);
    EXPECT(HF_OK, hf_close(store, 0)); /* a detached lease does not keep it open */

    store = open_store();
    EXPECT(HF_BUSY, probe(store, &try));
    EXPECT(HF_OK, adopt(store, "away", handle, &adopted));
    CHECK(hf_lease_token(adopted) == token);
    CHECK(hf_lease_state(adopted) == HF_STATE_HELD);
    CHECK(hf_lease_remaining_ms(adopted) > 0 && hf_lease_remaining_ms(adopted) <= LONG_MS);
    give(adopted);
    EXPECT(HF_OK, probe(store, &try));
    adopted = NULL;
    EXPECT(HF_NOT_FOUND, adopt(store, "away", handle, &adopted));
    CHECK(adopted == NULL);
    close_store(store);
}

static void given_to_a_peer(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS), try = mutex_request("away");
    hf_store *store;
    hf_lease *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    peer_start(&peer);
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    peer_handle(&peer, 0, handle);
    if (contract_processes) {
        peer_kill(&peer); /* it needs no process */
        EXPECT(HF_BUSY, probe(store, &try));
        EXPECT(HF_OK, adopt(store, "away", handle, &adopted));
        give(adopted);
    } else {
        EXPECT(HF_OK, adopt(store, "away", handle, &adopted));
        give(adopted);
        peer_stop(&peer);
    }
    EXPECT(HF_OK, probe(store, &try));
    close_store(store);
}

static void is_shown_as_detached(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS);
    hf_store *store;
    hf_lease *lease;
    hf_view *view = NULL;

    (void)state;
    NEEDS(HF_CAP_DETACHED | HF_CAP_INSPECT);
    store = open_store();
    request.label = "from a script";
    lease = take(store, &request);
    EXPECT(HF_OK, hf_store_inspect(store, "away", 4, 0, &view, &contract_error));
    CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
    CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->detached == 1);
    CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->ttl_ms > 0);
    CHECK(strcmp(hf_entry_holder(hf_view_entry(view, 0), 0)->label, "from a script") == 0);
    hf_free(view);
    give(lease);
    close_store(store);
}

/* A grant that is handed over is short until its first renewal: not so where none will come. */
static void waited_for_and_not_short(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS), try = mutex_request("away");
    hf_store *store;
    hf_lease *lease;
    hf_view *view = NULL;
    struct peer peer;

    (void)state;
    NEEDS(HF_CAP_DETACHED | HF_CAP_INSPECT | HF_CAP_WAITERS);
    store = open_store();
    peer_start(&peer);
    for (int i = 0; i < 2; i++) {
        request.flags = HF_FLAG_DETACHED | (i ? HF_FLAG_NO_RENEW : 0);
        request.wait_ms = HF_FOREVER;
        lease = take(store, &try);
        peer_begin(&peer, 0, &request);
        AWAIT(count_waiters(store, "away") == 1);
        give(lease);
        EXPECT(HF_OK, peer_join(&peer, 0, NULL));
        EXPECT(HF_OK, hf_store_inspect(store, "away", 4, 0, &view, &contract_error));
        CHECK(hf_view_count(view) == 1 && hf_view_entry(view, 0)->holder_count == 1);
        CHECK(hf_entry_holder(hf_view_entry(view, 0), 0)->ttl_ms > LONG_MS / 2);
        hf_free(view);
        EXPECT(HF_OK, peer_release(&peer, 0));
    }
    peer_stop(&peer);
    close_store(store);
}

static void ends_with_its_ttl(void **state)
{
    hf_acquire_request request = detached_request(1000), wait = waiting_request("away");
    hf_store *store;
    hf_lease *lease, *next, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];
    int64_t begin_ms;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    request.flags |= HF_FLAG_NO_RENEW;
    begin_ms = now_ms();
    lease = take_short(store, &request);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    next = take(store, &wait);
    CHECK(now_ms() - begin_ms >= 1000);
    EXPECT(HF_NOT_FOUND, adopt(store, "away", handle, &adopted));
    CHECK(hf_lease_state(lease) == HF_STATE_LOST);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    give(next);
    close_store(store);
}

/* An expired lease stays expired, even if nobody has taken the name yet: adopting never re-creates
 * it. */
static void expired_is_not_adopted(void **state)
{
    hf_acquire_request request = detached_request(1000);
    hf_store *store;
    hf_lease *lease, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    NEEDS(HF_CAP_DETACHED | HF_CAP_INSPECT);
    store = open_store();
    request.flags |= HF_FLAG_NO_RENEW;
    lease = take(store, &request);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    AWAIT(count_holders(store, "away") == 0);
    EXPECT(HF_NOT_FOUND, adopt(store, "away", handle, &adopted));
    CHECK(adopted == NULL && count_holders(store, "away") == 0);
    EXPECT(HF_LOST, hf_release(lease, &contract_error));
    close_store(store);
}

/* A live process keeps its lease: only a detached lease can be adopted. */
static void only_detached_is_adopted(void **state)
{
    hf_acquire_request request = mutex_request("here");
    hf_store *store, *second;
    hf_lease *lease, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    if (hf_lease_export(lease, handle) == HF_OK) {
        EXPECT(HF_NOT_FOUND, adopt(second, "here", handle, &adopted));
        CHECK(adopted == NULL);
    }
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    EXPECT(HF_BUSY, probe(second, &request));
    give(lease);
    close_store(second);
    close_store(store);
}

static void adopting_renews(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS);
    hf_store *store;
    hf_lease *lease, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    lease = take(store, &request);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    EXPECT(HF_OK, hf_close(store, 0));
    store = open_store();
    EXPECT(HF_OK,
           call_lease_adopt(store, "away", 4, handle, 3 * LONG_MS, 1, &adopted, &contract_error));
    CHECK(hf_lease_remaining_ms(adopted) > 2 * LONG_MS);
    EXPECT(HF_OK, hf_renew(adopted, LONG_MS, &contract_error));
    CHECK(hf_lease_remaining_ms(adopted) <= LONG_MS);
    give(adopted);
    close_store(store);
}

static void not_a_handle(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "not a handle at all",
        "00000000000000000000000000000000",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-1",
        "0000000000000000000000000000000000000000000000000000000000000000000000000000-1"
    };
    hf_acquire_request request = detached_request(LONG_MS);
    hf_store *store;
    hf_lease *lease, *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(HF_INVALID, adopt(store, "away", bad[i], &adopted));
    EXPECT(HF_INVALID, adopt(store, "away", NULL, &adopted));

    lease = take(store, &request);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    EXPECT(HF_NOT_FOUND, adopt(store, "elsewhere", handle, &adopted));
    handle[0] = handle[0] == 'a' ? 'b' : 'a'; /* a guessed handle */
    EXPECT(HF_NOT_FOUND, adopt(store, "away", handle, &adopted));
    CHECK(adopted == NULL);
    CHECK(hf_lease_state(lease) == HF_STATE_HELD);
    give(lease);
    close_store(store);
}

/* Who waits gets it when the adopter releases. */
static void adopter_hands_off(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS), wait = waiting_request("away");
    struct attempt attempt;
    hf_store *store, *second;
    hf_lease *adopted = NULL;
    char handle[HF_LEASE_TEXT_MAX];

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    EXPECT(HF_OK, hf_lease_export(take(store, &request), handle));
    EXPECT(HF_OK, hf_close(store, 0));
    store = open_store();
    second = open_store();
    attempt_start(&attempt, second, &wait);
    attempt_settled(&attempt);
    CHECK(!attempt.ended);
    EXPECT(HF_OK, adopt(store, "away", handle, &adopted));
    give(adopted);
    EXPECT(HF_OK, attempt_join(&attempt));
    give(attempt.lease);
    close_store(second);
    close_store(store);
}

/* ---- min_hold_ms ------------------------------------------------------------------------------- */

#define MIN_HOLD_MS 1500

static hf_acquire_request min_hold_request(void)
{
    hf_acquire_request request = mutex_request("least");

    if (has(HF_CAP_TTL)) /* the shortest, or what is not released ends with the default one */
        request.ttl_ms =
            contract_info.min_ttl_ms > HF_TTL_MIN_MS ? contract_info.min_ttl_ms : HF_TTL_MIN_MS;
    request.min_hold_ms = MIN_HOLD_MS;
    return request;
}

/* The name was acquired after `before_ms`: it is busy until its time is over, and free some time after that. */
static void check_min_hold(hf_store *store, int64_t before_ms)
{
    hf_acquire_request try = mutex_request("least"), wait = waiting_request("least");
    hf_status status = probe(store, &try);

    if (now_ms() < before_ms + MIN_HOLD_MS) /* else the machine stood still */
        EXPECT(HF_BUSY, status);
    EXPECT(HF_OK, probe(store, &wait));
    CHECK(now_ms() >= before_ms + MIN_HOLD_MS);
}

static void min_hold_outlasts_the_release(void **state)
{
    hf_acquire_request request = min_hold_request();
    hf_store *store, *other;
    hf_lease *lease;
    int64_t before_ms;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    other = open_store();
    before_ms = now_ms();
    lease = take(store, &request);
    EXPECT(HF_OK, hf_release(lease, &contract_error));
    EXPECT(HF_INVALID, hf_release(lease, &contract_error)); /* it has ended here */
    check_min_hold(other, before_ms);

    before_ms = now_ms();
    give(take(store, &request));
    check_min_hold(store, before_ms); /* the same store gets it no earlier */
    close_store(other);
    close_store(store);
}

static void min_hold_outlasts_the_store(void **state)
{
    hf_acquire_request request = min_hold_request();
    hf_store *store;
    int64_t before_ms;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    before_ms = now_ms();
    give(take(store, &request));
    EXPECT(HF_OK, hf_close(store, 0)); /* what is left to the store keeps nothing open */
    store = open_store();
    check_min_hold(store, before_ms);
    before_ms = now_ms();
    (void)take(store, &request);
    EXPECT(HF_OK, hf_close(store, HF_CLOSE_FLAG_RELEASE));
    store = open_store();
    check_min_hold(store, before_ms);
    close_store(store);
}

/* Closing does not wait for it. */
static void min_hold_closes_at_once(void **state)
{
    hf_acquire_request request = min_hold_request(), try = mutex_request("least for long");
    hf_store *store;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    request.name = try.name;       /* its own: on a foreign wire, cases share the server's names */
    request.min_hold_ms = LONG_MS; /* longer than any test may take */
    store = open_store();
    give(take(store, &request));
    EXPECT(HF_OK, hf_close(store, 0));
    store = open_store();
    EXPECT(HF_BUSY, probe(store, &try));
    close_store(store);
}

static void min_hold_outlasts_the_process(void **state)
{
    hf_acquire_request request = min_hold_request();
    struct peer peer;
    hf_store *store;
    int64_t before_ms;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    if (!contract_processes)
        return;
    store = open_store();
    for (int released = 0; released < 2; released++) {
        peer_start(&peer);
        before_ms = now_ms();
        EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
        if (released)
            EXPECT(HF_OK, peer_release(&peer, 0));
        peer_kill(&peer);
        check_min_hold(store, before_ms);
    }
    close_store(store);
}

/* Time that has passed while it was held counts: then a release opens the name at once. */
static void min_hold_is_over(void **state)
{
    hf_acquire_request request = min_hold_request(), try = mutex_request("least");
    hf_store *store;
    hf_lease *lease;

    (void)state;
    NEEDS(HF_CAP_DETACHED);
    store = open_store();
    lease = take(store, &request);
    nap_ms(MIN_HOLD_MS + 10);
    CHECK(hf_lease_state(lease) != HF_STATE_LOST); /* it is renewed as any other */
    give(lease);
    EXPECT(HF_OK, probe(store, &try));
    close_store(store);
}

static void min_hold_refusals(void **state)
{
    hf_acquire_request request = min_hold_request();
    char handle[HF_LEASE_TEXT_MAX];
    hf_store *store = open_store();
    hf_lease *lease;

    (void)state;
    if (!(contract_info.caps & HF_CAP_DETACHED)) {
        EXPECT(HF_UNSUPPORTED, probe(store, &request));
        CHECK(strstr(contract_error.text, "min_hold_ms"));
        close_store(store);
        return;
    }
    request.max_hold_ms = MIN_HOLD_MS - 1;
    EXPECT(HF_INVALID, probe(store, &request));
    CHECK(strstr(contract_error.text, "min_hold_ms"));
    request.max_hold_ms = 0;
    request.flags = HF_FLAG_DETACHED;
    EXPECT(HF_INVALID, probe(store, &request));
    request.flags = 0;
    request.min_hold_ms = -1;
    EXPECT(HF_INVALID, probe(store, &request));
    request.min_hold_ms = 1; /* less than any ttl: it ends all the same */
    lease = take(store, &request);
    CHECK(hf_lease_export(lease, handle) ==
          HF_UNSUPPORTED); /* only its holder knows when it may end */
    give(lease);
    request = waiting_request("least");
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

struct told {
    _Atomic int lost;
    hf_lease *lease;
};

static void on_event(hf_lease *lease, hf_event event, const char *why, void *arg)
{
    struct told *told = arg;

    CHECK(event == HF_EVENT_LOST && why && why[0]);
    told->lease = lease;
    told->lost++;
}

/* An adopted lease has events like any other: its holder is called back when it is lost. */
static void adopter_is_told(void **state)
{
    hf_acquire_request request = detached_request(LONG_MS);
    hf_adopt_request adoption = HF_ADOPT_REQUEST_INIT;
    struct told told = { .lost = 0 };
    char handle[HF_LEASE_TEXT_MAX];
    hf_store *store, *second;
    hf_lease *lease, *adopted = NULL;

    (void)state;
    NEEDS(HF_CAP_DETACHED | HF_CAP_BREAK | HF_CAP_TOKEN);
    store = open_store();
    second = open_store();
    lease = take(store, &request);
    EXPECT(HF_OK, hf_lease_export(lease, handle));
    EXPECT(HF_OK, hf_close(store, 0));
    adoption.name = "away";
    adoption.name_len = HF_CSTRING;
    adoption.text = handle;
    adoption.on_event = on_event;
    adoption.on_event_arg = &told;
    EXPECT(HF_OK, hf_lease_adopt(second, &adoption, &adopted, &contract_error));
    CHECK(told.lost == 0);
    EXPECT(HF_OK, hf_lease_break(second, "away", 4, hf_lease_token(adopted), &contract_error));
    LOOP_UNTIL(second, told.lost == 1);
    CHECK(told.lease == adopted);
    EXPECT(HF_LOST, hf_release(adopted, &contract_error));
    close_store(second);
}

int contract_detached(void)
{
    const struct CMUnitTest cases[] = {
        CASE(outlives_its_store),
        CASE(given_to_a_peer),
        CASE(is_shown_as_detached),
        CASE(waited_for_and_not_short),
        CASE(ends_with_its_ttl),
        CASE(expired_is_not_adopted),
        CASE(only_detached_is_adopted),
        CASE(adopting_renews),
        CASE(not_a_handle),
        CASE(adopter_hands_off),
        CASE(adopter_is_told),
        CASE(min_hold_outlasts_the_release),
        CASE(min_hold_outlasts_the_store),
        CASE(min_hold_closes_at_once),
        CASE(min_hold_outlasts_the_process),
        CASE(min_hold_is_over),
        CASE(min_hold_refusals),
    };

    return cmocka_run_group_tests_name("detached", cases, NULL, NULL);
}
