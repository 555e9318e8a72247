/* SPDX-License-Identifier: MIT */
/* Secrets in store URLs: finding them, leaving them out, putting one in. Pure but for the heap. */
#include "util/url_text.h"

#include "util/alloc.h"

#include <string.h>

/* Where the parts of a URL are; all point into it. */
struct parts {
    const char *rest;     /* behind "scheme:" */
    const char *user;     /* behind "scheme:" or "scheme://"; NULL: a file, no user-info */
    const char *user_end; /* the last '@' before the parameters; NULL: none */
    const char *params;   /* the '?', or the end */
};

static struct parts take_apart(const char *url)
{
    struct parts parts = { .rest = strchr(url, ':') };

    parts.rest = parts.rest ? parts.rest + 1 : url;
    parts.params = parts.rest + strcspn(parts.rest, "?");
    if (strncasecmp(url, "file:", 5) == 0)
        return parts;

    parts.user = strncmp(parts.rest, "//", 2) == 0 ? parts.rest + 2 : parts.rest;
    parts.user_end = memrchr(parts.rest, '@', (size_t)(parts.params - parts.rest));
    return parts;
}

static bool key_is(const char *key, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(key, word, len) == 0;
}

static bool key_ends(const char *key, size_t len, const char *end)
{
    return len > strlen(end) && memcmp(key + len - strlen(end), end, strlen(end)) == 0;
}

/* "password_file=/etc/pw", "password_env=PW", "key=/etc/tls.key": where a secret is, and not the secret. */
static bool key_names_a_place(const char *key, size_t len)
{
    return key_ends(key, len, "_file") || key_ends(key, len, "_env") || key_is(key, len, "key");
}

/* Is the parameter "key=value" of `len` bytes a secret? */
static bool param_is_secret(const struct parts *parts, const char *param, size_t len)
{
    static const char *const words[] = { "pass", "pwd", "secret", "token", "auth", "key", "cred" };
    size_t key_len = strcspn(param, "=&");

    if (memchr(param, '%', key_len)) /* "%70assword": what it says is not for us to decode */
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words && !key_names_a_place(param, key_len); i++)
        for (size_t at = 0; at + strlen(words[i]) <= key_len; at++)
            if (strncasecmp(param + at, words[i], strlen(words[i])) == 0)
                return true;

    /* "redis://user:pa?ss=word@host": the '?' belonged to a password. */
    return parts->user && memchr(param, '@', len);
}

bool hfi_url_has_secret(const char *url)
{
    struct parts parts = take_apart(url);

    if (parts.user_end)
        return true;
    for (const char *at = parts.params; *at;) {
        size_t len = strcspn(++at, "&");

        if (param_is_secret(&parts, at, len))
            return true;
        at += len;
    }
    return false;
}

void hfi_url_wipe(char *url)
{
    struct parts parts = take_apart(url);

    if (hfi_url_has_secret(url))
        memset(url + (parts.rest - url), '*', strlen(parts.rest));
}

char *hfi_url_bare(const char *url)
{
    struct parts parts = take_apart(url);
    char *result = hfi_malloc(strlen(url) + 1);
    char *to = result;
    char separator = '?';

    if (!result)
        return NULL;
    if (parts.user_end) {
        size_t user_len = strcspn(parts.user, ":@");

        to = mempcpy(to, url, (size_t)(parts.user - url));
        to = mempcpy(to, parts.user, user_len);
        if (user_len)
            *to++ = '@';
        to = mempcpy(to, parts.user_end + 1, (size_t)(parts.params - parts.user_end - 1));
    } else {
        to = mempcpy(to, url, (size_t)(parts.params - url));
    }

    for (const char *at = parts.params; *at;) {
        size_t len = strcspn(++at, "&");

        if (!param_is_secret(&parts, at, len)) {
            *to++ = separator;
            separator = '&';
            to = mempcpy(to, at, len);
        }
        at += len;
    }
    *to = 0;
    return result;
}

/* Percent-encode everything but letters and digits: right in user-info for any password. */
static char *escape(char *to, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = "0123456789ABCDEF"[c >> 4];
            *to++ = "0123456789ABCDEF"[c & 15];
        }
    }
    return to;
}

char *hfi_url_with_password(const char *url, const char *password, const char **ret_wrong)
{
    struct parts parts = take_apart(url);
    size_t user_len = 0;
    char *result, *to;

    if (!parts.user || strncmp(parts.rest, "//", 2) != 0) {
        *ret_wrong = "this kind of store takes no password";
        return NULL;
    }
    if (parts.user_end) {
        user_len = (size_t)(parts.user_end - parts.user);
        if (memchr(parts.user, ':', user_len)) {
            *ret_wrong = "the url has a password of its own";
            return NULL;
        }
    }

    *ret_wrong = "out of memory";
    result = hfi_malloc(strlen(url) + 3 * strlen(password) + sizeof ":@");
    if (!result)
        return NULL;
    to = mempcpy(result, url, (size_t)(parts.user - url) + user_len);
    *to++ = ':';
    to = escape(to, password);
    *to++ = '@';
    strcpy(to, parts.user_end ? parts.user_end + 1 : parts.user);
    return result;
}

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* `len` bytes with %XX decoded, as the library reads them. What is malformed stays: it refuses that. */
static char *decoded(const char *text, size_t len)
{
    char *result = hfi_malloc(len + 1), *to = result;

    for (size_t i = 0; result && i < len; i++) {
        int high = text[i] == '%' && i + 2 < len ? nibble(text[i + 1]) : -1;
        int low = high >= 0 ? nibble(text[i + 2]) : -1;

        if (low >= 0)
            i += 2;
        *to++ = low >= 0 ? (char)(high * 16 + low) : text[i];
    }
    if (result)
        *to = 0;
    return result;
}

/* The parameter `key` with its value, and its length; NULL: none. */
static const char *find_param(const char *url, const char *key, size_t *ret_len)
{
    for (const char *at = take_apart(url).params; *at; at += *ret_len) {
        size_t key_len = strcspn(++at, "=&");
        char *name = decoded(at, key_len);
        bool found = name && strcmp(name, key) == 0 && at[key_len] == '=';

        *ret_len = strcspn(at, "&");
        hfi_free(name);
        if (found)
            return at;
    }
    return NULL;
}

char *hfi_url_value(const char *url, const char *key)
{
    size_t len, key_len;
    const char *param = find_param(url, key, &len);

    if (!param)
        return NULL;
    key_len = strcspn(param, "=");
    return decoded(param + key_len + 1, len - key_len - 1);
}

char *hfi_url_without(const char *url, const char *key)
{
    size_t len;
    const char *param = find_param(url, key, &len);
    char *result = hfi_strdup(url), *at;

    if (!param || !result)
        return result;
    at = result + (param - url); /* "?a=b&": the next one takes its place; "&a=b": the last one */
    if (at[len] == '&')
        memmove(at, at + len + 1, strlen(at + len + 1) + 1);
    else
        at[-1] = 0;
    return result;
}
