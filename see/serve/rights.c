/* SPDX-License-Identifier: MIT */
/* Rights and tokens. Buffers that held tokens are wiped. Main thread. */
#include "rights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)256 * 1024)

struct field {
    const char *at;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct field next_field(const char **at, const char *end)
{
    struct field field;

    while (*at < end && is_blank(**at))
        (*at)++;
    field.at = *at;
    while (*at < end && !is_blank(**at))
        (*at)++;
    field.len = (size_t)(*at - field.at);
    return field;
}

static unsigned right_of(const char *word, size_t len)
{
    static const char *const words[] = { "read", "break", "lease" };

    for (unsigned i = 0; i < 3; i++)
        if (len == strlen(words[i]) && memcmp(word, words[i], len) == 0)
            return 1u << i;
    return 0;
}

/* "read,break": 0 if a word is none of ours. */
static unsigned rights_of(struct field field)
{
    unsigned rights = 0;
    size_t from = 0;

    for (size_t i = 0; i <= field.len; i++) {
        if (i < field.len && field.at[i] != ',')
            continue;
        unsigned right = right_of(field.at + from, i - from);
        if (right == 0)
            return 0;
        rights |= right;
        from = i + 1;
    }
    return rights;
}

/* Graphic ASCII without a quote or a backslash: a name stands in labels, logs and metrics. */
static bool is_plain(struct field field)
{
    for (size_t i = 0; i < field.len; i++)
        if (field.at[i] <= ' ' || field.at[i] >= 0x7f || field.at[i] == '"' || field.at[i] == '\\')
            return false;
    return true;
}

static const char *parse_line(const char *at, const char *end, struct client *ret_client)
{
    struct field rights = next_field(&at, end);
    struct field token = next_field(&at, end);
    struct field name = next_field(&at, end);
    struct client client = { .rights = rights_of(rights) };

    if (client.rights == 0)
        return "RIGHTS are read, break or lease, with commas between them";
    if (token.len == 1 && token.at[0] == '-') {
        if (client.rights != RIGHT_READ)
            return "a request without a token (-) may only read";
    } else if (token.len < TOKEN_MIN || token.len > TOKEN_MAX || !is_plain(token)) {
        return "TOKEN has 16 to 128 graphic ASCII characters";
    } else {
        client.token_len = token.len;
        memcpy(client.token, token.at, token.len);
    }
    if (name.len == 0 || name.len > CLIENT_NAME_MAX || !is_plain(name))
        return "NAME has 1 to 40 graphic ASCII characters";
    if (next_field(&at, end).len > 0)
        return "a line is RIGHTS TOKEN NAME";
    memcpy(client.name, name.at, name.len);
    *ret_client = client;
    return NULL;
}

static bool same_token(const struct client *a, const unsigned char *token, size_t len)
{
    unsigned differs = (unsigned)(a->token_len ^ len);

    for (size_t i = 0; i < TOKEN_MAX; i++)
        differs |= (unsigned)(a->token[i] ^ token[i]);
    return differs == 0;
}

static const char *add(struct rights *rights, const struct client *client)
{
    struct client *grown;

    for (size_t i = 0; i < rights->count; i++) {
        if (strcmp(rights->clients[i].name, client->name) == 0)
            return "this NAME is there twice";
        if (same_token(&rights->clients[i], client->token, client->token_len))
            return "this TOKEN is there twice";
    }
    if (rights->count == CLIENTS_MAX)
        return "too many lines";
    /* Not realloc(3), which would leave tokens behind in memory that is free. */
    grown = calloc(rights->count + 1, sizeof *grown);
    if (!grown)
        return "out of memory";
    if (rights->count > 0) {
        memcpy(grown, rights->clients, rights->count * sizeof *grown);
        explicit_bzero(rights->clients, rights->count * sizeof *grown);
    }
    free(rights->clients);
    grown[rights->count++] = *client;
    rights->clients = grown;
    rights->all |= client->rights;
    return NULL;
}

const char *rights_parse(const char *text, size_t len, struct rights *ret_rights, size_t *ret_line)
{
    struct rights rights = { 0 };
    const char *end = text + len;
    const char *wrong = NULL;

    *ret_line = 0;
    while (text < end && !wrong) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *at = text;
        struct client client = { 0 };

        stop = stop ? stop : end;
        ++*ret_line;
        struct field first = next_field(&at, stop);
        if (first.len > 0 && first.at[0] != '#') {
            wrong = parse_line(text, stop, &client);
            if (!wrong)
                wrong = add(&rights, &client);
            explicit_bzero(&client, sizeof client);
        }
        text = stop + (stop < end);
    }
    if (!wrong && rights.count == 0)
        wrong = "it has no line with a token";
    if (wrong)
        rights_done(&rights);
    else
        *ret_rights = rights;
    return wrong;
}

static bool read_text(int fd, char *text, size_t *ret_len)
{
    ssize_t got = 1;

    *ret_len = 0;
    while (got > 0 && *ret_len < FILE_MAX) {
        got = read(fd, text + *ret_len, FILE_MAX - *ret_len);
        if (got > 0)
            *ret_len += (size_t)got;
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    return got == 0;
}

static bool parse_text(const char *path, const char *text, size_t len, struct rights *ret_rights,
                       char *why, size_t why_size)
{
    size_t line;
    const char *wrong = rights_parse(text, len, ret_rights, &line);

    if (wrong)
        snprintf(why, why_size, "%s, line %zu: %s", path, line, wrong);
    return !wrong;
}

bool rights_exposed(const char *path, const struct stat *about)
{
    const char *credentials = getenv("CREDENTIALS_DIRECTORY");
    size_t len = credentials ? strlen(credentials) : 0;
    mode_t others = about->st_mode & (S_IRWXG | S_IRWXO);

    if (others == S_IRGRP && about->st_uid == 0 && len > 0 &&
        strncmp(path, credentials, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/'))
        return false;
    return others != 0;
}

bool rights_read(const char *path, struct rights *ret_rights, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat found;
    char *text;
    size_t len;
    bool fine = false;

    if (fd < 0 || fstat(fd, &found) != 0) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(found.st_mode)) {
        snprintf(why, why_size, "%s: not a regular file", path);
    } else if (rights_exposed(path, &found)) {
        snprintf(why, why_size, "%s: others may read it (mode %03o): chmod 600", path,
                 (unsigned)found.st_mode & 0777);
    } else if ((text = malloc(FILE_MAX)) == NULL) {
        snprintf(why, why_size, "out of memory");
    } else {
        if (read_text(fd, text, &len))
            fine = parse_text(path, text, len, ret_rights, why, why_size);
        else
            snprintf(why, why_size, "%s: cannot be read, or is larger than 256 KiB", path);
        explicit_bzero(text, FILE_MAX);
        free(text);
    }
    if (fd >= 0)
        close(fd);
    return fine;
}

bool rights_default(struct rights *ret_rights)
{
    static const char text[] = "read - anybody\n";
    size_t line;

    return !rights_parse(text, sizeof text - 1, ret_rights, &line);
}

void rights_done(struct rights *rights)
{
    if (rights->clients)
        explicit_bzero(rights->clients, rights->count * sizeof *rights->clients);
    free(rights->clients);
    *rights = (struct rights){ 0 };
}

const struct client *rights_find(const struct rights *rights, const char *header)
{
    unsigned char token[TOKEN_MAX] = { 0 };
    const struct client *found = NULL;
    size_t len = 0;

    if (header) {
        if (strncasecmp(header, "Bearer ", 7) != 0)
            return NULL;
        header += 7;
        while (*header == ' ')
            header++;
        len = strlen(header);
        while (len > 0 && header[len - 1] == ' ')
            len--;
        if (len < TOKEN_MIN || len > TOKEN_MAX)
            return NULL;
        memcpy(token, header, len);
    }
    /* All of them, all bytes: neither the place of the match nor its length shows in the time. */
    for (size_t i = 0; i < rights->count; i++)
        if (same_token(&rights->clients[i], token, len))
            found = &rights->clients[i];
    explicit_bzero(token, sizeof token);
    return found;
}

const struct client *rights_named(const struct rights *rights, const char *name)
{
    for (size_t i = 0; i < rights->count; i++)
        if (strcmp(rights->clients[i].name, name) == 0)
            return &rights->clients[i];
    return NULL;
}

bool rights_same(const struct rights *a, const struct rights *b, const char *name)
{
    const struct client *was = rights_named(a, name), *is = rights_named(b, name);

    return was && is && was->rights == is->rights && same_token(was, is->token, is->token_len);
}
