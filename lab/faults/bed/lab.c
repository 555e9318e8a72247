/* SPDX-License-Identifier: MIT */
/*
 * holdfast-faults-lab: one cell of the table of faults. lab/faults/run.py starts it for each cell.
 *
 *   faults_lab list                                  all modes and faults, and why some do not go together, as JSON
 *   faults_lab cell MODE FAULT [SECONDS [WRONG-SECONDS [SEED]]]
 *                                                    run it, and print one JSON object
 */
#include "lab.h"

#include "../worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const fault_names[FAULTS] = {
#define FAULT_NAME(id, name, text) name,
    FAULT_MAP(FAULT_NAME)
#undef FAULT_NAME
};
const char *const fault_texts[FAULTS] = {
#define FAULT_TEXT(id, name, text) text,
    FAULT_MAP(FAULT_TEXT)
#undef FAULT_TEXT
};

/* Redlock: the shortest max_ttl there is, so that a node that was wiped votes again soon. */
const struct mode modes[] = {
    { "embedded", &bed_file, 0, "", -1 },
    { "embedded, ttl", &bed_file, 0, "", 0 },
    { "redis", &bed_redis, 0, "", 0 },
    { "redis wire=plain", &bed_redis, 0, "wire=plain", 0 },
    { "redis wire=redisson", &bed_redis, 0, "wire=redisson", 0 },
    { "redis sentinel", &bed_sentinel, 0, "", 0 },
    { "redis sentinel sync=1", &bed_sentinel, 0, "sync=1", 0 },
    { "redis cluster", &bed_cluster, 0, "", 0 },
    { "redlock", &bed_redlock, 0, "max_ttl=3s", 0 },
    { "redlock wire=plain", &bed_redlock, 0, "wire=plain", 0 },
    { "memcached", &bed_memcached, 0, "op_timeout=1s", 0 },
    { "etcd", &bed_etcd, 1, "", 0 },
    { "etcd, three", &bed_etcd, 3, "", 0 },
    { "zookeeper", &bed_zookeeper, 1, "timeout=3s", 0 },
    { "zookeeper, three", &bed_zookeeper, 3, "timeout=3s", 0 },
    { "postgres", &bed_postgres, 0, "", 0 },
    { "postgres mode=row", &bed_postgres, 0, "mode=row&tokens=on&connections=40", 0 },
    { "postgres mode=session", &bed_postgres, 0, "mode=session&tokens=on&connections=40", 0 },
    { "postgres standby", &bed_standby, 0, "", 0 },
    { "postgres standby, synchronous", &bed_standby, 1, "", 0 },
    { "mariadb", &bed_mariadb, 0, "", 0 },
    { "mariadb mode=row", &bed_mariadb, 0, "mode=row&tokens=on&connections=40", 0 },
    { "mariadb mode=session", &bed_mariadb, 0, "mode=session&tokens=on&connections=40", 0 },
    { NULL, NULL, 0, NULL, 0 }
};

/* ---- the list --------------------------------------------------------------------------------- */

static int list(void)
{
    printf("{\"faults\": {");
    for (unsigned i = 0; i < FAULTS; i++)
        printf("%s\"%s\": \"%s\"", i ? ", " : "", fault_names[i], fault_texts[i]);
    printf("}, \"modes\": {");
    for (const struct mode *mode = modes; mode->name; mode++) {
        printf("%s\"%s\": {", mode == modes ? "" : ", ", mode->name);
        for (unsigned i = 0; i < FAULTS; i++) {
            const struct lab lab = { .mode = mode };
            const char *why = mode->bed->why_not(&lab, (enum fault_kind)i);

            printf("%s\"%s\": \"%s\"", i ? ", " : "", fault_names[i], why ? why : "");
        }
        printf("}");
    }
    printf("}}\n");
    return 0;
}

/* ---- a cell ------------------------------------------------------------------------------------ */

static bool through_proxies(enum fault_kind fault)
{
    return fault == FAULT_CUT || fault == FAULT_HALF_OPEN || fault == FAULT_SLOW;
}

static void end(void *arg)
{
    const struct lab *lab = arg;

    remove_dir(lab->dir);
}

static void begin(struct lab *lab)
{
    struct director *d = &lab->director;
    uint16_t ports[MEMBERS_MAX] = { 0 };

    make_dir(lab->dir, sizeof lab->dir, "faults", false);
    server_keep(lab, end);
    d->shared = shared_new(&d->crew.fd);
    if (!d->shared)
        give_up("no shared memory");
    d->crew.shared = d->shared;
    d->crew.far_net = -1;
    snprintf(d->shared->vault, sizeof d->shared->vault, "file:%s/vault", lab->dir);
    d->shared->ttl_ms = lab->mode->ttl_ms;
    if (lab->fault == FAULT_LOSS || lab->fault == FAULT_PARTITION)
        net_begin(&d->crew.far_net);
    if (lab->fault == FAULT_DISK_FULL)
        disk_begin();
    if (lab->fault == FAULT_CLIENT_CLOCK || lab->fault == FAULT_CLOCK_FORWARD ||
        lab->fault == FAULT_CLOCK_BACK)
        clock_begin(lab, lab->fault != FAULT_CLIENT_CLOCK);
    lab->mode->bed->start(lab);
    for (unsigned i = 0; i < lab->count; i++) {
        if (through_proxies(lab->fault))
            lab->proxies[i] = proxy_start(lab->ports[i]);
        ports[i] = lab->proxies[i] ? proxy_port(lab->proxies[i]) : lab->ports[i];
    }
    lab->mode->bed->url(lab, ports, d->shared->url);
}

static struct outcome run(struct lab *lab, const struct fault *fault, enum wrong wrong, int64_t ms)
{
    struct outcome outcome;

    lab_tend(lab);
    outcome = run_faults(&lab->director, fault, wrong, ms);
    if (!outcome.began)
        fprintf(stderr, "faults: %s, %s: the store cannot be opened\n", lab->mode->name,
                fault->name);
    return outcome;
}

/*
 * Right clients; then a wrong one that ignores its validity; if the fault of this cell lets no lease end, that rule does not
 * matter here, and one that goes on after its release shows that the checker sees.
 */
static int cell(struct lab *lab, int64_t for_ms, int64_t wrong_ms)
{
    struct outcome outcomes[WRONGS];
    struct fault fault;
    unsigned count = 0;
    time_t now = time(NULL);
    char when[32];

    begin(lab);
    fault = lab_fault(lab);
    outcomes[count++] = run(lab, &fault, WRONG_NONE, for_ms);
    if (wrong_ms > 0)
        outcomes[count++] = run(lab, &fault, WRONG_VALIDITY, wrong_ms);
    if (wrong_ms > 0 && !outcome_caught(&outcomes[1]))
        outcomes[count++] = run(lab, &fault, WRONG_EARLY, wrong_ms / 2);

    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    printf("{\"mode\": \"%s\", \"fault\": \"%s\", \"date\": \"%s\", \"seconds\": %.1f, "
           "\"right\": ",
           lab->mode->name, fault.name, when, (double)for_ms / 1000);
    outcome_print(&outcomes[0], stdout);
    printf(", \"wrong\": [");
    for (unsigned i = 1; i < count; i++) {
        printf("%s", i > 1 ? ", " : "");
        outcome_print(&outcomes[i], stdout);
    }
    printf("]}\n");
    fflush(stdout);
    return outcomes[0].began ? 0 : 1;
}

static int find(const char *const *names, unsigned count, const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

int main(int argc, char **argv)
{
    static struct lab lab;
    int status = worker_arguments(argc, argv), fault;
    const char *why;

    if (status >= 0)
        return status;
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list();
    if (argc < 4 || argc > 7 || strcmp(argv[1], "cell") != 0)
        give_up("usage: faults_lab list | cell MODE FAULT [SECONDS [WRONG-SECONDS [SEED]]]");
    for (lab.mode = modes; lab.mode->name && strcmp(lab.mode->name, argv[2]) != 0; lab.mode++)
        ;
    fault = find(fault_names, FAULTS, argv[3]);
    if (!lab.mode->name || fault < 0)
        give_up("no such cell: %s, %s", argv[2], argv[3]);
    lab.fault = (enum fault_kind)fault;
    why = lab.mode->bed->why_not(&lab, lab.fault);
    if (why)
        give_up("%s, %s: %s", argv[2], argv[3], why);
    lab.director.complain = getenv("FAULTS_COMPLAIN") != NULL;
    lab.director.dice = argc > 6 ? strtoull(argv[6], NULL, 10) : (uint64_t)history_now_ns();
    status = cell(&lab, argc > 4 ? (int64_t)(1000 * strtod(argv[4], NULL)) : 6000,
                  argc > 5 ? (int64_t)(1000 * strtod(argv[5], NULL)) : 3000);
    for (unsigned i = 0; i < lab.count; i++)
        proxy_stop(lab.proxies[i]);
    exit(status); /* the servers are ended there */
}
