/* SPDX-License-Identifier: MIT */
/* Who can use this server, and who can listen. For Redlock's nodes too, so it is a part of the transport. */
#include "engine/redis/doctor.h"

#include "util/alloc.h"

#include <string.h>

#define VALUE_ROOM 128

/* A server on this machine: do its settings let others reach its port? false: we may not read them. */
static bool read_reach(struct hfi_ask *ask, bool *ret_reachable)
{
    char mode[VALUE_ROOM] = "", bind[VALUE_ROOM] = "";
    hf_error err;

    if (!hfi_ask_setting(ask, "protected-mode", mode, sizeof mode, &err) ||
        !hfi_ask_setting(ask, "bind", bind, sizeof bind, &err))
        return false;
    *ret_reachable = strcmp(mode, "yes") != 0 && !strstr("127.0.0.1 -::1 ::1 127.0.0.1", bind);
    return true;
}

void hfi_doctor_access(const struct hfi_report *report, const struct hfi_redis_conf *conf,
                       struct hfi_ask *ask, const struct hfi_address *address)
{
    struct hfi_access access = { .user = conf->url.user,
                                 .proof = conf->url.secret ? "a password" : NULL,
                                 .local = hfi_is_local(address),
                                 .tls = conf->url.tls.on,
                                 .verified = conf->url.tls.verify,
                                 .tls_how = "rediss:" };
    char *user = NULL, value[VALUE_ROOM];
    bool known = true;
    hf_error err;

    if (conf->url.secret) {
        user = hfi_ask(ask, (const char *[]){ "ACL", "WHOAMI", NULL }, &err);
        access.user = user ? user : access.user;
        /* Nobody lets a user of less read the settings. */
        access.admin = hfi_ask_setting(ask, "save", value, sizeof value, &err);
    } else if (access.local) {
        known = read_reach(ask, &access.reachable);
    }
    hfi_report_access(report, &access);
    if (!known)
        hfi_report(report, HF_CHECK_LEVEL_WARNING, "login",
                   "no password is needed, and who can reach the port: not allowed to know (bind, "
                   "protected-mode); ACL SETUSER ... +config|get");
    hfi_free(user);
}
