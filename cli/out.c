/* SPDX-License-Identifier: MIT */
/*
 * Standard output. A result that could not be written is a failure: a full disk or a closed pipe
 * must not look like success to a script. But the process that closed a pipe needs no message about
 * it.
 */
#include "cli.h"

#include "util/text.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed; /* errno of a write that failed before out_finish() */

void out_failed(int error)
{
    failed = error;
}

int out_finish(const struct cli *cli)
{
    int error = 0;

    if (cli->stdout_closed) {
        say_error("write error: standard output is closed");
        return EXIT_OUTPUT;
    }

    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        error = errno ? errno : failed ? failed : EIO;
    if (!error)
        return EXIT_FINE;

    /* `| head -1`: the reader has what it wanted, and a script sees the exit code. */
    if (error != EPIPE && out_is_read(0)) /* an earlier flush may have met the EPIPE */
        say_error("write error: %s", strerror(error));
    return EXIT_OUTPUT;
}

bool out_is_read(int wait_ms)
{
    struct pollfd polled = { .fd = STDOUT_FILENO };

    return poll(&polled, 1, wait_ms) <= 0 || !(polled.revents & (POLLERR | POLLNVAL));
}

static bool in_colour(const struct cli *cli)
{
    const char *no = secure_getenv("NO_COLOR");
    const char *term = secure_getenv("TERM");

    if (cli->args.color != COLOR_AUTO)
        return cli->args.color == COLOR_ALWAYS;
    if ((no && *no) || !term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(STDOUT_FILENO) == 1;
}

const char *tone(const struct cli *cli, enum tone which)
{
    static const char *const codes[] = {
        [TONE_OFF] = "\033[0m",   [TONE_HEAD] = "\033[1m", [TONE_GOOD] = "\033[32m",
        [TONE_WARN] = "\033[33m", [TONE_BAD] = "\033[31m", [TONE_FAINT] = "\033[2m",
    };
    static int coloured = -1;

    if (coloured < 0)
        coloured = in_colour(cli);
    return coloured ? codes[which] : "";
}

/* In pieces: there may be many bytes. */
void out_safe(const char *bytes, size_t len)
{
    char text[HFI_QUOTED_MAX];

    for (size_t piece; len > 0; bytes += piece, len -= piece) {
        piece = len < HF_NAME_MAX ? len : HF_NAME_MAX;
        while (piece < len && piece > HF_NAME_MAX - 4 && (bytes[piece] & 0xc0) == 0x80)
            piece--; /* not through the middle of a character */
        fputs(hfi_quote_name(bytes, piece, text, sizeof text), stdout);
    }
}
