/* SPDX-License-Identifier: MIT */
/* What a version of etcd means for the promises. Pure. */
#ifndef HFI_ETCD_VERSION_H
#define HFI_ETCD_VERSION_H

#include "holdfast/holdfast.h"

struct etcd_judged {
    hf_check_level level;
    const char *why; /* what may happen, and what to use instead; NULL: it is fine */
};

/* `version` as a member states it: "3.5.13", "3.5.0-rc.1". */
struct etcd_judged etcd_version_judge(const char *version);

#endif
