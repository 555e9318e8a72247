/* SPDX-License-Identifier: MIT */
#ifndef HFI_UTIL_JSON_H
#define HFI_UTIL_JSON_H

/*
 * JSON as a library wrote it, with every control, invisible and bidirectional character as \u202e: people read it on terminals. Outside of
 * strings there is none. `text` was made by malloc(3), and is freed if another one is returned. NULL: no memory, or NULL was given.
 */
char *hfi_json_escape(char *text);

#endif
