/* SPDX-License-Identifier: MIT */
/* What renew, unlock and convert have in common: getting at a lease by the handle that `lock` printed. */
#ifndef CLI_ADOPT_H
#define CLI_ADOPT_H

#include "store.h"

/* Check the options, open the store, adopt the lease (which renews it, for --ttl if given; `renew`: again and again, until we exit).
 * EXIT_FINE, or the exit code after a message: EXIT_LOST if the lease is gone. */
int adopt(const struct cli *cli, bool renew, struct cli_store *ret_store, hf_lease **ret_lease);

#endif
