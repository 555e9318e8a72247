/* SPDX-License-Identifier: MIT */
/* The scripts of scripts/ as the build made them; scripts/README.md is their interface. */
#ifndef REDLOCK_SCRIPTS_H
#define REDLOCK_SCRIPTS_H

#include "engine/redis/command.h"

extern const struct hfi_script redlock_script_acquire, redlock_script_write, redlock_script_release,
    redlock_script_beat, redlock_script_renew, redlock_script_adopt, redlock_script_note,
    redlock_script_break, redlock_script_ask, redlock_script_look, redlock_script_status,
    redlock_script_mark, redlock_script_install, redlock_script_seal, redlock_script_plain_adopt;

#endif
