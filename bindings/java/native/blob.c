/* SPDX-License-Identifier: MIT */
/* What crosses the border between Java and C: numbers and bytes in one array. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

bool in_open(struct in *in, JNIEnv *env, jbyteArray array, unsigned char *room, size_t room_len)
{
    size_t len = (size_t)(*env)->GetArrayLength(env, array);

    in->copy = NULL;
    if (len > room_len) {
        room = in->copy = malloc(len);
        if (!room) {
            jclass type = (*env)->FindClass(env, "java/lang/OutOfMemoryError");

            if (type)
                (*env)->ThrowNew(env, type, "holdfast");
            return false;
        }
    }
    (*env)->GetByteArrayRegion(env, array, 0, (jsize)len, (jbyte *)room);
    in->at = room;
    in->end = room + len;
    return true;
}

void in_close(struct in *in)
{
    free(in->copy);
}

int64_t in_number(struct in *in)
{
    int64_t number = 0;

    if ((size_t)(in->end - in->at) < sizeof number)
        return 0;
    memcpy(&number, in->at, sizeof number);
    in->at += sizeof number;
    return number;
}

const void *in_bytes(struct in *in, size_t *ret_len)
{
    int64_t len = in_number(in);
    const void *bytes = in->at;

    *ret_len = 0;
    if (len < 0 || len >= in->end - in->at)
        return NULL;
    *ret_len = (size_t)len;
    in->at += len + 1;
    return bytes;
}

const char *in_text(struct in *in)
{
    size_t len;

    return in_bytes(in, &len);
}

static void append(struct out *out, const void *bytes, size_t len)
{
    size_t room = out->room ? out->room : 256;
    unsigned char *grown;

    while (room - out->len < len)
        room *= 2;
    if (room != out->room) {
        grown = out->failed ? NULL : realloc(out->bytes, room);
        if (!grown) {
            out->failed = true;
            return;
        }
        out->bytes = grown;
        out->room = room;
    }
    if (len > 0)
        memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

void out_number(struct out *out, int64_t number)
{
    append(out, &number, sizeof number);
}

void out_bytes(struct out *out, const void *bytes, size_t len)
{
    out_number(out, bytes ? (int64_t)len : -1);
    if (bytes)
        append(out, bytes, len);
}

void out_text(struct out *out, const char *text)
{
    out_bytes(out, text, text ? strlen(text) : 0);
}

jbyteArray out_close(struct out *out, JNIEnv *env)
{
    jbyteArray array = out->failed ? NULL : (*env)->NewByteArray(env, (jsize)out->len);

    if (array)
        (*env)->SetByteArrayRegion(env, array, 0, (jsize)out->len, (const jbyte *)out->bytes);
    else if ((*env)->ExceptionCheck(env))
        (*env)->ExceptionClear(env);
    free(out->bytes);
    memset(out, 0, sizeof *out);
    return array;
}
