/* SPDX-License-Identifier: MIT */
/* `holdfast doctor [--sql] [URL]`: checks whether a store can keep its promises; with --sql prints
 * the SQL of its tables. */
#include "json.h"
#include "look.h"
#include "secret.h"
#include "table.h"
#include "wrap.h"

#include "util/finding_zh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct findings {
    const struct cli *cli;
    hf_check_level worst;
    unsigned counts[3]; /* by level */
    int columns;        /* of the terminal; 0: there is none */
    bool chinese;
    json_t *list; /* with --json */
};

static const char *level_word(hf_check_level level)
{
    return level == HF_CHECK_LEVEL_OK        ? "fine"
           : level == HF_CHECK_LEVEL_WARNING ? "warning"
                                             : "bad";
}

#define TEXT_COLUMN 9 /* behind the level */

/* Chinese if the environment says so, in UTF-8, which is what we print; or --lang. */
static bool is_chinese(const struct args *args)
{
    const char *value = lang_of_environment();

    if (args->lang >= 0)
        return args->lang == 1;
    return strncmp(value, "zh", 2) == 0 &&
           (strcasestr(value, "utf-8") || strcasestr(value, "utf8"));
}

/* Words of eight columns. */
static const char *finding_word(const struct findings *findings, const hf_finding *finding)
{
    if (!findings->chinese)
        return finding->note ? "note" : level_word(finding->level);
    return finding->note                              ? "说明    "
           : finding->level == HF_CHECK_LEVEL_OK      ? "合格    "
           : finding->level == HF_CHECK_LEVEL_WARNING ? "警告    "
                                                      : "不合格  ";
}

static void print_finding(const struct findings *findings, const hf_finding *finding)
{
    static const enum tone tones[] = { TONE_GOOD, TONE_WARN, TONE_BAD };
    enum tone shade = finding->note ? TONE_OFF : tones[finding->level];
    const struct cli *cli = findings->cli;
    const char *topic = findings->chinese ? hfi_topic_zh(finding->topic) : NULL;
    char line[4096];
    size_t len;

    snprintf(line, sizeof line,
             topic ? "%s：" : "%s: ", topic ? topic : safe_label(finding->topic));
    len = strlen(line);
    if (findings->chinese)
        hfi_finding_zh(safe_label(finding->text), line + len, sizeof line - len);
    else
        snprintf(line + len, sizeof line - len, "%s", safe_label(finding->text));
    printf("%s%-8s%s ", tone(cli, shade), finding_word(findings, finding), tone(cli, TONE_OFF));
    /* Chinese has no blanks to break a line at: the terminal does it. */
    wrap_words(stdout, line, TEXT_COLUMN, findings->chinese ? 0 : findings->columns);
}

static void print_verdict(const struct findings *findings)
{
    unsigned warnings = findings->counts[HF_CHECK_LEVEL_WARNING],
             bad = findings->counts[HF_CHECK_LEVEL_BAD];

    if (findings->chinese && bad > 0)
        puts("结论：不合格。解决之前不要依赖这个存储。");
    else if (findings->chinese && warnings > 0)
        printf("结论：可用，有 %u 项警告。\n", warnings);
    else if (findings->chinese)
        puts("结论：合格。");
    else if (bad > 0)
        printf("verdict: bad. Do not rely on this store before %s mended.\n",
               bad == 1 ? "that is" : "these are");
    else if (warnings > 0)
        printf("verdict: it works, with %u warning%s.\n", warnings, warnings == 1 ? "" : "s");
    else
        puts("verdict: fine.");
}

static void show(struct findings *findings, const hf_finding *finding)
{
    const struct cli *cli = findings->cli;
    json_t *object;

    findings->counts[finding->level]++;
    if (finding->level > findings->worst)
        findings->worst = finding->level;
    if (findings->list) {
        object = json_object();
        json_object_set_new(object, "level", json_string(level_word(finding->level)));
        json_object_set_new(object, "topic", json_text(finding->topic, strlen(finding->topic)));
        json_object_set_new(object, "text", json_text(finding->text, strlen(finding->text)));
        json_object_set_new(object, "note", json_boolean(finding->note));
        json_array_append_new(findings->list, object);
    } else if (!cli->args.quiet || finding->level != HF_CHECK_LEVEL_OK) {
        print_finding(findings, finding);
    }
}

static void print_json(const struct findings *findings, const struct cli_store *store)
{
    const char *location = store->info.location;
    json_t *object = json_object();

    json_object_set_new(object, "store", json_text(location, strlen(location)));
    json_object_set_new(object, "engine", json_string(store->info.engine));
    json_object_set_new(object, "from", json_text(store->source, strlen(store->source)));
    json_object_set_new(object, "level", json_string(level_word(findings->worst)));
    json_object_set_new(object, "findings", findings->list);
    json_print(object, true);
}

/* Print the statements as they would be sent, ready for psql or mariadb. */
static int print_sql(struct cli *cli)
{
    hf_status status;
    hf_error err;
    char *url = NULL, *sql = NULL;
    int code = store_url(cli, cli->args.name, &url);

    if (code != EXIT_FINE)
        return code;
    if (strcmp(url, PLACE_BUILT_IN) == 0) {
        free(url);
        say_error("no store: give the URL or profile of a database");
        return EXIT_CONFIG;
    }
    status = hf_sql_get_schema(url, &sql, &err);
    secret_free(url);
    if (status == HF_OK)
        fputs(sql, stdout);
    hf_free(sql);
    code = out_finish(cli);
    return status == HF_OK ? code : say_failure(&err);
}

static void print_store(const struct findings *findings, const struct cli_store *store)
{
    char line[2048];

    snprintf(line, sizeof line, "store %s ", safe_label(store->info.location));
    snprintf(line + strlen(line), sizeof line - strlen(line), "(engine %s), from %s",
             store->info.engine, safe_label(store->source));
    wrap_words(stdout, line, 0, findings->columns);
}

/* Why the first lock cannot make the embedded store at `path`; false: it can. Of the default store, it makes
 * the parents too. */
static bool cannot_be_made(const char *path, char *why, size_t size)
{
    static const char by_default[] = "/.local/state/holdfast";
    const char *found = strstr(path, by_default);
    bool makes_parents = found && !found[strlen(by_default)];
    char above[PATH_MAX];
    char *slash = NULL;
    int depth = 0;

    snprintf(above, sizeof above, "%s", path);
    while (above[1] && access(above, F_OK) != 0 && errno == ENOENT &&
           (slash = strrchr(above, '/'))) {
        slash[slash == above] = 0;
        depth++;
    }
    if (faccessat(AT_FDCWD, above, W_OK | X_OK, AT_EACCESS) != 0)
        snprintf(why, size, "%s: %s; name another store, for example with HOLDFAST_STORE", above,
                 strerror(errno));
    else if (depth > 1 && !makes_parents)
        snprintf(why, size, "its parent directory is not there");
    else
        return false;
    return true;
}

static void show_absent(struct findings *findings, const char *location)
{
    char why[PATH_MAX + 128], text[PATH_MAX + 256];

    if (strncmp(location, "file:/", 6) != 0 ||
        !cannot_be_made(location + strlen("file:"), why, sizeof why)) {
        show(findings, &(hf_finding){ .level = HF_CHECK_LEVEL_WARNING,
                                      .topic = "store",
                                      .text = "not created yet: the first lock creates it" });
        return;
    }
    snprintf(text, sizeof text, "not created yet, and this user cannot create it: %s", why);
    show(findings, &(hf_finding){ .level = HF_CHECK_LEVEL_BAD, .topic = "store", .text = text });
}

int verb_doctor(struct cli *cli)
{
    struct findings findings = { .cli = cli,
                                 .columns = wrap_columns(),
                                 .chinese = is_chinese(&cli->args) };
    hf_report *report = NULL;
    struct cli_store store;
    hf_status status;
    hf_error err;
    int code;

    if (cli->args.sql)
        return print_sql(cli);
    code = store_look(cli, cli->args.name, &store);
    if (code != EXIT_FINE)
        return code;

    if (cli->args.json)
        findings.list = json_array();
    else if (!cli->args.quiet)
        print_store(&findings, &store);

    if (store.absent[0]) {
        status = HF_OK;
        show_absent(&findings, store.info.location);
    } else {
        status = hf_store_check(store.store, &report, &err);
        for (size_t i = 0; i < hf_report_count(report); i++)
            show(&findings, hf_report_item(report, i));
        hf_free(report);
    }
    if (status == HF_OK && cli->args.json)
        print_json(&findings, &store);
    else
        json_decref(findings.list);
    if (status == HF_OK && !cli->args.json && !cli->args.quiet)
        print_verdict(&findings);
    store_close(&store);
    if (status != HF_OK)
        return say_failure(&err);

    code = out_finish(cli);
    if (code != EXIT_FINE)
        return code;
    return findings.worst == HF_CHECK_LEVEL_OK        ? EXIT_FINE
           : findings.worst == HF_CHECK_LEVEL_WARNING ? EXIT_WARNED
                                                      : EXIT_BAD;
}
