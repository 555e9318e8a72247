/* SPDX-License-Identifier: MIT */
/* JavaScript's values from and to C. What is wrong with an argument is noted in args->err: the call then does not begin. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args_block {
    struct args_block *next;
    _Alignas(16) char memory[];
};

/* ---- from JavaScript --------------------------------------------------------------------------- */

void args_init(struct args *args, napi_env env, struct store *store, napi_value *value)
{
    args->env = env;
    args->store = store;
    args->slot = NULL;
    args->value = value;
    args->err = store ? &store->error : NULL;
    args->used = 0;
    args->more = NULL;
    if (args->err)
        args->err->status = HF_OK;
}

void args_done(struct args *args)
{
    struct args_block *next;

    for (; args->more; args->more = next) {
        next = args->more->next;
        free(args->more);
    }
}

static void refuse(struct args *args, hf_status status, const char *what, const char *wrong)
{
    if (args->err->status != HF_OK)
        return;
    args->err->status = status;
    args->err->native = 0;
    snprintf(args->err->text, sizeof args->err->text, "%s: %s", what, wrong);
}

/* Never NULL without a refusal. */
void *args_memory(struct args *args, size_t size)
{
    struct args_block *block;
    char *memory;

    size = (size + 15) & ~(size_t)15;
    if (size <= sizeof args->room - args->used) {
        memory = args->room + args->used;
        args->used += size;
        return memory;
    }
    block = malloc(sizeof *block + size);
    if (!block) {
        refuse(args, HF_NO_MEMORY, "arguments", "out of memory");
        return NULL;
    }
    block->next = args->more;
    args->more = block;
    return block->memory;
}

static struct bytes string_bytes(struct args *args, napi_value value)
{
    size_t room = sizeof args->room - args->used, len = 0;
    char *memory = args->room + args->used;

    if (napi_get_value_string_utf8(args->env, value, memory, room, &len) == napi_ok &&
        len + 4 < room) { /* a character that did not fit may be three bytes more */
        args->used += (len + 16) & ~(size_t)15;
        if (args->used > sizeof args->room)
            args->used = sizeof args->room;
        return (struct bytes){ memory, len };
    }
    napi_get_value_string_utf8(args->env, value, NULL, 0, &len);
    memory = args_memory(args, len + 1);
    if (memory)
        napi_get_value_string_utf8(args->env, value, memory, len + 1, &len);
    return (struct bytes){ memory ? memory : "", memory ? len : 0 };
}

static bool view_bytes(struct args *args, napi_value value, struct bytes *ret)
{
    napi_typedarray_type type;
    napi_value buffer;
    void *data = NULL;
    size_t count = 0, offset;
    bool is = false;

    if (napi_is_typedarray(args->env, value, &is) != napi_ok || !is ||
        napi_get_typedarray_info(args->env, value, &type, &count, &data, &buffer, &offset) !=
            napi_ok ||
        (type != napi_uint8_array && type != napi_uint8_clamped_array))
        return false;
    *ret = (struct bytes){ data ? data : "", count };
    return true;
}

struct bytes args_bytes(struct args *args, napi_value value, const char *what)
{
    struct bytes bytes = { "", 0 };
    napi_valuetype type = napi_undefined;

    napi_typeof(args->env, value, &type);
    if (type == napi_string)
        return string_bytes(args, value);
    if (type != napi_object || !view_bytes(args, value, &bytes))
        refuse(args, HF_INVALID, what, "must be a string or a Uint8Array");
    return bytes;
}

const char *args_text(struct args *args, napi_value value, const char *what)
{
    struct bytes bytes;
    napi_valuetype type = napi_undefined;

    if (is_nothing(args->env, value))
        return NULL;
    napi_typeof(args->env, value, &type);
    if (type != napi_string) {
        refuse(args, HF_INVALID, what, "must be a string");
        return NULL;
    }
    bytes = string_bytes(args, value);
    if (memchr(bytes.at, 0, bytes.len))
        refuse(args, HF_INVALID, what, "has a NUL in it");
    return bytes.at;
}

int64_t args_int(struct args *args, napi_value value)
{
    int64_t number = 0;

    napi_get_value_int64(args->env, value, &number);
    return number;
}

/* A BigInt, signed or not, or a number. */
uint64_t args_big(struct args *args, napi_value value)
{
    napi_valuetype type = napi_undefined;
    uint64_t number = 0;
    int64_t negative = 0;
    bool exact = true;

    napi_typeof(args->env, value, &type);
    if (type != napi_bigint)
        return (uint64_t)args_int(args, value);
    napi_get_value_bigint_uint64(args->env, value, &number, &exact);
    if (exact)
        return number;
    napi_get_value_bigint_int64(args->env, value, &negative, &exact);
    if (!exact)
        refuse(args, HF_INVALID, "number", "has more than 64 bits");
    return (uint64_t)negative;
}

/* What an external of ours points to. */
struct seen_memory {
    enum seen kind;
    void *memory;
};

void *args_seen(struct args *args, napi_value value, enum seen kind)
{
    void *found = NULL;
    const struct seen_memory *seen;

    if (is_nothing(args->env, value))
        return NULL;
    seen = napi_get_value_external(args->env, value, &found) == napi_ok ? found : NULL;
    if (seen && seen->kind == kind)
        return seen->memory;
    refuse(args, HF_INVALID, "last", "is not what this call returned");
    return NULL;
}

struct slot *args_lease(struct args *args, napi_value value)
{
    int64_t index = args_int(args, value);
    struct slot *slot = index >= 0 ? slot_at(args->store, (uint32_t)index, USE_LEASE) : NULL;

    if (!slot || !slot->lease) {
        refuse(args, HF_INVALID, "lease", "it has ended");
        return NULL;
    }
    return slot;
}

hf_lease *args_handle(struct args *args, napi_value value)
{
    struct slot *slot = args_lease(args, value);

    return slot ? slot->lease : NULL;
}

uint32_t args_count(struct args *args, napi_value list)
{
    uint32_t count = 0;

    napi_get_array_length(args->env, list, &count);
    return count;
}

napi_value args_item(struct args *args, napi_value list, uint32_t index)
{
    napi_value value = NULL;

    if (napi_get_element(args->env, list, index, &value) != napi_ok)
        napi_get_undefined(args->env, &value);
    return value;
}

/* name, kind, capacity, permits, flags, wait, ttl, rare: what few requests have, as a list, or undefined. */
void args_request(struct args *args, napi_value *value, struct slot *slot, hf_acquire_request *ret)
{
    struct bytes name = args_bytes(args, value[0], "name");
    napi_value rare = value[7];

    *ret = (hf_acquire_request)HF_ACQUIRE_REQUEST_INIT;
    ret->name = name.at;
    ret->name_len = name.len;
    ret->kind = (hf_kind)args_int(args, value[1]);
    ret->capacity = (uint32_t)args_int(args, value[2]);
    ret->permits = (uint32_t)args_int(args, value[3]);
    ret->flags = (uint64_t)args_int(args, value[4]);
    ret->wait_ms = args_int(args, value[5]);
    ret->ttl_ms = args_int(args, value[6]);
    ret->on_event = on_event;
    ret->on_event_arg = slot;
    slot->reentrant = ret->flags & HF_FLAG_REENTRANT;
    if (is_nothing(args->env, rare))
        return;
    ret->max_hold_ms = args_int(args, args_item(args, rare, 0));
    ret->min_valid_ms = args_int(args, args_item(args, rare, 1));
    ret->lock_delay_ms = args_int(args, args_item(args, rare, 2));
    ret->min_hold_ms = args_int(args, args_item(args, rare, 3));
    ret->linger_ms = args_int(args, args_item(args, rare, 4));
    ret->scope = args_big(args, args_item(args, rare, 5));
    ret->label = args_text(args, args_item(args, rare, 6), "label");
    ret->session = args_text(args, args_item(args, rare, 7), "session");
}

bool is_nothing(napi_env env, napi_value value)
{
    napi_valuetype type = napi_undefined;

    return !value || napi_typeof(env, value, &type) != napi_ok || type == napi_undefined ||
           type == napi_null;
}

/* ---- to JavaScript: they fail only while the environment ends, and then nothing sees the value ------ */

napi_value make_int(napi_env env, int64_t number)
{
    napi_value value = NULL;

    if (number >= INT32_MIN && number <= INT32_MAX)
        napi_create_int32(env, (int32_t)number, &value);
    else
        napi_create_int64(env, number, &value);
    return value;
}

napi_value make_number(napi_env env, double number)
{
    napi_value value = NULL;

    napi_create_double(env, number, &value);
    return value;
}

napi_value make_big(napi_env env, uint64_t number)
{
    napi_value value = NULL;

    napi_create_bigint_uint64(env, number, &value);
    return value;
}

napi_value make_bool(napi_env env, bool is)
{
    napi_value value = NULL;

    napi_get_boolean(env, is, &value);
    return value;
}

napi_value make_text(napi_env env, const char *text)
{
    napi_value value = NULL;

    if (text)
        napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value); /* bad UTF-8: U+FFFD */
    else
        napi_get_undefined(env, &value);
    return value;
}

napi_value make_bytes(napi_env env, const void *bytes, size_t len)
{
    napi_value value = NULL;

    napi_create_buffer_copy(env, len, bytes ? bytes : "", NULL, &value);
    return value;
}

static void free_external(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    hf_free(((struct seen_memory *)data)->memory);
    free(data);
}

napi_value make_seen(napi_env env, void *memory, enum seen kind)
{
    struct seen_memory *seen = malloc(sizeof *seen);
    napi_value value = NULL;

    if (seen)
        *seen = (struct seen_memory){ .kind = kind, .memory = memory };
    if (!seen || napi_create_external(env, seen, free_external, NULL, &value) != napi_ok) {
        hf_free(memory);
        free(seen);
    }
    return value;
}

void put(napi_env env, napi_value object, const char *name, napi_value value)
{
    if (object && value)
        napi_set_named_property(env, object, name, value);
}
