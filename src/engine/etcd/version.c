/* SPDX-License-Identifier: MIT */
/* Known defects of etcd that break a promise of a lock, by version. */
#include "engine/etcd/version.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* From this version up to but without the next one. In the order of versions. */
static const struct {
    unsigned from[3];
    hf_check_level level;
    const char *why;
} ranges[] = {
    { { 0, 0, 0 }, HF_CHECK_LEVEL_BAD, "3.4 or newer is needed" },
    /* etcd-io/etcd issue 15247 */
    { { 3, 4, 0 },
      HF_CHECK_LEVEL_WARNING,
      "a leader that was stopped and goes on may end leases of others; use 3.4.31, 3.5.13 or "
      "later" },
    { { 3, 4, 31 }, HF_CHECK_LEVEL_OK, NULL },
    /* etcd-io/etcd issue 13766 */
    { { 3, 5, 0 },
      HF_CHECK_LEVEL_BAD,
      "a member that crashes may lose what it has confirmed (etcd issue 13766); use 3.5.13 or "
      "later" },
    { { 3, 5, 3 },
      HF_CHECK_LEVEL_WARNING,
      "a leader that was stopped and goes on may end leases of others; use 3.4.31, 3.5.13 or "
      "later" },
    { { 3, 5, 13 }, HF_CHECK_LEVEL_OK, NULL },
};

static int compare(const unsigned a[3], const unsigned b[3])
{
    for (int i = 0; i < 3; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Read "3.5.13". false: it is none. What follows the third number ("-rc.1") does not matter. */
static bool parse(const char *version, unsigned ret_parts[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long part = strtoul(version, &end, 10);

        if (*version < '0' || *version > '9' || part > UINT_MAX || (i < 2 && *end != '.'))
            return false;
        ret_parts[i] = (unsigned)part;
        version = end + 1;
    }
    return true;
}

struct etcd_judged etcd_version_judge(const char *version)
{
    struct etcd_judged judged = { HF_CHECK_LEVEL_WARNING, "what this version loses is not known" };
    unsigned parts[3];

    if (!parse(version, parts))
        return judged;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (compare(parts, ranges[i].from) >= 0)
            judged = (struct etcd_judged){ ranges[i].level, ranges[i].why };
    return judged;
}
