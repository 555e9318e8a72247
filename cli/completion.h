/* SPDX-License-Identifier: MIT */
/* What the completion script of each shell begins with: completion/helpers.*, compiled in. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

extern const char completion_bash[], completion_zsh[], completion_fish[];

#endif
