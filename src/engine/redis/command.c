/* SPDX-License-Identifier: MIT */
/*
 * Commands as bytes on the wire: length-prefixed arguments, one after the other. Nothing is ever
 * quoted or interpolated, so an argument may contain any byte.
 *
 * An argument may be a password: a buffer that is outgrown or given back is wiped first.
 */
#include "engine/redis/command.h"

#include "util/alloc.h"

#include <string.h>

#define NUMBER_ROOM 24 /* digits of a 64-bit number, its sign, and some */

static char *reserve(struct hfi_command *command, size_t more);
static char *put_number(char *to, int64_t number);
static char *put_header(char *to, char type, size_t number);
static size_t number_length(size_t number);

void hfi_command_init(struct hfi_command *command)
{
    command->script = NULL;
    command->whole = command->failed = command->read_only = false;
    command->argc = 0;
    command->slot = HFI_SLOT_ANY;
    command->len = 0;
    command->room = sizeof command->in_place;
    command->bytes = command->in_place;
}

void hfi_command_init_script(struct hfi_command *command, const struct hfi_script *script,
                             uint32_t key_count)
{
    hfi_command_init(command);
    command->script = script;
    if (script)
        hfi_command_add_number(command, key_count);
}

void hfi_command_done(struct hfi_command *command)
{
    if (command->bytes == command->in_place)
        return;
    explicit_bzero(command->bytes, command->len);
    hfi_free(command->bytes);
    command->bytes = command->in_place;
    command->len = 0;
    command->room = sizeof command->in_place;
}

void hfi_command_choose_text(struct hfi_command *command, struct hfi_script_set *sent)
{
    size_t i = 0;

    if (!command->script)
        return;
    while (i < HFI_SCRIPTS_MAX && sent->scripts[i] && sent->scripts[i] != command->script)
        i++;
    command->whole = i == HFI_SCRIPTS_MAX || !sent->scripts[i];
    if (i < HFI_SCRIPTS_MAX)
        sent->scripts[i] = command->script;
}

void hfi_command_add(struct hfi_command *command, const void *data, size_t len)
{
    char *to = reserve(command, len);

    if (!to)
        return;

    to = put_header(to, '$', len);
    if (len)
        memcpy(to, data, len);
    to += len;
    *to++ = '\r';
    *to++ = '\n';

    command->len = (size_t)(to - command->bytes);
    command->argc++;
}

void hfi_command_add_text(struct hfi_command *command, const char *text)
{
    hfi_command_add(command, text, strlen(text));
}

void hfi_command_add_number(struct hfi_command *command, int64_t number)
{
    char digits[NUMBER_ROOM];

    hfi_command_add(command, digits, (size_t)(put_number(digits, number) - digits));
}

static const char *verb_of(const struct hfi_command *command)
{
    if (command->read_only)
        return command->whole ? "$7\r\nEVAL_RO\r\n" : "$10\r\nEVALSHA_RO\r\n";
    return command->whole ? "$4\r\nEVAL\r\n" : "$7\r\nEVALSHA\r\n";
}

size_t hfi_command_head(const struct hfi_command *command, char *ret_head)
{
    const struct hfi_script *script = command->script;
    const char *verb = verb_of(command);
    const char *body = NULL;
    size_t len = 0;
    char *to = ret_head;

    if (!script) {
        if (ret_head)
            (void)put_header(ret_head, '*', command->argc);
        return 3 + number_length(command->argc);
    }

    body = command->whole ? script->text : script->sha;
    len = command->whole ? script->len : sizeof script->sha - 1;
    if (ret_head) {
        to = put_header(to, '*', (size_t)command->argc + 2);
        to = stpcpy(to, verb);
        to = put_header(to, '$', len);
        to = mempcpy(to, body, len);
        memcpy(to, "\r\n", 2);
    }
    return 3 + number_length((size_t)command->argc + 2) + strlen(verb) + 3 + number_length(len) +
           len + 2;
}

/* Room for an argument of `more` bytes with what goes around it; NULL: out of memory, now or
 * before. */
static char *reserve(struct hfi_command *command, size_t more)
{
    size_t need = command->len + more + NUMBER_ROOM + 5;
    char *larger;

    if (command->failed)
        return NULL;
    if (need <= command->room)
        return command->bytes + command->len;

    need = need * 3 / 2;
    larger = hfi_malloc(need);
    if (!larger) {
        command->failed = true;
        return NULL;
    }
    memcpy(larger, command->bytes, command->len);
    explicit_bzero(command->bytes, command->len);
    if (command->bytes != command->in_place)
        hfi_free(command->bytes);
    command->bytes = larger;
    command->room = need;
    return larger + command->len;
}

/* "$12\r\n" */
static char *put_header(char *to, char type, size_t number)
{
    *to++ = type;
    to = put_number(to, (int64_t)number);
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

static char *put_number(char *to, int64_t number)
{
    char digits[NUMBER_ROOM];
    char *at = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    if (number >= 0 && number < 10) { /* most are */
        *to = (char)('0' + number);
        return to + 1;
    }
    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    return mempcpy(to, at, (size_t)(digits + sizeof digits - at));
}

static size_t number_length(size_t number)
{
    size_t len = 1;

    while (number /= 10)
        len++;
    return len;
}
