#include "../lab.h"
void draw_terminal(FILE *out, const struct report *report, const struct look *look)
{
    for (size_t i = 0; i < report->ways; i++) {
        const struct scene *s = &report->findings[i].scene;
        fprintf(out, "%s: %s\n", phrase(&report->experiment->ways[i].title, look->lang),
                report->findings[i].verdict.text[look->lang]);
        for (size_t k = 0; k < s->bar_count; k++)
            fprintf(out, "  bar %d lane %d client %d %.0f-%.0f %s\n", s->bars[k].kind,
                    s->bars[k].lane, s->bars[k].client, s->bars[k].from_ms, s->bars[k].to_ms,
                    s->bars[k].label[look->lang]);
        for (size_t k = 0; k < s->arrow_count; k++)
            fprintf(out, "  arrow %d %d->%d %.0f %s\n", s->arrows[k].kind, s->arrows[k].from,
                    s->arrows[k].to, s->arrows[k].at_ms, s->arrows[k].label[look->lang]);
        for (size_t k = 0; k < s->mark_count; k++)
            fprintf(out, "  mark %d lane %d %.0f %s\n", s->marks[k].kind, s->marks[k].lane,
                    s->marks[k].at_ms, s->marks[k].label[look->lang]);
        for (size_t k = 0; k < s->overlap_count; k++)
            fprintf(out, "  overlap %.0f-%.0f\n", s->overlaps[k].from_ms, s->overlaps[k].to_ms);
        for (size_t k = 0; k < s->number_count; k++)
            fprintf(out, "  step %d lane %d %.0f\n", s->numbers[k].step, s->numbers[k].lane,
                    s->numbers[k].at_ms);
        for (size_t k = 0; k < s->high_count; k++)
            fprintf(out, "  high %d %.0f\n", (int)s->highs[k].token, s->highs[k].at_ms);
        fprintf(out, "%s\n", shown_code(report->experiment->ways[i].shown));
    }
}
void draw_svg(FILE *out, const struct report *report, enum lang lang)
{
    (void)out, (void)report, (void)lang;
}
void draw_html(FILE *out, const struct report *report, enum lang lang)
{
    (void)out, (void)report, (void)lang;
}
bool draw_gallery(const char *dir, const struct report *const *reports, size_t count,
                  enum lang lang, char failed[256])
{
    (void)dir, (void)reports, (void)count, (void)lang, (void)failed;
    return true;
}
