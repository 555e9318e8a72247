/* SPDX-License-Identifier: MIT */
/* Lines of shown code: what is code, what is the comment behind it, and which step of the experiment the comment names. */
#ifndef LAB_CODE_H
#define LAB_CODE_H

#include <stdbool.h>
#include <stddef.h>

struct code_line {
    const char *code;
    size_t code_bytes; /* without spaces at its end */
    const char *comment;
    size_t comment_bytes; /* of its words, without the signs around; 0: none */
    int step;             /* of "5! it writes": 5; 0: none */
    bool key;             /* "!": the line that is wrong, or that protects */
    bool alone;           /* nothing but a comment */
};

/* The next line at *at, which moves on; false: there is none. */
bool code_next(const char **at, struct code_line *ret_line);
/* Is it marked, or the begin of a statement whose last line is? `at`: what follows it. */
bool code_key(const struct code_line *line, const char *at);

#endif
