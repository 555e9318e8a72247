/* SPDX-License-Identifier: MIT */
/* The doctor's findings in Chinese, for the command and the live page: the library and its engines say them in English. */
#ifndef HFI_FINDING_ZH_H
#define HFI_FINDING_ZH_H

#include <stdbool.h>
#include <stddef.h>

/* The Chinese of a finding's text, with the values that are in it. false: there is none, or no room; then ret_text is the text as it is,
 * cut to the room. A server's name before it ("host:6379: ") stays. */
bool hfi_finding_zh(const char *text, char *ret_text, size_t room);

/* The word for a topic in Chinese. NULL: it is a name of a setting, or not known. */
const char *hfi_topic_zh(const char *topic);

#endif
