/* SPDX-License-Identifier: MIT */
/* Steps of an experiment in the time of a scene: from its number to the next one. */
#include "panel.h"

#include <math.h>

/* What a step consists of is often noted some moments before its number; but not as long before as the number before that one. */
static double before(const struct panel *panel, const struct number *number)
{
    const struct scene *scene = panel->scene;
    double most = panel->end_ms * 0.012;

    for (size_t i = 0; i < scene->number_count; i++) {
        double earlier = number->at_ms - scene->numbers[i].at_ms;
        if (earlier > 0 && scene->numbers[i].step != number->step)
            most = fmin(most, earlier * 0.4);
    }
    return most;
}

int step_at(const struct panel *panel, double ms)
{
    const struct scene *scene = panel->scene;
    int step = 0, first = 0;
    double at = -1, first_ms = 0;

    for (size_t i = 0; i < scene->number_count; i++) {
        const struct number *number = &scene->numbers[i];
        if (number->at_ms - before(panel, number) <= ms && number->at_ms >= at) {
            at = number->at_ms;
            step = number->step;
        }
        if (!first || number->at_ms < first_ms) {
            first = number->step;
            first_ms = number->at_ms;
        }
    }
    return step ? step : first;
}

bool step_span(const struct panel *panel, int step, double *ret_from, double *ret_to)
{
    const struct scene *scene = panel->scene;
    const struct number *own = NULL;
    double to = panel->end_ms;
    bool first = true;

    for (size_t i = 0; i < scene->number_count; i++)
        if (scene->numbers[i].step == step && (!own || scene->numbers[i].at_ms < own->at_ms))
            own = &scene->numbers[i];
    if (!own)
        return false;
    for (size_t i = 0; i < scene->number_count; i++) {
        const struct number *other = &scene->numbers[i];
        first = first && other->at_ms >= own->at_ms;
        if (other->at_ms > own->at_ms && other->step != step)
            to = fmin(to, other->at_ms - before(panel, other));
    }
    *ret_from = first ? 0 : fmax(0, own->at_ms - before(panel, own));
    *ret_to = fmax(to, *ret_from);
    return true;
}

void step_open(struct panel *panel, double ms, const char *class)
{
    int step = step_at(panel, ms);

    if (step)
        fprintf(panel->pen.out, "<g class=\"s%s\" data-step=\"%d\">", class, step);
    else
        fputs("<g>", panel->pen.out);
}

void spans_draw(struct panel *panel, bool veil)
{
    for (int step = 1; step <= STEPS_MAX; step++) {
        double from, to;
        if (!step_span(panel, step, &from, &to))
            continue;
        double x = veil ? panel_x(panel, to) : panel_x(panel, from);
        double end = veil ? panel->right + 6 : panel_x(panel, to);
        fprintf(panel->pen.out,
                "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" class=\"%s f-%s\" "
                "data-step=\"%d\"/>\n",
                N(x), N(panel->top), N(fmax(end - x, 0)), N(panel->bottom - panel->top),
                veil ? "veil" : "now", veil ? "panel" : "bluetint", step);
    }
}
