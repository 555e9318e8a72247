/* SPDX-License-Identifier: MIT */
/* The lower part of the screen: the opened name with its queue, or what is to be typed. Pure. */
#include "ui.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEAST_ROWS 4

int ui_panel_rows(const struct ui *ui, const struct screen *screen)
{
    const struct see_row *row = ui_row(ui);
    int rows = screen->rows / 3;

    if (ui->input == INPUT_BREAK || ui->input == INPUT_ASK)
        return 6;
    if (!ui->open || !row)
        return 0;
    /* Room for the whole queue, up to a third of the screen; the same height while the name is open. */
    return rows < LEAST_ROWS ? LEAST_ROWS : rows - 1;
}

/* ---- rules ------------------------------------------------------------------------------------- */

static void draw_rule(struct screen *screen, int row)
{
    for (int col = 0; col < screen->cols; col++)
        screen_say(screen, row, col, 1, STYLE_DIM, "%s", screen->utf8 ? "─" : "-");
}

static void draw_title(const struct ui *ui, struct screen *screen, int at,
                       const struct see_row *row)
{
    char right[48];
    int col, width;

    if (!ui->model->waiters_tracked)
        snprintf(right, sizeof right, " waiters not known ");
    else
        snprintf(right, sizeof right, " %zu wait%s ", row->waiter_count,
                 row->waiter_count == 1 ? "s" : "");
    draw_rule(screen, at);
    width = screen->cols - (int)strlen(right) - 12;
    screen_say(screen, at, 2, 1, STYLE_INK, " ");
    col = screen_say(screen, at, 3, 2, ui_state_style(row->state), "%s ",
                     ui_mark(screen, row->state));
    col += screen_bytes(screen, at, col, width, ui_state_style(row->state) | STYLE_BOLD, CUT_MIDDLE,
                        row->name, row->name_len);
    screen_say(screen, at, col, 1, STYLE_INK, " ");
    screen_say(screen, at, screen->cols - 2 - (int)strlen(right), 40, STYLE_INK, "%s", right);
}

/* ---- holders -------------------------------------------------------------------------------------- */

/* How much of the lease is left, as a bar and in words. */
static void draw_left(const struct ui *ui, struct screen *screen, int at,
                      const struct see_holder *holder, int from)
{
    int64_t left_ms = holder->until_ms - ui->now_ms, ttl_ms = holder->ttl_ms;
    int bar = 10, style = holder->at_risk ? STYLE_RISK : STYLE_HELD, full;
    char words[64];
    int col;

    if (holder->until_ms < 0 || ttl_ms <= 0)
        return;
    left_ms = left_ms < 0 ? 0 : left_ms;
    snprintf(words, sizeof words, "%s of %s", ui_age(left_ms - left_ms % 1000),
             ui_age((ttl_ms + 500) / 1000 * 1000));
    col = screen->cols - (int)strlen(words);
    if (col - bar - 1 > from + 1) {
        full = (int)(left_ms * bar / ttl_ms);
        for (int i = 0; i < bar; i++)
            screen_say(screen, at, col - bar - 1 + i, 1, i < full ? style : STYLE_DIM, "%s",
                       screen->utf8 ? (i < full ? "━" : "╌") : (i < full ? "=" : "."));
    }
    if (col > from)
        screen_say(screen, at, col, 64, holder->at_risk ? STYLE_RISK : STYLE_INK, "%s", words);
}

static void draw_holder(const struct ui *ui, struct screen *screen, int at,
                        const struct see_row *row, const struct see_holder *holder)
{
    int64_t age_ms = ui->now_ms - holder->since_ms;
    int col, width = screen->cols > 70 ? screen->cols - 50 : screen->cols - 24;

    col = screen_say(screen, at, 2, 20, STYLE_DIM, "%s by ", holder->idle ? "kept idle" : "held");
    col +=
        ui_draw_client(screen, at, col, width, STYLE_INK | STYLE_BOLD, holder->label, holder->pid);
    col = screen_say(screen, at, col, 6, STYLE_DIM, " for ");
    col = screen_say(screen, at, col, 10,
                     row->state == SEE_DEADLOCK ? STYLE_DEADLOCK | STYLE_BOLD
                     : row->overdue             ? STYLE_RISK | STYLE_BOLD
                                                : STYLE_INK,
                     "%s", ui_age(age_ms < 0 ? 0 : age_ms));
    if (row->p99_ms >= 0)
        col = screen_say(screen, at, col, 20, STYLE_DIM, ", p99 %s", ui_age(row->p99_ms));
    if (holder->permits > 1 && row->kind == HF_KIND_SEMAPHORE)
        col = screen_say(screen, at, col, 20, STYLE_DIM, ", %" PRIu32 " permits", holder->permits);
    if (holder->watched)
        col = screen_say(screen, at, col, 20, STYLE_DIM, ", listens");
    draw_left(ui, screen, at, holder, col);
}

/* ---- waiters ---------------------------------------------------------------------------------------- */

static const char *wish(const struct see_waiter *waiter, char buf[32])
{
    switch (waiter->kind) {
    case HF_KIND_SHARED:
        return "to read";
    case HF_KIND_EXCLUSIVE:
        return "to write";
    case HF_KIND_UPGRADEABLE:
        return "to read, upgradeable";
    case HF_KIND_SEMAPHORE:
        snprintf(buf, 32, "%" PRIu32 " permit%s", waiter->permits, waiter->permits == 1 ? "" : "s");
        return buf;
    default:
        return "";
    }
}

static void draw_waiter(const struct ui *ui, struct screen *screen, int at,
                        const struct see_waiter *waiter)
{
    char what[HF_LABEL_MAX + 1], where[HF_LABEL_MAX + 32], buf[32];
    int wide = screen->cols >= 70 ? 20 * screen->cols / 80 : screen->cols - 20, col;

    ui_client(waiter->label, waiter->pid, what, sizeof what, where, sizeof where);
    col =
        screen_say(screen, at, 2, 5, waiter->position == 1 ? STYLE_WANTED | STYLE_BOLD : STYLE_INK,
                   "%" PRIu32, waiter->position);
    col = col < 5 ? 5 : col + 1;
    if (screen->cols < 70) {
        ui_draw_client(screen, at, col, wide, STYLE_INK, waiter->label, waiter->pid);
        screen_say(screen, at, col + wide + 1, 12, STYLE_INK, "%s",
                   ui_age(ui->now_ms - waiter->since_ms));
        return;
    }
    screen_text(screen, at, col, wide, STYLE_INK, what);
    screen_text(screen, at, col + wide + 1, 17, STYLE_DIM, where);
    screen_say(screen, at, col + wide + 19, 14, STYLE_INK, "waits %s",
               ui_age(ui->now_ms - waiter->since_ms));
    screen_say(screen, at, 5 + wide + 19 + 14, 24, STYLE_DIM, "%s", wish(waiter, buf));
}

static void draw_queue(const struct ui *ui, struct screen *screen, int at, int rows,
                       const struct see_row *row)
{
    if (!ui->model->waiters_tracked) {
        screen_say(screen, at, 2, screen->cols - 2, STYLE_DIM, "%s cannot list waiters",
                   ui->infos[ui->store].engine);
        return;
    }
    if (row->waiter_count == 0) {
        screen_say(screen, at, 2, screen->cols - 2, STYLE_DIM, "nobody waits");
        return;
    }
    for (size_t i = 0; i < row->waiter_count && rows > 0; i++, at++, rows--) {
        if (rows == 1 && row->waiter_count - i > 1) {
            screen_say(screen, at, 2, screen->cols - 2, STYLE_DIM, "%s %zu more wait",
                       screen->utf8 ? "…" : "...", row->waiter_count - i);
            return;
        }
        draw_waiter(ui, screen, at, &row->waiters[i]);
    }
}

static void draw_opened(const struct ui *ui, struct screen *screen, int from, int rows)
{
    const struct see_row *row = ui_row(ui);
    const struct see_holder *chosen;
    int at = from + 1, end = from + rows, most = (rows - 1) / 2;

    if (!row)
        return;
    draw_title(ui, screen, from, row);
    if (row->lost_at_ms && ui->now_ms - row->lost_at_ms < SEE_LOST_MS && at < end) {
        int col = screen_say(screen, at, 2, 20, STYLE_LOST, "lost by");

        col += 1 + ui_draw_client(screen, at, col + 1, screen->cols - 40, STYLE_INK,
                                  row->lost.label, row->lost.pid);
        screen_say(screen, at++, col, 40, STYLE_DIM, " %s ago: its renewals stopped",
                   ui_age(ui->now_ms - row->lost_at_ms));
    }
    chosen = ui_holder(ui, row);
    if (chosen && at < end)
        draw_holder(ui, screen, at++, row, chosen);
    for (size_t i = 0; i < row->holder_count && at < end && most > 1; i++)
        if (&row->holders[i] != chosen) {
            if (most-- == 2 && row->holder_count - i > 1) {
                screen_say(screen, at++, 2, screen->cols - 2, STYLE_DIM, "%s %zu more hold it",
                           screen->utf8 ? "…" : "...", row->holder_count - i);
                break;
            }
            draw_holder(ui, screen, at++, row, &row->holders[i]);
        }
    if (!chosen && row->closed_until_ms && at < end)
        screen_say(screen, at++, 2, screen->cols - 2, STYLE_DIM, "closed by a lock delay for %s",
                   ui_age(row->closed_until_ms - ui->now_ms));
    if (at < end)
        draw_queue(ui, screen, at, end - at, row);
}

/* ---- typing ------------------------------------------------------------------------------------------- */

static void draw_input(const struct ui *ui, struct screen *screen, int at, const char *before)
{
    int col = screen_say(screen, at, 2, screen->cols - 2, STYLE_INK, "%s", before);

    /* As it was typed: a backslash is one. */
    col =
        screen_say(screen, at, col, screen->cols - col - 1, STYLE_INK | STYLE_BOLD, "%s", ui->text);
    screen_say(screen, at, col, 1, STYLE_INK, "_");
}

static void draw_break(const struct ui *ui, struct screen *screen, int from)
{
    int col;

    draw_rule(screen, from);
    screen_say(screen, from, 2, 20, STYLE_DEADLOCK | STYLE_BOLD, " break ");
    col = screen_say(screen, from + 1, 2, 40, STYLE_INK, "End the lease of ");
    col = screen_say(screen, from + 1, col, screen->cols - col - 20, STYLE_INK | STYLE_BOLD, "%s",
                     ui->target);
    screen_say(screen, from + 1, col, 40, STYLE_DIM, ", token %" PRIu64, ui->token);
    col = screen_say(screen, from + 2, 2, 40, STYLE_INK, "Its holder is told that it is lost: ");
    screen_text(screen, from + 2, col, screen->cols - col, STYLE_INK | STYLE_BOLD, ui->victim);
    if (ui->heirs)
        screen_say(screen, from + 3, 2, screen->cols - 2, STYLE_INK,
                   "The next of %zu waiter%s gets it, while that process may still run.", ui->heirs,
                   ui->heirs == 1 ? "" : "s");
    else
        screen_say(screen, from + 3, 2, screen->cols - 2, STYLE_INK,
                   "Others may take it then, while that process may still run.");
    draw_input(ui, screen, from + 4, "Type the name to break it: ");
    screen_say(screen, from + 5, 2, screen->cols - 2, STYLE_DIM, "Enter breaks it, Esc goes back.");
}

static void draw_ask(const struct ui *ui, struct screen *screen, int from)
{
    int col;

    draw_rule(screen, from);
    screen_say(screen, from, 2, 20, STYLE_WANTED | STYLE_BOLD, " ask ");
    col = screen_say(screen, from + 1, 2, 40, STYLE_INK, "Ask the holder to release ");
    screen_say(screen, from + 1, col, screen->cols - col, STYLE_INK | STYLE_BOLD, "%s", ui->target);
    screen_say(screen, from + 2, 2, screen->cols - 2, STYLE_DIM,
               "It is told, if it listens. It may refuse, and nothing is broken.");
    draw_input(ui, screen, from + 4, "Text for it (may be empty): ");
    screen_say(screen, from + 5, 2, screen->cols - 2, STYLE_DIM, "Enter asks, Esc goes back.");
}

void ui_draw_panel(const struct ui *ui, struct screen *screen, int from, int rows)
{
    if (ui->input == INPUT_BREAK)
        draw_break(ui, screen, from);
    else if (ui->input == INPUT_ASK)
        draw_ask(ui, screen, from);
    else
        draw_opened(ui, screen, from, rows);
}
