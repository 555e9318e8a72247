/* SPDX-License-Identifier: MIT */
/*
 * worker URL SEED SECONDS: the C worker of the test in which all languages share one lock, one semaphore and one guarded counter.
 * README.md says what it does and prints; the other languages have the same program in examples/worker.
 */
#include <holdfast/holdfast.h>
#include <holdfast/primitives.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct worker {
    hf_store *store;
    int64_t ttl_ms;
    unsigned number; /* of the last request */
    uint64_t random;
};

enum what { MUTEX, SEMAPHORE, COUNTER };

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned below(struct worker *w, unsigned n)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(w->random >> 33) % n;
}

static void fail(const char *what, hf_status status, const hf_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_status_name(status), err ? err->text : "");
    exit(1);
}

/* One write for each line: what a killed worker has said is whole. */
static void say(int64_t at_ns, const char *text)
{
    char line[160];
    int len = snprintf(line, sizeof line, "%" PRId64 " %s\n", at_ns, text);

    if (write(STDOUT_FILENO, line, (size_t)len) != len)
        exit(1);
}

/* At a moment before the question was asked it was certainly held. */
static bool still(struct worker *w, hf_lease *lease, const char *format)
{
    int64_t at_ns = now_ns();
    bool held = hf_lease_remaining_ms(lease) > 0;
    char text[80];

    if (held)
        snprintf(text, sizeof text, format, w->number, hf_lease_token(lease));
    else
        snprintf(text, sizeof text, "lost %u", w->number);
    say(at_ns, text);
    return held;
}

/* ---- acquiring ----------------------------------------------------------------------------- */

struct answer {
    bool is_there;
    hf_status status;
    hf_lease *lease;
};

static void answered(const hf_result *result, void *arg)
{
    struct answer *answer = arg;

    *answer = (struct answer){ true, result->status, result->lease };
}

static hf_status acquire_async(struct worker *w, const hf_acquire_request *request,
                               hf_lease **ret_lease, hf_error *err)
{
    struct answer answer = { .is_there = false };
    hf_status status = hf_acquire_async(w->store, request, answered, &answer, NULL, err);

    if (status != HF_OK)
        return status;
    while (!answer.is_there) {
        struct pollfd wait = { .fd = hf_store_fd(w->store), .events = POLLIN };

        poll(&wait, 1, hf_store_timeout_ms(w->store));
        hf_store_process(w->store);
    }
    *ret_lease = answer.lease;
    return answer.status;
}

static hf_status acquire(struct worker *w, const hf_acquire_request *request, hf_lease **ret_lease)
{
    hf_error err;
    hf_status status = below(w, 3) == 0 ? acquire_async(w, request, ret_lease, &err)
                                        : hf_acquire(w->store, request, ret_lease, &err);

    switch (status) {
    case HF_INVALID:
    case HF_MISMATCH:
    case HF_INTERNAL:
    case HF_UNSUPPORTED:
    case HF_CORRUPT:
        fail("acquire", status, &err);
        break;
    default:
        break;
    }
    return status;
}

static hf_acquire_request request_for(struct worker *w, enum what what)
{
    static const char *const names[] = { "shared-mutex", "shared-semaphore",
                                         "shared-counter-lock" };
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;
    unsigned how = below(w, 5);

    request.name = names[what];
    request.name_len = HF_CSTRING;
    request.ttl_ms = w->ttl_ms;
    request.wait_ms = how == 0 ? 0 : how == 1 ? 1 + (int64_t)below(w, 50) : 2000;
    if (what == SEMAPHORE) {
        request.kind = HF_KIND_SEMAPHORE;
        request.capacity = 3;
        request.permits = 1 + below(w, 2);
    }
    return request;
}

/* ---- one more in the guarded counter --------------------------------------------------------- */

static void count_up(struct worker *w, hf_lease *lease)
{
    static const char name[] = "shared-counter";
    uint64_t token = hf_lease_token(lease);
    char digits[24], text[80];
    void *bytes = NULL;
    size_t len = 0;
    hf_error err;
    hf_status status = hf_guard_claim(w->store, name, HF_CSTRING, token, &bytes, &len, &err);
    long long value;

    if (status != HF_OK)
        return; /* fenced: a later holder has come; or the store is away */
    value = bytes ? strtoll(bytes, NULL, 10) + 1 : 1;
    hf_free(bytes);
    snprintf(text, sizeof text, "adding %lld %" PRIu64, value, token);
    say(now_ns(), text);
    snprintf(digits, sizeof digits, "%lld", value);
    status = hf_guard_set(w->store, name, HF_CSTRING, token, digits, strlen(digits), &err);
    snprintf(text, sizeof text, "%s %lld %" PRIu64,
             status == HF_OK       ? "added"
             : status == HF_FENCED ? "fenced"
                                   : "unsure",
             value, token);
    say(now_ns(), text);
}

static void one_turn(struct worker *w)
{
    static const char *const words[] = { "mutex", "semaphore", "counter" };
    enum what what = (enum what)below(w, 3);
    hf_acquire_request request = request_for(w, what);
    hf_lease *lease = NULL;
    char text[80];
    hf_status status;

    w->number++;
    snprintf(text, sizeof text, "ask %u %s %u", w->number, words[what],
             request.permits ? request.permits : 1);
    say(now_ns(), text);
    status = acquire(w, &request, &lease);
    if (status != HF_OK) {
        snprintf(text, sizeof text, "not %u %s", w->number, hf_status_name(status));
        say(now_ns(), text);
        return;
    }
    if (still(w, lease, "got %u %" PRIu64)) {
        if (what == COUNTER)
            count_up(w, lease);
        nanosleep(&(struct timespec){ .tv_nsec = (long)below(w, 3000) * 1000 }, NULL);
        if (still(w, lease, "still %u")) {
            snprintf(text, sizeof text, "letting %u", w->number);
            say(now_ns(), text);
        }
    }
    status = hf_release(lease, NULL);
    snprintf(text, sizeof text, "let %u %s", w->number, hf_status_name(status));
    say(now_ns(), text);
}

int main(int argc, char **argv)
{
    struct worker w = { .number = 0 };
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_error err;
    hf_status status;
    int64_t end_ns;

    if (argc != 4) {
        fprintf(stderr, "usage: worker URL SEED SECONDS\n");
        return 64;
    }
    w.random = strtoull(argv[2], NULL, 10);
    status = hf_open(argv[1], NULL, &w.store, &err);
    if (status != HF_OK)
        fail("open", status, &err);
    status = hf_store_get(w.store, &info);
    if (status != HF_OK)
        fail("info", status, NULL);
    w.ttl_ms = info.caps & HF_CAP_PROCESS ? 0 : 1000;
    end_ns = now_ns() + (int64_t)(strtod(argv[3], NULL) * 1e9);
    while (now_ns() < end_ns)
        one_turn(&w);
    return hf_close(w.store, HF_CLOSE_FLAG_RELEASE) == HF_OK ? 0 : 1;
}
