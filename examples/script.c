/* SPDX-License-Identifier: MIT */
/*
 * A script on a Redis server: loaded once, and from then on run by its SHA-1, forty bytes instead of its text.
 *
 * A server forgets its scripts when it is restarted, and a replica that takes over may never have had them. So a program that runs
 * one by its SHA-1 is ready to load it again. (hf_script_run() with a text does the same by itself; the SHA-1 is for scripts whose
 * text the program need not have.)
 */
#include <holdfast/redis.h>

#include "example.h"

#include <inttypes.h>
#include <unistd.h>

/* Reading, comparing and writing are one step: nobody sells what is not there. */
static const char sell[] = "local left = tonumber(redis.call('GET', KEYS[1]) or 0)\n"
                           "if left < tonumber(ARGV[1]) then return -1 end\n"
                           "return redis.call('DECRBY', KEYS[1], ARGV[1])\n";

static hf_status run(hf_store *store, hf_script_request script, const char *key, const char *arg,
                     int64_t *ret_number, hf_error *err)
{
    hf_value *value = NULL;
    hf_status status;

    script.keys = &key;
    script.key_count = 1;
    script.args = &arg;
    script.arg_count = 1;
    status = hf_script_run(store, &script, &value, err);
    if (status == HF_OK && ret_number)
        *ret_number = hf_value_get_integer(value);
    hf_free(value);
    return status;
}

/* A short one, sent as it is. */
static void run_text(hf_store *store, const char *text, const char *key, const char *arg)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_error err;

    script.text = text;
    script.text_len = HF_CSTRING;
    must(run(store, script, key, arg, NULL, &err), &err);
}

/* Sell so many; how many are left? -1: there are not so many. Counts in *loads how often the server had to be given the script. */
static int64_t sell_some(hf_store *store, char sha1[HF_SCRIPT_SHA1_LEN + 1], const char *key,
                         const char *how_many, int *loads)
{
    hf_script_request script = HF_SCRIPT_REQUEST_INIT;
    hf_status status;
    hf_error err;
    int64_t left = 0;

    script.sha1 = sha1;
    status = run(store, script, key, how_many, &left, &err);
    if (status == HF_NOT_FOUND) { /* it did not run */
        must(hf_script_load(store, sell, HF_CSTRING, sha1, &err), &err);
        ++*loads;
        status = run(store, script, key, how_many, &left, &err);
    }
    must(status, &err);
    printf("sell %s: %" PRId64 "\n", how_many, left);
    return left;
}

int main(int argc, char **argv)
{
    /* One that no server knows: as after a restart. */
    char sha1[HF_SCRIPT_SHA1_LEN + 1] = "0000000000000000000000000000000000000000";
    char key[64];
    hf_store *store;
    int loads = 0;

    needs(url_of(argc, argv), HF_CAP_SCRIPTS);
    store = open_store(argc, argv);
    snprintf(key, sizeof key, "example:stock:%d", (int)getpid());
    run_text(store, "return redis.call('SET', KEYS[1], ARGV[1])", key, "10");

    expect(sell_some(store, sha1, key, "4", &loads) == 6, "the first are sold");
    expect(sell_some(store, sha1, key, "4", &loads) == 2, "and the next");
    expect(sell_some(store, sha1, key, "4", &loads) == -1, "there are not so many");
    expect(sell_some(store, sha1, key, "2", &loads) == 0, "all are sold");
    printf("the script was loaded %d time, as %s\n", loads, sha1);
    expect(loads == 1, "it is loaded once");
    run_text(store, "return redis.call('DEL', KEYS[1])", key, "");
    close_store(store);
    return 0;
}
