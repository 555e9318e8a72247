/* SPDX-License-Identifier: MIT */
/* The screen as a whole: figures, the alarm, the list of names, keys. Pure: model and ui in, cells out. */
#include "ui.h"

#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NOTICE_MS 6000

/* ---- figures -------------------------------------------------------------------------------- */

/* How it is with the store: an outage is red, and what is not known yet has no mark. */
static int draw_health(const struct ui *ui, struct screen *screen, int col, int room)
{
    const struct see_model *model = ui->model;
    int style = STYLE_GOOD;
    const char *mark = ui_mark(screen, SEE_HELD);

    if (!ui->up && !model->tried) {
        style = STYLE_DIM;
        mark = "-";
    } else if (!ui->up) {
        style = STYLE_DEADLOCK;
        mark = ui_mark(screen, SEE_LOST);
    } else if (model->absent) {
        style = STYLE_DIM;
        mark = ui_mark(screen, SEE_IDLE);
    }
    return screen_say(screen, 0, col, room - col, style, "%s ", mark);
}

static void draw_store(const struct ui *ui, struct screen *screen)
{
    const struct see_source_info *info = &ui->infos[ui->store];
    const struct see_model *model = ui->model;
    char right[96], names[48], time_text[16];
    time_t seconds = (time_t)(ui->clock_ms / 1000);
    struct tm local;
    int col, room;

    localtime_r(&seconds, &local);
    strftime(time_text, sizeof time_text, "%H:%M:%S", &local);
    if (!model->looked)
        snprintf(names, sizeof names, "- names ");
    else if (ui->hidden)
        snprintf(names, sizeof names, "%zu of %zu names ", ui->count, ui->count + ui->hidden);
    else
        snprintf(names, sizeof names, "%zu name%s ", model->present,
                 model->present == 1 ? "" : "s");
    if (screen->cols >= 60 && !model->looked)
        snprintf(right, sizeof right, "%s - waits ", names);
    else if (screen->cols >= 60)
        snprintf(right, sizeof right, "%s %zu wait%s ", names, model->waiters,
                 model->waiters == 1 ? "s" : "");
    else
        snprintf(right, sizeof right, "%s", names);
    room = screen->cols - (int)strlen(right) - (int)strlen(time_text) - 2;
    col = screen_say(screen, 0, 0, room, STYLE_INK | STYLE_BOLD,
                     screen->cols >= 60 ? "holdfast top  " : "");
    if (ui->store_count > 1)
        col = screen_say(screen, 0, col, room - col, STYLE_DIM, "%zu/%zu ", ui->store + 1,
                         ui->store_count);
    col = draw_health(ui, screen, col, room);
    if (info->name[0])
        col += screen_text(screen, 0, col, room - col, STYLE_INK | STYLE_BOLD, info->name) + 1;
    col += screen_bytes(screen, 0, col, room - col - 8, STYLE_DIM, CUT_MIDDLE, info->location,
                        strlen(info->location));
    if (model->latency_us >= 0 && ui->up)
        screen_say(screen, 0, col + 1, room - col - 1, STYLE_INK,
                   model->latency_us < 100     ? "<0.1ms"
                   : model->latency_us < 10000 ? "%.1fms"
                                               : "%.0fms",
                   (double)model->latency_us / 1000);
    col = screen->cols - (int)strlen(right) - (int)strlen(time_text);
    screen_say(screen, 0, col, screen->cols, STYLE_DIM, "%s", right);
    screen_say(screen, 0, screen->cols - (int)strlen(time_text), 9, STYLE_INK, "%s", time_text);
}

/* Hand-overs of the last points as small bars; a gap where the store was away. */
static int draw_sparks(const struct ui *ui, struct screen *screen, int row, int col, int count)
{
    static const char *const bars[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    static const char *const ascii[] = { "_", ".", ".", "-", "-", "=", "=", "#" };
    size_t points = ui->model->point_count;
    uint32_t most = 1;

    for (int i = 0; i < count; i++) {
        const struct see_point *point = see_model_point(ui->model, points - (size_t)(count - i));

        if (points >= (size_t)(count - i) && point->handovers > most)
            most = point->handovers;
    }
    for (int i = 0; i < count; i++, col++) {
        const struct see_point *point;

        if (points < (size_t)(count - i))
            continue;
        point = see_model_point(ui->model, points - (size_t)(count - i));
        if (!point->away)
            screen_say(screen, row, col, 1, STYLE_HELD, "%s",
                       (screen->utf8 ? bars : ascii)[(uint64_t)point->handovers * 7 / most]);
    }
    return col;
}

static int draw_pair(struct screen *screen, int col, const char *word,
                     const struct see_histogram *seen)
{
    int64_t p50 = see_histogram_at(seen, 500), p99 = see_histogram_at(seen, 990);

    col = screen_say(screen, 1, col, 20, STYLE_DIM, "%s ", word);
    if (p50 < 0)
        return screen_say(screen, 1, col, 4, STYLE_DIM, "-");
    col = screen_say(screen, 1, col, 10, STYLE_INK, "%s ", ui_age(p50));
    return screen_say(screen, 1, col, 10, STYLE_P99, "%s", ui_age(p99));
}

static void draw_rates(const struct ui *ui, struct screen *screen)
{
    const struct see_model *model = ui->model;
    double rate = see_model_rate(model, ui->now_ms);
    int col = 0;

    if (rate < 0)
        col = screen_say(screen, 1, 0, 12, STYLE_DIM, "-");
    else
        col = screen_say(screen, 1, 0, 12, STYLE_INK | STYLE_BOLD, rate < 9.95 ? "%.1f" : "%.0f",
                         rate);
    col = screen_say(screen, 1, col, 3, STYLE_DIM, "/s") + 1;
    if (screen->cols >= 70)
        col = draw_sparks(ui, screen, 1, col, screen->cols >= 110 ? 36 : 16) + 2;
    col = draw_pair(screen, col, "wait", &model->waits) + 2;
    col = draw_pair(screen, col, "hold", &model->holds) + 2;
    if (model->by_state[SEE_AT_RISK])
        col = screen_say(screen, 1, col, screen->cols, STYLE_RISK | STYLE_BOLD, "%s %zu at risk",
                         ui_mark(screen, SEE_AT_RISK), model->by_state[SEE_AT_RISK]) +
              2;
    if (model->by_state[SEE_LOST])
        screen_say(screen, 1, col, screen->cols, STYLE_LOST, "%s %zu lost",
                   ui_mark(screen, SEE_LOST), model->by_state[SEE_LOST]);
}

/* ---- the alarm: one line, the worst first ------------------------------------------------------- */

static void draw_circle(const struct ui *ui, struct screen *screen)
{
    const struct see_circle *circle = &ui->model->circles[0];
    const char *arrow = screen->utf8 ? " → " : " > ";
    const char *tail = ui->page == PAGE_GRAPH ? "" : "g shows it ";
    int end = screen->cols - (int)strlen(tail) - 1, col;

    col = screen_say(screen, 2, 1, end, STYLE_DEADLOCK | STYLE_BOLD, "%s DEADLOCK ",
                     ui_mark(screen, SEE_DEADLOCK));
    col = screen_say(screen, 2, col, end - col, STYLE_INK,
                     "for %s: ", ui_age(ui->now_ms - circle->since_ms));
    for (size_t i = 0; i <= circle->count; i++) {
        const struct see_link *link = &circle->links[i % circle->count];
        char what[HF_LABEL_MAX + 1], where[HF_LABEL_MAX + 32];

        ui_client(link->label, link->pid, what, sizeof what, where, sizeof where);
        col += screen_text(screen, 2, col, end - col, STYLE_INK, what[0] ? what : where);
        if (i < circle->count)
            col = screen_say(screen, 2, col, end - col, STYLE_INK, "%s", arrow);
    }
    screen_say(screen, 2, screen->cols - (int)strlen(tail), 12, STYLE_DEADLOCK, "%s", tail);
    screen_ground(screen, 2, 0, screen->cols, STYLE_ALARM);
}

/* Why a store is away, without "open URL: " or "LOCATION: " before it: the first line names the store. */
static const char *reason(const struct ui *ui)
{
    const char *text = ui->model->text, *location = ui->infos[ui->store].location;
    const char *behind = strstr(text, ": ");
    bool named = strncmp(text, "open ", 5) == 0 || strncmp(text, location, strlen(location)) == 0;

    return named && behind ? behind + 2 : text;
}

/* "etcd has not answered for 12s; trying again in 4s", and why. */
static void draw_away(const struct ui *ui, struct screen *screen, int64_t clock_ms)
{
    const struct see_model *model = ui->model;
    const char *engine = ui->infos[ui->store].engine, *since = ui_age(clock_ms - ui->up_since_ms);
    int64_t again_ms = model->up ? 0 : model->next_try_ms - clock_ms;
    int col, style = STYLE_DEADLOCK | STYLE_BOLD;

    if (ui->once)
        col = screen_say(screen, 2, 1, screen->cols - 1, style, "%s does not answer", engine);
    else if (again_ms > 0)
        col = screen_say(screen, 2, 1, screen->cols - 1, style,
                         "%s has not answered for %s; trying again in %s", engine, since,
                         ui_age((again_ms + 999) / 1000 * 1000));
    else
        col = screen_say(screen, 2, 1, screen->cols - 1, style,
                         "%s has not answered for %s; trying again now", engine, since);
    if (model->text[0] && !model->up)
        screen_text(screen, 2, col + 2, screen->cols - col - 2, STYLE_DIM, reason(ui));
}

/* "filter nig_  1 of 12": what is typed, and how many names it leaves. */
static void draw_filter(const struct ui *ui, struct screen *screen)
{
    int col = screen_say(screen, 2, 1, 8, STYLE_DIM, "filter ");

    col += screen_text(screen, 2, col, screen->cols - col - 14, STYLE_INK | STYLE_BOLD, ui->filter);
    screen_say(screen, 2, col, 30, STYLE_DIM, "%s  %zu of %zu",
               ui->input == INPUT_FILTER ? "_" : "", ui->count, ui->count + ui->hidden);
}

static void draw_alarm(const struct ui *ui, struct screen *screen)
{
    const struct see_model *model = ui->model;
    int64_t clock_ms = ui->clock_ms;

    if (ui->input == INPUT_FILTER) /* nobody types blindly */
        draw_filter(ui, screen);
    else if (ui->notice[0] && clock_ms - ui->notice_ms < NOTICE_MS)
        screen_text(screen, 2, 1, screen->cols - 2,
                    ui->notice_bad ? STYLE_RISK | STYLE_BOLD : STYLE_INK, ui->notice);
    else if (!ui->up && (model->text[0] || model->looked))
        draw_away(ui, screen, clock_ms);
    else if (model->circle_count > 0)
        draw_circle(ui, screen);
    else if (ui->filter[0])
        draw_filter(ui, screen);
}

/* ---- the list -------------------------------------------------------------------------------------- */

/* Where the columns are; a width of 0: left out. */
struct columns {
    int name, kind, taken, age, wait, holder, token; /* first column */
    int name_w, kind_w, taken_w, age_w, wait_w, holder_w, token_w;
};

static struct columns columns_for(const struct screen *screen)
{
    struct columns at = { .name = 2, .age_w = 9, .wait_w = 5 };
    int cols = screen->cols, rest;

    at.token_w = cols >= 110 ? 16 : cols >= 80 ? 7 : 0;
    at.kind_w = cols >= 70 ? 6 : 0;
    at.taken_w = cols >= 60 ? 7 : 0;
    rest = cols - 1 - at.age_w - at.wait_w - 2 - (at.token_w ? at.token_w + 1 : 0) -
           (at.kind_w ? at.kind_w + 1 : 0) - (at.taken_w ? at.taken_w + 1 : 0);
    at.holder_w = cols >= 55 ? rest * 56 / 100 : 0;
    at.name_w = rest - at.holder_w - (at.holder_w ? 1 : 0);
    at.kind = at.name + at.name_w + 1;
    at.taken = at.kind + (at.kind_w ? at.kind_w + 1 : 0);
    at.age = at.taken + (at.taken_w ? at.taken_w + 1 : 0) - 1;
    at.wait = at.age + at.age_w;
    at.holder = at.wait + at.wait_w + 2;
    at.token = cols - at.token_w;
    return at;
}

static void draw_heading(const struct ui *ui, struct screen *screen, const struct columns *at,
                         int row)
{
    int style = STYLE_INK | STYLE_BOLD;

    screen_say(screen, row, at->name, at->name_w, style, "NAME");
    screen_say(screen, row, at->kind, at->kind_w, style, "KIND");
    screen_say(screen, row, at->taken, at->taken_w, style, "TAKEN");
    screen_right(screen, row, at->age, at->age_w, style, "AGE");
    screen_right(screen, row, at->wait, at->wait_w, style, "WAIT");
    screen_say(screen, row, at->holder, at->holder_w, style, "HOLDER");
    screen_say(screen, row, at->token, at->token_w, style, "TOKEN");
    if (ui->changes) {
        char text[32];

        snprintf(text, sizeof text, " %zu change%s ", ui->changes, ui->changes == 1 ? "" : "s");
        screen_right(screen, row, screen->cols - 20, 20, STYLE_RISK | STYLE_BOLD, text);
    }
    screen_ground(screen, row, 0, screen->cols, STYLE_BAR);
}

static const char *kind_word(hf_kind kind)
{
    return kind == HF_KIND_MUTEX ? "mutex" : kind == HF_KIND_SEMAPHORE ? "sem" : "rwlock";
}

static void draw_taken(struct screen *screen, int row, const struct columns *at,
                       const struct see_row *line)
{
    if (line->kind == HF_KIND_MUTEX || line->kind == HF_KIND_SEMAPHORE)
        screen_say(screen, row, at->taken, at->taken_w, STYLE_INK, "%" PRIu32 "/%" PRIu32,
                   line->taken, line->capacity);
    else if (line->taken == line->capacity && line->taken > 0)
        screen_say(screen, row, at->taken, at->taken_w, STYLE_INK, "writer");
    else
        screen_say(screen, row, at->taken, at->taken_w, STYLE_INK, "%zu read", line->holder_count);
}

/* The age is judged by the name's own past: dim below the median, amber above 99 of 100, red in a circle. */
static int age_style(const struct ui *ui, const struct see_row *line, int64_t age_ms)
{
    if (!ui->up)
        return STYLE_DIM;
    if (line->state == SEE_DEADLOCK)
        return STYLE_DEADLOCK | STYLE_BOLD;
    if (line->overdue)
        return STYLE_RISK | STYLE_BOLD;
    return line->p50_ms >= 0 && age_ms < line->p50_ms ? STYLE_DIM : STYLE_INK;
}

static void draw_age(const struct ui *ui, struct screen *screen, int row, const struct columns *at,
                     const struct see_row *line)
{
    const struct see_holder *holder = see_row_holder(line);
    char text[64];

    if (line->state == SEE_LOST) {
        snprintf(text, sizeof text, "lost %s", ui_age(ui->now_ms - line->lost_at_ms));
        screen_right(screen, row, at->age, at->age_w, STYLE_INK | STYLE_BOLD, text);
    } else if (line->state == SEE_AT_RISK && holder) {
        int64_t left_ms = holder->until_ms - ui->now_ms;

        snprintf(text, sizeof text, "%s left", ui_age(left_ms > 0 ? left_ms : 0));
        screen_right(screen, row, at->age, at->age_w, STYLE_RISK | STYLE_BOLD, text);
    } else if (holder) {
        int64_t age_ms = ui->now_ms - holder->since_ms;

        age_ms = age_ms < 0 ? 0 : age_ms;
        screen_right(screen, row, at->age, at->age_w, age_style(ui, line, age_ms), ui_age(age_ms));
    } else {
        screen_right(screen, row, at->age, at->age_w, STYLE_DIM, "-");
    }
}

static void draw_holder(struct screen *screen, int row, const struct columns *at,
                        const struct see_row *line)
{
    const struct see_holder *holder = see_row_holder(line);
    int width = at->holder_w, style = STYLE_INK;
    char more[24] = "", token[24];

    if (!holder && line->state == SEE_LOST) {
        holder = &line->lost;
        style = STYLE_DIM;
    }
    if (!holder) {
        screen_say(screen, row, at->holder, width, STYLE_DIM, "%s",
                   line->closed_until_ms ? "closed by a lock delay" : "-");
        return;
    }
    if (line->state == SEE_IDLE)
        style = STYLE_DIM;
    if (line->holder_count > 1)
        snprintf(more, sizeof more, " +%zu", line->holder_count - 1);
    if (width > 0) {
        int used = ui_draw_client(screen, row, at->holder, width - (int)strlen(more), style,
                                  holder->label, holder->pid);

        screen_say(screen, row, at->holder + used, width - used, STYLE_INK, "%s", more);
    }
    if (at->token_w == 0)
        return;
    snprintf(token, sizeof token, "%" PRIu64, holder->token);
    if (!holder->token)
        screen_say(screen, row, at->token, at->token_w, STYLE_DIM, "-");
    else if (strlen(token) <= (size_t)at->token_w) {
        int dim = strlen(token) > 6 ? (int)strlen(token) - 6 : 0;

        screen_say(screen, row, at->token, dim, STYLE_DIM, "%.*s", dim, token);
        screen_say(screen, row, at->token + dim, 6, STYLE_INK, "%s", token + dim);
    } else {
        screen_say(screen, row, at->token, at->token_w, STYLE_DIM, "%s%s", screen->utf8 ? "…" : "~",
                   token + strlen(token) - 6);
    }
}

static void draw_row(const struct ui *ui, struct screen *screen, int row, const struct columns *at,
                     const struct see_row *line, bool chosen)
{
    char text[24];

    if (line) {
        bool dim = !ui->up || line->state == SEE_LOST;

        screen_say(screen, row, 0, 1, ui_state_style(line->state), "%s",
                   ui_mark(screen, line->state));
        screen_bytes(screen, row, at->name, at->name_w, dim ? STYLE_DIM : STYLE_INK, CUT_MIDDLE,
                     line->name, line->name_len);
        screen_say(screen, row, at->kind, at->kind_w, STYLE_DIM, "%s", kind_word(line->kind));
        if (at->taken_w)
            draw_taken(screen, row, at, line);
        draw_age(ui, screen, row, at, line);
        snprintf(text, sizeof text, "%zu", line->waiter_count);
        if (ui->model->waiters_tracked && line->waiter_count)
            screen_right(screen, row, at->wait, at->wait_w, STYLE_INK | STYLE_BOLD, text);
        else
            screen_right(screen, row, at->wait, at->wait_w, STYLE_DIM,
                         ui->model->waiters_tracked ? "-" : "?");
        draw_holder(screen, row, at, line);
    } else {
        screen_say(screen, row, at->name, at->name_w, STYLE_DIM, "(gone)");
    }
    if (chosen)
        screen_ground(screen, row, 0, screen->cols, STYLE_SELECTED);
}

static void draw_nothing(const struct ui *ui, struct screen *screen, int row)
{
    const struct see_model *model = ui->model;

    if (!model->looked) {
        screen_say(screen, row, 2, screen->cols - 2, STYLE_DIM,
                   model->text[0] ? "Nothing is known of this store yet." : "looking...");
    } else if (model->absent) {
        screen_say(screen, row, 2, screen->cols - 2, STYLE_INK, "There is no store yet at");
        screen_text(screen, row + 1, 4, screen->cols - 4, STYLE_DIM, model->text);
        screen_say(screen, row + 2, 2, screen->cols - 2, STYLE_INK, "The first lock creates it.");
    } else if (ui->hidden) {
        int col = screen_say(screen, row, 2, screen->cols - 2, STYLE_INK, "No name %s '",
                             ui->filter[0] ? "has" : "matches");

        col += screen_text(screen, row, col, screen->cols - col - 2, STYLE_INK,
                           ui->filter[0] ? ui->filter : ui->glob);
        screen_say(screen, row, col, 1, STYLE_INK, "'");
        if (ui->filter[0])
            screen_say(screen, row + 1, 2, screen->cols - 2, STYLE_DIM, "Esc clears the filter.");
    } else {
        screen_say(screen, row, 2, screen->cols - 2, STYLE_INK,
                   "Nobody holds or waits for anything.");
        screen_say(screen, row + 1, 2, screen->cols - 2, STYLE_DIM,
                   "Try: holdfast run demo -- sleep 60");
    }
}

void ui_draw_list(struct ui *ui, struct screen *screen, int from, int rows)
{
    struct columns at = columns_for(screen);

    draw_heading(ui, screen, &at, from - 1);
    ui->list_rows = rows > 0 ? rows : 1;
    if (ui->count == 0) {
        draw_nothing(ui, screen, from + 1);
        return;
    }
    if (ui->cursor < ui->top)
        ui->top = ui->cursor;
    if (ui->cursor >= ui->top + (size_t)ui->list_rows)
        ui->top = ui->cursor - (size_t)ui->list_rows + 1;
    if (ui->top + (size_t)ui->list_rows > ui->count) /* no empty lines below, and rows above */
        ui->top = ui->count > (size_t)ui->list_rows ? ui->count - (size_t)ui->list_rows : 0;
    for (int i = 0; i < rows && ui->top + (size_t)i < ui->count; i++)
        draw_row(ui, screen, from + i, &at, ui->rows[ui->top + (size_t)i],
                 (ui->chosen || ui->open) && ui->top + (size_t)i == ui->cursor);
}

/* ---- the whole --------------------------------------------------------------------------------------- */

static int draw_key(struct screen *screen, int row, int col, const char *key, const char *word)
{
    col = screen_say(screen, row, col, 8, STYLE_INK | STYLE_BOLD, "%s", key) + 1;
    return screen_say(screen, row, col, screen->cols - col, STYLE_DIM, "%s", word) + 2;
}

/* While something is typed, no other key does what it does else. */
static void draw_input_keys(const struct ui *ui, struct screen *screen, int row)
{
    const char *word = ui->input == INPUT_FILTER  ? "filter"
                       : ui->input == INPUT_BREAK ? "break, if the name is right"
                                                  : "ask";
    int col = draw_key(screen, row, 0, screen->utf8 ? "↵" : "Enter", word);

    draw_key(screen, row, col, "Esc", "back");
}

void ui_draw_foot(const struct ui *ui, struct screen *screen, int row)
{
    static const char *const keys[][2] = { { "↵", "open" },  { "/", "filter" }, { "s", "sort" },
                                           { "g", "graph" }, { "d", "doctor" }, { "a", "ask" },
                                           { "b", "break" }, { "↑↓", "move" },  { "q", "quit" },
                                           { "?", "keys" } };
    size_t count = sizeof keys / sizeof keys[0];
    int col = 0;

    if (ui->input != INPUT_NONE) {
        draw_input_keys(ui, screen, row);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *key = screen->utf8 || i ? keys[i][0] : "Enter";
        int room = screen->cols - (i + 2 < count ? (int)strlen("  q quit  ? keys") : 0);

        if (!screen->utf8 && strcmp(key, "↑↓") == 0)
            key = "jk";
        if (col + screen_width(screen, key, strlen(key)) + 1 + (int)strlen(keys[i][1]) <= room)
            col = draw_key(screen, row, col, key, keys[i][1]);
    }
}

void ui_draw_head(const struct ui *ui, struct screen *screen)
{
    draw_store(ui, screen);
    draw_rates(ui, screen);
    draw_alarm(ui, screen);
}

void ui_draw(struct ui *ui, struct screen *screen)
{
    int rows = screen->rows - HEAD_ROWS - 1, panel;

    screen_clear(screen);
    ui_draw_head(ui, screen);
    ui_draw_foot(ui, screen, screen->rows - 1);
    if (ui->page != PAGE_LIST) {
        ui_draw_page(ui, screen, HEAD_ROWS - 1, rows + 1);
        return;
    }
    panel = ui_panel_rows(ui, screen);
    if (panel > rows - 1)
        panel = rows > 4 ? rows - 1 : 0;
    ui_draw_list(ui, screen, HEAD_ROWS, rows - panel);
    if (panel > 0)
        ui_draw_panel(ui, screen, screen->rows - 1 - panel, panel);
}
