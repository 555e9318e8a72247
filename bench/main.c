/* SPDX-License-Identifier: MIT */
/*
 * holdfast-bench: Holdfast's speed as ratios to hand-written loops, measured in one run.
 * The command line; which measurements run; where their results go.
 */
#include "isolate.h"
#include "out.h"

#include "../test/lib/own_network.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PROGRAM       "holdfast-bench"
#define SECONDS       8.0
#define SECONDS_QUICK 0.5
#define SECONDS_MAX   3600.0
#define MOST_MAX      1000000

enum { EXIT_FINE = 0, EXIT_USAGE = 64, EXIT_OUTPUT = 74 };

struct options {
    bool quick, json, list, help, growth;
    double seconds; /* 0: not given */
    unsigned most;  /* 0: not given */
    const char *svg;
    bool named[MEASURES_MAX], any_named; /* by the caller */
    bool chosen[MEASURES_MAX];
};

static const char help[] =
    "usage: " PROGRAM " [OPTION...] [NAME...]\n"
    "\n"
    "Measures Holdfast against hand-written loops that do the least that is needed. Both\n"
    "sides of a ratio are measured in the same run, in alternating short rounds.\n"
    "\n"
    "NAME is a measurement or a group of them (embedded, redis, redlock, memcached, etcd,\n"
    "zookeeper, postgres, mariadb, prims); without any, all are done.\n"
    "\n"
    "  --only NAME     the same as NAME\n"
    "  --growth        curves instead of ratios: what a pair, a hand-over and a renewal cost, and\n"
    "                  the memory, by names held, waiters and clients; NAME is embedded, redis or\n"
    "                  postgres. It takes some minutes; with --svg they are drawn\n"
    "  --most N        the last point of these curves (default: what a small machine can do)\n"
    "  --quick         a rough look in a few seconds\n"
    "  --seconds S     time for each measurement (default 8, with --quick 0.5)\n"
    "  --json          print JSON instead of a table\n"
    "  --svg FILE      also draw the ratios against their targets\n"
    "  --list          list the measurements\n"
    "  --help          this text\n"
    "\n"
    "Stores are made in a directory under $TMPDIR, else /tmp, and removed afterwards. For\n"
    "redis a redis-server (or valkey-server) of our own runs there, on a free port of the\n"
    "loopback, and so it is with the servers of the other groups (some in /dev/shm); if none is\n"
    "installed, that group says so and is skipped. The exit status is 0 whether or not targets are "
    "met, 64 after a usage error,\n"
    "70 if a measurement could not be done, 74 if the results could not be written.\n"
    "\n"
    "JSON: version, cpu, kernel, file_system, quick, seconds and measurements, a list of\n"
    "name, group, about, seconds, error and skipped (null: no) and rows. A row has what, unit\n"
    "(per_second, microseconds, bytes, plain), measured, against and baseline (null: nothing\n"
    "to compare with), ratio = measured / baseline as the median over the rounds with its\n"
    "quartiles ratio_low and ratio_high, rounds, target (null, or {of: ratio|measured,\n"
    "at_least or at_most, aim}) and met (null, true or false). With --growth it has axis\n"
    "(names, waiters or clients) and at, the point there.\n";

/* ---- the command line ------------------------------------------------------------- */

static int usage(const char *what, const char *value)
{
    fprintf(stderr, PROGRAM ": %s%s; see --help\n", what, value);
    return EXIT_USAGE;
}

static bool is_growth(size_t index)
{
    return strcmp(measures[index].group, GROWTH) == 0;
}

static int choose(struct options *options, const char *name)
{
    bool found = false;

    for (size_t i = 0; measures[i].name; i++)
        if (strcmp(measures[i].name, name) == 0 || strcmp(measures[i].group, name) == 0 ||
            (is_growth(i) && strcmp(measures[i].name + strlen(GROWTH "-"), name) == 0))
            options->named[i] = found = true;
    if (!found)
        return usage("no such measurement or group: ", name);
    options->any_named = true;
    options->growth |= strncmp(name, GROWTH, strlen(GROWTH)) == 0;
    return EXIT_FINE;
}

/* With --growth, or a name that says so, its measurements are done and no others. */
static int settle(struct options *options)
{
    bool any = false;

    for (size_t i = 0; measures[i].name; i++) {
        bool named = options->named[i] || !options->any_named;

        options->chosen[i] = named && is_growth(i) == options->growth;
        any |= options->chosen[i];
    }
    return any ? EXIT_FINE : usage("--growth measures embedded, redis and postgres", "");
}

static int set_seconds(struct options *options, const char *text)
{
    char *end;

    options->seconds = strtod(text, &end);
    if (end == text || *end || !(options->seconds > 0) || options->seconds > SECONDS_MAX)
        return usage("--seconds: not a number above 0, up to 3600: ", text);
    return EXIT_FINE;
}

static int set_most(struct options *options, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (end == text || *end || *text == '-' || value < 1 || value > MOST_MAX)
        return usage("--most: not a number from 1 to 1000000: ", text);
    options->most = (unsigned)value;
    return EXIT_FINE;
}

static int parse(int argc, char **argv, struct options *options)
{
    enum { ONLY, GROWTH_OPTION, MOST, QUICK, SECONDS_OPTION, JSON, SVG, LIST, HELP };
    static const struct option table[] = {
        { "only", required_argument, NULL, ONLY },
        { "growth", no_argument, NULL, GROWTH_OPTION },
        { "most", required_argument, NULL, MOST },
        { "quick", no_argument, NULL, QUICK },
        { "seconds", required_argument, NULL, SECONDS_OPTION },
        { "json", no_argument, NULL, JSON },
        { "svg", required_argument, NULL, SVG },
        { "list", no_argument, NULL, LIST },
        { "help", no_argument, NULL, HELP },
        { 0 },
    };
    int option, rc = EXIT_FINE;

    while (rc == EXIT_FINE && (option = getopt_long(argc, argv, "h", table, NULL)) != -1)
        switch (option) {
        case ONLY:
            rc = choose(options, optarg);
            break;
        case GROWTH_OPTION:
            options->growth = true;
            break;
        case MOST:
            rc = set_most(options, optarg);
            break;
        case QUICK:
            options->quick = true;
            break;
        case SECONDS_OPTION:
            rc = set_seconds(options, optarg);
            break;
        case JSON:
            options->json = true;
            break;
        case SVG:
            options->svg = optarg;
            break;
        case LIST:
            options->list = true;
            break;
        case HELP:
        case 'h':
            options->help = true;
            break;
        default:
            rc = EXIT_USAGE; /* getopt has said why */
        }
    while (rc == EXIT_FINE && optind < argc)
        rc = choose(options, argv[optind++]);
    return rc == EXIT_FINE ? settle(options) : rc;
}

/* ---- what we run on ------------------------------------------------------------------ */

static void describe(struct run *run)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256], model[64] = "CPU";
    struct utsname name;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %63[^\n]", model) == 1)
            break;
    if (file)
        fclose(file);
    snprintf(run->cpu, sizeof run->cpu, "%ld x %s", sysconf(_SC_NPROCESSORS_ONLN), model);
    if (uname(&name) == 0)
        snprintf(run->kernel, sizeof run->kernel, "%.40s %.50s", name.sysname, name.release);
}

/* Beside us in the build; from libexec once installed. */
static const char *find_holdfast(void)
{
    static char path[PATH_MAX];
    static const char *const places[] = { "holdfast", BENCH_TO_BIN "/holdfast" };
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (len < 0)
        return NULL;
    self[len] = 0;
    slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    slash[1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(path, sizeof path, "%s%s", self, places[i]) < (int)sizeof path &&
            access(path, X_OK) == 0)
            return path;
    return NULL;
}

/* ---- running --------------------------------------------------------------------------- */

static int run_one(struct run *run, const struct measure *measure, struct bench bench,
                   struct progress *progress)
{
    char dir[PATH_MAX];
    int taken = 0, rc = place_sub(run->place, measure->name, dir);

    bench.dir = dir;
    bench.report =
        mmap(NULL, sizeof *bench.report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench.report == MAP_FAILED || rc != 0) {
        fprintf(stderr, PROGRAM ": %s: %s\n", dir, strerror(rc != 0 ? rc : errno));
        exit(EXIT_INTERNAL);
    }
    progress->name = measure->about;
    taken = isolate(measure, &bench, progress_draw, progress);
    place_remove(dir);
    progress->done++;
    run->measures[run->count] = measure;
    run->reports[run->count++] = bench.report;
    return taken;
}

/* Returns 0, or the signal that ended it. */
static int run_all(struct run *run, const struct options *options)
{
    struct bench bench = { .quick = options->quick,
                           .most = options->most,
                           .holdfast = find_holdfast() };
    int64_t start = bench_ns();
    struct progress progress;
    size_t total = 0;
    int taken = 0;

    bench.seconds = options->seconds > 0 ? options->seconds
                    : options->quick     ? SECONDS_QUICK
                                         : SECONDS;
    for (size_t i = 0; measures[i].name; i++)
        total += options->chosen[i];
    progress_init(&progress, total);
    isolate_init();
    for (size_t i = 0; taken == 0 && measures[i].name; i++)
        if (options->chosen[i])
            taken = run_one(run, &measures[i], bench, &progress);
    progress_end(&progress);
    run->seconds = (double)(bench_ns() - start) / 1e9;
    return taken;
}

/* ---- results ------------------------------------------------------------------------------ */

static int finish(FILE *file, const char *name)
{
    bool failed = ferror(file) != 0;

    if (fclose(file) != 0 || failed) {
        fprintf(stderr, PROGRAM ": cannot write %s: %s\n", name, strerror(errno));
        return EXIT_OUTPUT;
    }
    return EXIT_FINE;
}

static int results(const struct run *run, const struct options *options, FILE *svg)
{
    bool color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    int rc = EXIT_FINE, svg_rc = EXIT_FINE;
    bool failed = false;

    if (options->json)
        out_json(run, stdout);
    else
        out_table(run, stdout, color);
    rc = finish(stdout, "the results");
    if (svg) {
        if (options->growth)
            out_curves(run, svg);
        else
            out_svg(run, svg);
        svg_rc = finish(svg, options->svg);
    }
    for (size_t i = 0; i < run->count; i++)
        if (run->reports[i]->failed) {
            fprintf(stderr, PROGRAM ": %s: %s\n", run->measures[i]->name, run->reports[i]->error);
            failed = true;
        }
    return failed ? EXIT_INTERNAL : rc ? rc : svg_rc;
}

static int list(void)
{
    for (size_t i = 0; measures[i].name; i++)
        printf("%-14s %-8s  %s\n", measures[i].name, measures[i].group, measures[i].about);
    return finish(stdout, "the list");
}

int main(int argc, char **argv)
{
    struct options options = { 0 };
    struct place place = { 0 };
    struct run run = { .place = &place };
    FILE *svg = NULL;
    int rc = parse(argc, argv, &options), taken;

    if (rc != EXIT_FINE)
        return rc;
    if (options.help) {
        fputs(help, stdout);
        return finish(stdout, "this text");
    }
    if (options.list)
        return list();
    if (options.svg && !(svg = fopen(options.svg, "we"))) {
        fprintf(stderr, PROGRAM ": %s: %s\n", options.svg, strerror(errno));
        return EXIT_OUTPUT;
    }
    close_to_others();
    rc = place_make(&place);
    if (rc != 0) {
        fprintf(stderr, PROGRAM ": %s: %s\n", place.dir, strerror(rc));
        if (svg)
            fclose(svg);
        return EXIT_INTERNAL;
    }

    run.quick = options.quick;
    describe(&run);
    taken = run_all(&run, &options);
    place_remove(place.dir);
    if (taken != 0) { /* end by that signal, as its sender expects */
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, taken);
        signal(taken, SIG_DFL);
        raise(taken);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return results(&run, &options, svg);
}
