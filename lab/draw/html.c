/* SPDX-License-Identifier: MIT */
/* Parts of a page: everything is in one file, and a policy forbids it to load anything. */
#include "html.h"

#include "page_files.h"

#include <string.h>

void html_say(FILE *out, const char *text)
{
    char clean[CLEAN_ROOM];

    text_clean(clean, sizeof clean, text);
    text_escape(out, clean, strlen(clean));
}

const char *html_lang(enum lang lang)
{
    return lang == LANG_ZH ? "zh-CN" : "en";
}

void html_both(FILE *out, const char *element, const struct phrase *text)
{
    for (int lang = 0; lang < LANGS; lang++) {
        fprintf(out, "<%s lang=\"%s\">", element, html_lang((enum lang)lang));
        html_say(out, phrase(text, (enum lang)lang));
        fprintf(out, "</%s>", element);
    }
}

const char *html_outcome(enum outcome outcome)
{
    return outcome == BROKEN ? "broken" : outcome == SAFE ? "safe" : "unclear";
}

const char *html_sign(enum outcome outcome)
{
    return outcome == BROKEN ? "✕" : outcome == SAFE ? "✓" : "?";
}

void html_head(FILE *out, const struct phrase *title, enum lang lang, int steps)
{
    fprintf(out,
            "<!doctype html>\n<html lang=\"%s\" data-lang=\"%s\" data-steps=\"%d\">\n<head>\n"
            "<meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
            "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
            html_lang(lang), lang == LANG_ZH ? "zh" : "en", steps);
    html_say(out, phrase(title, lang));
    fputs("</title>\n<style>\n", out);
    ink_style_html(out);
    fwrite(page_css, 1, page_css_bytes, out);
    fputs("</style>\n</head>\n<body>\n<svg class=\"defs\" aria-hidden=\"true\">", out);
    ink_patterns(out);
    fputs("</svg>\n", out);
}

void html_tools(FILE *out)
{
    static const struct phrase ground = PHRASE("Light / dark", "明 / 暗");

    fputs("<div class=\"tools\"><button data-do=\"language\" title=\"l\">"
          "<span lang=\"en\">中文</span><span lang=\"zh-CN\">English</span></button>"
          "<button data-do=\"ground\" title=\"t\">",
          out);
    html_both(out, "span", &ground);
    fputs("</button></div>\n", out);
}

void html_foot(FILE *out)
{
    fputs("<script>\n", out);
    fwrite(page_js, 1, page_js_bytes, out);
    fputs("</script>\n</body>\n</html>\n", out);
}
