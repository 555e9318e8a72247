/* SPDX-License-Identifier: MIT */
/*
 * What a process asks of a `holdfast run` around it. The outer run makes a pair of connected
 * sockets and its command inherits one end, whose number and inode are in HOLDFAST_RUN_FD
 * (cli/nest.h). To ask something, a process makes a pair of its own and sends one end of that
 * through the inherited socket, with a hello that says what it wants; the answer comes on its own
 * pair.
 *
 * The URL of a store with a password: `run` leaves no password in the environment of its command.
 * HOLDFAST_STORE_FD, of the same form, says that it took one out of HOLDFAST_STORE and hands it on.
 * The hello has HFI_HANDED_MAGIC and the text of HOLDFAST_STORE as its location; the answer is one
 * message with the complete URL, or a hang-up. The outer run answers a process of its own user
 * only: by the credentials of the process that made the pair, which the kernel keeps.
 *
 * Also compiled into the command. On the calling thread.
 */
#ifndef HFI_HANDED_H
#define HFI_HANDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_HANDED_VARIABLE     "HOLDFAST_STORE_FD"
#define HFI_HANDED_MAGIC        UINT32_C(0x48465331) /* "HFS1" */
#define HFI_HANDED_LOCATION_MAX 4200
#define HFI_HANDED_URL_MAX      8192

/* The fixed part of the first message; the name and the location follow. */
struct hfi_hello {
    uint32_t magic, kind, name_len, location_len;
};

/* Read "NUMBER:INODE" at *at, and go to what is behind the next comma; NULL: there is no more. -1:
 * it is not that, or the number now belongs to something else. */
int hfi_handed_fd(const char **at);
/* Our end of a new connection, not blocking. -1: nobody is at the other end of `inherited`. */
int hfi_handed_connect(int inherited, const struct hfi_hello *hello, const void *name,
                       const char *location);

/* Did an outer run take a password out of HOLDFAST_STORE? */
bool hfi_handed_any(void);
/* The complete URL in place of `text`, the value of HOLDFAST_STORE: wipe it, then hfi_free(). NULL:
 * nobody hands it on. Blocks: until a local process answers, at most five seconds. */
char *hfi_handed_url(const char *text);

#endif
