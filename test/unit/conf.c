/* SPDX-License-Identifier: MIT */
/*
 * The same mistake in a URL has the same words on every engine, at the byte where it is, and nothing
 * is opened before: one table of cases, stamped for every scheme of every engine of this build.
 */
#include "unit.h"

#include "util/text.h"

#include "core/conf.h"
#include "core/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/holdfast-conf-XXXXXX";

/* ---- every scheme ------------------------------------------------------------------------------ */

typedef void visit_fn(const struct hfi_engine *engine, const struct hfi_form *form);

static unsigned each_scheme(visit_fn *visit)
{
    const hf_engine_info *info;
    unsigned count = 0;

    for (size_t i = 0; (info = hf_engine_get(i)); i++) {
        const struct hfi_engine *engine;
        char schemes[200], *rest = schemes, *scheme;

        snprintf(schemes, sizeof schemes, "%s", info->schemes);
        while ((scheme = strsep(&rest, " "))) {
            const struct hfi_form *form;

            assert_int_equal(hfi_registry_find(scheme, &engine, NULL), HF_OK);
            for (form = engine->conf->forms; strcmp(form->scheme, scheme) != 0; form++)
                assert_non_null(form[1].scheme); /* each scheme has a form */
            visit(engine, form);
            count++;
        }
    }
    return count;
}

/* Opening `url` is refused with `status` and exactly these words, which tell no secret. */
static void refused(const char *url, hf_status status, const char *words)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_store *store = NULL;
    hf_error err = { .text = "" };
    const char *said;

    options.open_wait_ms = 100;
    if (hf_open(url, &options, &store, &err) != status)
        fail_msg("%s: \"%s\" instead of \"%s\"", url, err.text, words);
    said = strstr(err.text, "store URL: ");
    if (!said || strcmp(said + 11, words) != 0)
        fail_msg("%s: \"%s\" instead of \"%s\"", url, err.text, words);
    assert_null(strstr(err.text, "S3KR"));
}

/* ---- hosts ------------------------------------------------------------------------------------- */

#define NEITHER "is neither a name nor an address ([...] for IPv6)"
#define PORT    "must be a number from 1 to 65535"
#define LONG_64 "x234567890123456789012345678901234567890123456789012345678901234"

static const struct {
    const char *authority;
    size_t byte; /* in the authority */
    const char *part, *why;
    bool unless_library; /* which may leave the host out */
} hosts[] = {
    { "", 0, "the host", "is empty", true },
    { ":1", 0, "the host", "is empty", true },
    { "[]", 0, "the host", "is empty", false },
    { "h h", 0, "the host", NEITHER, false },
    { "h%20h", 0, "the host", NEITHER, false },
    { "h\xc3\xa9", 0, "the host", NEITHER, false },
    { "h%zz", 0, "the host", "has a bad %XX", false },
    { "h%00", 0, "the host", "has a bad %XX", false },
    { "::1", 0, "the host", "has two ':' (an IPv6 address is written in [])", false },
    { "[::1", 0, "the host", "has no closing ']'", false },
    { "[::1]x", 5, "the host", "continues after its ']'", false },
    { "[::g]", 0, "the host", NEITHER, false },
    { "[127.0.0.1]", 0, "the host", NEITHER, false },
    { "[h]", 0, "the host", NEITHER, false },
    { "[fe80::1%25]", 0, "the host", NEITHER, false }, /* zones */
    { "[fe80::1%eth0]", 1, "the host", "has a bad %XX", false },
    { "[fe80::1%25a%20b]", 0, "the host", NEITHER, false },
    { "[fe80::1%25a2345678901234567]", 0, "the host", NEITHER, false },
    { "h%25eth0", 0, "the host", NEITHER, false },
    { LONG_64 LONG_64 LONG_64 LONG_64, 0, "the host", NEITHER, false },
    { "h:", 2, "the port", PORT, false },
    { "h:0", 2, "the port", PORT, false },
    { "h:65536", 2, "the port", PORT, false },
    { "h:12345678901", 2, "the port", PORT, false },
    { "h:+1", 2, "the port", PORT, false },
    { "h:1x", 2, "the port", PORT, false },
    { "[::1]:x", 6, "the port", PORT, false },
    { "@h", 0, "the user", "is empty", false },
    { "u%zz:S3KR3T@h", 0, "the user", "has a bad %XX", false },
    { "u:S3KR3T%@h", 2, "the password", "has a bad %XX", false },
    { "u:S3KR/3T@h", 9, "an '@'",
      "after a '/': a '/' in a password is written %2F, an '@' in a path %40", false },
};

static void bad_hosts_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    char url[400], words[200];

    (void)engine;
    if (form->hosts_max == 0 || form->flags & HFI_FORM_SOCKET)
        return;
    snprintf(url, sizeof url, "%s:h", form->scheme);
    snprintf(words, sizeof words, "the host at byte %zu must follow \"//\"",
             strlen(form->scheme) + 1);
    refused(url, HF_CONFIG, words);
    for (size_t i = 0; i < COUNT(hosts); i++) {
        if (hosts[i].unless_library && form->flags & HFI_FORM_LIBRARY)
            continue;
        snprintf(url, sizeof url, "%s://%s", form->scheme, hosts[i].authority);
        snprintf(words, sizeof words, "%s at byte %zu %s", hosts[i].part,
                 strlen(form->scheme) + 3 + hosts[i].byte, hosts[i].why);
        refused(url, HF_CONFIG, words);
    }
    if (form->hosts_max == 1) {
        snprintf(url, sizeof url, "%s://a,b", form->scheme);
        snprintf(words, sizeof words,
                 "a second host at byte %zu has no meaning here: there is one server",
                 strlen(form->scheme) + 5);
        refused(url, HF_CONFIG, words);
    }
}

static void bad_hosts(void **state)
{
    (void)state;
    assert_true(each_scheme(bad_hosts_of) > 10);
}

/* Hosts that every engine takes, as they are shown. */
static void good_hosts_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    static const char *const good[][3] = {
        { "a-b_c.example", "a-b_c.example", "a-b_c.example" },
        { "10.0.0.4:65535", "10.0.0.4", "10.0.0.4:65535" },
        { "[::1]", "::1", "[::1]" },
        { "[fe80::1%25eth0]:1", "fe80::1%eth0", "[fe80::1%eth0]:1" },
        { "u%40:%2f@h%2E:7", "h.", "h.:7" },
    };

    if (form->hosts_max == 0 || form->flags & HFI_FORM_SOCKET)
        return;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct hfi_conf *conf = NULL;
        char text[200];
        struct hfi_url url;
        hf_error err;

        snprintf(text, sizeof text, "%s://%s", form->scheme, good[i][0]);
        assert_int_equal(hfi_url_parse(text, &url, NULL), HF_OK);
        if (hfi_conf_read(&url, engine->conf, &conf, &err) != HF_OK)
            fail_msg("%s: %s", text, err.text);
        assert_int_equal(conf->host_count, 1);
        assert_string_equal(conf->hosts[0].host, good[i][1]);
        assert_memory_equal(conf->hosts[0].shown, good[i][2], strlen(good[i][2]));
        if (strchr(text, '@')) {
            assert_string_equal(conf->user, "u@");
            assert_string_equal(conf->secret, "/");
        }
        hfi_conf_free(conf);
        hfi_url_done(&url);
    }
}

static void good_hosts(void **state)
{
    (void)state;
    each_scheme(good_hosts_of);
}

static void bad_sockets_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    char url[400], words[200], *end;
    size_t at = strlen(form->scheme) + 3;

    (void)engine;
    if (!(form->flags & HFI_FORM_SOCKET))
        return;
    snprintf(url, sizeof url, "%s://run/s", form->scheme);
    snprintf(words, sizeof words, "the path at byte %zu must begin with '/'", at);
    refused(url, HF_CONFIG, words);
    snprintf(url, sizeof url, "%s:///", form->scheme);
    snprintf(words, sizeof words, "the path at byte %zu of the socket is missing", at);
    refused(url, HF_CONFIG, words);
    end = url + snprintf(url, sizeof url, "%s:///", form->scheme);
    memset(end, 'x', HFI_SOCKET_PATH_MAX);
    end[HFI_SOCKET_PATH_MAX] = 0;
    snprintf(words, sizeof words, "the path at byte %zu is too long for a Unix socket", at);
    refused(url, HF_CONFIG, words);
}

static void bad_sockets(void **state)
{
    (void)state;
    each_scheme(bad_sockets_of);
}

/* ---- parameters -------------------------------------------------------------------------------- */

/* A URL whose place is good, if nothing has to be reached: "redis://127.0.0.1:1". */
static const char *start_of(const struct hfi_form *form, const char *user)
{
    static char url[200];

    if (form->hosts_max == 0)
        snprintf(url, sizeof url, "%s:%s/no/such", form->scheme, dir);
    else
        snprintf(url, sizeof url, "%s://%s%s", form->scheme, user,
                 form->flags & HFI_FORM_SOCKET ? "/no/such" : "127.0.0.1:1");
    return url;
}

static void refused_param(const struct hfi_form *form, const char *user, const char *param,
                          hf_status status, const char *why)
{
    const char *start = start_of(form, user);
    char url[600], words[300];

    snprintf(url, sizeof url, "%s?%s", start, param);
    snprintf(words, sizeof words, "parameter '%.*s' at byte %zu %s", (int)strcspn(param, "="),
             param, strlen(start) + 1, why);
    refused(url, status, words);
}

static void bad_params_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    char param[100], limit[24], why[60];

    refused_param(form, "", "unheard=of", HF_CONFIG, "is not known");
    refused_param(form, "", "cohort=x", HF_CONFIG, "is not a number");
    refused_param(form, "", "deadlock_check=5", HF_CONFIG, "needs a unit: ms, s, m, h or d");
    for (const struct hfi_param *row = engine->conf->params; row->name; row++) {
        snprintf(param, sizeof param, "%s=maybe", row->name);
        switch (row->type) {
        case HFI_PARAM_SWITCH:
            refused_param(form, "", param, HF_CONFIG, "must be on or off");
            break;
        case HFI_PARAM_NUMBER:
            refused_param(form, "", param, HF_CONFIG, "is not a number");
            break;
        case HFI_PARAM_DURATION:
            snprintf(param, sizeof param, "%s=5", row->name);
            refused_param(form, "", param, HF_CONFIG, "needs a unit: ms, s, m, h or d");
            if (row->least > 0) {
                snprintf(param, sizeof param, "%s=0ms", row->name);
                hfi_format_duration(row->least, limit, sizeof limit);
                snprintf(why, sizeof why, "is too short: at least %s", limit);
                refused_param(form, "", param, HF_CONFIG, why);
            }
            break;
        case HFI_PARAM_REFUSED:
            refused_param(form, "", param, HF_CONFIG, row->words);
            break;
        case HFI_PARAM_TEXT:
        case HFI_PARAM_CHOICE:
        case HFI_PARAM_SECRET:
        case HFI_PARAM_REST:
            break;
        }
    }
}

static void bad_params(void **state)
{
    (void)state;
    each_scheme(bad_params_of);
}

/* ---- secrets and TLS ----------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text)
{
    char path[100];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    out = fopen(path, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void bad_secrets_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    static const struct {
        const char *file;
        hf_status status;
        const char *why;
    } files[] = {
        { "none", HF_DENIED, "cannot be read: No such file or directory" },
        { "", HF_DENIED, "is refused: it does not name a regular file" },
        { "empty", HF_CONFIG, "names a file whose first line is no password" },
        { "long", HF_CONFIG, "names a file whose first line is no password" },
    };
    char param[200], url[300];

    (void)engine;
    if (form->hosts_max == 0)
        return;
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(param, sizeof param, "password_file=%s/%s", dir, files[i].file);
        refused_param(form, "u@", param, files[i].status, files[i].why);
    }
    refused_param(form, "u@", "password_env=UNIT_NOT_SET", HF_CONFIG,
                  "names a variable that the environment does not have");
    refused_param(form, "u@", "password_env=UNIT_EMPTY", HF_CONFIG,
                  "names a variable that the environment does not have");
    refused_param(form, "u:S3KR3T@", "password_env=HOME", HF_CONFIG,
                  "names a second password: there is one in the URL");
    refused_param(form, "u:S3KR3T@", "user=v", HF_CONFIG, "is in the URL already");
    snprintf(url, sizeof url, "%s", start_of(form, "u@"));
    if (!(form->flags & HFI_FORM_USER_ALONE))
        refused(url, HF_CONFIG,
                "a user without a password: give password_file= or password_env= (or user:@ if it "
                "has none)");
    snprintf(url, sizeof url, "%s", start_of(form, ":S3KR3T@"));
    if (!(form->flags & HFI_FORM_SECRET_ALONE))
        refused(url, HF_CONFIG, "a password without a user: give user@ or user=");
}

static void bad_secrets(void **state)
{
    char text[5000];

    (void)state;
    memset(text, 'S', sizeof text - 1);
    text[sizeof text - 1] = 0;
    write_file("empty", "\nsecond\n");
    write_file("long", text);
    setenv("UNIT_EMPTY", "", 1);
    unsetenv("UNIT_NOT_SET");
    each_scheme(bad_secrets_of);
}

static void bad_tls_of(const struct hfi_engine *engine, const struct hfi_form *form)
{
    static const char *const keys[] = { "ca", "cert", "key" };
    bool choice = form->flags & HFI_FORM_TLS_CHOICE, library = form->flags & HFI_FORM_LIBRARY;
    char param[200], why[100];

    (void)engine;
    if (!(form->flags & HFI_FORM_TLS_ANY)) {
        for (size_t i = 0; i < 3 && !library; i++) {
            snprintf(param, sizeof param, "%s=/x", keys[i]);
            refused_param(form, "", param, HF_CONFIG, "is not known");
        }
        return;
    }
    if (choice && !(form->flags & HFI_FORM_SOCKET))
        refused_param(form, "", "tls=maybe", HF_CONFIG, "must be on or off");
    if (!(form->flags & HFI_FORM_TLS) && !library) {
        snprintf(why, sizeof why, "has a meaning with TLS only: %s%s",
                 choice ? "tls=on" : form->scheme, choice ? "" : "s:");
        refused_param(form, "", "ca=/x", HF_CONFIG, why);
        refused_param(form, "", "verify=off", HF_CONFIG, why);
        return;
    }
    refused_param(form, "", "verify=maybe", HF_CONFIG, "must be on or off");
    if (library)
        refused_param(form, "", "ca=/x&tls=off", HF_CONFIG, "has a meaning with TLS only: tls=on");
    for (size_t i = 0; i < 3; i++) {
        snprintf(param, sizeof param, "%s=%s/none", keys[i], dir);
        if (i == 0 || library)
            refused_param(form, "", param, HF_DENIED, "cannot be read: No such file or directory");
        else
            refused_param(form, "", param, HF_CONFIG, "needs the other of cert= and key=");
    }
}

static void bad_tls(void **state)
{
    (void)state;
    each_scheme(bad_tls_of);
}

/* ---- the manual ---------------------------------------------------------------------------------- */

static char *manual;

static void told_of(const char *scheme, const struct hfi_param *rows)
{
    char text[100];

    for (; rows && rows->name; rows++) {
        if (rows->type == HFI_PARAM_REST || rows->type == HFI_PARAM_REFUSED)
            continue;
        snprintf(text, sizeof text, "%s%s=", rows->name,
                 rows->type == HFI_PARAM_SECRET ? "_file" : "");
        if (!strstr(manual, text))
            fail_msg("%s: no manual page knows %s", scheme, text);
    }
}

static void told(const struct hfi_engine *engine, const struct hfi_form *form)
{
    told_of(form->scheme, engine->conf->params);
    told_of(form->scheme, form->more);
}

/* Every parameter of every table is in holdfast-engines(7) or in holdfast-redlock(7). */
static void in_the_manual(void **state)
{
    static const char *const pages[] = { "engines", "redlock" };
    char path[500], *texts[2] = { NULL, NULL };

    (void)state;
    for (size_t i = 0; i < COUNT(pages); i++) {
        size_t size = 0;
        FILE *in;

        snprintf(path, sizeof path, "%s/man/holdfast-%s.7", UNIT_SOURCE_DIR, pages[i]);
        in = fopen(path, "re");
        assert_non_null(in);
        assert_true(getdelim(&texts[i], &size, 0, in) > 0);
        fclose(in);
    }
    assert_true(asprintf(&manual, "%s%s", texts[0], texts[1]) > 0);
    each_scheme(told);
    free(manual);
    free(texts[0]);
    free(texts[1]);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    char path[100];

    (void)state;
    snprintf(path, sizeof path, "%s/empty", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/long", dir);
    unlink(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_hosts),     cmocka_unit_test(good_hosts),
        cmocka_unit_test(bad_sockets),   cmocka_unit_test(bad_params),
        cmocka_unit_test(bad_secrets),   cmocka_unit_test(bad_tls),
        cmocka_unit_test(in_the_manual),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
