/* SPDX-License-Identifier: MIT */
/* The scripts of this engine, generated from scripts/NAME.lua by the build. scripts/README.md
 * describes their arguments and answers. */
#ifndef HFI_REDIS_SCRIPTS_H
#define HFI_REDIS_SCRIPTS_H

#include "engine/redis/command.h"

extern const struct hfi_script hfi_script_acquire, hfi_script_release, hfi_script_cancel,
    hfi_script_beat, hfi_script_renew, hfi_script_adopt, hfi_script_note, hfi_script_break,
    hfi_script_look, hfi_script_resize, hfi_script_ask, hfi_script_cell_read, hfi_script_cell_swap,
    hfi_script_cell_commit, hfi_script_counter_set, hfi_script_limit, hfi_script_rights;

/* The foreign wire modes; plain.h has those that Redlock uses too. */
extern const struct hfi_script hfi_script_plain_look, hfi_script_redisson_acquire,
    hfi_script_redisson_release, hfi_script_redisson_renew, hfi_script_redisson_count,
    hfi_script_redisson_look;

#endif
