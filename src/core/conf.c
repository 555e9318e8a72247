/* SPDX-License-Identifier: MIT */
/* A store's URL, read by the tables of its engine: users and passwords, TLS; its texts, and what is wrong with it. See conf.h. */
#include "core/conf.h"

#include "core/secret.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A text of the conf. All texts are wiped, so nobody needs to know later which one is a secret. */
struct hfi_conf_text {
    struct hfi_conf_text *next;
    size_t size;
    char text[];
};

static hf_status find_form(struct hfi_conf *conf, const struct hfi_conf_type *type, hf_error *err);
static hf_status read_login(struct hfi_conf *conf, hf_error *err);
static hf_status read_tls(struct hfi_conf *conf, hf_error *err);

hf_status hfi_conf_read(struct hfi_url *url, const struct hfi_conf_type *type,
                        struct hfi_conf **ret_conf, hf_error *err)
{
    struct hfi_conf *conf = hfi_calloc(1, type->size);
    hf_status status;

    if (!conf)
        return hfi_error_memory(err);
    conf->url = url;
    conf->path = conf->location = "";
    status = find_form(conf, type, err);
    if (status == HF_OK)
        status = hfi_conf_place(conf, err);
    if (status == HF_OK && conf->form->hosts_max > 0)
        status = read_login(conf, err);
    if (status == HF_OK && conf->form->flags & HFI_FORM_TLS_ANY)
        status = read_tls(conf, err);
    if (status == HF_OK)
        status = hfi_conf_params(conf, type->params, conf, err);
    if (status == HF_OK && conf->form->more)
        status = hfi_conf_params(conf, conf->form->more, conf, err);
    if (status == HF_OK)
        status = hfi_conf_rest(conf, type->params, err);
    if (status != HF_OK) {
        hfi_conf_free(conf);
        return status;
    }
    *ret_conf = conf;
    return HF_OK;
}

void hfi_conf_opened(struct hfi_conf *conf)
{
    conf->url = NULL;
}

void hfi_conf_free(void *memory)
{
    struct hfi_conf *conf = memory;

    if (!conf)
        return;
    while (conf->texts) {
        struct hfi_conf_text *text = conf->texts;

        conf->texts = text->next;
        explicit_bzero(text->text, text->size);
        hfi_free(text);
    }
    hfi_free(conf->hosts);
    hfi_free(conf);
}

hf_status hfi_conf_new(const char *text, const struct hfi_conf_type *type,
                       struct hfi_conf **ret_conf, hf_error *err)
{
    struct hfi_url *url = hfi_malloc(sizeof *url);
    hf_status status = url ? hfi_url_parse(text, url, err) : hfi_error_memory(err);

    if (status != HF_OK) {
        hfi_free(url);
        return status;
    }
    status = hfi_conf_read(url, type, ret_conf, err);
    if (status != HF_OK) {
        hfi_url_done(url);
        hfi_free(url);
    }
    return status;
}

void hfi_conf_delete(struct hfi_conf *conf)
{
    if (!conf)
        return;
    hfi_url_done(conf->url);
    hfi_free(conf->url);
    hfi_conf_free(conf);
}

static hf_status find_form(struct hfi_conf *conf, const struct hfi_conf_type *type, hf_error *err)
{
    for (conf->form = type->forms; conf->form->scheme; conf->form++)
        if (strcmp(conf->form->scheme, conf->url->scheme) == 0) {
            conf->scheme = conf->form->scheme;
            return HF_OK;
        }
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: '%s' is no scheme of this engine",
                         conf->url->scheme);
}

/* ---- texts ------------------------------------------------------------------------------------ */

static char *new_text(struct hfi_conf *conf, size_t size)
{
    struct hfi_conf_text *text = hfi_malloc(sizeof *text + size);

    if (!text)
        return NULL;
    text->size = size;
    text->next = conf->texts;
    conf->texts = text;
    return text->text;
}

char *hfi_conf_keep(struct hfi_conf *conf, const char *text, size_t len)
{
    char *copy = new_text(conf, len + 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

char *hfi_conf_print(struct hfi_conf *conf, const char *format, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, format);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = len < 0 ? NULL : new_text(conf, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}

hf_status hfi_conf_copy(struct hfi_conf *conf, const char *text, const char **ret_text,
                        hf_error *err)
{
    *ret_text = hfi_conf_keep(conf, text, strlen(text));
    return *ret_text ? HF_OK : hfi_error_memory(err);
}

/* ---- what is wrong, and where ------------------------------------------------------------------- */

static const struct hfi_url_param *find(const struct hfi_conf *conf, const char *key)
{
    for (size_t i = 0; i < conf->url->param_count; i++)
        if (strcmp(conf->url->params[i].key, key) == 0)
            return &conf->url->params[i];
    return NULL;
}

bool hfi_conf_given(const struct hfi_conf *conf, const char *key)
{
    return find(conf, key) != NULL;
}

hf_status hfi_conf_refuse(const struct hfi_conf *conf, const char *key, const char *why,
                          hf_error *err)
{
    return hfi_url_refuse(conf->url, key, HF_CONFIG, 0, why, err);
}

hf_status hfi_conf_refuse_path(const struct hfi_conf *conf, const char *at, const char *what,
                               const char *why, hf_error *err)
{
    return hfi_error_set(err, HF_CONFIG, 0, "store URL: %s at byte %zu %s", what,
                         conf->path_at + (size_t)(at - conf->path), why);
}

/* ---- users and passwords ------------------------------------------------------------------------ */

/* Read the password of NAME_file= or NAME_env=, if one is given. `have`: there is one already. */
hf_status hfi_conf_secret(struct hfi_conf *conf, const char *name, const char *have,
                          const char **ret_secret, hf_error *err)
{
    char *secret = NULL;
    hf_status status = hfi_secret_take(conf->url, name, have != NULL, &secret, err);

    if (status == HF_OK && secret)
        status = hfi_conf_copy(conf, secret, ret_secret, err);
    hfi_secret_wipe(secret);
    return status;
}

/*
 * An empty password can be given only as "user:@": an empty file, or a variable without a value, is
 * a mistake.
 */
static hf_status read_login(struct hfi_conf *conf, hf_error *err)
{
    const char *user = hfi_url_take(conf->url, "user");
    hf_status status = HF_OK;

    if (user && conf->user)
        return hfi_conf_refuse(conf, "user", "is in the URL already", err);
    if (user)
        status = hfi_conf_copy(conf, user, &conf->user, err);
    if (status == HF_OK)
        status = hfi_conf_secret(conf, "password", conf->secret, &conf->secret, err);
    if (status != HF_OK)
        return status;
    if (conf->user && !conf->secret && !(conf->form->flags & HFI_FORM_USER_ALONE))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: a user without a password: give password_file= or "
                             "password_env= (or user:@ if it has none)");
    if (conf->secret && !conf->user && !(conf->form->flags & HFI_FORM_SECRET_ALONE))
        return hfi_error_set(err, HF_CONFIG, 0,
                             "store URL: a password without a user: give user@ or user=");
    return HF_OK;
}

/* ---- TLS ---------------------------------------------------------------------------------------- */

static hf_status take_file(struct hfi_conf *conf, const char *key, const char **ret_path,
                           hf_error *err)
{
    const char *path = hfi_url_take(conf->url, key);
    char why[128];

    if (!path)
        return HF_OK;
    if (access(path, R_OK) == 0)
        return hfi_conf_copy(conf, path, ret_path, err);
    snprintf(why, sizeof why, "cannot be read: %s", strerror(errno));
    return hfi_url_refuse(conf->url, key, HF_DENIED, errno, why, err);
}

/* tls=, and the parameters that have a meaning only with TLS. */
static hf_status choose_tls(struct hfi_conf *conf, hf_error *err)
{
    static const char *const keys[] = { "verify", "ca", "cert", "key", "sni" };
    struct hfi_tls_conf *tls = &conf->tls;
    unsigned flags = conf->form->flags;
    hf_status status = HF_OK;
    char why[100];

    tls->on = flags & HFI_FORM_TLS;
    if (flags & HFI_FORM_TLS_CHOICE)
        status = hfi_conf_switch(conf, "tls", &tls->on, err);
    if (status != HF_OK)
        return status;
    tls->given = tls->on || (flags & HFI_FORM_TLS_CHOICE && hfi_conf_given(conf, "tls"));
    if (tls->on && conf->form->flags & HFI_FORM_SOCKET)
        return hfi_conf_refuse(conf, "tls", "has no meaning for a Unix socket", err);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !tls->on; i++) {
        if (!hfi_conf_given(conf, keys[i]) || (i == 4 && !(flags & HFI_FORM_TLS_NAME)))
            continue;
        if (flags & HFI_FORM_LIBRARY && !tls->given) {
            tls->given = tls->on = true;
            break;
        }
        snprintf(why, sizeof why, "has a meaning with TLS only: %s%s",
                 flags & HFI_FORM_TLS_CHOICE ? "tls=on" : conf->scheme,
                 flags & HFI_FORM_TLS_CHOICE ? "" : "s:");
        return hfi_conf_refuse(conf, keys[i], why, err);
    }
    return HF_OK;
}

static hf_status read_tls(struct hfi_conf *conf, hf_error *err)
{
    struct hfi_tls_conf *tls = &conf->tls;
    const char *name;
    hf_status status = choose_tls(conf, err);

    if (status != HF_OK || !tls->on)
        return status;
    tls->verify = true;
    status = hfi_conf_switch(conf, "verify", &tls->verify, err);
    if (status == HF_OK && hfi_conf_given(conf, "cert") != hfi_conf_given(conf, "key") &&
        !(conf->form->flags & HFI_FORM_LIBRARY))
        status = hfi_conf_refuse(conf, hfi_conf_given(conf, "cert") ? "cert" : "key",
                                 "needs the other of cert= and key=", err);
    if (status == HF_OK)
        status = take_file(conf, "ca", &tls->ca, err);
    if (status == HF_OK)
        status = take_file(conf, "cert", &tls->cert, err);
    if (status == HF_OK)
        status = take_file(conf, "key", &tls->key, err);
    if (status != HF_OK || !(conf->form->flags & HFI_FORM_TLS_NAME))
        return status;
    name = hfi_url_take(conf->url, "sni");
    return name ? hfi_conf_copy(conf, name, &tls->name, err) : HF_OK;
}
