/* SPDX-License-Identifier: MIT */
/*
 * The native methods of Native.java, and the callbacks of the library into it. Callbacks come on the store's poller, which
 * is a Java thread, and on threads of the library, which are attached as daemons and detached when they end.
 */
#include "binding.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ROOM 1024 /* on the stack, for what a call is given; larger calls use the heap */

static JavaVM *vm;
static jclass native_class;
static jmethodID done_method, event_method, update_method, error_method;
static pthread_key_t attached; /* threads that we have attached: they detach when they end */

/* ---- callbacks -------------------------------------------------------------------------- */

static void detach(void *unused)
{
    (void)unused;
    (*vm)->DetachCurrentThread(vm);
}

/* NULL: the virtual machine is ending. */
static JNIEnv *get_env(void)
{
    JNIEnv *env = NULL;
    JavaVMAttachArgs args = { .version = JNI_VERSION_10, .name = (char *)"holdfast-library" };

    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) == JNI_OK)
        return env;
    if ((*vm)->AttachCurrentThreadAsDaemon(vm, (void **)&env, &args) != JNI_OK)
        return NULL;
    (void)pthread_setspecific(attached, env);
    return env;
}

/* The Java side catches everything; what escapes it all the same (no memory, no stack) must not stay pending. */
static void clear(JNIEnv *env)
{
    if ((*env)->ExceptionCheck(env))
        (*env)->ExceptionClear(env);
}

void on_done(const hf_result *result, void *arg)
{
    struct call *call = arg;
    JNIEnv *env = get_env();
    struct out out = { 0 };
    jbyteArray array = NULL;

    write_result(&out, result);
    if (env)
        array = out_close(&out, env);
    else
        free(out.bytes);
    if (!array)
        give_back(result);
    free_result(result);
    if (env) {
        (*env)->CallStaticVoidMethod(env, native_class, done_method, call->id, array);
        clear(env);
        if (array)
            (*env)->DeleteLocalRef(env, array);
    }
    free(call->update_bytes);
    free(call);
}

void on_event(hf_lease *lease, hf_event event, const char *text, void *arg)
{
    JNIEnv *env = get_env();
    struct out out = { 0 };
    jbyteArray array;

    if (!env)
        return;
    out_number(&out, (int64_t)hf_lease_token(lease));
    out_text(&out, text);
    array = out_close(&out, env);
    (*env)->CallStaticVoidMethod(env, native_class, event_method, (jlong)(intptr_t)arg, (jint)event,
                                 array);
    clear(env);
    if (array)
        (*env)->DeleteLocalRef(env, array);
}

/* The answer of the Java function: action, ttl, bytes. */
static hf_status read_change(struct in *in, struct call *call, hf_cell_change *change)
{
    const void *bytes;
    void *copy;

    change->action = (hf_cell_action)in_number(in);
    change->ttl_ms = in_number(in);
    bytes = in_bytes(in, &change->len);
    if (change->action != HF_CELL_ACTION_WRITE)
        return HF_OK;
    copy = realloc(call->update_bytes, change->len + 1);
    if (!copy)
        return HF_NO_MEMORY;
    if (change->len > 0)
        memcpy(copy, bytes, change->len);
    change->bytes = call->update_bytes = copy;
    return HF_OK;
}

hf_status on_update(const hf_cell *old, hf_cell_change *change, void *arg)
{
    struct call *call = arg;
    JNIEnv *env = get_env();
    struct out out = { 0 };
    hf_status status = HF_CANCELLED; /* the function failed: Java knows how */
    jbyteArray array, answer = NULL;
    struct in in;

    if (!env)
        return status;
    out_number(&out, (int64_t)old->version);
    out_number(&out, old->ttl_ms);
    out_bytes(&out, old->version != 0 ? old->bytes : NULL, old->len);
    array = out_close(&out, env);
    if (!array)
        return HF_NO_MEMORY;
    answer = (*env)->CallStaticObjectMethod(env, native_class, update_method, call->id, array);
    clear(env);
    if (answer && in_open(&in, env, answer, NULL, 0)) {
        status = read_change(&in, call, change);
        in_close(&in);
    }
    clear(env);
    (*env)->DeleteLocalRef(env, array);
    if (answer)
        (*env)->DeleteLocalRef(env, answer);
    return status;
}

/* ---- errors ----------------------------------------------------------------------------- */

/* Throw what error_method makes of it. */
static void throw_error(JNIEnv *env, hf_status status, const hf_error *error)
{
    struct out out = { 0 };
    jbyteArray array;
    jobject exception;

    out_text(&out, error ? error->text : NULL);
    array = out_close(&out, env);
    exception = (*env)->CallStaticObjectMethod(env, native_class, error_method, (jint)status,
                                               (jint)(error ? error->native : 0), array);
    if (!(*env)->ExceptionCheck(env))
        (void)(*env)->Throw(env, exception);
}

static jbyteArray close_or_throw(struct out *out, JNIEnv *env)
{
    jbyteArray array = out_close(out, env);

    if (!array)
        throw_error(env, HF_NO_MEMORY, NULL);
    return array;
}

/* ---- the library ------------------------------------------------------------------------ */

static jstring get_version(JNIEnv *env, jclass self)
{
    (void)self;
    return (*env)->NewStringUTF(env, hf_version());
}

static jint get_version_number(JNIEnv *env, jclass self)
{
    (void)env;
    (void)self;
    return hf_version_number();
}

static jstring get_status_name(JNIEnv *env, jclass self, jint status)
{
    (void)self;
    return (*env)->NewStringUTF(env, hf_status_name((hf_status)status));
}

static jstring get_status_text(JNIEnv *env, jclass self, jint status)
{
    (void)self;
    return (*env)->NewStringUTF(env, hf_status_text((hf_status)status));
}

static jbyteArray get_engines(JNIEnv *env, jclass self)
{
    struct out out = { 0 };
    const hf_engine_info *engine;
    int64_t count = 0;

    (void)self;
    for (size_t i = 0; hf_engine_get(i); i++)
        for (size_t mode = 0; hf_engine_get_mode(i, mode); mode++)
            count++;
    out_number(&out, count);
    for (size_t i = 0; hf_engine_get(i); i++)
        for (size_t mode = 0; (engine = hf_engine_get_mode(i, mode)); mode++)
            write_engine(&out, engine);
    return close_or_throw(&out, env);
}

/* ---- stores ----------------------------------------------------------------------------- */

static jlong open_store(JNIEnv *env, jclass self, jbyteArray args)
{
    hf_open_options options = HF_OPEN_OPTIONS_INIT;
    unsigned char room[ROOM];
    hf_store *store = NULL;
    const char *url;
    hf_status status;
    hf_error error;
    struct in in;

    (void)self;
    if (!in_open(&in, env, args, room, sizeof room))
        return 0;
    url = in_text(&in);
    options.open_wait_ms = in_number(&in);
    options.label = in_text(&in);
    options.flags = (uint64_t)in_number(&in);
    status = hf_open(url, &options, &store, &error);
    in_close(&in);
    if (status != HF_OK)
        throw_error(env, status, &error);
    return (jlong)(intptr_t)store;
}

static jint close_store(JNIEnv *env, jclass self, jlong store, jlong flags)
{
    (void)env;
    (void)self;
    return (jint)hf_close(handle_of(store), (uint64_t)flags);
}

static jbyteArray get_store(JNIEnv *env, jclass self, jlong store)
{
    hf_store_info info = HF_STORE_INFO_INIT;
    struct out out = { 0 };
    hf_status status = hf_store_get(handle_of(store), &info);

    (void)self;
    if (status != HF_OK) {
        throw_error(env, status, NULL);
        return NULL;
    }
    write_store_info(&out, &info);
    return close_or_throw(&out, env);
}

static jbyteArray get_stats(JNIEnv *env, jclass self, jlong store)
{
    struct out out = { 0 };
    hf_status status = stats_get(handle_of(store), &out);

    (void)self;
    if (status != HF_OK) {
        throw_error(env, status, NULL);
        return NULL;
    }
    return close_or_throw(&out, env);
}

static void release_idle(JNIEnv *env, jclass self, jlong store)
{
    hf_error error;
    hf_status status = hf_idle_release(handle_of(store), &error);

    (void)self;
    if (status != HF_OK)
        throw_error(env, status, &error);
}

/* ---- the poller ------------------------------------------------------------------------- */

static jint get_store_fd(JNIEnv *env, jclass self, jlong store)
{
    (void)env;
    (void)self;
    return hf_store_fd(handle_of(store));
}

static jint get_timeout(JNIEnv *env, jclass self, jlong store)
{
    (void)env;
    (void)self;
    return hf_store_timeout_ms(handle_of(store));
}

static jint make_bell(JNIEnv *env, jclass self)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    (void)self;
    if (fd < 0) {
        hf_error error = { .native = errno, .text = "no descriptor is left for the poller" };

        throw_error(env, HF_UNAVAILABLE, &error);
    }
    return fd;
}

static void ring_bell(JNIEnv *env, jclass self, jint bell)
{
    uint64_t one = 1;

    (void)env;
    (void)self;
    if (write(bell, &one, sizeof one) < 0)
        return; /* it is full, so it rings */
}

static void close_bell(JNIEnv *env, jclass self, jint bell)
{
    (void)env;
    (void)self;
    (void)close(bell);
}

/* Sleep until the bell rings or, with a store, until there is something to do for it; then do it. */
static jboolean poll_store(JNIEnv *env, jclass self, jlong store, jint fd, jint bell,
                           jint timeout_ms)
{
    struct pollfd fds[2] = { { .fd = bell, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
    uint64_t count;
    int ready;

    (void)env;
    (void)self;
    ready = poll(fds, fd >= 0 ? 2 : 1, timeout_ms);
    if (ready > 0 && fds[0].revents && read(bell, &count, sizeof count) < 0)
        ready = 0; /* another look */
    if (fd >= 0)
        (void)hf_store_process(handle_of(store));
    return ready > 0;
}

/* ---- calls ------------------------------------------------------------------------------ */

static jlong begin(JNIEnv *env, jclass self, jint number, jlong handle, jbyteArray args, jlong id)
{
    struct call *call = calloc(1, sizeof *call);
    unsigned char room[ROOM];
    hf_error error = { .status = HF_NO_MEMORY };
    hf_status status = HF_NO_MEMORY;
    hf_op *op = NULL;
    struct in in;

    (void)self;
    if (call && in_open(&in, env, args, room, sizeof room)) {
        call->id = id;
        status = begin_call(number, handle_of(handle), &in, call, &op, &error);
        in_close(&in);
    }
    if (status != HF_OK) {
        free(call);
        if (!(*env)->ExceptionCheck(env))
            throw_error(env, status, &error);
    }
    return (jlong)(intptr_t)op;
}

static jint cancel(JNIEnv *env, jclass self, jlong op)
{
    (void)env;
    (void)self;
    return (jint)hf_op_cancel(handle_of(op));
}

/* One try, on the calling thread: at most a round trip. 0: it is busy. */
static jlong acquire_now(JNIEnv *env, jclass self, jlong store, jbyteArray wanted, jlong scope,
                         jlong sink)
{
    hf_acquire_request request;
    unsigned char room[ROOM];
    hf_lease *lease = NULL;
    hf_status status;
    hf_error error;
    struct in in;

    (void)self;
    if (!in_open(&in, env, wanted, room, sizeof room))
        return 0;
    read_wanted(&in, &request);
    request.scope = (uint64_t)scope;
    set_sink(&request, sink);
    status = hf_acquire(handle_of(store), &request, &lease, &error);
    in_close(&in);
    if (status == HF_OK)
        return (jlong)(intptr_t)lease;
    if (status != HF_BUSY)
        throw_error(env, status, &error);
    return 0;
}

static void release_now(JNIEnv *env, jclass self, jlong lease)
{
    hf_error error;
    hf_status status = hf_release(handle_of(lease), &error);

    (void)self;
    if (status != HF_OK)
        throw_error(env, status, &error);
}

/* ---- leases ----------------------------------------------------------------------------- */

static jbyteArray get_lease(JNIEnv *env, jclass self, jlong lease)
{
    hf_lease_info info = HF_LEASE_INFO_INIT;
    struct out out = { 0 };
    hf_status status = hf_lease_get(handle_of(lease), &info);

    (void)self;
    if (status != HF_OK) {
        throw_error(env, status, NULL);
        return NULL;
    }
    write_lease_info(&out, &info);
    return close_or_throw(&out, env);
}

static jlong get_token(JNIEnv *env, jclass self, jlong lease)
{
    (void)env;
    (void)self;
    return (jlong)hf_lease_token(handle_of(lease));
}

static jint get_state(JNIEnv *env, jclass self, jlong lease)
{
    (void)env;
    (void)self;
    return (jint)hf_lease_state(handle_of(lease));
}

static jlong get_remaining(JNIEnv *env, jclass self, jlong lease)
{
    (void)env;
    (void)self;
    return hf_lease_remaining_ms(handle_of(lease));
}

static jboolean is_wanted(JNIEnv *env, jclass self, jlong lease)
{
    (void)env;
    (void)self;
    return hf_lease_wanted(handle_of(lease));
}

static jlong get_fence(JNIEnv *env, jclass self, jlong lease)
{
    uint64_t token = 0;
    hf_error error;
    hf_status status = hf_lease_fence(handle_of(lease), &token, &error);

    (void)self;
    if (status != HF_OK)
        throw_error(env, status, &error);
    return (jlong)token;
}

static jstring export_lease(JNIEnv *env, jclass self, jlong lease)
{
    char text[HF_LEASE_TEXT_MAX];
    hf_status status = hf_lease_export(handle_of(lease), text);

    (void)self;
    if (status == HF_OK)
        return (*env)->NewStringUTF(env, text);
    throw_error(env, status, NULL);
    return NULL;
}

static jbyteArray get_session(JNIEnv *env, jclass self, jlong lease, jbyteArray around)
{
    char text[HF_SESSION_TEXT_MAX];
    unsigned char room[ROOM];
    struct out out = { 0 };
    hf_status status;
    hf_error error;
    struct in in;

    (void)self;
    if (!in_open(&in, env, around, room, sizeof room))
        return NULL;
    status = hf_session_get(handle_of(lease), in_text(&in), text, &error);
    in_close(&in);
    if (status != HF_OK) {
        throw_error(env, status, &error);
        return NULL;
    }
    out_text(&out, text);
    return close_or_throw(&out, env);
}

static void free_members(JNIEnv *env, jclass self, jlong members)
{
    (void)env;
    (void)self;
    hf_free(handle_of(members));
}

/* ---- loading ---------------------------------------------------------------------------- */

#define METHOD(name, signature, function)                 \
    {                                                     \
        (char *)name, (char *)signature, (void *)function \
    }

static const JNINativeMethod methods[] = {
    METHOD("version", "()Ljava/lang/String;", get_version),
    METHOD("versionNumber", "()I", get_version_number),
    METHOD("statusName", "(I)Ljava/lang/String;", get_status_name),
    METHOD("statusText", "(I)Ljava/lang/String;", get_status_text),
    METHOD("engines", "()[B", get_engines),
    METHOD("open", "([B)J", open_store),
    METHOD("close", "(JJ)I", close_store),
    METHOD("storeInfo", "(J)[B", get_store),
    METHOD("stats", "(J)[B", get_stats),
    METHOD("bound", "(I)J", stats_bound),
    METHOD("quantile", "([JD)J", stats_quantile),
    METHOD("releaseIdle", "(J)V", release_idle),
    METHOD("storeFd", "(J)I", get_store_fd),
    METHOD("timeout", "(J)I", get_timeout),
    METHOD("makeBell", "()I", make_bell),
    METHOD("ringBell", "(I)V", ring_bell),
    METHOD("closeBell", "(I)V", close_bell),
    METHOD("poll", "(JIII)Z", poll_store),
    METHOD("begin", "(IJ[BJ)J", begin),
    METHOD("cancel", "(J)I", cancel),
    METHOD("acquireNow", "(J[BJJ)J", acquire_now),
    METHOD("releaseNow", "(J)V", release_now),
    METHOD("leaseInfo", "(J)[B", get_lease),
    METHOD("token", "(J)J", get_token),
    METHOD("state", "(J)I", get_state),
    METHOD("remaining", "(J)J", get_remaining),
    METHOD("wanted", "(J)Z", is_wanted),
    METHOD("fence", "(J)J", get_fence),
    METHOD("export", "(J)Ljava/lang/String;", export_lease),
    METHOD("session", "(J[B)[B", get_session),
    METHOD("freeMembers", "(J)V", free_members),
};

static bool find_methods(JNIEnv *env)
{
    jclass found = (*env)->FindClass(env, "holdfast/Native");

    if (!found)
        return false;
    native_class = (*env)->NewGlobalRef(env, found);
    (*env)->DeleteLocalRef(env, found);
    if (!native_class)
        return false;
    done_method = (*env)->GetStaticMethodID(env, native_class, "done", "(J[B)V");
    if (done_method)
        event_method = (*env)->GetStaticMethodID(env, native_class, "event", "(JI[B)V");
    if (event_method)
        update_method = (*env)->GetStaticMethodID(env, native_class, "update", "(J[B)[B");
    if (update_method)
        error_method = (*env)->GetStaticMethodID(env, native_class, "error",
                                                 "(II[B)Lholdfast/HoldfastException;");
    return error_method && (*env)->RegisterNatives(env, native_class, methods,
                                                   sizeof methods / sizeof *methods) == JNI_OK;
}

JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *machine, void *reserved)
{
    JNIEnv *env;

    (void)reserved;
    vm = machine;
    if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK ||
        pthread_key_create(&attached, detach) != 0 || !find_methods(env))
        return JNI_ERR;
    return JNI_VERSION_10;
}
