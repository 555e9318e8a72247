/* SPDX-License-Identifier: MIT */
#include "engine/redis/rd.h"
const struct rd_way hfi_rd_plain = { 0 };
const struct rd_way hfi_rd_redisson = { 0 };
