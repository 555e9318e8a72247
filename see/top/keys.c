/* SPDX-License-Identifier: MIT */
/* What a key does. The same letters mean the same on the live page. */
#include "ui.h"

#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static void move(struct ui *ui, int64_t by, int64_t now_ms)
{
    int64_t to = (int64_t)ui->cursor + by;

    if (ui->page != PAGE_LIST) {
        to = (int64_t)ui->page_top + by;
        ui->page_top = to < 0 ? 0 : (size_t)to;
        return;
    }
    if (to >= (int64_t)ui->count)
        to = (int64_t)ui->count - 1;
    ui->cursor = to < 0 ? 0 : (size_t)to;
    ui->chosen = ui->cursor < ui->count ? ui->order[ui->cursor] : 0;
    ui->holder = 0;
    ui->key_ms = now_ms;
}

/* ---- a name to break, or a holder to ask ------------------------------------------------------------ */

static void begin(struct ui *ui, enum ui_input input)
{
    const struct see_row *row = ui_row(ui);
    const struct see_holder *holder = ui_holder(ui, row);
    const char *what = input == INPUT_BREAK ? "broken" : "asked";

    if (!row || !holder) {
        ui_say(ui, true, "Nobody holds this name: there is nothing to be %s.", what);
        return;
    }
    if (input == INPUT_BREAK && !ui->may_break) {
        ui_say(ui, true, "%s cannot break a lease.", ui->infos[ui->store].engine);
        return;
    }
    if (input == INPUT_ASK && !ui->may_ask) {
        ui_say(ui, true, "%s cannot ask a holder.", ui->infos[ui->store].engine);
        return;
    }
    if (input == INPUT_BREAK && holder->token == 0) {
        ui_say(ui, true, "This lease has no token, so it cannot be named and broken.");
        return;
    }
    ui->input = input;
    ui->text[0] = 0;
    ui->token = holder->token;
    ui->name_len = row->name_len < sizeof ui->name ? row->name_len : sizeof ui->name;
    memcpy(ui->name, row->name, ui->name_len);
    hfi_quote_name(row->name, row->name_len, ui->target, sizeof ui->target);
    snprintf(ui->victim, sizeof ui->victim, "%s", holder->label);
    ui->heirs = row->waiter_count;
    ui->chosen = row->id;
}

static enum ui_deed entered(struct ui *ui)
{
    enum ui_input input = ui->input;

    ui->input = INPUT_NONE;
    switch (input) {
    case INPUT_ASK:
        return UI_ASK;
    case INPUT_BREAK:
        if (strcmp(ui->text, ui->target) == 0)
            return UI_BREAK;
        ui_say(ui, true, "That is not the name: nothing was broken.");
        return UI_NOTHING;
    default:
        return UI_NOTHING;
    }
}

/* ---- typing ------------------------------------------------------------------------------------------ */

static void backspace(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && ((unsigned char)text[--len] & 0xc0) == 0x80)
        ;
    text[len] = 0;
}

static void add(char *text, int key)
{
    size_t len = strlen(text);
    char bytes[16];
    mbstate_t state = { 0 };
    size_t n = wcrtomb(bytes, (wchar_t)key, &state);

    if (key < 0x20 || key == 0x7f || n == (size_t)-1 || len + n >= UI_INPUT_MAX)
        return;
    memcpy(text + len, bytes, n);
    text[len + n] = 0;
}

static enum ui_deed typed(struct ui *ui, int key)
{
    char *text = ui->input == INPUT_FILTER ? ui->filter : ui->text;

    if (key == UI_ENTER)
        return entered(ui);
    if (key == UI_ESCAPE) {
        if (ui->input == INPUT_FILTER)
            text[0] = 0;
        else
            ui_say(ui, false, "Nothing was %s.", ui->input == INPUT_BREAK ? "broken" : "asked");
        ui->input = INPUT_NONE;
    } else if (key == UI_BACKSPACE) {
        backspace(text);
    } else if (key == 0x15) { /* Ctrl-U */
        text[0] = 0;
    } else if (key < UI_UP) {
        add(text, key);
    }
    if (ui->input == INPUT_FILTER)
        ui->key_ms = 0; /* another list: in its own order */
    return UI_NOTHING;
}

/* ---- commands ------------------------------------------------------------------------------------------ */

static void turn_to(struct ui *ui, enum ui_page page)
{
    ui->page = ui->page == page ? PAGE_LIST : page;
    ui->page_top = 0;
}

/* One step: page, opened name, filter, cursor. */
static void back(struct ui *ui)
{
    if (ui->page != PAGE_LIST)
        ui->page = PAGE_LIST;
    else if (ui->open)
        ui->open = false;
    else if (ui->filter[0])
        ui->filter[0] = 0;
    else
        ui->chosen = 0;
    ui->key_ms = 0;
    ui->notice[0] = 0;
}

static void open_name(struct ui *ui, int64_t now_ms)
{
    if (ui->page != PAGE_LIST)
        ui->page = PAGE_LIST;
    else if (ui->cursor < ui->count)
        ui->open = !ui->open;
    move(ui, 0, now_ms);
}

static void next_sort(struct ui *ui)
{
    static const char *const words[SORT_COUNT] = { "trouble, waiters, name", "name", "age",
                                                   "waiters", "hand-overs" };

    ui->sort = (ui->sort + 1) % SORT_COUNT;
    ui->key_ms = 0;
    ui_say(ui, false, "Sorted by %s.", words[ui->sort]);
}

static enum ui_deed choose_store(struct ui *ui, size_t store)
{
    if (store >= ui->store_count) {
        ui_say(ui, true, "There is no store %zu.", store + 1);
        return UI_NOTHING;
    }
    ui->store = store;
    ui->count = ui->cursor = ui->top = 0;
    ui->chosen = 0;
    ui->key_ms = 0;
    ui->open = false;
    ui->notice[0] = 0;
    return UI_STORE;
}

static enum ui_deed letter(struct ui *ui, int key)
{
    switch (key) {
    case 'q':
    case 3: /* Ctrl-C */
        return UI_QUIT;
    case '/':
        ui->page = PAGE_LIST;
        ui->input = INPUT_FILTER;
        return UI_NOTHING;
    case 's':
        next_sort(ui);
        return UI_NOTHING;
    case 'g':
        turn_to(ui, PAGE_GRAPH);
        return UI_NOTHING;
    case 'd':
        turn_to(ui, PAGE_DOCTOR);
        return UI_NOTHING;
    case '?':
        turn_to(ui, PAGE_KEYS);
        return UI_NOTHING;
    case 'a':
        begin(ui, INPUT_ASK);
        return UI_NOTHING;
    case 'b':
        begin(ui, INPUT_BREAK);
        return UI_NOTHING;
    case 't':
        return UI_THEME;
    case 'r':
        ui->key_ms = 0;
        return UI_LOOK;
    case UI_TAB:
        ui->holder++;
        return UI_NOTHING;
    default:
        return key >= '1' && key <= '9' ? choose_store(ui, (size_t)(key - '1')) : UI_NOTHING;
    }
}

enum ui_deed ui_key(struct ui *ui, int key, int64_t now_ms)
{
    if (ui->input != INPUT_NONE)
        return typed(ui, key);
    switch (key) {
    case 'j':
    case UI_DOWN:
        move(ui, 1, now_ms);
        return UI_NOTHING;
    case 'k':
    case UI_UP:
        move(ui, -1, now_ms);
        return UI_NOTHING;
    case UI_PAGE_DOWN:
    case ' ':
        move(ui, ui->list_rows, now_ms);
        return UI_NOTHING;
    case UI_PAGE_UP:
        move(ui, -ui->list_rows, now_ms);
        return UI_NOTHING;
    case UI_HOME:
        move(ui, INT32_MIN, now_ms);
        return UI_NOTHING;
    case UI_END:
        move(ui, INT32_MAX, now_ms);
        return UI_NOTHING;
    case UI_ENTER:
        open_name(ui, now_ms);
        return UI_NOTHING;
    case UI_ESCAPE:
        back(ui);
        return UI_NOTHING;
    default:
        return letter(ui, key);
    }
}
