/* SPDX-License-Identifier: MIT */
/* The group `agree`: once only, elections, latches, barriers. */
#include "agree.h"

int contract_agree(void)
{
    return agree_once() + agree_election() + agree_latch() + agree_barrier();
}
