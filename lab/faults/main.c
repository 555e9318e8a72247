/* SPDX-License-Identifier: MIT */
/*
 * holdfast-faults, which `holdfast faults` executes: faults of our own side on a store of somebody's. Workers of ours are killed and
 * stopped, and our connections are cut by a proxy of ours. Nothing is done to the server or to what others have there. All names begin
 * with "faults/PID/"; at the end what we made is removed.
 */
#include "aim.h"
#include "run.h"
#include "worker.h"

#include "proxy.h"
#include "server.h"

#include "holdfast/primitives.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_FOUND    1
#define EXIT_USAGE    64
#define EXIT_NO_STORE 69
#define EXIT_INTERNAL 70
#define FAULTS_MAX    4
#define CUT_MAX       1200
#define WRONG_SHARE   4 /* a quarter of the time is for a wrong client */
#define CLEAN_MS      20000

struct options {
    bool yes, json;
    int64_t seconds;
    int stores_fd;
    char url[URL_ROOM];
};

static struct director director;
static struct proxy *proxy;
static const char *no_proxy; /* why there is none */
static volatile sig_atomic_t interrupted;

/* ---- faults ------------------------------------------------------------------------------------ */

static void strike_cut(void *arg, uint64_t *dice)
{
    (void)arg;
    if (chance(dice, 2)) {
        proxy_refuse(proxy, true);
        proxy_cut(proxy);
    } else {
        proxy_cut_after(proxy, chance(dice, 2) ? PROXY_UP : PROXY_DOWN, chance(dice, CUT_MAX));
    }
    fault_sleep_ms(fault_lasts_ms(director.shared, dice));
    proxy_heal(proxy);
}

static void strike_half_open(void *arg, uint64_t *dice)
{
    (void)arg;
    proxy_block(proxy, chance(dice, 2) ? PROXY_UP : PROXY_DOWN, true);
    fault_sleep_ms(fault_lasts_ms(director.shared, dice));
    proxy_heal(proxy);
}

static unsigned choose_faults(struct fault faults[FAULTS_MAX])
{
    unsigned count = 0;

    faults[count++] = (struct fault){ "client-kill", strike_client_kill, &director, false };
    faults[count++] = (struct fault){ "client-stop", strike_client_stop, &director, false };
    if (proxy) {
        faults[count++] = (struct fault){ "cut", strike_cut, NULL, true };
        faults[count++] = (struct fault){ "half-open", strike_half_open, NULL, true };
    }
    return count;
}

/* ---- before ---------------------------------------------------------------------------------------- */

static bool parse(struct options *o, int argc, char **argv)
{
    o->stores_fd = -1;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--stores-fd=", 12) == 0)
            o->stores_fd = (int)strtol(argv[i] + 12, NULL, 10);
        else if (strncmp(argv[i], "--seconds=", 10) == 0)
            o->seconds = strtoll(argv[i] + 10, NULL, 10);
        else if (strcmp(argv[i], "--yes") == 0)
            o->yes = true;
        else if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else
            return false;
    return o->stores_fd >= 0 && o->seconds > 0;
}

/* The list of stores of cli/program.c: a name, and a URL. */
static bool read_url(struct options *o)
{
    char text[URL_ROOM + 256] = "";
    ssize_t len = read(o->stores_fd, text, sizeof text - 1);
    size_t name = strlen(text) + 1;

    close(o->stores_fd);
    if (len <= 0 || name >= (size_t)len || strlen(text + name) >= sizeof o->url)
        return false;
    memcpy(o->url, text + name, strlen(text + name) + 1);
    return true;
}

/* Open it once, to see that it is there. EXIT status. */
static int look_at_store(const struct options *o)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_store *store;
    hf_error err;

    if (hf_open(o->url, NULL, &store, &err) != HF_OK) {
        fprintf(stderr, "holdfast: %s\n", err.text);
        return EXIT_NO_STORE;
    }
    if (hf_store_get(store, &info) == HF_OK)
        fprintf(stderr,
                "holdfast: for %lld s, %d clients use %s (%s) as fast as they can.\n"
                "They are killed and stopped%s. All names begin with faults/%d/ and are removed at "
                "the end.\nNothing is done to the server, but the load is real: not for a store "
                "that others need now.\n",
                (long long)o->seconds, WORKERS, info.location, info.engine,
                proxy ? ", and their connections are cut" : "", (int)getpid());
    if (no_proxy)
        fprintf(stderr, "Connections are not cut: %s.\n", no_proxy);
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
    return 0;
}

static bool confirmed(const struct options *o)
{
    char answer[16];

    if (o->yes)
        return true;
    fprintf(stderr, "Go on? Type yes: ");
    return fgets(answer, sizeof answer, stdin) && strcmp(answer, "yes\n") == 0;
}

/* ---- after ------------------------------------------------------------------------------------------- */

static void delete_values(hf_store *store, const char *names)
{
    char name[128];
    hf_cell cell = HF_CELL_INIT;

    snprintf(name, sizeof name, "%s/counter", names);
    (void)!hf_counter_delete(store, name, HF_CSTRING, NULL);
    snprintf(name, sizeof name, "%s/cell", names);
    if (hf_cell_get(store, name, HF_CSTRING, &cell, NULL) != HF_OK)
        return;
    hf_free(cell.bytes);
    (void)!hf_cell_delete(store, name, HF_CSTRING, cell.version, NULL);
}

/* Leases of killed workers end with their ttl. Counters and cells are deleted. */
static void clean_up(const struct options *o, const char *names)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    char pattern[128];
    int64_t until_ms = clock_ms() + CLEAN_MS;
    size_t left = 1;
    hf_store *store;

    if (hf_open(o->url, NULL, &store, NULL) != HF_OK)
        return;
    if (hf_store_get(store, &info) == HF_OK && info.caps & HF_CAP_CELLS)
        delete_values(store, names);
    snprintf(pattern, sizeof pattern, "%s/*", names);
    while (left > 0 && info.caps & HF_CAP_INSPECT && clock_ms() < until_ms) {
        hf_view *view;

        if (hf_store_inspect(store, pattern, HF_CSTRING, HF_INSPECT_FLAG_PATTERN, &view, NULL) !=
            HF_OK)
            break;
        left = hf_view_count(view);
        hf_free(view);
        if (left > 0)
            sleep_ms(50);
    }
    hf_close(store, HF_CLOSE_FLAG_RELEASE);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
    atomic_store(&director.shared->history.stop, 1);
}

static bool is_found(const struct outcome *o)
{
    return o->verdict.exclusion > 0 || o->verdict.tokens > 0 || o->hung > 0 ||
           o->ledger_lost[LEDGER_GUARDED] > 0 || o->ledger_lost[LEDGER_COUNTER] > 0 ||
           o->ledger_lost[LEDGER_CELL] > 0;
}

static void print_text(const char *fault, const struct outcome *right, const struct outcome *wrong)
{
    printf("%-12s %8u acquisitions  %4u faults  %u double holds  ", fault,
           outcome_acquisitions(right), right->strikes, right->verdict.exclusion);
    if (right->tokens != HF_TOKEN_STRENGTH_NONE)
        printf("%u tokens went back  %u updates lost with a fence, %u without  ",
               right->verdict.tokens, right->ledger_lost[LEDGER_GUARDED],
               right->ledger_lost[LEDGER_PLAIN]);
    else
        printf("%u updates lost, no fence  ", right->ledger_lost[LEDGER_PLAIN]);
    if (right->caps & HF_CAP_CELLS)
        printf("%u of counters and cells  ",
               right->ledger_lost[LEDGER_COUNTER] + right->ledger_lost[LEDGER_CELL]);
    printf("%u hung  recovers in %lld ms  a wrong client is %s\n", right->hung,
           (long long)right->recover_ms, outcome_caught(wrong) ? "caught" : "NOT CAUGHT");
    fflush(stdout);
}

static struct outcome run_one(const struct options *o, const struct fault *fault, enum wrong wrong,
                              int64_t ms)
{
    struct outcome outcome = run_faults(&director, fault, wrong, ms);
    char names[sizeof director.shared->names];

    memcpy(names, director.shared->names, sizeof names);
    clean_up(o, names);
    return outcome;
}

static int run_all(const struct options *o)
{
    struct fault faults[FAULTS_MAX];
    unsigned count = choose_faults(faults);
    int64_t each_ms = o->seconds * 1000 / count, wrong_ms = each_ms / WRONG_SHARE;
    int status = 0;

    if (o->json)
        printf("[");
    for (unsigned i = 0; i < count && !interrupted; i++) {
        struct outcome right = run_one(o, &faults[i], WRONG_NONE, each_ms - wrong_ms), wrong;

        if (interrupted)
            break;
        wrong = run_one(o, &faults[i], WRONG_EARLY, wrong_ms);
        if (interrupted)
            break;
        if (!right.began)
            return EXIT_NO_STORE;
        if (o->json) {
            printf("%s{\"fault\": \"%s\", \"right\": ", i ? ",\n " : "", faults[i].name);
            outcome_print(&right, stdout);
            printf(", \"wrong\": ");
            outcome_print(&wrong, stdout);
            printf("}");
        } else {
            print_text(faults[i].name, &right, &wrong);
        }
        if (is_found(&right) || !outcome_caught(&wrong))
            status = EXIT_FOUND;
    }
    if (o->json)
        printf("]\n");
    return interrupted ? 128 + SIGINT : status;
}

static void end(void *dir)
{
    remove_dir(dir);
}

static void prepare(const struct options *o)
{
    static char dir[SERVER_PATH_ROOM];
    struct sigaction action = { .sa_handler = on_signal };
    struct aim aim;

    make_dir(dir, sizeof dir, "faults", false);
    server_keep(dir, end);
    director.shared = director.crew.shared = shared_new(&director.crew.fd);
    if (!director.shared)
        give_up("holdfast: no shared memory: %s", strerror(errno));
    director.crew.far_net = -1;
    director.dice = (uint64_t)history_now_ns();
    snprintf(director.shared->vault, sizeof director.shared->vault, "file:%s/vault", dir);
    memcpy(director.shared->url, o->url, sizeof o->url);
    no_proxy = aim_at(o->url, &aim);
    if (!no_proxy) {
        proxy = proxy_start_to(&aim.server);
        aim_through(&aim, proxy_port(proxy), director.shared->url);
    }
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int main(int argc, char **argv)
{
    int status = worker_arguments(argc, argv);
    struct options options = { 0 };

    if (status >= 0)
        return status;
    if (!parse(&options, argc, argv)) {
        fprintf(stderr, "holdfast-faults: `holdfast faults` runs this program\n");
        return EXIT_USAGE;
    }
    if (!read_url(&options))
        return EXIT_INTERNAL;
    if (!options.yes && !isatty(STDIN_FILENO)) {
        fprintf(stderr, "holdfast: without a terminal that could say yes: --yes\n");
        return EXIT_USAGE;
    }
    prepare(&options);
    status = look_at_store(&options);
    if (status == 0 && !confirmed(&options))
        status = EXIT_USAGE;
    if (status == 0)
        status = run_all(&options);
    proxy_stop(proxy);
    exit(status);
}
