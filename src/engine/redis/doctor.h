/* SPDX-License-Identifier: MIT */
/* The doctor's parts: which servers there are (doctor.c), what one of them means for the promises
 * (doctor_server.c), and whether it lets us do what we need (doctor_rights.c). */
#ifndef HFI_REDIS_DOCTOR_H
#define HFI_REDIS_DOCTOR_H

#include "engine/redis/ask.h"

struct hfi_report {
    hf_finding_fn *finding;
    void *arg;
    const struct hfi_redis_conf *conf;
    const char *where; /* which server, where there are several; NULL */
};

__attribute__((format(printf, 4, 5))) void hfi_report(const struct hfi_report *r,
                                                      hf_check_level level, const char *topic,
                                                      const char *format, ...);

/* Everything about the server at the other end. */
void hfi_doctor_server(const struct hfi_report *r, struct hfi_ask *ask,
                       const struct hfi_address *address);
/* May our user do what native locks need? */
void hfi_doctor_rights(const struct hfi_report *r, struct hfi_ask *ask);

#endif
