/* SPDX-License-Identifier: MIT */
/* Preloaded into holdfast-serve by leases_test.py: every cancel comes too late, as hf_op_cancel() says
 * that one may. So a grant after its cancel comes when the test wants it, not once in a thousand. */
#include "holdfast/holdfast.h"

hf_status hf_op_cancel(hf_op *op)
{
    (void)op;
    return HF_OK;
}
