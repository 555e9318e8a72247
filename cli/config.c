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
 * that names file and line: a misspelt key must not choose a store.
 */
#include "store.h"

#include "secret.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX     (64 * 1024)
#define PASSWORD_MAX 1024
#define PROFILES_MAX 64
#define SYSTEM_FILE  "/etc/holdfast/config"

struct entry {
    char *name, *url, *password_file, *password_env;
    const char *file; /* static or kept for ever */
    unsigned line;    /* where it begins */
};

struct config {
    struct entry entries[PROFILES_MAX];
    size_t count;
    char *fallback; /* "default =" */
    const char *fallback_file;
    unsigned fallback_line;
};

struct reader {
    struct config *config;
    const char *file;
    unsigned line;
    size_t first;          /* entries of this file begin here */
    struct entry *section; /* NULL: before the first one */
    bool fallback_seen;
};

static int read_files(struct config *config);
static int read_file(struct config *config, const char *file, bool needed);
static int parse_line(struct reader *reader, char *text);
static int parse_section(struct reader *reader, char *text);
static int parse_key(struct reader *reader, char *text);
static int complete(const struct entry *entry, struct profile *ret_profile);
static int read_password(const struct entry *entry, char password[PASSWORD_MAX]);
static char *trim(char *text);

__attribute__((format(printf, 3, 4))) static int wrong_at(const char *file, unsigned line,
                                                          const char *format, ...);

/* Which files were looked at, and which profiles they have. */
static void say_profiles(const struct config *config, char *text, size_t size)
{
    const char *only = secure_getenv("HOLDFAST_CONFIG");
    size_t used =
        only ? (size_t)snprintf(text, size, "%s", shown(only))
             : (size_t)snprintf(text, size, "%s or ~/.config/holdfast/config", SYSTEM_FILE);

    if (used < size)
        used += (size_t)snprintf(text + used, size - used, ", which %s ", only ? "has" : "have");
    if (config->count == 0 && used < size)
        snprintf(text + used, size - used, "none");
    for (size_t i = 0; i < config->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
                                 shown(config->entries[i].name));
}

int config_profile(const char *name, struct profile *ret_profile)
{
    static struct config all; /* names and passwords' variables are kept for ever */
    struct config *config = &all;
    struct profile nothing = { 0 };
    const struct entry *hit = NULL;
    char there[1024];
    int code = read_files(config);

    if (code != EXIT_FINE)
        return code;
    *ret_profile = nothing;
    if (!name && !config->fallback)
        return EXIT_FINE;

    /* The last one of a name wins: the user's over the system's. */
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->entries[i].name, name ? name : config->fallback) == 0)
            hit = &config->entries[i];
    if (hit)
        return complete(hit, ret_profile);

    if (!name)
        return wrong_at(config->fallback_file, config->fallback_line, "no profile '%s'",
                        shown(config->fallback));
    say_profiles(config, there, sizeof there);
    say_error("no profile '%s' in %s%s", shown(name), there,
              *name == '/' || *name == '.' ? ": for a directory put file: before it"
                                           : " (a store URL would contain a ':')");
    return EXIT_CONFIG;
}

int config_names(void (*call)(const char *name))
{
    static struct config all;
    int code = read_files(&all);

    for (size_t i = 0; code == EXIT_FINE && i < all.count; i++)
        call(all.entries[i].name);
    return code;
}

/* ---- files -------------------------------------------------------------------- */

static int read_files(struct config *config)
{
    const char *only = secure_getenv("HOLDFAST_CONFIG");
    static char own[PATH_MAX];
    struct passwd *user;
    int code;

    if (only)
        return read_file(config, only, true);

    code = read_file(config, SYSTEM_FILE, false);
    user = getpwuid(geteuid());
    if (code != EXIT_FINE || !user)
        return code;

    snprintf(own, sizeof own, "%s/.config/holdfast/config", user->pw_dir);
    return read_file(config, own, false);
}

/* The whole file as text. NULL with errno: ENOENT, or what is wrong. */
static char *slurp(const char *file)
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

    text = must_alloc((size_t)about.st_size + 1);
    len = read(fd, text, (size_t)about.st_size);
    close(fd);
    if (len < 0 || memchr(text, 0, (size_t)len)) {
        errno = len < 0 ? errno : EILSEQ;
        free(text);
        return NULL;
    }
    return text;
}

static int read_file(struct config *config, const char *file, bool needed)
{
    struct reader reader = { config, file, 0, config->count, NULL, false };
    char *text = slurp(file);
    int code = EXIT_FINE;

    if (!text && !needed && (errno == ENOENT || errno == ENOTDIR))
        return EXIT_FINE;
    if (!text) {
        say_error("%s: cannot be read: %s", shown(file), strerror(errno));
        return EXIT_CONFIG;
    }

    for (char *line = text; line && code == EXIT_FINE;) {
        char *end = strchr(line, '\n');

        if (end)
            *end++ = 0;
        reader.line++;
        code = parse_line(&reader, trim(line));
        line = end;
    }
    for (size_t i = reader.first; i < config->count && code == EXIT_FINE; i++) {
        const struct entry *entry = &config->entries[i];

        if (!entry->url)
            code = wrong_at(file, entry->line, "profile '%s' has no url", shown(entry->name));
    }
    explicit_bzero(text, strlen(text));
    free(text);
    return code;
}

/* ---- lines --------------------------------------------------------------------- */

static int parse_line(struct reader *reader, char *text)
{
    if (!*text || *text == '#' || *text == ';')
        return EXIT_FINE;
    if (*text == '[')
        return parse_section(reader, text);
    return parse_key(reader, text);
}

static int parse_section(struct reader *reader, char *text)
{
    struct config *config = reader->config;
    size_t len = strlen(text);
    char *name;

    if (text[len - 1] != ']')
        return wrong_at(reader->file, reader->line, "a section must end with ']'");
    text[len - 1] = 0;
    text = trim(text + 1);
    if (strncmp(text, "profile", 7) != 0 || (text[7] != ' ' && text[7] != '\t'))
        return wrong_at(reader->file, reader->line, "unknown section '[%s]': only [profile NAME]",
                        shown(text));

    name = trim(text + 7);
    if (!*name || strchr(name, ':'))
        return wrong_at(reader->file, reader->line,
                        "the name of a profile must not be empty or contain ':'");
    for (size_t i = reader->first; i < config->count; i++)
        if (strcmp(config->entries[i].name, name) == 0)
            return wrong_at(reader->file, reader->line, "profile '%s' is there twice", shown(name));
    if (config->count == PROFILES_MAX)
        return wrong_at(reader->file, reader->line, "more than %d profiles", PROFILES_MAX);

    reader->section = &config->entries[config->count++];
    reader->section->name = must_strdup(name);
    reader->section->file = reader->file;
    reader->section->line = reader->line;
    return EXIT_FINE;
}

static int unknown_key(const struct reader *reader, const char *key)
{
    static const char *const keys[] = { "url", "password_file", "password_env" };
    const char *near = reader->section ? closest(key, keys, 3) : NULL;

    if (near)
        return wrong_at(reader->file, reader->line, "unknown key '%s'; did you mean '%s'?",
                        shown(key), near);
    if (reader->section)
        return wrong_at(reader->file, reader->line,
                        "unknown key '%s': a profile has url, password_file, password_env",
                        shown(key));
    return wrong_at(reader->file, reader->line,
                    "unknown key '%s': before the first section only 'default' is allowed",
                    shown(key));
}

static int parse_key(struct reader *reader, char *text)
{
    struct config *config = reader->config;
    struct entry *section = reader->section;
    char *value = strchr(text, '=');
    char **field = NULL;
    char *key;

    if (!value)
        return wrong_at(reader->file, reader->line, "neither [profile NAME] nor key = value");
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
        return wrong_at(reader->file, reader->line, "'%s' is empty", key);

    if (field == &config->fallback) {
        if (reader->fallback_seen)
            return wrong_at(reader->file, reader->line, "'default' is there twice");
        reader->fallback_seen = true;
        config->fallback_file = reader->file;
        config->fallback_line = reader->line;
        free(*field);
        *field = NULL;
    }
    if (*field)
        return wrong_at(reader->file, reader->line, "'%s' is there twice", key);
    *field = must_strdup(value);
    return EXIT_FINE;
}

/* ---- a profile, made complete ------------------------------------------------------ */

static int complete(const struct entry *entry, struct profile *ret_profile)
{
    struct profile profile = { .name = entry->name, .password_env = entry->password_env };
    const char *wrong = NULL;
    char password[PASSWORD_MAX];
    int code;

    snprintf(profile.file, sizeof profile.file, "profile %s in %s", shown(entry->name),
             shown(entry->file));
    if (!entry->password_file && !entry->password_env) {
        profile.url = must_strdup(entry->url);
        *ret_profile = profile;
        return EXIT_FINE;
    }

    code = read_password(entry, password);
    if (code != EXIT_FINE)
        return code;

    profile.has_password = true;
    profile.url = url_with_password(entry->url, password, &wrong);
    explicit_bzero(password, sizeof password);
    if (!profile.url)
        return wrong_at(entry->file, entry->line, "profile '%s': %s", shown(entry->name), wrong);
    *ret_profile = profile;
    return EXIT_FINE;
}

/* The first line of the file, or the variable. */
static int read_password(const struct entry *entry, char password[PASSWORD_MAX])
{
    const char *name = shown(entry->name);
    const char *from;
    char *text = NULL;

    if (entry->password_file && entry->password_env)
        return wrong_at(entry->file, entry->line,
                        "profile '%s' has both password_file and password_env", name);

    if (entry->password_env) {
        from = secure_getenv(entry->password_env);
        if (!from)
            return wrong_at(entry->file, entry->line,
                            "profile '%s': the environment has no variable '%s'", name,
                            shown(entry->password_env));
    } else {
        from = text = slurp(entry->password_file);
        if (!from)
            return wrong_at(entry->file, entry->line,
                            "profile '%s': password_file %s cannot be read: %s", name,
                            shown(entry->password_file), strerror(errno));
        text[strcspn(text, "\r\n")] = 0;
    }

    if (!*from || strlen(from) >= PASSWORD_MAX)
        return wrong_at(entry->file, entry->line, "profile '%s': the password is %s", name,
                        *from ? "too long" : "empty");
    strcpy(password, from);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    return EXIT_FINE;
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

static int wrong_at(const char *file, unsigned line, const char *format, ...)
{
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    say_error("%s:%u: %s", shown(file), line, text);
    return EXIT_CONFIG;
}
