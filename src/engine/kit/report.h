/* SPDX-License-Identifier: MIT */
/* Findings of a doctor: one line each, formatted here. */
#ifndef HFI_KIT_REPORT_H
#define HFI_KIT_REPORT_H

#include "engine/conf.h"
#include "engine/engine.h"

struct hfi_report {
    hfi_finding_fn *finding;
    void *arg;
    /* NULL, or the server that the next findings are about: each begins with it */
    const char *where;
};

__attribute__((format(printf, 4, 5))) void hfi_report(const struct hfi_report *report,
                                                      hf_check_level level, const char *topic,
                                                      const char *format, ...);

/* Who may do what, and who can listen: the same facts are judged by the same words on every engine. */
struct hfi_access {
    const char *user;  /* NULL: nobody in particular */
    const char *proof; /* "a password": what the server wanted from us; NULL: nothing */
    bool admin;        /* this user may do everything on the server */
    bool local;        /* we reach it on this machine */
    bool reachable;    /* and others from elsewhere, as its settings say */
    bool tls, verified;
    const char *tls_how; /* how to switch TLS on; NULL: this engine has none */
};
void hfi_report_access(const struct hfi_report *report, const struct hfi_access *access);
/* Is that address on this machine: a Unix socket or loopback? */
bool hfi_is_local(const struct hfi_address *address);
/* The same of all hosts of a URL. */
bool hfi_all_local(const struct hfi_conf *url);

#endif
