/* SPDX-License-Identifier: MIT */
/* Where modules are, and loading them: see module.h. There is no lock: two threads that load one module get the same pointer. */
#include "util/module.h"

#include "util/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifndef HFI_MODULE_DIR
#define HFI_MODULE_DIR "/usr/local/lib/holdfast"
#endif

static char loaded_from[PATH_MAX]; /* our own path, if ld.so knows only a relative one */

/* 1: this object of the process is ours, and its path is told. */
static int look_for_us(struct dl_phdr_info *object, size_t size, void *ret_path)
{
    bool is_program = (uintptr_t)object->dlpi_phdr == getauxval(AT_PHDR);
    uintptr_t us = (uintptr_t)loaded_from;

    (void)size;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = (uintptr_t)(object->dlpi_addr + part->p_vaddr);

        if (part->p_type == PT_LOAD && us >= begin && us - begin < part->p_memsz) {
            *(const char **)ret_path = is_program ? "" : object->dlpi_name;
            return 1;
        }
    }
    return 0;
}

/*
 * The path of the library. Not so if we are linked into a program: its path is
 * argv[0], which its caller chose and which must not choose code.
 */
static const char *own_path(void)
{
    const char *path = "";

    dl_iterate_phdr(look_for_us, &path);
    return path[0] && loaded_from[0] ? loaded_from : path;
}

/* A relative path (LD_LIBRARY_PATH=lib) must be resolved before the program changes its
 * directory. */
__attribute__((constructor)) static void remember_own_path(void)
{
    const char *path = own_path();

    if (path[0] != 0 && path[0] != '/' && !realpath(path, loaded_from))
        loaded_from[0] = 0;
}

/* <directory of libholdfast.so>/holdfast, after symbolic links; without resolving them, if a
 * directory on the path cannot be searched. "": there is none. */
static void own_dir(char ret_dir[PATH_MAX])
{
    const char *path = own_path();
    char *slash;

    ret_dir[0] = 0;
    if (path[0] != '/' || strlen(path) >= PATH_MAX)
        return;
    if (!realpath(path, ret_dir)) {
        if (errno != EACCES) {
            ret_dir[0] = 0;
            return;
        }
        memcpy(ret_dir, path, strlen(path) + 1);
    }

    slash = strrchr(ret_dir, '/');
    if (!slash || (size_t)(slash - ret_dir) + sizeof "/holdfast" > PATH_MAX)
        ret_dir[0] = 0;
    else
        memcpy(slash, "/holdfast", sizeof "/holdfast");
}

/* 0: *ret_path can be read. ENOENT: there is none. Else: why *ret_path cannot be read; the first such. */
static int find_module(const char *name, char ret_path[PATH_MAX])
{
    char dirs[2][PATH_MAX] = { "", HFI_MODULE_DIR }, path[PATH_MAX];
    int why = ENOENT;

    own_dir(dirs[0]);
    for (size_t i = 0; i < 2; i++) {
        int len = snprintf(path, sizeof path, "%s/%s.so", dirs[i], name), error;

        if (!dirs[i][0] || len <= 0 || len >= PATH_MAX)
            continue;
        error = faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 ? 0 : errno;
        if (error == ENOENT || error == ENOTDIR || (error && why != ENOENT))
            continue;
        memcpy(ret_path, path, (size_t)len + 1);
        why = error;
        if (error == 0)
            break;
    }
    return why;
}

bool hfi_module_is_there(const char *name)
{
    char path[PATH_MAX];

    return find_module(name, path) != ENOENT;
}

/* A build for packages knows which one has the module (debian/control). */
static hf_status not_there(const char *name, const char *what, hf_error *err)
{
#ifdef HFI_PACKAGES
    const char *prefix = strncmp(what, "engine ", 7) == 0 ? "holdfast-engine-" : "holdfast-";

    return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s is not installed: install the package %s%s",
                         what, prefix, name);
#else
    char dir[PATH_MAX];

    own_dir(dir);
    return hfi_error_set(err, HF_UNSUPPORTED, 0,
                         "%s is not part of this build: there is no %s/%s.so", what,
                         dir[0] ? dir : HFI_MODULE_DIR, name);
#endif
}

hf_status hfi_module_open(const char *name, const char *what, const char *symbol, void **ret_symbol,
                          hf_error *err)
{
    char path[PATH_MAX];
    void *module;
    int why = find_module(name, path);

    if (why == ENOENT)
        return not_there(name, what, err);
    if (why != 0)
        return hfi_error_set(err, why == EACCES ? HF_DENIED : HF_UNSUPPORTED, why,
                             "%s cannot be loaded: %s: %s", what, path, strerror(why));

    module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    *ret_symbol = module ? dlsym(module, symbol) : NULL;
    if (!*ret_symbol)
        /* cppcheck-suppress resourceLeak ; a module stays, as it may have begun to run */
        return hfi_error_set(err, HF_UNSUPPORTED, 0, "%s cannot be loaded: %s", what, dlerror());
    return HF_OK; /* cppcheck-suppress resourceLeak */
}
