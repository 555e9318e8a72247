/* SPDX-License-Identifier: MIT */
/* What the page of an experiment and the gallery share. */
#ifndef LAB_HTML_H
#define LAB_HTML_H

#include "page.h"
#include "panel.h"

/* Any text, cleaned and escaped. */
void html_say(FILE *out, const char *text);
/* <element lang="en">...</element><element lang="zh-CN">...</element> of a phrase. */
void html_both(FILE *out, const char *element, const struct phrase *phrase);
/* From <!doctype> to <body>; `steps`: how many the page has. */
void html_head(FILE *out, const struct phrase *title, enum lang lang, int steps);
void html_tools(FILE *out); /* buttons for language and ground */
void html_foot(FILE *out);
const char *html_lang(enum lang lang);
/* "broken", "safe", "unclear": a class. */
const char *html_outcome(enum outcome outcome);
const char *html_sign(enum outcome outcome);
/* The picture of one way, or of one chart, as an inline <svg>; for a large or a small screen. */
void html_scene(FILE *out, const struct report *report, size_t way, enum lang lang, bool large,
                struct panel *panel);
void html_chart(FILE *out, const struct report *report, size_t chart, enum lang lang, bool large);

#endif
