/* SPDX-License-Identifier: MIT */
/*
 * What `holdfast top` shows and what was typed, without a terminal: ui.c keeps the state, layout.c, panel.c and pages.c draw it.
 * One thread. A model is used only while its source is locked: from ui_refresh() to the end of ui_draw().
 */
#ifndef TOP_UI_H
#define TOP_UI_H

#include "model/source.h"
#include "screen/screen.h"
#include "style.h"

#define UI_INPUT_MAX (4 * HF_NAME_MAX + 1)
#define UI_SETTLE_MS 10000 /* after a key in the list its order stays for this long */

enum ui_page { PAGE_LIST, PAGE_GRAPH, PAGE_DOCTOR, PAGE_KEYS };
enum ui_sort { SORT_TROUBLE, SORT_NAME, SORT_AGE, SORT_WAITERS, SORT_HANDOVERS, SORT_COUNT };
enum ui_input { INPUT_NONE, INPUT_FILTER, INPUT_ASK, INPUT_BREAK };

/* Keys beside characters. */
enum ui_key {
    UI_UP = 0x110000,
    UI_DOWN,
    UI_PAGE_UP,
    UI_PAGE_DOWN,
    UI_HOME,
    UI_END,
    UI_BACKSPACE,
    UI_ENTER,
    UI_ESCAPE,
    UI_TAB
};

/* What the caller is to do after a key. */
enum ui_deed { UI_NOTHING, UI_QUIT, UI_STORE, UI_THEME, UI_ASK, UI_BREAK, UI_LOOK };

struct ui {
    /* Which store; set by the caller. */
    size_t store, store_count;
    const struct see_source_info *infos;
    const char *glob; /* NULL: all names */
    bool may_break, may_ask;
    bool once; /* one picture: nothing is tried again */

    enum ui_page page;
    enum ui_sort sort;
    enum ui_input input;
    char text[UI_INPUT_MAX]; /* being typed */
    char filter[UI_INPUT_MAX];
    char notice[600];
    bool notice_bad;
    int64_t notice_ms; /* when it was said */

    /* The list: ids of rows in the order in which they are shown. */
    uint64_t *order;
    size_t count, size;
    size_t hidden;  /* names that the filter leaves out */
    size_t changes; /* rows that came or went, while the order stays */
    size_t cursor, top;
    uint64_t chosen; /* the row under the cursor; 0: none yet */
    bool open;
    size_t page_top; /* of the other pages */
    int64_t key_ms;  /* the last key in the list; 0: none */

    /* What is to be broken or asked, as it was when that began. */
    size_t holder; /* which of several, by Tab */
    uint64_t token;
    char target[UI_INPUT_MAX]; /* the name as it is shown, to be typed */
    unsigned char name[HF_NAME_MAX];
    size_t name_len;
    char victim[300]; /* its holder */
    size_t heirs;     /* waiters */

    /* For one refresh. */
    const struct see_model *model;
    const struct see_row **rows; /* of `order`; NULL: gone */
    size_t rows_size;
    int64_t clock_ms;
    bool up; /* the store answers */
    int64_t up_since_ms;
    int64_t now_ms; /* for ages: the clock, or when the store was last heard */
    int list_rows;  /* lines of the list, by the last drawing */
};

void ui_init(struct ui *ui);
void ui_done(struct ui *ui);
/* Bring the list up to date. The model is locked until after ui_draw(). */
void ui_refresh(struct ui *ui, const struct see_model *model, int64_t now_ms);
void ui_draw(struct ui *ui, struct screen *screen);
/* A key, or a character (a wide one). The model is locked. */
enum ui_deed ui_key(struct ui *ui, int key, int64_t now_ms);
__attribute__((format(printf, 3, 4))) void ui_say(struct ui *ui, bool bad, const char *format, ...);

/* ---- the parts of a drawing --------------------------------------------------------------- */

#define HEAD_ROWS 4 /* two of figures, the alarm, the heading */
void ui_draw_head(const struct ui *ui, struct screen *screen);
void ui_draw_list(struct ui *ui, struct screen *screen, int from, int rows);
/* How many lines would the opened name like? */
int ui_panel_rows(const struct ui *ui, const struct screen *screen);
void ui_draw_panel(const struct ui *ui, struct screen *screen, int from, int rows);
void ui_draw_page(struct ui *ui, struct screen *screen, int from, int rows);
void ui_draw_foot(const struct ui *ui, struct screen *screen, int row);

const struct see_row *ui_row(const struct ui *ui); /* under the cursor; NULL: none */
/* The holder that is shown of the chosen row; NULL: none. */
const struct see_holder *ui_holder(const struct ui *ui, const struct see_row *row);
const char *ui_mark(const struct screen *screen, enum see_state state);
int ui_state_style(enum see_state state);
/* "1.4s"; a ring of static buffers. */
const char *ui_age(int64_t ms);
/* These bytes as one word of a shell: pasting it gives exactly them, whatever they are. */
#define UI_SHELL_MAX (512 * 4 + 4)
char *ui_shell_word(const void *bytes, size_t len, char buf[UI_SHELL_MAX]);
/* A label as people read it: "release 2.14.1" and "ci-3:18320". Either may be empty. */
void ui_client(const char *label, int64_t pid, char *ret_what, size_t what_size, char *ret_where,
               size_t where_size);
/* Both, in `width` columns; the label is cut before host and process. The columns used. */
int ui_draw_client(struct screen *screen, int row, int col, int width, int style, const char *label,
                   int64_t pid);

#endif
