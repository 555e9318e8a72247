/* SPDX-License-Identifier: MIT */
/*
 * Sockets that a forked child must not keep. As long as a child has a copy of one, the server does not see the
 * connection end when the parent closes it, or dies. So every socket of ours is noted here, and fork(3) closes the
 * copies in the child before it returns there: by close(2) alone, so nothing is said to the server, not even at
 * the end of TLS. No lock is taken for it, and no memory that another thread may have been changing is read.
 */
#ifndef HFI_FDS_H
#define HFI_FDS_H

/* From now on this socket is not the child's. Returns fd; a negative one is passed through. Without memory
 * for the note the child keeps it. */
int hfi_fd_note(int fd);
/* It is about to be closed: before that, for then its number may be somebody else's. */
void hfi_fd_forget(int fd);

#endif
