/* SPDX-License-Identifier: MIT */
/* What readers ask of a model: rows in order, rows that changed, words. */
#include "model.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *see_state_word(enum see_state state)
{
    static const char *const words[SEE_STATES] = { "deadlock", "at_risk", "lost", "wanted",
                                                   "held",     "waiting", "idle" };

    return state < SEE_STATES ? words[state] : "unknown";
}

const struct see_row *see_model_changed(const struct see_model *model, const struct see_row *last,
                                        uint64_t change)
{
    const struct see_row *row = last ? last->older : model->newest;

    return row && row->change > change ? row : NULL;
}

int see_name_compare(const struct see_row *a, const struct see_row *b)
{
    size_t shorter = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, shorter);

    if (order != 0)
        return order;
    return a->name_len < b->name_len ? -1 : a->name_len > b->name_len;
}

/* How the digits at both places compare as numbers; *ret_a, *ret_b: behind them. */
static int compare_numbers(const struct see_row *a, size_t *ret_a, const struct see_row *b,
                           size_t *ret_b)
{
    size_t i = *ret_a, k = *ret_b, from_a, from_b;

    while (i < a->name_len && a->name[i] == '0')
        i++;
    while (k < b->name_len && b->name[k] == '0')
        k++;
    for (from_a = i; i < a->name_len && isdigit(a->name[i]); i++)
        ;
    for (from_b = k; k < b->name_len && isdigit(b->name[k]); k++)
        ;
    *ret_a = i;
    *ret_b = k;
    if (i - from_a != k - from_b)
        return i - from_a < k - from_b ? -1 : 1;
    return memcmp(a->name + from_a, b->name + from_b, i - from_a);
}

int see_name_natural(const struct see_row *a, const struct see_row *b)
{
    size_t i = 0, k = 0;

    while (i < a->name_len && k < b->name_len) {
        int order = isdigit(a->name[i]) && isdigit(b->name[k])
                        ? compare_numbers(a, &i, b, &k)
                        : (int)a->name[i++] - (int)b->name[k++];

        if (order != 0)
            return order;
    }
    if (i < a->name_len || k < b->name_len)
        return i < a->name_len ? 1 : -1;
    return see_name_compare(a, b); /* "01" and "1" */
}

/* States without trouble are one class: it is the number of waiters that counts there. */
static unsigned trouble(const struct see_row *row)
{
    if (row->state <= SEE_LOST)
        return row->state;
    return row->overdue ? SEE_LOST + 1 : SEE_LOST + 2;
}

int see_row_compare(const void *a, const void *b)
{
    const struct see_row *left = *(const struct see_row *const *)a;
    const struct see_row *right = *(const struct see_row *const *)b;

    if (trouble(left) != trouble(right))
        return trouble(left) < trouble(right) ? -1 : 1;
    if (left->waiter_count != right->waiter_count)
        return left->waiter_count > right->waiter_count ? -1 : 1;
    return see_name_natural(left, right);
}

const struct see_row **see_model_rows(const struct see_model *model)
{
    const struct see_row **rows = calloc(model->present + 1, sizeof(struct see_row *));
    size_t count = 0;

    if (!rows)
        return NULL;
    for (const struct see_row *row = model->newest; row; row = row->older)
        if (row->present && count < model->present)
            rows[count++] = row;
    return rows;
}

const struct see_row **see_model_sorted(const struct see_model *model)
{
    const struct see_row **rows = see_model_rows(model);

    if (rows)
        qsort(rows, model->present, sizeof *rows, see_row_compare);
    return rows;
}

const struct see_holder *see_row_holder(const struct see_row *row)
{
    const struct see_holder *found = NULL;

    for (size_t i = 0; i < row->holder_count; i++) {
        const struct see_holder *holder = &row->holders[i];

        if (holder->at_risk)
            return holder;
        if (!found || holder->since_ms < found->since_ms)
            found = holder;
    }
    return found;
}

const struct see_circle *see_row_circle(const struct see_model *model, const struct see_row *row)
{
    for (size_t i = 0; i < model->circle_count; i++)
        for (size_t k = 0; k < model->circles[i].count; k++) {
            const struct see_link *link = &model->circles[i].links[k];

            if (link->name_len == row->name_len &&
                memcmp(link->name, row->name, row->name_len) == 0)
                return &model->circles[i];
        }
    return NULL;
}
