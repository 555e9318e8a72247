/* SPDX-License-Identifier: MIT */
/* "Did you mean ...?" Pure. */
#include "closest.h"

#include "util/text.h"

#include <string.h>

const char *closest(const char *word, const char *const *candidates, size_t count)
{
    size_t best = strlen(word) < 4 ? 2 : 3; /* must be below this */
    const char *near = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t d = hfi_edit_distance(word, candidates[i]);

        if (d < best) {
            best = d;
            near = candidates[i];
        }
    }
    return near;
}
