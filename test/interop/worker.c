/* SPDX-License-Identifier: MIT */
/*
 * interop_worker URL: Holdfast's side of the tests with foreign clients. Reads commands, a line
 * each, and answers each by a line; the foreign workers speak the same (see interop.py):
 *
 *   acquire NAME WAIT_MS TTL_MS     OK, BUSY, TIMEOUT, ... (TTL_MS below 0: so long, not renewed)
 *   again NAME TTL_MS               as acquire, without waiting, and as often as one likes (reentrant; Redisson)
 *   holds                           how often it is held (Redisson)
 *   release                         OK, LOST, ...
 *   extend TTL_MS                   OK, LOST, ...; a foreign one may say "cannot"
 *   hammer NAME FILE COUNT          COUNT times: acquire, raise the number in FILE by one, release
 *   storm NAME FILE COUNT           likewise, but a release may stay unknown: a node may be gone with our vote
 */
#include "holdfast/holdfast.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HAMMER_WAIT_MS 120000
#define HAMMER_TTL_MS  10000

static hf_store *store;
static hf_lease *lease;
static hf_error err;

static void answer(const char *text)
{
    puts(text);
    fflush(stdout);
}

static hf_status acquire(const char *name, int64_t wait_ms, int64_t ttl_ms, uint64_t flags)
{
    hf_acquire_request request = HF_ACQUIRE_REQUEST_INIT;

    request.name = name;
    request.name_len = HF_CSTRING;
    request.wait_ms = wait_ms;
    request.ttl_ms = ttl_ms < 0 ? -ttl_ms : ttl_ms;
    request.flags = flags | (ttl_ms < 0 ? HF_FLAG_NO_RENEW : 0);
    return hf_acquire(store, &request, &lease, &err);
}

/* Not atomically, and with a moment between reading and writing: the lock must see to the rest. */
static void raise_number(const char *path)
{
    FILE *file = fopen(path, "r");
    long number = -1;

    if (!file || fscanf(file, "%ld", &number) != 1) {
        fprintf(stderr, "worker: cannot read %s\n", path);
        exit(1);
    }
    fclose(file);
    usleep(200);
    file = fopen(path, "w");
    if (!file || fprintf(file, "%ld\n", number + 1) < 0 || fclose(file) != 0) {
        fprintf(stderr, "worker: cannot write %s\n", path);
        exit(1);
    }
}

static const char *hammer(const char *name, const char *path, int count, bool storm)
{
    for (int i = 0; i < count; i++) {
        hf_status status = acquire(name, HAMMER_WAIT_MS, HAMMER_TTL_MS, 0);

        if (status != HF_OK)
            return hf_status_name(status);
        raise_number(path);
        status = hf_release(lease, &err);
        if (status != HF_OK && !(storm && (status == HF_UNKNOWN || status == HF_LOST)))
            return hf_status_name(status);
    }
    return "OK";
}

static void answer_holds(void)
{
    hf_lease_info info = { .size = sizeof info };

    if (hf_lease_get(lease, &info) != HF_OK)
        info.holds = 0;
    printf("%" PRIu32 "\n", info.holds);
    fflush(stdout);
}

static void serve(char *line)
{
    char word[16], name[256], path[512];
    int64_t wait_ms, ttl_ms;
    int count;

    err.text[0] = 0;
    if (sscanf(line, "acquire %255s %" SCNd64 " %" SCNd64, name, &wait_ms, &ttl_ms) == 3)
        answer(hf_status_name(acquire(name, wait_ms, ttl_ms, 0)));
    else if (sscanf(line, "again %255s %" SCNd64, name, &ttl_ms) == 2)
        answer(hf_status_name(acquire(name, 0, ttl_ms, HF_FLAG_REENTRANT)));
    else if (strncmp(line, "holds", 5) == 0)
        answer_holds();
    else if (sscanf(line, "hammer %255s %511s %d", name, path, &count) == 3)
        answer(hammer(name, path, count, false));
    else if (sscanf(line, "storm %255s %511s %d", name, path, &count) == 3)
        answer(hammer(name, path, count, true));
    else if (sscanf(line, "extend %" SCNd64, &ttl_ms) == 1)
        answer(hf_status_name(hf_renew(lease, ttl_ms, &err)));
    else if (sscanf(line, "%15s", word) == 1 && strcmp(word, "release") == 0)
        answer(hf_status_name(hf_release(lease, &err)));
    else
        answer("what?");
    if (err.text[0] && err.status != HF_BUSY && err.status != HF_LOST)
        fprintf(stderr, "worker: %s\n", err.text);
}

int main(int argc, char **argv)
{
    static char line[1024];

    if (argc != 2)
        return 64;
    if (hf_open(argv[1], NULL, &store, &err) != HF_OK) {
        fprintf(stderr, "worker: %s\n", err.text);
        return 1;
    }
    answer("ready");
    while (fgets(line, sizeof line, stdin))
        serve(line);
    return hf_close(store, HF_CLOSE_FLAG_RELEASE) == HF_OK ? 0 : 1;
}
