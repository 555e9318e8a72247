/* SPDX-License-Identifier: MIT */
/* The other pages: who waits for whom, what the doctor found, all keys. Pure. */
#include "ui.h"

#include "util/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A page is longer than the screen: lines above page_top are left out. */
struct page {
    const struct ui *ui;
    struct screen *screen;
    int from, rows;
    int line; /* the next one, counted from the begin of the page */
};

/* The row of the next line; -1: not on the screen. */
static int next_line(struct page *page)
{
    size_t line = (size_t)page->line++;
    size_t top = page->ui->page_top; /* End asks for far more than there is */

    if (line < top || line - top >= (size_t)page->rows)
        return -1;
    return page->from + (int)(line - top);
}

static void title(struct page *page, const char *text)
{
    int row = next_line(page);

    if (row < 0)
        return;
    screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK | STYLE_BOLD, "%s", text);
    screen_ground(page->screen, row, 0, page->screen->cols, STYLE_BAR);
}

/* ---- graph -------------------------------------------------------------------------------------- */

static void draw_link(struct page *page, const struct see_circle *circle, size_t index)
{
    const struct see_link *link = &circle->links[index];
    const struct see_link *before = &circle->links[(index + circle->count - 1) % circle->count];
    struct screen *screen = page->screen;
    int row = next_line(page), col;

    if (row >= 0) {
        col = screen_say(screen, row, 2, 6, STYLE_DEADLOCK | STYLE_BOLD, "%zu  ", index + 1);
        col += ui_draw_client(screen, row, col, screen->cols / 2, STYLE_INK | STYLE_BOLD,
                              link->label, link->pid);
        col = screen_say(screen, row, col, 30, STYLE_DIM,
                         link->token ? " has " : " is ahead in the queue of ");
        screen_bytes(screen, row, col, screen->cols - col, STYLE_INK, CUT_MIDDLE, before->name,
                     before->name_len);
    }
    row = next_line(page);
    if (row < 0)
        return;
    col = screen_say(screen, row, 5, 30, STYLE_DEADLOCK, "%s waits %s for ",
                     screen->utf8 ? "╰→" : "`>", ui_age(page->ui->now_ms - link->since_ms));
    col += screen_bytes(screen, row, col, screen->cols - col - 16, STYLE_DEADLOCK | STYLE_BOLD,
                        CUT_MIDDLE, link->name, link->name_len);
    screen_say(screen, row, col, 16, STYLE_DIM, ", which %zu has", (index + 1) % circle->count + 1);
}

/* The command is whole or not there: a part of it, pasted, would do something else. */
static void draw_command(struct page *page, const struct see_link *holder,
                         const struct see_link *waiter)
{
    const struct see_source_info *info = &page->ui->infos[page->ui->store];
    const char *store = info->name[0] ? info->name : info->location;
    char name[UI_SHELL_MAX], where[UI_SHELL_MAX], text[2 * UI_SHELL_MAX + 64];
    int row = next_line(page), room = page->screen->cols - 4;

    if (row < 0)
        return;
    ui_shell_word(waiter->name, waiter->name_len, name);
    ui_shell_word(store, strlen(store), where);
    snprintf(text, sizeof text, "holdfast break -S %s %s --token %" PRIu64, where, name,
             holder->token);
    if ((int)strlen(text) > room)
        snprintf(text, sizeof text, "%s", "open what 1 has, and press b");
    screen_say(page->screen, row, 4, room, STYLE_INK | STYLE_BOLD, "%s", text);
}

/* Will somebody give way? Else which lease to break: the youngest wait's, as the library would choose. */
static void draw_advice(struct page *page, const struct see_circle *circle)
{
    const struct see_link *victim = &circle->links[0];
    int row = next_line(page);

    if (page->ui->now_ms - circle->since_ms < SEE_STUCK_MS) {
        if (row >= 0)
            screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK,
                       "Number 1 gives way by itself within about a second, if it looks for "
                       "deadlocks.");
        return;
    }
    if (row >= 0)
        screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK,
                   "Nobody has given way yet (deadlock_check= in its URL). To end it now:");
    if (victim->token)
        draw_command(page, victim, &circle->links[circle->count - 1]);
}

static void draw_circles(struct page *page)
{
    const struct see_model *model = page->ui->model;

    for (size_t i = 0; i < model->circle_count; i++) {
        const struct see_circle *circle = &model->circles[i];
        int row = next_line(page);

        if (row >= 0) {
            screen_say(page->screen, row, 1, page->screen->cols - 1, STYLE_DEADLOCK | STYLE_BOLD,
                       "%s circle of %zu, for %s", ui_mark(page->screen, SEE_DEADLOCK),
                       circle->count, ui_age(page->ui->now_ms - circle->since_ms));
            screen_ground(page->screen, row, 0, page->screen->cols, STYLE_ALARM);
        }
        for (size_t k = 0; k < circle->count; k++)
            draw_link(page, circle, k);
        next_line(page);
        draw_advice(page, circle);
        next_line(page);
    }
}

static void draw_edges(struct page *page, const struct see_graph *graph)
{
    const struct see_row *last = NULL;
    struct screen *screen = page->screen;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct see_edge *edge = &graph->edges[i];
        const struct see_node *from = &graph->nodes[edge->from], *to = &graph->nodes[edge->to];
        int row, col;

        if (edge->circle >= 0)
            continue;
        if (edge->row != last) {
            last = edge->row;
            row = next_line(page);
            if (row >= 0) {
                col = screen_say(screen, row, 2, 2, ui_state_style(last->state), "%s ",
                                 ui_mark(screen, last->state));
                col += screen_bytes(screen, row, col, screen->cols / 2, STYLE_INK | STYLE_BOLD,
                                    CUT_MIDDLE, last->name, last->name_len);
                col = screen_say(screen, row, col, 12, STYLE_DIM, ", held by ");
                ui_draw_client(screen, row, col, screen->cols - col, STYLE_INK, to->label, to->pid);
            }
        }
        row = next_line(page);
        if (row < 0)
            continue;
        col = screen_say(screen, row, 4, 4, STYLE_DIM, "%s ", screen->utf8 ? "←" : "<");
        col +=
            ui_draw_client(screen, row, col, screen->cols - 24, STYLE_INK, from->label, from->pid);
        screen_say(screen, row, col, 20, STYLE_DIM, " waits %s",
                   ui_age(page->ui->now_ms - edge->since_ms));
    }
}

static void draw_graph(struct page *page)
{
    const struct see_model *model = page->ui->model;
    struct see_graph graph = { .node_count = 0 };
    int row;

    title(page, "Who waits for whom");
    if (!model->waiters_tracked && model->looked && !model->absent) {
        row = next_line(page);
        if (row >= 0)
            screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK,
                       "%s cannot list waiters", page->ui->infos[page->ui->store].engine);
        return;
    }
    draw_circles(page);
    row = !page->ui->up || model->circle_count == 0 ? next_line(page) : -1;
    if (row >= 0 && !page->ui->up)
        screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK,
                   "It is not known who waits%s: %s does not answer.", model->looked ? " now" : "",
                   page->ui->infos[page->ui->store].engine);
    else if (row >= 0)
        screen_say(page->screen, row, 2, page->screen->cols - 2, STYLE_INK,
                   "Nobody waits in a circle.%s",
                   model->waiters ? " The longest queues:" : " Nobody waits at all.");
    if (!see_graph_build(model, SEE_GRAPH_WAITERS, &graph))
        return;
    draw_edges(page, &graph);
    if (graph.folded && (row = next_line(page)) >= 0)
        screen_say(page->screen, row, 4, page->screen->cols - 4, STYLE_DIM, "%s %zu more wait",
                   page->screen->utf8 ? "…" : "...", graph.folded);
    see_graph_done(&graph);
}

/* ---- doctor --------------------------------------------------------------------------------------- */

/* Text over as many lines as it needs. */
static void wrap(struct page *page, int indent, int style, const char *text)
{
    int width = page->screen->cols - indent - 1;

    while (*text && width > 8) {
        size_t len = strlen(text), cut;
        int row = next_line(page);

        if (len > (size_t)width) {
            for (cut = (size_t)width; cut > 0 && text[cut] != ' '; cut--)
                ;
            len = cut ? cut : (size_t)width;
        }
        if (row >= 0)
            screen_bytes(page->screen, row, indent, width, style, CUT_END, text, len);
        text += len;
        text += strspn(text, " ");
    }
}

static void draw_doctor(struct page *page)
{
    /* In this order: what is wrong comes first. */
    static const struct {
        hf_check_level level;
        bool note;
        const char *word;
        int style;
    } kinds[] = {
        { HF_CHECK_LEVEL_BAD, false, "bad", STYLE_DEADLOCK | STYLE_BOLD },
        { HF_CHECK_LEVEL_WARNING, false, "warning", STYLE_RISK | STYLE_BOLD },
        { HF_CHECK_LEVEL_OK, true, "note", STYLE_INK },
        { HF_CHECK_LEVEL_OK, false, "fine", STYLE_GOOD },
    };
    const struct see_model *model = page->ui->model;
    int row;

    title(page, "What the doctor says");
    if (!model->checked_ms) {
        row = next_line(page);
        if (row >= 0)
            screen_say(page->screen, row, 2, page->screen->cols, STYLE_DIM,
                       "It has not looked yet.");
        return;
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < model->finding_count; i++) {
            const struct see_finding *finding = &model->findings[i];

            if (finding->level != kinds[k].level || finding->note != kinds[k].note)
                continue;
            row = next_line(page);
            if (row >= 0) {
                int col =
                    screen_say(page->screen, row, 2, 10, kinds[k].style, "%-8s", kinds[k].word);

                screen_text(page->screen, row, col + 1, page->screen->cols, STYLE_INK | STYLE_BOLD,
                            finding->topic);
            }
            wrap(page, 11, STYLE_INK, finding->text);
        }
    next_line(page);
    row = next_line(page);
    if (row >= 0)
        screen_say(page->screen, row, 2, page->screen->cols, STYLE_DIM, "It looked %s ago.",
                   ui_age(page->ui->now_ms - model->checked_ms));
}

/* ---- keys ------------------------------------------------------------------------------------------- */

static void draw_keys(struct page *page)
{
    static const char *const keys[][2] = {
        { "j k, arrows", "move; Page Up, Page Down, Home, End" },
        { "Enter", "open the name: its holders and its queue" },
        { "Tab", "the next of several holders" },
        { "Esc", "one step back" },
        { "/", "filter by name, label, host, token" },
        { "s", "sort by trouble, name, age, waiters, hand-overs" },
        { "g", "who waits for whom" },
        { "d", "what the doctor says" },
        { "a", "ask the holder to release it" },
        { "b", "break its lease: asks for the name" },
        { "1 to 9", "choose a store" },
        { "r", "sort and check now" },
        { "t", "dark, light" },
        { "q", "quit" },
    };
    static const char *const states[SEE_STATES] = { "deadlock: in a circle",
                                                    "at risk: the renewal is late",
                                                    "lost: ended while it was held",
                                                    "wanted: held, and others wait",
                                                    "held",
                                                    "waiting: not granted yet",
                                                    "idle: kept, but not in use" };
    static const char *const figures[][2] = {
        { "1.5/s", "hand-overs: how often a lease went to the next holder" },
        { "wait", "for a lease: the median, and 99 of 100 waited no longer" },
        { "hold", "of a lease: likewise. Both of the last minute" },
    };
    int row;

    title(page, "Keys");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        row = next_line(page);
        if (row < 0)
            continue;
        screen_say(page->screen, row, 2, 12, STYLE_INK | STYLE_BOLD, "%s", keys[i][0]);
        screen_say(page->screen, row, 15, page->screen->cols - 15, STYLE_INK, "%s", keys[i][1]);
    }
    title(page, "The second line");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        row = next_line(page);
        if (row < 0)
            continue;
        screen_say(page->screen, row, 2, 12, STYLE_INK | STYLE_BOLD, "%s", figures[i][0]);
        screen_say(page->screen, row, 15, page->screen->cols - 15, STYLE_INK, "%s", figures[i][1]);
    }
    title(page, "Marks");
    for (int i = 0; i < SEE_STATES; i++) {
        row = next_line(page);
        if (row < 0)
            continue;
        screen_say(page->screen, row, 2, 2, ui_state_style((enum see_state)i), "%s",
                   ui_mark(page->screen, (enum see_state)i));
        screen_say(page->screen, row, 15, page->screen->cols - 15, STYLE_INK, "%s", states[i]);
    }
}

static int draw_lines(const struct ui *ui, struct screen *screen, int from, int rows)
{
    struct page page = { ui, screen, from, rows, 0 };

    if (ui->page == PAGE_GRAPH)
        draw_graph(&page);
    else if (ui->page == PAGE_DOCTOR)
        draw_doctor(&page);
    else
        draw_keys(&page);
    return page.line;
}

void ui_draw_page(struct ui *ui, struct screen *screen, int from, int rows)
{
    int lines = draw_lines(ui, screen, from, 0); /* draws nothing: how long is it? */
    size_t last_top = lines > rows ? (size_t)(lines - rows) : 0;

    if (ui->page_top > last_top)
        ui->page_top = last_top;
    draw_lines(ui, screen, from, rows);
    if ((size_t)lines > ui->page_top + (size_t)rows && rows > 0) {
        char text[48];

        snprintf(text, sizeof text, " %zu more: Page Down ",
                 (size_t)lines - ui->page_top - (size_t)rows + 1);
        screen_right(screen, from + rows - 1, screen->cols - (int)strlen(text), (int)strlen(text),
                     STYLE_RISK | STYLE_BOLD, text);
    }
}
