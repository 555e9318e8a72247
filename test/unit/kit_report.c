/* SPDX-License-Identifier: MIT */
/* What a doctor says of access (kit/report.h): one table for all engines. */
#include "unit.h"

#include "engine/kit/report.h"

#include <stdio.h>
#include <string.h>

static char heard[2048];

static void hear(hf_check_level level, const char *topic, const char *text, void *arg)
{
    size_t len = strlen(heard);

    (void)arg;
    snprintf(heard + len, sizeof heard - len, "%d %s: %s\n", (int)level, topic, text);
}

static void access_is_judged_alike(void **state)
{
    static const struct {
        struct hfi_access access;
        const char *login, *user, *tls; /* how the findings begin; NULL: there is none */
    } cases[] = {
        { { .local = true },
          "256 login: no password is needed: every user of this machine",
          NULL,
          "256 tls: off: the server is on" },
        { { .local = true, .reachable = true },
          "1 login: no password is needed: every client that reaches",
          NULL,
          "256 tls: off" },
        { { .local = false },
          "1 login: no password is needed: every client that reaches",
          NULL,
          "1 tls: off: what is sent" },
        { { .proof = "a password", .user = "app", .local = true },
          "0 login: as app, with a password\n",
          NULL,
          "256 tls: off" },
        { { .proof = "a password" },
          "0 login: as the default user, with a password\n",
          NULL,
          "1 tls: off" },
        { { .proof = "a password", .user = "root", .admin = true, .tls = true, .verified = true },
          "0 login: as root",
          "1 user: root may do everything",
          "0 tls: on, and" },
        { { .user = "root", .admin = true, .local = true, .tls = true },
          "256 login: no password",
          "256 user: root",
          "1 tls: on, but" },
        { { .user = "root", .admin = true }, "1 login: no password", "1 user: root", "1 tls: off" },
        { { .tls_how = "rediss:" },
          "1 login",
          NULL,
          "1 tls: off: what is sent can be read and changed on the way (rediss:)" },
        { { .tls_how = NULL },
          "1 login",
          NULL,
          "1 tls: off: what is sent can be read and changed on the way (this engine has none: use "
          "a tunnel)" },
    };
    const struct hfi_report report = { .finding = hear };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        heard[0] = 0;
        hfi_report_access(&report, &cases[i].access);
        assert_memory_equal(heard, cases[i].login, strlen(cases[i].login));
        assert_non_null(strstr(heard, cases[i].tls));
        if (cases[i].user)
            assert_non_null(strstr(heard, cases[i].user));
        else
            assert_null(strstr(heard, " user: "));
    }
}

static void what_is_on_this_machine(void **state)
{
    static char here[][20] = { "127.0.0.1", "127.8.8.8", "::1", "localhost" };
    static char there[][20] = { "10.0.0.1", "128.0.0.1", "::2", "localhost.example", "db" };
    struct hfi_address one = { .path = here[0] };

    (void)state;
    assert_true(hfi_is_local(&one));
    for (size_t i = 0; i < COUNT(here); i++)
        assert_true(hfi_is_local(&(struct hfi_address){ .host = here[i] }));
    for (size_t i = 0; i < COUNT(there); i++)
        assert_false(hfi_is_local(&(struct hfi_address){ .host = there[i] }));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_is_judged_alike),
        cmocka_unit_test(what_is_on_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
