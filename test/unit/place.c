/* SPDX-License-Identifier: MIT */
/* Which store hf_open() means without a URL, by a profile and by a URL, and that hf_store_get() says why. Real stores. */
#include "unit.h"

#include "holdfast/primitives.h"
#include "util/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY   65534
#define NOT_HERE 77

static char dir[] = "/tmp/holdfast-place.XXXXXX";
static char config[64], self[512];

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(config, sizeof config, "%s/config", dir);
    return 0;
}

static int end(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static int forget(void **state)
{
    (void)state;
    unsetenv("HOLDFAST_STORE");
    unsetenv("HOLDFAST_CONFIG");
    return 0;
}

static const char *url_of(const char *name)
{
    static char ring[4][100];
    static unsigned next;
    char *url = ring[next++ % 4];

    snprintf(url, sizeof ring[0], "file:%s/%s", dir, name);
    return url;
}

static void write_config(const char *text)
{
    FILE *file = fopen(config, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    setenv("HOLDFAST_CONFIG", config, 1);
}

/* hf_open(url) opens the store at `location`, and says that it came from `source`. */
static void opens(const char *url, const char *location, const char *source)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    hf_store *store;
    hf_error err;

    if (hf_open(url, NULL, &store, &err) != HF_OK)
        fail_msg("%s", err.text);
    assert_int_equal(hf_store_get(store, &info), HF_OK);
    assert_string_equal(info.location, location);
    assert_string_equal(info.source, source);
    assert_int_equal(hf_close(store, 0), HF_OK);
}

static void refuses(const char *url, const char *why)
{
    hf_store *store;
    hf_error err;

    assert_int_equal(hf_open(url, NULL, &store, &err), HF_CONFIG);
    if (!strstr(err.text, why))
        fail_msg("'%s' is not in: %s", why, err.text);
    assert_null(strstr(err.text, "sesame"));
}

static void the_environment_names_it(void **state)
{
    (void)state;
    write_config("default = a\n[profile a]\nurl = nosuch:\n");
    setenv("HOLDFAST_STORE", url_of("env"), 1);
    opens(NULL, url_of("env"), "HOLDFAST_STORE");
    opens(url_of("given"), url_of("given"), "the caller");
}

static void a_profile_names_it(void **state)
{
    char text[400], source[200];

    (void)state;
    snprintf(text, sizeof text, "default = a\n[profile a]\nurl = %s\n[profile b]\nurl = %s\n",
             url_of("a"), url_of("b"));
    write_config(text);
    snprintf(source, sizeof source, "profile a in %s", config);
    opens(NULL, url_of("a"), source);
    snprintf(source, sizeof source, "profile b in %s", config);
    opens("b", url_of("b"), source);
    setenv("HOLDFAST_STORE", "b", 1);
    opens(NULL, url_of("b"), source);
    opens("a", url_of("a"), strcat(strcpy(source, "profile a in "), config));
}

static void empty_is_a_mistake(void **state)
{
    (void)state;
    refuses("", "the store from the caller is empty");
    setenv("HOLDFAST_STORE", "", 1);
    refuses(NULL, "the store from HOLDFAST_STORE is empty");
}

static void mistakes_are_named_without_secrets(void **state)
{
    (void)state;
    setenv("HOLDFAST_STORE", "nosuch://me:sesame@h/?password=sesame", 1);
    refuses(NULL, "no engine for the scheme 'nosuch'");
    unsetenv("HOLDFAST_STORE");
    write_config("[profile a]\nulr = redis://:sesame@h\n");
    refuses(NULL, "config:2: unknown key 'ulr'; did you mean 'url'?");
    write_config("[profile a]\nredis://:sesame@h?db=1\n");
    refuses("b", "config:2: unknown key");
    write_config("[profile a]\nurl = file:/x\n");
    refuses("b", "no profile 'b' in ");
    refuses("localhost", "redis://localhost");
    refuses("localhost:6379", "like redis://localhost:6379");
    refuses("file:/x?deadlock_check=1d", "is too long: at most 1h");
    refuses("file:/x?cohort=1000000", "cohort");
    write_config("[profile a]\nurl = redis://h:1\npassword_env = NOSUCH\n");
    refuses("a", "the environment has no variable 'NOSUCH'");
    setenv("HOLDFAST_CONFIG", "/nosuch/config", 1);
    refuses(NULL, "/nosuch/config: cannot be read");
}

/* A call that opens no store means the same. */
static void by_url_too(void **state)
{
    char *sql = NULL;
    hf_error err;

    (void)state;
    write_config("[profile db]\nurl = postgresql://u@h:1/d\n");
    assert_int_equal(hf_sql_get_schema("db", &sql, &err), HF_OK);
    assert_non_null(strstr(sql, "CREATE"));
    hf_free(sql);
    assert_int_equal(hf_sql_get_schema("nosuch", &sql, &err), HF_CONFIG);
}

/* ---- the library's memory, which is looked at when it is given back */

#define HEAD 16 /* as malloc() aligns; the size of the block is in it */

static _Atomic unsigned secrets_left;

static void *take_block(size_t bytes, void *arg)
{
    char *block = calloc(1, HEAD + bytes);

    (void)arg;
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + HEAD;
}

static void give_block(void *memory, void *arg)
{
    char *block = memory;
    size_t bytes;

    (void)arg;
    if (!block)
        return;
    memcpy(&bytes, block - HEAD, sizeof bytes);
    if (memmem(block, bytes, "sesame", 6))
        secrets_left++;
    free(block - HEAD);
}

static void *change_block(void *memory, size_t bytes, void *arg)
{
    void *larger = take_block(bytes, arg);
    size_t before;

    if (!memory || !larger)
        return larger;
    memcpy(&before, (char *)memory - HEAD, sizeof before);
    memcpy(larger, memory, before < bytes ? before : bytes);
    give_block(memory, arg);
    return larger;
}

/* In no line of the files, and not when they are refused. */
static void no_password_stays_in_memory(void **state)
{
    char password[100], text[400];
    struct hfi_place place;
    FILE *file;
    hf_error err;

    (void)state;
    snprintf(password, sizeof password, "%s/password", dir);
    file = fopen(password, "w");
    assert_non_null(file);
    assert_true(fputs("word\nold sesame\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(text, sizeof text,
             "default = a\n[profile a]\nurl = redis://:sesame@h:1\n"
             "[profile b]\nurl = redis://h:1\npassword_file = %s\n",
             password);
    write_config(text);
    secrets_left = 0;
    for (const char *name = "a"; name; name = *name == 'a' ? "b" : NULL) {
        assert_int_equal(hfi_place_find(name, HFI_PLACE_CALLER, &place, &err), HF_OK);
        hfi_place_done(&place);
    }
    assert_int_equal(hfi_place_find("nosuch", HFI_PLACE_CALLER, &place, &err), HF_CONFIG);
    write_config("[profile a]\nurl = redis://:sesame@h:1\nnosuch = 1\n");
    assert_int_equal(hfi_place_find("a", HFI_PLACE_CALLER, &place, &err), HF_CONFIG);
    assert_int_equal(secrets_left, 0);
}

static void nothing_names_it(void **state)
{
    struct hfi_place place;
    hf_error err;

    (void)state;
    write_config("");
    assert_int_equal(hfi_place_find(NULL, HFI_PLACE_CALLER, &place, &err), HF_OK);
    assert_string_equal(place.url, "file:");
    assert_string_equal(place.source, HFI_BUILT_IN);
    hfi_place_done(&place);
}

/* The caller's environment does not choose the store of a set-user-ID program. */
static int secure(void)
{
    struct hfi_place place;
    hf_error err;

    if (!getauxval(AT_SECURE) || !getenv("HOLDFAST_STORE"))
        return NOT_HERE;
    if (hfi_place_find(NULL, HFI_PLACE_CALLER, &place, &err) != HF_OK)
        return 1;
    return strcmp(place.source, "HOLDFAST_STORE") == 0 || strstr(place.url, "env") ? 2 : 0;
}

static void setuid_programs(void **state)
{
    char copy[160], command[1200];
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("not root: no setuid program can be made\n");
        return;
    }
    snprintf(copy, sizeof copy, "%s/setuid", dir);
    snprintf(command, sizeof command, "cp '%s' '%s' && chmod 4755 '%s' && chmod 755 '%s'", self,
             copy, copy, dir);
    assert_int_equal(system(command), 0);
    pid = fork();
    if (pid == 0) {
        setenv("HOLDFAST_STORE", url_of("env"), 1);
        setenv("HOLDFAST_CONFIG", "/nosuch/config", 1);
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(NOT_HERE);
        execl(copy, copy, "--secure", (char *)NULL);
        _exit(NOT_HERE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        print_message("setuid programs have no more rights here (nosuid)\n");
    else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        print_message("another user cannot read the library of this build\n");
    else
        assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_environment_names_it, forget),
        cmocka_unit_test_setup(a_profile_names_it, forget),
        cmocka_unit_test_setup(empty_is_a_mistake, forget),
        cmocka_unit_test_setup(mistakes_are_named_without_secrets, forget),
        cmocka_unit_test_setup(by_url_too, forget),
        cmocka_unit_test_setup(no_password_stays_in_memory, forget),
        cmocka_unit_test_setup(nothing_names_it, forget),
        cmocka_unit_test_setup(setuid_programs, forget),
    };
    hf_allocator watched = HF_ALLOCATOR_INIT;
    ssize_t len;

    if (argc > 1 && strcmp(argv[1], "--secure") == 0)
        _exit(secure());
    len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    watched.allocate = take_block;
    watched.resize = change_block;
    watched.release = give_block;
    if (hf_allocator_set(&watched) != HF_OK)
        return 1;
    return cmocka_run_group_tests(tests, begin, end);
}
