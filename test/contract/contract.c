/* SPDX-License-Identifier: MIT */
/*
 * What all groups of cases share: the store under test, checks that work on any
 * thread, small steps that many cases take.
 */
#include "contract.h"

#include "mem_engine.h"

#include <dirent.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool contract_processes, contract_alone;
hf_store_info contract_info = HF_STORE_INFO_INIT;
_Thread_local hf_error contract_error;

static const char *url_template;
static char case_url[512], case_dir[256];
static pthread_t main_thread;

static void learn_about_engine(void);

void contract_begin(const char *url, bool processes)
{
    mem_engine_register();
    main_thread = pthread_self();
    url_template = url;
    contract_processes = processes;
    learn_about_engine();
}

/* ---- the store under test ---------------------------------------------------- */

static void learn_about_engine(void)
{
    static char engine[64], location[512];
    hf_store *store;

    contract_setup(NULL);
    store = open_store();
    EXPECT(HF_OK, hf_store_get(store, &contract_info));
    snprintf(engine, sizeof engine, "%s", contract_info.engine);
    snprintf(location, sizeof location, "%s", contract_info.location);
    contract_info.engine = engine;
    contract_info.location = location;
    close_store(store);
    contract_teardown(NULL);
}

/* Replace every `what` in `text`, which has room for `size` bytes. */
static void replace(char *text, size_t size, const char *what, const char *with)
{
    char before[512], *at;

    while ((at = strstr(text, what))) {
        snprintf(before, sizeof before, "%s", text);
        snprintf(text, size, "%.*s%s%s", (int)(at - text), before, with,
                 before + (at - text) + strlen(what));
    }
}

int contract_setup(void **state)
{
    static unsigned number;
    const char *tmp = getenv("TMPDIR");
    char id[64];

    (void)state;
    alarm(0);
    snprintf(id, sizeof id, "t%ld-%u", (long)getpid(), ++number);
    snprintf(case_url, sizeof case_url, "%s", url_template);
    replace(case_url, sizeof case_url, "{id}", id);
    case_dir[0] = 0;
    if (strstr(case_url, "{dir}")) {
        snprintf(case_dir, sizeof case_dir, "%s/holdfast-contract-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(case_dir)) {
            perror(case_dir);
            return -1;
        }
        replace(case_url, sizeof case_url, "{dir}", case_dir);
    }
    return 0;
}

void contract_param(const char *param)
{
    size_t len = strlen(case_url);

    snprintf(case_url + len, sizeof case_url - len, "%c%s", strchr(case_url, '?') ? '&' : '?',
             param);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

int contract_teardown(void **state)
{
    (void)state;
    if (case_dir[0])
        nftw(case_dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mem_engine_reset();
    return 0;
}

const char *contract_url(void)
{
    return case_url;
}

const char *url_port(const char *url)
{
    const char *host = strstr(url, "://"), *at;
    size_t len;

    CHECK(host);
    host += 3;
    len = strcspn(host, "/?");
    at = memchr(host, '@', len);
    if (at) {
        len -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    at = memchr(host, ':', len);
    CHECK(at);
    return at + 1;
}

const char *contract_server(void)
{
    static char name[128];
    const char *url = strchr(contract_url(), ':') + 1;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(url, "?"), url);
    return name;
}

bool several_nodes(void)
{
    return strncmp(contract_info.engine, "redlock", 7) == 0;
}

bool has(uint64_t cap)
{
    return (contract_info.caps & cap) == cap;
}

/* ---- checking ------------------------------------------------------------------ */

/* On the main thread cmocka ends the case; elsewhere only the program can be ended. */
static void die(const char *file, int line)
{
    if (!contract_alone && pthread_equal(pthread_self(), main_thread))
        _fail(file, line);
    fflush(NULL);
    _exit(1);
}

void check_true(bool truth, const char *text, const char *file, int line)
{
    if (truth)
        return;
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, text);
    die(file, line);
}

void check_status(hf_status want, hf_status got, const char *text, const char *file, int line)
{
    if (want == got)
        return;
    fprintf(stderr, "%s:%d: %s: %s and not %s (%s)\n", file, line, text, hf_status_name(got),
            hf_status_name(want), contract_error.text);
    die(file, line);
}

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void nap_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/* ---- stores and leases ----------------------------------------------------------- */

/* ---- both forms ---------------------------------------------------------------- */

#define KNOWN_MAX 64

bool contract_pumped;

static struct {
    pthread_mutex_t lock;
    hf_store *stores[KNOWN_MAX]; /* which are pumped for calls that name no store */
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void know_store(hf_store *store, bool open)
{
    int i = 0;

    pthread_mutex_lock(&known.lock);
    while (i < KNOWN_MAX && known.stores[i] != (open ? NULL : store))
        i++;
    if (i < KNOWN_MAX)
        known.stores[i] = open ? store : NULL;
    pthread_mutex_unlock(&known.lock);
}

static void pump(hf_store *store)
{
    hf_store *stores[KNOWN_MAX];

    if (store) {
        hf_store_process(store);
        return;
    }
    pthread_mutex_lock(&known.lock);
    memcpy(stores, known.stores, sizeof stores);
    pthread_mutex_unlock(&known.lock);
    for (int i = 0; i < KNOWN_MAX; i++)
        if (stores[i])
            hf_store_process(stores[i]);
}

void both_done(const hf_result *result, void *arg)
{
    struct both *both = arg;

    both->result = *result;
    both->error = *result->error;
    if (result->leases)
        memcpy(both->leases, result->leases, result->count * sizeof *both->leases);
    atomic_store(&both->done, true);
}

hf_status both_end(hf_store *store, hf_status begun, struct both *both, hf_error *err)
{
    struct timespec pause = { .tv_nsec = 200000 };

    if (begun != HF_OK)
        return begun;
    while (!atomic_load(&both->done)) {
        pump(store);
        nanosleep(&pause, NULL);
    }
    if (err)
        *err = both->error;
    return both->result.status;
}

hf_status both_renew(hf_lease *lease, int64_t ttl_ms, hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped)
        return (hf_renew)(lease, ttl_ms, err);
    return both_end(NULL, hf_renew_async(lease, ttl_ms, both_done, &both, NULL, err), &both, err);
}

hf_status both_convert(hf_lease **lease, hf_kind kind, int64_t wait_ms, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !lease)
        return (hf_convert)(lease, kind, wait_ms, err);
    status = hf_convert_async(*lease, kind, wait_ms, both_done, &both, NULL, err);
    status = both_end(NULL, status, &both, err);
    if (status == HF_OK)
        *lease = both.result.lease;
    return status;
}

hf_status both_break(hf_store *store, const void *name, size_t name_len, uint64_t token,
                     hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped)
        return (hf_lease_break)(store, name, name_len, token, err);
    return both_end(store,
                    hf_lease_break_async(store, name, name_len, token, both_done, &both, NULL, err),
                    &both, err);
}

hf_status both_resize(hf_store *store, const void *name, size_t name_len, uint32_t capacity,
                      hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped)
        return (hf_semaphore_resize)(store, name, name_len, capacity, err);
    return both_end(
        store,
        hf_semaphore_resize_async(store, name, name_len, capacity, both_done, &both, NULL, err),
        &both, err);
}

hf_status both_inspect(hf_store *store, const void *name, size_t name_len, uint64_t flags,
                       hf_view **ret_view, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_view)
        return (hf_store_inspect)(store, name, name_len, flags, ret_view, err);
    status = both_end(
        store, hf_store_inspect_async(store, name, name_len, flags, both_done, &both, NULL, err),
        &both, err);
    if (status == HF_OK)
        *ret_view = both.result.view;
    return status;
}

hf_status both_wait(hf_store *store, uint64_t *seq, int64_t wait_ms, hf_cancel *cancel,
                    hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !seq)
        return (hf_store_wait)(store, seq, wait_ms, cancel, err);
    status = both_end(
        store, hf_store_wait_async(store, *seq, wait_ms, cancel, both_done, &both, NULL, err),
        &both, err);
    if (atomic_load(&both.done))
        *seq = both.result.version;
    return status;
}

hf_status both_adopt(hf_store *store, const hf_adopt_request *request, hf_lease **ret_lease,
                     hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_lease)
        return (hf_lease_adopt)(store, request, ret_lease, err);
    status = both_end(store, hf_lease_adopt_async(store, request, both_done, &both, NULL, err),
                      &both, err);
    if (status == HF_OK)
        *ret_lease = both.result.lease;
    return status;
}

hf_status both_acquire_all(hf_store *store, const hf_acquire_request *requests, size_t count,
                           hf_lease **ret_leases, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_leases)
        return (hf_acquire_all)(store, requests, count, ret_leases, err);
    status =
        both_end(store, hf_acquire_all_async(store, requests, count, both_done, &both, NULL, err),
                 &both, err);
    if (status == HF_OK)
        memcpy(ret_leases, both.leases, count * sizeof *ret_leases);
    return status;
}

hf_status both_acquire_any(hf_store *store, const hf_acquire_request *requests, size_t count,
                           size_t *ret_index, hf_lease **ret_lease, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_index || !ret_lease)
        return (hf_acquire_any)(store, requests, count, ret_index, ret_lease, err);
    status =
        both_end(store, hf_acquire_any_async(store, requests, count, both_done, &both, NULL, err),
                 &both, err);
    if (status == HF_OK) {
        *ret_index = (size_t)both.result.number;
        *ret_lease = both.result.lease;
    }
    return status;
}

hf_status both_release_all(hf_lease *const *leases, size_t count, hf_error *err)
{
    struct both both = { 0 };

    if (!contract_pumped || !leases || count == 0 || count > HF_ACQUIRE_ALL_MAX)
        return (hf_release_all)(leases, count, err);
    return both_end(NULL, hf_release_all_async(leases, count, both_done, &both, NULL, err), &both,
                    err);
}

hf_status both_check(hf_store *store, hf_report **ret_report, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_report)
        return (hf_store_check)(store, ret_report, err);
    status = both_end(store, hf_store_check_async(store, both_done, &both, NULL, err), &both, err);
    if (status == HF_OK)
        *ret_report = both.result.report;
    return status;
}

hf_status both_deadlocks(hf_store *store, hf_deadlocks **ret_deadlocks, hf_error *err)
{
    struct both both = { 0 };
    hf_status status;

    if (!contract_pumped || !ret_deadlocks)
        return (hf_deadlock_list)(store, ret_deadlocks, err);
    status =
        both_end(store, hf_deadlock_list_async(store, both_done, &both, NULL, err), &both, err);
    if (status == HF_OK)
        *ret_deadlocks = both.result.deadlocks;
    return status;
}

/* ---- small steps --------------------------------------------------------------- */

hf_store *open_store(void)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;

    options.label = "contract";
    options.open_wait_ms = LIMIT_MS; /* the machine may be busy */
    EXPECT(HF_OK, hf_open(contract_url(), &options, &store, &contract_error));
    CHECK(store != NULL);
    /* Of the call, and of no step within it. */
    CHECK(contract_error.status == HF_OK && !contract_error.text[0]);
    know_store(store, true);
    return store;
}

void close_store(hf_store *store)
{
    know_store(store, false);
    EXPECT(HF_OK, hf_close(store, 0));
}

hf_acquire_request mutex_request(const char *name)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    return request;
}

hf_acquire_request waiting_request(const char *name)
{
    hf_acquire_request request = mutex_request(name);

    request.wait_ms = LIMIT_MS;
    return request;
}

hf_lease *take(hf_store *store, const hf_acquire_request *request)
{
    hf_lease *lease = NULL;

    EXPECT(HF_OK, hf_acquire(store, request, &lease, &contract_error));
    CHECK(lease != NULL);
    return lease;
}

hf_lease *take_short(hf_store *store, const hf_acquire_request *request)
{
    int64_t until_ms = now_ms() + LIMIT_MS;
    hf_lease *lease = NULL;
    bool too_short = false;
    hf_status status;

    /* What was too short goes back to the store, and may be on its way when we come again. */
    while ((status = hf_acquire(store, request, &lease, &contract_error)) == HF_TOO_SHORT ||
           (status == HF_BUSY && too_short)) {
        CHECK(now_ms() < until_ms);
        too_short = true;
    }
    EXPECT(HF_OK, status);
    CHECK(lease != NULL);
    return lease;
}

void give(hf_lease *lease)
{
    EXPECT(HF_OK, hf_release(lease, &contract_error));
}

hf_status probe(hf_store *store, const hf_acquire_request *request)
{
    hf_lease *lease = NULL;
    hf_status status = hf_acquire(store, request, &lease, &contract_error);

    if (status == HF_OK)
        give(lease);
    return status;
}

static size_t count_parties(hf_store *store, const char *name, bool waiters)
{
    hf_view *view = NULL;
    size_t count = 0;

    EXPECT(HF_OK, hf_store_inspect(store, name, strlen(name), 0, &view, &contract_error));
    CHECK(hf_view_count(view) <= 1);
    if (hf_view_count(view))
        count =
            waiters ? hf_view_entry(view, 0)->waiter_count : hf_view_entry(view, 0)->holder_count;
    hf_free(view);
    return count;
}

size_t count_waiters(hf_store *store, const char *name)
{
    return count_parties(store, name, true);
}

size_t count_holders(hf_store *store, const char *name)
{
    return count_parties(store, name, false);
}

void await_lost(hf_lease *lease)
{
    struct pollfd fd = { .fd = hf_lease_fd(lease), .events = POLLIN };
    hf_lease_info info = HF_LEASE_INFO_INIT;

    CHECK(fd.fd >= 0);
    do { /* it may be at risk first */
        CHECK(poll(&fd, 1, LIMIT_MS) == 1);
        EXPECT(HF_OK, hf_lease_get(lease, &info));
    } while (info.state != HF_STATE_LOST);
}

int thread_id(void)
{
    return (int)syscall(SYS_gettid);
}

static void *attempt_run(void *arg)
{
    struct attempt *attempt = arg;

    attempt->tid = thread_id();
    attempt->status =
        hf_acquire(attempt->store, &attempt->request, &attempt->lease, &contract_error);
    attempt->ended_ms = now_ms();
    attempt->ended = true;
    return NULL;
}

void attempt_start(struct attempt *attempt, hf_store *store, const hf_acquire_request *request)
{
    *attempt = (struct attempt){ .store = store, .request = *request };
    CHECK(pthread_create(&attempt->thread, NULL, attempt_run, attempt) == 0);
}

/* 'S' for a thread that sleeps. */
static char thread_state(int tid)
{
    char path[64], line[512] = "";
    const char *after;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(line, sizeof line, file))
        line[0] = 0;
    fclose(file);
    after = strrchr(line, ')');
    return after && after[1] ? after[2] : 0;
}

void thread_settled(const _Atomic int *tid, const _Atomic bool *ended)
{
    /* Asleep at several looks in a row: on its way it sleeps for moments only. */
    for (int asleep = 0; asleep < 10 && !*ended; nap_ms(5))
        asleep = *tid && thread_state(*tid) == 'S' ? asleep + 1 : 0;
}

static bool others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    bool asleep = true;

    CHECK(tasks != NULL);
    while ((entry = readdir(tasks)) != NULL) {
        int tid = atoi(entry->d_name);

        if (tid > 0 && tid != thread_id())
            asleep = asleep && thread_state(tid) == 'S';
    }
    closedir(tasks);
    return asleep;
}

void others_settled(void)
{
    int64_t until_ms = now_ms() + LIMIT_MS;

    for (int asleep = 0; asleep < 10; nap_ms(5)) {
        CHECK(now_ms() < until_ms);
        asleep = others_sleep() ? asleep + 1 : 0;
    }
}

void attempt_settled(struct attempt *attempt)
{
    thread_settled(&attempt->tid, &attempt->ended);
}

hf_status attempt_join(struct attempt *attempt)
{
    CHECK(pthread_join(attempt->thread, NULL) == 0);
    return attempt->status;
}
