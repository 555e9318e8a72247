/* SPDX-License-Identifier: MIT */
/* page.css and page.js; made by embed.cmake. */
#ifndef LAB_PAGE_FILES_H
#define LAB_PAGE_FILES_H

#include <stddef.h>

extern const unsigned char page_css[], page_js[];
extern const size_t page_css_bytes, page_js_bytes;

#endif
