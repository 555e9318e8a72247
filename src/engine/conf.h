/* SPDX-License-Identifier: MIT */
/*
 * The description of a store's URL, and its parsed form. An engine declares the forms of its
 * schemes and a table of its parameters; core reads the URL (core/conf.h), refuses what no row
 * names before anything is opened, and hands over a struct of the engine's own type that begins
 * with a struct hfi_conf. An engine never reads a URL, a password file or an environment variable
 * itself.
 */
#ifndef HFI_ENGINE_CONF_H
#define HFI_ENGINE_CONF_H

#include "holdfast/holdfast.h"

#include <stdbool.h>
#include <stddef.h>

#define HFI_URL_MAX         4096
#define HFI_HOSTS_MAX       64  /* of one URL */
#define HFI_HOST_MAX        253 /* bytes of a name, or of an address with its zone */
#define HFI_SOCKET_PATH_MAX 107 /* sun_path, without its end */

/* ---- what an engine declares ---------------------------------------------------------------- */

/* scheme://[user[:password]@]host[:port][,host[:port]...][/path], or scheme:path */
struct hfi_form {
    const char *scheme;           /* NULL: the end of the table */
    uint16_t port;                /* of a host without one; 0: the engine's library knows */
    uint16_t hosts_max;           /* 0: scheme:path, without hosts and users */
    unsigned flags;               /* HFI_FORM_* */
    const struct hfi_param *more; /* rows of this scheme alone; NULL: none */
};
#define HFI_FORM_PATH         (1u << 0) /* a path may follow: conf->path */
#define HFI_FORM_SOCKET       (1u << 1) /* //[user[:password]@]/path/to/socket */
#define HFI_FORM_TLS          (1u << 2) /* TLS, always */
#define HFI_FORM_TLS_CHOICE   (1u << 3) /* tls=on|off */
#define HFI_FORM_TLS_SCHEME   (1u << 8) /* no TLS: the scheme with an 's' at its end has it */
#define HFI_FORM_TLS_NAME     (1u << 4) /* sni=NAME */
#define HFI_FORM_TLS_ANY      (HFI_FORM_TLS | HFI_FORM_TLS_CHOICE | HFI_FORM_TLS_SCHEME)
#define HFI_FORM_USER_ALONE   (1u << 5) /* a user without a password has a meaning */
#define HFI_FORM_SECRET_ALONE (1u << 6) /* a password without a user has a meaning */
/* A client library with settings of its own: a host may be left out, or be the path of a socket (its
 * directory); without tls= TLS is the library's choice, verify=, ca=, cert= and key= mean tls=on, and
 * one file may hold certificate and key. */
#define HFI_FORM_LIBRARY (1u << 7)

enum hfi_param_type {
    HFI_PARAM_TEXT,     /* const char *; at most `most` bytes (0: any); `words`: the default */
    HFI_PARAM_NUMBER,   /* uint32_t, from `least` to `most` */
    HFI_PARAM_DURATION, /* int64_t, milliseconds; it has a unit */
    HFI_PARAM_SWITCH,   /* bool; on or off */
    HFI_PARAM_CHOICE,   /* int, an index into `words`, which are separated by spaces */
    HFI_PARAM_SECRET,   /* const char *; NAME_file= and NAME_env=. NULL: not given */
    HFI_PARAM_REFUSED,  /* known, but not for this engine: `words` say why */
    HFI_PARAM_REST /* struct hfi_rest: all that no other row names. open() refuses what it does not know */
};

struct hfi_param {
    const char *name; /* NULL: the end of the table */
    enum hfi_param_type type;
    size_t offset;              /* in the engine's struct */
    int64_t least, most, value; /* bounds, and the default */
    const char *words;
};

struct hfi_conf_type {
    size_t size; /* of the engine's struct, which begins with a struct hfi_conf */
    const struct hfi_form *forms;
    const struct hfi_param *params;
};

/* ---- what core hands over ------------------------------------------------------------------- */

struct hfi_address {
    /* without brackets, perhaps with a zone: "fe80::1%eth0"; NULL: a Unix socket, or left out */
    char *host;
    char *path; /* of the Unix socket */
    uint16_t port;
    char *shown; /* "10.0.0.4:6379", "[::1]:6379" or the path: for people */
};

struct hfi_tls_conf {
    bool given, on;              /* by the scheme, tls= or a file; not given: on is false */
    bool verify;                 /* verify=off turns it off */
    const char *ca, *cert, *key; /* files that can be read; NULL: not given */
    const char *name;            /* sni=; NULL: the host */
};

struct hfi_rest {
    size_t count;
    struct {
        const char *key, *value;
    } items[32];
};

struct hfi_conf {
    const char *scheme;
    const char *user, *secret; /* decoded; NULL: none */
    struct hfi_address *hosts;
    size_t host_count;
    /* after the hosts, without its '/', not decoded: hfi_conf_part(). Never NULL */
    const char *path;
    struct hfi_tls_conf tls;
    const char *location; /* scheme://hosts, or scheme:path: no secrets */

    size_t path_at;              /* offset of `path` in the URL */
    const struct hfi_form *form; /* core's own, like the members below */
    struct hfi_url *url;         /* until open() has returned */
    struct hfi_conf_text *texts;
};

/* Read a URL of the engine's own that is not the one of the store, such as a line in a file of the administrator.
 * hfi_conf_delete() at the end; NULL is fine. */
hf_status hfi_conf_new(const char *url, const struct hfi_conf_type *type,
                       struct hfi_conf **ret_conf, hf_error *err);
void hfi_conf_delete(struct hfi_conf *conf);

/* A copy of `len` bytes that lives as long as the conf, and is wiped with it. NULL: out of memory. */
char *hfi_conf_keep(struct hfi_conf *conf, const char *text, size_t len);
/* Likewise, formatted. */
__attribute__((format(printf, 2, 3))) char *hfi_conf_print(struct hfi_conf *conf,
                                                           const char *format, ...);
/* A part of conf->path, decoded, as a copy of the conf's. */
hf_status hfi_conf_part(struct hfi_conf *conf, const char *from, size_t len, const char *what,
                        const char **ret_text, hf_error *err);
/*
 * `location` with a parameter that chooses other locks on the same server: two stores share locks only if their locations are
 * the same text, which is how nested runs and the deadlock detector compare them. value NULL: the default, nothing is added. NULL: out
 * of memory; a NULL location stays one.
 */
const char *hfi_conf_select(struct hfi_conf *conf, const char *location, const char *key,
                            const char *value);
/* Does the URL have this parameter? Only until open() has returned. */
bool hfi_conf_given(const struct hfi_conf *conf, const char *key);
/* HF_CONFIG: "store URL: parameter '<key>' at byte N <why>", where "why" is never a value. */
hf_status hfi_conf_refuse(const struct hfi_conf *conf, const char *key, const char *why,
                          hf_error *err);
/* HF_CONFIG: "store URL: <what> at byte N <why>"; `at` points into conf->path. */
hf_status hfi_conf_refuse_path(const struct hfi_conf *conf, const char *at, const char *what,
                               const char *why, hf_error *err);

#endif
