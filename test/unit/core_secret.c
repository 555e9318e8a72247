/* SPDX-License-Identifier: MIT */
/* Passwords from files and the environment: what is read, what is refused, and that nothing waits for ever. */
#include "unit.h"

#include "core/secret.h"
#include "util/alloc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define VARIABLE "HOLDFAST_TEST_SECRET"
#define NOBODY   65534
#define NOT_HERE 77

static char dir[] = "/tmp/holdfast-secret.XXXXXX";
static char self[512];

static int begin(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int end(void **state)
{
    char command[600];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char *write_file(const char *name, const char *text, size_t len, mode_t mode)
{
    const char *path = path_of(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return path;
}

/* What password_file=PATH gives; *ret_exposed: may others use that file? */
static hf_status take(const char *key, const char *value, char **ret_secret, bool *ret_exposed,
                      hf_error *err)
{
    char text[512];
    struct hfi_url url;
    hf_status status;

    snprintf(text, sizeof text, "redis://h?%s=%s", key, value);
    assert_int_equal(hfi_url_parse(text, &url, err), HF_OK);
    *ret_secret = NULL;
    status = hfi_secret_take(&url, "password", false, ret_secret, err);
    if (ret_exposed)
        *ret_exposed = url.exposed != NULL;
    hfi_url_done(&url);
    return status;
}

static void a_line_is_read(void **state)
{
    char *secret, link[160];
    bool exposed;
    hf_error err;
    const char *path = write_file("one", "sesame\r\nmore\n", 14, 0600);

    (void)state;
    assert_int_equal(take("password_file", path, &secret, &exposed, &err), HF_OK);
    assert_string_equal(secret, "sesame");
    assert_false(exposed);
    hfi_secret_wipe(secret);

    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink("one", link), 0);
    assert_int_equal(take("password_file", link, &secret, &exposed, &err), HF_OK);
    assert_string_equal(secret, "sesame");
    hfi_secret_wipe(secret);
}

static void others_may_read_it(void **state)
{
    static const struct {
        mode_t mode;
        bool exposed;
    } cases[] = {
        { 0400, false }, { 0640, true }, { 0604, true }, { 0620, true }, { 0700, false }
    };
    char *secret;
    bool exposed;
    hf_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *path = write_file("modes", "sesame\n", 7, cases[i].mode);

        assert_int_equal(take("password_file", path, &secret, &exposed, &err), HF_OK);
        assert_int_equal(exposed, cases[i].exposed);
        hfi_secret_wipe(secret);
        unlink(path);
    }
}

static void refuse(const char *path, hf_status expected)
{
    char *secret;
    hf_error err;

    assert_int_equal(take("password_file", path, &secret, NULL, &err), expected);
    assert_null(secret);
    assert_non_null(strstr(err.text, "'password_file' at byte 10"));
}

/* The alarm of the test's own time limit would be the first to notice an open(2) that waits. */
static void what_is_no_file(void **state)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char path[160];

    (void)state;
    snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse(path, HF_DENIED);
    refuse(dir, HF_DENIED);
    refuse("/dev/zero", HF_DENIED);
    refuse("/dev/null", HF_DENIED);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    refuse(address.sun_path, HF_DENIED);
    close(fd);
    snprintf(path, sizeof path, "%s/nothing", dir);
    refuse(path, HF_DENIED);
    refuse(write_file("empty", "", 0, 0600), HF_CONFIG);
    refuse(write_file("blank", "\nsesame\n", 8, 0600), HF_CONFIG);
}

static void too_long(void **state)
{
    static char text[8192];
    char *secret;
    hf_error err;

    (void)state;
    memset(text, 'a', sizeof text);
    refuse(write_file("long", text, sizeof text, 0600), HF_CONFIG);
    refuse(write_file("long", text, 4097, 0600), HF_CONFIG);
    assert_int_equal(
        take("password_file", write_file("long", text, 4096, 0600), &secret, NULL, &err), HF_OK);
    assert_int_equal(strlen(secret), 4096);
    hfi_secret_wipe(secret);
}

static void a_variable(void **state)
{
    char *secret;
    hf_error err;

    (void)state;
    setenv(VARIABLE, "sesame", 1);
    assert_int_equal(take("password_env", VARIABLE, &secret, NULL, &err), HF_OK);
    assert_string_equal(secret, "sesame");
    hfi_secret_wipe(secret);
    setenv(VARIABLE, "", 1);
    assert_int_equal(take("password_env", VARIABLE, &secret, NULL, &err), HF_CONFIG);
    unsetenv(VARIABLE);
    assert_int_equal(take("password_env", VARIABLE, &secret, NULL, &err), HF_CONFIG);
    assert_non_null(strstr(err.text, "'password_env' at byte 10"));
}

static void two_are_too_many(void **state)
{
    char *secret = NULL;
    struct hfi_url url;
    hf_error err;

    (void)state;
    assert_int_equal(hfi_url_parse("redis://h?password_file=/x", &url, &err), HF_OK);
    assert_int_equal(hfi_secret_take(&url, "password", true, &secret, &err), HF_CONFIG);
    hfi_url_done(&url);
    assert_int_equal(hfi_url_parse("redis://h?password_file=/x&password_env=Y", &url, &err), HF_OK);
    assert_int_equal(hfi_secret_take(&url, "password", false, &secret, &err), HF_CONFIG);
    assert_null(secret);
    hfi_url_done(&url);
}

/* ---- with more rights than the caller ------------------------------------------------------------ */

/* The caller's environment names no secrets of the program's owner, nor gives it any. */
static int secure(void)
{
    char *secret;
    hf_error err;

    if (!getauxval(AT_SECURE) || !getenv(VARIABLE))
        return NOT_HERE;
    return take("password_env", VARIABLE, &secret, NULL, &err) == HF_CONFIG && !secret ? 0 : 1;
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
        setenv(VARIABLE, "sesame", 1);
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(NOT_HERE);
        execl(copy, copy, "--secure", (char *)NULL);
        _exit(NOT_HERE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        print_message("setuid programs have no more rights here (nosuid)\n");
    else
        assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_read),  cmocka_unit_test(others_may_read_it),
        cmocka_unit_test(what_is_no_file), cmocka_unit_test(too_long),
        cmocka_unit_test(a_variable),      cmocka_unit_test(two_are_too_many),
        cmocka_unit_test(setuid_programs),
    };
    ssize_t len;

    if (argc > 1 && strcmp(argv[1], "--secure") == 0)
        _exit(secure());
    len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = 0;
    return cmocka_run_group_tests(tests, begin, end);
}
