/* SPDX-License-Identifier: MIT */
/*
 * The files of the live page, compiled in: the library see_page. embed.cmake makes the table from the files of this
 * folder. It is constant, so any thread may read it.
 */
#ifndef SEE_PAGE_H
#define SEE_PAGE_H

#include <stddef.h>

struct page_file {
    const char *path; /* "/" is index.html; others as "/style.css" */
    const char *type; /* for Content-Type */
    const unsigned char *bytes;
    size_t len;
    const char *etag; /* of these bytes, with its quotes */
};

extern const struct page_file page_files[];
extern const size_t page_file_count;

#endif
