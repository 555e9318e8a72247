/* SPDX-License-Identifier: MIT */
/*
 * What the store says about itself, and that it means it: whatever it does not
 * declare answers HF_UNSUPPORTED and changes nothing.
 */
#include "calls.h"
#include "contract.h"
#include "core/lack.h"
#include "holdfast/redis.h"

#include <string.h>

static void info_is_complete(void **state)
{
    hf_store *store = open_store();
    hf_store_info info = HF_STORE_INFO_INIT;

    (void)state;
    EXPECT(HF_OK, hf_store_get(store, &info));
    CHECK(info.engine && info.engine[0]);
    CHECK(info.location && info.location[0]);
    CHECK(!!(info.caps & HF_CAP_TOKEN) == (info.tokens != HF_TOKEN_STRENGTH_NONE));
    CHECK((info.caps & HF_CAP_TTL) || (info.caps & HF_CAP_PROCESS));
    CHECK((info.caps & HF_CAP_PROCESS) || info.default_ttl_ms > 0);
    CHECK(!(info.caps & HF_CAP_PASS) || (info.caps & HF_CAP_TOKEN));
    CHECK(info.min_ttl_ms >= 0);
    close_store(store);
}

static void engine_list_agrees(void **state)
{
    const hf_engine_info *info;
    bool found = false;
    size_t i, len;

    (void)state;
    for (i = 0; (info = hf_engine_get(i)); i++) {
        CHECK(info->name && info->schemes);
        CHECK(info->available || info->why_not);
        len = strlen(info->name);
        if (strncmp(info->name, contract_info.engine, len) != 0)
            continue;
        found = true;
        CHECK(info->available);
        if (contract_info.engine[len] == '-') { /* a variant, "redis-plain", promises less */
            /* less, or leases that end with a connection instead of a ttl */
            CHECK((contract_info.caps & ~(info->caps | HF_CAP_PROCESS)) == 0);
            CHECK(contract_info.tokens <= info->tokens);
        } else {
            CHECK(info->caps == contract_info.caps);
            CHECK(info->tokens == contract_info.tokens);
        }
        CHECK(info->on_crash && info->on_pause && info->on_clock_jump && info->on_server_loss);
        CHECK(info->on_partition && info->fairness && info->wakeup);
    }
    CHECK(found);
    CHECK(hf_engine_get(i) == NULL && hf_engine_get(SIZE_MAX) == NULL);
}

/* The open store gives a reason for everything that it cannot do, and for nothing else. */
static void reasons_are_whole(void **state)
{
    const struct hfi_promises told = { .caps = contract_info.caps, .lacks = contract_info.lacks };
    const char *wrong = "";
    uint64_t cap = 0;

    (void)state;
    if (!hfi_lacks_are_whole(&told, &cap, &wrong))
        fail_msg("engine %s: HF_CAP_* 0x%llx %s", contract_info.engine, (unsigned long long)cap,
                 wrong);
}

/* Does the text of the last error have the reason of one of these, which the store has not? */
static bool tells_why(uint64_t caps)
{
    for (const hf_engine_lack *lack = contract_info.lacks; lack->why; lack++)
        if (lack->caps & caps && strstr(contract_error.text, lack->why))
            return true;
    return false;
}

/* An acquire that needs `caps`: HF_OK with all of them, HF_UNSUPPORTED without, and the engine's reason. */
static void acquire_needs(hf_store *store, const hf_acquire_request *request, uint64_t caps)
{
    EXPECT(has(caps) ? HF_OK : HF_UNSUPPORTED, probe(store, request));
    CHECK(has(caps) || tells_why(caps));
}

static void requests_need_their_caps(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request;

    (void)state;
    request = mutex_request("caps");
    request.kind = HF_KIND_SHARED;
    acquire_needs(store, &request, HF_CAP_SHARED);
    request.kind = HF_KIND_EXCLUSIVE;
    acquire_needs(store, &request, HF_CAP_SHARED);

    request = mutex_request("caps");
    request.kind = HF_KIND_SEMAPHORE;
    request.capacity = 3;
    acquire_needs(store, &request, HF_CAP_SEMAPHORE);

    request = mutex_request("caps");
    request.flags = HF_FLAG_BARGE;
    acquire_needs(store, &request, HF_CAP_BARGE);

    request = mutex_request("caps");
    request.ttl_ms = LIMIT_MS;
    acquire_needs(store, &request, HF_CAP_TTL);
    request.lock_delay_ms = 1000;
    acquire_needs(store, &request, HF_CAP_LOCK_DELAY | HF_CAP_TTL);
    request.lock_delay_ms = 0;
    request.flags = HF_FLAG_DETACHED;
    acquire_needs(store, &request, HF_CAP_DETACHED);

    request = mutex_request("caps");
    EXPECT(HF_OK, probe(store, &request));
    close_store(store);
}

/* Where there are no scripts, the text says what there is instead. */
static void scripts_need_their_cap(void **state)
{
    hf_status want = has(HF_CAP_SCRIPTS) ? HF_OK : HF_UNSUPPORTED;
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_store *store = open_store();
    bool there;

    (void)state;
    script.text = "return 1";
    script.text_len = HF_CSTRING;
    EXPECT(want, hf_script_run(store, &script, NULL, &contract_error));
    CHECK(want == HF_OK || !strstr(contract_error.text, "use cells)") == !has(HF_CAP_CELLS));
    EXPECT(want, hf_script_exists(store, "return 1", HF_CSTRING, &there, &contract_error));
    EXPECT(want, hf_script_load(store, "return 1", HF_CSTRING, NULL, &contract_error));
    EXPECT(want, hf_script_exists_each(store, &script.text, NULL, 1, &there, &contract_error));
    EXPECT(want, hf_script_flush(store, &contract_error));
    if (want == HF_UNSUPPORTED) {
        struct both both;

        EXPECT(want, hf_script_run_async(store, &script, both_done, &both, NULL, &contract_error));
        EXPECT(want, hf_script_exists_async(store, "return 1", HF_CSTRING, both_done, &both, NULL,
                                            &contract_error));
        EXPECT(want, hf_script_load_async(store, "return 1", HF_CSTRING, both_done, &both, NULL,
                                          &contract_error));
        EXPECT(want, hf_script_exists_each_async(store, &script.text, NULL, 1, both_done, &both,
                                                 NULL, &contract_error));
        EXPECT(want, hf_script_flush_async(store, both_done, &both, NULL, &contract_error));
    }
    close_store(store);
}

static void calls_need_their_caps(void **state)
{
    static const char handle[] = "00000000000000000000000000000000-1";
    hf_store *store = open_store();
    hf_lease *lease = NULL;
    hf_view *view = NULL;
    uint64_t seq = 0;
    hf_status status;

    (void)state;
    EXPECT(has(HF_CAP_INSPECT) ? HF_OK : HF_UNSUPPORTED,
           hf_store_inspect(store, NULL, 0, HF_INSPECT_FLAG_PATTERN, &view, &contract_error));
    if (has(HF_CAP_INSPECT)) {
        CHECK(hf_view_count(view) == 0);
        CHECK(!hf_view_waiters_tracked(view) == !has(HF_CAP_WAITERS));
        hf_free(view);
    }
    CHECK(has(HF_CAP_INSPECT) || tells_why(HF_CAP_INSPECT));
    EXPECT(has(HF_CAP_BREAK) ? HF_NOT_FOUND : HF_UNSUPPORTED,
           hf_lease_break(store, "caps", 4, 1, &contract_error));
    CHECK(has(HF_CAP_BREAK) || tells_why(HF_CAP_BREAK));
    EXPECT(has(HF_CAP_WATCH) ? HF_TIMEOUT : HF_UNSUPPORTED,
           hf_store_wait(store, &seq, 1, NULL, &contract_error));
    status = call_lease_adopt(store, "caps", 4, handle, 0, 0, &lease, &contract_error);
    if (has(HF_CAP_DETACHED))
        CHECK(status == HF_INVALID || status == HF_NOT_FOUND);
    else
        EXPECT(HF_UNSUPPORTED, status);
    CHECK(lease == NULL);
    close_store(store);
}

static void tokens_only_where_declared(void **state)
{
    hf_store *store = open_store();
    hf_acquire_request request = mutex_request("token");
    hf_lease *lease = take(store, &request);

    (void)state;
    CHECK((hf_lease_token(lease) > 0) == has(HF_CAP_TOKEN));
    CHECK(hf_lease_token(lease) < UINT64_C(1) << 53);
    give(lease);
    close_store(store);
}

static void count_finding(hf_check_level level, const char *topic, const char *text, void *arg)
{
    CHECK(level == HF_CHECK_LEVEL_OK || level == HF_CHECK_LEVEL_WARNING ||
          level == HF_CHECK_LEVEL_BAD);
    CHECK(topic && topic[0] && text && text[0]);
    ++*(int *)arg;
}

static void doctor_reports(void **state)
{
    hf_store *store = open_store();
    int findings = 0;

    (void)state;
    EXPECT(HF_OK, call_store_check(store, count_finding, &findings, &contract_error));
    CHECK(findings > 0);
    close_store(store);
}

int contract_caps(void)
{
    const struct CMUnitTest cases[] = {
        CASE(info_is_complete),           CASE(reasons_are_whole),     CASE(engine_list_agrees),
        CASE(requests_need_their_caps),   CASE(calls_need_their_caps), CASE(scripts_need_their_cap),
        CASE(tokens_only_where_declared), CASE(doctor_reports),
    };

    return cmocka_run_group_tests_name("caps", cases, NULL, NULL);
}
