/* SPDX-License-Identifier: MIT */
/* draw_write DIR: the pictures and pages of all made reports, as files, for draw_browser.py. */
#include "draw_reports.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    const struct report *reports[16];
    size_t count = 0;
    char failed[256];

    if (argc != 2)
        return 2;
    for (const struct made *made = made_reports(); made->name; made++) {
        char path[512];
        for (int lang = 0; lang < LANGS; lang++) {
            snprintf(path, sizeof path, "%s/%s.%s.svg", argv[1], made->name, lang ? "zh" : "en");
            FILE *file = fopen(path, "w");
            if (!file)
                return 1;
            draw_svg(file, made->report, (enum lang)lang);
            fclose(file);
            snprintf(path, sizeof path, "%s/%s.%s.html", argv[1], made->name, lang ? "zh" : "en");
            file = fopen(path, "w");
            if (!file)
                return 1;
            draw_html(file, made->report, (enum lang)lang);
            fclose(file);
        }
        reports[count++] = made->report;
    }
    char gallery[512];
    snprintf(gallery, sizeof gallery, "%s/gallery", argv[1]);
    return draw_gallery(gallery, reports, count, LANG_EN, failed) ? 0 : 1;
}
