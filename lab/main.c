/* SPDX-License-Identifier: MIT */
/*
 * holdfast-lab, which `holdfast lab` executes (cli/lab.c makes the arguments):
 *
 *   holdfast-lab [--stores-fd=N] [--lang en|zh] [--repeat N] [--svg FILE] [--html FILE] [--code] [--json] [--plain|--colored] NAME
 *   holdfast-lab ... --all DIR      every experiment, and a gallery
 *   holdfast-lab --list
 *
 * --stores-fd: the user's own server (cli/program.c); without it servers are started, and end with the program. Exit status: 0: everything
 * went as told; 1: something did not; 69: a server is not installed; 64: usage; 74: a file cannot be written.
 */
#include "run.h"

#include "../cli/closest.h"
#include "own_network.h"
#include "redis_server.h"

#include "util/text.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_OTHERWISE 1
#define EXIT_USAGE     64
#define EXIT_NO_SERVER 69
#define EXIT_INTERNAL  70
#define EXIT_FILE      74

struct options {
    const char *name, *svg, *html, *all;
    bool list, json, code;
    uint64_t repeat;
    int stores_fd;
    struct look look;
};

/* ---- arguments ---------------------------------------------------------------------------------------- */

static bool take_word(struct options *options, const char *word, const char *next, int *skip)
{
    static const char fd_prefix[] = "--stores-fd=";
    const struct {
        const char *word;
        const char **value;
    } words[] = { { "--svg", &options->svg },
                  { "--html", &options->html },
                  { "--all", &options->all } };
    uint64_t fd;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i].word) == 0 && next) {
            *words[i].value = next;
            *skip = 1;
            return true;
        }
    if (strncmp(word, fd_prefix, strlen(fd_prefix)) == 0 &&
        !hfi_parse_u64(word + strlen(fd_prefix), 0, INT_MAX, &fd))
        options->stores_fd = (int)fd;
    else if (strcmp(word, "--repeat") == 0 && next &&
             !hfi_parse_u64(next, 1, 10000, &options->repeat))
        *skip = 1;
    else if (strcmp(word, "--lang") == 0 && next &&
             (strcmp(next, "en") == 0 || strcmp(next, "zh") == 0)) {
        options->look.lang = next[0] == 'z' ? LANG_ZH : LANG_EN;
        *skip = 1;
    } else if (strcmp(word, "--code") == 0)
        options->look.code = true;
    else if (strcmp(word, "--json") == 0)
        options->json = true;
    else if (strcmp(word, "--list") == 0)
        options->list = true;
    else if (strcmp(word, "--plain") == 0)
        options->look.color = false;
    else if (strcmp(word, "--colored") == 0)
        options->look.color = true;
    else if (word[0] != '-' && !options->name)
        options->name = word;
    else
        return false;
    return true;
}

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int skip = 0;

        if (!take_word(options, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &skip))
            return false;
        i += skip;
    }
    return options->list || options->all || options->name;
}

/* The store of the user: a name and a URL, each with its NUL. */
static bool read_store(int fd, char *url, size_t room)
{
    char both[8192];
    ssize_t len = read(fd, both, sizeof both - 1);
    char *second;

    close(fd);
    if (len <= 0)
        return false;
    both[len] = 0;
    second = memchr(both, 0, (size_t)len);
    if (!second || second + 1 >= both + len || strlen(second + 1) >= room)
        return false;
    strcpy(url, second + 1);
    explicit_bzero(both, sizeof both);
    return true;
}

/* ---- output ---------------------------------------------------------------------------------------------- */

static void list(const struct options *options)
{
    json_t *all = json_array();

    for (size_t i = 0; experiments[i]; i++) {
        const char *title = phrase(&experiments[i]->title, options->look.lang);

        if (options->json)
            json_array_append_new(
                all, json_pack("{s:s, s:s}", "experiment", experiments[i]->id, "title", title));
        else
            printf("%-18s %s\n", experiments[i]->id, title);
    }
    if (options->json) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(all);
}

static const struct experiment *find(const char *name)
{
    for (size_t i = 0; experiments[i]; i++)
        if (strcmp(experiments[i]->id, name) == 0)
            return experiments[i];
    return NULL;
}

typedef void draw_fn(FILE *out, const struct report *report, enum lang lang);

static bool draw_file(const char *path, draw_fn *draw, const struct report *report, enum lang lang)
{
    FILE *file = fopen(path, "w");
    bool good = file != NULL;

    if (file) {
        draw(file, report, lang);
        good = !ferror(file);
        good = fclose(file) == 0 && good;
    }
    if (!good)
        fprintf(stderr, "holdfast lab: %s: %s\n", path, strerror(errno));
    return good;
}

static json_t *json_of(const struct report *report, enum lang lang)
{
    json_t *ways = json_array();

    for (size_t i = 0; i < report->ways; i++) {
        const struct finding *finding = &report->findings[i];
        const struct way *way = &report->experiment->ways[i];

        json_array_append_new(
            ways, json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:s}", "way", phrase(&way->title, lang),
                            "ours", way->ours, "should_break", way->breaks, "runs",
                            (int)finding->runs, "broke", (int)finding->broke, "unclear",
                            (int)finding->unclear, "verdict", finding->verdict.text[lang]));
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "experiment", report->experiment->id, "title",
                     phrase(&report->experiment->title, lang), "server", report->server, "as_told",
                     report_as_told(report), "ways", ways);
}

static bool show(const struct options *options, const struct report *report)
{
    bool good = true;

    if (options->json) {
        json_t *json = json_of(report, options->look.lang);

        json_dumpf(json, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(json);
    } else {
        draw_terminal(stdout, report, &options->look);
    }
    fflush(stdout);
    if (options->svg)
        good = draw_file(options->svg, draw_svg, report, options->look.lang) && good;
    if (options->html)
        good = draw_file(options->html, draw_html, report, options->look.lang) && good;
    return good;
}

/* ---- while it runs --------------------------------------------------------------------------------------- */

static enum lang progress_lang;

/* One line of a terminal, which the next one replaces: an experiment takes seconds, and somebody watches. */
static void show_progress(const struct experiment *experiment, int way, unsigned run, unsigned runs)
{
    static const struct phrase starting = PHRASE("starting servers", "正在启动服务器"),
                               trial = PHRASE("run %u of %u", "第 %u 次，共 %u 次");

    fputs("\r\033[K", stderr);
    if (experiment) {
        fprintf(stderr, "%s: ", experiment->id);
        if (way < 0)
            fputs(phrase(&starting, progress_lang), stderr);
        else
            fputs(phrase(experiment->measure ? &experiment->title : &experiment->ways[way].title,
                         progress_lang),
                  stderr);
        if (way >= 0 && runs > 1) {
            fputs(", ", stderr);
            fprintf(stderr, phrase(&trial, progress_lang), run, runs);
        }
        fputs(" ...", stderr);
    }
    fflush(stderr);
}

/* Texts of the language that a terminal cannot show would be noise. */
static void watch(const struct look *look)
{
    progress_lang = look->utf8 ? look->lang : LANG_EN;
    if (isatty(STDERR_FILENO))
        run_tell(show_progress);
}

/* ---- one, or all ----------------------------------------------------------------------------------------- */

/* "redlock" is no experiment, and nearer to "deadlock" than to "redlock-clock". */
static bool say_those_of(const char *family)
{
    size_t len = strlen(family), found = 0;

    for (size_t i = 0; experiments[i]; i++)
        if (strncmp(experiments[i]->id, family, len) == 0 && experiments[i]->id[len] == '-')
            fprintf(stderr, "%s%s", found++ ? ", " : "there are ", experiments[i]->id);
    if (found)
        fputc('\n', stderr);
    return found > 0;
}

static void say_unknown(const char *name)
{
    const char *names[64], *near;
    size_t count = 0;
    char quoted[256];

    for (; experiments[count] && count < 64; count++)
        names[count] = experiments[count]->id;
    near = closest(name, names, count);
    fprintf(stderr, "holdfast lab: there is no experiment '%s'; ",
            hfi_quote_name(name, strlen(name), quoted, sizeof quoted));
    if (say_those_of(name))
        return;
    if (near)
        fprintf(stderr, "did you mean '%s'?\n", near);
    else
        fputs("`holdfast lab` lists them\n", stderr);
}

static int run_one(const struct options *options, struct stage *stage)
{
    const struct experiment *experiment = find(options->name);
    struct report *report = calloc(1, sizeof *report);
    char text[256] = "";
    int status = EXIT_INTERNAL;

    if (!experiment) {
        say_unknown(options->name);
        status = EXIT_USAGE;
    } else if (report) {
        if (options->look.lang == LANG_ZH && !options->look.utf8 && !options->json)
            fputs("holdfast lab: the terminal's locale is not UTF-8, so its text is English; with "
                  "LANG=C.UTF-8 it is Chinese\n",
                  stderr);
        switch (run_experiment(stage, experiment, (unsigned)options->repeat, report, text)) {
        case RUN_DONE:
            status = report_as_told(report) ? EXIT_SUCCESS : EXIT_OTHERWISE;
            if (!show(options, report))
                status = EXIT_FILE;
            break;
        case RUN_MISSING:
            status = EXIT_NO_SERVER;
            break;
        case RUN_REFUSED:
            status = EXIT_USAGE;
            break;
        case RUN_FAILED:
        case RUN_STOPPED:
            break;
        }
        if (text[0])
            fprintf(stderr, "holdfast lab: %s\n", text);
    }
    free(report);
    return status;
}

static int run_all(const struct options *options, struct stage *stage)
{
    const struct report *reports[64] = { NULL };
    size_t count = 0;
    int status = EXIT_SUCCESS;
    char text[256];

    for (size_t i = 0; experiments[i] && count < 64 && !stage_interrupted(); i++) {
        struct report *report = calloc(1, sizeof *report);
        bool done = report && run_experiment(stage, experiments[i], (unsigned)options->repeat,
                                             report, text) == RUN_DONE;

        if (!done) {
            if (!stage_interrupted())
                fprintf(stderr, "holdfast lab: %s: left out: %s\n", experiments[i]->id, text);
            free(report);
            continue;
        }
        printf("%-16s %s\n", experiments[i]->id,
               report_as_told(report) ? "as told" : "NOT as told");
        fflush(stdout);
        if (!report_as_told(report))
            status = EXIT_OTHERWISE;
        reports[count++] = report;
    }
    if (!stage_interrupted() &&
        !draw_gallery(options->all, reports, count, options->look.lang, text)) {
        fprintf(stderr, "holdfast lab: %s: %s\n", text, strerror(errno));
        status = EXIT_FILE;
    }
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)reports[i]);
    return status;
}

/*
 * No other user of this machine may reach the servers that we start. They are in a network of our own; and where the machine permits none, those that
 * could run commands for whoever reaches them want a password (Redis) or listen in a closed directory only (PostgreSQL).
 */
static void close_servers(void)
{
    servers_want_password();
    if (!own_network())
        fputs("holdfast lab: this machine permits no network of its own for the servers of an "
              "experiment: other users can reach those of "
              "ZooKeeper and memcached while it runs\n",
              stderr);
}

int main(int argc, char **argv)
{
    struct options options = { .repeat = 1, .stores_fd = -1 };
    static struct stage stage;
    static char url[4096];
    int status;

    look_init(&options.look);
    if (!parse(&options, argc, argv)) {
        fputs("usage: see holdfast-lab(1)\n", stderr);
        return EXIT_USAGE;
    }
    if (options.list) {
        list(&options);
        return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FILE;
    }
    if (!stage_init(&stage)) {
        fputs("holdfast lab: no memory\n", stderr);
        return EXIT_INTERNAL;
    }
    if (options.stores_fd >= 0 &&
        (!read_store(options.stores_fd, url, sizeof url) || !run_at(&stage, url))) {
        fputs("holdfast lab: --store must be a redis:// URL of one server, for naive clients too\n",
              stderr);
        return EXIT_USAGE;
    }
    if (options.stores_fd < 0)
        close_servers();
    watch(&options.look);
    stage_heed_signals(&stage);
    status = options.all ? run_all(&options, &stage) : run_one(&options, &stage);
    stage_done(&stage);
    return stage_interrupted() ? 128 + stage_interrupted() : status;
}
