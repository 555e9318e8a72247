/* SPDX-License-Identifier: MIT */
/*
 * For tty.bats: a command in the middle of vfork(2). Its child stops before it execs, so no signal stops this process:
 * it is in an uninterruptible wait until the child goes on. Then it writes the file `over`, and waits to be ended.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");

    if (file) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
}

int main(void)
{
    write_file("child");
    if (vfork() == 0) {
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    write_file("over");
    pause();
    return 0;
}
