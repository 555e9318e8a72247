/* SPDX-License-Identifier: MIT */
/*
 * Sockets that a forked child must not keep. As long as a child has a copy of one, the server does not see the
 * connection end when the parent closes it, or dies. So every socket of ours is noted here, and fork(3) closes the
 * copies in the child before it returns there: by close(2) alone, so nothing is said to the server, not even at
 * the end of TLS. No lock is taken for it, and no memory that another thread may have been changing is read.
 */
#ifndef HFI_FDS_H
#define HFI_FDS_H

/* Note a socket, so that a forked child closes it. Returns fd; a negative one is passed through.
 * Without memory for the note the child keeps the socket. */
int hfi_fd_note(int fd);
/* Call this before the socket is closed: after that its number may be that of another file. */
void hfi_fd_forget(int fd);

#endif
