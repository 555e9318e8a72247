/* SPDX-License-Identifier: MIT */
/*
 * Store URLs, taken apart. Parsing is strict: what is not understood is refused, and the error
 * names its byte, counted from 0. There are no fragments: '#' is a byte like any other.
 *
 * Two copies are kept: `text` as given, and one that is cut and decoded in
 * place, to which scheme, rest, keys and values point. Error texts quote keys
 * only if they look like keys: text after a stray '&' or '?' may be half of a password.
 */
#include "core/url.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

#define KEY_SHOWN_MAX 40

static const char not_known[] = "is not known";

static hf_status parse_text(struct hfi_url *url, hf_error *err);
static hf_status parse_params(struct hfi_url *url, char *at, hf_error *err);
static hf_status parse_param(struct hfi_url *url, char *item, hf_error *err);
static hf_status param_error(const struct hfi_url_param *param, const char *wrong, hf_error *err);
static hf_status refuse(const struct hfi_url_param *param, hf_status status, int native,
                        const char *wrong, hf_error *err);
static const char *bad_escape(const char *text);
static int hex_pair(const char *text);
static bool is_alpha(char c);
static bool is_scheme_byte(char c);
static bool is_secret(const struct hfi_url *url, const struct hfi_url_param *param);
static size_t user_info_end(const struct hfi_url *url);

/* ---- parsing --------------------------------------------------------------- */

hf_status hfi_url_parse(const char *text, struct hfi_url *ret_url, hf_error *err)
{
    struct hfi_url url = { 0 };
    size_t len = strnlen(text, HFI_URL_MAX + 1);
    hf_status status;

    if (len > HFI_URL_MAX)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: longer than %d bytes", HFI_URL_MAX);

    url.text = hfi_strndup(text, len);
    url.scheme = hfi_strndup(text, len);
    if (!url.text || !url.scheme) {
        hfi_url_done(&url);
        return hfi_error_memory(err);
    }

    status = parse_text(&url, err);
    if (status != HF_OK) {
        hfi_url_done(&url);
        return status;
    }
    *ret_url = url;
    return HF_OK;
}

void hfi_url_done(struct hfi_url *url)
{
    size_t len = url->text ? strlen(url->text) : 0;

    if (url->text)
        explicit_bzero(url->text, len);
    if (url->scheme)
        explicit_bzero(url->scheme, len);
    hfi_free(url->text);
    hfi_free(url->scheme);
    hfi_free(url->exposed);
    *url = (struct hfi_url){ 0 };
}

static hf_status parse_text(struct hfi_url *url, hf_error *err)
{
    char *at = url->scheme, *query, *again;

    for (const char *c = url->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return hfi_error_set(err, HF_CONFIG, 0, "store URL: control character at byte %zu",
                                 (size_t)(c - url->text));

    if (!is_alpha(*at))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: no scheme at byte 0; a URL begins like file: or redis:");
    for (; is_scheme_byte(*at); at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    if (*at != ':')
        return hfi_error_set(
            err, HF_CONFIG, 0,
            "store URL: no ':' after the scheme at byte %zu; a URL begins like file: or redis:",
            (size_t)(at - url->scheme));

    *at = 0;
    url->rest = at + 1;
    query = strchr(url->rest, '?');
    if (!query)
        return HF_OK;

    *query++ = 0;
    again = strchr(query, '?');
    if (again) /* more likely a mistyped '&' than meant, and then a value would swallow a secret */
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: a second '?' at byte %zu",
                             (size_t)(again - url->scheme));
    return parse_params(url, query, err);
}

static hf_status parse_params(struct hfi_url *url, char *at, hf_error *err)
{
    while (at) {
        char *item = at;
        hf_status status;

        at = strchr(item, '&');
        if (at)
            *at++ = 0;

        status = parse_param(url, item, err);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* One "key=value", already cut off. */
static hf_status parse_param(struct hfi_url *url, char *item, hf_error *err)
{
    struct hfi_url_param param = { .key = item, .at = (size_t)(item - url->scheme) };
    const char *bad = bad_escape(item);

    if (bad)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: bad %%XX at byte %zu",
                             (size_t)(bad - url->scheme));

    param.value = strchr(item, '=');
    if (!param.value)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: no key=value at byte %zu", param.at);
    *param.value++ = 0;
    (void)hfi_url_decode(param.key);
    (void)hfi_url_decode(param.value);

    if (*param.key == 0)
        return hfi_error_set(err, HF_CONFIG, 0, "store URL: parameter without a key at byte %zu",
                             param.at);
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, param.key) == 0)
            return param_error(&param, "is given twice", err);
    if (url->param_count == HFI_URL_PARAMS_MAX)
        return param_error(&param, "is one too many", err);

    url->params[url->param_count++] = param;
    return HF_OK;
}

/* ---- taking parameters ----------------------------------------------------- */

/* An engine asks for every key that it knows: remember the closest one that is not there, for a key that turns out to be
 * mistyped. */
static void compare(struct hfi_url_param *param, const char *key)
{
    size_t distance = hfi_edit_distance(param->key, key);

    if (distance > (strlen(param->key) < 4 ? 1 : 2) ||
        (*param->near && distance >= param->distance))
        return;
    param->distance = distance;
    snprintf(param->near, sizeof param->near, "%s", key);
}

static struct hfi_url_param *take(struct hfi_url *url, const char *key)
{
    for (size_t i = 0; i < url->param_count; i++) {
        if (strcmp(url->params[i].key, key) != 0)
            continue;
        url->params[i].taken = true;
        return &url->params[i];
    }
    for (size_t i = 0; i < url->param_count; i++)
        compare(&url->params[i], key);
    return NULL;
}

const char *hfi_url_take(struct hfi_url *url, const char *key)
{
    struct hfi_url_param *param = take(url, key);

    return param ? param->value : NULL;
}

hf_status hfi_url_all_taken(const struct hfi_url *url, hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (!url->params[i].taken)
            return param_error(&url->params[i], not_known, err);
    return HF_OK;
}

static hf_status param_error(const struct hfi_url_param *param, const char *wrong, hf_error *err)
{
    return refuse(param, HF_CONFIG, 0, wrong, err);
}

hf_status hfi_url_refuse(const struct hfi_url *url, const char *key, hf_status status, int native,
                         const char *why, hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return refuse(&url->params[i], status, native, why, err);
    return hfi_error_set(err, status, native, "store URL: parameter '%s' %s", key, why);
}

/* "store URL: parameter 'ttl' at byte 12 needs a unit". Never the value. */
static hf_status refuse(const struct hfi_url_param *param, hf_status status, int native,
                        const char *wrong, hf_error *err)
{
    size_t len = strlen(param->key);
    bool shown = len <= KEY_SHOWN_MAX;

    for (const char *c = param->key; *c; c++)
        shown = shown && (is_scheme_byte(*c) || *c == '_');

    if (!shown)
        return hfi_error_set(err, status, native, "store URL: the parameter at byte %zu %s",
                             param->at, wrong);
    /* An engine that passes parameters to its library refuses by the same words. */
    if (*param->near && strcmp(wrong, not_known) == 0)
        return hfi_error_set(err, status, native,
                             "store URL: parameter '%s' at byte %zu %s; did you mean '%s'?",
                             param->key, param->at, wrong, param->near);
    return hfi_error_set(err, status, native, "store URL: parameter '%s' at byte %zu %s",
                         param->key, param->at, wrong);
}

/* ---- %XX -------------------------------------------------------------------- */

bool hfi_url_decode(char *text)
{
    char *to = text;

    if (bad_escape(text))
        return false;

    for (; *text; text++) {
        if (*text == '%') {
            *to++ = (char)hex_pair(text + 1);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = 0;
    return true;
}

/* The first '%' that is not followed by two hex digits other than 00; NULL: all are good. */
static const char *bad_escape(const char *text)
{
    for (; *text; text++)
        if (*text == '%' && hex_pair(text + 1) <= 0)
            return text;
    return NULL;
}

/* The byte that two hex digits spell; -1: they are not two hex digits. */
static int hex_pair(const char *text)
{
    unsigned char byte;

    /* hfi_unhex() stops at the first byte that is no hex digit, thus at the end of the text. */
    return hfi_unhex(text, 2, &byte, 1) ? byte : -1;
}

/* ---- showing ---------------------------------------------------------------- */

/*
 * Append the user with the password masked, the user alone, or a mask. A user's name is no secret,
 * and shows which of two URLs was meant. But a single word there may be a password in the wrong
 * place, unless it is a database's URL or a parameter says where the password is.
 */
static char *add_user(const struct hfi_url *url, size_t skip, char *to)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    static const char *const databases[] = { "postgresql", "postgres", "mariadb", "mysql" };
    bool slashes = strncmp(url->rest, "//", 2) == 0, is_user = false;
    const char *user = url->rest + (slashes ? 2 : 0);
    size_t len = strspn(user, plain);
    bool alone = user + len + 1 == url->rest + skip;

    for (size_t i = 0; i < sizeof databases / sizeof *databases; i++)
        is_user = is_user || strcmp(url->scheme, databases[i]) == 0;
    for (size_t i = 0; i < url->param_count; i++)
        is_user = is_user || strcmp(url->params[i].key, "password_file") == 0 ||
                  strcmp(url->params[i].key, "password_env") == 0;
    if (slashes)
        to = stpcpy(to, "//");
    if (len > 0 && (user[len] == ':' || (alone && is_user)))
        to = mempcpy(to, user, len);
    else if (!alone || !is_user)
        return stpcpy(to, "***");
    return alone ? to : stpcpy(to, ":***");
}

char *hfi_url_redacted(const struct hfi_url *url)
{
    size_t skip = user_info_end(url);
    size_t len = strlen(url->text);
    char *result = hfi_malloc(len + url->param_count * sizeof "***" + sizeof "//:***@");
    char *to = result;

    if (!result)
        return NULL;

    to = stpcpy(stpcpy(to, url->scheme), ":");
    if (skip)
        to = stpcpy(add_user(url, skip, to), "@");
    to = stpcpy(to, url->rest + skip);

    for (size_t i = 0; i < url->param_count; i++) {
        const struct hfi_url_param *param = &url->params[i];
        const char *raw = url->text + param->at;
        bool secret = is_secret(url, param);

        *to++ = i == 0 ? '?' : '&';
        to = mempcpy(to, raw, strcspn(raw, secret ? "=" : "&"));
        if (secret)
            to = stpcpy(to, "=***");
    }
    *to = 0;
    return result;
}

/*
 * How many bytes of `rest` may be user-info, the last '@' included. A password
 * with a stray '/' or '@' in it is still a password, so we look for the last '@'
 * and not where the authority should end; but a path is left alone.
 */
static size_t user_info_end(const struct hfi_url *url)
{
    const char *rest = url->rest, *last = strrchr(rest, '@');
    bool path = rest[0] == '/' && (rest[1] != '/' || rest[2] == '/');

    if (!last || path || strcmp(url->scheme, "file") == 0)
        return 0;
    return (size_t)(last + 1 - rest);
}

/* Parameters such as password_file= and password_env= say where a secret is, and are not secret. */
static bool names_a_place(const char *key)
{
    size_t len = strlen(key);

    return (len > 5 && strcmp(key + len - 5, "_file") == 0) ||
           (len > 4 && strcmp(key + len - 4, "_env") == 0) || strcmp(key, "key") == 0 ||
           strcmp(key, "tokens") == 0; /* a switch */
}

static bool is_secret(const struct hfi_url *url, const struct hfi_url_param *param)
{
    static const char *const words[] = { "pass", "pwd", "secret", "token", "auth", "key", "cred" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(param->key, words[i]) && !names_a_place(param->key))
            return true;

    /* "redis://user:pa?ss=word@host": the '?' belonged to a password. */
    return strcmp(url->scheme, "file") != 0 && strchr(param->value, '@');
}

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme_byte(char c)
{
    return is_alpha(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}
