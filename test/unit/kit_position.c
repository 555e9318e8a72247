/* SPDX-License-Identifier: MIT */
/* The queue by the order of keys (kit/position.h): one table for all engines that have such a queue. */
#include "unit.h"

#include "engine/kit/position.h"

#include <string.h>

#define AHEAD_MAX 6
#define ANY       HFI_NO_BLOCKER /* it must notice the end of any claim ahead */

/* "m" mutex, "r" reader, "w" writer, "2of3" permits of a semaphore. */
static struct hfi_demand demand(const char *what)
{
    struct hfi_demand one = { HFI_MODE_MUTEX, 1, 1 };

    if (*what == 'r' || *what == 'w') {
        one.mode = HFI_MODE_RW;
        one.capacity = HFI_RW_MAX;
        one.permits = *what == 'w' ? HFI_RW_MAX : 1;
    } else if (*what != 'm') {
        one.mode = HFI_MODE_SEMAPHORE;
        one.permits = (uint32_t)(what[0] - '0');
        one.capacity = (uint32_t)(what[3] - '0');
    }
    return one;
}

static struct hfi_position position_of(const char *own, const char *const *ahead, size_t count)
{
    struct hfi_demand self = demand(own);
    struct hfi_position position;

    hfi_position_begin(&position, &self);
    for (size_t i = 0; i < count; i++) {
        struct hfi_demand one = demand(ahead[i]);

        hfi_position_ahead(&position, &one);
    }
    return position;
}

#define HOLDS    HFI_VERDICT_HOLDS
#define WAITS    HFI_VERDICT_WAITS
#define MISMATCH HFI_VERDICT_MISMATCH

static void table(void **state)
{
    static const struct {
        const char *own, *ahead[AHEAD_MAX]; /* the oldest first */
        enum hfi_verdict verdict;
        size_t blocker;
        bool once; /* when the blocker has gone, it holds */
        bool next; /* all ahead of it hold */
    } cases[] = {
        { "m", { NULL }, HOLDS, ANY, false, true },
        { "m", { "m" }, WAITS, 0, true, true },
        { "m", { "m", "m" }, WAITS, 1, false, false },
        { "m", { "m", "m", "m" }, WAITS, 2, false, false },

        { "r", { "r", "r" }, HOLDS, ANY, false, true },
        { "r", { "r", "r", "r" }, HOLDS, ANY, false, true },
        { "w", { "r" }, WAITS, 0, true, true },
        { "w", { "r", "r" }, WAITS, 1, false, true },
        { "r", { "r", "w" }, WAITS, 1, true, false },
        /* The writer, not the reader behind it. */
        { "r", { "r", "w", "r" }, WAITS, 1, true, false },
        { "r", { "w", "w" }, WAITS, 1, false, false },
        { "r", { "w", "w", "w", "w" }, WAITS, 3, false, false },

        { "1of2", { "1of2" }, HOLDS, ANY, false, true },
        { "1of2", { "1of2", "1of2" }, WAITS, ANY, false, true },
        { "1of2", { "1of2", "1of2", "1of2" }, WAITS, ANY, false, false },
        { "1of3", { "1of3", "1of3" }, HOLDS, ANY, false, true },
        { "1of3", { "1of3", "1of3", "1of3" }, WAITS, ANY, false, true },
        { "2of3", { "1of3", "1of3" }, WAITS, ANY, false, true },
        { "3of3", { "1of3" }, WAITS, 0, true, true },
        /* No claim overtakes another, although there is room for it. */
        { "1of3", { "1of3", "3of3" }, WAITS, 1, true, false },
        { "1of3", { "1of3", "3of3", "1of3" }, WAITS, 1, true, false },
        { "1of5", { "2of5", "4of5" }, WAITS, ANY, false, false },
        /* Two claims that can never hold together, of some permits each. */
        { "3of5", { "4of5" }, WAITS, 0, true, true },
        { "3of5", { "2of5", "4of5" }, WAITS, 1, true, false },
        { "3of5", { "2of5", "1of5", "4of5" }, WAITS, 2, false, false },
        { "3of5", { "3of5", "2of5" }, WAITS, 0, true, true },
        { "2of5", { "4of5", "2of5", "2of5" }, WAITS, 0, false, false },

        /* Other kinds: the oldest claim says what the name is; behind another kind nobody holds. */
        { "1of2", { "m" }, MISMATCH, 0, true, true },
        { "1of3", { "1of2" }, MISMATCH, 0, true, true },
        { "r", { "m" }, MISMATCH, 0, true, true },
        { "1of2", { "1of2", "m" }, WAITS, 1, true, false },
        { "r", { "r", "m" }, WAITS, 1, true, false },
        { "m", { "r", "m" }, MISMATCH, 1, false, false },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hfi_position position;
        size_t count = 0;

        while (count < AHEAD_MAX && cases[i].ahead[count])
            count++;
        position = position_of(cases[i].own, cases[i].ahead, count);
        if (hfi_position_verdict(&position) != cases[i].verdict ||
            position.blocker != cases[i].blocker ||
            hfi_position_blocked_once(&position) != cases[i].once ||
            hfi_position_is_next(&position) != cases[i].next)
            fail_msg("case %zu: %s behind %zu: verdict %d, blocker %zu, once %d, next %d", i,
                     cases[i].own, count, (int)hfi_position_verdict(&position), position.blocker,
                     hfi_position_blocked_once(&position), hfi_position_is_next(&position));
    }
}

static const char *const kinds[] = { "m", "r", "w", "1of3", "2of3", "3of3", "1of2" };

static void random_queue(uint64_t *random, const char *queue[AHEAD_MAX])
{
    for (int i = 0; i < AHEAD_MAX; i++)
        queue[i] = kinds[unit_random(random) % (unit_random(random) % 2 ? 3 : COUNT(kinds))];
}

/* All holders of a queue are its first claims, are of one kind, and fit together. */
static void never_too_many(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        const char *queue[AHEAD_MAX];
        struct hfi_line line = { .count = 0 };
        uint64_t taken = 0;
        bool before = true;

        random_queue(&random, queue);
        for (size_t i = 0; i < AHEAD_MAX; i++) {
            struct hfi_demand one = demand(queue[i]), first = demand(queue[0]);
            struct hfi_position position = position_of(queue[i], queue, i);
            bool holds = hfi_position_verdict(&position) == HFI_VERDICT_HOLDS;

            assert_int_equal(hfi_line_add(&line, &one), holds);
            assert_true(i == 0 ? holds : !holds || before);
            taken += holds ? one.permits : 0;
            assert_true(!holds || (taken <= one.capacity && one.mode == first.mode &&
                                   one.capacity == first.capacity));
            before = holds;
        }
    }
}

/* Take claims away, in any order: a waiter holds no sooner than its blocker has gone, at once then if `once` says so, and
 * never stops holding. */
static void only_forward(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        const char *queue[AHEAD_MAX];
        size_t count = AHEAD_MAX - 1, blocker;
        const char *own, *watched;
        struct hfi_position position;
        bool once, held = false;

        random_queue(&random, queue);
        own = queue[count];
        position = position_of(own, queue, count);
        once = hfi_position_blocked_once(&position);
        blocker = position.blocker;
        watched = blocker == HFI_NO_BLOCKER ? NULL : queue[blocker];
        if (once) { /* only the blocker goes */
            const char *left[AHEAD_MAX];
            size_t kept = 0;

            for (size_t i = 0; i < count; i++)
                if (i != blocker)
                    left[kept++] = queue[i];
            position = position_of(own, left, kept);
            assert_int_equal(hfi_position_verdict(&position), HFI_VERDICT_HOLDS);
        }
        while (count > 0) {
            size_t gone = (size_t)unit_random(&random) % count;
            bool holds;

            if (watched && gone == blocker)
                watched = NULL;
            else if (watched && gone < blocker)
                blocker--;
            memmove(&queue[gone], &queue[gone + 1], (count - gone - 1) * sizeof *queue);
            count--;
            position = position_of(own, queue, count);
            holds = hfi_position_verdict(&position) == HFI_VERDICT_HOLDS;
            assert_true(!(holds && watched));
            assert_true(holds || !held);
            held = holds;
        }
        assert_true(held);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(never_too_many),
        cmocka_unit_test(only_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
