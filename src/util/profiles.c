/* SPDX-License-Identifier: MIT */
/*
 * The config file: where stores have names.
 *
 *     default = work
 *     [profile work]
 *     url = redis://locks.example/
 *     password_file = /etc/holdfast/work.password
 *
 * Read from /etc/holdfast/config, then ~/.config/holdfast/config, whose
 * profiles and default win; or only from the file that HOLDFAST_CONFIG names.
 * Home comes from the passwd entry and not from HOME, as for the embedded
 * store: cron and a login shell must mean the same. Anything that is not understood is an error
 * that names file and line: a misspelt key must not choose a store. On the calling thread.
 */
#include "util/profiles.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/text.h"
#include "util/url_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX     (64 * 1024)
#define PASSWORD_MAX 1024
#define PROFILES_MAX 64
#define SYSTEM_FILE  "/etc/holdfast/config"
#define SHOWN_MAX    100

struct entry {
    char *name, *url, *password_file, *password_env;
    char *file;
    unsigned line; /* where it begins */
};

struct config {
    struct entry entries[PROFILES_MAX];
    size_t count;
    char *fallback; /* "default =" */
    char *fallback_file;
    unsigned fallback_line;
};

struct reader {
    struct config *config;
    const char *file;
    unsigned line;
    size_t first;          /* entries of this file begin here */
    struct entry *section; /* NULL: before the first one */
    bool fallback_seen;
    hf_error *err;
};

static hf_status read_files(struct config *config, hf_error *err);
static hf_status read_file(struct config *config, const char *file, bool needed, hf_error *err);
static void forget(struct config *config);
static hf_status parse_line(struct reader *reader, char *text);
static hf_status parse_section(struct reader *reader, char *text);
static hf_status parse_key(struct reader *reader, char *text);
static hf_status complete(const struct entry *entry, struct hfi_profile *ret_profile,
                          hf_error *err);
static hf_status read_password(const struct entry *entry, char password[PASSWORD_MAX],
                               hf_error *err);
static char *trim(char *text);

__attribute__((format(printf, 4, 5))) static hf_status wrong_at(const char *file, unsigned line,
                                                                hf_error *err, const char *format,
                                                                ...);

/* Made safe for a message. A URL in the wrong place may hold a password. */
struct shown {
    char text[SHOWN_MAX];
};
static struct shown shown(const char *text)
{
    char *bare = strstr(text, "://") ? hfi_url_bare(text) : NULL;
    struct shown result = { "" };

    text = bare ? bare : strstr(text, "://") ? "?" : text;
    hfi_quote_name(text, strlen(text), result.text, sizeof result.text);
    hfi_free(bare);
    return result;
}

/* Which files were looked at, and which profiles they have. */
static void say_profiles(const struct config *config, char *text, size_t size)
{
    const char *only = secure_getenv("HOLDFAST_CONFIG");
    size_t used =
        only ? (size_t)snprintf(text, size, "%s", shown(only).text)
             : (size_t)snprintf(text, size, "%s or ~/.config/holdfast/config", SYSTEM_FILE);

    if (used < size)
        used += (size_t)snprintf(text + used, size - used, ", which %s ", only ? "has" : "have");
    if (config->count == 0 && used < size)
        snprintf(text + used, size - used, "none");
    for (size_t i = 0; i < config->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 shown(config->entries[i].name).text);
}

/* "localhost", "localhost/0": what a person writes who means a server. */
static const char *advice(const char *name)
{
    if (*name == '/' || *name == '.')
        return ": for a directory put file: before it";
    if (strncmp(name, "localhost", 9) == 0)
        return ": for a server put its engine before it, for example redis://localhost";
    return " (a store URL would contain a ':')";
}

static hf_status find(const struct config *config, const char *name,
                      struct hfi_profile *ret_profile, hf_error *err)
{
    const struct entry *hit = NULL;
    char there[300];

    if (!name && !config->fallback)
        return HF_OK;

    /* The last one of a name wins: the user's over the system's. */
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->entries[i].name, name ? name : config->fallback) == 0)
            hit = &config->entries[i];
    if (hit)
        return complete(hit, ret_profile, err);

    if (!name)
        return wrong_at(config->fallback_file, config->fallback_line, err, "no profile '%s'",
                        shown(config->fallback).text);
    say_profiles(config, there, sizeof there);
    return hfi_error_set(err, HF_CONFIG, 0, "no profile '%s' in %s%s", shown(name).text, there,
                         advice(name));
}

hf_status hfi_profile_find(const char *name, struct hfi_profile *ret_profile, hf_error *err)
{
    struct config *config = hfi_calloc(1, sizeof *config);
    hf_status status;

    *ret_profile = (struct hfi_profile){ .name = NULL };
    if (!config)
        return hfi_error_memory(err);
    status = read_files(config, err);
    if (status == HF_OK)
        status = find(config, name, ret_profile, err);
    forget(config);
    return status;
}

void hfi_profile_done(struct hfi_profile *profile)
{
    if (profile->url)
        explicit_bzero(profile->url, strlen(profile->url));
    hfi_free(profile->url);
    hfi_free(profile->name);
    hfi_free(profile->password_env);
    *profile = (struct hfi_profile){ .name = NULL };
}

hf_status hfi_profiles_list(void (*call)(const char *name), hf_error *err)
{
    struct config *config = hfi_calloc(1, sizeof *config);
    hf_status status;

    if (!config)
        return hfi_error_memory(err);
    status = read_files(config, err);
    for (size_t i = 0; status == HF_OK && i < config->count; i++)
        call(config->entries[i].name);
    forget(config);
    return status;
}

/* ---- files -------------------------------------------------------------------- */

static hf_status read_files(struct config *config, hf_error *err)
{
    const char *only = secure_getenv("HOLDFAST_CONFIG");
    struct passwd entry, *user = NULL;
    char own[PATH_MAX], memory[4096];
    hf_status status;

    if (only)
        return read_file(config, only, true, err);

    status = read_file(config, SYSTEM_FILE, false, err);
    if (status != HF_OK || getpwuid_r(geteuid(), &entry, memory, sizeof memory, &user) != 0 ||
        !user)
        return status;

    snprintf(own, sizeof own, "%s/.config/holdfast/config", user->pw_dir);
    return read_file(config, own, false, err);
}

static void forget(struct config *config)
{
    for (size_t i = 0; i < config->count; i++) {
        struct entry *entry = &config->entries[i];

        if (entry->url)
            explicit_bzero(entry->url, strlen(entry->url));
        hfi_free(entry->url);
        hfi_free(entry->name);
        hfi_free(entry->password_file);
        hfi_free(entry->password_env);
        hfi_free(entry->file);
    }
    hfi_free(config->fallback);
    hfi_free(config->fallback_file);
    hfi_free(config);
}

/* What slurp() has returned: all of it may be secret, and parsing has put NULs into it. */
static void wipe(char *text, size_t size)
{
    if (text)
        explicit_bzero(text, size);
    hfi_free(text);
}

/* The whole file as text, for wipe(). NULL with errno: ENOENT, or what is wrong. */
static char *slurp(const char *file, size_t *ret_size)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat about;
    char *text;
    ssize_t len;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > FILE_MAX) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : about.st_size > FILE_MAX ? EFBIG : EINVAL;
        close(fd);
        return NULL;
    }

    *ret_size = (size_t)about.st_size;
    text = hfi_calloc(1, *ret_size + 1);
    if (!text) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    len = read(fd, text, *ret_size);
    if (len < 0 || memchr(text, 0, (size_t)len)) {
        int wrong = len < 0 ? errno : EILSEQ;

        close(fd);
        wipe(text, *ret_size);
        errno = wrong;
        return NULL;
    }
    close(fd);
    return text;
}

static hf_status read_file(struct config *config, const char *file, bool needed, hf_error *err)
{
    struct reader reader = { config, file, 0, config->count, NULL, false, err };
    size_t size = 0;
    char *text = slurp(file, &size);
    hf_status status = HF_OK;

    if (!text && !needed && (errno == ENOENT || errno == ENOTDIR))
        return HF_OK;
    if (!text)
        return errno == ENOMEM ? hfi_error_memory(err)
                               : hfi_error_set(err, HF_CONFIG, errno, "%s: cannot be read: %s",
                                               shown(file).text, strerror(errno));

    for (char *line = text; line && status == HF_OK;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = 0;
        reader.line++;
        status = parse_line(&reader, trim(line));
        line = end;
    }
    for (size_t i = reader.first; i < config->count && status == HF_OK; i++) {
        const struct entry *entry = &config->entries[i];

        if (!entry->url)
            status = wrong_at(file, entry->line, err, "profile '%s' has no url",
                              shown(entry->name).text);
    }
    wipe(text, size);
    return status;
}

/* ---- lines --------------------------------------------------------------------- */

static hf_status parse_line(struct reader *reader, char *text)
{
    if (!*text || *text == '#' || *text == ';')
        return HF_OK;
    if (*text == '[')
        return parse_section(reader, text);
    return parse_key(reader, text);
}

static hf_status parse_section(struct reader *reader, char *text)
{
    struct config *config = reader->config;
    size_t len = strlen(text);
    char *name;

    if (text[len - 1] != ']')
        return wrong_at(reader->file, reader->line, reader->err, "a section must end with ']'");
    text[len - 1] = 0;
    text = trim(text + 1);
    if (strncmp(text, "profile", 7) != 0 || (text[7] != ' ' && text[7] != '\t'))
        return wrong_at(reader->file, reader->line, reader->err,
                        "unknown section '[%s]': only [profile NAME]", shown(text).text);

    name = trim(text + 7);
    if (!*name || strchr(name, ':'))
        return wrong_at(reader->file, reader->line, reader->err,
                        "the name of a profile must not be empty or contain ':'");
    for (size_t i = reader->first; i < config->count; i++)
        if (strcmp(config->entries[i].name, name) == 0)
            return wrong_at(reader->file, reader->line, reader->err, "profile '%s' is there twice",
                            shown(name).text);
    if (config->count == PROFILES_MAX)
        return wrong_at(reader->file, reader->line, reader->err, "more than %d profiles",
                        PROFILES_MAX);

    reader->section = &config->entries[config->count++];
    reader->section->line = reader->line;
    reader->section->name = hfi_strdup(name);
    reader->section->file = hfi_strdup(reader->file);
    return reader->section->name && reader->section->file ? HF_OK : hfi_error_memory(reader->err);
}

static hf_status unknown_key(const struct reader *reader, const char *key)
{
    static const char *const keys[] = { "url", "password_file", "password_env" };
    const char *near = NULL;

    for (size_t i = 0; i < 3 && reader->section && !near; i++)
        if (hfi_edit_distance(key, keys[i]) < (strlen(key) < 4 ? 2 : 3))
            near = keys[i];
    if (near)
        return wrong_at(reader->file, reader->line, reader->err,
                        "unknown key '%s'; did you mean '%s'?", shown(key).text, near);
    if (reader->section)
        return wrong_at(reader->file, reader->line, reader->err,
                        "unknown key '%s': a profile has url, password_file, password_env",
                        shown(key).text);
    return wrong_at(reader->file, reader->line, reader->err,
                    "unknown key '%s': before the first section only 'default' is allowed",
                    shown(key).text);
}

static hf_status parse_key(struct reader *reader, char *text)
{
    struct config *config = reader->config;
    struct entry *section = reader->section;
    char *value = strchr(text, '=');
    char **field = NULL;
    char *key;

    if (!value)
        return wrong_at(reader->file, reader->line, reader->err,
                        "neither [profile NAME] nor key = value");
    *value++ = 0;
    key = trim(text);
    value = trim(value);

    if (section && strcmp(key, "url") == 0)
        field = &section->url;
    else if (section && strcmp(key, "password_file") == 0)
        field = &section->password_file;
    else if (section && strcmp(key, "password_env") == 0)
        field = &section->password_env;
    else if (!section && strcmp(key, "default") == 0)
        field = &config->fallback;
    if (!field)
        return unknown_key(reader, key);
    if (!*value)
        return wrong_at(reader->file, reader->line, reader->err, "'%s' is empty", key);

    if (field == &config->fallback) {
        if (reader->fallback_seen)
            return wrong_at(reader->file, reader->line, reader->err, "'default' is there twice");
        reader->fallback_seen = true;
        hfi_free(config->fallback_file);
        hfi_free(*field);
        *field = NULL;
        config->fallback_line = reader->line;
        config->fallback_file = hfi_strdup(reader->file);
        if (!config->fallback_file)
            return hfi_error_memory(reader->err);
    }
    if (*field)
        return wrong_at(reader->file, reader->line, reader->err, "'%s' is there twice", key);
    *field = hfi_strdup(value);
    return *field ? HF_OK : hfi_error_memory(reader->err);
}

/* ---- a profile, made complete ------------------------------------------------------ */

static hf_status complete(const struct entry *entry, struct hfi_profile *ret_profile, hf_error *err)
{
    struct hfi_profile profile = { .name = hfi_strdup(entry->name) };
    const char *wrong = NULL;
    char password[PASSWORD_MAX];
    hf_status status = HF_OK;

    snprintf(profile.from, sizeof profile.from, "profile %s in %s", shown(entry->name).text,
             shown(entry->file).text);
    if (entry->password_env)
        profile.password_env = hfi_strdup(entry->password_env);
    if (!profile.name || (entry->password_env && !profile.password_env)) {
        status = hfi_error_memory(err);
    } else if (!entry->password_file && !entry->password_env) {
        profile.url = hfi_strdup(entry->url);
        if (!profile.url)
            status = hfi_error_memory(err);
    } else {
        profile.has_password = true;
        status = read_password(entry, password, err);
        if (status == HF_OK) {
            profile.url = hfi_url_with_password(entry->url, password, &wrong);
            if (!profile.url)
                status = wrong_at(entry->file, entry->line, err, "profile '%s': %s",
                                  shown(entry->name).text, wrong);
        }
        explicit_bzero(password, sizeof password);
    }
    if (status == HF_OK)
        *ret_profile = profile;
    else
        hfi_profile_done(&profile);
    return status;
}

/* The first line of the file, or the variable. */
static hf_status read_password(const struct entry *entry, char password[PASSWORD_MAX],
                               hf_error *err)
{
    struct shown name = shown(entry->name);
    hf_status status = HF_OK;
    const char *from;
    char *text = NULL;
    size_t size = 0;

    if (entry->password_file && entry->password_env)
        return wrong_at(entry->file, entry->line, err,
                        "profile '%s' has both password_file and password_env", name.text);

    if (entry->password_env) {
        from = secure_getenv(entry->password_env);
        if (!from)
            return wrong_at(entry->file, entry->line, err,
                            "profile '%s': the environment has no variable '%s'", name.text,
                            shown(entry->password_env).text);
    } else {
        from = text = slurp(entry->password_file, &size);
        if (!from)
            return wrong_at(entry->file, entry->line, err,
                            "profile '%s': password_file %s cannot be read: %s", name.text,
                            shown(entry->password_file).text, strerror(errno));
        text[strcspn(text, "\r\n")] = 0;
    }

    if (!*from || strlen(from) >= PASSWORD_MAX)
        status = wrong_at(entry->file, entry->line, err, "profile '%s': the password is %s",
                          name.text, *from ? "too long" : "empty");
    else
        strcpy(password, from);
    wipe(text, size);
    return status;
}

/* ---- small things ------------------------------------------------------------------- */

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t\r");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r", end[-1]))
        *--end = 0;
    return text;
}

static hf_status wrong_at(const char *file, unsigned line, hf_error *err, const char *format, ...)
{
    char text[HF_ERROR_TEXT_MAX];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return hfi_error_set(err, HF_CONFIG, 0, "%s:%u: %s", shown(file).text, line, text);
}
