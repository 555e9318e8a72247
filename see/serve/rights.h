/* SPDX-License-Identifier: MIT */
/*
 * Who may do what. Three rights; bearer tokens from a file, one line for each:
 *
 *     RIGHTS TOKEN NAME        read,break,lease  3f9c...  deploy
 *
 * TOKEN - means a request without a token, and may only read. Without a file, a request without a
 * token reads, and nothing else is possible.
 */
#ifndef SERVE_RIGHTS_H
#define SERVE_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define RIGHT_READ  1u
#define RIGHT_BREAK 2u
#define RIGHT_LEASE 4u

#define TOKEN_MIN       16 /* shorter ones can be guessed */
#define TOKEN_MAX       128
#define CLIENT_NAME_MAX 40 /* it is in the labels of leases */
#define CLIENTS_MAX     1000

/* One that may ask. The names are the identity: a reload keeps the leases of a name. */
struct client {
    unsigned rights;
    size_t token_len; /* 0: requests without a token */
    unsigned char token[TOKEN_MAX];
    char name[CLIENT_NAME_MAX + 1];
};

struct rights {
    struct client *clients;
    size_t count;
    unsigned all; /* rights that at least one has */
};

/* What the file's text says. NULL, or what is wrong; *ret_line is its line. Pure. */
const char *rights_parse(const char *text, size_t len, struct rights *ret_rights, size_t *ret_line);
/* Read the file: a regular file that its owner alone may read. false: `why` says why not. */
bool rights_read(const char *path, struct rights *ret_rights, char *why, size_t why_size);
/* May others read the secret file? Not so in $CREDENTIALS_DIRECTORY of systemd: there the group's bits are the mask of an access
 * list, which lets one service read a file of root's. */
bool rights_exposed(const char *path, const struct stat *about);
/* Without a file. false: no memory. */
bool rights_default(struct rights *ret_rights);
void rights_done(struct rights *rights);

/*
 * Whose request is it? `header` is the value of Authorization, NULL: there is none. NULL: nobody's:
 * an unknown token, or none where one is needed. The time that it takes tells nothing about the
 * tokens.
 */
const struct client *rights_find(const struct rights *rights, const char *header);
/* The line with this name; NULL: there is none. */
const struct client *rights_named(const struct rights *rights, const char *name);
/* Do both files give this name the same token and the same rights? */
bool rights_same(const struct rights *a, const struct rights *b, const char *name);

#endif
