/* SPDX-License-Identifier: MIT */
/* Our side of a contest: one store for each process and URL, which its threads share. */
#include "contest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define STORES_MAX 8

struct plan {
    const char *url;
    hf_acquire_request request;
};

struct worker {
    hf_store *store;
    const hf_acquire_request *request;
    hf_lease *lease;
};

/* The first worker of this process that asks for this URL opens it. */
static hf_store *process_store(const char *url)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        const char *url;
        hf_store *store;
    } opened[STORES_MAX];
    size_t i = 0;
    hf_store *store;

    pthread_mutex_lock(&mutex);
    while (i < STORES_MAX && opened[i].url && strcmp(opened[i].url, url) != 0)
        i++;
    if (i == STORES_MAX)
        bench_die("more than %d stores", STORES_MAX);
    if (!opened[i].url) {
        opened[i].url = url;
        opened[i].store = ours_open_url(url);
    }
    store = opened[i].store;
    pthread_mutex_unlock(&mutex);
    return store;
}

static void *open_worker(size_t index, void *arg)
{
    const struct plan *plan = arg;
    struct worker *worker = calloc(1, sizeof *worker);

    (void)index;
    if (!worker)
        bench_die("out of memory");
    worker->store = process_store(plan->url);
    worker->request = &plan->request;
    return worker;
}

static void acquire(void *self)
{
    struct worker *worker = self;

    worker->lease = ours_acquire(worker->store, worker->request);
}

static void release(void *self)
{
    ours_release(((struct worker *)self)->lease);
}

struct contest_side contest_ours_as(const char *name, const char *url,
                                    const hf_acquire_request *request)
{
    struct plan *plan = calloc(1, sizeof *plan);

    if (!plan || !(plan->url = strdup(url)))
        bench_die("out of memory");
    plan->request = *request;
    if (!plan->request.name) {
        plan->request.name = OURS_NAME;
        plan->request.name_len = HF_CSTRING;
    }
    return (struct contest_side){ name, open_worker, acquire, release, plan };
}

struct contest_side contest_ours(const char *name, const char *url, uint64_t flags)
{
    hf_acquire_request request = ours_request(OURS_NAME, flags);

    return contest_ours_as(name, url, &request);
}
