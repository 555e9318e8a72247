/* SPDX-License-Identifier: MIT */
/* Findings of a doctor. The caller's thread. */
#include "engine/kit/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_ROOM  1024 /* an error's text, or a list of nodes with the reason of each */
#define WHERE_ROOM 128

void hfi_report(const struct hfi_report *report, hf_check_level level, const char *topic,
                const char *format, ...)
{
    char text[TEXT_ROOM];
    int used = 0;
    va_list args;

    if (report->where)
        used = snprintf(text, WHERE_ROOM, "%.100s: ", report->where);
    va_start(args, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    report->finding(level, topic, text, report->arg);
}

/* ---- access ------------------------------------------------------------------------------------ */

static void report_login(const struct hfi_report *report, const struct hfi_access *access)
{
    const char *user = access->user ? access->user : "the default user";

    if (!access->proof && access->local && !access->reachable)
        hfi_report(report, HFI_CHECK_NOTE, "login",
                   "no password is needed: every user of this machine can end every lock");
    else if (!access->proof)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "login",
                   "no password is needed: every client that reaches the server can end every "
                   "lock; set one on "
                   "the server, and password_file= in the URL");
    else
        hfi_report(report, HF_CHECK_LEVEL_OK, "login", "as %s, with %s", user, access->proof);
    if (access->admin)
        hfi_report(report, access->local ? HFI_CHECK_NOTE : HF_CHECK_LEVEL_WARNING, "user",
                   "%s may do everything on this server, and so can every program that has this "
                   "URL: locks need less (the rights are listed in holdfast-engines(7))",
                   user);
}

static void report_tls(const struct hfi_report *report, const struct hfi_access *access)
{
    if (access->tls && access->verified)
        hfi_report(report, HF_CHECK_LEVEL_OK, "tls",
                   "on, and the server's certificate is verified");
    else if (access->tls)
        hfi_report(
            report, HF_CHECK_LEVEL_WARNING, "tls",
            "on, but the server's certificate is not verified: an attacker on the network path can "
            "pose as the server; verify it (ca=; PostgreSQL: sslmode=verify-full)");
    else if (access->local)
        hfi_report(report, HFI_CHECK_NOTE, "tls", "off: the server is on this machine");
    else
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "tls",
                   "off: what is sent can be read and changed on the way (%s)",
                   access->tls_how ? access->tls_how : "this engine has none: use a tunnel");
}

void hfi_report_access(const struct hfi_report *report, const struct hfi_access *access)
{
    report_login(report, access);
    report_tls(report, access);
}

bool hfi_is_local(const struct hfi_address *address)
{
    const char *host = address->host;

    return address->path || !host || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

bool hfi_all_local(const struct hfi_conf *url)
{
    for (size_t i = 0; i < url->host_count; i++)
        if (!hfi_is_local(&url->hosts[i]))
            return false;
    return true;
}
