/* SPDX-License-Identifier: MIT */
/*
 * Which users may use a store. It belongs to one user, or to a group if the URL says so: then
 * leases of all users exclude each other, also after a reboot, whichever user comes first. A store
 * that others may write to, a read-only one, or one on a network file system is refused with a
 * clear error, and nothing is done.
 */
#include "embedded.h"

#include "engine/lmdb/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALICE 65534 /* nobody */
#define BOB   1     /* daemon */

/* Become another user; ask.number: the user id. */
static void do_become(struct self *self, const struct ask *ask, struct answer *answer)
{
    gid_t gid = (gid_t)ask->token;

    (void)self;
    if (gid == 0)
        gid = (gid_t)ask->number;
    if (setgroups(0, NULL) != 0 || setgid(gid) != 0 || setuid((uid_t)ask->number) != 0)
        answer->status = HF_INTERNAL;
    umask(077); /* which does not decide who shares a store */
}

static struct actor *user(uid_t uid, gid_t gid)
{
    struct actor *actor = actor_start_raw();

    OK(actor_do(actor, do_become, (struct ask){ .number = uid, .token = gid }));
    return actor;
}

static struct actor *user_with_store(uid_t uid, gid_t gid)
{
    struct actor *actor = user(uid, gid);

    OK(actor_do(actor, do_open, (struct ask){ 0 }));
    return actor;
}

static void make_place(mode_t mode, uid_t uid, gid_t gid)
{
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(chown(place, uid, gid), 0);
    assert_int_equal(chmod(place, mode), 0);
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip_for("only root can become other users");
}

static void with_group(void)
{
    strcat(place_url, "?shared=group");
}

/* ---- shared -------------------------------------------------------------------------- */

#define LOCKS 12 /* a group */

static void two_users_share(void **state)
{
    struct actor *alice, *bob, *root;
    uint64_t token;

    (void)state;
    need_root();
    make_place(02770, 0, LOCKS);
    with_group();
    alice = user_with_store(ALICE, LOCKS);
    bob = user_with_store(BOB, LOCKS);
    root = actor_start();
    token = take(alice, mutex("n"));
    assert_int_equal(try_it(bob, mutex("n")), HF_BUSY);
    assert_int_equal(try_it(root, mutex("n")), HF_BUSY);
    wait_for(bob, mutex("n"));
    wait_for(root, mutex("n"));
    actor_kill(alice);
    assert_true(granted(bob) > token);
    give(bob, 0);
    granted(root);
    give(root, 0);
}

static void change_boot_id(void)
{
    static unsigned number;
    char id[40] = { 0 };

    snprintf(id, sizeof id, "00000000-0000-4000-8000-%012u", ++number);
    scribble("control", offsetof(struct lmdb_header, boot_id), id, sizeof id);
}

/* The files belong to the first user, who does not return after the reboot. */
static void another_user_first_after_a_reboot(void **state)
{
    struct actor *alice, *bob;
    uint64_t token;

    (void)state;
    need_root();
    make_place(02770, 0, LOCKS);
    with_group();
    alice = user_with_store(ALICE, LOCKS);
    token = take(alice, mutex("n"));
    actor_kill(alice);
    change_boot_id();
    bob = user_with_store(BOB, LOCKS);
    assert_true(take(bob, mutex("n")) > token);
    alice = user_with_store(ALICE, LOCKS);
    assert_int_equal(try_it(alice, mutex("n")), HF_BUSY);
}

/* Likewise when the lease file is damaged, and the first user is not there to remove the old one. */
static void another_user_rebuilds(void **state)
{
    struct actor *alice, *bob;

    (void)state;
    need_root();
    make_place(02770, 0, LOCKS);
    with_group();
    for (int i = 0; i < 3; i++) {
        alice = user_with_store(i % 2 ? BOB : ALICE, LOCKS);
        bob = user_with_store(i % 2 ? ALICE : BOB, LOCKS);
        take(alice, mutex("n"));
        assert_int_equal(truncate(in_place(lease_file()), 4096), 0);
        actor_kill(bob);
        bob = user_with_store(i % 2 ? ALICE : BOB, LOCKS);
        AWAIT(try_it(bob, mutex("other")) == HF_OK);
        assert_int_equal(try_it(bob, mutex("n")), HF_BUSY);
        actor_kill(alice);
        assert_int_equal(try_it(bob, mutex("n")), HF_OK);
        actor_quit(bob);
    }
}

static void expect_file(const char *file, mode_t mode, gid_t gid)
{
    struct stat st;

    assert_int_equal(stat(in_place(file), &st), 0);
    assert_int_equal(st.st_mode & 0777, mode);
    assert_int_equal(st.st_gid, gid);
}

/* Neither the umask nor the first user's group decides who shares a store. */
static void nobody_else_is_shut_out_by_the_umask(void **state)
{
    (void)state;
    need_root();
    make_place(0770, 0, LOCKS); /* without the bit that passes the group on */
    with_group();
    actor_quit(user_with_store(ALICE, LOCKS));
    expect_file("control", 0660, LOCKS);
    expect_file(lease_file(), 0660, LOCKS);
    actor_quit(actor_start()); /* root, of another group */
    assert_int_equal(unlink(in_place("control")), 0);
    actor_quit(actor_start());
    expect_file("control", 0660, LOCKS);
    actor_quit(user_with_store(BOB, LOCKS));
}

/* ---- not shared ------------------------------------------------------------------------ */

static void denied(struct answer answer)
{
    assert_int_equal(answer.status, HF_DENIED);
    assert_non_null(strstr(answer.text, place));
    print_message("  %s\n", answer.text);
}

static void denied_because(struct actor *actor, const char *words)
{
    struct answer answer = actor_do(actor, do_open, (struct ask){ 0 });

    denied(answer);
    if (!strstr(answer.text, words))
        fail_msg("'%s' has no '%s'", answer.text, words);
}

/* Nobody trusts everybody: no URL helps. As /tmp is, and as `make install` once made the default store. */
static void every_user_may_write(void **state)
{
    (void)state;
    need_root();
    make_place(01777, 0, 0);
    denied_because(user(ALICE, 0), "every user may write");
    denied_because(actor_start_raw(), "every user may write"); /* root */
    assert_int_equal(chmod(place, 0777), 0);
    with_group();
    denied_because(actor_start_raw(), "every user may write");
    assert_false(file_exists("store"));
}

static void a_group_may_write(void **state)
{
    (void)state;
    need_root();
    make_place(02770, 0, LOCKS);
    denied_because(user(ALICE, LOCKS), "shared=group");
    denied_because(actor_start_raw(), "shared=group");
    assert_false(file_exists("store"));
    assert_int_equal(chown(place, ALICE, LOCKS), 0);
    denied_because(user(ALICE, LOCKS), "shared=group"); /* one's own, for others to write to */
}

/* A new store is its user's alone, whatever the umask; and so are its files in a directory that can be read. */
static void a_new_store_is_private(void **state)
{
    struct stat st;

    (void)state;
    umask(0);
    actor_quit(actor_start());
    assert_int_equal(stat(place, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    expect_file("control", 0600, getegid());
    assert_int_equal(chmod(place, 0755), 0);
    assert_int_equal(chmod(in_place("live"), 0644), 0); /* as an older version made it */
    actor_quit(actor_start());
    expect_file("live", 0600, getegid());
    umask(022);
}

static void private_directory(void **state)
{
    struct actor *alice, *bob;

    (void)state;
    need_root();
    make_place(0755, ALICE, ALICE);
    bob = user(BOB, 0);
    denied(actor_do(bob, do_open, (struct ask){ 0 })); /* before anybody made a file */
    alice = user_with_store(ALICE, 0);
    take(alice, mutex("n"));
    denied(actor_do(bob, do_open, (struct ask){ 0 }));
    assert_int_equal(chmod(place, 0700), 0);
    denied(actor_do(bob, do_open, (struct ask){ 0 }));
    give(alice, 0);
}

/* Its user could change root's memory: root must say that it is meant. What root makes there is the user's. */
static void root_in_the_store_of_a_user(void **state)
{
    struct stat st;

    (void)state;
    need_root();
    make_place(0700, ALICE, ALICE);
    denied_because(actor_start_raw(), "belongs to");
    assert_false(file_exists("store"));
    with_group();
    actor_quit(actor_start());
    assert_int_equal(stat(in_place("control"), &st), 0);
    assert_int_equal(st.st_uid, ALICE);
    actor_quit(user_with_store(ALICE, ALICE));
}

/* Somebody may write to a file, though not to the directory. */
static void a_file_for_everybody(void **state)
{
    (void)state;
    actor_quit(actor_start());
    assert_int_equal(chmod(in_place("control"), 0666), 0);
    denied_because(actor_start_raw(), "every user may write");
    assert_int_equal(chmod(in_place("control"), 0660), 0);
    denied_because(actor_start_raw(), "shared=group");
    assert_int_equal(chmod(in_place("control"), 0600), 0);
    actor_quit(actor_start());
    need_root();
    assert_int_equal(chown(in_place("live"), BOB, BOB), 0);
    denied_because(actor_start_raw(), "belongs to");
}

static void do_open_wrong_word(struct self *self, const struct ask *ask, struct answer *answer)
{
    char url[sizeof place_url + 32];
    hf_error err;

    (void)ask;
    snprintf(url, sizeof url, "%s?shared=all", place_url);
    answer->status = hf_open(url, NULL, &self->store, &err);
}

static void only_a_group_is_known(void **state)
{
    (void)state;
    assert_int_equal(actor_do(actor_start_raw(), do_open_wrong_word, (struct ask){ 0 }).status,
                     HF_CONFIG);
}

static void parent_that_cannot_be_written(void **state)
{
    struct actor *bob;

    (void)state;
    need_root();
    bob = user(BOB, 0);
    denied(actor_do(bob, do_open, (struct ask){ 0 })); /* it would have to be made */
}

static void not_a_directory(void **state)
{
    struct actor *actor = actor_start_raw();
    struct answer answer;
    int fd = open(place, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    answer = actor_do(actor, do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_CONFIG);
    print_message("  %s\n", answer.text);
    unlink(place);
    snprintf(place_url, sizeof place_url, "file:%s/none/store", place);
    actor = actor_start_raw();
    answer = actor_do(actor, do_open, (struct ask){ 0 });
    assert_int_equal(answer.status, HF_CONFIG);
    print_message("  %s\n", answer.text);
}

/* ---- the default ------------------------------------------------------------------------ */

/* Of the user whose rights a set-user-ID program has, and not of its caller, in whose home it would make things. */
static void default_of_the_effective_user(void **state)
{
    struct passwd *nobody;
    struct lmdb_where where;
    char home[256];

    (void)state;
    need_root();
    nobody = getpwuid(ALICE);
    assert_non_null(nobody);
    snprintf(home, sizeof home, "%s/.local/state/holdfast", nobody->pw_dir);
    assert_int_equal(seteuid(ALICE), 0);
    assert_int_equal(lmdb_default(in_place("no-such-file"), &where, NULL), HF_OK);
    assert_int_equal(seteuid(0), 0);
    assert_string_equal(where.path, home);
    assert_true(where.by_default && !where.shared);
    lmdb_where_done(&where);
    assert_int_equal(access(place, F_OK), -1); /* to know it is not to make it */
}

static int32_t old_pid;

static void the_default_of_before(void **state)
{
    struct actor *actor;

    (void)state;
    assert_int_equal(lmdb_old_default(place, &old_pid), LMDB_OLD_NONE);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(lmdb_old_default(place, &old_pid), LMDB_OLD_NONE);
    actor = actor_start();
    assert_int_equal(lmdb_old_default(place, &old_pid), LMDB_OLD_LIVE);
    assert_int_equal(old_pid, actor->pid);
    actor_quit(actor);
    AWAIT(lmdb_old_default(place, &old_pid) == LMDB_OLD_IDLE);
}

/* ---- file systems ------------------------------------------------------------------------- */

/* In a mount namespace of its own the place becomes read-only. */
static void do_make_read_only(struct self *self, const struct ask *ask, struct answer *answer)
{
    (void)self, (void)ask;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(place, place, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        answer->status = HF_INTERNAL;
}

static void read_only_file_system(void **state)
{
    struct actor *holder, *other;

    (void)state;
    need_root();
    need_mounts();
    assert_int_equal(mkdir(place, 0755), 0);
    other = actor_start_raw();
    OK(actor_do(other, do_make_read_only, (struct ask){ 0 }));
    denied(actor_do(other, do_open, (struct ask){ 0 })); /* an empty one */
    holder = actor_start();
    take(holder, mutex("n"));
    denied(actor_do(other, do_open, (struct ask){ 0 })); /* one in use */
    give(holder, 0);
}

static void network_file_systems(void **state)
{
    static const long refused[] = { 0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                    0x01021997, 0x00c36400, 0x5346414f, 0x65735546,
                                    0x0bd00bd0, 0x01161970, 0x7461636f };
    static const long local[] = { 0xef53,     0x58465342, 0x9123683e, 0x01021994,
                                  0x794c7630, 0x2fc12fc1, 0x4d44 };
    const char *name;

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        name = NULL;
        assert_true(lmdb_network_fs(refused[i], &name));
        assert_non_null(name);
    }
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        assert_false(lmdb_network_fs(local[i], &name));
}

/* A real one: FUSE, behind which any machine may be. */
static void fuse(void **state)
{
    char behind[sizeof place + 16], command[2 * sizeof behind + 64];
    struct answer answer;

    (void)state;
    need_root();
    need_mounts();
    if (access("/dev/fuse", R_OK | W_OK) != 0)
        skip();
    snprintf(behind, sizeof behind, "%s.behind", place);
    assert_int_equal(mkdir(behind, 0755), 0);
    assert_int_equal(mkdir(place, 0755), 0);
    snprintf(command, sizeof command, "bindfs '%s' '%s'", behind, place);
    assert_int_equal(system(command), 0);
    answer = actor_do(actor_start_raw(), do_open, (struct ask){ 0 });
    umount2(place, MNT_DETACH);
    assert_int_equal(answer.status, HF_UNSUPPORTED);
    assert_non_null(strstr(answer.text, "FUSE"));
    print_message("  %s\n", answer.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_users_share),
        TEST(another_user_first_after_a_reboot),
        TEST(another_user_rebuilds),
        TEST(nobody_else_is_shut_out_by_the_umask),
        TEST(every_user_may_write),
        TEST(a_group_may_write),
        TEST(a_new_store_is_private),
        TEST(private_directory),
        TEST(root_in_the_store_of_a_user),
        TEST(a_file_for_everybody),
        TEST(only_a_group_is_known),
        TEST(parent_that_cannot_be_written),
        TEST(not_a_directory),
        TEST(default_of_the_effective_user),
        TEST(the_default_of_before),
        TEST(read_only_file_system),
        TEST(network_file_systems),
        TEST(fuse),
    };

    return embedded_result(cmocka_run_group_tests_name("users", tests, NULL, NULL));
}
