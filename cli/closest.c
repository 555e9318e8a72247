/* SPDX-License-Identifier: MIT */
/* "Did you mean ...?" Pure. */
#include "closest.h"

#include <string.h>

#define WORD_MAX 32 /* longer words have no close relatives here */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* The edit distance from a to b: letters to add, drop, change or swap with their neighbour. */
static size_t distance(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t cost[WORD_MAX + 1][WORD_MAX + 1];

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;

    for (size_t i = 0; i <= a_len; i++)
        for (size_t j = 0; j <= b_len; j++) {
            size_t other;

            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            other = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = min3(cost[i - 1][j] + 1, cost[i][j - 1] + 1, other);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = min3(cost[i][j], cost[i - 2][j - 2] + 1, cost[i][j]);
        }
    return cost[a_len][b_len];
}

const char *closest(const char *word, const char *const *candidates, size_t count)
{
    size_t best = strlen(word) < 4 ? 2 : 3; /* must be below this */
    const char *near = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, candidates[i]);

        if (d < best) {
            best = d;
            near = candidates[i];
        }
    }
    return near;
}
