/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without libFuzzer: TARGET [-rounds=N] [-seed=N] FILE|DIRECTORY...
 *
 * First every file as it is, then N times one that was changed at random: bytes replaced, removed, repeated, two
 * files spliced. A crash leaves the input in crash-TARGET in the current directory. Knows nothing of coverage:
 * make fuzz does, and its findings become files of the corpus.
 */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX   (64u << 10)
#define INPUTS_MAX  4096
#define CHANGES_MAX 6

struct input {
    size_t len;
    uint8_t *bytes;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;
static const uint8_t *current;
static size_t current_len;
static const char *crash_name;
static uint64_t seed = 1;

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct input *input = &inputs[input_count];

    MUST(file && input_count < INPUTS_MAX);
    input->bytes = malloc(INPUT_MAX);
    MUST(input->bytes);
    input->len = fread(input->bytes, 1, INPUT_MAX, file);
    fclose(file);
    input_count++;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add(const char *path)
{
    struct dirent **entries = NULL;
    struct stat about;
    int count;

    MUST(stat(path, &about) == 0);
    if (!S_ISDIR(about.st_mode)) {
        add_file(path);
        return;
    }
    count = scandir(path, &entries, NULL, by_name); /* sorted: a seed means the same everywhere */
    for (int i = 0; i < count; i++) {
        char name[4096];

        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            add_file(name);
        free(entries[i]);
    }
    free(entries);
}

/* Only what a signal handler may do. */
static void keep_crash(int number)
{
    int fd = creat(crash_name, 0644);

    if (fd >= 0 && write(fd, current, current_len) >= 0)
        close(fd);
    signal(number, SIG_DFL);
    raise(number);
}

static void run(const uint8_t *bytes, size_t len)
{
    uint8_t *exact = fuzz_exact(bytes, len);

    current = exact;
    current_len = len;
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static uint64_t pick(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static size_t change(uint8_t *bytes, size_t len)
{
    static const uint8_t telling[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '0', '9', '-', '%', '/' };
    size_t at = len ? pick(len) : 0, more = 1 + pick(8);
    const struct input *other = &inputs[pick(input_count)];

    switch (pick(6)) {
    case 0: /* a bit */
        if (len)
            bytes[at] ^= (uint8_t)(1u << pick(8));
        return len;
    case 1: /* a byte */
        if (len)
            bytes[at] = pick(2) ? telling[pick(sizeof telling)] : (uint8_t)pick(256);
        return len;
    case 2: /* fewer */
        if (more > len - at)
            more = len - at;
        memmove(bytes + at, bytes + at + more, len - at - more);
        return len - more;
    case 3: /* some twice */
        if (more > len - at)
            more = len - at;
        if (len + more > INPUT_MAX)
            return len;
        memmove(bytes + at + more, bytes + at, len - at);
        return len + more;
    case 4: /* cut */
        return at;
    default: /* goes on as another one does */
        more = other->len ? pick(other->len) : 0;
        if (at + other->len - more > INPUT_MAX)
            return len;
        memcpy(bytes + at, other->bytes + more, other->len - more);
        return at + other->len - more;
    }
}

static void run_changed(void)
{
    static uint8_t bytes[INPUT_MAX];
    const struct input *input = &inputs[pick(input_count)];
    size_t len = input->len;

    memcpy(bytes, input->bytes, len);
    for (uint64_t n = 1 + pick(CHANGES_MAX); n > 0; n--)
        len = change(bytes, len);
    run(bytes, len);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    char crash[256];
    unsigned long rounds = 0;

    snprintf(crash, sizeof crash, "crash-%s", name ? name + 1 : argv[0]);
    crash_name = crash;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-rounds=", 8) == 0)
            rounds = strtoul(argv[i] + 8, NULL, 10);
        else if (strncmp(argv[i], "-seed=", 6) == 0)
            seed = strtoull(argv[i] + 6, NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        else
            add(argv[i]);
    }
    MUST(input_count > 0); /* a corpus that is not there proves nothing */
    signal(SIGABRT, keep_crash);
#if !defined(__SANITIZE_ADDRESS__)
    signal(SIGSEGV, keep_crash);
    signal(SIGBUS, keep_crash);
    signal(SIGFPE, keep_crash);
#endif

    for (size_t i = 0; i < input_count; i++)
        run(inputs[i].bytes, inputs[i].len);
    for (unsigned long i = 0; i < rounds; i++)
        run_changed();
    printf("%zu files and %lu changed ones\n", input_count, rounds);
    for (size_t i = 0; i < input_count; i++)
        free(inputs[i].bytes);
    return 0;
}
