/* SPDX-License-Identifier: MIT */
/* Members of a group: the list is the leases that are in the store; joins and leaves wake those that wait. */
#include "both.h"
#include "peer.h"

#include <string.h>

#define NEEDED (HF_CAP_SHARED | HF_CAP_INSPECT | HF_CAP_TOKEN)

static hf_acquire_request group(void)
{
    return waiting_request("group");
}

static hf_lease *join(hf_store *store, const char *value)
{
    hf_acquire_request request = group();
    hf_lease *member = NULL;

    EXPECT(HF_OK, hf_member_join(store, &request, value, &member, &contract_error));
    return member;
}

static hf_members_request asking(const hf_members *last, int64_t wait_ms)
{
    hf_members_request request = HF_MEMBERS_REQUEST_INIT;

    request.name = "group";
    request.name_len = HF_CSTRING;
    request.last = last;
    request.wait_ms = wait_ms;
    return request;
}

static hf_members *list(hf_store *store)
{
    hf_members_request request = asking(NULL, 0);
    hf_members *members = NULL;

    EXPECT(HF_OK, hf_members_wait(store, &request, &members, &contract_error));
    return members;
}

static size_t count(hf_store *store)
{
    hf_members *members = list(store);
    size_t found = hf_members_count(members);

    hf_free(members);
    return found;
}

static bool is_in(const hf_members *members, const char *value)
{
    for (size_t i = 0; i < hf_members_count(members); i++)
        if (strcmp(hf_members_item(members, i)->value, value) == 0)
            return true;
    return false;
}

/* ---- cases ------------------------------------------------------------------------------------------ */

static void unsupported(void **state)
{
    hf_acquire_request request = group();
    hf_members_request ask = asking(NULL, 0);
    hf_members *members = NULL;
    hf_lease *member = NULL;
    hf_store *store;

    (void)state;
    if (has(NEEDED))
        return;
    store = open_store();
    EXPECT(HF_UNSUPPORTED, hf_member_join(store, &request, "x", &member, &contract_error));
    CHECK(strstr(contract_error.text, contract_info.engine) != NULL);
    EXPECT(HF_UNSUPPORTED, hf_members_wait(store, &ask, &members, &contract_error));
    CHECK(!member && !members);
    close_store(store);
}

static void join_list_leave(void **state)
{
    hf_store *store, *other;
    hf_lease *first, *second;
    hf_members *members;
    char longest[HF_LABEL_MAX + 1];

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    other = open_store();
    CHECK(count(store) == 0);
    memset(longest, 'x', HF_LABEL_MAX);
    longest[HF_LABEL_MAX] = 0;
    first = join(store, "tcp://10.0.0.1:7000");
    second = join(other, longest);
    members = list(store);
    CHECK(hf_members_count(members) == 2 && hf_members_item(members, 2) == NULL);
    CHECK(is_in(members, "tcp://10.0.0.1:7000") && is_in(members, longest));
    CHECK(hf_members_item(members, 0)->token < hf_members_item(members, 1)->token);
    for (size_t i = 0; i < 2; i++)
        CHECK(hf_members_item(members, i)->token == hf_lease_token(first) ||
              hf_members_item(members, i)->token == hf_lease_token(second));
    hf_free(members);
    EXPECT(HF_OK, hf_member_leave(first, &contract_error));
    EXPECT(HF_INVALID, hf_member_leave(first, &contract_error));
    members = list(other);
    CHECK(hf_members_count(members) == 1 && is_in(members, longest));
    hf_free(members);
    give(second); /* a plain release leaves, too */
    CHECK(count(store) == 0);
    close_store(other);
    close_store(store);
}

static void refused(void **state)
{
    hf_acquire_request request = group();
    hf_members_request ask = asking(NULL, -2);
    hf_members *members = NULL;
    hf_lease *member = NULL;
    char too_long[HF_LABEL_MAX + 2];
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    EXPECT(HF_INVALID, hf_member_join(store, &request, too_long, &member, &contract_error));
    CHECK(strstr(contract_error.text, "value") != NULL);
    EXPECT(HF_INVALID, hf_member_join(store, &request, "a\x1fz", &member, &contract_error));
    EXPECT(HF_INVALID, hf_member_join(store, NULL, "a", &member, &contract_error));
    EXPECT(HF_INVALID, hf_member_join(store, &request, "a", NULL, &contract_error));
    request.kind = HF_KIND_EXCLUSIVE;
    EXPECT(HF_INVALID, hf_member_join(store, &request, "a", &member, &contract_error));
    CHECK(strstr(contract_error.text, "kind") != NULL);
    EXPECT(HF_INVALID, hf_members_wait(store, &ask, &members, &contract_error));
    EXPECT(HF_INVALID, hf_members_wait(store, NULL, &members, &contract_error));
    ask = asking(NULL, 0);
    EXPECT(HF_INVALID, hf_members_wait(store, &ask, NULL, &contract_error));
    EXPECT(HF_INVALID, hf_member_leave(NULL, &contract_error));
    CHECK(!member && !members && hf_members_count(NULL) == 0);
    close_store(store);
}

/* However a lease ends, its member is gone. */
static void gone_with_the_lease(void **state)
{
    hf_acquire_request request = group();
    hf_store *store, *other;
    hf_lease *member = NULL;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    if (has(HF_CAP_BREAK)) {
        member = join(store, "broken");
        EXPECT(HF_OK, hf_lease_break(store, "group", 5, hf_lease_token(member), &contract_error));
        CHECK(count(store) == 0);
        await_lost(member);
        EXPECT(HF_LOST, hf_member_leave(member, &contract_error));
    }
    if (has(HF_CAP_TTL)) {
        request.ttl_ms =
            contract_info.min_ttl_ms > HF_TTL_MIN_MS ? contract_info.min_ttl_ms : HF_TTL_MIN_MS;
        request.flags = HF_FLAG_NO_RENEW;
        EXPECT(HF_OK, hf_member_join(store, &request, "expires", &member, &contract_error));
        AWAIT(count(store) == 0);
        EXPECT(HF_LOST, hf_member_leave(member, &contract_error));
    }
    other = open_store();
    member = join(other, "closes");
    CHECK(count(store) == 1);
    EXPECT(HF_OK, hf_close(other, HF_CLOSE_FLAG_RELEASE));
    AWAIT(count(store) == 0);
    EXPECT(HF_LOST, hf_member_leave(member, &contract_error));
    close_store(store);
}

static void gone_with_the_process(void **state)
{
    hf_acquire_request request = group();
    hf_members *members;
    struct peer peer;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    if (!contract_processes)
        return;
    store = open_store();
    peer_start(&peer);
    request.kind = HF_KIND_SHARED; /* every reader is a member */
    request.label = "dies";
    if (has(HF_CAP_TTL) && !has(HF_CAP_PROCESS))
        request.ttl_ms =
            contract_info.min_ttl_ms > HF_TTL_MIN_MS ? contract_info.min_ttl_ms : HF_TTL_MIN_MS;
    EXPECT(HF_OK, peer_acquire(&peer, 0, &request));
    members = list(store);
    CHECK(hf_members_count(members) == 1 && is_in(members, "dies"));
    peer_kill(&peer);
    { /* it is found by those that wait, too */
        hf_members_request ask = asking(members, LIMIT_MS);
        hf_members *next = NULL;

        EXPECT(HF_OK, hf_members_wait(store, &ask, &next, &contract_error));
        CHECK(hf_members_count(next) == 0);
        hf_free(next);
    }
    hf_free(members);
    close_store(store);
}

struct joiner {
    hf_store *store;
    hf_lease *member;
    bool leave;
    pthread_t thread;
};

static void *come_or_go(void *arg)
{
    struct joiner *joiner = arg;

    nap_ms(30);
    if (joiner->leave)
        EXPECT(HF_OK, (hf_member_leave)(joiner->member, &contract_error));
    else {
        hf_acquire_request request = group();

        EXPECT(HF_OK, (hf_member_join)(joiner->store, &request, "comes", &joiner->member,
                                       &contract_error));
    }
    return NULL;
}

static void joins_and_leaves_are_told(void **state)
{
    hf_store *store, *other;
    hf_members *members, *next = NULL;
    hf_members_request ask;
    struct joiner joiner = { .member = NULL };

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    other = open_store();
    joiner.store = other;
    members = list(store);
    ask = asking(members, 30);
    EXPECT(HF_TIMEOUT, hf_members_wait(store, &ask, &next, &contract_error));
    for (int round = 0; round < 4; round++) {
        joiner.leave = round % 2;
        ask = asking(members, LIMIT_MS);
        CHECK(pthread_create(&joiner.thread, NULL, come_or_go, &joiner) == 0);
        EXPECT(HF_OK, hf_members_wait(store, &ask, &next, &contract_error));
        CHECK(hf_members_count(next) == (joiner.leave ? 0 : 1));
        CHECK(pthread_join(joiner.thread, NULL) == 0);
        hf_free(members);
        members = next;
    }
    hf_free(members);
    close_store(other);
    close_store(store);
}

static void stopped(void **state)
{
    hf_store *store;
    hf_members *members, *next = NULL;
    hf_members_request ask;
    hf_cancel *cancel;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    members = list(store);
    EXPECT(HF_OK, hf_cancel_open(&cancel));
    EXPECT(HF_OK, hf_cancel_fire(cancel));
    ask = asking(members, HF_FOREVER);
    ask.cancel = cancel;
    EXPECT(HF_CANCELLED, hf_members_wait(store, &ask, &next, &contract_error));
    CHECK(!next);
    EXPECT(HF_OK, hf_cancel_close(cancel));
    hf_free(members);
    close_store(store);
}

/* A writer waits until the group is empty, and keeps others out. */
static void writer(void **state)
{
    hf_acquire_request request, join_request = group();
    hf_lease *member, *alone, *none = NULL;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    member = join(store, "one");
    request = mutex_request("group");
    request.kind = HF_KIND_EXCLUSIVE;
    EXPECT(HF_BUSY, probe(store, &request));
    EXPECT(HF_OK, hf_member_leave(member, &contract_error));
    request.wait_ms = LIMIT_MS;
    alone = take(store, &request);
    CHECK(count(store) == 0); /* the writer is no member */
    join_request.wait_ms = 0;
    EXPECT(HF_BUSY, hf_member_join(store, &join_request, "two", &none, &contract_error));
    give(alone);
    close_store(store);
}

#define MANY 300

static void many(void **state)
{
    hf_lease *members[MANY];
    hf_members *found;
    hf_store *store;

    (void)state;
    NEEDS(NEEDED);
    store = open_store();
    for (int i = 0; i < MANY; i++)
        members[i] = join(store, "one of many");
    found = list(store);
    CHECK(hf_members_count(found) == MANY);
    for (size_t i = 1; i < MANY; i++)
        CHECK(hf_members_item(found, i - 1)->token < hf_members_item(found, i)->token);
    hf_free(found);
    for (int i = 0; i < MANY; i++)
        EXPECT(HF_OK, hf_release(members[i], &contract_error));
    CHECK(count(store) == 0);
    close_store(store);
}

int contract_members(void)
{
    const struct CMUnitTest cases[] = {
        CASE(unsupported),
        CASE(join_list_leave),
        CASE(refused),
        CASE(gone_with_the_lease),
        CASE(gone_with_the_process),
        CASE(joins_and_leaves_are_told),
        CASE(stopped),
        CASE(writer),
        CASE(many),
    };

    return cmocka_run_group_tests_name("members", cases, NULL, NULL);
}
