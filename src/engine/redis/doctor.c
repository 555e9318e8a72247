/* SPDX-License-Identifier: MIT */
#include "engine/redis/rd.h"
hf_status hfi_rd_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg, hf_error *err)
{
    (void)conn;
    (void)finding;
    (void)arg;
    (void)err;
    return HF_UNSUPPORTED;
}
