/* SPDX-License-Identifier: MIT */
/* The doctor's parts: which servers there are (doctor.c), what one of them means for the promises
 * (doctor_server.c), and whether it lets us do what we need (doctor_rights.c). */
#ifndef HFI_REDIS_DOCTOR_H
#define HFI_REDIS_DOCTOR_H

#include "engine/kit/report.h"
#include "engine/redis/ask.h"

struct redis_checkup {
    struct hfi_report report; /* where: which server, if there are several */
    const struct hfi_redis_conf *conf;
};

/* Everything about the server at the other end. */
void hfi_doctor_server(const struct redis_checkup *r, struct hfi_ask *ask,
                       const struct hfi_address *address);
/* Who can use this server, and who can listen. */
void hfi_doctor_access(const struct hfi_report *report, const struct hfi_redis_conf *conf,
                       struct hfi_ask *ask, const struct hfi_address *address);
/* May our user do what native locks need? */
void hfi_doctor_rights(const struct redis_checkup *r, struct hfi_ask *ask);

#endif
