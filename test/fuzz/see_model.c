/* SPDX-License-Identifier: MIT */
/*
 * What `holdfast top` and `holdfast serve` know of a store (see/model), fed with views in which everything may be: names that come and go,
 * any number, labels of any bytes. After each view the model's own counts must be right, and the graph must point into it.
 */
#include "fuzz.h"

#include "core/view.h"
#include "model/model.h"

#define ENTRIES_MAX 6
#define PARTS_MAX   4

static struct hfi_entry entries[ENTRIES_MAX];
static hf_holder holders[ENTRIES_MAX][PARTS_MAX];
static hf_waiter waiters[ENTRIES_MAX][PARTS_MAX];
static unsigned char names[ENTRIES_MAX][8];
static char labels[2 * ENTRIES_MAX * PARTS_MAX][HF_LABEL_MAX + 1];

/* Mostly a small one. Durations and counts are never negative: the engines see to it
 * (hfi_told_ms(), sql/shape.c). */
static int64_t a_time(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    return what == 0xff ? (int64_t)(fuzz_number(in, 8) % (uint64_t)HF_DURATION_MAX_MS)
                        : (int64_t)what * 50;
}

static uint64_t a_number(struct fuzz_input *in)
{
    uint8_t what = fuzz_byte(in);

    return what == 0xff ? fuzz_number(in, 8) : what % 16;
}

static const char *a_label(struct fuzz_input *in, size_t *used)
{
    char *to = labels[(*used)++];
    struct fuzz_input piece = fuzz_piece(in, 12);

    snprintf(to, HF_LABEL_MAX + 1, "%.*s", (int)piece.len, (const char *)piece.at);
    return to;
}

static void fill_holder(struct fuzz_input *in, hf_holder *to, size_t *used)
{
    uint8_t what = fuzz_byte(in);

    *to = (hf_holder){ .token = a_number(in),
                       .permits = (uint32_t)a_number(in),
                       .detached = what & 1,
                       .lingers = what & 2,
                       .idle = what & 4,
                       .watched = what & 8,
                       .age_ms = a_time(in),
                       .ttl_ms = what & 16 ? -1 : a_time(in),
                       .pid = (int64_t)a_number(in),
                       .label = a_label(in, used),
                       .session = what & 32 ? a_number(in) : 0,
                       .slot_count = what >> 6 };
    to->first = to->token - (what & 7);
    for (uint32_t i = 0; i < to->slot_count; i++)
        to->slots[i] = (uint32_t)a_number(in);
}

static void fill_entry(struct fuzz_input *in, size_t i, size_t *used)
{
    uint8_t what = fuzz_byte(in);
    struct hfi_entry *to = &entries[i];

    names[i][0] = (unsigned char)('a' + what % 8);
    names[i][1] = fuzz_byte(in);
    *to = (struct hfi_entry){ .holders = holders[i], .waiters = waiters[i] };
    to->entry = (hf_entry){ .name = names[i],
                            .name_len = 1 + (what >> 7),
                            .kind = (hf_kind)(what / 8 % 4),
                            .capacity = (uint32_t)a_number(in),
                            .taken = (uint32_t)a_number(in),
                            .closed_ms = a_time(in),
                            .holder_count = fuzz_byte(in) % PARTS_MAX,
                            .waiter_count = fuzz_byte(in) % PARTS_MAX,
                            .resized = what & 4 };
    for (size_t h = 0; h < to->entry.holder_count; h++)
        fill_holder(in, &holders[i][h], used);
    for (size_t w = 0; w < to->entry.waiter_count; w++)
        waiters[i][w] = (hf_waiter){ .position = (uint32_t)w + 1,
                                     .permits = (uint32_t)a_number(in),
                                     .kind = to->entry.kind,
                                     .age_ms = a_time(in),
                                     .pid = (int64_t)a_number(in),
                                     .label = a_label(in, used),
                                     .session = a_number(in) };
}

static void check_graph(const struct see_model *model, uint8_t most)
{
    struct see_graph graph = { .nodes = NULL };

    if (see_graph_build(model, most, &graph)) {
        for (size_t i = 0; i < graph.edge_count; i++) {
            MUST(graph.edges[i].from < graph.node_count && graph.edges[i].to < graph.node_count);
            MUST(graph.edges[i].row && graph.edges[i].row->present);
        }
        for (size_t i = 0; i < graph.node_count; i++)
            for (size_t h = 0; h < graph.nodes[i].has_count; h++)
                MUST(graph.nodes[i].has[h].row->present);
    }
    see_graph_done(&graph);
}

static void check_rows(const struct see_model *model, int64_t now_ms)
{
    const struct see_row **rows = see_model_sorted(model);
    size_t of_state[SEE_STATES] = { 0 }, waiting = 0;
    uint16_t counts[SEE_INTERVALS];

    MUST(rows || model->present == 0);
    for (size_t i = 0; rows && i < model->present; i++) {
        const struct see_row *row = rows[i];

        MUST(row->present && row->state < SEE_STATES && see_state_word(row->state));
        MUST(see_model_find(model, row->name, row->name_len) == row);
        MUST(i == 0 || see_row_compare(&rows[i - 1], &rows[i]) <= 0);
        MUST(row->change <= model->change && row->detail_change >= row->change);
        of_state[row->state]++;
        waiting += row->waiter_count;
        see_row_handovers(row, now_ms, counts);
        (void)see_row_holder(row);
        (void)see_row_circle(model, row);
    }
    for (size_t i = 0; i < SEE_STATES; i++)
        MUST(of_state[i] == model->by_state[i]);
    MUST(waiting == model->waiters && model->known >= model->present);
    free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct see_model model;
    struct fuzz_input in = { data, len };
    int64_t now_ms = INT64_C(1794815787000);

    see_model_init(&model);
    while (in.len > 0) {
        uint8_t what = fuzz_byte(&in);
        hf_view view = { .entries = entries, .waiters_tracked = what & 0x40 };
        size_t used = 0;

        now_ms += what & 0x80 ? a_time(&in) * 100 : what;
        if (what % 8 == 7) {
            see_model_away(&model, now_ms, "away", 0);
            continue;
        }
        if (what % 8 == 6) {
            see_model_absent(&model, "file:/x", now_ms);
            continue;
        }
        for (view.count = 0; view.count < what % 8; view.count++)
            fill_entry(&in, view.count, &used);
        (void)see_view_may_lock(&view);
        MUST(see_model_update(&model, &view, NULL, now_ms));
        check_rows(&model, now_ms);
        check_graph(&model, what);
        for (size_t i = 0; i < model.point_count; i++)
            (void)see_model_point(&model, i);
        (void)see_model_rate(&model, now_ms);
    }
    see_model_done(&model);
    return 0;
}
