/* SPDX-License-Identifier: MIT */
/*
 * Modules found beside the library, wherever that is: a copy of it in a
 * directory of our own, with modules that are good or wrong. This program is not
 * linked to the library: registry_modules LIBHOLDFAST MODULES
 */
#include "../unit.h"

#include "core/registry.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library, *modules;
static char dir[] = "/tmp/holdfast-registry.XXXXXX";

static hf_status (*find)(const char *, const struct hfi_engine **, hf_error *);
static const hf_engine_info *(*at)(size_t);

static void run(const char *format, const char *a, const char *b, const char *c)
{
    char command[4096];

    snprintf(command, sizeof command, format, a, b, c);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
}

/* The module `kind` as that of `engine`. */
static void put(const char *kind, const char *engine)
{
    char from[2048];

    snprintf(from, sizeof from, "%s/%s.so", modules, kind);
    run("cp '%s' '%s/holdfast/%s.so'", from, dir, engine);
}

static int prepare(void **state)
{
    void *handle, *symbol;

    (void)state;
    assert_non_null(mkdtemp(dir));
    run("cp '%s' '%s/libholdfast.so' && mkdir '%s/holdfast'", library, dir, dir);
    put("good", "redis");
    put("abi", "etcd");
    put("name", "zookeeper");
    put("symbol", "memcached");
    put("needs", "postgres");
    run("echo rubbish > '%s/holdfast/mariadb.so'%s%s", dir, "", "");

    /* By a relative path, from which we then walk away before anything is looked for. */
    assert_int_equal(chdir(dir), 0);
    handle = dlopen("./libholdfast.so", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        print_error("%s\n", dlerror());
    assert_non_null(handle);
    symbol = dlsym(handle, "hfi_registry_find");
    memcpy(&find, &symbol, sizeof find);
    symbol = dlsym(handle, "hf_engine_get");
    memcpy(&at, &symbol, sizeof at);
    assert_true(find && at);
    return chdir("/");
}

static int clean(void **state)
{
    (void)state;
    run("rm -rf '%s'%s%s", dir, "", "");
    return 0;
}

static void a_good_module_is_found(void **state)
{
    const struct hfi_engine *engine = NULL, *again = NULL;
    hf_error err;

    (void)state;
    assert_int_equal(find("redis", &engine, &err), HF_OK);
    assert_string_equal(engine->promises->name, "redis");
    assert_int_equal(find("rediss", &again, &err), HF_OK);
    assert_ptr_equal(engine, again);
}

static void wrong_modules_are_refused(void **state)
{
    char another[128];
    const struct {
        const char *scheme;
        hf_status status;
        const char *says;
    } cases[] = {
        { "etcd", HF_VERSION, another },
        { "zk", HF_VERSION, "the module of engine 'zookeeper' contains another engine" },
        { "memcached", HF_UNSUPPORTED, "hfi_engine_entry" },
        { "postgres", HF_UNSUPPORTED, "hfi_there_is_no_such_function" },
        { "mysql", HF_UNSUPPORTED, "engine 'mariadb' cannot be loaded: " },
        { "redlock", HF_UNSUPPORTED, "engine 'redlock' is not part of this build: there is no /" },
    };
    const struct hfi_engine *engine = NULL;
    hf_error err;

    (void)state;
    snprintf(another, sizeof another,
             "engine 'etcd' is of another build: interface %u, this library needs %u",
             HFI_ENGINE_ABI + 1, HFI_ENGINE_ABI);
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(find(cases[i].scheme, &engine, &err), cases[i].status);
            if (!strstr(err.text, cases[i].says))
                print_error("%s: %s\n", cases[i].scheme, err.text);
            assert_non_null(strstr(err.text, cases[i].says));
        }
    }
    assert_null(engine);
}

/* Modules that are there but do not work are listed with the reason; absent ones are not. */
static void listed_with_the_reason(void **state)
{
    static const char *const names[] = { "redis",     "postgres", "mariadb",
                                         "zookeeper", "etcd",     "memcached" };
    const hf_engine_info *info;
    size_t i;

    (void)state;
    for (i = 0; (info = at(i)); i++) {
        assert_true(i < COUNT(names));
        assert_string_equal(info->name, names[i]);
        assert_int_equal(info->available, i == 0);
        if (i > 0)
            assert_non_null(strstr(info->why_not, names[i]));
        else
            assert_null(info->why_not);
    }
    assert_int_equal(i, COUNT(names));
}

/* What a process that may not read everything is told of the embedded engine. */
static void told_as_nobody(char ret_text[HF_ERROR_TEXT_MAX], hf_status *ret_status)
{
    struct {
        hf_status status;
        char text[HF_ERROR_TEXT_MAX];
    } told = { HF_OK, "" };
    int pipe_fds[2], child_status;
    pid_t child;

    assert_int_equal(pipe(pipe_fds), 0);
    child = fork();
    if (child == 0) {
        const struct hfi_engine *engine;
        hf_error err = { .text = "" };

        if (geteuid() == 0 && setuid(65534) != 0)
            _exit(1);
        told.status = find("file", &engine, &err);
        memcpy(told.text, err.text, sizeof told.text);
        _exit(write(pipe_fds[1], &told, sizeof told) != (ssize_t)sizeof told);
    }
    assert_int_equal(read(pipe_fds[0], &told, sizeof told), sizeof told);
    assert_int_equal(waitpid(child, &child_status, 0), child);
    assert_int_equal(child_status, 0);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    memcpy(ret_text, told.text, sizeof told.text);
    *ret_status = told.status;
}

/* A module that is there but cannot be read is not "not part of this build": which file, and why. */
static void unreadable_is_not_missing(void **state)
{
    char text[HF_ERROR_TEXT_MAX], path[sizeof dir + 32];
    hf_status status;

    (void)state;
    put("good", "lmdb");
    snprintf(path, sizeof path, "%s/holdfast/lmdb.so", dir);

    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(path, 0), 0);
    told_as_nobody(text, &status);
    print_message("  %s\n", text);
    assert_int_equal(status, HF_DENIED);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "Permission denied"));

    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(dir, 0), 0); /* the way there: a clone in a home of mode 0700 */
    told_as_nobody(text, &status);
    assert_int_equal(chmod(dir, 0700), 0);
    print_message("  %s\n", text);
    assert_int_equal(status, HF_DENIED);
    assert_non_null(strstr(text, path));
    assert_non_null(strstr(text, "Permission denied"));
    assert_int_equal(unlink(path), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_module_is_found),
        cmocka_unit_test(wrong_modules_are_refused),
        cmocka_unit_test(listed_with_the_reason),
        cmocka_unit_test(unreadable_is_not_missing),
    };

    if (argc != 3)
        return 2;
    library = argv[1];
    modules = argv[2];
    return cmocka_run_group_tests(tests, prepare, clean);
}
