#include "engine/redlock/rl.h"
hf_status hfi_rl_doctor(struct hfi_conn *conn, hf_finding_fn *finding, void *arg, hf_error *err){(void)conn;(void)finding;(void)arg;(void)err;return HF_UNSUPPORTED;}
