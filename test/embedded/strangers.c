/* SPDX-License-Identifier: MIT */
/*
 * What somebody else may have put into a store, and what a store shows of its processes. Things that are no
 * files are refused and left alone; numbers that lead nowhere are not followed; a lock that a stranger keeps
 * makes opening fail in time; and nothing of a process's secrets is in any file.
 */
#include "embedded.h"

#include "engine/lmdb/internal.h"
#include "util/hash.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- no files of ours ------------------------------------------------------------------- */

static const char *const files[] = { "init", "store", "control", "live", "leases.1" };

static struct answer open_it(void)
{
    struct actor *actor = actor_start_raw();
    struct answer answer;

    actor_begin(actor, do_open, (struct ask){ 0 });
    answer = actor_answer(actor);
    actor_kill(actor);
    return answer;
}

static void must_be_refused(const char *file, const char *word)
{
    struct answer answer = open_it();

    if (answer.status != HF_DENIED || !strstr(answer.text, word) || !strstr(answer.text, file))
        fail_msg("%s, %s: %s: %s", file, word, hf_status_name(answer.status), answer.text);
}

static void make_socket(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

static void things_that_are_no_files(void **state)
{
    char target[sizeof place + 16];
    struct stat st;

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *file = files[i], *path;
        int fd;

        snprintf(target, sizeof target, "%s.target", place);
        actor_quit(actor_start());
        path = in_place(file);
        assert_int_equal(unlink(path), 0);

        assert_int_equal(mkfifo(path, 0600), 0);
        must_be_refused(file, "fifo");
        unlink(path);
        make_socket(path);
        must_be_refused(file, "socket");
        unlink(path);
        assert_int_equal(mkdir(path, 0700), 0);
        must_be_refused(file, "directory");
        rmdir(path);
        assert_int_equal(symlink(target, path), 0);
        must_be_refused(file, "symbolic link");
        assert_int_equal(access(target, F_OK), -1);
        unlink(path);
        if (geteuid() == 0 && mknod(path, S_IFCHR | 0600, 0x0103 /* null */) == 0) {
            must_be_refused(file, "device");
            unlink(path);
        }

        /* A file of ours elsewhere, by a second name. */
        fd = open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_int_equal(write(fd, "precious", 8), 8);
        close(fd);
        assert_int_equal(link(target, path), 0);
        must_be_refused(file, "hard link");
        assert_int_equal(stat(target, &st), 0);
        assert_int_equal(st.st_size, 8);
        unlink(path);
        unlink(target);
        print_message("  %s\n", file);
        place_teardown(NULL);
        place_setup(NULL);
    }
}

/* ---- the lock on `init` ----------------------------------------------------------------------- */

static void do_open_in_a_second(struct self *self, const struct ask *ask, struct answer *answer)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    hf_error err = { 0 };

    (void)ask;
    options.open_wait_ms = 1000;
    answer->status = hf_open(place_url, &options, &self->store, &err);
    memcpy(answer->text, err.text, sizeof answer->text);
}

static void do_flock_init(struct self *self, const struct ask *ask, struct answer *answer)
{
    int fd = open(in_place("init"), O_RDONLY);

    (void)self, (void)ask;
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        answer->status = HF_DENIED;
}

static void a_lock_that_stays(void **state)
{
    struct actor *stranger = actor_start_raw(), *newcomer = actor_start_raw(), *old = actor_start();
    struct answer answer;
    char pid[32];

    (void)state;
    OK(actor_do(stranger, do_flock_init, (struct ask){ 0 }));
    answer = actor_do(newcomer, do_open_in_a_second, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_UNAVAILABLE);
    assert_non_null(strstr(answer.text, "/init"));
    snprintf(pid, sizeof pid, "process %d ", (int)stranger->pid);
    if (!strstr(answer.text, pid))
        fail_msg("'%s' does not name process %d", answer.text, (int)stranger->pid);
    take(old, mutex("n")); /* a process that has it open goes on */
    actor_kill(stranger);
    OK(actor_do(newcomer, do_open_in_a_second, (struct ask){ 0 }));
}

static void do_become_nobody(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask;
    if (setgid(65534) != 0 || setuid(65534) != 0)
        answer->status = HF_INTERNAL;
}

static void do_lock_live(struct self *self, const struct ask *ask, struct answer *answer)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    int fd = open(in_place("live"), O_RDONLY);

    (void)self, (void)ask;
    if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0)
        answer->status = HF_DENIED;
}

/* In a directory that everybody may look into. A read lock on `live` would make the dead look alive for ever. */
static void a_stranger_cannot_lock(void **state)
{
    struct actor *holder, *other, *stranger = actor_start_raw();

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(place, 0755), 0);
    holder = actor_start();
    other = actor_start();
    take(holder, mutex("n"));
    OK(actor_do(stranger, do_become_nobody, (struct ask){ 0 }));
    assert_int_equal(actor_do(stranger, do_flock_init, (struct ask){ 0 }).status, HF_DENIED);
    assert_int_equal(actor_do(stranger, do_lock_live, (struct ask){ 0 }).status, HF_DENIED);
    wait_for(other, mutex("n"));
    actor_kill(holder);
    granted(other);
}

/* ---- secrets ------------------------------------------------------------------------------------ */

/* Eight bytes of AT_RANDOM are the stack canary, the other eight the pointer guard. An actor is a fork: it has ours. */
static void no_canary_in_any_file(void **state)
{
    const unsigned char *secret =
        (const unsigned char *)getauxval(AT_RANDOM); /* NOLINT(performance-no-int-to-ptr) */
    struct actor *actor = actor_start();
    struct dirent *entry;
    DIR *dir;

    (void)state;
    assert_non_null(secret);
    take(actor, mutex("n"));
    dir = opendir(place);
    while ((entry = readdir(dir))) {
        FILE *file = fopen(in_place(entry->d_name), "rb");
        static unsigned char bytes[8 << 20];
        size_t len = file && entry->d_name[0] != '.' ? fread(bytes, 1, sizeof bytes, file) : 0;

        if (file)
            fclose(file);
        for (size_t at = 0; at + 8 <= len; at++)
            if (memcmp(bytes + at, secret, 8) == 0 || memcmp(bytes + at, secret + 8, 8) == 0)
                fail_msg("%s has half of AT_RANDOM at %zu", entry->d_name, at);
    }
    closedir(dir);
}

/* ---- numbers -------------------------------------------------------------------------------------- */

#define HEADER(field)  (off_t) offsetof(struct lmdb_header, field)
#define SLOT(n, field) (off_t)(LMDB_PAGE * (1 + (n)) + offsetof(struct lmdb_slot, field))

/* All that goes from slot to slot: opening, a death, a look, a rebuild. */
static void go_round(struct actor *holder)
{
    struct actor *waiter = actor_start();

    wait_for(waiter, mutex("n"));
    assert_true(holders_of("n") == 1);
    actor_kill(holder);
    granted(waiter);
    assert_int_equal(truncate(in_place(lease_file()), 5000), 0);
    actor_quit(actor_start());
    observer_quit();
    actor_quit(waiter);
}

static void too_many_slots(void **state)
{
    static const uint32_t counts[] = { 1000, LMDB_SLOTS_MAX, LMDB_SLOTS_MAX + 1, 1u << 30,
                                       UINT32_MAX };

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct actor *holder = actor_start();

        print_message("  %u\n", counts[i]);
        take(holder, mutex("n"));
        scribble("control", HEADER(slot_high), &counts[i], sizeof counts[i]);
        go_round(holder);
        place_teardown(NULL);
        place_setup(NULL);
    }
}

static void nonsense_in_a_slot(void **state)
{
    const uint32_t many = UINT32_MAX;
    struct actor *holder = actor_start();

    (void)state;
    take(holder, mutex("n"));
    scribble("control", SLOT(0, watching), &many, sizeof many);
    scribble("control", SLOT(0, mail_read), &many, sizeof many);
    scribble("control", HEADER(slot_hint), &many, sizeof many);
    scribble("control", HEADER(slot_room), &many, sizeof many);
    go_round(holder);
}

/* A checksum that fits says that nobody changed it by accident, and no more. */
static void a_label_that_is_too_long(void **state)
{
    struct hfi_name name = { .bytes = (const unsigned char *)"n", .len = 1 };
    struct lmdb_name rec, parsed;
    MDB_val value = { .mv_data = &rec };

    (void)state;
    hfi_hash128("n", 1, name.hash);
    for (int len = 0; len <= UINT8_MAX; len++) {
        memset(&rec, 0, sizeof rec);
        lmdb_name_init(&rec, &name);
        rec.label_len = (uint8_t)len;
        value.mv_size = lmdb_name_seal(&rec, name.hash);
        assert_int_equal(lmdb_name_parse(name.hash, &value, &parsed),
                         len <= HF_LABEL_MAX ? 0 : LMDB_E_CORRUPT);
    }
}

/* ---- an older version ------------------------------------------------------------------------------ */

static void another_format_in_use(void **state)
{
    const uint32_t older = 1;
    struct actor *holder = actor_start();
    struct answer answer;

    (void)state;
    take(holder, mutex("n"));
    scribble("control", HEADER(format), &older, sizeof older);
    answer = open_it();
    assert_int_equal(answer.status, HF_VERSION);
    print_message("  %s\n", answer.text);
    actor_kill(holder);
    actor_quit(actor_start());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(things_that_are_no_files), TEST(a_lock_that_stays),     TEST(a_stranger_cannot_lock),
        TEST(no_canary_in_any_file),    TEST(too_many_slots),        TEST(nonsense_in_a_slot),
        TEST(a_label_that_is_too_long), TEST(another_format_in_use),
    };

    return cmocka_run_group_tests_name("strangers", tests, NULL, NULL);
}
