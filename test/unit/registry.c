/* SPDX-License-Identifier: MIT */
/* The registry: what is found, what is refused, what is listed. registry_modules.c loads modules. */
#include "unit.h"

#include "core/registry.h"
#include "engine/redis/extension.h"
#include "holdfast/redis.h"

#include <string.h>

static const struct hfi_engine first = {
    .abi = HFI_ENGINE_ABI,
    .promises = &(const struct hfi_promises){ .name = "first", .schemes = "one two+x file" },
};
static const struct hfi_engine second = {
    .abi = HFI_ENGINE_ABI,
    .promises = &(const struct hfi_promises){ .name = "second", .schemes = "two+x three" },
};

static void unknown_schemes(void **state)
{
    static const char *const schemes[] = { "",        "fil",   "files", "file redis", "redis ",
                                           "../../x", "REDIS", "lmdb",  "redis+",     "http" };
    const struct hfi_engine *engine = &first;
    hf_error err;

    (void)state;
    for (size_t i = 0; i < COUNT(schemes); i++) {
        assert_int_equal(hfi_registry_find(schemes[i], &engine, &err), HF_CONFIG);
        assert_int_equal(err.status, HF_CONFIG);
        assert_non_null(strstr(err.text, schemes[i]));
        assert_ptr_equal(engine, &first);
    }
    assert_int_equal(hfi_registry_find("\x1b[2J", &engine, &err), HF_CONFIG);
    assert_memory_equal(err.text, "no engine for the scheme '\\x1b[2J'; there ",
                        strlen("no engine for the scheme '\\x1b[2J'; there "));
    assert_int_equal(hfi_registry_find("nope", &engine, NULL), HF_CONFIG);
}

static void listed_engines_are_there(void **state)
{
    const hf_engine_info *info;
    size_t count = 0;

    (void)state;
    while ((info = hf_engine_get(count))) {
        const struct hfi_engine *engine = NULL;
        char scheme[32] = "";

        assert_true(info->available);
        assert_true(strlen(info->name) > 0);
        memccpy(scheme, info->schemes, ' ', sizeof scheme - 1);
        scheme[strcspn(scheme, " ")] = 0;
        assert_int_equal(hfi_registry_find(scheme, &engine, NULL), HF_OK);
        assert_string_equal(engine->promises->name, info->name);
        count++;
    }
    assert_null(hf_engine_get(count + 1));
    assert_null(hf_engine_get(SIZE_MAX));
}

static void added_engines_win(void **state)
{
    const struct hfi_engine *engine = NULL;
    const hf_engine_info *info;

    (void)state;
    hfi_registry_add(&first);
    assert_int_equal(hfi_registry_find("one", &engine, NULL), HF_OK);
    assert_ptr_equal(engine, &first);
    assert_int_equal(hfi_registry_find("two+x", &engine, NULL), HF_OK);
    assert_ptr_equal(engine, &first);
    assert_int_equal(hfi_registry_find("file", &engine, NULL), HF_OK);
    assert_ptr_equal(engine, &first);
    assert_int_equal(hfi_registry_find("two", &engine, NULL), HF_CONFIG);

    hfi_registry_add(&second);
    hfi_registry_add(&second); /* again: nothing happens */
    assert_int_equal(hfi_registry_find("two+x", &engine, NULL), HF_OK);
    assert_ptr_equal(engine, &second);
    assert_int_equal(hfi_registry_find("one", &engine, NULL), HF_OK);
    assert_ptr_equal(engine, &first);

    info = hf_engine_get(0);
    assert_non_null(info);
    assert_ptr_equal(info, hf_engine_get(0));
    assert_string_equal(info->name, "first");
    info = hf_engine_get(1);
    assert_non_null(info);
    assert_string_equal(info->name, "second");
    assert_true(info->available);
    info = hf_engine_get(2);
    if (info)
        assert_string_not_equal(info->name, "second");
}

static const struct hfi_redis_extension other = { .head = { HFI_REDIS_EXTENSION,
                                                            sizeof other + sizeof(void *) } };
static const struct hfi_engine third = {
    .abi = HFI_ENGINE_ABI,
    .promises = &(const struct hfi_promises){ .name = "third", .schemes = "third" },
    .admin = &(const struct hfi_admin){ .extension = &other.head },
};

/* The calls of an extension are found by name, and only in a struct of the size that we know. */
static void extensions_are_of_one_size(void **state)
{
    hf_redlock_status *nodes = NULL;
    hf_error err;

    (void)state;
    hfi_registry_add(&third);
    assert_int_equal(hf_script_kill("third:x", 1, &err), HF_VERSION);
    assert_non_null(strstr(err.text, "another build"));
    assert_int_equal(hf_redlock_get_status("third:x", &nodes, &err), HF_UNSUPPORTED);
    assert_string_equal(err.text, "third: this engine has nothing to administer");
    assert_null(nodes);
    assert_int_equal(hf_script_kill("one:x", 1, &err), HF_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_schemes),
        cmocka_unit_test(listed_engines_are_there),
        cmocka_unit_test(added_engines_win),
        cmocka_unit_test(extensions_are_of_one_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
