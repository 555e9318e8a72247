/* SPDX-License-Identifier: MIT */
/* Filling in the caller's hf_error. All accept err == NULL and return `status`. Paths that lead to
 * an error are marked cold: the compiler keeps them out of the usual path. */
#ifndef HFI_ERROR_H
#define HFI_ERROR_H
#include "holdfast/holdfast.h"

/* Set status, native code and text. */
__attribute__((cold, format(printf, 4, 5))) hf_status hfi_error_set(hf_error *err, hf_status status,
                                                                    int native, const char *format,
                                                                    ...);
/* Put "text: " before what is there; status and native stay. Returns err's status. */
__attribute__((cold, format(printf, 2, 3))) hf_status hfi_error_wrap(hf_error *err,
                                                                     const char *format, ...);
/* Set to HF_OK with empty text. */
void hfi_error_clear(hf_error *err);
/* HF_NO_MEMORY, with its own text. */
__attribute__((cold)) hf_status hfi_error_memory(hf_error *err);

/* The static analyzer sees one file at a time; this tells it what those two return. */
#if defined(__clang_analyzer__) && !defined(HFI_ERROR_C)
#define hfi_error_set(err, status, ...) (hfi_error_set(err, status, __VA_ARGS__), (status))
#define hfi_error_memory(err)           (hfi_error_memory(err), HF_NO_MEMORY)
#endif
#endif
