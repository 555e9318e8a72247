/* SPDX-License-Identifier: MIT */
/*
 * What a store cannot do, in words. The engine says why (struct hfi_promises, `lacks`); the words for what it is are here, the same
 * for every engine.
 */
#ifndef HFI_LACK_H
#define HFI_LACK_H

#include "engine/engine.h"

/* HF_UNSUPPORTED: "FIELD: engine NAME has no WHAT: WHY", for the first of `caps` that the promises do not have; all of them are
 * looked at. `field` may be NULL. */
hf_status hfi_unsupported(const struct hfi_promises *promises, uint64_t caps, const char *field,
                          hf_error *err);

/* Never NULL. */
const hf_engine_lack *hfi_lacks(const struct hfi_promises *promises);

/* Are the reasons of these promises whole: one for each capability that is missing, none for one that is there? `ret_cap` says for
 * which they are not, `ret_wrong` in words what is wrong. */
bool hfi_lacks_are_whole(const struct hfi_promises *promises, uint64_t *ret_cap,
                         const char **ret_wrong);

#endif
