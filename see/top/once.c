/* SPDX-License-Identifier: MIT */
/* One picture of each store, as text or as JSON. 64-bit numbers are strings, as in `holdfast ls --json`. */
#include "once.h"

#include "ui.h"
#include "util/json.h"
#include "util/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS     10000
#define EXIT_NO_STORE 69
#define EXIT_OUTPUT   74

/* Until the store has answered, or has said why not. */
static bool wait_for(struct see_source *source)
{
    for (int64_t end_ms = see_now_ms() + ANSWER_MS; see_now_ms() < end_ms; poll(NULL, 0, 10)) {
        const struct see_model *model = see_source_lock(source);
        bool answered = model->looked, away = !model->up && model->text[0];

        see_source_unlock(source);
        if (answered || away)
            return answered;
    }
    return false;
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *number(uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

static json_t *text_of(const void *bytes, size_t len)
{
    json_t *text = json_stringn(bytes, len);
    char quoted[HFI_QUOTED_MAX];

    return text ? text : json_string(hfi_quote_name(bytes, len, quoted, sizeof quoted));
}

static json_t *time_or_null(int64_t ms)
{
    return ms > 0 ? number((uint64_t)ms) : json_null();
}

static json_t *client(int64_t pid, const char *label, int64_t since_ms, uint32_t permits)
{
    json_t *object = json_object();

    json_object_set_new(object, "label", text_of(label, strlen(label)));
    json_object_set_new(object, "pid", pid > 0 ? json_integer(pid) : json_null());
    json_object_set_new(object, "since", time_or_null(since_ms));
    json_object_set_new(object, "permits", json_integer(permits));
    return object;
}

static json_t *row_json(const struct see_row *row, bool tracked)
{
    static const char *const kinds[] = { "mutex", "rwlock", "rwlock", "semaphore", "rwlock" };
    json_t *object = json_object(), *holders = json_array();
    json_t *waiters = tracked ? json_array() : json_null();
    json_t *name = json_stringn((const char *)row->name, row->name_len);
    char hex[2 * HF_NAME_MAX + 1];

    json_object_set_new(object, "name", name ? name : text_of(row->name, row->name_len));
    if (!name && row->name_len <= HF_NAME_MAX) {
        hfi_hex(row->name, row->name_len, hex);
        json_object_set_new(object, "name_hex", json_string(hex));
    }
    json_object_set_new(object, "kind", json_string(kinds[(unsigned)row->kind % 5]));
    json_object_set_new(object, "state", json_string(see_state_word(row->state)));
    json_object_set_new(object, "capacity", json_integer(row->capacity));
    json_object_set_new(object, "taken", json_integer(row->taken));
    for (size_t i = 0; i < row->holder_count; i++) {
        const struct see_holder *holder = &row->holders[i];
        json_t *item = client(holder->pid, holder->label, holder->since_ms, holder->permits);

        json_object_set_new(item, "token", number(holder->token));
        json_object_set_new(item, "until", time_or_null(holder->until_ms));
        json_object_set_new(item, "detached", json_boolean(holder->detached));
        json_object_set_new(item, "idle", json_boolean(holder->idle));
        json_object_set_new(item, "watched", json_boolean(holder->watched));
        json_array_append_new(holders, item);
    }
    for (size_t i = 0; tracked && i < row->waiter_count; i++) {
        const struct see_waiter *waiter = &row->waiters[i];
        json_t *item = client(waiter->pid, waiter->label, waiter->since_ms, waiter->permits);

        json_object_set_new(item, "position", json_integer(waiter->position));
        json_array_append_new(waiters, item);
    }
    json_object_set_new(object, "holders", holders);
    json_object_set_new(object, "waiters", waiters);
    return object;
}

static json_t *circles_json(const struct see_model *model)
{
    json_t *circles = json_array();

    for (size_t i = 0; i < model->circle_count; i++) {
        json_t *circle = json_array();

        for (size_t k = 0; k < model->circles[i].count; k++) {
            const struct see_link *link = &model->circles[i].links[k];
            json_t *item = client(link->pid, link->label, link->since_ms, 1);

            json_object_del(item, "permits");
            json_object_set_new(item, "waits_for", text_of(link->name, link->name_len));
            json_object_set_new(item, "token", link->token ? number(link->token) : json_null());
            json_array_append_new(circle, item);
        }
        json_array_append_new(circles, circle);
    }
    return circles;
}

static json_t *store_json(const struct ui *ui, bool answered)
{
    const struct see_source_info *info = ui->infos;
    const struct see_model *model = ui->model;
    json_t *object = json_object(), *names = json_array();

    json_object_set_new(object, "name", info->name[0] ? json_string(info->name) : json_null());
    json_object_set_new(object, "store", json_string(info->location));
    json_object_set_new(object, "engine", json_string(info->engine));
    json_object_set_new(object, "up", json_boolean(answered));
    json_object_set_new(object, "text",
                        model->text[0] && (!answered || model->absent)
                            ? text_of(model->text, strlen(model->text))
                            : json_null());
    json_object_set_new(object, "now", number((uint64_t)ui->clock_ms));
    json_object_set_new(object, "waiters_tracked", json_boolean(model->waiters_tracked));
    for (size_t i = 0; i < ui->count; i++)
        json_array_append_new(names, row_json(ui->rows[i], model->waiters_tracked));
    json_object_set_new(object, "names", names);
    json_object_set_new(object, "deadlocks", circles_json(model));
    return object;
}

/* ---- text ----------------------------------------------------------------------------------------- */

static void print_text(struct ui *ui, const struct once *once)
{
    struct screen screen;
    size_t size = (size_t)once->cols * CELL_BYTES + 1;
    char *line = malloc(size);
    int rows = HEAD_ROWS + 5 + (int)(ui->count < 100000 ? ui->count : 100000), last;

    if (!line || !screen_init(&screen, rows, once->cols, once->utf8)) {
        free(line);
        return;
    }
    ui_draw_head(ui, &screen);
    ui_draw_list(ui, &screen, HEAD_ROWS, rows - HEAD_ROWS);
    for (last = rows - 1; last > 0 && !screen_row(&screen, last, line, size)[0]; last--)
        ;
    for (int row = 0; row <= last; row++)
        puts(screen_row(&screen, row, line, size));
    screen_done(&screen);
    free(line);
}

int once_print(const struct once *once)
{
    json_t *stores = once->json ? json_array() : NULL;
    int code = 0;

    for (size_t i = 0; i < once->count; i++) {
        bool answered = wait_for(once->sources[i]);
        struct see_source_info info = see_source_info(once->sources[i]);
        const struct see_model *model;
        struct ui ui;

        ui_init(&ui);
        ui.infos = &info;
        ui.store_count = 1;
        ui.once = true;
        ui.glob = once->glob;
        model = see_source_lock(once->sources[i]);
        ui_refresh(&ui, model, see_now_ms());
        if (stores)
            json_array_append_new(stores, store_json(&ui, answered));
        else
            print_text(&ui, once);
        see_source_unlock(once->sources[i]);
        ui_done(&ui);
        if (!answered)
            code = EXIT_NO_STORE;
    }
    if (stores) {
        char *text = hfi_json_escape(json_dumps(stores, JSON_INDENT(2)));

        puts(text ? text : "");
        free(text);
        json_decref(stores);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        struct pollfd polled = { .fd = STDOUT_FILENO };

        /* A reader that has what it wanted needs no message. */
        if (poll(&polled, 1, 0) <= 0 || !(polled.revents & POLLERR))
            perror("holdfast: write error");
        return EXIT_OUTPUT;
    }
    return code;
}
