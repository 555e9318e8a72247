/* SPDX-License-Identifier: MIT */
/* The scripts of scripts/ as the build made them; scripts/README.md is their interface. */
#ifndef HFI_RL_SCRIPTS_H
#define HFI_RL_SCRIPTS_H

#include "engine/redis/command.h"

extern const struct hfi_script hfi_rl_script_acquire, hfi_rl_script_write, hfi_rl_script_release,
    hfi_rl_script_beat, hfi_rl_script_renew, hfi_rl_script_adopt, hfi_rl_script_note,
    hfi_rl_script_break, hfi_rl_script_look, hfi_rl_script_status, hfi_rl_script_mark,
    hfi_rl_script_install, hfi_rl_script_seal;

#endif
